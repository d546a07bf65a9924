"""Records of the breaker: what turned in each sweep, and what is frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from governor.core.units import UtcDatetime
from governor.verdict.model import VerdictKind


@dataclass(frozen=True, slots=True)
class BreakerState:
    """A freeze of a target's destructive plans: since when, and why."""

    tripped_at: UtcDatetime
    why: str
    told_at: UtcDatetime | None = None
    """The time of the last notification; `None` until a channel has accepted the message."""
    turned: int = 0
    """How many instances turned idle or silent at once."""
    held: frozenset[str] = frozenset()
    """The ids of those that have not been seen at work since."""


@dataclass(frozen=True, slots=True)
class Change:
    """One instance between two sweeps.

    `last_known` is the newest verdict by measurement before this sweep: neither a failed read nor a
    keep may hide that the instance worked. `was_read` is true if its metrics were read and are not
    late.
    """

    instance_id: str
    before: VerdictKind | None
    last_known: VerdictKind | None
    after: VerdictKind
    was_read: bool


@dataclass(frozen=True, slots=True)
class SweepDay:
    """The most that turned idle, and the most that fell silent, in one sweep of a day (UTC)."""

    day: date
    most_idle: int
    most_silent: int


@dataclass(frozen=True, slots=True)
class Turned:
    """One sweep in numbers: `idle` of the instances that `worked` before turned idle; `silent` of
    those that had data before, and were read now (`heard`), fell silent.

    `who` holds the ids of both. `unused` holds idle instances that have not worked since launch.
    """

    worked: int
    idle: int
    heard: int
    silent: int
    who: frozenset[str] = frozenset()
    unused: frozenset[str] = frozenset()

    @property
    def counted(self) -> frozenset[str]:
        """Return the ids that the breaker over all targets counts."""
        return self.who | self.unused


@dataclass(frozen=True, slots=True)
class HourCount:
    """How many instances turned in an hour, and how many of them have worked since."""

    turned: int = 0
    back: int = 0

    @property
    def left(self) -> int:
        return max(0, self.turned - self.back)


@dataclass(frozen=True, slots=True)
class Hub:
    """The counts by the start of their hour, and the freeze that stands, if any."""

    hours: Mapping[UtcDatetime, HourCount] = field(default_factory=dict)
    freeze: BreakerState | None = None
    first: UtcDatetime | None = None
    """The hour of the first count. It is kept when the count is forgotten: after quiet weeks the
    breaker is not new again."""
