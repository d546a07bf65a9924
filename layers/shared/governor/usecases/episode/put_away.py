"""Stops or terminates. The only use case that can, behind all guards, one instance a call."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from governor.domain.episode.episode import EpisodeRef
from governor.domain.episode.plan import Step, companions, unmet
from governor.domain.units import minutes
from governor.errors import GovernorError, MustWait, SafetyError, Throttled, Unavailable
from governor.ports import Clock, InstanceController
from governor.stores import StateTable
from governor.usecases.brakes import cap_reached
from governor.usecases.episode.guards import Cleared, Guards, must_be_recent, must_be_rechecked

_TOOK_EFFECT = {Step.STOP: ("stopping", "stopped"), Step.TERMINATE: ("shutting-down", "terminated")}


@dataclass(frozen=True, slots=True)
class PutAway:
    """Carries out one destructive step of an episode. Safe to repeat: a step that took effect stays one."""

    clock: Clock
    guards: Guards
    controller: InstanceController
    state: StateTable

    def __call__(self, ref: EpisodeRef, step: Step) -> bool:
        """Stop or terminate the instance of the episode; true when it was a dry run.

        Raises, before EC2 is called: MustWait (frozen, or a cap is reached), SafetyError. When EC2 said no:
        Protected, Unsupported, WrongState, NotFound, AccessDenied; to repeat: Throttled, Unavailable.
        """
        with self.guards.journaled(ref, step):
            if step not in (Step.STOP, Step.TERMINATE):
                raise SafetyError(f"{step.value} is not something this function does")
            cleared = self.guards.clear(ref, step)
            must_be_rechecked(cleared, (step,))
            must_be_recent(cleared, self.clock.now())
            steps, state, real = cleared.episode.plan.steps, cleared.instance.state, not cleared.dry_run
            if step.value in cleared.episode.steps_done and state in _TOOK_EFFECT[step]:
                return cleared.dry_run
            stopped_before = step is Step.TERMINATE and Step.STOP in steps and real
            wanted = "stopped" if stopped_before else "running"
            if state != wanted:
                raise SafetyError(f"the instance is {state}, not {wanted}")
            if step is Step.TERMINATE and real:
                self.guards.snapshots_must_be_completed(cleared)
                self.guards.user_data_must_be_kept(cleared)
                self._snapshots_must_be_recent(cleared)
            self._carry_out(cleared, step)
            return cleared.dry_run

    def _carry_out(self, cleared: Cleared, step: Step) -> None:
        """Call EC2, counted against the caps before; what EC2 refuses and a dry run count nothing."""
        ref, instance = cleared.episode.ref, cleared.instance
        if not cleared.dry_run:
            full = self.state.reserve(ref.execution_name, step.value, cleared.caps, self.clock.now())
            if full is not None:
                raise MustWait(cap_reached(full, cleared.caps[full]))
        try:
            # Noted before the call, so that the event it causes is known to be our own.
            self.state.note_step(ref, step.value, self.clock.now())
            requests = []
            # What the plan has right before it; a failure keeps the instance.
            for companion in companions(cleared.episode.plan.steps, step):
                if (reason := unmet(companion, instance)) is not None:
                    raise SafetyError(reason)
                requests.append(self.controller.prepare(companion, instance, dry_run=cleared.dry_run))
            call = self.controller.stop if step is Step.STOP else self.controller.terminate
            requests.append(call(instance.target, instance.instance_id, dry_run=cleared.dry_run))
        except (Throttled, Unavailable):
            raise  # It may have taken effect; a retry goes on with the same count.
        except GovernorError:
            self.state.give_back(ref.execution_name, step.value)
            raise
        if not cleared.dry_run:
            self.state.journal(ref, "done", self.clock.now(), step=step.value, request_ids=requests)

    def _snapshots_must_be_recent(self, cleared: Cleared) -> None:
        """An instance that was stopped first has written nothing since; one that ran on may have."""
        episode = cleared.episode
        if Step.STOP in episode.plan.steps:
            return
        limit = timedelta(minutes=cleared.applied.policy.plan.running_snapshot_valid_minutes)
        taken = episode.steps_done.get(Step.SNAPSHOT.value)
        if taken is None or self.clock.now() - taken > limit:
            raise SafetyError(
                f"the instance ran on and its snapshots are older than {minutes(limit)} minutes "
                "(plan.running_snapshot_valid_minutes): what it wrote since would be lost"
            )
