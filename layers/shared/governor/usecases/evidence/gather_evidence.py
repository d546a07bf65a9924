"""Reads the evidence of many instances in as few metric reads as possible. This module must not
judge.

Three stages: the `InstanceId` aggregate (or the known per-GPU series) of all; a search for the
series of silent ones; the other figures of those that utilization alone would call idle. What
cannot be read becomes a `read_problem`, never an empty answer.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial, reduce
from itertools import chain
from statistics import median_low
from typing import NamedTuple

from governor.domain import evidence
from governor.domain.catalogue import shape_of
from governor.domain.evidence import Dimensions, Evidence, GpuReadings, MetricSource, Series, Window
from governor.domain.instance import Instance, Shape, Target
from governor.domain.policy.policy import Metrics, Policy
from governor.domain.sweep.verdict import FIGURES, WORK, is_candidate
from governor.errors import CloudError
from governor.ports import Listed, MetricQuery, MetricReader, SeriesFilter

_EC2_PERIOD = timedelta(minutes=5)
"""Basic monitoring publishes one value in five minutes; a shorter period would read holes as
silence."""
_RECENTLY_ACTIVE = timedelta(hours=2)
"""CloudWatch lists what was published in the last three hours, give or take 50 minutes."""
SERIES_OF_A_PART = 20_000
"""A function of 512 MB reads and judges them in half a minute."""
_LISTED_SINGLY = 5
"""So many instances are listed one by one; for more, one pass over the namespace is cheaper."""
_EC2_FIGURES = (
    ("cpu", "cpu", "CPUUtilization", "Average"),
    ("network", "in", "NetworkIn", "Sum"),
    ("network", "out", "NetworkOut", "Sum"),
)
_OF_EC2 = ("cpu", "in", "out", "network", "agentless")
"""Series in periods of their own."""


Passes = dict[SeriesFilter, Mapping[str, Sequence[Listed]]]
"""Result of a pass over a namespace."""


@dataclass(frozen=True, slots=True)
class EvidenceRequest:
    """Request to read one instance.

    Attributes:
        dimensions: per-GPU dimension sets where they are known.
        source: by which series it was last seen; the aggregate is asked first unless by those of
            its GPUs.
        search: whether silent series may be looked for.
        per_gpu: read GPU by GPU although the aggregate exists.
        figures: which of `FIGURES` to read for a candidate.
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
        return max(self.policy.window if self.length is None else self.length, evidence.END)

    def wants_figures(self, seen: Evidence) -> bool:
        return bool(self.figures) and (self.always or is_candidate(seen, self.policy))


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
class _Work:
    request: EvidenceRequest
    shape: Shape | None
    dimensions: tuple[Dimensions, ...] | None
    figures: dict[str, dict[str, Series]] = field(default_factory=dict)
    """Series by figure and GPU; the GPU is `all` in an aggregate and in EC2's figures."""
    jobs: list[tuple[str, Series]] = field(default_factory=list)
    """Jobs' own metrics, by namespace and metric."""
    aggregated: Series = ()
    sets: tuple[Dimensions, ...] = ()
    source: MetricSource = MetricSource.NONE
    searched: bool = False
    problem: str | None = None
    read: frozenset[str] = frozenset()

    @property
    def instance_id(self) -> str:
        return self.request.instance.instance_id

    @property
    def aggregate(self) -> Dimensions:
        return (("InstanceId", self.instance_id),)

    @property
    def expected(self) -> int | None:
        return self.shape.accelerator_count if self.shape else None

    @property
    def readings(self) -> Mapping[str, Series]:
        return self.figures.get("utilization", {})

    def whole(self, figure: str) -> int | None:
        """The limit of a GPU's power in W, or its memory in MiB; `None` where it is not known."""
        if self.shape is None:
            return None
        return self.shape.board_power_watts if figure == "power" else self.shape.memory_mib_each

    def series(self, figure: str) -> Series | None:
        """The highest reading of all GPUs in each period; `None` where nothing was published."""
        if figure == "network":
            return _sum(self.series("in"), self.series("out"))
        found = list(self.figures.get(figure, {}).values())
        return reduce(evidence.merged, found[1:], found[0]) if found else None

    def parts(self, figure: str) -> list[Series]:
        """Every GPU's series, or both directions of the network; empty where one publishes
        nothing."""
        if figure in _OF_EC2:
            names = [series for of, series, _, _ in _EC2_FIGURES if of == figure]
            return [self.figures.get(name, {}).get("all", ()) for name in names]
        found = self.figures.get(figure, {})
        return [found.get(gpu, ()) for gpu in (("all",) if figure == "bound" else self.readings)]

    def note(self, asked: _Asked, series: Series) -> None:
        if asked.figure == WORK:
            self.jobs.append((f"{asked.namespace} {asked.metric}", series))
            return
        known, label = (
            self.figures.setdefault(asked.figure, {}),
            evidence.gpu_label(asked.dimensions),
        )
        known[label] = evidence.merged(known.get(label), series)

    def silent(self) -> bool:
        return self.problem is None and not self.reporting()

    def reporting(self) -> int:
        return sum(evidence.peak(series) is not None for series in self.readings.values())


class _Asked(NamedTuple):
    work: _Work
    figure: str
    metric: str
    dimensions: Dimensions
    statistic: str = "Maximum"
    namespace: str = ""
    """Empty for the policy's own."""


@dataclass(frozen=True, slots=True)
class GatherEvidence:
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
            shape = self.shape(request.instance.instance_type)
            series += len(request.dimensions or ()) or (shape and shape.accelerator_count) or 1
            if series >= SERIES_OF_A_PART:
                yield self(target, part, now, passes)
                part, series = [], 0
        if part:
            yield self(target, part, now, passes)

    def __call__(
        self,
        target: Target,
        requests: Sequence[EvidenceRequest],
        now: datetime,
        passes: Passes | None = None,
    ) -> dict[str, Gathered]:
        """Evidence by instance id. Never raises for a failed read. `passes` holds those over
        namespaces."""
        groups: dict[tuple[Metrics, timedelta], list[EvidenceRequest]] = defaultdict(list)
        for request in requests:
            groups[request.policy.metrics, request.window].append(request)
        gathered: dict[str, Gathered] = {}
        for group in groups.values():
            gathered |= _Batch(self, target, group, now, {} if passes is None else passes).gather()
        return gathered


class _Batch:
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
        policy, length = requests[0].policy, requests[0].window
        self._names, of_ec2 = policy.metrics, max(policy.period, _EC2_PERIOD)
        self._window = evidence.window_before(now, length, policy.period, policy.lag)
        self._ec2_window = evidence.window_before(now, max(length, of_ec2), of_ec2, policy.lag)
        self._work = [
            _Work(request, gather.shape(request.instance.instance_type), request.dimensions)
            for request in requests
        ]

    def gather(self) -> dict[str, Gathered]:
        self._read_utilization(self._work)
        self._search([work for work in self._work if self._wants_search(work)])
        for work in self._work:
            if work.silent():
                work.source = MetricSource.NONE
        found = {work.instance_id: self._evidence(work) for work in self._work}
        candidates = [
            work for work in self._work if work.request.wants_figures(found[work.instance_id])
        ]
        for work in candidates:
            work.read = work.request.figures - (
                set() if self._names.bound_namespaces else {"bound"}
            )
            work.read |= {WORK} if self._names.work else set()
        figures = (one for work in candidates for one in self._figures(work))
        agentless = self._agentless([work for work in candidates if "agentless" in work.read])
        bound = self._bound([work for work in candidates if "bound" in work.read])
        self._read(chain(figures, agentless, bound, self._jobs(candidates)))
        found |= {work.instance_id: self._evidence(work) for work in candidates}
        return {
            work.instance_id: Gathered(
                evidence=found[work.instance_id],
                dimensions=work.dimensions,
                searched=work.searched,
                percent=self._percent(work) if work.request.always else {},
            )
            for work in self._work
        }

    def _wants_search(self, work: _Work) -> bool:
        """Return whether it is silent, or some GPUs that are wanted or that its type has were not
        read."""
        if work.problem is not None or not work.request.search:
            return False
        by_gpu, reporting = work.source is MetricSource.PER_GPU, work.reporting()
        lacks_gpus = by_gpu and work.expected is not None and reporting < work.expected
        return not reporting or lacks_gpus or (work.request.per_gpu and work.dimensions is None)

    def _read_utilization(self, works: Iterable[_Work], *, all_sets: bool = False) -> None:
        asked = []
        for work in works:
            request = work.request
            known = work.dimensions or ()
            # An aggregate under other dimensions than `InstanceId` alone is only found by a search,
            # too.
            has_gpus = any(evidence.is_gpu(dimensions) for dimensions in known)
            by_gpu = all_sets or request.per_gpu or request.source == MetricSource.PER_GPU
            use_known = bool(known) and (by_gpu or not has_gpus)
            work.sets = known if use_known else (work.aggregate,)
            work.source = MetricSource.PER_GPU if use_known and has_gpus else MetricSource.AGGREGATE
            if work.source is MetricSource.PER_GPU:
                work.aggregated = work.readings.get("all", ())
            work.figures.pop("utilization", None)
            asked += [
                _Asked(work, "utilization", self._names.utilization, one) for one in work.sets
            ]
        self._read(asked)

    def _search(self, works: list[_Work]) -> None:
        """One pass over the namespace's series for all that need it; then reads those that were
        found."""
        if not works:
            return
        only = works[0].instance_id if len(self._work) == 1 else None
        try:
            wanted = SeriesFilter(self._names.namespace, self._names.utilization)
            found = self._passes.get(wanted) or self._metrics.list_series(
                self._target, wanted, only
            )
        except CloudError as error:
            for work in works:
                if work.silent():
                    work.problem = f"the search for its series failed: {error}"
            return
        if only is None:
            self._passes[wanted] = found
        for work in self._work:
            work.searched = True
            listed = (one.dimensions for one in found.get(work.instance_id, ()))
            sets = [dimensions for dimensions in listed if len(dimensions) > 1]
            found_sets = [s for s in sets if evidence.is_gpu(s)] or sets
            # Of one that is not silent, a GPU is not forgotten because it was silent for three
            # hours.
            kept = () if work.silent() else work.dimensions or ()
            work.dimensions = tuple(sorted({*found_sets, *kept}))
        self._read_utilization([work for work in works if work.dimensions], all_sets=True)
        self._read(self._agentless([work for work in works if work.silent()]))

    def _agentless(self, works: list[_Work]) -> Iterator[_Asked]:
        """EC2's own power metric: named for the silent ones, a veto for others, never proof of
        idleness."""
        wanted = SeriesFilter("AWS/EC2", "GPUPowerUtilization")
        return self._listed(works, "agentless", wanted, "EC2's own GPU metrics")

    def _bound(self, works: list[_Work]) -> Iterator[_Asked]:
        """Yield what the instance says of itself, as its own role; the highest of several such
        namespaces."""
        base, wanted = re.escape(self._names.namespace), SeriesFilter(None, self._names.utilization)
        for one in self._listed(works, "bound", wanted, "the instances' own namespaces"):
            own = rf"{base}/AROA[A-Z0-9]+:{re.escape(one.work.instance_id)}"
            if one.dimensions == one.work.aggregate and re.fullmatch(own, one.namespace):
                yield one

    def _jobs(self, works: list[_Work]) -> Iterator[_Asked]:
        """The metrics by which a job may have said that it works."""
        if (rule := self._names.work) is None:
            return
        # What was published longer ago is in the window of a policy that looks so far back.
        wanted = SeriesFilter(rule.namespace, None, self._window.length <= _RECENTLY_ACTIVE)
        for one in self._listed(works, WORK, wanted, "the metrics of jobs"):
            if not rule.names or one.metric in rule.names:
                yield one

    def _listed(
        self, works: list[_Work], figure: str, wanted: SeriesFilter, what: str
    ) -> Iterator[_Asked]:
        """A few instances one by one, many by one pass; a listing that failed is no silence."""
        listed = partial(self._metrics.list_series, self._target, wanted)
        try:
            if wanted in self._passes:
                found = self._passes[wanted]
            elif len(works) > _LISTED_SINGLY:
                found = self._passes[wanted] = listed()
            else:
                found = {
                    key: one for work in works for key, one in listed(work.instance_id).items()
                }
        except CloudError as error:
            for work in works:
                if not work.silent():
                    work.problem = work.problem or f"{what} could not be listed: {error}"
            return
        for work in works:
            for one in found.get(work.instance_id, ()):
                yield _Asked(work, figure, one.metric, one.dimensions, namespace=one.namespace)

    def _figures(self, work: _Work) -> Iterator[_Asked]:
        figures, names = work.request.figures, self._names
        for figure, metric in (("power", names.power_draw), ("memory", names.memory_used)):
            if figure in figures and work.whole(figure):
                yield from (_Asked(work, figure, metric, one) for one in work.sets)
        if work.source is MetricSource.AGGREGATE and work.expected != 1:
            # How many GPUs are in the aggregate: a MIG GPU publishes no utilization and would not
            # be missed.
            yield _Asked(work, "samples", names.utilization, work.sets[0], "SampleCount")
        for figure, series, metric, statistic in _EC2_FIGURES:
            if figure in figures:
                yield _Asked(work, series, metric, work.aggregate, statistic, "AWS/EC2")

    def _read(self, asked: Iterable[_Asked]) -> None:
        """Add the series to their instances; what could not be read is noted there, too."""
        own = self._names.namespace
        # In one pass where the windows agree, so that calls are filled to their limit.
        parts: dict[Window, list[_Asked]] = defaultdict(list)
        for one in asked:
            parts[self._ec2_window if one.figure in _OF_EC2 else self._window].append(one)
        for window, part in parts.items():
            queries = [
                MetricQuery(
                    str(number), one.namespace or own, one.metric, one.dimensions, one.statistic
                )
                for number, one in enumerate(part)
            ]
            answer = self._metrics.read(self._target, queries, window)
            for one, query in zip(part, queries, strict=True):
                if one.figure != "agentless" or one.work.reporting():
                    one.work.problem = one.work.problem or answer.problems.get(query.key)
                if (series := answer.series.get(query.key)) is not None:
                    one.work.note(one, series)

    def _evidence(self, work: _Work) -> Evidence:
        window, source = self._window, work.source
        gpus = (
            sorted(work.readings, key=evidence.by_index) if source is not MetricSource.NONE else ()
        )
        values: dict[str, float | None] = {one.field: None for one in FIGURES.values()}
        last_active: dict[str, datetime] = {}
        last_measured: dict[str, datetime] = {}
        measured: dict[str, float] = {}
        hole_minutes: dict[str, float] = {}
        for figure in FIGURES:
            highest = work.series(figure)
            if highest is None:
                continue
            own = self._ec2_window if figure in _OF_EC2 else window
            # Every GPU and both directions of the network: one alone says nothing about the others.
            parts = work.parts(figure) or [highest]
            measured[figure] = round(min(map(evidence.coverage_percent, parts)), 3)
            last_measured[figure] = min(evidence.last_reading_end(part, own) for part in parts)
            hole = max(evidence.longest_hole(part, own) for part in parts)
            hole_minutes[figure] = hole / timedelta(minutes=1)
            top = evidence.peak(highest)
            if top is not None:
                values[FIGURES[figure].field] = round(top * self._scale(work, figure), 3)
                last_active[figure] = own.bin_end(evidence.last_at_or_above(highest, top) or 0)
        works = None
        for name, series in work.jobs:
            last = max(
                (at for at, value in enumerate(series) if value and value == value), default=None
            )
            if last is not None and window.bin_end(last) > last_active.get(WORK, window.start):
                last_active[WORK], works = window.bin_end(last), name
        return Evidence(
            window=window,
            source=source,
            gpus=tuple(GpuReadings(gpu, work.readings[gpu]) for gpu in gpus),
            aggregate=() if source is MetricSource.NONE else work.aggregated,
            gpus_expected=work.expected,
            gpus_reporting=self._reporting(work),
            measured_percent=measured,
            read=work.read,
            read_problem=work.problem,
            last_active=last_active,
            work=works,
            samples=work.series("samples") or (),
            memory_newest_percent=self._memory_newest(work),
            last_measured=last_measured,
            longest_hole_minutes=hole_minutes,
            **values,
        )

    def _scale(self, work: _Work, figure: str) -> float:
        """Return what makes a reading percent, or bytes a second."""
        if figure == "network":
            return 1.0 / self._ec2_window.period.total_seconds()
        return 1.0 if figure in ("cpu", "agentless", "bound") else 100.0 / (work.whole(figure) or 1)

    def _percent(self, work: _Work) -> dict[str, Series]:
        """The fullest GPU's memory and power in each period; a value that measures nothing is a
        hole."""
        return {
            figure: tuple(
                round(value * self._scale(work, figure), 1)
                if value is not None and value >= 0
                else None
                for value in series
            )
            for figure in ("power", "memory")
            if (series := work.series(figure)) is not None
        }

    def _memory_newest(self, work: _Work) -> float | None:
        """The most that any GPU holds in the newest minutes; `None` where one of them was not
        measured."""
        # An aggregate of several GPUs goes on where one of them has fallen silent.
        if "memory" not in work.figures or ("all" in work.readings and work.expected != 1):
            return None
        length = timedelta(minutes=work.request.policy.approval.released_for_minutes)
        peaks = [evidence.newest_peak(one, self._window, length) for one in work.parts("memory")]
        known = [value for value in peaks if value is not None]
        if not known or len(known) < len(peaks):
            return None
        return round(max(known) * self._scale(work, "memory"), 3)

    def _reporting(self, work: _Work) -> int | None:
        """How many GPUs publish; `None` where an aggregate does not tell."""
        if work.source is not MetricSource.AGGREGATE:
            return work.reporting() if work.source is MetricSource.PER_GPU else None
        if work.expected == 1:
            return 1
        per_gpu = self._window.period.total_seconds() / self._names.collection_interval_seconds
        # The middle period: where the agent drifts, one period catches a collection more and
        # another one less. The fullest would then count a GPU that is hidden, the emptiest would
        # miss one that is not.
        counts = [count for count in work.series("samples") or () if count is not None]
        return round(median_low(counts) / per_gpu) if counts else None


def _sum(left: Series | None, right: Series | None) -> Series | None:
    if left is None or right is None:
        return right if left is None else left
    return tuple(
        None if a is None and b is None else (a or 0.0) + (b or 0.0)
        for a, b in zip(left, right, strict=True)
    )
