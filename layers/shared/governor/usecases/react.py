"""What happens when EC2 tells something: instances that change state, Spot warnings, workflows that die.

Events come at least once and in any order, so each reaction is a conditional step towards the truth in the
state table; the sweep repairs what a lost event leaves behind.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from governor.domain.alert import Alert, AlertKind, Severity
from governor.domain.episode import Outcome, episode_from_execution_name
from governor.domain.instance import Instance, Target
from governor.domain.policy import Policy
from governor.domain.units import UtcDatetime, iso
from governor.ports import Announcer, Clock, InstanceReader, Policies, StateTable
from governor.usecases.accounts import Accounts
from governor.usecases.close_dead import CloseDead
from governor.usecases.open_episode import owner_and_project
from governor.usecases.settle_ledger import settle_restart
from governor.usecases.void_episode import VoidEpisode

_ENDING = ("stopping", "stopped", "shutting-down", "terminated")


@dataclass(frozen=True, slots=True)
class ReactToStateChange:
    """An instance changed state, by us or by others."""

    policies: Policies
    state: StateTable
    void: VoidEpisode

    def __call__(self, account: str, region: str, instance_id: str, ec2_state: str, at: UtcDatetime) -> str:
        """Closes a question that others answered by deed; settles the ledger. Returns what was done."""
        target = Target(account, region)
        done = []
        record = self.state.record(target, instance_id)
        # An event of an earlier run of the instance, delivered late, says nothing about this one.
        if record.open_episode is not None and ec2_state in _ENDING and at >= record.open_episode.launch_time:
            # Only a question can be voided: in the acting phase the change is the workflow's own.
            reason = f"the instance is {ec2_state} by others"
            done += ["question voided"] * self.void(record.open_episode, reason, Outcome.VOID)
        done += self._settle(target, instance_id, ec2_state, at)
        return ", ".join(done) or "nothing to do"

    def _settle(self, target: Target, instance_id: str, ec2_state: str, at: UtcDatetime) -> list[str]:
        policy = self.policies.base().policy
        if ec2_state == "running":
            within = timedelta(minutes=policy.ledger.false_stop_within_minutes)
            return settle_restart(self.state, target, instance_id, at, within)
        done = []
        if ec2_state == "terminated":
            for entry in self.state.open_entries(target, instance_id):
                if entry.booked_at > at or entry.outcome is not Outcome.STOPPED:
                    continue
                if self.state.settle_entry(entry, at, false_stop=False):
                    done.append("saving settled: terminated by others")
        return done


@dataclass(frozen=True, slots=True)
class ReactToSpotWarning:
    """EC2 takes a Spot instance back in two minutes."""

    clock: Clock
    policies: Policies
    accounts: Accounts
    instances: InstanceReader
    state: StateTable
    void: VoidEpisode
    announcer: Announcer

    def __call__(
        self, account: str, region: str, instance_id: str, action: str, at: UtcDatetime, event_id: str
    ) -> bool:
        """Tells the owner how long is left, and takes back an open question. False when not ours or told."""
        policy = self.policies.base().policy
        target = self.accounts.target(account, region)
        instance = self.instances.describe(target, instance_id)
        selector = policy.selector
        ours = instance is not None and instance.tags.get(selector.tag_key) == selector.tag_value
        # Told first: of the two minutes, none may be lost to a table that is busy.
        if instance is not None and ours:
            self._tell(instance, policy, action, at, event_id)
        record = self.state.record(target, instance_id)
        if record.open_episode is not None:
            self.void(record.open_episode, f"Spot interruption: {action}", Outcome.INTERRUPTED)
        # Noted after the message went out: a repeated event may tell twice, a failed one is never lost.
        return ours and self.state.first_time(event_id, self.clock.now())

    def _tell(self, instance: Instance, policy: Policy, action: str, at: UtcDatetime, event_id: str) -> None:
        now = self.clock.now()
        owner, project = owner_and_project(instance, policy.ownership)
        ends = at + timedelta(minutes=2)
        left = max(0, int((ends - now).total_seconds()))
        self.announcer.announce(
            Alert(
                kind=AlertKind.SPOT_INTERRUPTION,
                severity=Severity.CRITICAL,
                account=instance.target.account,
                region=instance.target.region,
                subject=f"Spot interruption: {instance.instance_type} {instance.name}, {left} s left",
                lines=(
                    f"EC2 will {action} {instance.name} ({instance.instance_id}) at about {iso(ends)}.",
                    f"{left} seconds are left. Save your work now.",
                ),
                dedup_id=f"spot-{event_id}",
                at=now,
                instance_id=instance.instance_id,
                owner=owner,
                project=project,
                facts={"action": action, "ends_at": iso(ends), "instance_type": instance.instance_type},
            )
        )


@dataclass(frozen=True, slots=True)
class ReactToExecutionEnd:
    """A remediation workflow ended other than by itself: the lock is freed and people are told."""

    clock: Clock
    close: CloseDead

    def __call__(self, execution_name: str, status: str) -> bool:
        """True when an episode was still open, or its end not told yet.

        Raises:
            ValueError: not an execution of the remediation machine.
            CloudError: the state table or the channel could not be reached; repeat it.
        """
        ref = episode_from_execution_name(execution_name)
        return self.close(ref, f"its workflow ended {status}", self.clock.now())
