"""The smaller ports in memory: clock, policies, prices, workflow, announcer, hooks and markets."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from governor.alerts.model import Alert
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import CloudError, NobodyListens
from governor.core.instance import Instance, Target, UserData
from governor.core.units import UtcDatetime
from governor.episode.model.plan import Price
from governor.episode.ports import UndoAnswer
from governor.episode.rules.restart_doubts import VolumeKey
from governor.events.model.interruption import LifecycleAction
from governor.events.notify_warning import SpotPrices
from governor.policy.model.policy import AppliedPolicy, Policy
from governor.sweep.model import BatchEnvironment


@dataclass
class _Failing:
    """Raises `failure` while there is one, at every call that AWS may refuse."""

    failure: CloudError | None = field(default=None, kw_only=True)

    def _may_fail(self) -> None:
        if self.failure is not None:
            raise self.failure


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

    @property
    def variants(self) -> tuple[Policy, ...]:
        return (self.policy,)

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
class MemoryWorkflow(_Failing):
    """Executions by name: `running`, or ended; answers by token."""

    executions: dict[str, bool] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    answers: dict[str, dict[str, object]] = field(default_factory=dict)

    def start(self, ref: EpisodeRef) -> bool:
        self._may_fail()
        return self.executions.setdefault(ref.execution_name, True)

    def is_running(self, ref: EpisodeRef) -> bool | None:
        return self.executions.get(ref.execution_name)

    def answer(self, task_token: str, decision: Mapping[str, object]) -> bool:
        self._may_fail()
        if task_token not in self.waiting:
            return False
        self.waiting.remove(task_token)
        self.answers[task_token] = dict(decision)
        return True


@dataclass
class RecordingAnnouncer(_Failing):
    """Keeps what was announced."""

    sent: list[Alert] = field(default_factory=list)
    is_heard: bool = True
    by_people: bool = True
    """True if those who are asked read the topic."""
    asked_for: list[frozenset[str]] = field(default_factory=list)

    def reaches(self, addresses: Collection[str]) -> bool:
        self.asked_for.append(frozenset(addresses))
        if not self.is_heard:
            raise NobodyListens("nobody is subscribed")
        return self.by_people

    def announce(self, alert: Alert) -> None:
        self._may_fail()
        self.sent.append(alert)


@dataclass
class StaticSpotMarket(_Failing):
    """The same answers at every question; `asked` keeps the Regions of each, `scored` the types."""

    answer: SpotPrices = field(default_factory=lambda: SpotPrices((), {}))
    by_region: dict[str, int] = field(default_factory=dict)
    asked: list[tuple[str, ...]] = field(default_factory=list)
    scored: list[tuple[str, ...]] = field(default_factory=list)

    def prices(
        self, target: Target, regions: Sequence[str], instance_type: str, platform: str
    ) -> SpotPrices:
        self.asked.append(tuple(regions))
        return self.answer

    def scores(
        self, target: Target, regions: Sequence[str], instance_types: Sequence[str]
    ) -> Mapping[str, int]:
        self.scored.append(tuple(instance_types))
        self._may_fail()
        return {region: score for region, score in self.by_region.items() if region in regions}


@dataclass
class StaticBatch(_Failing):
    """Compute environments by name; `asked` keeps the names."""

    environments: dict[str, BatchEnvironment] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def environment(self, target: Target, name: str, now: UtcDatetime) -> BatchEnvironment | None:
        self.asked.append(name)
        self._may_fail()
        return self.environments.get(name)


@dataclass
class RecordingHook(_Failing):
    """Keeps what was sent: instance, reason, seconds left, and whether processes may be
    signaled."""

    sent: list[tuple[str, str, int, bool]] = field(default_factory=list)
    commands: list[tuple[str, ...]] = field(default_factory=list)
    """To which instances each command went."""
    unmanaged: set[str] = field(default_factory=set)
    """Instances that Systems Manager does not know."""
    asked: list[tuple[str, ...]] = field(default_factory=list)
    """Instances that it was asked about."""

    def send(
        self,
        target: Target,
        instance_ids: Sequence[str],
        reason: str,
        seconds_left: int,
        *,
        sigterm_if_no_hook: bool,
    ) -> str:
        self._may_fail()
        if self.unmanaged.intersection(instance_ids):
            raise CloudError("not managed", operation="ssm:SendCommand", code="InvalidInstanceId")
        self.sent += [(one, reason, seconds_left, sigterm_if_no_hook) for one in instance_ids]
        self.commands.append(tuple(instance_ids))
        return f"command-{len(self.commands)}"

    def managed(self, target: Target, instance_ids: Sequence[str]) -> frozenset[str]:
        self.asked.append(tuple(instance_ids))
        self._may_fail()
        return frozenset(instance_ids) - self.unmanaged


@dataclass
class MemoryKeys:
    """KMS in memory. A key that is not listed is enabled."""

    keys: dict[str, VolumeKey] = field(default_factory=dict)

    def describe(self, target: Target, key_id: str) -> VolumeKey:
        return self.keys.get(key_id, VolumeKey(key_id, "Enabled"))


@dataclass
class MemoryVault(_Failing):
    """Copies by where they are kept."""

    copies: dict[str, bytes] = field(default_factory=dict)

    def keep(self, ref: EpisodeRef, data: bytes) -> UserData:
        self._may_fail()
        kept = UserData(
            len(data), hashlib.sha256(data).hexdigest(), f"s3://audit/user-data/{len(self.copies)}"
        )
        self.copies[kept.kept_at] = data
        return kept


@dataclass
class MemoryLifecycleHooks(_Failing):
    """Hooks that wait as long as `waits` says, by group and name; `completed` keeps what was let go
    on."""

    waits: dict[tuple[str, str], timedelta] = field(default_factory=dict)
    completed: list[tuple[str, LifecycleAction]] = field(default_factory=list)

    def heartbeat(self, target: Target, group: str, hook: str) -> timedelta | None:
        self._may_fail()
        return self.waits.get((group, hook))

    def complete(self, target: Target, instance_id: str, action: LifecycleAction) -> None:
        self._may_fail()
        self.completed.append((instance_id, action))


@dataclass
class RecordingUndoer:
    """The function that may start instances; answers as a test says."""

    answer: UndoAnswer | Exception = UndoAnswer(True, "asked")
    asked: list[tuple[EpisodeRef, str, str]] = field(default_factory=list)

    def undo(self, ref: EpisodeRef, by: str, channel: str) -> UndoAnswer:
        """As the port says."""
        self.asked.append((ref, by, channel))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer
