"""Reads the evidence of many instances in as few metric reads as possible.

Three stages: the `InstanceId` aggregate (or the known per-GPU series) of all; a search for the series of
those that stayed silent; the remaining figures of those that utilization alone would call idle. What cannot
be read becomes a `read_problem`, never an empty answer. This module must not judge.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from statistics import median_low

from governor.domain.evidence import (
    END_BIN,
    Evidence,
    GpuReadings,
    MetricSource,
    Series,
    Window,
    coverage_percent,
    empty_evidence,
    last_not_zero,
    last_reading_end,
    longest_hole,
    newest_peak,
    peak,
    window_before,
)
from governor.domain.instance import Instance, Shape, Target
from governor.domain.policy import Metrics, Policy, WorkMetrics
from governor.domain.verdict import FIGURES, WORK, is_candidate
from governor.errors import CloudError
from governor.ports import Catalogue, MetricAnswer, MetricQuery, MetricReader
from governor.usecases.gpu_series import Dimensions, by_index, gpu_label, is_gpu, merged

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

    @property
    def instance_id(self) -> str:
        return self.request.instance.instance_id

    @property
    def aggregate(self) -> Dimensions:
        return (("InstanceId", self.instance_id),)

    def silent(self) -> bool:
        return self.problem is None and all(peak(series) is None for series in self.readings.values())


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
        return work.request.search and (work.silent() or wants_gpus)

    def _read_utilization(self, works: Iterable[_Work]) -> None:
        queries: list[MetricQuery] = []
        asked: dict[str, tuple[_Work, str]] = {}
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
            for number, dimensions in enumerate(work.sets):
                key = f"u{number}|{work.instance_id}"
                asked[key] = (work, gpu_label(dimensions))
                queries.append(self._query(key, self._names.utilization, dimensions, "Maximum"))
        answer = self._read(queries, self._window)
        for key, (work, label) in asked.items():
            if key in answer.problems:
                work.problem = answer.problems[key]
            series = answer.series.get(key)
            if series is not None:
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
            work.dimensions = tuple(sorted([s for s in sets if is_gpu(s)] or sets))
        again = [work for work in works if work.dimensions]
        for work in again:
            work.request = replace(work.request, source=MetricSource.PER_GPU)
        if again:
            self._read_utilization(again)
        self._read_agentless([work for work in works if work.silent()], only)

    def _read_agentless(self, works: list[_Work], only: str | None) -> None:
        """EC2's own power metric of the silent ones: told with the verdict, never a proof of idleness."""
        if not works:
            return
        try:
            found = self._metrics.list_series(self._target, _AGENTLESS_NAMESPACE, _AGENTLESS_METRIC, only)
        except CloudError:
            # Only colours the sentence of a verdict that is `no-data` with or without it.
            return
        queries, asked = [], {}
        for work in works:
            for number, dimensions in enumerate(found.get(work.instance_id, ())):
                key = f"a{number}|{work.instance_id}"
                asked[key] = work
                queries.append(
                    MetricQuery(key, _AGENTLESS_NAMESPACE, _AGENTLESS_METRIC, tuple(dimensions), "Maximum")
                )
        answer = self._read(queries, self._ec2_window)
        for key, work in asked.items():
            work.agentless = _max_of(work.agentless, peak(answer.series.get(key, ())))

    def _utilization_evidence(self, work: _Work) -> Evidence:
        expected = work.shape.accelerator_count if work.shape else None
        if work.silent():
            work.source = MetricSource.NONE
            return replace(
                empty_evidence(self._window), gpus_expected=expected, agentless_power_percent=work.agentless
            )
        reporting = None
        if work.source is MetricSource.PER_GPU:
            reporting = sum(peak(series) is not None for series in work.readings.values())
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
        queries: list[MetricQuery] = []
        ec2_queries: list[MetricQuery] = []
        for work in works:
            queries += self._gpu_figure_queries(work)
            ec2_queries += self._ec2_figure_queries(work)
        # Together in one pass where the windows agree, so that calls are filled to their limit.
        if self._window == self._ec2_window:
            answers = (self._read(queries + ec2_queries, self._window),) * 2
        else:
            answers = (self._read(queries, self._window), self._read(ec2_queries, self._ec2_window))
        keys = _keys_by_instance(queries), _keys_by_instance(ec2_queries)
        for work in works:
            own = tuple(by_instance.get(work.instance_id, []) for by_instance in keys)
            evidence[work.instance_id] = self._with_figures(work, evidence[work.instance_id], own, answers)

    def _gpu_figure_queries(self, work: _Work) -> list[MetricQuery]:
        figures, queries = work.request.figures, []
        if "power" in figures and _power_limit(work.shape) is not None:
            queries += [
                self._query(f"p{n}|{work.instance_id}", self._names.power_draw, dimensions, "Maximum")
                for n, dimensions in enumerate(work.sets)
            ]
        if "memory" in figures and work.shape is not None and work.shape.memory_mib_each:
            queries += [
                self._query(f"m{n}|{work.instance_id}", self._names.memory_used, dimensions, "Maximum")
                for n, dimensions in enumerate(work.sets)
            ]
        if work.source is MetricSource.AGGREGATE and _may_have_several(work.shape):
            # How many GPUs are in the aggregate: a MIG GPU publishes no utilization and would not be missed.
            queries.append(
                self._query(f"s|{work.instance_id}", self._names.utilization, work.sets[0], "SampleCount")
            )
        return queries

    def _ec2_figure_queries(self, work: _Work) -> list[MetricQuery]:
        figures, queries = work.request.figures, []
        wanted = [("c", "CPUUtilization", "Average")] if "cpu" in figures else []
        if "network" in figures:
            wanted += [("i", "NetworkIn", "Sum"), ("o", "NetworkOut", "Sum")]
        for letter, metric, statistic in wanted:
            key = f"{letter}|{work.instance_id}"
            queries.append(MetricQuery(key, "AWS/EC2", metric, work.aggregate, statistic))
        return queries

    def _with_figures(
        self,
        work: _Work,
        evidence: Evidence,
        keys: tuple[list[str], ...],
        answers: tuple[MetricAnswer, MetricAnswer],
    ) -> Evidence:
        problem = evidence.read_problem
        by_letter: dict[str, Series] = {}
        for own, answer in zip(keys, answers, strict=True):
            for key in own:
                problem = problem or answer.problems.get(key)
                series = answer.series.get(key)
                if series is not None:
                    by_letter[key[0]] = merged(by_letter.get(key[0]), series)
        seconds = self._ec2_window.period.total_seconds()
        network = _merge_sum(by_letter.get("i"), by_letter.get("o"))
        shape, limit = work.shape, _power_limit(work.shape)
        memory = shape.memory_mib_each if shape else None
        scaled: dict[str, tuple[Series | None, float | None, Window]] = {
            "power": (by_letter.get("p"), 100.0 / limit if limit else None, self._window),
            "memory": (by_letter.get("m"), 100.0 / memory if memory else None, self._window),
            "cpu": (by_letter.get("c"), 1.0, self._ec2_window),
            "network": (network, 1.0 / seconds, self._ec2_window),
        }
        values: dict[str, float | None] = {}
        last_active: dict[str, datetime] = {}
        last_measured: dict[str, datetime] = {}
        measured: dict[str, float] = {}
        hole_minutes: dict[str, float] = {}
        for figure in FIGURES:
            series, factor, window = scaled[figure]
            top = peak(series) if series is not None else None
            values[figure] = None if top is None or factor is None else round(top * factor, 3)
            if series is not None:
                # Of the network, both directions: one alone says nothing about the other.
                parts = [by_letter.get("i", ()), by_letter.get("o", ())] if figure == "network" else [series]
                measured[figure] = round(min(map(coverage_percent, parts)), 3)
                last_measured[figure] = min(last_reading_end(part, window) for part in parts)
                hole = max(longest_hole(part, window) for part in parts)
                hole_minutes[figure] = hole / timedelta(minutes=1)
            if series is not None and top is not None:
                last_active[figure] = window.bin_end(_last_index(series, top))
        return replace(
            evidence,
            gpus_reporting=self._reporting(work, evidence, by_letter.get("s")),
            memory_used_percent=values["memory"],
            power_percent_of_limit=values["power"],
            cpu_percent=values["cpu"],
            network_bytes_per_second=values["network"],
            measured_percent=measured,
            read=work.request.figures,
            read_problem=problem,
            last_active=last_active,
            samples=by_letter.get("s", ()),
            memory_newest_percent=self._memory_newest(work, keys, answers),
            last_measured=last_measured,
            longest_hole_minutes=hole_minutes,
        )

    def _memory_newest(
        self, work: _Work, keys: tuple[list[str], ...], answers: tuple[MetricAnswer, MetricAnswer]
    ) -> float | None:
        """The most that any GPU holds in the newest minutes; `None` where one of them was not measured."""
        whole = work.shape.memory_mib_each if work.shape else None
        by_gpu: dict[str, Series] = {}
        for own, answer in zip(keys, answers, strict=True):
            for key in own:
                series = answer.series.get(key)
                if key[0] == "m" and series is not None:
                    label = gpu_label(work.sets[int(key.partition("|")[0][1:])])
                    by_gpu[label] = merged(by_gpu.get(label), series)
        length = timedelta(minutes=work.request.policy.approval.released_for_minutes)
        peaks = [
            newest_peak(by_gpu[label], self._window, length) if label in by_gpu else None
            for label in work.readings
        ]
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
        asked: dict[str, tuple[_Work, str]] = {}
        queries = []
        for work in works:
            for number, (metric, dimensions) in enumerate(published.get(work.instance_id, ())):
                if rule.names and metric not in rule.names:
                    continue
                key = f"w{number}|{work.instance_id}"
                asked[key] = (work, metric)
                queries.append(MetricQuery(key, rule.namespace, metric, tuple(dimensions), "Maximum"))
        answer = self._read(queries, self._window)
        for work in works:
            known = evidence[work.instance_id]
            evidence[work.instance_id] = replace(known, read=known.read | {WORK})
        for key, (work, metric) in asked.items():
            evidence[work.instance_id] = self._with_work(
                evidence[work.instance_id], f"{rule.namespace} {metric}", key, answer
            )

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

    def _with_work(self, evidence: Evidence, name: str, key: str, answer: MetricAnswer) -> Evidence:
        if key in answer.problems:
            evidence = replace(evidence, read_problem=evidence.read_problem or answer.problems[key])
        index = last_not_zero(answer.series.get(key, ()))
        if index is None:
            return evidence
        ended, before = self._window.bin_end(index), evidence.last_active.get(WORK)
        if before is not None and before >= ended:
            return evidence
        return replace(evidence, work=name, last_active={**evidence.last_active, WORK: ended})

    # reading

    def _query(self, key: str, metric: str, dimensions: Dimensions, statistic: str) -> MetricQuery:
        return MetricQuery(key, self._names.namespace, metric, dimensions, statistic)

    def _read(self, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        if not queries:
            return MetricAnswer(series={}, problems={})
        return self._metrics.read(self._target, queries, window)


def _power_limit(shape: Shape | None) -> int | None:
    return shape.board_power_watts if shape else None


def _may_have_several(shape: Shape | None) -> bool:
    return shape is None or shape.accelerator_count is None or shape.accelerator_count > 1


def _max_of(left: float | None, right: float | None) -> float | None:
    if left is None or right is None:
        return right if left is None else left
    return max(left, right)


def _merge_sum(left: Series | None, right: Series | None) -> Series | None:
    """Per period the sum of both; where only one was published, that one."""
    if left is None or right is None:
        return right if left is None else left
    return tuple(
        None if a is None and b is None else (a or 0.0) + (b or 0.0) for a, b in zip(left, right, strict=True)
    )


def _last_index(series: Series, value: float) -> int:
    return max(index for index, reading in enumerate(series) if reading == value)


def _keys_by_instance(queries: Iterable[MetricQuery]) -> Mapping[str, list[str]]:
    keys: dict[str, list[str]] = defaultdict(list)
    for query in queries:
        keys[query.key.partition("|")[2]].append(query.key)
    return keys
