"""Rows of one sweep, and costs of each day: small enough to be read whole for every page of the
console."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date
from decimal import Decimal
from operator import add, attrgetter

from governor.domain.evidence import Evidence, peak
from governor.domain.instance import Target
from governor.domain.sweep.breaker import HOUR, hour_of
from governor.domain.sweep.verdict import KEPT, Family, VerdictKind
from governor.domain.units import Usd, UsdPerHour, UtcDatetime

Hours = tuple[int | None, ...]
"""The highest utilization in percent by hour (UTC), oldest first; `None` where nothing was
measured."""
HOURS = 24
NOT_MEASURED: Hours = (None,) * HOURS
REASON_CHARACTERS = 120
MOST_UNGOVERNED = 500
UNGOVERNED = "ungoverned"
"""In place of a verdict: it does not carry the policy's selector, so that it is shown, and nothing
else."""


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One instance as the last sweep of its target saw it, or as one in the hour before, if
    `UNGOVERNED`. `verdict` is that or a `VerdictKind`'s value, `reason` its sentence, cut to
    `REASON_CHARACTERS`. The last of the `hours` is that of the sweep. `approval_id` is there while
    a question is open, `asked_at` and `expires_at` once it is sent."""

    instance_id: str
    name: str
    account: str
    region: str
    instance_type: str
    owner: str
    project: str
    verdict: str
    reason: str
    usd_per_hour: UsdPerHour | None
    launched_at: UtcDatetime
    idle_since: UtcDatetime | None = None
    managed_by: str | None = None
    kept_until: UtcDatetime | None = None
    exempt: bool = False
    episode: str | None = None
    approval_id: str | None = None
    asked_at: UtcDatetime | None = None
    expires_at: UtcDatetime | None = None
    verb: str | None = None
    """The action of the open episode: `stop` or `terminate`; `None` where it plans neither."""
    is_reported: bool = False
    """Nobody is asked about it, as far as is known: its idleness is reported, and nothing
    follows."""
    quiet_until: UtcDatetime | None = None
    hours: Hours = NOT_MEASURED
    advice: tuple[str, ...] = ()
    created_by: str | None = None
    """Its creator, if `UNGOVERNED`: empty where CloudTrail does not know, `None` until it is
    asked."""


@dataclass(frozen=True, slots=True)
class FleetPage:
    """The rows of one target by its last sweep. `problem` says why it is incomplete, without
    names."""

    account: str
    region: str
    swept_at: UtcDatetime
    mode: str
    problem: str | None = None
    rows: tuple[FleetRow, ...] = ()

    @property
    def target(self) -> Target:
        return Target(self.account, self.region)


def hours_of(past: Hours, passed: int, found: Iterable[Evidence], now: UtcDatetime) -> Hours:
    """Return the hours up to `now`: those of a row that is so many hours old, and what was read
    since."""
    hours: list[float | None] = [*past[passed:], *NOT_MEASURED[:passed]]
    for evidence in found:
        window = evidence.window
        for back in range(HOURS):
            start = hour_of(now) - HOUR * back
            if start + HOUR <= window.start:
                break
            first, last = (
                max(0, (at - window.start) // window.period) for at in (start, start + HOUR)
            )
            for series in (*(gpu.utilization for gpu in evidence.gpus), evidence.aggregate):
                highest = [
                    one for one in (hours[-1 - back], peak(series[first:last])) if one is not None
                ]
                hours[-1 - back] = max(highest, default=None)
    return tuple(None if one is None else min(100, round(one)) for one in hours)


@dataclass(frozen=True, slots=True)
class Share:
    """Cost of instances while used, idle, kept by an answer, and not measured."""

    used: Usd = Decimal(0)
    idle: Usd = Decimal(0)
    kept: Usd = Decimal(0)
    unmeasured: Usd = Decimal(0)

    @property
    def total(self) -> Usd:
        return self.used + self.idle + self.kept + self.unmeasured

    def __add__(self, other: Share) -> Share:
        return Share(*map(add, AMOUNTS(self), AMOUNTS(other)))


UNMEASURED = "unmeasured"
AMOUNTS: Callable[[Share], tuple[Usd, ...]] = attrgetter(*(one.name for one in fields(Share)))
_PARTS = {Family.WORKING: "used", Family.IDLE: "idle"}


def part_of(kind: VerdictKind | None) -> str:
    if kind in KEPT:
        return "kept"
    return UNMEASURED if kind is None else _PARTS.get(kind.family, UNMEASURED)


@dataclass(frozen=True, slots=True)
class DayCosts:
    """Cost of the governed instances of one target on a day (UTC), by owner and project."""

    day: date
    account: str
    region: str
    shares: Mapping[tuple[str, str], Share] = field(default_factory=dict)

    def plus(self, more: Mapping[tuple[str, str], Share]) -> DayCosts:
        added = {whose: self.shares.get(whose, Share()) + share for whose, share in more.items()}
        return replace(self, shares={**self.shares, **added})
