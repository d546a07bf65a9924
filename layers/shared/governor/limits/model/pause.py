"""The record of a pause, in which somebody holds back everything that destroys, in every target,
until a named person ends it.

Neither time nor the policy ends one. `approvals.rules.pausing` says who may begin and end it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from governor.core.units import UtcDatetime, people


@dataclass(frozen=True, slots=True)
class Pause:
    """The pause that stands: since when, by whom, and why."""

    at: UtcDatetime
    by: str
    reason: str | None = None

    @property
    def why(self) -> str:
        """Return who paused, and the reason if one was given, as the end of a sentence: `paused by
        alice@example.com: broken agent`."""
        reason = f": {self.reason}" if self.reason else ""
        return f"paused by {people(self.by)}{reason}"


class PauseEvent(StrEnum):
    """An event that people are notified of, by the name of the message."""

    BEGUN = "paused"
    ENDED = "pause ended"


_SENT_BY_THE_PRESS = timedelta(minutes=2)
"""The function that a press invokes has ended by then: what it has not sent is left to the
sweep."""
_END_IS_NEWS_FOR = timedelta(hours=1)
"""After this time, the message of an end says that GPU Governor was paused, from when to when."""
_END_IS_SENT_FOR = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class PauseMessage:
    """A message about a pause: that it has begun, or ended, when, and by whom."""

    event: PauseEvent
    pause: Pause
    by: str
    at: UtcDatetime

    def is_left_to_the_sweep(self, standing: Pause | None, now: datetime) -> bool:
        """Return whether the sweep must send this message now. Call it only for a message that
        nobody was sent yet. `standing` is the pause that stands now; `None` if nothing is paused.

        It is false in the first two minutes, which are left to the function that made the message.
        After them it is true for a beginning as long as its pause stands, and for an end until that
        is seven days ago.
        """
        age = now - self.at
        if age < _SENT_BY_THE_PRESS:
            return False
        if self.event is PauseEvent.BEGUN:
            return self.pause == standing
        return age <= _END_IS_SENT_FOR

    def is_history(self, standing: Pause | None, now: datetime) -> bool:
        """Return whether the message is about a past pause: the pause ended an hour ago or earlier,
        or another one is `standing` by now. It is false for a beginning. `standing` is `None` if
        nothing is paused."""
        if self.event is PauseEvent.BEGUN:
            return False
        return standing is not None or now - self.at >= _END_IS_NEWS_FOR
