"""Stops or terminates one instance a call. No other use case can; all guards stand before it.

Each call is sent once, after a recheck of its own. The order: look up the effect of an earlier
call, check all guards, ask EC2 for a dry run if a Spot request is canceled before the call, count
against the caps, note that EC2 is asked, check once more, ask EC2. Where it is unclear whether EC2
has carried out the call, `MustWait` is raised: the workflow waits, checks everything again, and
invokes this use case again.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import timedelta

from governor.core.episode_ref import EpisodeRef
from governor.core.errors import (
    GovernorError,
    MustWait,
    SafetyError,
    Unavailable,
)
from governor.core.ports import Clock
from governor.core.units import UtcDatetime, minutes
from governor.episode.model.plan import Step
from governor.episode.ports import InstanceController
from governor.episode.rules.plan import companions, why_impossible
from governor.episode.rules.sent_call import Effect
from governor.episode.store.episodes import Episodes
from governor.limits.freezes import cap_reached_text
from governor.limits.store.caps import ActionCaps
from governor.policy.model.policy import Mode
from governor.remediation.clearance import (
    Cleared,
    must_be_fresh,
    must_be_in_state,
    must_be_rechecked,
    unclear_must_wait,
)
from governor.remediation.guards import Guards
from governor.remediation.sent_call import SentCalls
from governor.remediation.store import Calls
from governor.remediation.underway import episode_underway


@dataclass(frozen=True, slots=True)
class PutAway:
    """Carries out one destructive step of an episode. Safe to invoke again: a call is never sent
    blindly."""

    clock: Clock
    guards: Guards
    controller: InstanceController
    episode_store: Episodes
    call_store: Calls
    cap_store: ActionCaps
    sent_calls: SentCalls

    def __call__(self, ref: EpisodeRef, step: Step) -> bool:
        """Stop or terminate the instance of the episode; return whether it was a dry run. Return
        false without a call if the step is done already.

        Raises:
            MustWait: a freeze, a cap, AWS or a lost answer holds it back, or it is not known yet
                whether answers were refused. Recheck the episode, then invoke it again.
            SafetyError: a guard refuses; also Held, Interrupted and Unsealed.
            PolicyError: the overrides of the instance contradict each other.
            ConfigurationError: the function has no role in its account, or no role that acts.
            ConflictError: the episode was closed before the call was noted.
            CloudError: EC2 refuses, as Protected, Unsupported, WrongState, NotFound or
                AccessDenied; or the table cannot be read or written.
        """
        # `unclear_must_wait` stands twice: the inner one gives the journal the reason, the outer
        # one covers failures of the journal itself.
        with unclear_must_wait(), self.guards.journaled(ref, step), unclear_must_wait():
            return self._put_away(ref, step)

    def _put_away(self, ref: EpisodeRef, step: Step) -> bool:
        """Check all guards and carry out the step; return whether it was a dry run.

        Return false without a call if the step took effect before, or if this is a stop of an
        earlier episode and the instance is stopped. Raises: SafetyError, also for another step than
        these two, among them MustWait, Held, Interrupted and Unsealed; ConflictError; MetricsLate;
        PolicyError; ConfigurationError; CloudError, among them Throttled and Unavailable, which the
        caller turns into MustWait.
        """
        if step not in (Step.STOP, Step.TERMINATE):
            raise SafetyError(f"{step.value} is not something this function does")
        # A call whose answer was lost comes first: its effect would fail a guard.
        if self._is_done(ref, step):
            return False

        cleared = self.guards.clear(ref, step)
        must_be_rechecked(cleared, (step,))
        is_of_earlier_episode = step not in cleared.episode.own_plan
        if is_of_earlier_episode and cleared.instance.state == "stopped":
            return False
        rechecked_at = must_be_fresh(cleared, step, self.clock.now())
        _must_be_in_expected_state(cleared, step)
        if step is Step.TERMINATE and not cleared.dry_run:
            self.guards.snapshots_must_be_completed(cleared)
            self.guards.user_data_must_be_kept(cleared)
            self._snapshots_must_be_recent(cleared)

        self._carry_out(cleared, step, rechecked_at)
        return cleared.dry_run

    def _is_done(self, ref: EpisodeRef, step: Step) -> bool:
        """Return whether an earlier call of this step took effect. Return false also if this
        episode has sent none, and always in mode `observe`.

        Raises: MustWait while the call may still take effect; SafetyError if somebody else changed
        the state of the instance, or the episode is over; ConfigurationError without a role in its
        account; CloudError.
        """
        episode = episode_underway(self.episode_store, ref)
        if episode.mode is Mode.OBSERVE or step.value not in episode.own_steps:
            return False
        effect = self.sent_calls.effect(episode, step, self.clock.now())
        if effect is Effect.UNDER_WAY:
            raise MustWait(
                "EC2 may still carry out the earlier call: its state is checked again "
                "before another one"
            )
        if effect is Effect.CHANGED_BY_OTHERS:
            raise SafetyError(
                "the instance is in a state that the call did not cause: "
                "somebody else stopped, started or terminated it"
            )
        return effect is Effect.DONE

    def _carry_out(self, cleared: Cleared, step: Step, rechecked_at: UtcDatetime) -> None:
        """Count the call against the caps, note it, check once more, and send it once.

        Call it only after all guards let the step through. If the call certainly had no effect,
        what all attempts of the step reserved is given back, and its note is taken back.

        Raises: SafetyError, among them MustWait and Held; ConflictError; ConfigurationError without
        a role that acts; CloudError. If EC2 answers with Unavailable, the call may have taken
        effect, and stays noted and counted.
        """
        self._must_be_allowed_by_ec2(cleared, step)
        # Each invocation has its own id: if it fails, it gives back only what it reserved.
        attempt = secrets.token_hex(8)
        self._reserve(cleared, step, attempt)
        noted_at = self._note(cleared, step, attempt, rechecked_at)
        try:
            self.guards.must_still_be_allowed(cleared)
        except GovernorError:
            # Nothing was sent, also if the last check could not read the table. With the note, a
            # stop by somebody else would count as ours.
            self._take_back_note(cleared, step, noted_at)
            raise
        try:
            request_ids = self._send(cleared, step)
        except Unavailable:
            # The call may have taken effect: it stays noted and counted until a later check shows
            # that it had none.
            raise
        except GovernorError:
            # EC2 has certainly not carried out the call: it refused or throttled it, or was not
            # asked. With the note, the end would say that EC2 was asked, and name a later step.
            self._take_back_note(cleared, step, noted_at)
            raise
        if not cleared.dry_run:
            ref = cleared.episode.ref
            now = self.clock.now()
            self.episode_store.journal(ref, "done", now, step=step.value, request_ids=request_ids)

    def _reserve(self, cleared: Cleared, step: Step, attempt: str) -> None:
        """Count the step against its caps, in the name of this `attempt`. A dry run counts nothing.

        Raises: MustWait if a cap is reached, then nothing is counted; CloudError.
        """
        if cleared.dry_run:
            return
        name = cleared.episode.ref.execution_name
        full_cap = self.cap_store.reserve(name, step.value, cleared.caps, self.clock.now(), attempt)
        if full_cap is not None:
            raise MustWait(cap_reached_text(full_cap, cleared.caps[full_cap]))

    def _take_back(self, cleared: Cleared, step: Step, attempt: str) -> None:
        """Give back to the caps what this attempt reserved; in a dry run, do nothing. A failure is
        only logged."""
        if not cleared.dry_run:
            self.cap_store.give_back(cleared.episode.ref.execution_name, step.value, attempt)

    def _take_back_note(self, cleared: Cleared, step: Step, noted_at: UtcDatetime) -> None:
        """Give back to the caps what all attempts of the step reserved, and take back the note of
        its call. Call it only if no call of the step had an effect, neither this one nor an earlier
        one. In a dry run, nothing was reserved.

        That the caps get nothing back is only logged. Raises: CloudError, then the note stays.
        """
        if not cleared.dry_run:
            self.cap_store.give_back_all(cleared.episode.ref.execution_name, step.value)
        self.episode_store.forget_step(cleared.episode, step.value, noted_at)

    def _note(
        self, cleared: Cleared, step: Step, attempt: str, rechecked_at: UtcDatetime
    ) -> UtcDatetime:
        """Note that EC2 is asked, which uses up the recheck of `rechecked_at`; return the time of
        the note.

        If the note fails, what this attempt reserved is given back, unless the note may have been
        written. Raises: MustWait if the recheck was used up before, or everything is paused; Held;
        ConflictError if the episode is closed; CloudError.
        """
        now = self.clock.now()
        try:
            # Noted before the call: the event that EC2 then sends is known to come from this call.
            self.call_store.note_call(cleared.episode.ref, step.value, now, rechecked_at)
        except Unavailable:
            raise  # The note may have been written.
        except GovernorError:
            self._take_back(cleared, step, attempt)
            raise
        return now

    def _send(self, cleared: Cleared, step: Step) -> list[str | None]:
        """Ask EC2 for the companions of the step, then for the step itself: a Spot request is
        canceled before its instance is terminated.

        Return the request ids, in this order; `None` for each call in a dry run. Raises:
        SafetyError if a companion cannot be carried out; ConfigurationError without a role that
        acts; CloudError if EC2 refuses, Unavailable also if it refuses the step after a companion.
        """
        preparing = companions(cleared.episode.plan.steps, step)
        prepared = [self._prepare(cleared, companion) for companion in preparing]
        try:
            sent = self._call(cleared, step, dry_run=cleared.dry_run)
        except GovernorError as error:
            if not any(prepared):
                raise
            # EC2 terminates a stopped Spot instance when its request is canceled, so the step may
            # have its effect although it was refused.
            raise Unavailable(
                f"EC2 may have ended the instance before it refused: {error}"
            ) from error
        return [*prepared, sent]

    def _call(self, cleared: Cleared, step: Step, *, dry_run: bool) -> str | None:
        """Ask EC2 for the step alone; return the request id, `None` for a dry run. Raises:
        SafetyError; ConfigurationError without a role that acts; CloudError."""
        instance = cleared.instance
        call = self.controller.stop if step is Step.STOP else self.controller.terminate
        return call(instance.target, instance.instance_id, dry_run=dry_run)

    def _must_be_allowed_by_ec2(self, cleared: Cleared, step: Step) -> None:
        """Ask EC2 by a dry run for a step that has companions. Call it before anything is counted,
        noted or sent.

        IAM denies the step by the tags of the instance, and its companion by none. So the step is
        denied before its companion has an effect. Raises: SafetyError; ConfigurationError without a
        role that acts; CloudError.
        """
        has_companions = bool(companions(cleared.episode.plan.steps, step))
        if has_companions and not cleared.dry_run:
            self._call(cleared, step, dry_run=True)

    def _prepare(self, cleared: Cleared, companion: Step) -> str | None:
        """Carry out a companion of the step; return the request id, `None` if nothing was changed.
        Raises: SafetyError if it cannot be carried out; ConfigurationError without a role that
        acts; CloudError if EC2 refuses."""
        instance = cleared.instance
        reason = why_impossible(companion, instance)
        if reason is not None:
            raise SafetyError(reason)
        return self.controller.prepare(companion, instance, dry_run=cleared.dry_run)

    def _snapshots_must_be_recent(self, cleared: Cleared) -> None:
        """Require recent snapshots before a termination without a stop: the instance ran on, and
        may have written since. Require nothing if the plan stops it first. Raises: SafetyError."""
        episode = cleared.episode
        if Step.STOP in episode.plan.steps:
            return
        limit = timedelta(minutes=cleared.applied.policy.plan.running_snapshot_valid_minutes)
        taken_at = episode.progress.steps_done.get(Step.SNAPSHOT.value)
        if taken_at is None or self.clock.now() - taken_at > limit:
            raise SafetyError(
                f"the instance ran on and its snapshots are older than {minutes(limit)} minutes "
                "(plan.running_snapshot_valid_minutes): what it wrote since would be lost"
            )


def _must_be_in_expected_state(cleared: Cleared, step: Step) -> None:
    """Require the state of the instance that this step needs: stopped if the plan stops it first,
    else running. A dry run has stopped nothing. Raises: SafetyError."""
    stops_first = step is Step.TERMINATE and Step.STOP in cleared.episode.plan.steps
    wanted_state = "stopped" if stops_first and not cleared.dry_run else "running"
    must_be_in_state(cleared, wanted_state)
