"""The result of a recheck: the step may proceed, waits, or ends the episode."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from governor.episode.model.episode import Outcome

SHORTEST_WAIT = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Rechecked:
    """The result of a recheck: the step may proceed, waits, or ends the episode with an outcome."""

    proceed: bool
    outcome: Outcome | None
    """`None` if the step may proceed; `REFUSED` while it waits."""
    reason: str
    wait: timedelta | None = None
    """The time to the next recheck while the step waits; `None` if it does not."""
    notifies: bool = True
    """False for a wait of minutes, of which nobody is notified."""
    again: timedelta = SHORTEST_WAIT
    """The time to the next recheck if the step was let through and not carried out."""

    @classmethod
    def proceeds(cls, reason: str, *, again: timedelta) -> Rechecked:
        """Return the result that the step may be done now, and is rechecked after `again` if it was
        not carried out by then."""
        return cls(proceed=True, outcome=None, reason=reason, again=again)

    @classmethod
    def waits(cls, reason: str, wait: timedelta, *, notifies: bool = True) -> Rechecked:
        """Return the result that the step is held back, and is rechecked after `wait`. With
        `notifies`, people are notified of the wait. The `outcome` is `REFUSED` meanwhile, and not
        final."""
        return cls(
            proceed=False, outcome=Outcome.REFUSED, reason=reason, wait=wait, notifies=notifies
        )

    @classmethod
    def ended(cls, outcome: Outcome, reason: str) -> Rechecked:
        """Return the result that the episode ends with this outcome, and the step is not done."""
        return cls(proceed=False, outcome=outcome, reason=reason)

    @property
    def final_outcome(self) -> Outcome | None:
        """Return the outcome with which the episode ends; `None` if the step proceeds or waits."""
        return self.outcome if self.wait is None else None


OVERTAKEN = Rechecked.waits(
    "another recheck came first: check again", SHORTEST_WAIT, notifies=False
)
"""The result of a recheck during which another one let the step through, or a call was sent."""
