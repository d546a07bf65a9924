"""Twins of the places that the daily scan opens."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from governor.core.errors import AccessDenied
from governor.core.instance import Target
from governor.core.units import UtcDatetime
from governor.policy.model.policy import Policy
from governor.scan.kind import Place
from governor.scan.model import Unread
from tests.unit.scan.kinds import ApiTwin

DENIED = AccessDenied("no", operation="sts:AssumeRole", words="not authorized to assume the role")


@dataclass
class OpenPlaceTwin:
    """An open place whose figures a test gives."""

    place: Place
    calls: int = 0
    usd_spent: Decimal = Decimal()
    prices: tuple[Unread, ...] = ()

    def unread_prices(self) -> tuple[Unread, ...]:
        """Return the test's lines about prices."""
        return self.prices


@dataclass
class PlacesTwin:
    """Opens places where EC2 answers DescribeRegions as `regions` says: a document, or an error. A
    test may give the means to read them instead."""

    regions: Any = field(default_factory=lambda: {"Regions": []})
    calls: int = 0
    usd_spent: Decimal = Decimal()
    prices: tuple[Unread, ...] = ()
    opened: list[Target] = field(default_factory=list)
    closed: int = 0
    api: Any = None
    instances: Any = None

    def open(self, target: Target, policy: Policy, now: UtcDatetime) -> OpenPlaceTwin:
        """Return the place."""
        self.opened.append(target)
        api: Any = self.api or ApiTwin({"ec2:DescribeRegions": self.regions})
        means: dict[str, Any] = {"instances": self.instances, "metrics": None, "prices": None}
        place = Place(target=target, api=api, policy=policy, now=now, **means)
        return OpenPlaceTwin(place, self.calls, self.usd_spent, self.prices)

    def close(self) -> None:
        """Count that the memory is given back."""
        self.closed += 1


class ClosedPlaces(PlacesTwin):
    """Opens places whose role cannot be assumed."""

    def __init__(self) -> None:
        """Refuse every call."""
        super().__init__(regions=DENIED)
