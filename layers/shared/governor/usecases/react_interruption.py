"""EC2 takes an instance back in two minutes: told, asked to save its work, its data volumes snapshot.

Then its question is taken back, and people are advised where else to run. In that order, each whatever became
of the one before: of two minutes, none may be lost to a table or a channel that is busy. What failed is
raised at the end, and a repeated event does it again, and only it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from governor.domain.episode import Outcome
from governor.domain.event_messages import interruption_alert
from governor.domain.instance import Instance, Target
from governor.domain.interruption import Warned, decide_checkpoint
from governor.domain.policy import Mode, Policy
from governor.domain.units import iso
from governor.ports import Clock, InstanceReader, Policies, Snapshotter, StateTable
from governor.usecases.accounts import Accounts
from governor.usecases.advise_elsewhere import AdviseElsewhere
from governor.usecases.once import Once, run_all
from governor.usecases.open_episode import owner_and_project
from governor.usecases.send_checkpoint import SendCheckpoint
from governor.usecases.take_snapshot import DELETE_AFTER_TAG, INSTANCE_TAG
from governor.usecases.tell_warning import Reaction, TellWarning
from governor.usecases.void_episode import VoidEpisode

EVENT_TAG = "GpuGovernor:Event"


@dataclass(frozen=True, slots=True)
class ReactToInterruption:
    """One warning that an instance is taken back."""

    clock: Clock
    policies: Policies
    accounts: Accounts
    instances: InstanceReader
    state: StateTable
    void: VoidEpisode
    once: Once
    tell: TellWarning
    checkpoint: SendCheckpoint
    snapshots: Snapshotter
    advise: AdviseElsewhere

    def __call__(self, warned: Warned) -> Reaction:
        """What was done.

        Raises:
            CloudError: the instance could not be read, or a step failed; all others were done all the same.
        """
        base = self.policies.base().policy
        reaction = Reaction()
        if not self.accounts.governs(base, warned.account, warned.region):
            return reaction.elsewhere(warned.account, warned.region)
        target = self.accounts.target(warned.account, warned.region)
        instance = self.instances.describe(target, warned.instance_id)
        steps: list[Callable[[], object]] = [lambda: self._void(target, warned, reaction)]
        if instance is None or instance.tags.get(base.selector.tag_key) != base.selector.tag_value:
            reaction.ours = False
            run_all(steps)
            return reaction
        policy = self.policies.applied_to(instance).policy
        owner, project = owner_and_project(instance, policy.ownership)
        decided = decide_checkpoint(instance, policy, warned) if self.checkpoint.hook else None
        steps = [
            lambda: self.tell(
                instance,
                warned,
                base,
                lambda: interruption_alert(instance, warned, decided, owner, project, self.clock.now()),
                reaction,
            ),
            lambda: self.checkpoint(instance, warned, decided, owner, project, reaction),
            lambda: self._snapshot(instance, warned, policy, reaction),
            *steps,
            lambda: self.advise(instance, policy, owner, project, reaction),
        ]
        run_all(steps)
        return reaction

    def _snapshot(self, instance: Instance, warned: Warned, policy: Policy, reaction: Reaction) -> None:
        """Data volumes only: the boot volume holds nothing that a new instance does not bring."""
        if not policy.events.snapshot_data_volumes or len(instance.volumes) < 2:
            return
        tags = {
            "Name": f"{instance.name} before its interruption",
            EVENT_TAG: warned.event_id,
            INSTANCE_TAG: instance.instance_id,
            DELETE_AFTER_TAG: iso(self.clock.now() + timedelta(days=policy.plan.snapshot_retention_days)),
        }

        def create() -> None:
            created = self.snapshots.create(
                instance.target,
                instance.instance_id,
                tags,
                dry_run=policy.mode is Mode.OBSERVE,
                boot_volume=False,
            )
            reaction.snapshots = tuple(sorted(snapshot.snapshot_id for snapshot in created))

        self.once(f"{warned.event_id}#snapshots", create)

    def _void(self, target: Target, warned: Warned, reaction: Reaction) -> None:
        record = self.state.record(target, warned.instance_id)
        if record.open_episode is not None:
            reason = f"{warned.cause.value} interruption: {warned.action}"
            reaction.voided = self.void(record.open_episode, reason, Outcome.INTERRUPTED)
