"""In-memory twins of the ports: the same promises without AWS. For tests, back-tests and benchmarks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from governor.domain.alert import Alert
from governor.domain.approval import (
    Approval,
    ApprovalStatus,
    Decision,
    first_approval,
    hold_after,
    status_after,
)
from governor.domain.breaker import SweepDay
from governor.domain.cost import Meter
from governor.domain.delivery import Delivery
from governor.domain.episode import (
    BreakerState,
    Episode,
    EpisodeRef,
    InstanceRecord,
    Observation,
    Outcome,
    Phase,
)
from governor.domain.evidence import Series, Window
from governor.domain.instance import Instance, Protection, SpotRequestType, Target, Volume
from governor.domain.interruption import LifecycleAction
from governor.domain.ledger import LedgerEntry
from governor.domain.managed import BatchEnvironment
from governor.domain.notice import Notice
from governor.domain.plan import Price
from governor.domain.policy import AppliedPolicy, Policy, TagMatch
from governor.domain.units import UtcDatetime, as_utc
from governor.errors import (
    CloudError,
    ConflictError,
    NobodyListens,
    NotFound,
    Protected,
    Unsupported,
    WrongState,
)
from governor.ports import Burst, MetricAnswer, MetricQuery, Snapshot, SpotPrices

Dimensions = tuple[tuple[str, str], ...]


@dataclass
class FakeClock:
    """A clock that stands still until it is moved."""

    moment: UtcDatetime

    def now(self) -> UtcDatetime:
        """As the port says."""
        return self.moment


@dataclass
class StaticPolicies:
    """One policy for all."""

    policy: Policy = field(default_factory=Policy)
    version: str = "test"

    def base(self) -> AppliedPolicy:
        """As the port says."""
        return AppliedPolicy(self.policy, self.version)

    def applied_to(self, instance: Instance) -> AppliedPolicy:
        """As the port says."""
        return self.base()


@dataclass
class StaticPrices:
    """The same price for all."""

    fixed: Price

    def price(self, instance: Instance, policy: Policy) -> Price:
        """As the port says."""
        return self.fixed


@dataclass
class MemoryEc2:
    """A small EC2: reads, tags, stops, terminates and snapshots as EC2 answers them.

    `failures` maps an operation to errors that are raised by its next calls, first come first served.
    Snapshots are `pending` until `finish_snapshots` is called. A dry run meets the same refusals, and does
    nothing.
    """

    instances: dict[str, Instance] = field(default_factory=dict)
    protections: dict[str, Protection] = field(default_factory=dict)
    spot_requests: dict[str, SpotRequestType] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    snapshots: dict[str, tuple[Snapshot, dict[str, str]]] = field(default_factory=dict)
    failures: dict[str, list[Exception]] = field(default_factory=dict)
    calls: list[tuple[str, str, bool]] = field(default_factory=list)
    instant: bool = True
    started_at: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def add(self, *instances: Instance) -> None:
        """Adds instances, or replaces those with the same id."""
        self.instances |= {instance.instance_id: instance for instance in instances}

    def _raise_planned(self, operation: str) -> None:
        planned = self.failures.get(operation)
        if planned:
            raise planned.pop(0)

    # InstanceReader

    def list_selected(self, target: Target, selector: TagMatch) -> list[Instance]:
        """As the port says."""
        self._raise_planned("list_selected")
        return [
            instance
            for instance in self.instances.values()
            if instance.target == target and instance.state == "running" and selector.is_on(instance)
        ]

    def describe(self, target: Target, instance_id: str) -> Instance | None:
        """As the port says."""
        self._raise_planned("describe")
        return self.instances.get(instance_id)

    def describe_all(self, target: Target, instance_ids: Sequence[str]) -> dict[str, Instance]:
        """As the port says."""
        self._raise_planned("describe_all")
        return {one: self.instances[one] for one in instance_ids if one in self.instances}

    def protection(self, target: Target, instance_id: str) -> Protection:
        """As the port says."""
        return self.protections.get(instance_id, Protection())

    def spot_request_type(self, target: Target, spot_request_id: str) -> SpotRequestType | None:
        """As the port says."""
        return self.spot_requests.get(spot_request_id)

    def with_volume_sizes(self, instance: Instance) -> tuple[Volume, ...]:
        """As the port says: every volume that has none yet has 100 GiB."""
        return tuple(
            volume if volume.size_gib is not None else replace(volume, size_gib=100, volume_type="gp3")
            for volume in instance.volumes
        )

    # InstanceTagger

    def set_tags(
        self, target: Target, instance_ids: Sequence[str], tags: Mapping[str, str], *, dry_run: bool
    ) -> dict[str, str]:
        """As the port says."""
        return self._retag(instance_ids, lambda old: {**old, **tags}, "set_tags", dry_run)

    def remove_tags(
        self, target: Target, instance_ids: Sequence[str], keys: Collection[str], *, dry_run: bool
    ) -> dict[str, str]:
        """As the port says."""

        def without(old: Mapping[str, str]) -> dict[str, str]:
            return {key: value for key, value in old.items() if key not in keys}

        return self._retag(instance_ids, without, "remove_tags", dry_run)

    def _retag(
        self,
        instance_ids: Sequence[str],
        change: Callable[[Mapping[str, str]], dict[str, str]],
        operation: str,
        dry_run: bool,
    ) -> dict[str, str]:
        failures = {}
        for instance_id in instance_ids:
            self.calls.append((operation, instance_id, dry_run))
            try:
                self._raise_planned(f"{operation}:{instance_id}")
                instance = self._existing(instance_id)
            except CloudError as error:
                failures[instance_id] = str(error)
                continue
            if not dry_run:
                self.instances[instance_id] = replace(instance, tags=change(instance.tags))
        return failures

    # InstanceController

    def stop(self, target: Target, instance_id: str, *, dry_run: bool) -> None:
        """As the port says."""
        instance = self._checked("stop", instance_id, dry_run, self.protection(target, instance_id).stop)
        request = instance.spot_request_id and self.spot_requests.get(instance.spot_request_id)
        one_time = instance.spot_request_id is not None and request is not SpotRequestType.PERSISTENT
        if instance.root_device_type != "ebs" or one_time:
            raise Unsupported(f"{instance_id} cannot be stopped")
        if instance.state != "running":
            raise WrongState(f"{instance_id} is {instance.state}")
        if not dry_run:
            state = "stopped" if self.instant else "stopping"
            self.instances[instance_id] = replace(instance, state=state, public_ip=None)

    # InstanceStarter

    def start(self, target: Target, instance_id: str) -> None:
        """As the port says: it runs at once, since `started_at`."""
        instance = self._checked("start", instance_id, False, False)
        if instance.state not in ("stopped", "pending", "running"):
            raise WrongState(f"{instance_id} is {instance.state}")
        self.instances[instance_id] = replace(instance, state="running", launch_time=self.started_at)

    def terminate(self, target: Target, instance_id: str, *, dry_run: bool) -> None:
        """As the port says."""
        protected = self.protection(target, instance_id).termination
        instance = self._checked("terminate", instance_id, dry_run, protected)
        if not dry_run:
            state = "terminated" if self.instant else "shutting-down"
            self.instances[instance_id] = replace(instance, state=state)

    def cancel_spot_request(self, target: Target, spot_request_id: str, *, dry_run: bool) -> None:
        """As the port says."""
        self.calls.append(("cancel_spot_request", spot_request_id, dry_run))
        self._raise_planned("cancel_spot_request")
        if not dry_run:
            self.cancelled.add(spot_request_id)

    def _checked(self, operation: str, instance_id: str, dry_run: bool, protected: bool) -> Instance:
        self.calls.append((operation, instance_id, dry_run))
        self._raise_planned(operation)
        instance = self._existing(instance_id)
        if protected:
            raise Protected(f"{instance_id} is protected")
        if instance.operator_managed:
            raise Protected(f"{instance_id} is managed by {instance.operator_principal}")
        return instance

    def _existing(self, instance_id: str) -> Instance:
        if instance_id not in self.instances:
            raise NotFound(f"{instance_id} does not exist", code="InvalidInstanceID.NotFound")
        return self.instances[instance_id]

    # Snapshotter

    def create(
        self,
        target: Target,
        instance_id: str,
        tags: Mapping[str, str],
        *,
        dry_run: bool,
        boot_volume: bool = True,
    ) -> list[Snapshot]:
        """As the port says."""
        self.calls.append(("create_snapshots", instance_id, dry_run))
        self._raise_planned("create_snapshots")
        instance = self._existing(instance_id)
        if dry_run:
            return []
        created = [
            Snapshot(f"snap-{len(self.snapshots) + n:017x}", volume.volume_id, "pending")
            for n, volume in enumerate(instance.volumes[0 if boot_volume else 1 :])
        ]
        self.snapshots |= {snapshot.snapshot_id: (snapshot, dict(tags)) for snapshot in created}
        return created

    def find(self, target: Target, tags: Mapping[str, str]) -> list[Snapshot]:
        """As the port says."""
        return [
            snapshot
            for snapshot, own in self.snapshots.values()
            if all(own.get(key) == value for key, value in tags.items())
        ]

    def finish_snapshots(self, state: str = "completed") -> None:
        """Every pending snapshot ends in this state."""
        for snapshot_id, (snapshot, tags) in self.snapshots.items():
            if snapshot.state == "pending":
                self.snapshots[snapshot_id] = (replace(snapshot, state=state), tags)


@dataclass
class MemoryMetrics:
    """Metrics by `(metric, dimensions)`: a function of the window that gives the series, or a fixed series.

    `broken` holds metrics, or ids of instances, whose reads fail with that reason.
    """

    published: dict[tuple[str, Dimensions], Series] = field(default_factory=dict)
    statistics: dict[tuple[str, Dimensions, str], Series] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    reads: list[MetricQuery] = field(default_factory=list)
    namespaces: dict[tuple[str, Dimensions], str] = field(default_factory=dict)
    """Of series outside of the GPUs' own."""
    lists: int = 0
    lists_of_work: int = 0
    list_failure: CloudError | None = None

    def publish(
        self,
        metric: str,
        dimensions: Mapping[str, str],
        values: Sequence[float | None],
        statistic: str = "",
        namespace: str = "",
    ) -> None:
        """A series, oldest first; it is aligned to the end of whatever window is read."""
        key = tuple(sorted(dimensions.items()))
        if namespace:
            self.namespaces[metric, key] = namespace
        if statistic:
            self.statistics[metric, key, statistic] = tuple(values)
        else:
            self.published[metric, key] = tuple(values)

    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        """As the port says."""
        self.reads += queries
        series, problems = {}, {}
        for query in queries:
            why = self.broken.get(query.metric) or self.broken.get(dict(query.dimensions)["InstanceId"])
            if why is not None:
                problems[query.key] = why
                continue
            key = tuple(sorted(query.dimensions))
            found = self.statistics.get((query.metric, key, query.statistic))
            found = found if found is not None else self.published.get((query.metric, key))
            if found is not None:
                padded = (None,) * window.bins + found
                series[query.key] = padded[-window.bins :]
        return MetricAnswer(series, problems)

    def list_series(
        self, target: Target, namespace: str, metric: str, instance_id: str | None = None
    ) -> dict[str, list[Dimensions]]:
        """As the port says."""
        self.lists += 1
        if self.list_failure is not None:
            raise self.list_failure
        found: dict[str, list[Dimensions]] = {}
        for name, dimensions in self.published:
            owner = dict(dimensions).get("InstanceId")
            if name == metric and owner is not None and instance_id in (None, owner):
                found.setdefault(owner, []).append(dimensions)
        return found

    def list_published(
        self, target: Target, namespace: str, instance_id: str | None = None, *, recently: bool = True
    ) -> dict[str, list[tuple[str, Dimensions]]]:
        """As the port says."""
        self.lists_of_work += 1
        if self.list_failure is not None:
            raise self.list_failure
        found: dict[str, list[tuple[str, Dimensions]]] = {}
        for (name, dimensions), own in self.namespaces.items():
            owner = dict(dimensions).get("InstanceId")
            if own == namespace and owner is not None and instance_id in (None, owner):
                found.setdefault(owner, []).append((name, dimensions))
        return found


@dataclass
class MemoryWorkflow:
    """Executions by name: `running`, or ended; answers by token."""

    executions: dict[str, bool] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    answers: dict[str, dict[str, object]] = field(default_factory=dict)
    failure: CloudError | None = None

    def start(self, ref: EpisodeRef) -> bool:
        """As the port says."""
        if self.failure is not None:
            raise self.failure
        return self.executions.setdefault(ref.execution_name, True)

    def is_running(self, ref: EpisodeRef) -> bool | None:
        """As the port says."""
        return self.executions.get(ref.execution_name)

    def answer(self, task_token: str, decision: Mapping[str, object]) -> bool:
        """As the port says."""
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

    def must_be_heard(self) -> bool:
        """As the port says."""
        if not self.is_heard:
            raise NobodyListens("nobody is subscribed")
        return self.by_people

    def announce(self, alert: Alert) -> None:
        """As the port says."""
        if self.failure is not None:
            raise self.failure
        self.sent.append(alert)


class MemoryEventLog:
    """The port `EventLog`. `failure` is raised by every call."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._until: dict[str, datetime] = {}
        self._bursts: dict[tuple[str, str, str], Burst] = {}
        self._notices: dict[tuple[str, str, str], tuple[Notice, bool, bool]] = {}
        """With whether it is open, and whether to remind of it."""
        self._told: dict[tuple[str, str, str], datetime] = {}
        self.failure: CloudError | None = None

    def claim(self, key: str, now: datetime, lease: timedelta) -> bool:
        """As the port says."""
        with self._lock:
            self._raise_planned()
            if key in self._until and now < self._until[key]:
                return False
            self._until[key] = now + lease
            return True

    def claim_all(self, keys: Sequence[str], now: datetime, lease: timedelta) -> frozenset[str]:
        """As the port says."""
        with self._lock:
            return frozenset(key for key in keys if self.claim(key, now, lease))

    def done(self, key: str, now: datetime, keep: timedelta) -> None:
        """As the port says."""
        with self._lock:
            self._raise_planned()
            self._until[key] = now + keep

    def done_all(self, keys: Sequence[str], now: datetime, keep: timedelta) -> None:
        """As the port says."""
        for key in keys:
            self.done(key, now, keep)

    def count(self, target: Target, name: str, now: datetime, window: timedelta) -> Burst:
        """As the port says."""
        with self._lock:
            self._raise_planned()
            key = (*_place(target), name)
            before = self._bursts.get(key)
            if before is None or now >= before.started_at + window:
                before = Burst(0, now)
            self._bursts[key] = replace(before, number=before.number + 1)
            return self._bursts[key]

    def keep_notice(self, notice: Notice, *, remind: bool) -> bool:
        """As the port says."""
        with self._lock:
            self._raise_planned()
            place = notice.account, notice.region, notice.key
            kept, is_open, reminded = self._notices.get(place, (notice, True, remind))
            if notice.said_at < kept.said_at or (notice.said_at == kept.said_at and not is_open):
                return False
            if is_open and kept.at is not None and notice.at in (kept.at, None):
                notice, remind = replace(kept, said_at=notice.said_at), reminded
            self._notices[place] = notice, True, remind
            return True

    def drop_notice(self, notice: Notice) -> None:
        """As the port says."""
        with self._lock:
            self._raise_planned()
            place = notice.account, notice.region, notice.key
            if place not in self._notices or self._notices[place][0].said_at <= notice.said_at:
                self._notices[place] = notice, False, False

    def notices(self, target: Target) -> list[Notice]:
        """As the port says."""
        self._raise_planned()
        place = _place(target)
        return [notice for key, (notice, _, remind) in self._notices.items() if key[:2] == place and remind]

    def told(self, target: Target, now: datetime) -> frozenset[str]:
        """As the port says."""
        self._raise_planned()
        place = _place(target)
        return frozenset(key[2] for key, until in self._told.items() if key[:2] == place and now < until)

    def keep_told(self, target: Target, keys: Collection[str], until: datetime) -> None:
        """As the port says."""
        self._raise_planned()
        self._told |= {(*_place(target), key): until for key in keys}

    def _raise_planned(self) -> None:
        if self.failure is not None:
            raise self.failure


@dataclass
class StaticSpotMarket:
    """The same answers at every question; `asked` keeps the Regions of each, `scored` the types."""

    answer: SpotPrices = field(default_factory=lambda: SpotPrices((), {}))
    by_region: dict[str, int] = field(default_factory=dict)
    failure: CloudError | None = None
    asked: list[tuple[str, ...]] = field(default_factory=list)
    scored: list[tuple[str, ...]] = field(default_factory=list)

    def prices(self, target: Target, regions: Sequence[str], instance_type: str, platform: str) -> SpotPrices:
        """As the port says."""
        self.asked.append(tuple(regions))
        return self.answer

    def scores(
        self, target: Target, regions: Sequence[str], instance_types: Sequence[str]
    ) -> Mapping[str, int]:
        """As the port says."""
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
        """As the port says."""
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
        """As the port says."""
        if self.failure is not None:
            raise self.failure
        if self.unmanaged.intersection(instance_ids):
            raise CloudError("not managed", operation="ssm:SendCommand", code="InvalidInstanceId")
        self.sent += [(one, reason, seconds_left, signal) for one in instance_ids]
        self.commands.append(tuple(instance_ids))
        return f"command-{len(self.commands)}"

    def managed(self, target: Target, instance_ids: Sequence[str]) -> frozenset[str]:
        """As the port says."""
        self.asked.append(tuple(instance_ids))
        if self.failure is not None:
            raise self.failure
        return frozenset(instance_ids) - self.unmanaged


@dataclass
class MemoryLifecycleHooks:
    """Hooks that wait as long as `waits` says, by group and name; `completed` keeps what was let go on."""

    waits: dict[tuple[str, str], timedelta] = field(default_factory=dict)
    completed: list[LifecycleAction] = field(default_factory=list)
    failure: CloudError | None = None

    def heartbeat(self, target: Target, group: str, hook: str) -> timedelta | None:
        """As the port says."""
        if self.failure is not None:
            raise self.failure
        return self.waits.get((group, hook))

    def complete(self, target: Target, action: LifecycleAction) -> None:
        """As the port says."""
        if self.failure is not None:
            raise self.failure
        self.completed.append(action)


class MemoryStateTable:
    """The port `StateTable`. One lock stands for DynamoDB's conditions."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._policy: str | None = None
        self._outbox: dict[tuple[str, str], str] = {}
        self._leases: dict[str, datetime] = {}
        self._digests: dict[str, tuple[str, ...]] = {}
        self._deliveries: dict[tuple[str, str, str, str], Delivery] = {}
        self._observations: dict[tuple[str, str], dict[str, Observation]] = {}
        self._records: dict[tuple[str, str, str], InstanceRecord] = {}
        self._sweep_days: dict[tuple[str, str], tuple[SweepDay, ...]] = {}
        self._breakers: dict[tuple[str, str], BreakerState] = {}
        self._episodes: dict[str, Episode] = {}
        self._approvals: dict[str, Approval] = {}
        self._ledger: dict[tuple[str, str], LedgerEntry] = {}
        self._meters: dict[tuple[str, str, str], Meter] = {}
        self.sweeps: list[tuple[Target, datetime, dict[str, int]]] = []

    def observations(self, target: Target) -> dict[str, Observation]:
        """As the port says."""
        return dict(self._observations.get(_place(target), {}))

    def remember(self, target: Target, observations: Mapping[str, Observation], at: datetime) -> None:
        """As the port says."""
        self._observations[_place(target)] = dict(observations)

    def records(self, target: Target) -> dict[str, InstanceRecord]:
        """As the port says."""
        return {key[2]: record for key, record in self._records.items() if key[:2] == _place(target)}

    def record(self, target: Target, instance_id: str) -> InstanceRecord:
        """As the port says."""
        plain = Target(target.account, target.region)
        return self._records.get((*_place(target), instance_id), InstanceRecord(plain, instance_id))

    def set_marked(self, target: Target, instance_id: str, at: datetime | None) -> None:
        """As the port says."""
        with self._lock:
            if at is not None or (*_place(target), instance_id) in self._records:
                self._store(replace(self.record(target, instance_id), marked_at=at))

    def note_warned(self, target: Target, until: Mapping[str, datetime]) -> None:
        """As the port says."""
        with self._lock:
            for instance_id, at in until.items():
                self._store(replace(self.record(target, instance_id), warned_until=at))

    def drop_warning(self, target: Target, instance_id: str, now: datetime) -> None:
        """As the port says."""
        with self._lock:
            if self.record(target, instance_id).holds_an_old_warning_alone(now):
                del self._records[(*_place(target), instance_id)]

    def snooze(self, target: Target, instance_id: str, until: datetime) -> None:
        """As the port says."""
        with self._lock:
            record = self.record(target, instance_id)
            self._store(replace(record, hold=replace(record.hold, snoozed_until=until)))

    def clear_quiet(self, target: Target, instance_id: str) -> None:
        """As the port says."""
        with self._lock:
            if (*_place(target), instance_id) in self._records:
                record = self.record(target, instance_id)
                self._store(replace(record, quiet_until=None, quiet_launch_time=None))

    def sweep_days(self, target: Target) -> tuple[SweepDay, ...]:
        """As the port says."""
        return self._sweep_days.get(_place(target), ())

    def set_sweep_days(self, target: Target, days: Sequence[SweepDay]) -> None:
        """As the port says."""
        self._sweep_days[_place(target)] = tuple(days)

    def breaker(self, target: Target) -> BreakerState | None:
        """As the port says."""
        return self._breakers.get(_place(target))

    def set_breaker(self, target: Target, state: BreakerState | None) -> bool:
        """As the port says."""
        with self._lock:
            if state is None:
                return self._breakers.pop(_place(target), None) is not None
            was_tripped = _place(target) in self._breakers
            self._breakers[_place(target)] = state
            return not was_tripped

    def save_sweep(self, target: Target, at: datetime, counts: Mapping[str, int]) -> None:
        """As the port says."""
        self.sweeps.append((target, at, dict(counts)))

    def take_lock(self, ref: EpisodeRef) -> bool:
        """As the port says."""
        with self._lock:
            record = self.record(ref.target, ref.instance_id)
            if record.open_episode == ref:
                return True
            if record.open_episode is not None or record.episodes >= ref.number:
                return False
            self._store(replace(record, open_episode=ref, episodes=ref.number))
            return True

    def save_opened(self, episode: Episode) -> Episode:
        """As the port says."""
        with self._lock:
            name = episode.ref.execution_name
            if name in self._episodes:
                return self._episodes[name]
            if self.record(episode.ref.target, episode.ref.instance_id).open_episode != episode.ref:
                raise ConflictError("the lock is not held by this episode")
            self._episodes[name] = episode
            self._approvals[episode.approval_id] = first_approval(episode)
            return episode

    def episode(self, ref: EpisodeRef) -> Episode | None:
        """As the port says."""
        return self._episodes.get(ref.execution_name)

    def clear_step(self, ref: EpisodeRef, step: str, at: datetime) -> None:
        """As the port says."""
        with self._lock:
            self._open(ref)
            self._change(ref, phase=Phase.ACTING, phase_since=at, cleared_step=step, cleared_at=at)

    def set_snapshots(self, ref: EpisodeRef, snapshots: Mapping[str, str]) -> None:
        """As the port says."""
        with self._lock:
            self._change(ref, snapshots=dict(snapshots))

    def note_told(self, ref: EpisodeRef, at: datetime) -> None:
        """As the port says."""
        with self._lock:
            self._change(ref, outcome_told_at=at)

    def note_undo(self, ref: EpisodeRef, by: str, at: datetime) -> bool:
        """As the port says."""
        with self._lock:
            episode = self._episodes.get(ref.execution_name)
            if episode is None or episode.phase is not Phase.CLOSED:
                raise ConflictError(f"episode {ref.execution_name} is not closed")
            if episode.undone_at is not None:
                return False
            self._change(ref, undone_at=at, undone_by=by)
            return True

    def note_step(self, ref: EpisodeRef, step: str, at: datetime) -> None:
        """As the port says."""
        with self._lock:
            self._change(ref, steps_done={step: at, **self._open(ref).steps_done})

    def close_episode(
        self,
        ref: EpisodeRef,
        outcome: Outcome,
        reason: str,
        at: datetime,
        *,
        quiet_until: datetime | None,
        ledger: LedgerEntry | None,
    ) -> bool:
        """As the port says."""
        with self._lock:
            record = self.record(ref.target, ref.instance_id)
            episode = self._episodes.get(ref.execution_name)
            if episode is None and record.open_episode != ref:
                return False
            if episode is not None:
                if episode.phase is Phase.CLOSED:
                    return False
                self._change(
                    ref,
                    phase=Phase.CLOSED,
                    phase_since=at,
                    closed_at=at,
                    outcome=outcome,
                    outcome_reason=reason,
                    became=ledger.outcome if ledger is not None and ledger.ours else None,
                )
            if record.open_episode == ref:
                self._free(record, ref, outcome, quiet_until)
            if ledger is not None:
                self._ledger[_ledger_place(ledger)] = ledger
            return True

    def _free(
        self, record: InstanceRecord, ref: EpisodeRef, outcome: Outcome, quiet_until: datetime | None
    ) -> None:
        self._store(
            replace(
                record,
                open_episode=None,
                last_outcome=outcome,
                quiet_until=quiet_until,
                quiet_launch_time=ref.launch_time if quiet_until else None,
            )
        )

    def approval(self, approval_id: str) -> Approval | None:
        """As the port says."""
        return self._approvals.get(approval_id)

    def await_answer(
        self, approval_id: str, task_token: str | None, stage: str, expires_at: datetime
    ) -> Approval:
        """As the port says."""
        with self._lock:
            approval = self._known(approval_id)
            if approval.status is ApprovalStatus.PENDING:
                approval = replace(approval, task_token=task_token, stage=stage, expires_at=expires_at)
                self._approvals[approval_id] = approval
            return approval

    def note_first_yes(self, approval_id: str, decision: Decision) -> Approval:
        """As the port says."""
        with self._lock:
            approval = self._known(approval_id)
            if approval.status is ApprovalStatus.PENDING and approval.first_yes is None:
                approval = replace(approval, first_yes=decision)
                self._approvals[approval_id] = approval
            return approval

    def settle(self, approval_id: str, decision: Decision, hold_until: datetime | None) -> Approval:
        """As the port says."""
        with self._lock:
            approval = self._pending(approval_id)
            ref = approval.episode
            record = self.record(ref.target, ref.instance_id)
            hold = hold_after(record.hold, decision, hold_until)
            if hold != record.hold:
                self._store(replace(record, hold=hold))
            decided = replace(approval, status=status_after(decision.answer), decision=decision)
            self._approvals[approval_id] = decided
            return decided

    def void(self, approval_id: str, reason: str, *, expired: bool, outcome: str = "void") -> Approval:
        """As the port says."""
        with self._lock:
            status = ApprovalStatus.EXPIRED if expired else ApprovalStatus.VOID
            approval = replace(
                self._pending(approval_id), status=status, void_reason=reason, void_outcome=outcome
            )
            self._approvals[approval_id] = approval
            return approval

    def open_entries(self, target: Target, instance_id: str) -> list[LedgerEntry]:
        """As the port says."""
        return [
            entry
            for entry in self._ledger.values()
            if entry.ended_at is None
            and entry.episode.instance_id == instance_id
            and _place(entry.episode.target) == _place(target)
        ]

    def settle_entry(self, entry: LedgerEntry, ended_at: datetime, *, false_stop: bool) -> bool:
        """As the port says."""
        with self._lock:
            stored = self._ledger.get(_ledger_place(entry))
            if stored is None or stored.ended_at is not None:
                return False
            self._ledger[_ledger_place(entry)] = replace(stored, ended_at=ended_at, false_stop=false_stop)
            return True

    def entries(self, month: str) -> list[LedgerEntry]:
        """As the port says."""
        booked = [entry for (place, _), entry in self._ledger.items() if place == month]
        return sorted(booked, key=lambda entry: (entry.booked_at, entry.episode.execution_name))

    def meter(self, target: Target, month: str) -> Meter | None:
        """As the port says."""
        return self._meters.get((month, *_place(target)))

    def bring_forward(self, meter: Meter, seen: Meter | None) -> bool:
        """As the port says."""
        with self._lock:
            key = (meter.month, *_place(meter.target))
            stored = self._meters.get(key)
            if (stored and stored.counted_until) != (seen and seen.counted_until):
                return False
            self._meters[key] = meter
            return True

    def meters(self, month: str) -> list[Meter]:
        """As the port says."""
        return [meter for key, meter in sorted(self._meters.items()) if key[0] == month]

    def keep_policy(self, text: str, at: datetime) -> None:
        """As the port says."""
        self._policy = text

    def kept_policy(self) -> str | None:
        """As the port says."""
        return self._policy

    def deliveries(self, subject: str) -> list[Delivery]:
        """As the port says."""
        return [one for key, one in sorted(self._deliveries.items()) if key[0] == subject]

    def claim_delivery(self, claim: Delivery, now: datetime) -> bool:
        """As the port says."""
        with self._lock:
            stored = self._deliveries.get(_delivery_key(claim))
            if stored is not None and not _is_open(stored, now):
                return False
            self._deliveries[_delivery_key(claim)] = claim
            return True

    def note_delivery(self, delivery: Delivery) -> None:
        """As the port says."""
        with self._lock:
            self._deliveries[_delivery_key(delivery)] = delivery

    def put_outbox(self, group: str, message: str, document: str, at: datetime) -> None:
        """As the port says."""
        with self._lock:
            self._outbox[group, message] = document

    def outbox(self, group: str) -> list[tuple[str, str]]:
        """As the port says."""
        return [(key[1], text) for key, text in sorted(self._outbox.items()) if key[0] == group]

    def drop_outbox(self, group: str, message: str) -> None:
        """As the port says."""
        with self._lock:
            self._outbox.pop((group, message), None)

    def take_lease(self, name: str, now: datetime, seconds: int) -> bool:
        """As the port says."""
        with self._lock:
            if name in self._leases and now < self._leases[name]:
                return False
            self._leases[name] = now + timedelta(seconds=seconds)
            return True

    def end_lease(self, name: str) -> None:
        """As the port says."""
        with self._lock:
            self._leases.pop(name, None)

    def put_digest(self, digest_id: str, approval_ids: Sequence[str], at: datetime) -> None:
        """As the port says."""
        with self._lock:
            self._digests[digest_id] = tuple(approval_ids)

    def digest(self, digest_id: str) -> tuple[str, ...]:
        """As the port says."""
        return self._digests.get(digest_id, ())

    def _store(self, record: InstanceRecord) -> None:
        self._records[(*_place(record.target), record.instance_id)] = record

    def _open(self, ref: EpisodeRef) -> Episode:
        episode = self._stored(ref)
        if episode.phase is Phase.CLOSED:
            raise ConflictError(f"{ref.execution_name} is closed")
        return episode

    def _stored(self, ref: EpisodeRef) -> Episode:
        if ref.execution_name not in self._episodes:
            raise ConflictError(f"{ref.execution_name} does not exist")
        return self._episodes[ref.execution_name]

    def _change(self, ref: EpisodeRef, **changes: Any) -> None:
        self._episodes[ref.execution_name] = replace(self._stored(ref), **changes)

    def _known(self, approval_id: str) -> Approval:
        if approval_id not in self._approvals:
            raise NotFound(f"approval {approval_id} does not exist")
        return self._approvals[approval_id]

    def _pending(self, approval_id: str) -> Approval:
        approval = self._known(approval_id)
        if approval.status is not ApprovalStatus.PENDING:
            raise ConflictError(f"approval {approval_id} is {approval.status.value}")
        return approval


def _place(target: Target) -> tuple[str, str]:
    return target.account, target.region


def _delivery_key(delivery: Delivery) -> tuple[str, str, str, str]:
    return delivery.subject, delivery.message, delivery.channel, delivery.target


def _is_open(delivery: Delivery, now: datetime) -> bool:
    return delivery.given_up or (delivery.not_before is not None and delivery.not_before <= now)


def _ledger_place(entry: LedgerEntry) -> tuple[str, str]:
    return as_utc(entry.booked_at).strftime("%Y-%m"), entry.episode.execution_name


__all__ = [
    "FakeClock",
    "MemoryEc2",
    "MemoryEventLog",
    "MemoryLifecycleHooks",
    "MemoryMetrics",
    "MemoryStateTable",
    "MemoryWorkflow",
    "RecordingAnnouncer",
    "RecordingHook",
    "StaticBatch",
    "StaticPolicies",
    "StaticPrices",
    "StaticSpotMarket",
]
