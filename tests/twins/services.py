"""The smaller ports in memory: clock, policies, prices, workflow, announcer, hooks and markets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from governor.domain.alerts.alert import Alert
from governor.domain.episode.episode import EpisodeRef
from governor.domain.episode.plan import Price
from governor.domain.events.interruption import LifecycleAction
from governor.domain.instance import Instance, Target
from governor.domain.policy.policy import AppliedPolicy, Policy
from governor.domain.sweep.managed import BatchEnvironment
from governor.domain.units import UtcDatetime
from governor.errors import CloudError, NobodyListens
from governor.ports import SpotPrices


@dataclass
class FakeClock:
    """A clock that stands still until it is moved."""

    moment: UtcDatetime

    def now(self) -> UtcDatetime:
        return self.moment


@dataclass
class StaticPolicies:
    """One policy for all."""

    policy: Policy = field(default_factory=Policy)
    version: str = "test"

    def base(self) -> AppliedPolicy:
        return AppliedPolicy(self.policy, self.version)

    def applied_to(self, instance: Instance) -> AppliedPolicy:
        return self.base()


@dataclass
class StaticPrices:
    """The same price for all."""

    fixed: Price

    def price(self, instance: Instance, policy: Policy) -> Price:
        return self.fixed


@dataclass
class MemoryWorkflow:
    """Executions by name: `running`, or ended; answers by token."""

    executions: dict[str, bool] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    answers: dict[str, dict[str, object]] = field(default_factory=dict)
    failure: CloudError | None = None

    def start(self, ref: EpisodeRef) -> bool:
        if self.failure is not None:
            raise self.failure
        return self.executions.setdefault(ref.execution_name, True)

    def is_running(self, ref: EpisodeRef) -> bool | None:
        return self.executions.get(ref.execution_name)

    def answer(self, task_token: str, decision: Mapping[str, object]) -> bool:
        if self.failure is not None:
            raise self.failure
        if task_token not in self.waiting:
            return False
        self.waiting.remove(task_token)
        self.answers[task_token] = dict(decision)
        return True


@dataclass
class RecordingAnnouncer:
    """Keeps what was announced."""

    sent: list[Alert] = field(default_factory=list)
    failure: CloudError | None = None
    is_heard: bool = True
    by_people: bool = True
    """Whether those who are asked read the topic."""
    asked_for: list[frozenset[str]] = field(default_factory=list)

    def reaches(self, addresses: Collection[str]) -> bool:
        self.asked_for.append(frozenset(addresses))
        if not self.is_heard:
            raise NobodyListens("nobody is subscribed")
        return self.by_people

    def announce(self, alert: Alert) -> None:
        if self.failure is not None:
            raise self.failure
        self.sent.append(alert)


@dataclass
class StaticSpotMarket:
    """The same answers at every question; `asked` keeps the Regions of each, `scored` the types."""

    answer: SpotPrices = field(default_factory=lambda: SpotPrices((), {}))
    by_region: dict[str, int] = field(default_factory=dict)
    failure: CloudError | None = None
    asked: list[tuple[str, ...]] = field(default_factory=list)
    scored: list[tuple[str, ...]] = field(default_factory=list)

    def prices(self, target: Target, regions: Sequence[str], instance_type: str, platform: str) -> SpotPrices:
        self.asked.append(tuple(regions))
        return self.answer

    def scores(
        self, target: Target, regions: Sequence[str], instance_types: Sequence[str]
    ) -> Mapping[str, int]:
        self.scored.append(tuple(instance_types))
        if self.failure is not None:
            raise self.failure
        return {region: score for region, score in self.by_region.items() if region in regions}


@dataclass
class StaticBatch:
    """Compute environments by name; `asked` keeps the names. `failure` is raised by every call."""

    environments: dict[str, BatchEnvironment] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    failure: CloudError | None = None

    def environment(self, target: Target, name: str) -> BatchEnvironment | None:
        self.asked.append(name)
        if self.failure is not None:
            raise self.failure
        return self.environments.get(name)


@dataclass
class RecordingHook:
    """Keeps what was sent: instance, reason, seconds left, and whether processes may be signalled."""

    sent: list[tuple[str, str, int, bool]] = field(default_factory=list)
    commands: list[tuple[str, ...]] = field(default_factory=list)
    """To which instances each command went."""
    failure: CloudError | None = None
    unmanaged: set[str] = field(default_factory=set)
    """Instances that Systems Manager does not know."""
    asked: list[tuple[str, ...]] = field(default_factory=list)
    """Of which instances it was asked whether it knows them."""

    def send(
        self, target: Target, instance_ids: Sequence[str], reason: str, seconds_left: int, *, signal: bool
    ) -> str:
        if self.failure is not None:
            raise self.failure
        if self.unmanaged.intersection(instance_ids):
            raise CloudError("not managed", operation="ssm:SendCommand", code="InvalidInstanceId")
        self.sent += [(one, reason, seconds_left, signal) for one in instance_ids]
        self.commands.append(tuple(instance_ids))
        return f"command-{len(self.commands)}"

    def managed(self, target: Target, instance_ids: Sequence[str]) -> frozenset[str]:
        self.asked.append(tuple(instance_ids))
        if self.failure is not None:
            raise self.failure
        return frozenset(instance_ids) - self.unmanaged


@dataclass
class MemoryLifecycleHooks:
    """Hooks that wait as long as `waits` says, by group and name; `completed` keeps what was let go on."""

    waits: dict[tuple[str, str], timedelta] = field(default_factory=dict)
    completed: list[tuple[str, LifecycleAction]] = field(default_factory=list)
    failure: CloudError | None = None

    def heartbeat(self, target: Target, group: str, hook: str) -> timedelta | None:
        if self.failure is not None:
            raise self.failure
        return self.waits.get((group, hook))

    def complete(self, target: Target, instance_id: str, action: LifecycleAction) -> None:
        if self.failure is not None:
            raise self.failure
        self.completed.append((instance_id, action))
