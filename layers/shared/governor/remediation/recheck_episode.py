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
from governor.limits.freezes import FREEZE_CHECKED, cap_reached, spaced, time_to_room
from governor.limits.store.caps import ActionCaps
from governor.policy.accounts import Accounts
from governor.policy.model.policy import Mode, Policy
from governor.remediation.guards import Cleared, Guards
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
    reason: str
    wait: timedelta | None = None
    """After which to check again, where something holds the step back for a while."""
    notifies: bool = True
    """False for a wait of minutes, which nobody needs to know of."""
    again: timedelta = _SHORTEST_WAIT
    """After a step was let through and not carried out: how long to wait before the next
    recheck."""


_OVERTAKEN = Rechecked(
    False,
    Outcome.REFUSED,
    "another recheck came first: check again",
    _SHORTEST_WAIT,
    notifies=False,
)


@dataclass(frozen=True, slots=True)
class _Delay:
    """A reason to hold a step back, and after which time to check it again."""

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

    def __call__(self, ref: EpisodeRef, before: Step) -> Rechecked:
        """Decide whether `before` may be done now. Safe to repeat.

        Raises: CloudError: retry. MetricsLate, until the newest readings and refusals of answers
        are known: tried again in minutes.
        """
        episode = self.episode_store.episode(ref)
        sent_at: UtcDatetime | None = None
        rechecked: Rechecked | None = None
        if episode is not None:
            sent_at = episode.own_steps.get(before.value)
            rechecked = self._look_at_an_earlier_call(episode, before)
        if rechecked is None:
            rechecked = self._recheck(ref, before, sent_at)
        if rechecked.outcome is not None and rechecked.wait is None:
            # `RecordOutcome` reads the end from this note, because anybody who may start the
            # workflow's functions can write their input.
            self.episode_store.note_no(ref, rechecked.outcome.value, rechecked.reason)
        return rechecked

    def _look_at_an_earlier_call(self, episode: Episode, before: Step) -> Rechecked | None:
        """Return what follows from an earlier call of this step.

        Return `None` if no call was sent, or if it had no effect and the step is checked again.
        """
        if episode.outcome is not None or episode.mode is Mode.OBSERVE:
            return None
        if before is Step.SNAPSHOT or before.value not in episode.own_steps:
            return None
        now = self.clock.now()
        match self.sent_calls.effect(episode, before, now):
            case Effect.DONE:
                return self._carried_out(episode, before, now)
            case Effect.UNDER_WAY:
                reason = (
                    f"EC2 gave no clear answer to the call to {before.value} the instance, "
                    "and may still carry it out"
                )
                return Rechecked(False, Outcome.REFUSED, reason, _SHORTEST_WAIT, notifies=False)
            case Effect.NOTHING:
                return self._held_meanwhile(episode)
            case Effect.CHANGED_BY_OTHERS | None:
                return None  # The guards and the state of the instance say what that means.

    def _carried_out(self, episode: Episode, before: Step, now: UtcDatetime) -> Rechecked:
        """Go on to what follows the step, unless that has waited as long as an approval lives."""
        policy = self.guards.policies.applied_to(episode.instance).policy
        hours = policy.approval.wait_at_most_hours
        if now - episode.steps_done[before.value] >= timedelta(hours=hours):
            reason = (
                f"the step after the {before.value} waited for {hours} h, "
                "the longest that is allowed (approval.wait_at_most_hours)"
            )
            return Rechecked(False, Outcome.REFUSED, reason)
        elapsed = now - episode.steps_done[before.value]
        if self._must_notify(episode, elapsed):
            reason = f"EC2 has carried out the {before.value}, but not what follows, for 1 h"
            return Rechecked(False, Outcome.REFUSED, reason, _SHORTEST_WAIT)
        again = spaced(_LONGEST_WAIT, elapsed)
        return Rechecked(True, None, f"EC2 has carried out the {before.value}", again=again)

    def _must_notify(self, episode: Episode, elapsed: timedelta) -> bool:
        """Return whether people do not know yet that a step does not get on for `elapsed`."""
        if elapsed < _NOTIFIED_AFTER or episode.mode is Mode.OBSERVE:
            return False
        approval = self.approval_store.approval(episode.approval_id)
        return approval is not None and approval.waits_told_at is None

    def _held_meanwhile(self, episode: Episode) -> Rechecked | None:
        """Return the end of the episode if somebody held it during a call that had no effect.

        Return `None` if nobody did.
        """
        approval = self.approval_store.approval(episode.approval_id)
        if approval is None or approval.late_hold is None:
            return None
        return Rechecked(False, Outcome.HELD, approval.late_hold.why)

    def _recheck(self, ref: EpisodeRef, before: Step, sent_at: UtcDatetime | None) -> Rechecked:
        """Check everything again.

        `sent_at` is when an earlier call was sent that had no effect; `None` if there was none.
        """
        try:
            cleared = self.guards.check(ref, before)
        except (Held, Interrupted) as error:
            outcome = Outcome.HELD if isinstance(error, Held) else Outcome.INTERRUPTED
            return Rechecked(False, outcome, str(error))
        except Unsealed as error:
            return Rechecked(False, Outcome.VOID, str(error))
        except SafetyError as error:
            return self._refused(ref, error)
        now = self.clock.now()
        held_back = self._held_back(cleared, before, now)
        ended = self._changed(cleared, before, now, waits=held_back is not None)
        if ended is not None:
            return ended
        if not self._forgets_the_earlier_call(cleared.episode, before, sent_at):
            return _OVERTAKEN
        if held_back is not None:
            self.episode_store.journal(
                ref, "held back", now, step=before.value, reason=held_back.reason
            )
            return held_back
        return self._let_through(cleared, before, now)

    def _forgets_the_earlier_call(
        self, episode: Episode, before: Step, sent_at: UtcDatetime | None
    ) -> bool:
        """Take back the note of a call that had no effect, so that people may hold it again.

        Return False if another call was sent since the state of the instance was read.
        """
        if before is Step.SNAPSHOT:
            return True  # A set that EC2 began counts from its note on.
        noted_at = episode.own_steps.get(before.value)
        if noted_at != sent_at:
            return False
        return noted_at is None or self.episode_store.forget_step(episode, before.value, noted_at)

    def _refused(self, ref: EpisodeRef, error: SafetyError) -> Rechecked:
        """Return `void` if the instance is gone or was restarted, else `refused`."""
        target = self.accounts.target(ref.account, ref.region)
        instance = self.inspect.describe(target, ref.instance_id)
        is_gone = instance is None or instance.launch_time != ref.launch_time
        outcome = Outcome.VOID if is_gone else Outcome.REFUSED
        return Rechecked(False, outcome, str(error))

    def _changed(
        self, cleared: Cleared, before: Step, now: UtcDatetime, *, waits: bool
    ) -> Rechecked | None:
        """Return the end of the episode if the instance is not as it was asked about, else `None`.

        `waits`: something holds the step back, so it would not be done now anyway.
        """
        state = cleared.instance.state
        episode = cleared.episode
        stops_first = Step.STOP in episode.plan.steps and before is Step.TERMINATE
        is_stopped_before = episode.stopped_in is not None
        must_be_stopped = (stops_first or is_stopped_before) and not cleared.dry_run
        if must_be_stopped:
            if state != "stopped":
                return Rechecked(False, Outcome.VOID, f"the instance is {state}, not stopped")
            return None
        if state != "running":
            return Rechecked(False, Outcome.VOID, f"the instance is {state}: somebody was faster")
        return self._no_longer_idle(cleared, now, waits=waits)

    def _let_through(self, cleared: Cleared, before: Step, now: UtcDatetime) -> Rechecked:
        """Allow one call, unless none has been carried out for as long as an approval lives."""
        episode = cleared.episode
        elapsed = now - episode.first_cleared.get(before.value, now)
        hours = cleared.applied.policy.approval.wait_at_most_hours
        if elapsed >= timedelta(hours=hours):
            reason = (
                f"EC2 has not carried out the {before.value} for {hours} h "
                "(approval.wait_at_most_hours)"
            )
            return Rechecked(False, Outcome.REFUSED, f"{reason}{_last_try(episode)}")
        if self._must_notify(episode, elapsed):
            reason = f"no try to {before.value} it has worked for 1 h"
            why = f"{reason}{_last_try(episode)}"
            return Rechecked(False, Outcome.REFUSED, why, _SHORTEST_WAIT)
        if not self.episode_store.clear_step(episode.ref, before.value, now, seen=episode):
            return _OVERTAKEN
        again = spaced(min(_LONGEST_WAIT, elapsed / 4), elapsed)
        return Rechecked(True, None, "everything is as it was asked about", again=again)

    def _no_longer_idle(
        self, cleared: Cleared, now: UtcDatetime, *, waits: bool
    ) -> Rechecked | None:
        """Judge the running instance again; return `None` if the step need not end.

        While the step `waits`, only work ends the episode. Raises: MetricsLate.
        """
        instance = cleared.instance
        policy = cleared.applied.policy
        verdict, evidence = self.inspect.judge(instance, policy, now)
        if verdict.kind is VerdictKind.IDLE or (waits and verdict.kind not in WORKING):
            return None
        if verdict.is_late:
            raise MetricsLate(f"{instance.instance_id}: {verdict.reason}")
        outcome = _outcome_of(verdict, cleared.episode)
        why = f"{verdict.kind.value}: {verdict.reason}"
        if outcome is Outcome.REFUSED and _holds_memory_again(cleared.episode, evidence, policy):
            needed = span(policy.ask_window)
            why = f"GPU memory is not released any more, so {needed} of idleness are needed; {why}"
        return Rechecked(False, outcome, why)

    def _held_back(self, cleared: Cleared, before: Step, now: UtcDatetime) -> Rechecked | None:
        """Wait while the approval lives: for a freeze, room under a cap, silence to be an answer,
        or readings that are new enough to act without a person's approval.

        Return `None` if nothing holds the step back.
        """
        episode = cleared.episode
        why_frozen = self.guards.held_back(cleared, before)
        approval = self.approval_store.approval(episode.approval_id)
        delay: _Delay | None
        if why_frozen is not None:
            delay = _Delay(why_frozen, FREEZE_CHECKED)
        else:
            delay = self._cap_delay(cleared, before, now)
        if delay is None:
            delay = self._stale_delay(cleared, approval, before, now)
        if delay is None:
            return None
        hours = cleared.applied.policy.approval.wait_at_most_hours
        since = cleared.unanswered.until if cleared.unanswered else approved_at(episode, approval)
        waited = now - since
        left = timedelta(hours=hours) - waited
        if left <= timedelta(0):
            over = (
                f"it waited for {hours} h, as long as an approval lives "
                "(approval.wait_at_most_hours)"
            )
            return Rechecked(False, Outcome.REFUSED, f"{delay.why}; {over}")
        until_the_end = max(delay.wait, left)
        wait = min(spaced(delay.wait, waited), until_the_end)
        return Rechecked(False, Outcome.REFUSED, delay.why, wait)

    def _cap_delay(self, cleared: Cleared, before: Step, now: UtcDatetime) -> _Delay | None:
        """Wait for room under a cap. Return `None` if every cap has room for the step."""
        if before is Step.SNAPSHOT or cleared.dry_run:
            return None
        name = cleared.episode.ref.execution_name
        full_cap = self.cap_store.capped(name, before.value, cleared.caps, now)
        if full_cap is None:
            return None
        most_actions = cleared.caps[full_cap]
        room_at = self.cap_store.room_at(full_cap, most_actions, now)
        return _Delay(cap_reached(full_cap, most_actions), time_to_room(room_at, now, name))

    def _stale_delay(
        self, cleared: Cleared, approval: Approval | None, before: Step, now: UtcDatetime
    ) -> _Delay | None:
        """Wait for new readings where no person approved. Return `None` if none are needed."""
        if not _acts_unasked(cleared, approval, before):
            return None
        policy = cleared.applied.policy
        why_stale = why_readings_are_stale(self.inspect.gather, cleared.instance, policy, now)
        return None if why_stale is None else _Delay(why_stale, READ_AGAIN)


def _last_try(episode: Episode) -> str:
    """Return why the last try failed, as the end of a sentence; empty where nothing noted it."""
    return "" if episode.last_no is None else f"; the last try: {episode.last_no}"


def _acts_unasked(cleared: Cleared, approval: Approval | None, before: Step) -> bool:
    """Return whether the step stops or terminates a running instance that no person approved."""
    if before is Step.SNAPSHOT or cleared.dry_run or cleared.instance.state != "running":
        return False
    is_expired = approval is not None and approval.status is ApprovalStatus.EXPIRED
    return cleared.episode.mode is Mode.AUTO or is_expired


def _holds_memory_again(episode: Episode, evidence: Evidence, policy: Policy) -> bool:
    """Return whether people were asked sooner because GPU memory was released, and it no longer
    is."""
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
