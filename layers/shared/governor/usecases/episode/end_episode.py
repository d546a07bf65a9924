"""Ends an episode: by the last step of its workflow, after that died, or by taking its question
back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from governor import errors
from governor.domain.alerts.alert import REPEATS, Alert, AlertKind
from governor.domain.approvals.approval import ApprovalStatus
from governor.domain.approvals.links import EVERYBODY, LinkSigner
from governor.domain.approvals.messages import cause_of, outcome_alert
from governor.domain.approvals.sealing import UNSEALED
from governor.domain.episode.episode import (
    Episode,
    EpisodeRef,
    Failing,
    Outcome,
    Phase,
    quiet_until,
)
from governor.domain.episode.plan import Step
from governor.domain.instance import MARKS, Target
from governor.domain.policy.policy import Mode
from governor.domain.units import UtcDatetime, minutes
from governor.ports import Announcer, Clock, InstanceTagger, Policies, Workflow, policy_or_base
from governor.stores import Episodes, EventLog, Failures, StateTable
from governor.usecases.accounts import Accounts
from governor.usecases.approvals.deliver_decision import (
    answer_document,
    hand_over,
    must_be_answered,
)
from governor.usecases.money.book_saving import BookSaving
from governor.usecases.once import LEASE

_SAME_CAUSE = timedelta(hours=1)
_OF_A_RECHECK = frozenset({Outcome.VOID, Outcome.WOKE_UP, Outcome.INTERRUPTED})
_OF_AN_ANSWER = _OF_A_RECHECK | {Outcome.KEPT, Outcome.EXEMPTED, Outcome.EXPIRED}
_OUTCOMES = {"keep": Outcome.KEPT, "exempt": Outcome.EXEMPTED, "expired": Outcome.EXPIRED}
_OUTCOME_OF_ERROR = {
    errors.Held.__name__: Outcome.HELD,
    errors.Interrupted.__name__: Outcome.INTERRUPTED,
    errors.Unsealed.__name__: Outcome.VOID,
}
_OF_STEP_FUNCTIONS = re.compile(r"(States|Lambda|Sandbox)\.[A-Z][A-Za-z]{2,40}")
_UNMARKED = (Outcome.KEPT, Outcome.EXEMPTED, Outcome.HELD, Outcome.WOKE_UP, Outcome.VOID)
"""Marks of it are over; an instance that runs on and is still idle is marked again."""


@dataclass(frozen=True, slots=True)
class AnnounceEnd:
    """Sends how an episode ended. Subscribers of the topic get failures of one cause once an hour,
    or every one where the policy names nobody whom a channel reaches."""

    clock: Clock
    policies: Policies
    announcer: Announcer
    log: EventLog
    state: Failures

    def __call__(self, alert: Alert) -> None:
        """Raises: CloudError."""
        with suppress(errors.CloudError):  # without it an incident stays open for longer
            self._note(alert)
        if alert.kind is not AlertKind.FAILURE:
            self.announcer.announce(alert)
            return
        key = f"failure#{cause_of(str(alert.facts['outcome_reason']))}"
        now, is_first = self.clock.now(), True
        with suppress(errors.CloudError, errors.PolicyError):  # twice is better than never
            asked = self.policies.base().policy.ownership.asked(alert.owner, alert.project)
            others_hear = any(one.has_own_channel for one in asked)
            is_first = not others_hear or self.log.claim(key, now, LEASE)
        try:
            self.announcer.announce(
                alert if is_first else replace(alert, facts={**alert.facts, REPEATS: True})
            )
        except errors.CloudError:
            if is_first:
                self.log.done(key, now, timedelta())
            raise
        if is_first:
            with suppress(errors.CloudError):
                self.log.done(key, now, _SAME_CAUSE)

    def _note(self, alert: Alert) -> None:
        """Note what failed for which cause, or which steps have worked: `SweepAlerts.recovered`
        reads it."""
        facts, target = alert.facts, Target(alert.account, alert.region)
        if alert.kind is AlertKind.FAILURE:
            name, reason = (
                str(facts.get("instance_name", alert.instance_id)),
                str(facts["outcome_reason"]),
            )
            step, cause = str(facts["failed_step"]), cause_of(reason)
            failing = Failing(target, str(alert.instance_id), name, cause, reason, step, alert.at)
            self.state.note_failing(replace(failing, owner=alert.owner, project=alert.project))
        else:
            asked = () if facts["outcome"] == Outcome.REFUSED else ("ask",)
            done = facts.get("steps_done")
            self.state.note_worked(
                target, (*asked, *(done if isinstance(done, list) else ())), alert.at
            )


@dataclass(frozen=True, slots=True)
class RecordOutcome:
    """The last step of every flow, failed ones too. Safe to repeat: people get a message at least
    once."""

    clock: Clock
    policies: Policies
    accounts: Accounts
    state: StateTable
    tagger: InstanceTagger
    announce: AnnounceEnd
    signer: LinkSigner
    book: BookSaving

    def __call__(self, ref: EpisodeRef, outcome: Outcome, reason: str) -> Outcome:
        """Close the episode and return the outcome that stands: the first one. Of `reason` only the
        name of an error is believed. Raises: SafetyError for no such episode: nothing was written
        or sent. CloudError: it was not written, or no channel has taken the message."""
        now = self.clock.now()
        episode = self.state.episode(ref)
        record = self.state.record(ref.target, ref.instance_id)
        if episode is None:
            if record.open_episode != ref:
                raise errors.SafetyError(
                    "there is no such episode: it was neither saved nor locked"
                )
            if outcome not in (Outcome.FAILED, Outcome.REFUSED):
                why = f"the workflow says {outcome.value}, but the episode was never saved"
                raise errors.SafetyError(why)
            rule, reason = self.policies.base().policy.approval, _by_name(reason)
            quiet = quiet_until(outcome, rule, now, was_opened=False, failures=record.failures)
            # Sent before the lock is freed, for nobody would look at it again.
            self.announce(outcome_alert(ref, None, outcome, reason, now, None, again_at=quiet))
            self.state.close_episode(ref, outcome, reason, now, quiet_until=quiet, ledger=None)
            return outcome
        quiet = record.quiet_until
        if episode.outcome is not None:
            outcome, reason = episode.outcome, episode.outcome_reason or ""
        else:
            outcome, reason = self._as_answered(episode, outcome, reason)
            if outcome is Outcome.STOPPED and episode.undone_by is not None:
                reason = f"it was stopped, and {episode.undone_by} had it started again"
            rule = policy_or_base(self.policies, episode.instance).approval
            was_told = self._was_told(episode, outcome, reason)
            quiet = quiet_until(outcome, rule, now, was_opened=was_told, failures=record.failures)
            is_asked_later = outcome is not Outcome.FAILED and UNSEALED not in reason
            if episode.stopped_in is not None and is_asked_later:
                quiet = now + timedelta(days=rule.ask_about_stopped_after_days or 1)
            entry = self.book(episode, outcome, now)
            if outcome is Outcome.TERMINATED and (entry is None or entry.outcome is not outcome):
                raise errors.SafetyError(
                    "the workflow says terminated, but EC2 still shows the instance"
                )
            self.state.close_episode(ref, outcome, reason, now, quiet_until=quiet, ledger=entry)
        _void(self.state, episode, f"the episode ended: {outcome.value}")
        reason = self._clean_marks(episode, outcome, reason)
        if outcome is not Outcome.TOLD:
            link = self.signer.link(episode.approval_id, EVERYBODY)
            approval = self.state.approval(episode.approval_id)
            self.announce(outcome_alert(ref, episode, outcome, reason, now, link, approval, quiet))
        self.state.note_told(ref, now)
        return outcome

    def _as_answered(self, episode: Episode, outcome: Outcome, reason: str) -> tuple[Outcome, str]:
        """Return the outcome and reason of the stored answer, where the outcome claims to follow
        from one."""
        says = f"the workflow says {outcome.value}, but"
        if (end := _ends(episode).get(outcome)) is not None:
            if not end[0]:
                raise errors.SafetyError(f"{says} the record of the episode does not")
            return outcome, end[1]
        is_answer = outcome in _OF_AN_ANSWER and (
            episode.mode is Mode.ASK or outcome not in _OF_A_RECHECK
        )
        if not (is_answer or outcome is Outcome.HELD):
            return outcome, self._noted(episode, outcome, reason)
        approval = self.state.approval(episode.approval_id)
        if outcome is Outcome.HELD:
            # A hold that came during a call counts: the recheck has seen that EC2 did not carry it
            # out.
            hold = None if approval is None else approval.brake or approval.late_hold
            if hold is None:
                raise errors.SafetyError(f"{says} nobody holds it")
            return outcome, hold.why
        approval = must_be_answered(approval)
        acts = approval.status is ApprovalStatus.EXPIRED and episode.acts_on_silence
        if (acts or approval.status is ApprovalStatus.APPROVED) and outcome in _OF_A_RECHECK:
            return outcome, self._noted(episode, outcome, reason)
        said = answer_document(approval)
        stands = _OUTCOMES.get(str(said["decision"])) or said.get("outcome")
        if stands is None:
            raise errors.SafetyError(f"{says} the question is {approval.status.value}")
        return Outcome(str(stands)), str(said["reason"])

    def _noted(self, episode: Episode, outcome: Outcome, reason: str) -> str:
        """Return why it went no further, as the recheck or the step has noted it. Raises:
        SafetyError."""
        name, (noted, _, why) = reason.partition(":")[0], (episode.last_no or "").partition(": ")
        if noted == outcome.value:
            return why
        if noted == name:
            return f"{noted}: {why}"
        if outcome in _OF_A_RECHECK:
            raise errors.SafetyError(f"the workflow says {outcome.value}, but no check has said so")
        is_unheard = name == errors.NobodyListens.__name__
        found = self.state.deliveries(episode.ref.execution_name) if is_unheard else ()
        refused = "; ".join(one.refused for one in found if one.refused)
        return _by_name(reason, refused or _recorded(episode, name, self.clock.now()))

    def _was_told(self, episode: Episode, outcome: Outcome, reason: str) -> bool:
        """Return whether people can know of it; if not, it is tried again soon."""
        if reason.startswith(errors.NobodyListens.__name__):
            return False
        if episode.mode is not Mode.ASK or outcome is not Outcome.FAILED:
            return True
        approval = self.state.approval(episode.approval_id)
        return approval is not None and approval.task_token is not None

    def _clean_marks(self, episode: Episode, outcome: Outcome, reason: str) -> str:
        """Tags are a view: one that cannot be removed is said, and the sweep tries again."""
        if outcome not in _UNMARKED:
            return reason
        target = self.accounts.target(episode.ref.account, episode.ref.region)
        dry_run = episode.mode is Mode.OBSERVE
        ids, gone = [episode.ref.instance_id], dict.fromkeys(MARKS)
        failures = self.tagger.set_tags(target, ids, gone, dry_run=dry_run)
        if not failures:
            self.state.set_marked(target, None, episode.ref.instance_id)
            return reason
        return f"{reason} (its tags could not be removed yet: {'; '.join(failures.values())})"


def _by_name(reason: str, why: str = "") -> str:
    """Return the name of the error alone, where it is one of ours or of Step Functions."""
    name = reason.partition(":")[0]
    is_known = isinstance(vars(errors).get(name), type) or _OF_STEP_FUNCTIONS.fullmatch(name)
    return f"{name if is_known else 'a step failed'}: {why or 'its log says more'}"


def _recorded(episode: Episode, name: str, now: UtcDatetime) -> str:
    """Return what the record says of an error that the function which met it may not note."""
    if name == errors.SnapshotFailed.__name__ and episode.snapshots:
        return f"one of {', '.join(episode.snapshot_ids)}; nothing is destroyed"
    if name == errors.StepTimedOut.__name__ and episode.steps_done:
        at, step = max((at, step) for step, at in episode.steps_done.items())
        return f"{step} was requested {minutes(now - at)} min ago"
    return "none of the last minutes is known" if name == errors.MetricsLate.__name__ else ""


def _ends(episode: Episode) -> Mapping[Outcome, tuple[bool, str]]:
    """Return whether the episode's own record can have led to each of these, and what is said of it
    then."""
    plan, done, acts = episode.plan, episode.steps_done, episode.mode is not Mode.OBSERVE
    is_stopped = acts and not plan.destroys and Step.STOP in done
    terminated = "its snapshots are completed, the instance is terminated"
    return {
        Outcome.STOPPED: (is_stopped, "the instance is stopped"),
        Outcome.TERMINATED: (acts and Step.TERMINATE in done, terminated),
        Outcome.OBSERVED: (not acts, "dry run: EC2 would have allowed every step"),
        Outcome.TOLD: (not plan.steps, "the plan is to notify only"),
    }


@dataclass(frozen=True, slots=True)
class CloseDead:
    """Closes an episode whose workflow died, as failed. Safe to repeat: people hear it twice, never
    not."""

    clock: Clock
    policies: Policies
    state: StateTable
    announce: AnnounceEnd
    book: BookSaving

    def __call__(self, ref: EpisodeRef, why: str, *, aborted: bool = False) -> bool:
        """True when there was something to close or to tell. An aborted one is not asked again
        soon."""
        episode, now = self.state.episode(ref), self.clock.now()
        record = self.state.record(ref.target, ref.instance_id)
        if episode is not None and episode.phase is Phase.CLOSED:
            self.state.free_lock(ref)
            return self._notify_late(episode, record.quiet_until, now)
        if episode is None and record.open_episode != ref:
            return False
        if episode is not None and episode.phase is Phase.ASKING:
            _void(self.state, episode, why, Outcome.FAILED)
        rule = policy_or_base(self.policies, episode.instance if episode else None).approval
        was_opened, failures = episode is not None, None if aborted else record.failures
        quiet = quiet_until(Outcome.FAILED, rule, now, was_opened=was_opened, failures=failures)
        entry = self.book(episode, Outcome.FAILED, now) if episode else None
        # Sent before it is closed: closing frees the lock, and nobody would look at it again.
        self.announce(outcome_alert(ref, episode, Outcome.FAILED, why, now, None, again_at=quiet))
        self.state.close_episode(ref, Outcome.FAILED, why, now, quiet_until=quiet, ledger=entry)
        if episode is not None:
            self.state.note_told(ref, now)
        return True

    def _notify_late(
        self, episode: Episode, again_at: UtcDatetime | None, now: UtcDatetime
    ) -> bool:
        """Its last step closed it and died before anybody was notified."""
        if episode.outcome_told_at is not None or episode.outcome is None:
            return False
        reason = episode.outcome_reason or ""
        if episode.outcome is not Outcome.TOLD:
            alert = outcome_alert(
                episode.ref, episode, episode.outcome, reason, now, None, None, again_at
            )
            self.announce(alert)
        self.state.note_told(episode.ref, now)
        return True


@dataclass(frozen=True, slots=True)
class VoidEpisode:
    """Voids the pending approval of an episode; the workflow then records the outcome and tells
    people."""

    state: Episodes
    workflow: Workflow

    def __call__(self, ref: EpisodeRef, reason: str, outcome: Outcome) -> bool:
        """Return whether the question was open and is void now. Raises: CloudError; repeat it."""
        episode = self.state.episode(ref)
        if episode is None or episode.phase is not Phase.ASKING:
            return False
        # Decided first: what acts looks anew before each call, at EC2 and at warnings that are
        # noted.
        if not _void(self.state, episode, reason, outcome):
            return False
        hand_over(self.state, self.workflow, self.state.approval(episode.approval_id))
        return True


def _void(state: Episodes, episode: Episode, why: str, outcome: Outcome = Outcome.VOID) -> bool:
    """Take the question back. False where it was answered, expired or void before: that record
    stands."""
    try:
        state.void(episode.approval_id, why, expired=False, outcome=outcome.value)
    except errors.ConflictError:
        return False
    return True


def outcome_of_error(error: Mapping[str, str]) -> tuple[Outcome, str]:
    """Outcome and reason of a step that failed (`Error` and `Cause` as Step Functions gives
    them)."""
    name, cause = error.get("Error", "unknown error"), error.get("Cause", "")
    outcome = _OUTCOME_OF_ERROR.get(name)
    # What was late was waited for long enough, and is nobody's fault.
    refused = (
        "SafetyError",
        "MustWait",
        "MetricsLate",
        "Protected",
        "Unsupported",
        "WrongState",
        "NotFound",
    )
    return outcome or (Outcome.REFUSED if name in refused else Outcome.FAILED), f"{name}: {cause}"[
        :1000
    ]
