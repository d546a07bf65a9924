"""Closes an episode whose workflow died, as failed.

People may be notified twice, but never not at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from governor.approvals.messages.ends import outcome_alert
from governor.approvals.store.approvals import Approvals
from governor.core.episode_ref import EpisodeRef
from governor.core.ports import Clock
from governor.core.units import UtcDatetime
from governor.episode.model.episode import (
    Episode,
    EpisodeEnding,
    Outcome,
    Phase,
    quiet_until,
)
from governor.episode.store.episodes import Episodes
from governor.episode.store.instances import Instances
from governor.money.book_saving import BookSaving
from governor.money.store.ledger import booking
from governor.policy.ports import Policies, policy_or_base
from governor.remediation.announce_end import AnnounceEnd
from governor.remediation.outcome import became_of
from governor.remediation.void_episode import void_question


@dataclass(frozen=True, slots=True)
class CloseDead:
    """Closes an episode whose workflow died, as failed.

    Safe to repeat: people may be notified twice, but never not at all.
    """

    clock: Clock
    policies: Policies
    episode_store: Episodes
    approval_store: Approvals
    instance_store: Instances
    announce: AnnounceEnd
    book: BookSaving

    def __call__(self, ref: EpisodeRef, why: str, *, aborted: bool = False) -> bool:
        """Close the episode as failed, notify people, and return true. `why` is the reason that
        people read. With `aborted`, people are not asked again as soon as after a failure.

        An episode that is closed already is only repaired: its lock is freed, and people are
        notified if they were not. Return false if nothing was left to do, or the episode was never
        saved and does not lock the instance. Raises: ConflictError if the episode keeps changing;
        ConfigurationError without a role in its account; CloudError. Repeat it then.
        """
        episode = self.episode_store.episode(ref)
        now = self.clock.now()
        record = self.instance_store.record(ref.target, ref.instance_id)
        if episode is not None and episode.phase is Phase.CLOSED:
            self.episode_store.free_lock(ref)
            return self._notify_late(episode, record.quiet_until, now)
        if episode is None and record.open_episode != ref:
            return False
        failures = None if aborted else record.failures
        self._close_as_failed(ref, episode, why, failures, now)
        return True

    def _close_as_failed(
        self,
        ref: EpisodeRef,
        episode: Episode | None,
        why: str,
        failures: int | None,
        now: UtcDatetime,
    ) -> None:
        """Notify people, then close the episode and book what it saved. `episode` is `None` if the
        workflow died before saving it.

        `failures` counts earlier failures in a row: the more, the later people are asked again. It
        is `None` for an aborted workflow. Raises: ConflictError if the episode keeps changing;
        ConfigurationError without a role in its account; CloudError.
        """
        if episode is not None and episode.phase is Phase.ASKING:
            void_question(self.approval_store, episode, why, Outcome.FAILED)
        instance = None
        ledger_entry = None
        ended = None
        if episode is not None:
            instance = episode.instance
            ledger_entry = self.book(episode, Outcome.FAILED, now)
            ending = EpisodeEnding(Outcome.FAILED, why, now, became_of(ledger_entry))
            ended = episode.closed(ending)
        was_opened = episode is not None
        rule = policy_or_base(self.policies, instance).approval
        quiet = quiet_until(Outcome.FAILED, rule, now, was_opened=was_opened, failures=failures)
        # Sent before it is closed: closing frees the lock, and then nothing would notice that it
        # was not sent.
        self.announce(outcome_alert(ref, ended, Outcome.FAILED, why, now, None, again_at=quiet))
        self.episode_store.close_episode(
            ref,
            Outcome.FAILED,
            why,
            now,
            quiet_until=quiet,
            became=became_of(ledger_entry),
            booking=booking(ledger_entry),
        )
        if episode is not None:
            self.episode_store.note_told(ref, now)

    def _notify_late(
        self, episode: Episode, again_at: UtcDatetime | None, now: UtcDatetime
    ) -> bool:
        """Notify people of an end that was recorded by a last step which died before it did so,
        note that, and return true. An episode that only notifies (`TOLD`) needs no second message,
        and is only noted.

        Return false if people were notified before, or the record names no outcome. Raises:
        ConflictError if the episode is gone meanwhile; CloudError.
        """
        ending = episode.ending
        if ending is None or ending.told_at is not None:
            return False
        if ending.outcome is not Outcome.TOLD:
            alert = outcome_alert(
                episode.ref, episode, ending.outcome, ending.reason, now, None, None, again_at
            )
            self.announce(alert)
        self.episode_store.note_told(episode.ref, now)
        return True
