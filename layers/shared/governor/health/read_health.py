"""Reads the health metrics of the GPUs of many instances, such as Xid errors and temperature, in as
few reads as possible.

The `InstanceId` aggregate is read first, where it exists, and single GPUs only for what it cannot
rule out. One listing a namespace says which series exist. This module must not notify anybody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, partial
from itertools import chain
from typing import NamedTuple

from governor.core.instance import Instance, Target
from governor.evidence.model import Series, Window
from governor.evidence.ports import Listed, MetricQuery, MetricReader, SeriesFilter
from governor.evidence.rules import series as evidence
from governor.evidence.rules.profiles import in_percent
from governor.evidence.rules.series import Dimensions
from governor.health.model import Finding, GpuFigures
from governor.health.rules import (
    HOT_AVERAGES,
    KNOWN_XIDS,
    MINIMUM_COVERAGE_PERCENT,
    health_findings,
)
from governor.policy.model.judging import Metrics
from governor.policy.model.notices import HEAT_AVERAGE, Health
from governor.policy.model.policy import Policy

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
    findings: tuple[Finding, ...] = ()
    measured: bool = False
    has_hardware_figures: bool = False
    works: bool = False
    problem: str | None = None


def _highest_possible_mean(series: Series, gpu_count: int) -> float:
    """Return the highest mean that one of the `gpu_count` GPUs behind a series can have; 0 without
    readings. For one GPU it is the mean of the series.

    The other GPUs are taken to be at zero, and this one to be measured just long enough for a mean
    to count.
    """
    mean_of_all = evidence.mean(series) or 0.0
    if gpu_count == 1:
        return mean_of_all
    shortest_share = 100.0 / MINIMUM_COVERAGE_PERCENT
    return mean_of_all * gpu_count * shortest_share


def _may_be_hot(series: Series, _gpu_count: int, rule: Health) -> bool:
    """Return whether one of the GPUs behind a series may have been too hot for long enough: the
    series shows the hottest of them, and enough averages are too hot, in a row or not."""
    hot_averages = [
        celsius for celsius in series if celsius is not None and celsius > rule.hot_above_celsius
    ]
    return len(hot_averages) >= HOT_AVERAGES


def _may_work(series: Series, gpu_count: int, rule: Health) -> bool:
    """Return whether one of the GPUs behind a series of utilization may be at work."""
    return _highest_possible_mean(series, gpu_count) >= rule.busy_from_percent


def _may_be_throttled(series: Series, gpu_count: int, rule: Health) -> bool:
    """Return whether one of the GPUs behind a series of throttling may be throttled too much."""
    return _highest_possible_mean(series, gpu_count) > rule.throttled_above_percent


def _counts_anything(series: Series, _gpu_count: int, _rule: Health) -> bool:
    """Return whether a series has a reading above zero, as one fault or error makes it."""
    return (evidence.peak(series) or 0.0) > 0


@dataclass(frozen=True, slots=True)
class _Figure:
    """One figure of `GpuFigures`, and how it is read.

    Attributes:
        published: the name of the metric if `is_hardware`; else the setting of `policy.metrics`
            that holds the name.
        may_hide_finding: returns for a series and its number of GPUs whether one of these may have
            a finding; it never misses one.
        of_gpu, of_all: the statistic of a single GPU, and of the aggregate.
        is_hardware: true if only `agent/` publishes it, in the namespace of the hardware.
    """

    name: str
    published: str
    may_hide_finding: Callable[[Series, int, Health], bool]
    of_gpu: str
    of_all: str
    is_hardware: bool = True

    def metric(self, names: Metrics) -> tuple[str, str]:
        """Return the namespace and the name of its metric under these settings."""
        if self.is_hardware:
            return names.hardware_namespace, self.published
        return names.namespace, getattr(names, self.published)


_UTILIZATION = _Figure(
    "utilization", "utilization", _may_work, "Average", "Average", is_hardware=False
)
_MEMORY = replace(_UTILIZATION, name="memory_utilization", published="memory_utilization")
_XIDS = _Figure("xids", "GPUXidErrors", _counts_anything, "Sum", "Sum")
_BY_XID = {number: replace(_XIDS, name=f"xid {number}") for number in KNOWN_XIDS}
"""The figure of each known Xid error, by its number."""
_FIGURES = (
    _Figure(
        "temperature_celsius", "temperature", _may_be_hot, "Average", "Maximum", is_hardware=False
    ),
    _UTILIZATION,
    _Figure("lost", LOST_METRIC, _counts_anything, "Maximum", "Maximum"),
    _Figure("ecc_uncorrected", "GPUEccUncorrected", _counts_anything, "Maximum", "Maximum"),
    _Figure("repair_pending", "GPUMemoryRepairPending", _counts_anything, "Maximum", "Maximum"),
    _Figure("repair_failed", "GPUMemoryRepairFailed", _counts_anything, "Maximum", "Maximum"),
    _Figure("thermal_throttle", "GPUThermalThrottle", _may_be_throttled, "Average", "Average"),
    _Figure("hardware_slowdown", "GPUHardwareSlowdown", _may_be_throttled, "Average", "Average"),
    _XIDS,
)
"""All that the first look reads."""
_OF_GPUS = (*(figure for figure in _FIGURES if figure is not _XIDS), _MEMORY)
"""Figures that are fields of `GpuFigures` by their names."""


@dataclass(frozen=True, slots=True)
class _DimensionSets:
    """The dimension sets under which a figure of one instance is published, such as
    `(("InstanceId", "i-0abc"), ("index", "0"))` for one GPU."""

    first: tuple[Dimensions, ...]
    """The aggregate, if it saves reads; else the GPUs one by one, or an aggregate without any."""
    later: tuple[Dimensions, ...] = ()
    """The GPUs of an aggregate in `first`."""

    @classmethod
    def of(cls, listed: Iterable[Listed], own_dimension: str = "") -> _DimensionSets:
        """Return the dimension sets of the listed series of one instance; without any, both parts
        are empty. An aggregate of several GPUs is read first, and the GPUs later; else the GPUs
        are, or the aggregate is, read first. Of several aggregates, the one with the fewest
        dimensions is taken: `InstanceId` alone, if that is published. The policy may
        distinguish GPUs by an `own_dimension`."""
        gpus = []
        aggregates = []
        for series in listed:
            if evidence.is_gpu(series.dimensions, own_dimension):
                gpus.append(series.dimensions)
            else:
                aggregates.append(series.dimensions)
        # At most one aggregate, so that nothing is read twice.
        first_aggregate = tuple(sorted(aggregates, key=len)[:1])
        sorted_gpus = tuple(sorted(gpus))
        if first_aggregate and len(sorted_gpus) > 1:
            return cls(first_aggregate, sorted_gpus)
        return cls(sorted_gpus or first_aggregate)


@dataclass(slots=True)
class _InstanceReads:
    """The reads of one instance, and what they have shown.

    Use it in this order: fetch the `first_reads`, note their series, fetch the `later_reads`, note
    their series, take the `finished` reading.
    """

    request: HealthRequest
    agent: _DimensionSets
    hardware: _DimensionSets
    reading: HealthReading
    own_label_by_index: Mapping[str, str] = field(default_factory=dict)
    """The names of GPUs by the policy's own dimension, as far as their indexes are known."""
    figures: dict[str, dict[str, Series]] = field(default_factory=lambda: defaultdict(dict))
    """Series by the name of the figure, then by GPU."""

    def sets(self, figure: _Figure) -> _DimensionSets:
        """Return the dimension sets under which a figure is published: in the namespace of the
        hardware, or in that of the policy's metrics."""
        return self.hardware if figure.is_hardware else self.agent

    def first_reads(self) -> Iterator[_Read]:
        """Yield the reads of the first look: every figure of the aggregate, or of each GPU if there
        is no aggregate. Yield nothing for an instance that publishes nothing."""
        for figure in _FIGURES:
            sets = self.sets(figure)
            statistic = figure.of_all if sets.later else figure.of_gpu
            for dimensions in sets.first:
                yield _Read(self, figure, dimensions, statistic)

    def later_reads(self) -> Iterator[_Read]:
        """Yield the reads of what the first look could not rule out: figures GPU by GPU, Xid errors
        by their number, and memory traffic if advice is wanted. Yield nothing if it ruled out all.

        Call it once, after the series of `first_reads` were noted: it drops those of aggregates,
        and sets whether the instance works.
        """
        suspects = {figure: self._take_suspects(figure) for figure in _FIGURES}
        self.reading.works = bool(suspects[_UTILIZATION])
        for figure, labels in suspects.items():
            if figure is _XIDS:
                yield from self._reads_by_xid(labels)
            elif labels:
                yield from self._reads_by_gpu(figure, self.sets(figure).later)
        if self.reading.works and self.request.advice:
            yield from self._reads_by_gpu(_MEMORY, self.agent.later or self.agent.first)

    def _reads_by_gpu(self, figure: _Figure, gpus: Iterable[Dimensions]) -> Iterator[_Read]:
        """Yield one read of a figure for each of these dimension sets, with the statistic of a
        single GPU."""
        for dimensions in gpus:
            yield _Read(self, figure, dimensions, figure.of_gpu)

    def _reads_by_xid(self, suspects: Sequence[str]) -> Iterator[_Read]:
        """Yield a read of each known Xid number for each GPU that may have had one: all GPUs behind
        an aggregate that is a suspect, else the GPUs whose labels are `suspects`. Yield nothing
        without suspects.

        A series of one Xid has the dimensions of their sum and one more (`Xid`), so its dimensions
        are known without listing them. Nothing is read here: only the requests are made.
        """
        if not suspects:
            return
        sets = self.sets(_XIDS)
        gpus = sets.later
        if not gpus:
            gpus = tuple([gpu for gpu in sets.first if self._label_of(_XIDS, gpu) in suspects])
        for dimensions in gpus:
            for number, figure in _BY_XID.items():
                xid_dimensions = (*dimensions, ("Xid", str(number)))
                yield _Read(self, figure, xid_dimensions, figure.of_gpu)

    def _take_suspects(self, figure: _Figure) -> list[str]:
        """Return the labels of the GPUs whose series may hide a finding, or `all` for such an
        aggregate; empty if none may.

        The noted series of an aggregate are dropped: its GPUs are read if it is a suspect.
        """
        gpus_behind_aggregate = len(self.sets(figure).later)
        series_by_label = self.figures[figure.name]
        if gpus_behind_aggregate:
            del self.figures[figure.name]
        gpu_count = gpus_behind_aggregate or 1
        rule = self.request.policy.health
        suspects: list[str] = []
        for label, series in series_by_label.items():
            if figure.may_hide_finding(series, gpu_count, rule):
                suspects.append(label)
        return suspects

    def note(self, figure: _Figure, dimensions: Dimensions, series: Series) -> None:
        """Add a series that was read to its figure, and set what the instance publishes. A series
        without a reading sets nothing: CloudWatch lists it for hours after its last reading."""
        is_measured = evidence.peak(series) is not None
        self.reading.measured |= is_measured and not figure.is_hardware
        self.reading.has_hardware_figures |= is_measured and figure.is_hardware
        if figure is _UTILIZATION:
            series = in_percent(series, self.request.policy.metrics)
        series_by_label = self.figures[figure.name]
        label = self._label_of(figure, dimensions)
        series_by_label[label] = evidence.merged(series_by_label.get(label), series)

    def _label_of(self, figure: _Figure, dimensions: Dimensions) -> str:
        """Return the label of the GPU that these dimensions are about; `all` for an aggregate.

        Hardware figures never have the dimension by which the policy distinguishes devices.
        """
        if not figure.is_hardware:
            return evidence.gpu_label(dimensions, self.request.policy.metrics.device_dimension)
        label = evidence.gpu_label(dimensions)
        return self.own_label_by_index.get(label, label)

    def finished(self, window: Window) -> HealthReading:
        """Add the findings to the reading, and return it. Call it after all series were noted."""
        labels: set[str] = set()
        for series_by_label in self.figures.values():
            labels.update(series_by_label)
        gpus = [self._gpu_figures(label) for label in sorted(labels, key=evidence.by_index)]
        self.reading.findings = health_findings(window, gpus, self.request.policy.health)
        return self.reading

    def _gpu_figures(self, label: str) -> GpuFigures:
        """Return the noted figures of the GPU with this label. A figure that was not read, or has
        no readings, is empty."""
        series_by_name: dict[str, Series] = {}
        for figure in _OF_GPUS:
            series_by_name[figure.name] = self.figures[figure.name].get(label, ())
        series_by_xid: dict[int, Series] = {}
        for number, figure in _BY_XID.items():
            series_by_xid[number] = self.figures[figure.name].get(label, ())
        return GpuFigures(gpu=label, xids=series_by_xid, **series_by_name)


class _Read(NamedTuple):
    """A series to read for one instance. Its answer is noted in `owner`."""

    owner: _InstanceReads
    figure: _Figure
    dimensions: Dimensions
    statistic: str


@dataclass(frozen=True, slots=True)
class ReadHealth:
    """Reads the health metrics of instances, in two batches: the aggregates, then suspect GPUs."""

    metrics: MetricReader

    def __call__(
        self, target: Target, requests: Sequence[HealthRequest], now: datetime
    ) -> dict[str, HealthReading]:
        """Return one reading for each request, by instance id; empty without requests. What cannot
        be read becomes the `problem` of a reading. Raises: CloudError if the series cannot be
        listed."""
        groups: dict[tuple[Metrics, Health], list[HealthRequest]] = defaultdict(list)
        for request in requests:
            groups[request.policy.metrics, request.policy.health].append(request)
        # Groups differ in thresholds and seldom in names: each listing is made once for all.
        listing = cache(partial(self.metrics.list_series, target))
        readings: dict[str, HealthReading] = {}
        for (names, rule), group in groups.items():
            window = evidence.window_before(now, rule.window, HEAT_AVERAGE, group[0].policy.lag)
            instances = _planned_reads(group, names, listing)
            first_reads = chain.from_iterable(instance.first_reads() for instance in instances)
            self._fetch(target, names, window, list(first_reads))
            # What is read later depends on what the first reads have shown.
            later_reads = chain.from_iterable(instance.later_reads() for instance in instances)
            self._fetch(target, names, window, list(later_reads))
            for instance in instances:
                readings[instance.request.instance.instance_id] = instance.finished(window)
        return readings

    def _fetch(
        self, target: Target, names: Metrics, window: Window, reads: Sequence[_Read]
    ) -> None:
        """Read these series in one batch, and note each with its instance: its values, the problem
        if it could not be read, or both if it was read in part. Of several problems of an instance
        the last one stays. Reads of metrics that the publisher does not have are left out. Do
        nothing without `reads`. It raises nothing."""
        possible_reads = [read for read in reads if read.figure.metric(names)[1]]
        if not possible_reads:
            return
        queries = []
        for number, read in enumerate(possible_reads):
            namespace, metric = read.figure.metric(names)
            query = MetricQuery(str(number), namespace, metric, read.dimensions, read.statistic)
            queries.append(query)
        answer = self.metrics.read(target, queries, window)
        for query, read in zip(queries, possible_reads, strict=True):
            if query.key in answer.problems:
                read.owner.reading.problem = f"{query.metric}: {answer.problems[query.key]}"
            series = answer.series.get(query.key)
            if series is not None:
                read.owner.note(read.figure, read.dimensions, series)


def _planned_reads(
    requests: Sequence[HealthRequest],
    names: Metrics,
    listing: Callable[[SeriesFilter], Mapping[str, Sequence[Listed]]],
) -> list[_InstanceReads]:
    """Return the reads of each requested instance, with the series that `listing` finds of it: by
    temperature, by utilization if that misses an instance, and of the hardware. An instance of
    which none is found has no reads.

    `listing` returns the listed series of a filter by instance id. Raises: CloudError.
    """
    by_id = {request.instance.instance_id: request for request in requests}
    # By temperature, which GPUs in MIG mode publish, too; by utilization where that is missing.
    agent: Mapping[str, Sequence[Listed]] = {}
    if names.temperature:
        agent = listing(SeriesFilter(names.namespace, names.temperature))
    if not agent.keys() >= by_id.keys():
        agent = {**listing(SeriesFilter(names.namespace, names.utilization)), **agent}
    hardware = listing(SeriesFilter(names.hardware_namespace, LOST_METRIC))
    instances = []
    for instance_id, request in by_id.items():
        own_dimension = request.policy.metrics.device_dimension
        agent_sets = _DimensionSets.of(agent.get(instance_id, ()), own_dimension)
        hardware_sets = _DimensionSets.of(hardware.get(instance_id, ()))
        own_labels = _own_label_by_index(agent_sets, own_dimension)
        reading = HealthReading(request.instance)
        instances.append(_InstanceReads(request, agent_sets, hardware_sets, reading, own_labels))
    return instances


def _own_label_by_index(sets: _DimensionSets, own_dimension: str) -> Mapping[str, str]:
    """Return the names of GPUs by the policy's own dimension, by the index in the same series.

    Return an empty mapping if the policy names no dimension, or two GPUs have the same index: it
    means something else then.
    """
    labels: dict[str, str] = {}
    if not own_dimension:
        return labels
    for dimensions in (*sets.first, *sets.later):
        label = evidence.gpu_label(dimensions, own_dimension)
        index = evidence.gpu_label(dimensions)
        if "all" in (label, index):
            continue
        if labels.setdefault(index, label) != label:
            return {}
    return labels
