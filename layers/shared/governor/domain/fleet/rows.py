"""What one sweep saw, and what each day cost: small enough to be read whole for every page of the console."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal

from governor.domain.instance import Target
from governor.domain.units import Usd, UsdPerHour, UtcDatetime

HOURS = 24
"""How many hours of utilization a row keeps."""
REASON_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One governed instance as the last sweep of its target saw it.

    `verdict` is the value of a `VerdictKind`, and `reason` its sentence, cut to `REASON_CHARACTERS`.
    `asked_at` is `None` while an open question has not been sent. `hours` holds the highest utilization in
    percent of each of the last `HOURS` hours (UTC), oldest first; `None` where nothing was measured.
    """

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
    """The execution name of its open episode."""
    approval_id: str | None = None
    asked_at: UtcDatetime | None = None
    expires_at: UtcDatetime | None = None
    verb: str | None = None
    """What the open episode is about: `stop` or `terminate`; `None` where it plans neither."""
    hours: tuple[int | None, ...] = (None,) * HOURS


@dataclass(frozen=True, slots=True)
class FleetPage:
    """What the last sweep of one target saw. `problem` says why it is incomplete, and names no instance."""

    account: str
    region: str
    swept_at: UtcDatetime
    mode: str
    problem: str | None = None
    rows: tuple[FleetRow, ...] = ()

    @property
    def target(self) -> Target:
        return Target(self.account, self.region)


@dataclass(frozen=True, slots=True)
class Share:
    """What instances cost while they were used, idle, left alone by decision, and not measured."""

    used: Usd = Decimal(0)
    idle: Usd = Decimal(0)
    kept: Usd = Decimal(0)
    unmeasured: Usd = Decimal(0)

    @property
    def total(self) -> Usd:
        return self.used + self.idle + self.kept + self.unmeasured

    def __add__(self, other: Share) -> Share:
        return Share(
            self.used + other.used,
            self.idle + other.idle,
            self.kept + other.kept,
            self.unmeasured + other.unmeasured,
        )


@dataclass(frozen=True, slots=True)
class DayCosts:
    """What the governed instances of one target cost on a day (UTC), by owner and project."""

    day: date
    account: str
    region: str
    shares: Mapping[tuple[str, str], Share] = field(default_factory=dict)
