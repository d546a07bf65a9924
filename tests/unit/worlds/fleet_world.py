"""A small fleet in memory with the sweep in front of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from governor.episode.model.plan import Price
from governor.evidence.gather_evidence import GatherEvidence
from governor.fleet.unswept import unswept
from governor.money.book_saving import BookSaving
from governor.money.costs import CountCosts
from governor.policy.accounts import Accounts
from governor.policy.document import PolicyBook
from governor.policy.model.policy import Mode, Policy
from governor.remediation.announce_end import AnnounceEnd
from governor.remediation.close_dead import CloseDead
from governor.remediation.follow_start import FollowStart
from governor.remediation.void_episode import VoidEpisode
from governor.sweep.close_sweep import CloseSweep
from governor.sweep.end_failures import EndFailures
from governor.sweep.follow_hub_freeze import FollowHubFreeze
from governor.sweep.follow_up import FollowUp
from governor.sweep.freeze_plans import FreezePlans
from governor.sweep.known_failures import FindKnownFailures
from governor.sweep.sweep_alerts import SweepAlerts
from governor.sweep.sweep_case import SweepSummary
from governor.sweep.sweep_target import SweepTarget
from governor.table.once import Once
from tests.builders import NOW, QUIET_BEFORE, TARGET, make_instance
from tests.twins import (
    FakeClock,
    MemoryEc2,
    MemoryEventLog,
    MemoryKeys,
    MemoryMetrics,
    MemorySeals,
    MemoryWorkflow,
    RecordingAnnouncer,
    SealedStateTable,
    StaticBatch,
    StaticPolicies,
    StaticPrices,
)
from tests.unit.worlds.world import IDLE_WATTS, PEOPLE

ACCOUNTS = Accounts(TARGET.account, TARGET.region)
UTILIZATION = "nvidia_smi_utilization_gpu"


def without_hub(policy: Policy) -> Policy:
    """The policy with a breaker over all targets that never trips."""
    return replace(policy, breaker=replace(policy.breaker, hub_minimum_instances=10_000))


@dataclass
class FleetWorld:
    """Instances with an aggregate of their GPUs, quiet in everything else."""

    policy: Policy = field(default_factory=lambda: Policy(mode=Mode.ASK, ownership=PEOPLE))
    hub: bool = False
    """True if the breaker over all targets may trip; most tests are about that of one."""
    book: PolicyBook | None = None
    """Judges by this document in place of `policy`."""

    def __post_init__(self) -> None:
        if not self.hub:
            self.policy = without_hub(self.policy)
        self.clock = FakeClock(NOW)
        self.ec2 = MemoryEc2()
        self.keys = MemoryKeys()
        self.metrics = MemoryMetrics(now=self.clock.now)
        self.seals = MemorySeals()
        self.state = SealedStateTable(seals=self.seals)
        self.workflow = MemoryWorkflow()
        self.announcer = RecordingAnnouncer()
        self.log = MemoryEventLog()
        self.batch = StaticBatch()
        self.prices = StaticPrices(Price(Decimal("1.006"), "list price"))
        self.policies: Any = self.book or StaticPolicies(self.policy)
        self.sweep_target = SweepTarget(
            clock=self.clock,
            policies=self.policies,
            instances=self.ec2,
            gather=GatherEvidence(self.metrics),
            approval_store=self.state,
            instance_store=self.state,
            sweep_store=self.state,
            fleet_store=self.state,
            ledger_store=self.state,
            tagger=self.ec2,
            freeze=FreezePlans(
                breaker_store=self.state,
                pause_store=self.state,
                sweep_store=self.state,
                announcer=self.announcer,
                hub=TARGET,
            ),
            follow_up=FollowUp(
                self.policies,
                episode_store=self.state,
                approval_store=self.state,
                instance_store=self.state,
                ledger_store=self.state,
                workflow=self.workflow,
                void=VoidEpisode(
                    episode_store=self.state, approval_store=self.state, workflow=self.workflow
                ),
                close_dead=CloseDead(
                    self.clock,
                    self.policies,
                    episode_store=self.state,
                    approval_store=self.state,
                    instance_store=self.state,
                    announce=AnnounceEnd(
                        self.clock, self.policies, self.announcer, self.log, self.state
                    ),
                    book=BookSaving(self.policies, ACCOUNTS, self.ec2),
                ),
                instances=self.ec2,
                follow_start=FollowStart(
                    self.clock, episode_store=self.state, announcer=self.announcer
                ),
            ),
            costs=CountCosts(self.prices, ledger_store=self.state, fleet_store=self.state),
            alerts=SweepAlerts(
                self.announcer,
                self.batch,
                Once(self.clock, self.log),
                notice_store=self.log,
            ),
            failure_store=self.state,
            spread=map,
        )
        self.follow_hub_freeze = FollowHubFreeze(
            clock=self.clock,
            policies=lambda: self.policies,
            breaker_store=self.state,
            announcer=self.announcer,
            hub=TARGET,
        )
        self.close_sweep = CloseSweep(
            clock=self.clock,
            policies=self.policies,
            failure_store=self.state,
            finding_store=self.log,
            fleet_store=self.state,
            end_failures=EndFailures(
                clock=self.clock,
                failure_store=self.state,
                instance_store=self.state,
                fleet_store=self.state,
                once=Once(self.clock, self.log),
                announcer=self.announcer,
                hub=TARGET,
            ),
            find_known_failures=FindKnownFailures(
                clock=self.clock,
                policies=self.policies,
                fleet_store=self.state,
                failure_store=self.state,
                read_failures=partial(unswept, self.state.memory),
                once=Once(self.clock, self.log),
                hub=TARGET,
            ),
            once=Once(self.clock, self.log),
            announcer=self.announcer,
            hub=TARGET,
        )

    def add(
        self, number: int, utilization: Sequence[float | None] | None = None, **changes: Any
    ) -> str:
        """An instance with these readings over the last hour; idle by default."""
        instance_id = f"i-{number:017x}"
        self.ec2.add(make_instance(instance_id=instance_id, **changes))
        self.publish(instance_id, utilization if utilization is not None else [1.0] * 48)
        dimensions = {"InstanceId": instance_id}
        self.metrics.publish("nvidia_smi_power_draw", dimensions, [IDLE_WATTS] * 48)
        for metric in ("CPUUtilization", "NetworkIn", "NetworkOut"):
            self.metrics.publish(metric, dimensions, [1.0] * 48)
        return instance_id

    def publish(self, instance_id: str, utilization: Sequence[float | None]) -> None:
        """Its readings, oldest first; it was quiet before them."""
        self.metrics.publish(
            UTILIZATION, {"InstanceId": instance_id}, (*QUIET_BEFORE, *utilization)
        )

    def silence(self, instance_id: str) -> None:
        """Its agent publishes nothing (any more)."""
        self.metrics.published.pop((UTILIZATION, (("InstanceId", instance_id),)), None)

    def sweep(self, minutes: float = 0) -> SweepSummary:
        """One sweep, that many minutes later; workflows take their locks as OpenEpisode does."""
        self.clock.moment += timedelta(minutes=minutes)
        return self.sweep_target(TARGET)

    def change(self, instance_id: str, **changes: Any) -> None:
        """EC2 describes it otherwise from now on."""
        self.ec2.instances[instance_id] = replace(self.ec2.instances[instance_id], **changes)

    def verdict(self, instance_id: str) -> str:
        """As the last sweep saw it."""
        return self.state.observations(TARGET)[instance_id].verdict
