"""A pause: somebody holds back everything that destroys, in every target, until a named person ends
it.

Neither time nor the policy ends one. `domain.approvals.pausing` says who may begin and end it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from governor.domain.units import UtcDatetime, people


@dataclass(frozen=True, slots=True)
class Pause:
    """The pause that stands: since when, by whom, and why."""

    at: UtcDatetime
    by: str
    reason: str | None = None

    @property
    def why(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"paused by {people(self.by)}{reason}"


class PauseEvent(StrEnum):
    """An event that people are notified of, by the name of the message."""

    BEGUN = "paused"
    ENDED = "pause ended"


_SENT_BY_THE_PRESS = timedelta(minutes=2)
"""The function that a press invokes has ended by then: what it has not sent is left to the
sweep."""


@dataclass(frozen=True, slots=True)
class PauseMessage:
    """A message about a pause: that it has begun, or ended, when, and by whom."""

    event: PauseEvent
    pause: Pause
    by: str
    at: UtcDatetime

    def is_left_to_the_sweep(self, standing: Pause | None, now: datetime) -> bool:
        """Return whether the sweep sends it. The end of a pause makes the message of its begin
        obsolete."""
        is_obsolete = self.event is PauseEvent.BEGUN and self.pause != standing
        return not is_obsolete and now - self.at >= _SENT_BY_THE_PRESS
