"""Cost of GPU Governor itself: what was used, times list prices in us-east-1, in Decimal USD."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from governor.domain.units import Usd


class Unit(NamedTuple):
    """A price in USD for so many (`per`). `source` says what its use is measured by."""

    what: str
    usd: Usd
    per: int
    source: str


UNITS: Mapping[str, Unit] = {
    "metrics": Unit("CloudWatch metrics read", Decimal("0.01"), 1_000, "MetricsRead"),
    "listings": Unit("calls of ListMetrics", Decimal("0.01"), 1_000, "calls"),
    "transitions": Unit(
        "state transitions", Decimal("0.025"), 1_000, "ExecutionsStarted x states of the last"
    ),
    "gb_seconds": Unit("GB-seconds of Lambda", Decimal("0.0000133334"), 1, "Duration x memory"),
    "invocations": Unit("invocations of Lambda", Decimal("0.20"), 1_000_000, "Invocations"),
    "writes": Unit("DynamoDB write units", Decimal("0.625"), 1_000_000, "ConsumedWriteCapacityUnits"),
    "reads": Unit("DynamoDB read units", Decimal("0.125"), 1_000_000, "ConsumedReadCapacityUnits"),
    "keys": Unit("months of KMS keys", Decimal(1), 1, "resources of the stack"),
    "secrets": Unit("months of secrets", Decimal("0.40"), 1, "resources of the stack"),
    "alarms": Unit("months of CloudWatch alarms", Decimal("0.10"), 1, "resources of the stack"),
    "own_metrics": Unit("months of metrics of its own", Decimal("0.30"), 1, "ListMetrics, at most"),
}
"""Lambda is that on arm64. Source: the price pages of the services."""


def usd_of(unit: str, quantity: Decimal | int) -> Usd:
    return UNITS[unit].usd * quantity / UNITS[unit].per


class Line(NamedTuple):
    """`quantity` and `usd` are `None` where the use is not known; that is in no sum."""

    unit: Unit
    quantity: Decimal | None
    usd: Usd | None


@dataclass(frozen=True, slots=True)
class OwnCost:
    lines: tuple[Line, ...]

    @property
    def usd(self) -> Usd:
        return sum((line.usd for line in self.lines if line.usd is not None), Decimal(0))

    @property
    def is_whole(self) -> bool:
        return all(line.usd is not None for line in self.lines)

    def percent_of(self, fleet: Usd) -> Decimal | None:
        """Return its share in what the fleet costs; `None` where that is nothing."""
        return 100 * self.usd / fleet if fleet else None


def own_cost(used: Mapping[str, Decimal | None]) -> OwnCost:
    """Return what was used of each of `UNITS`, the most expensive first."""
    lines = (
        Line(UNITS[name], quantity, None if quantity is None else usd_of(name, quantity))
        for name, quantity in used.items()
    )
    return OwnCost(tuple(sorted(lines, key=lambda line: -(line.usd or 0))))
