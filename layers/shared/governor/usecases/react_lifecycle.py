"""An Auto Scaling group lets an instance go, and one of its lifecycle hooks leaves time to save work.

Told, asked to save its work, its question taken back; each whatever became of the one before. Whoever set the
hook up completes it. Hooks that the policy names wait for the governor alone: those it completes where
nothing is saved, so that nobody pays for waiting. Where a checkpoint runs, the group's own time-out ends the
wait: what is completed at once would end the instance under the checkpoint. An event that comes after the
wait changes nothing on an instance that runs on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from governor.domain.episode import Outcome
from governor.domain.event_messages import auto_scaling_alert
from governor.domain.instance import Instance, Target
from governor.domain.interruption import Checkpoint, LifecycleAction, Warned, decide_checkpoint
from governor.domain.owner import owner_of
from governor.domain.policy import Mode, Policy
from governor.errors import CloudError, Throttled, Unavailable
from governor.ports import Clock, InstanceReader, LifecycleHooks, Policies, StateTable
from governor.usecases.accounts import Accounts
from governor.usecases.once import Once, run_all
from governor.usecases.send_checkpoint import SendCheckpoint
from governor.usecases.tell_warning import Reaction, TellWarning
from governor.usecases.void_episode import VoidEpisode

_GOING = ("shutting-down", "terminated")


@dataclass(frozen=True, slots=True)
class ReactToLifecycleAction:
    """One lifecycle action of a terminating instance."""

    clock: Clock
    policies: Policies
    accounts: Accounts
    instances: InstanceReader
    state: StateTable
    void: VoidEpisode
    once: Once
    tell: TellWarning
    checkpoint: SendCheckpoint
    hooks: LifecycleHooks

    def __call__(self, action: LifecycleAction) -> Reaction:
        """What was done.

        Raises:
            CloudError: the instance could not be read, or a step failed; all others were done all the same.
        """
        base = self.policies.base().policy
        reaction = Reaction()
        if not self.accounts.governs(base, action.account, action.region):
            return reaction.elsewhere(action.account, action.region)
        target = self.accounts.target(action.account, action.region)
        instance = self.instances.describe(target, action.instance_id)
        steps: list[Callable[[], object]] = [lambda: self._void(target, action, reaction)]
        if instance is None or not base.selector.is_on(instance):
            reaction.ours = False
            run_all(steps)
            return reaction
        if instance.state in _GOING:
            # The event came late: nobody can save anything any more, and nothing waits.
            run_all(steps)
            return reaction
        # Past its heartbeat nothing waits, unless somebody prolonged it: then it is left to them.
        warned = action.warned(self._heartbeat(target, action, reaction))
        if warned.is_over(instance, self.clock.now()):
            return reaction.too_late(warned)
        policy = self.policies.applied_to(instance).policy
        owner, project = owner_of(instance, policy.ownership)
        refused: list[CloudError] = []
        decided = decide_checkpoint(instance, policy, warned) if self.checkpoint.hook else None
        steps = [
            lambda: self.tell(
                instance,
                warned,
                base,
                lambda: auto_scaling_alert(instance, warned, decided, owner, project, self.clock.now()),
                reaction,
            ),
            lambda: self._save(instance, warned, decided, owner, project, reaction, refused),
            *steps,
            lambda: self._complete(target, action, policy, decided, reaction, refused),
        ]
        run_all(steps)
        return reaction

    def _heartbeat(self, target: Target, action: LifecycleAction, reaction: Reaction) -> timedelta | None:
        try:
            return self.hooks.heartbeat(target, action.group, action.hook)
        except CloudError as error:
            reaction.notes.append(f"how long the group waits is not known: {error}")
            return None

    def _void(self, target: Target, action: LifecycleAction, reaction: Reaction) -> None:
        # Of an instance that is put by, its change of state tells, if it has any.
        if action.to_warm_pool:
            return
        record = self.state.record(target, action.instance_id)
        if record.open_episode is not None and action.at >= record.open_episode.launch_time:
            reason = f"the Auto Scaling group {action.group} terminates it"
            reaction.voided = self.void(record.open_episode, reason, Outcome.INTERRUPTED)

    def _save(
        self,
        instance: Instance,
        warned: Warned,
        decided: Checkpoint | None,
        owner: str,
        project: str,
        reaction: Reaction,
        refused: list[CloudError],
    ) -> None:
        try:
            self.checkpoint(instance, warned, decided, owner, project, reaction)
        except CloudError as error:
            if error.operation == "ssm:SendCommand" and not isinstance(error, Throttled | Unavailable):
                refused.append(error)
            raise

    def _complete(
        self,
        target: Target,
        action: LifecycleAction,
        policy: Policy,
        decided: Checkpoint | None,
        reaction: Reaction,
        refused: Sequence[CloudError],
    ) -> None:
        is_own = action.hook in policy.events.completed_lifecycle_hooks
        is_saving = decided is not None and decided.send and not refused
        if not is_own or is_saving or policy.mode is Mode.OBSERVE:
            return
        reaction.completed = self.once(
            f"{action.event_id}#completed", lambda: self.hooks.complete(target, action)
        )
