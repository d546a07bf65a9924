"""Records of the breakers: how many instances turned idle or silent in each sweep, and which plans
are frozen.

An instance turns when it becomes idle, or falls silent, between two sweeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from governor.core.units import UtcDatetime
from governor.verdict.model import VerdictKind


@dataclass(frozen=True, slots=True)
class BreakerState:
    """A freeze of the destructive plans of a target, or of all targets: since when, and why."""

    tripped_at: UtcDatetime
    why: str
    told_at: UtcDatetime | None = None
    """The time of the last notification; `None` until a channel has accepted the message."""
    turned: int = 0
    """How many instances turned idle or silent at once."""
    left_ids: frozenset[str] = frozenset()
    """The ids of the instances that turned and have not been seen at work since. Stored as
    `held`."""


@dataclass(frozen=True, slots=True)
class Change:
    """One instance between two sweeps.

    `before` and `after` are the verdicts of the two sweeps; `before` is `None` for an instance that
    the earlier sweep did not see. `last_known` is the newest verdict by measurement before this
    sweep: neither a failed read nor a keep may hide that the instance worked. `was_read` is true if
    its metrics were read and are not late.
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
    """The instances of one sweep that turned, in numbers and by id."""

    worked: int
    """How many instances worked before this sweep and are not silent now."""
    idle: int
    """How many of those turned idle."""
    measured: int
    """How many instances had data before, and were read in this sweep."""
    silent: int
    """How many of those fell silent."""
    turned_ids: frozenset[str] = frozenset()
    """The ids of the instances that turned idle or fell silent."""
    unused_ids: frozenset[str] = frozenset()
    """The ids of idle instances that have not worked since launch."""

    @property
    def counted_ids(self) -> frozenset[str]:
        """Return the ids of the instances that the breaker over all targets counts: those that
        turned idle or silent, and idle ones that have not worked since launch."""
        return self.turned_ids | self.unused_ids


@dataclass(frozen=True, slots=True)
class HourCount:
    """How many instances turned idle or silent in an hour, and how many of them have worked since
    (`back`)."""

    turned: int = 0
    back: int = 0

    @property
    def left(self) -> int:
        """Return how many of the instances that turned have not worked since; never below zero."""
        return max(0, self.turned - self.back)


@dataclass(frozen=True, slots=True)
class Hub:
    """The counts over all targets, by the start of their hour, and the freeze of everything that
    stands; `None` if none does."""

    hours: Mapping[UtcDatetime, HourCount] = field(default_factory=dict)
    freeze: BreakerState | None = None
    first: UtcDatetime | None = None
    """The hour of the first count. It is kept when the count is forgotten: after quiet weeks the
    breaker is not new again."""
