"""Reads the state of the GPUs of many instances in as few metric reads as possible.

The `InstanceId` aggregate is asked first, where it exists, and single GPUs only for what it cannot
rule out. Which series exist is learnt from one listing a namespace. This module must not notify
anybody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, partial

from governor.domain import evidence
from governor.domain.evidence import Dimensions, Series, Window
from governor.domain.health import health
from governor.domain.instance import Instance, Target
from governor.domain.policy.policy import HEAT_AVERAGE, Health, Metrics, Policy
from governor.ports import Listed, MetricQuery, MetricReader, SeriesFilter

LOST_METRIC = "GPULost"
"""Published for every GPU by `agent/` with its group `health`, so it shows where that group is
found."""


@dataclass(frozen=True, slots=True)
class HealthRequest:
    """One instance, the policy it is under, and whether advice is wanted, which costs a read a GPU
    more."""

    instance: Instance
    policy: Policy
    advice: bool = False


@dataclass(slots=True)
class HealthReading:
    """Facts about the GPUs of one instance.

    Attributes:
        findings: the highest severity first. Advice on what holds GPUs back only where it was asked
            for.
        measured: whether its GPUs have any reading in the window; without, nothing is known.
        has_hardware_figures: whether there is a reading of lost GPUs, Xid, ECC, repairs or
            throttling.
        works: whether its GPUs were at work, so that advice could be given.
        problem: what could not be read; findings may be missing then.
    """

    instance: Instance
    findings: tuple[health.Finding, ...] = ()
    measured: bool = False
    has_hardware_figures: bool = False
    works: bool = False
    problem: str | None = None


def _most_of_one(series: Series, gpus: int, rule: Health) -> float:
    """The highest mean that one GPU can have where all together have this one: if the others are at
    zero, and itself measured no longer than a mean needs to be believed."""
    share = 100.0 / max(rule.minimum_coverage_percent, 1.0) if gpus > 1 else 1.0
    return (evidence.mean(series) or 0.0) * gpus * share


def _hot(series: Series, _gpus: int, rule: Health) -> bool:
    # The aggregate is the hottest one.
    return sum(v is not None and v > rule.hot_above_celsius for v in series) >= health.HOT_AVERAGES


def _at_work(series: Series, gpus: int, rule: Health) -> bool:
    return _most_of_one(series, gpus, rule) >= rule.busy_from_percent


def _throttled(series: Series, gpus: int, rule: Health) -> bool:
    return _most_of_one(series, gpus, rule) > rule.throttled_above_percent


def _any(series: Series, _gpus: int, _rule: Health) -> bool:
    return (evidence.peak(series) or 0.0) > 0


@dataclass(frozen=True, slots=True)
class _Figure:
    """One figure of `GpuFigures`, and how it is read.

    Attributes:
        published: the metric of `agent/`; else the name in `policy.metrics`.
        suspicious: whether a series of so many GPUs may hide a finding; it never misses one.
        of_gpu, of_all: the statistic of a single GPU, and of the aggregate.
        is_hardware: only `agent/` publishes it.
    """

    name: str
    published: str
    suspicious: Callable[[Series, int, Health], bool]
    of_gpu: str
    of_all: str
    is_hardware: bool = True

    def metric(self, names: Metrics) -> tuple[str, str]:
        if self.is_hardware:
            return names.hardware_namespace, self.published
        return names.namespace, getattr(names, self.published)


_UTILIZATION = _Figure(
    "utilization", "utilization", _at_work, "Average", "Average", is_hardware=False
)
_MEMORY = replace(_UTILIZATION, name="memory_utilization", published="memory_utilization")
_XIDS = _Figure("xids", "GPUXidErrors", _any, "Sum", "Sum")
_NUMBERS = {number: replace(_XIDS, name=f"xid {number}") for number in health.KNOWN_XIDS}
_FIGURES = (
    _Figure("temperature_celsius", "temperature", _hot, "Average", "Maximum", is_hardware=False),
    _UTILIZATION,
    _Figure("lost", LOST_METRIC, _any, "Maximum", "Maximum"),
    _Figure("ecc_uncorrected", "GPUEccUncorrected", _any, "Maximum", "Maximum"),
    _Figure("repair_pending", "GPUMemoryRepairPending", _any, "Maximum", "Maximum"),
    _Figure("repair_failed", "GPUMemoryRepairFailed", _any, "Maximum", "Maximum"),
    _Figure("thermal_throttle", "GPUThermalThrottle", _throttled, "Average", "Average"),
    _Figure("hardware_slowdown", "GPUHardwareSlowdown", _throttled, "Average", "Average"),
    _XIDS,
)
"""All that the first look reads."""
_OF_GPUS = (*(figure for figure in _FIGURES if figure is not _XIDS), _MEMORY)


@dataclass(frozen=True, slots=True)
class _Sets:
    first: tuple[Dimensions, ...]
    """The aggregate, where it saves reads; else the GPUs one by one, or an aggregate without
    any."""
    later: tuple[Dimensions, ...] = ()
    """The GPUs of such an aggregate."""

    @classmethod
    def of(cls, listed: Iterable[Listed]) -> _Sets:
        """The aggregate is the smallest set without a GPU: by `InstanceId` alone, where there is
        that."""
        sets = [one.dimensions for one in listed]
        gpus = tuple(sorted(one for one in sets if evidence.is_gpu(one)))
        aggregate = tuple(sorted((one for one in sets if not evidence.is_gpu(one)), key=len)[:1])
        return cls(aggregate, gpus) if aggregate and len(gpus) > 1 else cls(gpus or aggregate)


@dataclass(slots=True)
class _Work:
    request: HealthRequest
    agent: _Sets
    hardware: _Sets
    reading: HealthReading
    figures: dict[str, dict[str, Series]] = field(default_factory=lambda: defaultdict(dict))
    """By figure, then by GPU."""

    def sets(self, figure: _Figure) -> _Sets:
        return self.hardware if figure.is_hardware else self.agent

    def first_reads(self) -> Iterator[_Read]:
        for figure in _FIGURES:
            sets = self.sets(figure)
            for dimensions in sets.first:
                yield self, figure, dimensions, figure.of_all if sets.later else figure.of_gpu

    def later_reads(self) -> Iterator[_Read]:
        """Yield what the first look could not rule out, GPU by GPU; then Xid numbers and memory
        traffic."""
        suspects = {figure: self._suspects(figure) for figure in _FIGURES}
        self.reading.works = bool(suspects[_UTILIZATION])
        for figure in (one for one in _FIGURES if suspects[one]):
            sets = self.sets(figure)
            if figure is not _XIDS:
                for dimensions in sets.later:
                    yield self, figure, dimensions, figure.of_gpu
                continue
            # Known by the dimensions of their sum: none has to be listed first.
            for dimensions in sets.later or sets.first:
                if sets.later or evidence.gpu_label(dimensions) in suspects[_XIDS]:
                    for number, one in _NUMBERS.items():
                        yield self, one, (*dimensions, ("Xid", str(number))), one.of_gpu
        if self.reading.works and self.request.advice:
            for dimensions in self.agent.later or self.agent.first:
                yield self, _MEMORY, dimensions, _MEMORY.of_gpu

    def _suspects(self, figure: _Figure) -> list[str]:
        """The GPUs, or the aggregate, whose series may hold a finding. An aggregate has said all it
        knows."""
        gpus, rule = len(self.sets(figure).later), self.request.policy.health
        series = self.figures.pop(figure.name, {}) if gpus else self.figures[figure.name]
        return [label for label, one in series.items() if figure.suspicious(one, gpus or 1, rule)]

    def note(self, figure: _Figure, dimensions: Dimensions, series: Series) -> None:
        """A series is listed for hours after its last reading: only what was read counts as
        measured."""
        is_measured = evidence.peak(series) is not None
        self.reading.measured |= is_measured and not figure.is_hardware
        self.reading.has_hardware_figures |= is_measured and figure.is_hardware
        own, label = self.figures[figure.name], evidence.gpu_label(dimensions)
        own[label] = evidence.merged(own.get(label), series)

    def judged(self, window: Window) -> HealthReading:
        labels = sorted(
            {label for found in self.figures.values() for label in found}, key=evidence.by_index
        )
        gpus = [
            health.GpuFigures(
                gpu=label,
                xids={
                    number: self.figures[one.name].get(label, ())
                    for number, one in _NUMBERS.items()
                },
                **{figure.name: self.figures[figure.name].get(label, ()) for figure in _OF_GPUS},
            )
            for label in labels
        ]
        self.reading.findings = health.health_findings(window, gpus, self.request.policy.health)
        return self.reading


_Read = tuple[_Work, _Figure, Dimensions, str]
"""A figure to read: of which GPU, from which series, by which statistic."""


@dataclass(frozen=True, slots=True)
class ReadHealth:
    metrics: MetricReader

    def __call__(
        self, target: Target, requests: Sequence[HealthRequest], now: datetime
    ) -> dict[str, HealthReading]:
        """Readings by instance id; what cannot be read is a `problem`. Raises: CloudError for the
        listing."""
        groups: dict[tuple[Metrics, Health], list[HealthRequest]] = defaultdict(list)
        for request in requests:
            groups[request.policy.metrics, request.policy.health].append(request)
        # Groups differ in thresholds and seldom in names: each listing is made once for all.
        listing = cache(partial(self.metrics.list_series, target))
        found: dict[str, HealthReading] = {}
        for (names, rule), group in groups.items():
            window = evidence.window_before(now, rule.window, HEAT_AVERAGE, group[0].policy.lag)
            asked = {one.instance.instance_id: one for one in group}
            # By temperature, which GPUs in MIG mode publish, too; by utilization where that is
            # missing.
            agent = listing(SeriesFilter(names.namespace, names.temperature))
            if not agent.keys() >= asked.keys():
                agent = {**listing(SeriesFilter(names.namespace, names.utilization)), **agent}
            hardware = listing(SeriesFilter(names.hardware_namespace, LOST_METRIC))
            work = [
                _Work(
                    one,
                    _Sets.of(agent.get(i, ())),
                    _Sets.of(hardware.get(i, ())),
                    HealthReading(one.instance),
                )
                for i, one in asked.items()
            ]
            self._fetch(target, names, window, [read for one in work for read in one.first_reads()])
            self._fetch(target, names, window, [read for one in work for read in one.later_reads()])
            found |= {one.request.instance.instance_id: one.judged(window) for one in work}
        return found

    def _fetch(
        self, target: Target, names: Metrics, window: Window, reads: Sequence[_Read]
    ) -> None:
        """Add the series to their figures, by GPU; what could not be read is noted with the
        instance."""
        if not reads:
            return
        queries = [
            MetricQuery(str(number), *figure.metric(names), dimensions, statistic)
            for number, (_, figure, dimensions, statistic) in enumerate(reads)
        ]
        answer = self.metrics.read(target, queries, window)
        for query, (work, figure, dimensions, _) in zip(queries, reads, strict=True):
            if query.key in answer.problems:
                work.reading.problem = f"{query.metric}: {answer.problems[query.key]}"
            if (series := answer.series.get(query.key)) is not None:
                work.note(figure, dimensions, series)
