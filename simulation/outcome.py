"""The result of a replay: questions, stops and how they ended, by instance and policy.

Nothing is replayed or counted here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from governor.core.units import Usd, UtcDatetime
from governor.policy.model.policy import Mode
from simulation.recording import Recording

HIT_SOON = timedelta(hours=1)
"""A stop is a false one if work resumes within this time, as in the policy's ledger by default."""


class Ending(StrEnum):
    """How a question ended, or the notification that was sent instead of one."""

    STOPPED = "stopped"
    WOKE_UP = "woke-up"
    """Work resumed before the answer, or before the recheck."""
    REFUSED = "refused"
    """The recheck found no idleness and no work, or plans were frozen."""
    EXPIRED = "expired"
    GONE = "gone"
    """Others stopped the instance before the answer."""
    TOLD = "told"
    """No plan was possible, so nobody was asked."""
    OPEN = "open"
    """The record ends before the answer."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The effect of one stop, until work resumed, others stopped it, or the record ends."""

    at: UtcDatetime
    until: UtcDatetime
    hit_work: bool
    """True if work resumed at `until`. Otherwise others stopped it, or the record ends."""
    usd: Usd | None
    """Saved in that time, after EBS and snapshot costs; `None` if the price is not known."""

    @property
    def length(self) -> timedelta:
        """How long it would have been stopped."""
        return self.until - self.at

    @property
    def is_hit_soon(self) -> bool:
        """Return whether work resumed within an hour."""
        return self.hit_work and self.length <= HIT_SOON


@dataclass(frozen=True, slots=True)
class Event:
    """One idle episode under the policy. `sent_at` is `None` if nobody was asked."""

    found_at: UtcDatetime
    sent_at: UtcDatetime | None
    ended_at: UtcDatetime
    ending: Ending
    reason: str
    stop: Stop | None = None
    worked_at: UtcDatetime | None = None
    """When recorded work resumed after the question; `None` if not before `seen_until`."""
    seen_until: UtcDatetime | None = None
    """The end of the record of what became of it."""

    @property
    def asked_at(self) -> UtcDatetime | None:
        """Return when people were asked, or when it was stopped without asking; `None` if neither
        happened."""
        if self.sent_at is not None:
            return self.sent_at
        return self.stop.at if self.stop is not None else None

    @property
    def is_wrong(self) -> bool | None:
        """Return whether work was back within an hour of the question; `None` if nobody can
        know."""
        asked_at = self.asked_at
        if asked_at is None:
            return None
        if self.worked_at is not None:
            return self.worked_at - asked_at < HIT_SOON
        if self.seen_until is not None and self.seen_until - asked_at >= HIT_SOON:
            return False
        return None


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
    """How long it ran without a verdict, because readings were missing."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The effect of one policy on all of them. `freezes` counts how often the breaker tripped."""

    name: str
    version: str
    mode: Mode
    results: tuple[InstanceResult, ...]
    freezes: int
