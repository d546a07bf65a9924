"""Ends an episode whose workflow ended without doing so, and tells people. Seen by an event, or by the sweep.

This module must not know who noticed.
"""

from __future__ import annotations

from dataclasses import dataclass

from governor.domain.approvals.messages import outcome_alert
from governor.domain.episode.episode import Episode, EpisodeRef, Outcome, Phase
from governor.domain.episode.quiet import quiet_until
from governor.domain.policy.fallback import policy_or_base
from governor.domain.units import UtcDatetime
from governor.errors import ConflictError
from governor.ports import Announcer, Policies
from governor.stores import StateTable
from governor.usecases.money.book_saving import BookSaving


@dataclass(frozen=True, slots=True)
class CloseDead:
    """Closes as failed. Safe to repeat; people may be told twice, never not."""

    policies: Policies
    state: StateTable
    announcer: Announcer
    book: BookSaving

    def __call__(self, ref: EpisodeRef, why: str, now: UtcDatetime) -> bool:
        """True when there was something to close or to tell.

        Raises:
            CloudError: the state table, EC2 or the channel could not be reached; repeat it.
        """
        episode = self.state.episode(ref)
        if episode is not None and episode.phase is Phase.CLOSED:
            return self._tell_late(episode, now)
        if episode is None and self.state.record(ref.target, ref.instance_id).open_episode != ref:
            return False
        if episode is not None and episode.phase is Phase.ASKING:
            self._void(episode.approval_id, why)
        base = self.policies.base().policy
        policy = policy_or_base(self.policies, episode.instance) if episode else base
        quiet = quiet_until(Outcome.FAILED, policy.approval, now, was_opened=episode is not None)
        entry = self.book(episode, Outcome.FAILED, now) if episode else None
        # Told before it is closed: closing frees the lock, and nobody would look at it again.
        self.announcer.announce(outcome_alert(ref, episode, Outcome.FAILED, why, now, None))
        self.state.close_episode(ref, Outcome.FAILED, why, now, quiet_until=quiet, ledger=entry)
        if episode is not None:
            self.state.note_told(ref, now)
        return True

    def _tell_late(self, episode: Episode, now: UtcDatetime) -> bool:
        """Its last step closed it and died before anybody was told."""
        if episode.outcome_told_at is not None or episode.outcome is None:
            return False
        reason = episode.outcome_reason or ""
        self.announcer.announce(outcome_alert(episode.ref, episode, episode.outcome, reason, now, None))
        self.state.note_told(episode.ref, now)
        return True

    def _void(self, approval_id: str, why: str) -> None:
        try:
            self.state.void(approval_id, why, expired=False, outcome=Outcome.FAILED.value)
        except ConflictError:
            return  # decided before the workflow died; the record keeps the decision
