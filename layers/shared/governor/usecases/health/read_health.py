"""Reads the state of the GPUs of many instances in as few metric reads as possible.

Where the `InstanceId` aggregate exists, it is asked first, and single GPUs only for what it cannot rule out:
no GPU is hotter than the hottest, none is lost where the sum of lost ones is zero. Which series exist is
learnt from one listing a namespace. This module must not notify anybody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, partial

from governor.domain.evidence import Series, mean, peak, readings, window_before
from governor.domain.health.health import (
    KNOWN_XIDS,
    Finding,
    GpuFigures,
    Xid,
    first_above_zero,
    health_findings,
)
from governor.domain.instance import Instance, Target
from governor.domain.policy.policy import Health, Metrics, Policy
from governor.ports import MetricQuery, MetricReader
from governor.usecases.evidence.gpu_series import Dimensions, by_index, gpu_label, is_gpu, merged

LOST_METRIC = "GPULost"
"""Published for every GPU by `agent/` with its group `health`, so it shows where that group is found."""
XID_METRIC = "GPUXidErrors"


@dataclass(frozen=True, slots=True)
class HealthRequest:
    """One instance, the policy it is under, and whether advice is wanted, which costs a read a GPU more."""

    instance: Instance
    policy: Policy
    advice: bool = False


@dataclass(frozen=True, slots=True)
class HealthReading:
    """What is known of the GPUs of one instance.

    Attributes:
        findings: the highest severity first. Advice on what holds GPUs back only where it was asked for.
        measured: whether its GPUs have any reading in the window; without, nothing is known.
        has_hardware_figures: whether there is a reading of lost GPUs, Xid, ECC, repairs or throttling.
        works: whether its GPUs were at work, so that advice could be given.
        problem: what could not be read; findings may be missing then.
    """

    instance: Instance
    findings: tuple[Finding, ...] = ()
    measured: bool = False
    has_hardware_figures: bool = False
    works: bool = False
    problem: str | None = None


def _most_of_one(series: Series, gpus: int, rule: Health) -> float:
    """The highest mean that one GPU can have where all together have this one: if the others are at zero, and
    itself measured no longer than a mean needs to be believed."""
    share = 100.0 / max(rule.minimum_coverage_percent, 1.0) if gpus > 1 else 1.0
    return (mean(series) or 0.0) * gpus * share


def _hot(series: Series, gpus: int, rule: Health) -> bool:
    del gpus  # the aggregate is the hottest one
    return sum(v is not None and v > rule.hot_above_celsius for v in series) >= rule.hot_periods


def _at_work(series: Series, gpus: int, rule: Health) -> bool:
    return _most_of_one(series, gpus, rule) >= rule.busy_from_percent


def _throttled(series: Series, gpus: int, rule: Health) -> bool:
    return _most_of_one(series, gpus, rule) > rule.throttled_above_percent


def _any(series: Series, gpus: int, rule: Health) -> bool:
    del gpus, rule
    return (peak(series) or 0.0) > 0


@dataclass(frozen=True, slots=True)
class _Figure:
    """One figure of `GpuFigures`, and how it is read.

    Attributes:
        name: of the figure.
        published: the metric of `agent/`; else the name in `policy.metrics`.
        of_gpu: the statistic of a single GPU.
        of_all: the statistic of the aggregate.
        suspicious: whether a series of so many GPUs may hide a finding; it never misses one.
        is_hardware: only `agent/` publishes it.
    """

    name: str
    published: str
    of_gpu: str
    of_all: str
    suspicious: Callable[[Series, int, Health], bool]
    is_hardware: bool = True

    def metric(self, names: Metrics) -> tuple[str, str]:
        """Return namespace and name."""
        if self.is_hardware:
            return names.hardware_namespace, self.published
        return names.namespace, getattr(names, self.published)


_FIGURES = (
    _Figure("temperature_celsius", "temperature", "Average", "Maximum", _hot, is_hardware=False),
    _Figure("utilization", "utilization", "Average", "Average", _at_work, is_hardware=False),
    _Figure("lost", LOST_METRIC, "Maximum", "Maximum", _any),
    _Figure("ecc_uncorrected", "GPUEccUncorrected", "Maximum", "Maximum", _any),
    _Figure("repair_pending", "GPUMemoryRepairPending", "Maximum", "Maximum", _any),
    _Figure("repair_failed", "GPUMemoryRepairFailed", "Maximum", "Maximum", _any),
    _Figure("thermal_throttle", "GPUThermalThrottle", "Average", "Average", _throttled),
    _Figure("hardware_slowdown", "GPUHardwareSlowdown", "Average", "Average", _throttled),
)
_XIDS = _Figure("xids", XID_METRIC, "Sum", "Sum", _any)
_MEMORY = _Figure(
    "memory_utilization", "memory_utilization", "Average", "Average", _at_work, is_hardware=False
)
HARDWARE_METRICS = tuple(figure.published for figure in (*_FIGURES, _XIDS) if figure.is_hardware)
"""The metrics that only `agent/` publishes."""


@dataclass(frozen=True, slots=True)
class _Sets:
    """The dimension sets of one instance in one namespace: its aggregate, if there is one, and its GPUs."""

    aggregate: Dimensions | None = None
    gpus: tuple[Dimensions, ...] = ()

    @property
    def singly(self) -> tuple[Dimensions, ...]:
        """The GPUs one by one; where only the aggregate is published, that."""
        return self.gpus or ((self.aggregate,) if self.aggregate is not None else ())

    @property
    def summed(self) -> tuple[Dimensions, ...]:
        """The aggregate, where it saves reads; else nothing."""
        return (self.aggregate,) if self.aggregate is not None and len(self.gpus) > 1 else ()


@dataclass(slots=True)
class _Work:
    """One instance while its figures come together."""

    request: HealthRequest
    agent: _Sets
    hardware: _Sets
    figures: dict[str, dict[str, Series]] = field(default_factory=lambda: defaultdict(dict))
    """By figure, then by GPU."""
    measured: bool = False
    has_hardware_figures: bool = False
    works: bool = False
    problem: str | None = None

    @property
    def instance_id(self) -> str:
        return self.request.instance.instance_id

    def note(self, figure: _Figure, series: Series) -> None:
        """A series is listed for hours after its last reading: only what was read counts as measured."""
        is_measured = peak(series) is not None
        self.measured |= is_measured and not figure.is_hardware
        self.has_hardware_figures |= is_measured and figure.is_hardware

    def sets(self, figure: _Figure) -> _Sets:
        return self.hardware if figure.is_hardware else self.agent

    def suspects(self, figure: _Figure, answers: Mapping[str, Series], gpus: int = 1) -> list[str]:
        """The GPUs, or the aggregate of so many, whose series may hold a finding."""
        rule = self.request.policy.health
        return [label for label, series in answers.items() if figure.suspicious(series, gpus, rule)]


_Read = tuple[_Work, _Figure, Dimensions, str]
"""Whose figure to read, from which series, by which statistic."""
_Listing = Callable[[str, str], Mapping[str, Sequence[Dimensions]]]
"""Dimension sets by instance id, of a metric by namespace and name."""


@dataclass(frozen=True, slots=True)
class ReadHealth:
    """Findings for a batch of instances of one target."""

    metrics: MetricReader

    def __call__(
        self, target: Target, requests: Sequence[HealthRequest], now: datetime
    ) -> dict[str, HealthReading]:
        """Readings by instance id.

        Raises:
            CloudError: the series could not be listed. A read that fails is that instance's `problem`.
        """
        groups: dict[tuple[Metrics, Health], list[HealthRequest]] = defaultdict(list)
        for request in requests:
            groups[request.policy.metrics, request.policy.health].append(request)
        # Groups differ in thresholds and seldom in names: each listing is made once for all.
        listing = cache(partial(self.metrics.list_series, target))
        found: dict[str, HealthReading] = {}
        for group in groups.values():
            found |= _Batch(self.metrics, listing, target, group, now).read()
        return found


class _Batch:
    """Instances that share metric names and thresholds."""

    def __init__(
        self,
        metrics: MetricReader,
        listing: _Listing,
        target: Target,
        requests: Sequence[HealthRequest],
        now: datetime,
    ) -> None:
        self._metrics, self._listing, self._target = metrics, listing, target
        policy = requests[0].policy
        self._names = policy.metrics
        self._window = window_before(now, policy.health.window, policy.health.period, policy.lag)
        ids = [request.instance.instance_id for request in requests]
        agent = self._list_agent(ids)
        hardware = listing(self._names.hardware_namespace, LOST_METRIC)
        self._work = [
            _Work(request, _sets(agent.get(i, ())), _sets(hardware.get(i, ())))
            for request, i in zip(requests, ids, strict=True)
        ]

    def read(self) -> dict[str, HealthReading]:
        """First the aggregates, then what they do not rule out, then Xid numbers and memory traffic."""
        self._read_known()
        self._read_singly()
        return {work.instance_id: self._reading(work) for work in self._work}

    def _list_agent(self, ids: Iterable[str]) -> Mapping[str, Sequence[Dimensions]]:
        """By temperature, which GPUs in MIG mode publish, too; by utilization where there is none."""
        names = self._names
        found = self._listing(names.namespace, names.temperature)
        if all(instance_id in found for instance_id in ids):
            return found
        return {**self._listing(names.namespace, names.utilization), **found}

    def _read_known(self) -> None:
        """The aggregates, and single GPUs where there is none."""
        self._fetch(
            [
                (work, figure, dimensions, figure.of_all if work.sets(figure).summed else figure.of_gpu)
                for work in self._work
                for figure in (*_FIGURES, _XIDS)
                for dimensions in work.sets(figure).summed or work.sets(figure).singly
            ]
        )

    def _read_singly(self) -> None:
        """What the first look could not rule out, GPU by GPU."""
        reads: list[_Read] = []
        for work in self._work:
            for figure in _FIGURES:
                summed = work.sets(figure).summed
                first = work.figures.pop(figure.name, {}) if summed else work.figures[figure.name]
                suspects = work.suspects(figure, first, len(work.sets(figure).gpus) if summed else 1)
                if figure.name == "utilization":
                    work.works = bool(suspects)
                if summed and suspects:
                    reads += [(work, figure, one, figure.of_gpu) for one in work.sets(figure).gpus]
            if work.works and work.request.advice:
                reads += [(work, _MEMORY, one, _MEMORY.of_gpu) for one in work.agent.singly]
            reads += self._xid_reads(work)
        self._fetch(reads)

    def _xid_reads(self, work: _Work) -> Iterable[_Read]:
        """One series a GPU and number; their dimensions are known, so none has to be listed first."""
        suspects = work.suspects(_XIDS, work.figures.pop(_XIDS.name, {}))
        if not suspects:
            return
        for dimensions in work.hardware.singly:
            if not work.hardware.summed and gpu_label(dimensions) not in suspects:
                continue
            for number in KNOWN_XIDS:
                yield work, _xid(number), (*dimensions, ("Xid", str(number))), _XIDS.of_gpu

    def _reading(self, work: _Work) -> HealthReading:
        labels = sorted({label for found in work.figures.values() for label in found}, key=by_index)
        series = {figure.name for figure in (*_FIGURES, _MEMORY)}
        gpus = [
            GpuFigures(
                gpu=label,
                xids=self._xids(work, label),
                **{name: work.figures[name].get(label, ()) for name in series},
            )
            for label in labels
        ]
        return HealthReading(
            instance=work.request.instance,
            findings=health_findings(self._window, gpus, work.request.policy.health),
            measured=work.measured,
            has_hardware_figures=work.has_hardware_figures,
            works=work.works,
            problem=work.problem,
        )

    def _xids(self, work: _Work, label: str) -> tuple[Xid, ...]:
        found = []
        for number in KNOWN_XIDS:
            series = work.figures[_xid(number).name].get(label, ())
            first = first_above_zero(self._window, series)
            if first is not None:
                found.append(Xid(number, int(sum(readings(series))), first))
        return tuple(found)

    def _fetch(self, reads: Sequence[_Read]) -> None:
        """Add the series to their figures, by GPU; what could not be read is noted with the instance."""
        if not reads:
            return
        queries = [
            MetricQuery(str(number), *figure.metric(self._names), dimensions, statistic)
            for number, (_, figure, dimensions, statistic) in enumerate(reads)
        ]
        answer = self._metrics.read(self._target, queries, self._window)
        for query, (work, figure, dimensions, _) in zip(queries, reads, strict=True):
            if query.key in answer.problems:
                work.problem = f"{query.metric}: {answer.problems[query.key]}"
            if (series := answer.series.get(query.key)) is not None:
                work.note(figure, series)
                own, label = work.figures[figure.name], gpu_label(dimensions)
                own[label] = merged(own.get(label), series)


def _xid(number: int) -> _Figure:
    return replace(_XIDS, name=f"xid {number}")


def _sets(listed: Iterable[Dimensions]) -> _Sets:
    """The aggregate is the smallest set without a GPU: by `InstanceId` alone, where there is that."""
    gpus = tuple(sorted(one for one in listed if is_gpu(one)))
    others = sorted((one for one in listed if not is_gpu(one)), key=len)
    return _Sets(others[0] if others else None, gpus)
