"""Checks again at the moment of acting: the guards, and while the instance runs, its evidence.

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
from governor.remediation.sent_call import SentCalls
from governor.verdict.model import WORKING, Verdict, VerdictKind
from governor.verdict.rules.judging import is_released

_SHORTEST_WAIT = timedelta(minutes=1)
_LONGEST_WAIT = timedelta(minutes=15)
_NOTIFIED_AFTER = timedelta(hours=1)
"""After so long without getting on, a step is held back once, and people are notified. The function
that acts may die at every try, and says nothing then."""


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
    again: timedelta = _SHORTEST_WAIT
    """The time to the next recheck if the step was let through and not carried out."""

    @classmethod
    def proceeds(cls, reason: str, *, again: timedelta) -> Rechecked:
        """Return the result that the step may be done now."""
        return cls(proceed=True, outcome=None, reason=reason, again=again)

    @classmethod
    def waits(cls, reason: str, wait: timedelta, *, notifies: bool = True) -> Rechecked:
        """Return the result that the step is held back, and is rechecked after `wait`."""
        return cls(
            proceed=False, outcome=Outcome.REFUSED, reason=reason, wait=wait, notifies=notifies
        )

    @classmethod
    def ended(cls, outcome: Outcome, reason: str) -> Rechecked:
        """Return the result that the episode ends with this outcome."""
        return cls(proceed=False, outcome=outcome, reason=reason)


_OVERTAKEN = Rechecked.waits(
    "another recheck came first: check again", _SHORTEST_WAIT, notifies=False
)


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
        """Decide whether this step may be done now. Safe to repeat.

        Raises: CloudError, after which it is tried again; MetricsLate until the newest readings and
        refusals of answers are known, after which it is tried again in minutes.
        """
        episode = self.episode_store.episode(ref)
        sent_at: UtcDatetime | None = None
        rechecked: Rechecked | None = None
        if episode is not None:
            sent_at = episode.own_steps.get(step.value)
            rechecked = self._result_of_earlier_call(episode, step)
        if rechecked is None:
            rechecked = self._recheck(ref, step, sent_at)
        if rechecked.outcome is not None and rechecked.wait is None:
            # `RecordOutcome` reads the end from this note, because anybody who may start the
            # workflow's functions can write their input.
            self.episode_store.note_no(ref, rechecked.outcome.value, rechecked.reason)
        return rechecked

    def _result_of_earlier_call(self, episode: Episode, step: Step) -> Rechecked | None:
        """Return the result that an earlier call of this step leads to.

        Return `None` if everything must be checked: no call was sent, it had no effect, or others
        have changed the instance. Raises: CloudError.
        """
        if episode.outcome is not None or episode.mode is Mode.OBSERVE:
            return None
        if step is Step.SNAPSHOT or step.value not in episode.own_steps:
            return None
        now = self.clock.now()
        match self.sent_calls.effect(episode, step, now):
            case Effect.DONE:
                return self._carried_out(episode, step, now)
            case Effect.UNDER_WAY:
                reason = (
                    f"EC2 gave no clear answer to the call to {step.value} the instance, "
                    "and may still carry it out"
                )
                return Rechecked.waits(reason, _SHORTEST_WAIT, notifies=False)
            case Effect.NOTHING:
                return self._held_meanwhile(episode)
            case Effect.CHANGED_BY_OTHERS | None:
                return None  # The guards and the state of the instance say what that means.

    def _carried_out(self, episode: Episode, step: Step, now: UtcDatetime) -> Rechecked:
        """Return that the workflow proceeds, because EC2 has carried out the step already.

        Return instead that the episode ends if the next step has waited for as long as an approval
        lives, and that it waits when people must be notified of that. Raises: CloudError.
        """
        policy = self.guards.policies.applied_to(episode.instance).policy
        hours = policy.approval.wait_at_most_hours
        elapsed = now - episode.steps_done[step.value]
        if elapsed >= timedelta(hours=hours):
            reason = (
                f"the step after the {step.value} waited for {hours} h, "
                "the longest that is allowed (approval.wait_at_most_hours)"
            )
            return Rechecked.ended(Outcome.REFUSED, reason)
        if self._must_notify(episode, elapsed):
            reason = f"EC2 has carried out the {step.value}, but not what follows, for 1 h"
            return Rechecked.waits(reason, _SHORTEST_WAIT)
        again = wait_before_next_check(_LONGEST_WAIT, elapsed)
        return Rechecked.proceeds(f"EC2 has carried out the {step.value}", again=again)

    def _must_notify(self, episode: Episode, elapsed: timedelta) -> bool:
        """Return whether people must be notified that a step has not been carried out for
        `elapsed`: only after an hour, and once an episode. Raises: CloudError."""
        if elapsed < _NOTIFIED_AFTER or episode.mode is Mode.OBSERVE:
            return False
        approval = self.approval_store.approval(episode.approval_id)
        return approval is not None and approval.waits_told_at is None

    def _held_meanwhile(self, episode: Episode) -> Rechecked | None:
        """Return the end of the episode if somebody held it during a call that had no effect.

        Return `None` if nobody did. Raises: CloudError.
        """
        approval = self.approval_store.approval(episode.approval_id)
        if approval is None or approval.late_hold is None:
            return None
        return Rechecked.ended(Outcome.HELD, approval.late_hold.why)

    def _recheck(self, ref: EpisodeRef, step: Step, sent_at: UtcDatetime | None) -> Rechecked:
        """Check everything again, and let the step through unless something forbids it or holds it
        back.

        `sent_at` is when an earlier call was sent that had no effect; `None` if there was none.
        Raises: CloudError; MetricsLate.
        """
        try:
            cleared = self.guards.check(ref, step)
        except (Held, Interrupted) as error:
            outcome = Outcome.HELD if isinstance(error, Held) else Outcome.INTERRUPTED
            return Rechecked.ended(outcome, str(error))
        except Unsealed as error:
            return Rechecked.ended(Outcome.VOID, str(error))
        except SafetyError as error:
            return self._refused(ref, error)
        now = self.clock.now()
        held_back = self._held_back(cleared, step, now)
        ended = self._changed(cleared, step, now, is_held_back=held_back is not None)
        if ended is not None:
            return ended
        if not self._is_earlier_call_forgotten(cleared.episode, step, sent_at):
            return _OVERTAKEN
        if held_back is not None:
            self.episode_store.journal(
                ref, "held back", now, step=step.value, reason=held_back.reason
            )
            return held_back
        return self._let_through(cleared, step, now)

    def _is_earlier_call_forgotten(
        self, episode: Episode, step: Step, sent_at: UtcDatetime | None
    ) -> bool:
        """Take back the note of a call that had no effect, so that people may hold the step again.

        Return true if no note stands now; false if another call was sent since the state of the
        instance was read. The note of a snapshot stays. Raises: CloudError.
        """
        if step is Step.SNAPSHOT:
            return True  # Snapshots that EC2 began after the note count, so the note must stay.
        noted_at = episode.own_steps.get(step.value)
        if noted_at != sent_at:
            return False
        if noted_at is None:
            return True
        return self.episode_store.forget_step(episode, step.value, noted_at)

    def _refused(self, ref: EpisodeRef, error: SafetyError) -> Rechecked:
        """Return the end of an episode that a guard refuses: `void` if the instance is gone or was
        restarted, else `refused`. Raises: CloudError."""
        target = self.accounts.target(ref.account, ref.region)
        instance = self.inspect.describe(target, ref.instance_id)
        is_gone = instance is None or instance.launch_time != ref.launch_time
        outcome = Outcome.VOID if is_gone else Outcome.REFUSED
        return Rechecked.ended(outcome, str(error))

    def _changed(
        self, cleared: Cleared, step: Step, now: UtcDatetime, *, is_held_back: bool
    ) -> Rechecked | None:
        """Return the end of the episode if the instance is not as it was asked about.

        Return `None` if the instance is unchanged. `is_held_back` says that the step would not be
        done now anyway. Raises: CloudError; MetricsLate.
        """
        state = cleared.instance.state
        episode = cleared.episode
        stops_first = Step.STOP in episode.plan.steps and step is Step.TERMINATE
        is_stopped_before = episode.stopped_in is not None
        must_be_stopped = (stops_first or is_stopped_before) and not cleared.dry_run
        if must_be_stopped:
            if state != "stopped":
                return Rechecked.ended(Outcome.VOID, f"the instance is {state}, not stopped")
            return None
        if state != "running":
            why = f"the instance is {state}: somebody was faster"
            return Rechecked.ended(Outcome.VOID, why)
        return self._no_longer_idle(cleared, now, is_held_back=is_held_back)

    def _let_through(self, cleared: Cleared, step: Step, now: UtcDatetime) -> Rechecked:
        """Note that one call is allowed, and return that the step may proceed.

        Return instead that the episode ends if no call was carried out for as long as an approval
        lives, and that the step waits when people must be notified of that, or if another recheck
        was faster. Raises: CloudError.
        """
        episode = cleared.episode
        elapsed = now - episode.first_cleared.get(step.value, now)
        hours = cleared.applied.policy.approval.wait_at_most_hours
        if elapsed >= timedelta(hours=hours):
            reason = (
                f"EC2 has not carried out the {step.value} for {hours} h "
                "(approval.wait_at_most_hours)"
            )
            return Rechecked.ended(Outcome.REFUSED, f"{reason}{_last_try(episode)}")
        if self._must_notify(episode, elapsed):
            reason = f"no try to {step.value} it has worked for 1 h"
            return Rechecked.waits(f"{reason}{_last_try(episode)}", _SHORTEST_WAIT)
        if not self.episode_store.clear_step(episode.ref, step.value, now, seen=episode):
            return _OVERTAKEN
        again = wait_before_next_check(min(_LONGEST_WAIT, elapsed / 4), elapsed)
        return Rechecked.proceeds("everything is as it was asked about", again=again)

    def _no_longer_idle(
        self, cleared: Cleared, now: UtcDatetime, *, is_held_back: bool
    ) -> Rechecked | None:
        """Judge the running instance again, and return the end of the episode if it is not idle.

        Return `None` if the instance is idle. While the step `is_held_back`, only work ends the
        episode. Raises: CloudError; MetricsLate.
        """
        instance = cleared.instance
        policy = cleared.applied.policy
        verdict, evidence = self.inspect.judge(instance, policy, now)
        if verdict.kind is VerdictKind.IDLE:
            return None
        if is_held_back and verdict.kind not in WORKING:
            return None
        if verdict.is_late:
            raise MetricsLate(f"{instance.instance_id}: {verdict.reason}")
        outcome = _outcome_of(verdict, cleared.episode)
        why = f"{verdict.kind.value}: {verdict.reason}"
        if outcome is Outcome.REFUSED and _holds_memory_again(cleared.episode, evidence, policy):
            needed = span(policy.ask_window)
            why = f"GPU memory is not released any more, so {needed} of idleness are needed; {why}"
        return Rechecked.ended(outcome, why)

    def _held_back(self, cleared: Cleared, step: Step, now: UtcDatetime) -> Rechecked | None:
        """Return that the step waits: for the end of a freeze, room under a cap, silence to be an
        answer, or readings that are new enough to act without a person's approval.

        Return that the episode ends once the step has waited for as long as an approval lives, and
        `None` if nothing holds the step back. Raises: CloudError; MetricsLate.
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
        since = approved_at(episode, approval) if unused_time is None else unused_time.until
        waited = now - since
        left = timedelta(hours=hours) - waited
        if left <= timedelta(0):
            over = (
                f"it waited for {hours} h, as long as an approval lives "
                "(approval.wait_at_most_hours)"
            )
            return Rechecked.ended(Outcome.REFUSED, f"{delay.why}; {over}")
        # No later than the end of the approval, but never sooner than the delay itself.
        latest_wait = max(delay.wait, left)
        wait = min(wait_before_next_check(delay.wait, waited), latest_wait)
        return Rechecked.waits(delay.why, wait)

    def _cap_delay(self, cleared: Cleared, step: Step, now: UtcDatetime) -> _Delay | None:
        """Return the wait for room under a cap; `None` if every cap has room for the step, or the
        step counts against none. Raises: CloudError."""
        if step is Step.SNAPSHOT or cleared.dry_run:
            return None
        name = cleared.episode.ref.execution_name
        full_cap = self.cap_store.capped(name, step.value, cleared.caps, now)
        if full_cap is None:
            return None
        most_actions = cleared.caps[full_cap]
        room_at = self.cap_store.room_at(full_cap, most_actions, now)
        return _Delay(cap_reached_text(full_cap, most_actions), wait_for_room(room_at, now, name))

    def _stale_delay(
        self, cleared: Cleared, approval: Approval | None, step: Step, now: UtcDatetime
    ) -> _Delay | None:
        """Return the wait for newer readings of a step that no person approved.

        Return `None` if the readings are new enough, or the step needs none. Raises: CloudError.
        """
        if not _acts_unasked(cleared, approval, step):
            return None
        policy = cleared.applied.policy
        why_stale = why_readings_are_stale(self.inspect.gather, cleared.instance, policy, now)
        return None if why_stale is None else _Delay(why_stale, READ_AGAIN)


def _last_try(episode: Episode) -> str:
    """Return why the last try failed, as the end of a sentence; an empty text if nothing noted
    why."""
    return "" if episode.last_no is None else f"; the last try: {episode.last_no}"


def _acts_unasked(cleared: Cleared, approval: Approval | None, step: Step) -> bool:
    """Return whether the step stops or terminates a running instance that no person approved."""
    if step is Step.SNAPSHOT or cleared.dry_run or cleared.instance.state != "running":
        return False
    is_expired = approval is not None and approval.status is ApprovalStatus.EXPIRED
    return cleared.episode.mode is Mode.AUTO or is_expired


def _holds_memory_again(episode: Episode, evidence: Evidence, policy: Policy) -> bool:
    """Return whether people were asked sooner because GPU memory was released, and the memory is
    not released any more."""
    asked_on = episode.evidence
    was_asked_sooner = asked_on.window.length < policy.ask_window and is_released(asked_on, policy)
    return was_asked_sooner and not is_released(evidence, policy)


def _outcome_of(verdict: Verdict, episode: Episode) -> Outcome:
    """Return `woke_up` for work that began after the question's evidence did, else `refused`.

    Older work means that today's policy needs a longer proof than the question had.
    """
    if verdict.kind not in WORKING:
        return Outcome.REFUSED
    is_new_work = verdict.last_busy is None or verdict.last_busy > episode.evidence.window.start
    return Outcome.WOKE_UP if is_new_work else Outcome.REFUSED
