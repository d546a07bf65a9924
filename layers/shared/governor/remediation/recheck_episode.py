"""Checks everything again at the moment of acting: the guards, and while the instance runs, its
evidence.

Each recheck allows one call. First it finds out whether an earlier call of the same step took
effect, because its answer may be lost. A stopped instance has no metrics: there the guards alone
decide. This module must not stop or terminate anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from governor.approvals.model.approval import Approval, ApprovalStatus
from governor.approvals.rules.approval import approved_at
from governor.approvals.store.approvals import Approvals
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import Held, Interrupted, MetricsLate, SafetyError, Unsealed
from governor.core.ports import Clock
from governor.core.units import UtcDatetime, span
from governor.episode.model.episode import Episode, Outcome
from governor.episode.model.plan import Step
from governor.episode.rules.sent_call import Effect
from governor.episode.store.episodes import Episodes
from governor.evidence.check_freshness import READ_AGAIN, why_readings_are_stale
from governor.evidence.model import Evidence
from governor.limits.freezes import (
    FREEZE_CHECKED,
    cap_reached_text,
    wait_before_next_check,
    wait_for_room,
)
from governor.limits.store.caps import ActionCaps
from governor.policy.accounts import Accounts
from governor.policy.model.policy import Mode, Policy
from governor.remediation.clearance import Cleared
from governor.remediation.guards import Guards
from governor.remediation.inspect_instance import InspectInstance
from governor.remediation.rechecked import OVERTAKEN, SHORTEST_WAIT, Rechecked
from governor.remediation.sent_call import SentCalls
from governor.verdict.model import WORKING, Verdict, VerdictKind
from governor.verdict.rules.judging import is_released
from governor.verdict.rules.second_figure import is_confirmed, why_not_unasked, why_unconfirmed

LONGEST_WAIT = timedelta(minutes=15)
"""The longest wait of a step for its next check, until it has waited for hours."""
_NOTIFIED_AFTER = timedelta(hours=1)
"""If a step that was let through is not carried out for so long, it is held back once, and people
are notified: the function that acts may die at every try, and notifies nobody then."""


@dataclass(frozen=True, slots=True)
class _Delay:
    """A reason to hold a step back, and the time to its next recheck."""

    why: str
    wait: timedelta


@dataclass(frozen=True, slots=True)
class RecheckEpisode:
    """Decides right before a step whether it may still be done."""

    clock: Clock
    accounts: Accounts
    guards: Guards
    inspect: InspectInstance
    episode_store: Episodes
    approval_store: Approvals
    cap_store: ActionCaps
    sent_calls: SentCalls

    def __call__(self, ref: EpisodeRef, step: Step) -> Rechecked:
        """Decide whether this step may be done now, and store the decision: the clearance of one
        call, or why the episode ends. Safe to repeat: if an earlier call of the step was sent to
        EC2, the decision follows from its effect.

        Raises: CloudError, after which it is tried again; MetricsLate until the newest readings and
        refusals of answers are known, after which it is tried again in minutes; PolicyError;
        ConfigurationError without a role in its account; ConflictError if the episode was closed
        meanwhile.
        """
        episode = self.episode_store.episode(ref)
        sent_at: UtcDatetime | None = None
        rechecked: Rechecked | None = None
        if episode is not None:
            sent_at = episode.own_steps.get(step.value)
            rechecked = self._result_of_earlier_call(episode, step)
        if rechecked is None:
            rechecked = self._recheck(ref, step, sent_at)
        final_outcome = rechecked.final_outcome
        if final_outcome is not None:
            # `RecordOutcome` reads the end from this note, because anybody who may start the
            # workflow's functions can write their input.
            self.episode_store.note_refusal(ref, final_outcome.value, rechecked.reason)
        return rechecked

    def _result_of_earlier_call(self, episode: Episode, step: Step) -> Rechecked | None:
        """Return the result that an earlier stop or termination of this episode leads to: go on if
        EC2 has carried it out, wait while EC2 may still do so, end if it had no effect and somebody
        held the episode meanwhile.

        Return `None` if everything must be checked: no call was sent, it had no effect, others have
        changed the instance, or the episode is over. Raises: PolicyError; ConfigurationError
        without a role in its account; CloudError.
        """
        if episode.outcome is not None or episode.mode is Mode.OBSERVE:
            return None
        if step is Step.SNAPSHOT or step.value not in episode.own_steps:
            return None
        now = self.clock.now()
        match self.sent_calls.effect(episode, step, now):
            case Effect.DONE:
                return self._go_on_after_call(episode, step, now)
            case Effect.UNDER_WAY:
                reason = (
                    f"EC2 gave no clear answer to the call to {step.value} the instance, "
                    "and may still carry it out"
                )
                return Rechecked.waits(reason, SHORTEST_WAIT, notifies=False)
            case Effect.NOTHING:
                return self._end_if_held_meanwhile(episode)
            case Effect.CHANGED_BY_OTHERS | None:
                return None  # The guards and the state of the instance say what that means.

    def _go_on_after_call(self, episode: Episode, step: Step, now: UtcDatetime) -> Rechecked:
        """Return that the workflow proceeds: EC2 has carried out this step, and what follows it is
        still to be done.

        Return instead that the episode ends if that has been so for as long as an approval lives,
        or that it waits a minute if people are to be notified of it. Raises: PolicyError;
        CloudError.
        """
        policy = self.guards.policies.applied_to(episode.instance).policy
        hours = policy.approval.wait_at_most_hours
        elapsed = now - episode.progress.steps_done[step.value]
        if elapsed >= timedelta(hours=hours):
            reason = (
                f"the step after the {step.value} waited for {hours} h, "
                "the longest that is allowed (approval.wait_at_most_hours)"
            )
            return Rechecked.ended(Outcome.REFUSED, reason)
        if self._is_notification_due(episode, elapsed):
            reason = f"EC2 has carried out the {step.value}, but not what follows, for 1 h"
            return Rechecked.waits(reason, SHORTEST_WAIT)
        again = wait_before_next_check(LONGEST_WAIT, elapsed)
        return Rechecked.proceeds(f"EC2 has carried out the {step.value}", again=again)

    def _is_notification_due(self, episode: Episode, elapsed: timedelta) -> bool:
        """Return whether people are to be notified that an episode has made no progress for
        `elapsed`: only after an hour, and once an episode. Return false in mode `observe`, and if
        there is no question. Raises: CloudError."""
        if elapsed < _NOTIFIED_AFTER or episode.mode is Mode.OBSERVE:
            return False
        approval = self.approval_store.approval(episode.approval_id)
        return approval is not None and approval.waits_told_at is None

    def _end_if_held_meanwhile(self, episode: Episode) -> Rechecked | None:
        """Return the end of the episode if somebody held it during a call; `None` if nobody did.

        Call it only if that call had no effect: the hold came too late for it, and counts now.
        Raises: CloudError.
        """
        approval = self.approval_store.approval(episode.approval_id)
        if approval is None or approval.late_hold is None:
            return None
        return Rechecked.ended(Outcome.HELD, approval.late_hold.why)

    def _recheck(self, ref: EpisodeRef, step: Step, sent_at: UtcDatetime | None) -> Rechecked:
        """Check everything again. Return that the step proceeds, and clear it for one call, unless
        something ends the episode or holds the step back. Return `OVERTAKEN` if another try was
        first.

        `sent_at` is when an earlier call of this step was noted, which had no effect and is
        forgotten here; `None` if there was none. Raises: CloudError; MetricsLate; PolicyError;
        ConfigurationError without a role in its account; ConflictError if the episode was closed
        meanwhile.
        """
        try:
            cleared = self.guards.check(ref, step)
        except (Held, Interrupted) as error:
            outcome = Outcome.HELD if isinstance(error, Held) else Outcome.INTERRUPTED
            return Rechecked.ended(outcome, str(error))
        except Unsealed as error:
            return Rechecked.ended(Outcome.VOID, str(error))
        except SafetyError as error:
            return self._end_by_guard(ref, error)
        now = self.clock.now()
        try:
            held_back = self._wait_or_end(cleared, step, now)
        except SafetyError as error:
            held_back = self._end_by_guard(ref, error)
        # That the instance works, or that others changed it, says more than what holds it back.
        ended = self._end_if_changed(cleared, step, now, is_held_back=held_back is not None)
        if ended is not None:
            return ended
        if not self._forget_earlier_call(cleared.episode, step, sent_at):
            return OVERTAKEN
        if held_back is not None:
            self.episode_store.journal(
                ref, "held back", now, step=step.value, reason=held_back.reason
            )
            return held_back
        return self._let_through(cleared, step, now)

    def _forget_earlier_call(
        self, episode: Episode, step: Step, sent_at: UtcDatetime | None
    ) -> bool:
        """Take back the note of the earlier call, so that people may hold the step again. Return
        true if no note stands now, false if another call was noted after `sent_at`.

        Call it only if the call of `sent_at` had no effect. Snapshots are the exception: their note
        stays, and the answer is true. Raises: CloudError.
        """
        if step is Step.SNAPSHOT:
            return True  # Snapshots that EC2 began after the note count, so the note must stay.
        noted_at = episode.own_steps.get(step.value)
        if noted_at != sent_at:
            return False
        if noted_at is None:
            return True
        return self.episode_store.forget_step(episode, step.value, noted_at)

    def _end_by_guard(self, ref: EpisodeRef, error: SafetyError) -> Rechecked:
        """Return the end of the episode that a guard refused with this error: `void` if the
        instance is gone or was restarted, else `refused`. Raises: ConfigurationError without a role
        in its account; CloudError."""
        target = self.accounts.target(ref.account, ref.region)
        instance = self.inspect.describe(target, ref.instance_id)
        is_gone = instance is None or instance.launch_time != ref.launch_time
        outcome = Outcome.VOID if is_gone else Outcome.REFUSED
        return Rechecked.ended(outcome, str(error))

    def _end_if_changed(
        self, cleared: Cleared, step: Step, now: UtcDatetime, *, is_held_back: bool
    ) -> Rechecked | None:
        """Return the end of the episode if the instance is in another state than the plan expects
        before this step, or runs and is not idle. Return `None` if neither is so.

        With `is_held_back` the step waits anyway, and only work ends the episode. Raises:
        CloudError; MetricsLate.
        """
        state = cleared.instance.state
        episode = cleared.episode
        stops_first = Step.STOP in episode.plan.steps and step is Step.TERMINATE
        is_stopped_before = episode.stopped_by_episode is not None
        must_be_stopped = (stops_first or is_stopped_before) and not cleared.dry_run
        if must_be_stopped:
            if state != "stopped":
                return Rechecked.ended(Outcome.VOID, f"the instance is {state}, not stopped")
            return None
        if state != "running":
            why = f"the instance is {state}: somebody was faster"
            return Rechecked.ended(Outcome.VOID, why)
        return self._end_if_not_idle(cleared, now, is_held_back=is_held_back)

    def _let_through(self, cleared: Cleared, step: Step, now: UtcDatetime) -> Rechecked:
        """Store that one call of this step is allowed, and return that the step may proceed.

        Return instead, and store nothing: that the episode ends if no call was carried out for as
        long as an approval lives; that the step waits a minute if people are to be notified of
        that, or another recheck was faster. Raises: ConflictError if the episode is closed;
        CloudError.
        """
        episode = cleared.episode
        elapsed = now - episode.progress.first_cleared.get(step.value, now)
        hours = cleared.applied.policy.approval.wait_at_most_hours
        if elapsed >= timedelta(hours=hours):
            reason = (
                f"EC2 has not carried out the {step.value} for {hours} h "
                "(approval.wait_at_most_hours)"
            )
            return Rechecked.ended(Outcome.REFUSED, f"{reason}{_last_try(episode)}")
        if self._is_notification_due(episode, elapsed):
            reason = f"no try to {step.value} it has worked for 1 h"
            return Rechecked.waits(f"{reason}{_last_try(episode)}", SHORTEST_WAIT)
        if not self.episode_store.clear_step(episode.ref, step.value, now, seen=episode):
            return OVERTAKEN
        again = wait_before_next_check(min(LONGEST_WAIT, elapsed / 4), elapsed)
        return Rechecked.proceeds("nothing has changed since the question", again=again)

    def _end_if_not_idle(
        self, cleared: Cleared, now: UtcDatetime, *, is_held_back: bool
    ) -> Rechecked | None:
        """Judge the running instance again. Return the end of the episode if it is not idle; if the
        power that confirmed its idleness is not measured any more; or if nobody answered and no
        power confirms it. Return `None` otherwise.

        While a freeze or a pause holds the step back (`is_held_back`), only work ends the episode:
        return `None` for any other verdict. Raises: MetricsLate while the newest readings are
        missing; CloudError.
        """
        instance = cleared.instance
        policy = cleared.applied.policy
        verdict, evidence = self.inspect.judge(instance, policy, now)
        if is_held_back and verdict.kind not in WORKING:
            return None
        if verdict.kind is VerdictKind.IDLE:
            return _power_vanished(cleared, evidence) or self._silence_unconfirmed(
                cleared, evidence
            )
        if verdict.is_late:
            raise MetricsLate(f"{instance.instance_id}: {verdict.reason}")
        outcome = _outcome_of(verdict, cleared.episode)
        why = f"{verdict.kind.value}: {verdict.reason}"
        if outcome is Outcome.REFUSED and _holds_memory_again(cleared.episode, evidence, policy):
            needed = span(policy.ask_window)
            why = f"GPU memory is no longer released, so {needed} of idle time is required; {why}"
        return Rechecked.ended(outcome, why)

    def _silence_unconfirmed(self, cleared: Cleared, evidence: Evidence) -> Rechecked | None:
        """Return the end of the episode if nobody answered, and no power confirms the utilization;
        `None` otherwise. A question of an earlier release may have been asked without power.

        Raises: CloudError.
        """
        episode = cleared.episode
        approval = self.approval_store.approval(episode.approval_id)
        if approval is None or approval.status is not ApprovalStatus.EXPIRED:
            return None
        instance_type = cleared.instance.instance_type
        unconfirmed = why_not_unasked(instance_type, evidence, cleared.applied.policy)
        if unconfirmed is None:
            return None
        return Rechecked.ended(Outcome.REFUSED, f"nobody answered; {unconfirmed.text}")

    def _wait_or_end(self, cleared: Cleared, step: Step, now: UtcDatetime) -> Rechecked | None:
        """Return that the step waits: for the end of a freeze, silence to be an answer, room under
        a cap, or readings that are new enough to act without a person's approval.

        Return that the episode ends if such a wait has lasted as long as an approval lives; `None`
        if nothing holds the step back. Raises: SafetyError if requests were refused in the time to
        answer; CloudError; MetricsLate.
        """
        episode = cleared.episode
        why_held_back = self.guards.why_held_back(cleared, step)
        approval = self.approval_store.approval(episode.approval_id)
        delay: _Delay | None
        if why_held_back is not None:
            delay = _Delay(why_held_back, FREEZE_CHECKED)
        else:
            delay = self._cap_delay(cleared, step, now)
        if delay is None:
            delay = self._stale_delay(cleared, approval, step, now)
        if delay is None:
            return None

        hours = cleared.applied.policy.approval.wait_at_most_hours
        unused_time = cleared.unused_answer_time
        waits_since = approved_at(episode, approval)
        counted_from = waits_since
        if unused_time is not None:
            waits_since = unused_time.planned_end
            # The limit counts from the moment from which the step could have been done.
            counted_from = unused_time.until
        left = timedelta(hours=hours) - (now - counted_from)
        if left <= timedelta(0):
            over = (
                f"it waited for {hours} h, the longest that an approval may wait "
                "(approval.wait_at_most_hours)"
            )
            return Rechecked.ended(Outcome.REFUSED, f"{delay.why}; {over}")
        # No later than the end of the approval, but never sooner than the delay itself.
        latest_wait = max(delay.wait, left)
        wait = min(wait_before_next_check(delay.wait, now - waits_since), latest_wait)
        # Once people know that it waits, each check costs fewer steps of the workflow.
        notifies = approval is not None and approval.waits_told_at is None
        return Rechecked.waits(delay.why, wait, notifies=notifies)

    def _cap_delay(self, cleared: Cleared, step: Step, now: UtcDatetime) -> _Delay | None:
        """Return the wait for room under a cap; `None` if every cap has room for the step, or the
        step counts against none. Raises: CloudError."""
        if step is Step.SNAPSHOT or cleared.dry_run:
            return None
        name = cleared.episode.ref.execution_name
        full_cap = self.cap_store.full_cap(name, step.value, cleared.caps, now)
        if full_cap is None:
            return None
        most_actions = cleared.caps[full_cap]
        room_at = self.cap_store.room_at(full_cap, most_actions, now)
        return _Delay(cap_reached_text(full_cap, most_actions), wait_for_room(room_at, now, name))

    def _stale_delay(
        self, cleared: Cleared, approval: Approval | None, step: Step, now: UtcDatetime
    ) -> _Delay | None:
        """Return the wait for newer readings; `None` if they are new enough, a person approved, or
        the step needs no readings. Raises: CloudError."""
        if not _acts_unasked(cleared, approval, step):
            return None
        policy = cleared.applied.policy
        why_stale = why_readings_are_stale(self.inspect.gather, cleared.instance, policy, now)
        return None if why_stale is None else _Delay(why_stale, READ_AGAIN)


def _power_vanished(cleared: Cleared, evidence: Evidence) -> Rechecked | None:
    """Return the end of the episode if power was measured when people were asked, and is not in
    `evidence`: what they decided on is not known any more.

    Return `None` otherwise. Raises: MetricsLate while the readings may still arrive.
    """
    instance = cleared.instance
    policy = cleared.applied.policy
    if not is_confirmed(cleared.episode.measurement.evidence, policy):
        return None
    unconfirmed = why_unconfirmed(instance.instance_type, evidence, policy)
    if unconfirmed is None:
        return None
    why = f"{unconfirmed.text}, and it was measured when this began; check its agent and driver"
    if unconfirmed.is_late:
        raise MetricsLate(f"{instance.instance_id}: {why}")
    return Rechecked.ended(Outcome.REFUSED, why)


def _last_try(episode: Episode) -> str:
    """Return why the last try failed, as the end of a sentence, such as `; the last try: Throttled:
    ...`; an empty text if no reason was noted."""
    return "" if episode.progress.last_no is None else f"; the last try: {episode.progress.last_no}"


def _acts_unasked(cleared: Cleared, approval: Approval | None, step: Step) -> bool:
    """Return whether the step stops or terminates a running instance without a person's yes: in
    mode `auto`, or because nobody answered. A dry run does neither."""
    if step is Step.SNAPSHOT or cleared.dry_run or cleared.instance.state != "running":
        return False
    is_expired = approval is not None and approval.status is ApprovalStatus.EXPIRED
    return cleared.episode.mode is Mode.AUTO or is_expired


def _holds_memory_again(episode: Episode, evidence: Evidence, policy: Policy) -> bool:
    """Return whether people were asked sooner because GPU memory was released, and the memory is
    not released any more."""
    asked_on = episode.measurement.evidence
    was_asked_sooner = asked_on.window.length < policy.ask_window and is_released(asked_on, policy)
    return was_asked_sooner and not is_released(evidence, policy)


def _outcome_of(verdict: Verdict, episode: Episode) -> Outcome:
    """Return the outcome of a verdict that is not idle: `woke_up` for work that began after the
    start of the question's evidence, or at a time that is not known; else `refused`.

    Older work means that today's policy needs a longer proof than the question had.
    """
    if verdict.kind not in WORKING:
        return Outcome.REFUSED
    is_new_work = (
        verdict.last_busy is None or verdict.last_busy > episode.measurement.evidence.window.start
    )
    return Outcome.WOKE_UP if is_new_work else Outcome.REFUSED
