"""Says whether an instance was started again or terminated after GPU Governor's stop, by what is
stored: the undo in the episode, and the end of the stop in the ledger.

Pages, the API and the command line all take it from here. It decides nothing about an instance.
"""

from __future__ import annotations

from typing import NamedTuple

from governor.core.units import UtcDatetime
from governor.episode.model.episode import Episode
from governor.episode.model.plan import Step
from governor.money.model.ledger import Ending, LedgerEntry


class AfterStop(NamedTuple):
    """The end of a stop: the instance was started again, or terminated."""

    stopped_at: UtcDatetime
    at: UtcDatetime | None
    """The time of the start or the termination; `None` if it is not known."""
    is_terminated: bool = False


def after_stop(episode: Episode, entry: LedgerEntry | None) -> AfterStop | None:
    """Return what ended the stop of this episode; `None` if it stopped nothing, or the instance is
    still stopped as far as is known.

    `entry` is the entry of the ledger by which the stop has ended; `None` if it has not.
    """
    stopped_at = episode.progress.steps_done.get(Step.STOP.value)
    if stopped_at is None:
        return None
    if episode.undo is not None:
        return AfterStop(stopped_at, episode.undo.at)
    if entry is None:
        is_gone = episode.is_gone_unrecorded
        return AfterStop(stopped_at, None, is_terminated=True) if is_gone else None
    if entry.ended is Ending.REPLACED:
        # The end is that of the saving. When the instance itself was started is not stored.
        return AfterStop(stopped_at, None)
    return AfterStop(stopped_at, entry.ended_at, is_terminated=entry.ended is Ending.TERMINATED)


def can_be_started(episode: Episode, after: AfterStop | None) -> bool:
    """Return whether people may have the instance started again that this episode has stopped:
    nothing has ended the stop (`after` is `None`), as far as is known, and EC2 is not starting
    it."""
    return episode.can_be_started and after is None
