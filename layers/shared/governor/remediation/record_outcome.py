"""Records how an episode ended: the last step of every workflow.

What the workflow says is a claim. It counts only if the record, or the answer of a person, proves
it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

from governor.alerts.store import Deliveries
from governor.approvals.deliver_decision import answer_document, must_be_answered
from governor.approvals.messages.ends import outcome_alert
from governor.approvals.model.approval import ApprovalStatus
from governor.approvals.rules.answers import is_approved_by_silence
from governor.approvals.rules.links import EVERYBODY, LinkSigner
from governor.approvals.rules.sealing import is_for_lack_of_a_seal
from governor.approvals.store.approvals import Approvals
from governor.core import errors
from governor.core.episode_ref import EpisodeRef
from governor.core.instance import MARKS
from governor.core.ports import Clock
from governor.core.units import UtcDatetime, minutes
from governor.episode.model.episode import (
    Episode,
    EpisodeEnding,
    InstanceRecord,
    LastNo,
    Outcome,
    quiet_until,
)
from governor.episode.model.plan import Step
from governor.episode.rules.restarts import quiet_after_restarts_until
from governor.episode.store.episodes import Episodes
from governor.episode.store.instances import Instances
from governor.evidence.ports import InstanceTagger
from governor.money.book_saving import BookSaving
from governor.money.store.ledger import booking
from governor.policy.accounts import Accounts
from governor.policy.model.policy import Mode
from governor.policy.ports import Policies, policy_or_base
from governor.remediation.announce_end import AnnounceEnd
from governor.remediation.outcome import became_of
from governor.remediation.void_episode import void_question

_OF_A_RECHECK = frozenset({Outcome.VOID, Outcome.WOKE_UP, Outcome.INTERRUPTED})
"""Outcomes that the recheck before a step finds."""
_OF_AN_ANSWER = _OF_A_RECHECK | {Outcome.KEPT, Outcome.EXEMPTED, Outcome.EXPIRED}
"""Outcomes that the stored answer to a question may prove."""
_OUTCOMES = {"keep": Outcome.KEPT, "exempt": Outcome.EXEMPTED, "expired": Outcome.EXPIRED}
_OWN_REASONS = {
    Outcome.STOPPED: "the instance is stopped",
    Outcome.TERMINATED: "its snapshots are complete, and the instance is terminated",
    Outcome.OBSERVED: "dry run: EC2 would have allowed every step",
    Outcome.TOLD: "the plan is to notify only",
}
"""The reason of each outcome that the episode's own record proves."""
_OF_STEP_FUNCTIONS = re.compile(r"(States|Lambda|Sandbox)\.[A-Z][A-Za-z]{2,40}")
_UNMARKED = (Outcome.KEPT, Outcome.EXEMPTED, Outcome.HELD, Outcome.WOKE_UP, Outcome.VOID)
"""Outcomes after which an instance loses its marks. If it runs on and is still idle, it is marked
again."""


@dataclass(frozen=True, slots=True)
class _Proved:
    """An end that the record or a person's answer proves."""

    outcome: Outcome
    reason: str
    error: str = ""
    """The name of the error that led to it; empty if none did."""


@dataclass(frozen=True, slots=True)
class _End:
    """How an episode ended, and until when sweeps leave its instance alone."""

    outcome: Outcome
    reason: str
    quiet_until: UtcDatetime | None
    became: Outcome | None
    """How it left its instance: stopped or terminated; `None` if it did neither."""


@dataclass(frozen=True, slots=True)
class _Quiet:
    """Until when nobody is asked about an instance."""

    until: UtcDatetime | None
    """For any reason; `None`: the next sweep may ask."""
    after_restarts: UtcDatetime | None
    """About restarts by others; `None` if the question was about none."""


@dataclass(frozen=True, slots=True)
class RecordOutcome:
    """The last step of every workflow, also of one that failed.

    Safe to repeat: people get a message at least once.
    """

    clock: Clock
    policies: Policies
    accounts: Accounts
    episode_store: Episodes
    approval_store: Approvals
    instance_store: Instances
    delivery_store: Deliveries
    tagger: InstanceTagger
    announce: AnnounceEnd
    signer: LinkSigner
    book: BookSaving

    def __call__(self, ref: EpisodeRef, outcome: Outcome, error: str = "") -> Outcome:
        """Close the episode, notify people, and return the outcome that stands: the first one that
        was stored. People are not notified again of an episode that only notifies (`TOLD`).

        `outcome` is the claim of the workflow, which the record or a person's answer must prove.
        `error` is the name of the error in which its step ended, empty without one; nothing else
        that the workflow says is believed. Raises: SafetyError if nothing was locked or saved, or
        nothing proves the claim, and then nothing was written or sent; SafetyError, too, if EC2
        carried out a dry run; ConfigurationError if no link can be made, or without a role in its
        account; ConflictError if the episode keeps changing; CloudError if something could not be
        written or sent. Repeat it then.
        """
        now = self.clock.now()
        episode = self.episode_store.episode(ref)
        record = self.instance_store.record(ref.target, ref.instance_id)
        if episode is None:
            self._close_unsaved(ref, record, outcome, error, now)
            return outcome
        ending = episode.ending
        if ending is not None:
            # An earlier try has closed it: what follows is repeated, as it may have died there.
            end = _End(ending.outcome, ending.reason, record.quiet_until, ending.became)
        else:
            end = self._close(episode, outcome, error, record.failures, now)
        void_question(self.approval_store, episode, f"the episode ended: {end.outcome.value}")
        reason = self._remove_marks(episode, end.outcome, end.reason)
        if end.outcome is not Outcome.TOLD:
            link = self.signer.link(episode.approval_id, EVERYBODY)
            approval = self.approval_store.approval(episode.approval_id)
            ended = episode.closed(EpisodeEnding(end.outcome, reason, now, end.became))
            self.announce(
                outcome_alert(ref, ended, end.outcome, reason, now, link, approval, end.quiet_until)
            )
        self.episode_store.note_told(ref, now)
        return end.outcome

    def _close_unsaved(
        self,
        ref: EpisodeRef,
        record: InstanceRecord,
        outcome: Outcome,
        error: str,
        now: UtcDatetime,
    ) -> None:
        """Notify people and close an episode that took the lock and failed before it was saved.

        Raises: SafetyError if it does not hold the lock, or the workflow claims another outcome
        than `failed` or `refused`; ConflictError if the episode keeps changing; CloudError.
        """
        if record.open_episode != ref:
            raise errors.SafetyError("there is no such episode: it was neither saved nor locked")
        if outcome not in (Outcome.FAILED, Outcome.REFUSED):
            why = f"the workflow says {outcome.value}, but the episode was never saved"
            raise errors.SafetyError(why)
        rule = self.policies.base().policy.approval
        reason = _by_name(error)
        quiet = quiet_until(outcome, rule, now, was_opened=False, failures=record.failures)
        # Sent before the lock is freed, because nothing would notice later that it was not sent.
        self.announce(outcome_alert(ref, None, outcome, reason, now, None, again_at=quiet))
        self.episode_store.close_episode(ref, outcome, reason, now, quiet_until=quiet)

    def _close(
        self, episode: Episode, claimed: Outcome, error: str, failures: int, now: UtcDatetime
    ) -> _End:
        """Close an open episode with the outcome that its record proves, book what it saved, and
        return its end. Nobody is notified here.

        `failures` counts earlier failures in a row. Raises: SafetyError if nothing proves the
        claimed outcome, or EC2 still shows an instance that was terminated; ConfigurationError
        without a role in its account; ConflictError if the episode keeps changing; CloudError.
        """
        proved = self._proved_end(episode, claimed, error)
        outcome = proved.outcome
        reason = proved.reason
        if outcome is Outcome.STOPPED and episode.undo is not None:
            reason = f"it was stopped, and {episode.undo.by} started it again"
        quiet = self._quiet_after(episode, proved, failures, now)
        ledger_entry = self.book(episode, outcome, now)
        is_booked = ledger_entry is not None and ledger_entry.outcome is outcome
        if outcome is Outcome.TERMINATED and not is_booked:
            raise errors.SafetyError(
                "the workflow says terminated, but EC2 still shows the instance"
            )
        self.episode_store.close_episode(
            episode.ref,
            outcome,
            reason,
            now,
            quiet_until=quiet.until,
            became=became_of(ledger_entry),
            booking=booking(ledger_entry),
            restarts_quiet_until=quiet.after_restarts,
        )
        return _End(outcome, reason, quiet.until, became_of(ledger_entry))

    def _quiet_after(
        self, episode: Episode, proved: _Proved, failures: int, now: UtcDatetime
    ) -> _Quiet:
        """Return until when nobody is asked about the instance of an episode that ends like this.
        If the instance was stopped before, that is after the days of the policy, or after a day if
        it names none.

        `failures` counts earlier failures in a row. Raises: CloudError.
        """
        rule = policy_or_base(self.policies, episode.instance).approval
        outcome = proved.outcome
        was_notified = self._was_notified(episode, proved)
        quiet = quiet_until(outcome, rule, now, was_opened=was_notified, failures=failures)
        is_unsealed = is_for_lack_of_a_seal(outcome, proved.reason)
        is_asked_later = outcome is not Outcome.FAILED and not is_unsealed
        if episode.stopped_by_episode is not None and is_asked_later:
            quiet = now + timedelta(days=rule.ask_about_stopped_after_days or 1)
        # A question that failed may have reached nobody, one without a seal is asked again, and a
        # yes that was refused is asked about as usual: the instance runs on against a decision.
        makes_quiet = is_asked_later and outcome is not Outcome.REFUSED
        restarts_quiet = self._quiet_after_restarts(episode) if makes_quiet else None
        if quiet is not None and restarts_quiet is not None:
            quiet = max(quiet, restarts_quiet)
        return _Quiet(quiet, restarts_quiet)

    def _proved_end(self, episode: Episode, claimed: Outcome, error: str) -> _Proved:
        """Return the end that is proved.

        The record of the episode proves an action and a notice; the stored hold, that somebody held
        the plan; the stored answer, the outcome of a question, which may be another than the
        `claimed` one. Any other outcome has the reason that a recheck or a step has noted, or else
        the `error` that the workflow names.

        Raises: SafetyError if the claimed outcome is not proved; CloudError.
        """
        own_reason = _OWN_REASONS.get(claimed)
        if own_reason is not None:
            if not _can_have_ended(episode, claimed):
                raise errors.SafetyError(
                    f"the workflow says {claimed.value}, but the record of the episode does not"
                )
            return _Proved(claimed, own_reason)
        if claimed is Outcome.HELD:
            return _Proved(claimed, self._why_held(episode))
        is_of_a_recheck = claimed in _OF_A_RECHECK and episode.mode is not Mode.ASK
        if claimed not in _OF_AN_ANSWER or is_of_a_recheck:
            return self._noted_end(episode, claimed, error)
        return self._answered_end(episode, claimed, error)

    def _why_held(self, episode: Episode) -> str:
        """Return who holds the episode by the stored answer, and why, as in `kept by
        alice@example.com: long job`. Raises: SafetyError if nobody does; CloudError."""
        approval = self.approval_store.approval(episode.approval_id)
        hold = None
        if approval is not None:
            # This may be a hold that came during a call to EC2. It counts, as the recheck has seen
            # that EC2 did not carry out the call.
            hold = approval.counted_hold
        if hold is None:
            raise errors.SafetyError("the workflow says held, but nobody holds it")
        return hold.why

    def _answered_end(self, episode: Episode, claimed: Outcome, error: str) -> _Proved:
        """Return the outcome and the reason of the stored answer, whatever the workflow claims;
        after an approval, or silence that counts as one, the claim if a recheck has noted it.

        Raises: SafetyError if the question is pending, or an approval cannot have led to the claim;
        CloudError.
        """
        approval = must_be_answered(self.approval_store.approval(episode.approval_id))
        is_approved = approval.status is ApprovalStatus.APPROVED
        is_agreed = is_approved or is_approved_by_silence(episode, approval)
        if claimed in _OF_A_RECHECK and is_agreed:
            return self._noted_end(episode, claimed, error)
        answer = answer_document(approval)
        outcome = _OUTCOMES.get(str(answer["decision"])) or answer.get("outcome")
        if outcome is None:
            raise errors.SafetyError(
                f"the workflow says {claimed.value}, but the question is {approval.status.value}"
            )
        return _Proved(Outcome(str(outcome)), str(answer["reason"]))

    def _noted_end(self, episode: Episode, outcome: Outcome, error: str) -> _Proved:
        """Return this end with the reason that the recheck or the step noted, else with the `error`
        of the workflow, explained by what the record shows.

        Raises: SafetyError if only a recheck can find this outcome, and none has noted it;
        CloudError.
        """
        noted = LastNo.of(episode.progress.last_no or "")
        if noted.name == outcome.value:
            return _Proved(outcome, noted.why)
        if noted.name and noted.name == error:
            return _Proved(outcome, noted.text, error)
        if outcome in _OF_A_RECHECK:
            raise errors.SafetyError(f"the workflow says {outcome.value}, but no check has said so")
        refusals = ""
        if error == errors.NobodyListens.__name__:
            refusals = self._refusals(episode)
        why = refusals or _recorded(episode, error, self.clock.now())
        return _Proved(outcome, _by_name(error, why), error)

    def _refusals(self, episode: Episode) -> str:
        """Return why channels refused messages of the episode, joined by semicolons; an empty text
        if none did. Raises: CloudError."""
        deliveries = self.delivery_store.deliveries(episode.ref.execution_name)
        reasons = []
        for delivery in deliveries:
            if delivery.refused:
                reasons.append(delivery.refused)
        return "; ".join(reasons)

    def _was_notified(self, episode: Episode, proved: _Proved) -> bool:
        """Return whether people can know of the episode; if not, another one follows soon.

        They cannot if no channel took its message, or if it failed in mode `ask` before its
        question was delivered, or without a stored question. Raises: CloudError.
        """
        if proved.error == errors.NobodyListens.__name__:
            return False
        may_be_undelivered = episode.mode is Mode.ASK and proved.outcome is Outcome.FAILED
        if not may_be_undelivered:
            return True
        approval = self.approval_store.approval(episode.approval_id)
        return approval is not None and approval.was_delivered

    def _quiet_after_restarts(self, episode: Episode) -> UtcDatetime | None:
        """Return until when nobody is asked after this question about restarts by others. Return
        `None` if it is about none, has no stored question, or was canceled before anybody was
        asked, as while it waited for working hours. Raises: CloudError."""
        until = quiet_after_restarts_until(episode)
        if until is None:
            return None
        approval = self.approval_store.approval(episode.approval_id)
        if approval is None:
            return None
        # An answer may come before the delivery is noted.
        was_asked = approval.was_delivered or approval.decision is not None
        return until if was_asked else None

    def _remove_marks(self, episode: Episode, outcome: Outcome, reason: str) -> str:
        """Remove the marks, which are tags, from an instance that goes on after this outcome; in
        mode `observe`, only as a dry run. After other outcomes do nothing.

        Return the `reason`, with the tags that could not be removed; the sweep tries those again.
        Raises: SafetyError if EC2 carried out a dry run; ConfigurationError without a role in its
        account; CloudError if the record of the marks cannot be written.
        """
        if outcome not in _UNMARKED:
            return reason
        target = self.accounts.target(episode.ref.account, episode.ref.region)
        dry_run = episode.mode is Mode.OBSERVE
        instance_id = episode.ref.instance_id
        removed_tags = dict.fromkeys(MARKS)
        failures = self.tagger.set_tags(target, [instance_id], removed_tags, dry_run=dry_run)
        if not failures:
            self.instance_store.set_marked(target, None, instance_id)
            return reason
        why = "; ".join(str(error) for error in failures.values())
        return f"{reason} (its tags could not be removed yet: {why})"


def _by_name(error: str, why: str = "") -> str:
    """Return the name of an error, and `why` it came, as `StepTimedOut: stop was requested 30 min
    ago`.

    The name is `a step failed` unless the error is one of ours or of Step Functions, so that a
    workflow's text is never repeated.
    """
    is_ours = isinstance(vars(errors).get(error), type)
    is_known = is_ours or _OF_STEP_FUNCTIONS.fullmatch(error) is not None
    name = error if is_known else "a step failed"
    return f"{name}: {why or 'its log says more'}"


def _recorded(episode: Episode, error_name: str, now: UtcDatetime) -> str:
    """Return what the record shows about an error whose function may not write the record, such as
    `stop was requested 30 min ago`; an empty text for other errors, or if it shows nothing."""
    if error_name == errors.SnapshotFailed.__name__ and episode.progress.snapshots:
        return f"one of {', '.join(episode.progress.snapshot_ids)}; nothing is destroyed"
    if error_name == errors.StepTimedOut.__name__ and episode.progress.steps_done:
        # The latest step is the one that took too long.
        requested_at, step = max((at, step) for step, at in episode.progress.steps_done.items())
        return f"{step} was requested {minutes(now - requested_at)} min ago"
    if error_name == errors.MetricsLate.__name__:
        return "none of the last minutes is known"
    return ""


def _can_have_ended(episode: Episode, outcome: Outcome) -> bool:
    """Return whether the steps, the plan and the mode of the episode can have led to this outcome.
    Call it only for an outcome of `_OWN_REASONS`; it is false for any other."""
    is_dry_run = episode.mode is Mode.OBSERVE
    if outcome is Outcome.STOPPED:
        is_stopped = Step.STOP in episode.progress.steps_done
        return is_stopped and not episode.plan.destroys and not is_dry_run
    if outcome is Outcome.TERMINATED:
        return Step.TERMINATE in episode.progress.steps_done and not is_dry_run
    if outcome is Outcome.OBSERVED:
        return is_dry_run
    return outcome is Outcome.TOLD and not episode.plan.steps
