"""Reads the evidence of many instances in as few metric reads as possible. This module must not
judge.

Three stages: the `InstanceId` aggregate (or the known per-GPU series) of all; a search for the
series of silent ones; the other figures of those that utilization alone would call idle. What
cannot be read becomes a `read_problem`, never an empty answer.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median_low
from typing import NamedTuple

from governor.core.catalog import shape_of
from governor.core.errors import CloudError
from governor.core.instance import Instance, Shape, Target
from governor.evidence.model import Evidence, GpuReadings, MetricSource, Series, Window
from governor.evidence.ports import Listed, MetricQuery, MetricReader, SeriesFilter
from governor.evidence.rules import series as evidence
from governor.evidence.rules.figures import (
    EC2_NAMESPACE,
    FIGURES,
    WORK,
    Publisher,
    factor_of,
    metrics_of,
    published_by,
)
from governor.evidence.rules.series import Dimensions
from governor.policy.model.judging import Metrics
from governor.policy.model.policy import Policy

_EC2_PERIOD = timedelta(minutes=5)
"""Basic monitoring publishes one value in five minutes; a shorter period would read holes as
silence."""
_RECENTLY_ACTIVE = timedelta(hours=2)
"""CloudWatch lists what was published in the last three hours, give or take 50 minutes."""
SERIES_OF_A_PART = 20_000
"""A function of 512 MB reads and judges them in half a minute."""
_LISTED_SINGLY = 5
"""So many instances are listed one by one; for more, one pass over the namespace is cheaper."""
Passes = dict[SeriesFilter, Mapping[str, Sequence[Listed]]]
"""Result of a pass over a namespace."""


@dataclass(frozen=True, slots=True)
class EvidenceRequest:
    """Request to read one instance.

    Attributes:
        dimensions: per-GPU dimension sets where they are known.
        source: the series by which it was last read. The aggregate is asked first, unless that
            was by GPU.
        search: whether silent series may be searched for.
        per_gpu: read GPU by GPU although the aggregate exists.
        figures: which of `FIGURES` to read.
        only_if: reads them only if this says so of the utilization that was seen; `None` reads
            them in any case.
        length: how far to look back; `None` takes the policy's idle window.
    """

    instance: Instance
    policy: Policy
    dimensions: tuple[Dimensions, ...] | None = None
    source: str | None = None
    search: bool = True
    per_gpu: bool = False
    figures: frozenset[str] = frozenset()
    only_if: Callable[[Evidence, Policy], bool] | None = None
    length: timedelta | None = None

    @property
    def window(self) -> timedelta:
        """How far it looks back: at least as far as the end of a proof."""
        length = self.policy.window if self.length is None else self.length
        return max(length, evidence.END)

    def wants_figures(self, seen: Evidence) -> bool:
        """Return whether to read more than the utilization that was seen."""
        if not self.figures:
            return False
        return self.only_if is None or self.only_if(seen, self.policy)


@dataclass(frozen=True, slots=True)
class Gathered:
    """Evidence, and the dimension sets that were found, by a search or not. `percent` holds each
    period's highest power and memory of all GPUs, where the request asks for figures in any
    case."""

    evidence: Evidence
    dimensions: tuple[Dimensions, ...] | None
    searched: bool
    percent: Mapping[str, Series] = field(default_factory=dict)


@dataclass(slots=True)
class _Pending:
    """An instance while it is read: what is asked for, and what has been read so far."""

    request: EvidenceRequest
    shape: Shape | None
    dimensions: tuple[Dimensions, ...] | None
    figures: dict[str, dict[str, Series]] = field(default_factory=dict)
    """Series by figure and GPU. The GPU is `all` in an aggregate; in EC2's figures, the metric
    takes its place."""
    jobs: list[tuple[str, Series]] = field(default_factory=list)
    """Jobs' own metrics, by namespace and metric."""
    aggregated: Series = ()
    """The aggregate's utilization, once the GPUs are read one by one."""
    sets: tuple[Dimensions, ...] = ()
    """The dimension sets by which utilization was read."""
    source: MetricSource = MetricSource.NONE
    searched: bool = False
    problem: str | None = None
    figures_read: frozenset[str] = frozenset()

    @property
    def instance_id(self) -> str:
        return self.request.instance.instance_id

    @property
    def aggregate(self) -> Dimensions:
        """The dimension set of the whole instance."""
        return (("InstanceId", self.instance_id),)

    @property
    def expected(self) -> int | None:
        """How many GPUs its type has; `None` where that is not known."""
        return self.shape.accelerator_count if self.shape else None

    @property
    def readings(self) -> Mapping[str, Series]:
        """Utilization by GPU."""
        return self.figures.get("utilization", {})

    def factor(self, figure: str, period: timedelta) -> float | None:
        """The factor that turns readings of a period into the figure; `None` if the instance type
        does not say what 100% is."""
        return factor_of(FIGURES[figure].scale, self.shape, period.total_seconds())

    def series(self, figure: str) -> Series | None:
        """The highest reading of all GPUs in each period, or the sum of EC2's metrics; `None` where
        nothing was published."""
        by_part = self.figures.get(figure, {})
        if figure in published_by(Publisher.EC2):
            total: Series | None = None
            for series in by_part.values():
                total = _sum(total, series)
            return total
        highest: Series | None = None
        for series in by_part.values():
            highest = evidence.merged(highest, series)
        return highest

    def parts(self, figure: str) -> list[Series]:
        """Every GPU's series, or that of each metric of EC2; empty where one publishes nothing.

        Return an empty list for a figure that only a listing shows: nobody knows its parts.
        """
        by_part = self.figures.get(figure, {})
        row = FIGURES[figure]
        if row.publisher is Publisher.EC2:
            return [by_part.get(metric, ()) for metric in row.metrics]
        if row.publisher is Publisher.AGENT:
            return [by_part.get(gpu, ()) for gpu in self.readings]
        return []

    def note(self, asked: _Asked, series: Series) -> None:
        """Add a series that was read."""
        if asked.figure == WORK:
            self.jobs.append((f"{asked.namespace} {asked.metric}", series))
            return
        by_part = self.figures.setdefault(asked.figure, {})
        part = evidence.gpu_label(asked.dimensions)
        if asked.figure in published_by(Publisher.EC2):
            part = asked.metric
        by_part[part] = evidence.merged(by_part.get(part), series)

    def is_silent(self) -> bool:
        """Return whether it was read, and publishes no utilization."""
        return self.problem is None and not self.count_reporting()

    def count_reporting(self) -> int:
        """Return how many GPUs, or aggregates, publish utilization."""
        return sum(evidence.peak(series) is not None for series in self.readings.values())


class _Asked(NamedTuple):
    """One series to read for an instance."""

    pending: _Pending
    figure: str
    metric: str
    dimensions: Dimensions
    statistic: str = "Maximum"
    namespace: str = ""
    """Empty for the policy's own."""


@dataclass(slots=True)
class _Measured:
    """The measurements of one instance by figure, as `Evidence` names them."""

    values: dict[str, float | None]
    """By the field of `Evidence`; `None` where nothing was measured."""
    measured_percent: dict[str, float] = field(default_factory=dict)
    last_active: dict[str, datetime] = field(default_factory=dict)
    last_measured: dict[str, datetime] = field(default_factory=dict)
    longest_hole_minutes: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GatherEvidence:
    """Reads the evidence of instances of one target."""

    metrics: MetricReader
    shape: Callable[[str], Shape | None] = shape_of

    def in_parts(
        self, target: Target, requests: Iterable[EvidenceRequest], now: datetime, passes: Passes
    ) -> Iterator[dict[str, Gathered]]:
        """Yield the evidence in parts of so many series; a pass over a namespace is made once for
        all."""
        part: list[EvidenceRequest] = []
        series = 0
        for request in requests:
            part.append(request)
            series += self._series_of(request)
            if series >= SERIES_OF_A_PART:
                yield self(target, part, now, passes)
                part = []
                series = 0
        if part:
            yield self(target, part, now, passes)

    def _series_of(self, request: EvidenceRequest) -> int:
        """Return how many utilization series the instance may have, at least one."""
        if request.dimensions:
            return len(request.dimensions)
        shape = self.shape(request.instance.instance_type)
        if shape is None:
            return 1
        return shape.accelerator_count or 1

    def __call__(
        self,
        target: Target,
        requests: Sequence[EvidenceRequest],
        now: datetime,
        passes: Passes | None = None,
    ) -> dict[str, Gathered]:
        """Return the evidence by instance id. Never raises for a failed read.

        `passes` holds the passes over namespaces that were made; more are added to it.
        """
        groups: dict[tuple[Metrics, timedelta], list[EvidenceRequest]] = defaultdict(list)
        for request in requests:
            groups[request.policy.metrics, request.window].append(request)
        gathered: dict[str, Gathered] = {}
        for group in groups.values():
            group_passes = {} if passes is None else passes
            gathered |= _Batch(self, target, group, now, group_passes).gather()
        return gathered


class _Batch:
    """Instances that are read by the same metric names and over the same window."""

    def __init__(
        self,
        gather: GatherEvidence,
        target: Target,
        requests: Sequence[EvidenceRequest],
        now: datetime,
        passes: Passes,
    ) -> None:
        self._metrics = gather.metrics
        self._target = target
        self._passes = passes
        policy = requests[0].policy
        length = requests[0].window
        ec2_period = max(policy.period, _EC2_PERIOD)
        ec2_length = max(length, ec2_period)
        self._names = policy.metrics
        self._window = evidence.window_before(now, length, policy.period, policy.lag)
        self._ec2_window = evidence.window_before(now, ec2_length, ec2_period, policy.lag)
        self._all = [
            _Pending(request, gather.shape(request.instance.instance_type), request.dimensions)
            for request in requests
        ]

    def gather(self) -> dict[str, Gathered]:
        """Return what was read of each instance, by its id."""
        self._read_utilization(self._all)
        self._search([pending for pending in self._all if self._wants_search(pending)])
        evidence_by_id: dict[str, Evidence] = {}
        candidates: list[_Pending] = []
        for pending in self._all:
            if pending.is_silent():
                pending.source = MetricSource.NONE
            seen = self._evidence(pending)
            evidence_by_id[pending.instance_id] = seen
            if pending.request.wants_figures(seen):
                candidates.append(pending)
        self._read_figures(candidates)
        for pending in candidates:
            evidence_by_id[pending.instance_id] = self._evidence(pending)
        return {
            pending.instance_id: self._gathered(pending, evidence_by_id[pending.instance_id])
            for pending in self._all
        }

    def _gathered(self, pending: _Pending, own_evidence: Evidence) -> Gathered:
        return Gathered(
            evidence=own_evidence,
            dimensions=pending.dimensions,
            searched=pending.searched,
            percent=self._percent(pending) if pending.request.only_if is None else {},
        )

    def _wants_search(self, pending: _Pending) -> bool:
        """Return whether it is silent, or some GPUs were not read that are wanted or that its type
        has."""
        if pending.problem is not None or not pending.request.search:
            return False
        reporting = pending.count_reporting()
        if not reporting:
            return True
        if pending.request.per_gpu and pending.dimensions is None:
            return True
        if pending.source is not MetricSource.PER_GPU or pending.expected is None:
            return False
        return reporting < pending.expected

    def _read_utilization(self, instances: Iterable[_Pending], *, all_sets: bool = False) -> None:
        """Read utilization: by the sets that are known if `all_sets`, else as the request says."""
        metric = self._names.utilization
        asked: list[_Asked] = []
        for pending in instances:
            _choose_sets(pending, all_sets=all_sets)
            pending.figures.pop("utilization", None)
            asked += [
                _Asked(pending, "utilization", metric, dimensions) for dimensions in pending.sets
            ]
        self._read(asked)

    def _search(self, instances: list[_Pending]) -> None:
        """Find the series of these instances in one pass over the namespace, and read them."""
        if not instances:
            return
        found_series = self._pass_for_search(instances)
        if found_series is None:
            return
        # The pass found the series of all instances, not only of those that need it.
        for pending in self._all:
            pending.searched = True
            pending.dimensions = _found_sets(pending, found_series.get(pending.instance_id, ()))
        with_sets = [pending for pending in instances if pending.dimensions]
        self._read_utilization(with_sets, all_sets=True)
        # EC2's own metrics name the silent instances that work.
        silent = [pending for pending in instances if pending.is_silent()]
        for figure in published_by(Publisher.EC2_GPU):
            self._read(self._listed_by_ec2(silent, figure))

    def _pass_for_search(self, instances: list[_Pending]) -> Mapping[str, Sequence[Listed]] | None:
        """Return the namespace's utilization series by instance id; `None` if the search failed,
        which is noted for the silent instances."""
        only = instances[0].instance_id if len(self._all) == 1 else None
        wanted = SeriesFilter(self._names.namespace, self._names.utilization)
        try:
            series_by_id = self._passes.get(wanted) or self._metrics.list_series(
                self._target, wanted, only
            )
        except CloudError as error:
            for pending in instances:
                if pending.is_silent():
                    pending.problem = f"the search for its series failed: {error}"
            return None
        if only is None:
            self._passes[wanted] = series_by_id
        return series_by_id

    def _read_figures(self, candidates: list[_Pending]) -> None:
        """Read the figures besides utilization, in as few reads as possible."""
        asked: list[_Asked] = []
        for pending in candidates:
            pending.figures_read = self._figures_to_read(pending.request)
            asked += self._figures(pending)
        for figure in published_by(Publisher.EC2_GPU):
            readers = [pending for pending in candidates if figure in pending.figures_read]
            asked += self._listed_by_ec2(readers, figure)
        for figure in published_by(Publisher.INSTANCE):
            readers = [pending for pending in candidates if figure in pending.figures_read]
            asked += self._listed_in_own_namespaces(readers, figure)
        asked += self._jobs(candidates)
        self._read(asked)

    def _figures_to_read(self, request: EvidenceRequest) -> frozenset[str]:
        """Return the wanted figures that the policy has metrics for, and those of jobs."""
        figures = request.figures
        if not self._names.bound_namespaces:
            figures -= set(published_by(Publisher.INSTANCE))
        if self._names.work:
            figures |= {WORK}
        return figures

    def _listed_by_ec2(self, instances: list[_Pending], figure: str) -> Iterator[_Asked]:
        """Yield EC2's own metrics of GPUs. One is a veto; it is never proof of idleness."""
        for metric in metrics_of(figure, self._names):
            wanted = SeriesFilter(EC2_NAMESPACE, metric)
            yield from self._listed(instances, figure, wanted, "EC2's own GPU metrics")

    def _listed_in_own_namespaces(self, instances: list[_Pending], figure: str) -> Iterator[_Asked]:
        """Yield what the instances publish with their own role; the highest of several such
        namespaces counts."""
        for metric in metrics_of(figure, self._names):
            wanted = SeriesFilter(None, metric)
            listed = self._listed(instances, figure, wanted, "the instances' own namespaces")
            yield from self._only_own(listed)

    def _only_own(self, listed: Iterable[_Asked]) -> Iterator[_Asked]:
        """Yield the series of a whole instance that lie in the namespace of its own role."""
        base = re.escape(self._names.namespace)
        for asked in listed:
            pending = asked.pending
            own_namespace = rf"{base}/AROA[A-Z0-9]+:{re.escape(pending.instance_id)}"
            is_aggregate = asked.dimensions == pending.aggregate
            if is_aggregate and re.fullmatch(own_namespace, asked.namespace):
                yield asked

    def _jobs(self, instances: list[_Pending]) -> Iterator[_Asked]:
        """Yield the metrics by which a job may have said that it works."""
        rule = self._names.work
        if rule is None:
            return
        # A longer window holds series that CloudWatch no longer lists as recently active.
        is_recent = self._window.length <= _RECENTLY_ACTIVE
        wanted = SeriesFilter(rule.namespace, None, is_recent)
        for asked in self._listed(instances, WORK, wanted, "the metrics of jobs"):
            if not rule.names or asked.metric in rule.names:
                yield asked

    def _listed(
        self, instances: list[_Pending], figure: str, wanted: SeriesFilter, what: str
    ) -> Iterator[_Asked]:
        """Yield the series of these instances that a listing shows.

        A listing that failed is noted as a problem of those that report: it is no silence.
        """
        try:
            series_by_id = self._list_series(instances, wanted)
        except CloudError as error:
            for pending in instances:
                if not pending.is_silent():
                    pending.problem = pending.problem or f"{what} could not be listed: {error}"
            return
        for pending in instances:
            for listed in series_by_id.get(pending.instance_id, ()):
                yield _Asked(
                    pending,
                    figure,
                    listed.metric,
                    listed.dimensions,
                    namespace=listed.namespace,
                )

    def _list_series(
        self, instances: list[_Pending], wanted: SeriesFilter
    ) -> Mapping[str, Sequence[Listed]]:
        """Return the series by instance id: a few instances one by one, many by one pass."""
        if wanted in self._passes:
            return self._passes[wanted]
        if len(instances) > _LISTED_SINGLY:
            whole_pass = self._metrics.list_series(self._target, wanted)
            self._passes[wanted] = whole_pass
            return whole_pass
        series_by_id: dict[str, Sequence[Listed]] = {}
        for pending in instances:
            series_by_id.update(
                self._metrics.list_series(self._target, wanted, pending.instance_id)
            )
        return series_by_id

    def _figures(self, pending: _Pending) -> Iterator[_Asked]:
        """Yield the series of a candidate's figures whose names are known, and its samples."""
        for figure in FIGURES:
            if figure in pending.request.figures:
                yield from self._series_of(pending, figure)
        if pending.source is MetricSource.AGGREGATE and pending.expected != 1:
            # How many GPUs are in the aggregate: a MIG GPU publishes no utilization and would not
            # be missed.
            utilization = self._names.utilization
            yield _Asked(pending, "samples", utilization, pending.sets[0], "SampleCount")

    def _series_of(self, pending: _Pending, figure: str) -> Iterator[_Asked]:
        """Yield the series of one figure. Yield nothing if only a listing shows them, or if the
        instance type does not say what a reading means."""
        row = FIGURES[figure]
        if pending.factor(figure, self._window.period) is None:
            return
        for metric in metrics_of(figure, self._names):
            if row.publisher is Publisher.EC2:
                dimensions = pending.aggregate
                yield _Asked(pending, figure, metric, dimensions, row.statistic, EC2_NAMESPACE)
            elif row.publisher is Publisher.AGENT:
                for dimensions in pending.sets:
                    yield _Asked(pending, figure, metric, dimensions, row.statistic)

    def _read(self, asked: Iterable[_Asked]) -> None:
        """Add the series to their instances, or note there why they could not be read."""
        # In one pass where the windows agree, so that calls are filled to their limit.
        by_window: dict[Window, list[_Asked]] = defaultdict(list)
        for series in asked:
            window = self._ec2_window if series.namespace == EC2_NAMESPACE else self._window
            by_window[window].append(series)
        for window, part in by_window.items():
            self._read_over(window, part)

    def _read_over(self, window: Window, asked: Sequence[_Asked]) -> None:
        """Read these series over one window, and note each at its instance."""
        own = self._names.namespace
        queries = [
            MetricQuery(
                str(number),
                wanted.namespace or own,
                wanted.metric,
                wanted.dimensions,
                wanted.statistic,
            )
            for number, wanted in enumerate(asked)
        ]
        answer = self._metrics.read(self._target, queries, window)
        for wanted, query in zip(asked, queries, strict=True):
            pending = wanted.pending
            # For a silent instance, EC2's own metric only helps to say why. It may be missing.
            is_hint = wanted.figure in published_by(Publisher.EC2_GPU)
            if not is_hint or pending.count_reporting():
                pending.problem = pending.problem or answer.problems.get(query.key)
            series = answer.series.get(query.key)
            if series is not None:
                pending.note(wanted, series)

    def _evidence(self, pending: _Pending) -> Evidence:
        """Return what was read so far, in the form that is judged."""
        gpus: list[GpuReadings] = []
        aggregate: Series = ()
        if pending.source is not MetricSource.NONE:
            labels = sorted(pending.readings, key=evidence.by_index)
            gpus = [GpuReadings(label, pending.readings[label]) for label in labels]
            aggregate = pending.aggregated
        measured = _Measured({figure.field: None for figure in FIGURES.values()})
        for figure in FIGURES:
            self._measure(pending, figure, measured)
        working_job = self._measure_jobs(pending, measured)
        return Evidence(
            window=self._window,
            source=pending.source,
            gpus=tuple(gpus),
            aggregate=aggregate,
            gpus_expected=pending.expected,
            gpus_reporting=self._gpus_reporting(pending),
            measured_percent=measured.measured_percent,
            read=pending.figures_read,
            read_problem=pending.problem,
            last_active=measured.last_active,
            work=working_job,
            samples=pending.series("samples") or (),
            memory_newest_percent=self._memory_newest(pending),
            last_measured=measured.last_measured,
            longest_hole_minutes=measured.longest_hole_minutes,
            **measured.values,
        )

    def _measure(self, pending: _Pending, figure: str, measured: _Measured) -> None:
        """Add one figure to the measurements, if anything was published."""
        highest = pending.series(figure)
        if highest is None:
            return
        window = self._window_of(figure)
        # Every GPU and both directions of the network: one alone says nothing about the others.
        parts = pending.parts(figure) or [highest]
        measured.measured_percent[figure] = round(min(map(evidence.coverage_percent, parts)), 3)
        reading_ends = [evidence.last_reading_end(part, window) for part in parts]
        longest_holes = [evidence.longest_hole(part, window) for part in parts]
        measured.last_measured[figure] = min(reading_ends)
        measured.longest_hole_minutes[figure] = max(longest_holes) / timedelta(minutes=1)
        peak = evidence.peak(highest)
        if peak is None:
            return
        factor = pending.factor(figure, window.period) or 1.0
        measured.values[FIGURES[figure].field] = round(peak * factor, 3)
        peak_index = evidence.last_at_or_above(highest, peak) or 0
        measured.last_active[figure] = window.bin_end(peak_index)

    def _measure_jobs(self, pending: _Pending, measured: _Measured) -> str | None:
        """Add when a job last worked. Return the metric that shows it; `None` if none does."""
        working_job = None
        for name, series in pending.jobs:
            last_index = _last_nonzero(series)
            if last_index is None:
                continue
            worked_at = self._window.bin_end(last_index)
            if worked_at > measured.last_active.get(WORK, self._window.start):
                measured.last_active[WORK] = worked_at
                working_job = name
        return working_job

    def _window_of(self, figure: str) -> Window:
        """Return the window over which a figure is read."""
        if figure in published_by(Publisher.EC2, Publisher.EC2_GPU):
            return self._ec2_window
        return self._window

    def _percent(self, pending: _Pending) -> dict[str, Series]:
        """Return the fullest GPU's memory and power in each period; a value that measures nothing
        is a hole."""
        percent: dict[str, Series] = {}
        for figure in ("power", "memory"):
            series = pending.series(figure)
            if series is not None:
                factor = pending.factor(figure, self._window.period) or 1.0
                percent[figure] = _scaled(series, factor)
        return percent

    def _memory_newest(self, pending: _Pending) -> float | None:
        """Return the most that any GPU holds in the newest minutes; `None` where one of them was
        not measured."""
        if "memory" not in pending.figures:
            return None
        # The aggregate of several GPUs continues when one of them falls silent.
        if "all" in pending.readings and pending.expected != 1:
            return None
        length = timedelta(minutes=pending.request.policy.approval.released_for_minutes)
        peaks: list[float] = []
        for series in pending.parts("memory"):
            peak = evidence.newest_peak(series, self._window, length)
            if peak is None:
                return None
            peaks.append(peak)
        if not peaks:
            return None
        factor = pending.factor("memory", self._window.period) or 1.0
        return round(max(peaks) * factor, 3)

    def _gpus_reporting(self, pending: _Pending) -> int | None:
        """Return how many GPUs publish; `None` where an aggregate does not say."""
        if pending.source is MetricSource.PER_GPU:
            return pending.count_reporting()
        if pending.source is not MetricSource.AGGREGATE:
            return None
        if pending.expected == 1:
            return 1
        samples = pending.series("samples") or ()
        counts = [count for count in samples if count is not None]
        if not counts:
            return None
        per_gpu = self._window.period.total_seconds() / self._names.collection_interval_seconds
        # The middle period: where the agent drifts, one period catches a collection more and
        # another one less. The fullest would then count a GPU that is hidden, the emptiest would
        # miss one that is not.
        return round(median_low(counts) / per_gpu)


def _choose_sets(pending: _Pending, *, all_sets: bool) -> None:
    """Choose by which dimension sets to read utilization: the known ones, or the aggregate."""
    request = pending.request
    known_sets = pending.dimensions or ()
    has_gpus = any(evidence.is_gpu(dimensions) for dimensions in known_sets)
    reads_by_gpu = all_sets or request.per_gpu or request.source == MetricSource.PER_GPU
    # Known sets without a GPU are an aggregate under more dimensions than `InstanceId`: only a
    # search finds it.
    if not known_sets or (has_gpus and not reads_by_gpu):
        pending.sets = (pending.aggregate,)
        pending.source = MetricSource.AGGREGATE
        return
    pending.sets = known_sets
    pending.source = MetricSource.AGGREGATE
    if has_gpus:
        pending.source = MetricSource.PER_GPU
        pending.aggregated = pending.readings.get("all", ())


def _found_sets(pending: _Pending, listed: Sequence[Listed]) -> tuple[Dimensions, ...]:
    """Return the dimension sets that a search found: those of GPUs, or else of an aggregate."""
    sets = [series.dimensions for series in listed if len(series.dimensions) > 1]
    gpu_sets = [dimensions for dimensions in sets if evidence.is_gpu(dimensions)]
    known_sets = set(gpu_sets or sets)
    if not pending.is_silent():
        # CloudWatch lists the last three hours: a GPU that is silent for longer is not forgotten.
        known_sets.update(pending.dimensions or ())
    return tuple(sorted(known_sets))


def _last_nonzero(series: Series) -> int | None:
    """Return the newest period whose reading is neither zero nor missing; `None` if there is
    none."""
    for index in range(len(series) - 1, -1, -1):
        value = series[index]
        if value and not math.isnan(value):
            return index
    return None


def _scaled(series: Series, factor: float) -> Series:
    """Return the readings times the factor; a value that measures nothing is a hole."""
    scaled: list[float | None] = []
    for value in series:
        if value is not None and value >= 0:
            scaled.append(round(value * factor, 1))
        else:
            scaled.append(None)
    return tuple(scaled)


def _sum(left: Series | None, right: Series | None) -> Series | None:
    """Return the sum of each period; a period is a hole if both are, and `None` if neither was
    published."""
    if left is None:
        return right
    if right is None:
        return left
    total: list[float | None] = []
    for left_value, right_value in zip(left, right, strict=True):
        if left_value is None and right_value is None:
            total.append(None)
        else:
            total.append((left_value or 0.0) + (right_value or 0.0))
    return tuple(total)
