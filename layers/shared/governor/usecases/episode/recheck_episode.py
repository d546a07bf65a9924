"""Checks again at the moment of acting: the guards, and while the instance runs, its evidence.

Each recheck allows one call. First it finds out whether an earlier call of the same step took
effect, because its answer may be lost. A stopped instance has no metrics: there the guards alone
decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from governor.domain.approvals.approval import Approval, ApprovalStatus
from governor.domain.episode.episode import Episode, EpisodeRef, Outcome
from governor.domain.episode.plan import Step
from governor.domain.episode.sent_call import Effect
from governor.domain.policy.policy import Mode
from governor.domain.sweep.judging import is_released
from governor.domain.sweep.verdict import WORKING, Verdict, VerdictKind
from governor.domain.units import UtcDatetime, span
from governor.errors import Held, Interrupted, MetricsLate, SafetyError, Unsealed
from governor.ports import Clock
from governor.stores import StateTable
from governor.usecases.accounts import Accounts
from governor.usecases.brakes import FREEZE_CHECKED, approved_at, cap_reached, spaced, time_to_room
from governor.usecases.episode.guards import Cleared, Guards
from governor.usecases.episode.sent_call import SentCalls
from governor.usecases.evidence.freshness import READ_AGAIN, why_readings_are_stale
from governor.usecases.evidence.inspect_instance import InspectInstance

_SHORTEST_WAIT = timedelta(minutes=1)
_LONGEST_WAIT = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Rechecked:
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
class RecheckEpisode:
    clock: Clock
    accounts: Accounts
    guards: Guards
    inspect: InspectInstance
    state: StateTable
    sent_calls: SentCalls

    def __call__(self, ref: EpisodeRef, before: Step) -> Rechecked:
        """Decide whether `before` may be done now. Safe to repeat.

        Raises: CloudError: retry. MetricsLate, until the newest readings and refusals of answers
        are known: tried again in minutes.
        """
        episode = self.state.episode(ref)
        sent_at = None if episode is None else episode.own_steps.get(before.value)
        earlier = None if episode is None else self._look_at_an_earlier_call(episode, before)
        result = earlier or self._recheck(ref, before, sent_at)
        if result.outcome is not None and result.wait is None:
            # The end is read from there: what comes with a payload proves nothing.
            self.state.note_no(ref, result.outcome.value, result.reason)
        return result

    def _look_at_an_earlier_call(self, episode: Episode, before: Step) -> Rechecked | None:
        """Return `None` when no call was sent, or nothing came of it."""
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
        """Go on to what follows the step, unless that has been held back for as long as an approval
        lives."""
        policy = self.guards.policies.applied_to(episode.instance).policy
        hours = policy.approval.wait_at_most_hours
        if now - episode.steps_done[before.value] >= timedelta(hours=hours):
            reason = (
                f"the step after the {before.value} waited for {hours} h, "
                "the longest that is allowed (approval.wait_at_most_hours)"
            )
            return Rechecked(False, Outcome.REFUSED, reason)
        again = spaced(_LONGEST_WAIT, now - episode.steps_done[before.value])
        return Rechecked(True, None, f"EC2 has carried out the {before.value}", again=again)

    def _held_meanwhile(self, episode: Episode) -> Rechecked | None:
        """A hold that came while EC2 might have carried out the call counts, because EC2 has
        not."""
        approval = self.state.approval(episode.approval_id)
        if approval is None or approval.late_hold is None:
            return None
        return Rechecked(False, Outcome.HELD, approval.late_hold.why)

    def _recheck(self, ref: EpisodeRef, before: Step, sent_at: UtcDatetime | None) -> Rechecked:
        """Check everything again. `sent_at`: when the earlier call was sent that had no effect, if
        any."""
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
            self.state.journal(ref, "held back", now, step=before.value, reason=held_back.reason)
            return held_back
        return self._let_through(cleared, before, now)

    def _forgets_the_earlier_call(
        self, episode: Episode, before: Step, sent_at: UtcDatetime | None
    ) -> bool:
        """Take back the note of a call that had no effect, so that people may hold it again.

        Return False where another call was sent since EC2 was looked at.
        """
        if before is Step.SNAPSHOT:
            return True  # A set that EC2 began counts from its note on.
        noted_at = episode.own_steps.get(before.value)
        if noted_at != sent_at:
            return False
        return noted_at is None or self.state.forget_step(episode, before.value, noted_at)

    def _refused(self, ref: EpisodeRef, error: SafetyError) -> Rechecked:
        """An instance that is gone or was restarted voids the episode; every other guard
        refuses."""
        target = self.accounts.target(ref.account, ref.region)
        instance = self.inspect.describe(target, ref.instance_id)
        is_gone = instance is None or instance.launch_time != ref.launch_time
        return Rechecked(False, Outcome.VOID if is_gone else Outcome.REFUSED, str(error))

    def _changed(
        self, cleared: Cleared, before: Step, now: UtcDatetime, *, waits: bool
    ) -> Rechecked | None:
        """Return the end of the episode where the instance is not as it was asked about."""
        state = cleared.instance.state
        episode = cleared.episode
        stops_first = Step.STOP in episode.plan.steps and before is Step.TERMINATE
        is_stopped_before = episode.stopped_in is not None
        if (stops_first or is_stopped_before) and not cleared.dry_run:
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
            why = "" if episode.last_no is None else f"; the last try: {episode.last_no}"
            return Rechecked(False, Outcome.REFUSED, reason + why)
        if not self.state.clear_step(episode.ref, before.value, now, seen=episode):
            return _OVERTAKEN
        again = spaced(min(_LONGEST_WAIT, elapsed / 4), elapsed)
        return Rechecked(True, None, "everything is as it was asked about", again=again)

    def _no_longer_idle(
        self, cleared: Cleared, now: UtcDatetime, *, waits: bool
    ) -> Rechecked | None:
        """Judge the running instance again. While the step `waits`, only work ends the episode."""
        instance, episode, policy = cleared.instance, cleared.episode, cleared.applied.policy
        verdict, evidence = self.inspect.judge(instance, policy, now)
        if verdict.kind is VerdictKind.IDLE or (waits and verdict.kind not in WORKING):
            return None
        if verdict.is_late:
            raise MetricsLate(f"{instance.instance_id}: {verdict.reason}")
        outcome = _outcome(verdict, episode)
        why = f"{verdict.kind.value}: {verdict.reason}"
        asked_on = episode.evidence
        asked_sooner = asked_on.window.length < policy.ask_window and is_released(asked_on, policy)
        if outcome is Outcome.REFUSED and asked_sooner and not is_released(evidence, policy):
            needed = span(policy.ask_window)
            why = f"GPU memory is not released any more, so {needed} of idleness are needed; {why}"
        return Rechecked(False, outcome, why)

    def _held_back(self, cleared: Cleared, before: Step, now: UtcDatetime) -> Rechecked | None:
        """Wait while the approval lives: for a freeze, room under a cap, silence to be an answer,
        or readings that are new enough to act without a person's approval."""
        episode, caps = cleared.episode, cleared.caps
        name, wait = episode.ref.execution_name, FREEZE_CHECKED
        why = self.guards.held_back(cleared, before)
        approval = self.state.approval(episode.approval_id)
        if why is None and before is not Step.SNAPSHOT and not cleared.dry_run:
            full = self.state.capped(name, before.value, caps, now)
            if full is not None:
                why = cap_reached(full, caps[full])
                wait = time_to_room(self.state.room_at(full, caps[full], now), now, name)
        if why is None and _acts_unasked(cleared, approval, before):
            why = why_readings_are_stale(
                self.inspect.gather, cleared.instance, cleared.applied.policy, now
            )
            wait = READ_AGAIN
        if why is None:
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
            return Rechecked(False, Outcome.REFUSED, f"{why}; {over}")
        until_the_end = max(wait, left)
        return Rechecked(False, Outcome.REFUSED, why, min(spaced(wait, waited), until_the_end))


def _acts_unasked(cleared: Cleared, approval: Approval | None, before: Step) -> bool:
    """Return whether `before` would stop or terminate a running instance without a person's
    approval."""
    if before is Step.SNAPSHOT or cleared.dry_run or cleared.instance.state != "running":
        return False
    is_expired = approval is not None and approval.status is ApprovalStatus.EXPIRED
    return cleared.episode.mode is Mode.AUTO or is_expired


def _outcome(verdict: Verdict, episode: Episode) -> Outcome:
    """Work that the question's evidence excluded woke it up; older work means that the proof is too
    short."""
    if verdict.kind not in WORKING:
        return Outcome.REFUSED
    is_news = verdict.last_busy is None or verdict.last_busy > episode.evidence.window.start
    return Outcome.WOKE_UP if is_news else Outcome.REFUSED
