"""Reads the evidence of many instances in as few metric reads as possible.

Three stages: the `InstanceId` aggregate (or the known per-GPU series) of all; a search for the series of
those that stayed silent; the remaining figures of those that utilization alone would call idle. What cannot
be read becomes a `read_problem`, never an empty answer. This module must not judge.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import reduce
from statistics import median_low
from typing import NamedTuple

from governor.domain.evidence import (
    END_BIN,
    Evidence,
    GpuReadings,
    MetricSource,
    Series,
    Window,
    coverage_percent,
    empty_evidence,
    last_at_or_above,
    last_not_zero,
    last_reading_end,
    longest_hole,
    newest_peak,
    peak,
    window_before,
)
from governor.domain.instance import Instance, Shape, Target
from governor.domain.policy.policy import Metrics, Policy, WorkMetrics
from governor.domain.sweep.verdict import FIGURES, WORK, is_candidate
from governor.errors import CloudError
from governor.ports import Catalogue, MetricQuery, MetricReader
from governor.usecases.evidence.gpu_series import Dimensions, by_index, gpu_label, is_gpu, merged

_EC2_PERIOD = timedelta(minutes=5)
"""Basic monitoring publishes one value in five minutes; a shorter period would read holes as silence."""
_SHORTEST = 2 * END_BIN
_RECENTLY_ACTIVE = timedelta(hours=2)
"""CloudWatch lists what was published in the last three hours, give or take 50 minutes."""
_LISTED_SINGLY = 5
"""So many instances are listed one by one; for more, one pass over the namespace is cheaper."""
_AGENTLESS_NAMESPACE = "AWS/EC2"
_AGENTLESS_METRIC = "GPUPowerUtilization"


@dataclass(frozen=True, slots=True)
class EvidenceRequest:
    """What to read for one instance.

    Attributes:
        dimensions: per-GPU dimension sets where they are known.
        source: by which series it was last seen; `None` asks the aggregate first.
        search: whether silent series may be looked for.
        per_gpu: read GPU by GPU although the aggregate exists.
        figures: which of `power`, `memory`, `cpu`, `network` to read for a candidate.
        always: read the figures whatever utilization says.
        length: how far to look back; `None` takes the policy's idle window.
    """

    instance: Instance
    policy: Policy
    dimensions: tuple[Dimensions, ...] | None = None
    source: str | None = None
    search: bool = True
    per_gpu: bool = False
    figures: frozenset[str] = frozenset()
    always: bool = False
    length: timedelta | None = None

    @property
    def window(self) -> timedelta:
        """How far it looks back: at least as far as the end of a proof."""
        return max(self.policy.window if self.length is None else self.length, _SHORTEST)


@dataclass(frozen=True, slots=True)
class Gathered:
    """Evidence, and what was learnt about where it is found. `searched` says that a search took place."""

    evidence: Evidence
    dimensions: tuple[Dimensions, ...] | None
    source: str | None
    searched: bool


@dataclass(slots=True)
class _Work:
    """One instance while its evidence comes together."""

    request: EvidenceRequest
    shape: Shape | None
    readings: dict[str, Series] = field(default_factory=dict)
    aggregated: Series = ()
    sets: tuple[Dimensions, ...] = ()
    source: MetricSource = MetricSource.NONE
    dimensions: tuple[Dimensions, ...] | None = None
    searched: bool = False
    problem: str | None = None
    agentless: float | None = None
    figures: dict[tuple[str, str], Series] = field(default_factory=dict)
    """Other series by figure and GPU; of EC2's figures the GPU is `all`."""

    @property
    def instance_id(self) -> str:
        return self.request.instance.instance_id

    @property
    def aggregate(self) -> Dimensions:
        return (("InstanceId", self.instance_id),)

    def whole(self, figure: str) -> int | None:
        """The limit of a GPU's power in W, or its memory in MiB; `None` where it is not known."""
        if self.shape is None:
            return None
        return self.shape.board_power_watts if figure == "power" else self.shape.memory_mib_each

    def series(self, figure: str) -> Series | None:
        """The highest reading of all GPUs in each period; `None` where nothing was published."""
        found = [series for (name, _), series in self.figures.items() if name == figure]
        return reduce(merged, found) if found else None

    def parts(self, figure: str, *gpus: str) -> list[Series]:
        """The series of each GPU; empty where one publishes nothing."""
        return [self.figures.get((figure, gpu), ()) for gpu in gpus]

    def silent(self) -> bool:
        return self.problem is None and all(peak(series) is None for series in self.readings.values())

    def reporting(self) -> int:
        return sum(peak(series) is not None for series in self.readings.values())

    def lacks_gpus(self) -> bool:
        """Whether it is read GPU by GPU, and some that its type has are not among them."""
        count = self.shape.accelerator_count if self.shape else None
        known = self.source is MetricSource.PER_GPU and self.problem is None
        return known and count is not None and self.reporting() < count


class _Asked(NamedTuple):
    """One series, and what it is wanted for."""

    work: _Work
    figure: str
    namespace: str
    metric: str
    dimensions: Dimensions
    statistic: str = "Maximum"


class _Answer(NamedTuple):
    asked: _Asked
    series: Series | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class GatherEvidence:
    """Evidence for a batch of instances of one target."""

    metrics: MetricReader
    catalogue: Catalogue

    def __call__(
        self, target: Target, requests: Sequence[EvidenceRequest], now: datetime
    ) -> dict[str, Gathered]:
        """Evidence by instance id. Never raises for a failed read."""
        groups: dict[tuple[Metrics, timedelta], list[EvidenceRequest]] = defaultdict(list)
        for request in requests:
            groups[request.policy.metrics, request.window].append(request)
        gathered: dict[str, Gathered] = {}
        for group in groups.values():
            gathered |= _Batch(self, target, group, now).gather()
        return gathered


class _Batch:
    """Instances that share metric names and window."""

    def __init__(
        self, gather: GatherEvidence, target: Target, requests: Sequence[EvidenceRequest], now: datetime
    ) -> None:
        self._metrics = gather.metrics
        self._target = target
        policy = requests[0].policy
        self._names = policy.metrics
        length = requests[0].window
        self._window = window_before(now, length, policy.period, policy.lag)
        period = max(policy.period, _EC2_PERIOD)
        self._ec2_window = window_before(now, max(length, period), period, policy.lag)
        self._work = [
            _Work(
                request, gather.catalogue.shape(request.instance.instance_type), dimensions=request.dimensions
            )
            for request in requests
        ]

    def gather(self) -> dict[str, Gathered]:
        self._read_utilization(self._work)
        self._search([work for work in self._work if self._wants_search(work)])
        evidence = {work.instance_id: self._utilization_evidence(work) for work in self._work}
        candidates = [
            work
            for work in self._work
            if work.request.figures
            and (work.request.always or is_candidate(evidence[work.instance_id], work.request.policy))
        ]
        self._read_figures(candidates, evidence)
        if self._names.work is not None and candidates:
            self._read_work(candidates, evidence, self._names.work)
        return {
            work.instance_id: Gathered(
                evidence=evidence[work.instance_id],
                dimensions=work.dimensions,
                source=None if work.source is MetricSource.NONE else work.source.value,
                searched=work.searched,
            )
            for work in self._work
        }

    # utilization

    def _wants_search(self, work: _Work) -> bool:
        wants_gpus = work.request.per_gpu and work.dimensions is None and work.problem is None
        return work.request.search and (work.silent() or wants_gpus or work.lacks_gpus())

    def _read_utilization(self, works: Iterable[_Work]) -> None:
        asked = []
        for work in works:
            request = work.request
            known = work.dimensions or ()
            # An aggregate under other dimensions than `InstanceId` alone is only found by a search, too.
            has_gpus = any(is_gpu(dimensions) for dimensions in known)
            use_known = bool(known) and (
                request.per_gpu or request.source == MetricSource.PER_GPU or not has_gpus
            )
            work.sets = known if use_known else (work.aggregate,)
            work.source = MetricSource.PER_GPU if use_known and has_gpus else MetricSource.AGGREGATE
            if work.source is MetricSource.PER_GPU:
                work.aggregated = work.readings.get("all", ())
            work.readings = {}
            asked += [self._asked(work, "utilization", self._names.utilization, one) for one in work.sets]
        for (work, _, _, _, dimensions, _), series, problem in self._read(asked, self._window):
            work.problem = problem or work.problem
            if series is not None:
                label = gpu_label(dimensions)
                work.readings[label] = merged(work.readings.get(label), series)

    def _search(self, works: list[_Work]) -> None:
        """One pass over the namespace's series for all that need it; then reads those that were found."""
        if not works:
            return
        only = works[0].instance_id if len(self._work) == 1 else None
        try:
            found = self._metrics.list_series(
                self._target, self._names.namespace, self._names.utilization, only
            )
        except CloudError as error:
            for work in works:
                if work.silent():
                    work.problem = f"the search for its series failed: {error}"
            return
        for work in self._work:
            work.searched = True
            sets = [dimensions for dimensions in found.get(work.instance_id, ()) if len(dimensions) > 1]
            found_sets = [s for s in sets if is_gpu(s)] or sets
            # Of one that is not silent, a GPU is not forgotten because it was silent for three hours.
            kept = () if work.silent() else work.dimensions or ()
            work.dimensions = tuple(sorted({*found_sets, *kept}))
        again = [work for work in works if work.dimensions]
        for work in again:
            work.request = replace(work.request, source=MetricSource.PER_GPU)
        if again:
            self._read_utilization(again)
        self._read_agentless([work for work in works if work.silent()], only)

    def _read_agentless(self, works: list[_Work], only: str | None) -> None:
        """EC2's own power metric of the silent ones: named in the reason, never a proof of idleness."""
        if not works:
            return
        try:
            found = self._metrics.list_series(self._target, _AGENTLESS_NAMESPACE, _AGENTLESS_METRIC, only)
        except CloudError:
            # Only colours the sentence of a verdict that is `no-data` with or without it.
            return
        asked = [
            _Asked(work, "agentless", _AGENTLESS_NAMESPACE, _AGENTLESS_METRIC, tuple(dimensions))
            for work in works
            for dimensions in found.get(work.instance_id, ())
        ]
        for one, series, _ in self._read(asked, self._ec2_window):
            tops = (one.work.agentless, peak(series or ()))
            one.work.agentless = max((top for top in tops if top is not None), default=None)

    def _utilization_evidence(self, work: _Work) -> Evidence:
        expected = work.shape.accelerator_count if work.shape else None
        if work.silent():
            work.source = MetricSource.NONE
            return replace(
                empty_evidence(self._window), gpus_expected=expected, agentless_power_percent=work.agentless
            )
        reporting = None
        if work.source is MetricSource.PER_GPU:
            reporting = work.reporting()
        elif expected == 1:
            reporting = 1
        return Evidence(
            window=self._window,
            source=work.source,
            gpus=tuple(
                GpuReadings(gpu, series)
                for gpu, series in sorted(work.readings.items(), key=lambda item: by_index(item[0]))
            ),
            aggregate=work.aggregated,
            gpus_expected=expected,
            gpus_reporting=reporting,
            read_problem=work.problem,
        )

    # the other figures

    def _read_figures(self, works: list[_Work], evidence: dict[str, Evidence]) -> None:
        asked = [one for work in works for one in self._gpu_figures(work)]
        of_ec2 = [one for work in works for one in self._ec2_figures(work)]
        # Together in one pass where the windows agree, so that calls are filled to their limit.
        if self._window == self._ec2_window:
            answers = self._read(asked + of_ec2, self._window)
        else:
            answers = [*self._read(asked, self._window), *self._read(of_ec2, self._ec2_window)]
        for (work, figure, _, _, dimensions, _), series, problem in answers:
            work.problem = work.problem or problem
            if series is not None:
                key = figure, gpu_label(dimensions)
                work.figures[key] = merged(work.figures.get(key), series)
        for work in works:
            evidence[work.instance_id] = self._with_figures(work, evidence[work.instance_id])

    def _gpu_figures(self, work: _Work) -> Iterator[_Asked]:
        figures, names = work.request.figures, self._names
        if "power" in figures and work.whole("power"):
            yield from (self._asked(work, "power", names.power_draw, one) for one in work.sets)
        if "memory" in figures and work.whole("memory"):
            yield from (self._asked(work, "memory", names.memory_used, one) for one in work.sets)
        if work.source is MetricSource.AGGREGATE and _may_have_several(work.shape):
            # How many GPUs are in the aggregate: a MIG GPU publishes no utilization and would not be missed.
            yield self._asked(work, "samples", names.utilization, work.sets[0], "SampleCount")

    def _ec2_figures(self, work: _Work) -> Iterator[_Asked]:
        if "cpu" in work.request.figures:
            yield _Asked(work, "cpu", "AWS/EC2", "CPUUtilization", work.aggregate, "Average")
        if "network" in work.request.figures:
            yield _Asked(work, "in", "AWS/EC2", "NetworkIn", work.aggregate, "Sum")
            yield _Asked(work, "out", "AWS/EC2", "NetworkOut", work.aggregate, "Sum")

    def _with_figures(self, work: _Work, evidence: Evidence) -> Evidence:
        # Every GPU and both directions of the network: one alone says nothing about the others.
        parts = {figure: work.parts(figure, *work.readings) for figure in ("power", "memory")}
        parts |= {"cpu": work.parts("cpu", "all")}
        parts |= {"network": [*work.parts("in", "all"), *work.parts("out", "all")]}
        ec2 = self._ec2_window
        scales = {"cpu": 1.0, "network": 1.0 / ec2.period.total_seconds()}
        values: dict[str, float | None] = dict.fromkeys(FIGURES)
        last_active: dict[str, datetime] = {}
        last_measured: dict[str, datetime] = {}
        measured: dict[str, float] = {}
        hole_minutes: dict[str, float] = {}
        for figure in FIGURES:
            window = ec2 if figure in scales else self._window
            series = work.series(figure)
            if figure == "network":
                series = _merge_sum(work.series("in"), work.series("out"))
            if series is None:
                continue
            own = parts[figure] or [series]
            measured[figure] = round(min(map(coverage_percent, own)), 3)
            last_measured[figure] = min(last_reading_end(part, window) for part in own)
            hole_minutes[figure] = max(longest_hole(part, window) for part in own) / timedelta(minutes=1)
            top = peak(series)
            if top is not None:
                scale = scales.get(figure) or 100.0 / (work.whole(figure) or 1)
                values[figure] = round(top * scale, 3)
                last_active[figure] = window.bin_end(last_at_or_above(series, top) or 0)
        samples = work.series("samples")
        return replace(
            evidence,
            gpus_reporting=self._reporting(work, evidence, samples),
            memory_used_percent=values["memory"],
            power_percent_of_limit=values["power"],
            cpu_percent=values["cpu"],
            network_bytes_per_second=values["network"],
            measured_percent=measured,
            read=work.request.figures,
            read_problem=work.problem,
            last_active=last_active,
            samples=samples or (),
            memory_newest_percent=self._memory_newest(work),
            last_measured=last_measured,
            longest_hole_minutes=hole_minutes,
        )

    def _memory_newest(self, work: _Work) -> float | None:
        """The most that any GPU holds in the newest minutes; `None` where one of them was not measured."""
        whole = work.whole("memory")
        length = timedelta(minutes=work.request.policy.approval.released_for_minutes)
        peaks = [newest_peak(one, self._window, length) for one in work.parts("memory", *work.readings)]
        known = [value for value in peaks if value is not None]
        if not whole or not known or len(known) < len(peaks):
            return None
        return round(max(known) * 100.0 / whole, 3)

    def _reporting(self, work: _Work, evidence: Evidence, samples: Series | None) -> int | None:
        if work.source is not MetricSource.AGGREGATE or samples is None:
            return evidence.gpus_reporting
        per_gpu = self._window.period.total_seconds() / self._names.collection_interval_seconds
        # The middle period: where the agent drifts, one period catches a collection more and another one
        # less. The fullest would then count a GPU that is hidden, the emptiest would miss one that is not.
        counts = [count for count in samples if count is not None]
        return round(median_low(counts) / per_gpu) if counts else None

    # what jobs say of themselves

    def _read_work(self, works: list[_Work], evidence: dict[str, Evidence], rule: WorkMetrics) -> None:
        """Adds the metric by which a job has said last that it works; a read that failed is no silence."""
        try:
            published = self._list_work(works, rule)
        except CloudError as error:
            problem = f"the metrics of jobs could not be listed: {error}"
            for work in works:
                known = evidence[work.instance_id]
                evidence[work.instance_id] = replace(known, read_problem=known.read_problem or problem)
            return
        asked = [
            _Asked(work, WORK, rule.namespace, metric, tuple(dimensions))
            for work in works
            for metric, dimensions in published.get(work.instance_id, ())
            if not rule.names or metric in rule.names
        ]
        for work in works:
            known = evidence[work.instance_id]
            evidence[work.instance_id] = replace(known, read=known.read | {WORK})
        for answer in self._read(asked, self._window):
            instance_id = answer.asked.work.instance_id
            evidence[instance_id] = self._with_work(evidence[instance_id], answer)

    def _list_work(
        self, works: list[_Work], rule: WorkMetrics
    ) -> Mapping[str, Sequence[tuple[str, Dimensions]]]:
        """A few candidates one by one, many by one pass over the namespace."""
        # What was published longer ago is in the window of a policy that looks so far back.
        recently = self._window.length <= _RECENTLY_ACTIVE
        if len(works) > _LISTED_SINGLY:
            return self._metrics.list_published(self._target, rule.namespace, recently=recently)
        found: dict[str, Sequence[tuple[str, Dimensions]]] = {}
        for work in works:
            found |= self._metrics.list_published(
                self._target, rule.namespace, work.instance_id, recently=recently
            )
        return found

    def _with_work(self, evidence: Evidence, answer: _Answer) -> Evidence:
        evidence = replace(evidence, read_problem=evidence.read_problem or answer.problem)
        index = last_not_zero(answer.series or ())
        if index is None:
            return evidence
        ended, before = self._window.bin_end(index), evidence.last_active.get(WORK)
        if before is not None and before >= ended:
            return evidence
        name = f"{answer.asked.namespace} {answer.asked.metric}"
        return replace(evidence, work=name, last_active={**evidence.last_active, WORK: ended})

    # reading

    def _asked(
        self, work: _Work, figure: str, metric: str, dimensions: Dimensions, statistic: str = "Maximum"
    ) -> _Asked:
        return _Asked(work, figure, self._names.namespace, metric, dimensions, statistic)

    def _read(self, asked: Sequence[_Asked], window: Window) -> list[_Answer]:
        if not asked:
            return []
        queries = [
            MetricQuery(str(number), one.namespace, one.metric, one.dimensions, one.statistic)
            for number, one in enumerate(asked)
        ]
        answer = self._metrics.read(self._target, queries, window)
        return [
            _Answer(one, answer.series.get(query.key), answer.problems.get(query.key))
            for one, query in zip(asked, queries, strict=True)
        ]


def _may_have_several(shape: Shape | None) -> bool:
    return shape is None or shape.accelerator_count is None or shape.accelerator_count > 1


def _merge_sum(left: Series | None, right: Series | None) -> Series | None:
    """Per period the sum of both; where only one was published, that one."""
    if left is None or right is None:
        return right if left is None else left
    return tuple(
        None if a is None and b is None else (a or 0.0) + (b or 0.0) for a, b in zip(left, right, strict=True)
    )
