"""The result of a replay: questions, stops and how they ended, by instance and policy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from governor.domain.policy.policy import Mode
from governor.domain.units import Usd, UtcDatetime
from simulation.recording import Recording

HIT_SOON = timedelta(hours=1)
"""Work that resumes within this time makes a stop a false one: the default of the policy's ledger,
too."""


class Ending(StrEnum):
    """How a question, or what was told instead of one, ended."""

    STOPPED = "stopped"
    WOKE_UP = "woke-up"
    """Work resumed before the answer, or the recheck saw it."""
    REFUSED = "refused"
    """The recheck found no idleness and no work, or plans were frozen."""
    EXPIRED = "expired"
    GONE = "gone"
    """Others put the instance away before the answer."""
    TOLD = "told"
    """No plan was possible, so nobody was asked."""
    OPEN = "open"
    """The record ends before the answer."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The effect of one stop. `until` is when work resumed, others put it away, or the record
    ends."""

    at: UtcDatetime
    until: UtcDatetime
    hit_work: bool
    """Work resumed at `until`. Otherwise others put it away, or the record ends."""
    usd: Usd | None
    """Saved between the two, net of what EBS and snapshots go on costing; `None` where unpriced."""

    @property
    def length(self) -> timedelta:
        """How long it would have stayed away."""
        return self.until - self.at

    @property
    def is_hit_soon(self) -> bool:
        """Return whether work resumed within an hour."""
        return self.hit_work and self.length <= HIT_SOON


@dataclass(frozen=True, slots=True)
class Event:
    """One idle episode under the policy. `sent_at` is `None` where nobody was asked."""

    found_at: UtcDatetime
    sent_at: UtcDatetime | None
    ended_at: UtcDatetime
    ending: Ending
    reason: str
    stop: Stop | None = None
    worked_at: UtcDatetime | None = None
    """Time at which recorded work came back after the question; `None`: not before `seen_until`."""
    seen_until: UtcDatetime | None = None
    """Until when the record shows what became of it."""

    @property
    def asked_at(self) -> UtcDatetime | None:
        """Return when people were asked, or when it was stopped without asking; `None` where
        neither happened."""
        return self.sent_at or (None if self.stop is None else self.stop.at)

    @property
    def is_wrong(self) -> bool | None:
        """Return whether work was back within an hour of the question; `None` where nobody can
        know."""
        asked = self.asked_at
        if asked is None:
            return None
        if self.worked_at is not None:
            return self.worked_at - asked < HIT_SOON
        return (
            False if self.seen_until is not None and self.seen_until - asked >= HIT_SOON else None
        )


@dataclass(frozen=True, slots=True)
class InstanceResult:
    """The effect of one policy on one instance."""

    recording: Recording
    owner: str
    events: tuple[Event, ...]
    idle: timedelta
    """In stretches of at least an hour without any work, by the policy's own limits."""
    idle_left: timedelta
    """The part of `idle` in which it would still have run."""
    no_data: timedelta
    """How long it ran without a verdict for want of readings."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The effect of one policy on all of them. `freezes` counts how often the breaker tripped."""

    name: str
    version: str
    mode: Mode
    results: tuple[InstanceResult, ...]
    freezes: int
