"""EC2 recommends to move off an instance: its owner is told, and its hook asked if the policy says so.

Nothing else follows: an interruption may never come, so questions stay open and nothing is snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass

from governor.domain.event_messages import rebalance_alert
from governor.domain.interruption import Warned, decide_checkpoint
from governor.domain.owner import owner_of
from governor.ports import Clock, InstanceReader, Policies
from governor.usecases.accounts import Accounts
from governor.usecases.once import run_all
from governor.usecases.send_checkpoint import Hooking, SendCheckpoint, answer
from governor.usecases.tell_warning import Reaction, TellWarning


@dataclass(frozen=True, slots=True)
class ReactToRebalance:
    """One rebalance recommendation."""

    clock: Clock
    policies: Policies
    accounts: Accounts
    instances: InstanceReader
    tell: TellWarning
    checkpoint: SendCheckpoint

    def __call__(self, warned: Warned) -> Reaction:
        """What was done.

        Raises:
            CloudError: the instance could not be read, or something could not be told or sent.
        """
        base = self.policies.base().policy
        if not self.accounts.governs(base, warned.account, warned.region):
            return Reaction().elsewhere(warned.account, warned.region)
        target = self.accounts.target(warned.account, warned.region)
        instance = self.instances.describe(target, warned.instance_id)
        if instance is None or not base.selector.is_on(instance):
            return Reaction(ours=False)
        if warned.is_over(instance, self.clock.now()):
            return Reaction().too_late(warned)
        policy = self.policies.applied_to(instance).policy
        owner, project = owner_of(instance, policy.ownership)
        decided = decide_checkpoint(instance, policy, warned) if self.checkpoint.hook else None
        reaction = Reaction()
        # Before the telling, which says what became of it; it has its time and no more.
        wanted = [Hooking(instance, warned, decided.signal)] if decided and decided.send else []
        hooks = self.checkpoint.send_all(wanted)
        run_all(
            (
                lambda: self.tell(
                    instance,
                    warned,
                    base,
                    lambda: rebalance_alert(
                        instance, warned, decided, owner, project, self.clock.now(), answer(warned, hooks)
                    ),
                    reaction,
                ),
                lambda: self.checkpoint.report(instance, warned, hooks, owner, project, reaction),
            )
        )
        return reaction
