"""Ends an episode: books the ledger, frees the lock, cleans the marks, notifies people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from governor.domain.approvals.messages import outcome_alert
from governor.domain.approvals.terms import BROADCAST
from governor.domain.episode.episode import Episode, EpisodeRef, Outcome
from governor.domain.episode.quiet import quiet_until
from governor.domain.policy.fallback import policy_or_base
from governor.domain.policy.policy import Mode
from governor.domain.tags import MARKS
from governor.domain.units import UtcDatetime
from governor.errors import ConflictError, Interrupted, MetricsLate, NobodyListens
from governor.ports import Announcer, Clock, InstanceTagger, LinkSigner, Policies
from governor.stores import StateTable
from governor.usecases.accounts import Accounts
from governor.usecases.money.book_saving import BookSaving

_RECORD_LINK_DAYS = 30


@dataclass(frozen=True, slots=True)
class RecordOutcome:
    """The last step of every flow, failed ones too. Safe to repeat: people get a message at least once."""

    clock: Clock
    policies: Policies
    accounts: Accounts
    state: StateTable
    tagger: InstanceTagger
    announcer: Announcer
    signer: LinkSigner
    book: BookSaving

    def __call__(self, ref: EpisodeRef, outcome: Outcome, reason: str) -> Outcome:
        """Closes the episode with this outcome; returns the one that stands (the first one does).

        Raises:
            CloudError: the record could not be written, or no channel has taken the message.
        """
        now = self.clock.now()
        episode = self.state.episode(ref)
        if episode is not None and episode.outcome is not None:
            outcome, reason = episode.outcome, episode.outcome_reason or reason
        else:
            self.state.close_episode(
                ref,
                outcome,
                reason,
                now,
                quiet_until=self._quiet_until(episode, outcome, reason, now),
                ledger=self.book(episode, outcome, now) if episode else None,
            )
        if episode is not None:
            self._close_question(episode, outcome)
            reason = self._clean_marks(episode, outcome, reason)
        if outcome is not Outcome.TOLD:
            link = self._link(episode, now)
            approval = self.state.approval(episode.approval_id) if episode else None
            self.announcer.announce(outcome_alert(ref, episode, outcome, reason, now, link, approval))
        if episode is not None:
            self.state.note_told(ref, now)
        return outcome

    def _quiet_until(
        self, episode: Episode | None, outcome: Outcome, reason: str, now: UtcDatetime
    ) -> UtcDatetime | None:
        base = self.policies.base().policy
        policy = policy_or_base(self.policies, episode.instance) if episode else base
        return quiet_until(outcome, policy.approval, now, was_opened=self._was_told(episode, outcome, reason))

    def _was_told(self, episode: Episode | None, outcome: Outcome, reason: str) -> bool:
        """Return whether people can know of it; if not, it is tried again soon."""
        if reason.startswith(NobodyListens.__name__):
            return False
        if episode is None or episode.mode is not Mode.ASK or outcome is not Outcome.FAILED:
            return episode is not None
        approval = self.state.approval(episode.approval_id)
        return approval is not None and approval.task_token is not None

    def _close_question(self, episode: Episode, outcome: Outcome) -> None:
        """Nobody can answer any more what is over."""
        try:
            self.state.void(episode.approval_id, f"the episode ended: {outcome.value}", expired=False)
        except ConflictError:
            pass  # answered, expired or void before: that record stands

    def _clean_marks(self, episode: Episode, outcome: Outcome, reason: str) -> str:
        """Tags are a view: one that cannot be removed is said, and the sweep tries again."""
        # Void: what was marked is over; an instance that runs on and is still idle is marked again.
        if outcome not in (Outcome.KEPT, Outcome.EXEMPTED, Outcome.WOKE_UP, Outcome.VOID):
            return reason
        target = self.accounts.target(episode.ref.account, episode.ref.region)
        failures = self.tagger.remove_tags(
            target,
            [episode.ref.instance_id],
            MARKS,
            dry_run=episode.mode is Mode.OBSERVE,
        )
        if not failures:
            self.state.set_marked(target, episode.ref.instance_id, None)
            return reason
        return f"{reason} (its tags could not be removed yet: {'; '.join(failures.values())})"

    def _link(self, episode: Episode | None, now: UtcDatetime) -> str | None:
        if episode is None:
            return None
        return self.signer.link(episode.approval_id, BROADCAST, now + timedelta(days=_RECORD_LINK_DAYS))


def outcome_of_error(error: Mapping[str, str]) -> tuple[Outcome, str]:
    """Outcome and reason of a step that failed (`Error` and `Cause` as Step Functions gives them)."""
    name, cause = error.get("Error", "unknown error"), error.get("Cause", "")
    if name == Interrupted.__name__:
        return Outcome.INTERRUPTED, cause[:1000]
    if name == MetricsLate.__name__:
        # It was waited for long enough, and nobody's fault.
        return Outcome.REFUSED, cause[:1000]
    refused = ("SafetyError", "Protected", "Unsupported", "WrongState", "NotFound")
    return (Outcome.REFUSED if name in refused else Outcome.FAILED), f"{name}: {cause}"[:1000]
