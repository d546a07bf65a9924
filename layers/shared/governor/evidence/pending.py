"""An instance while its metrics are read: the series that are asked for, and those that have come.

This module reads nothing itself and must not judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from governor.core.instance import Shape
from governor.evidence.model import MetricSource, Series
from governor.evidence.ports import Listed
from governor.evidence.request import EvidenceRequest
from governor.evidence.rules import series as evidence
from governor.evidence.rules.figures import (
    FIGURES,
    WORK,
    Publisher,
    factor_of,
    is_published_by,
)
from governor.evidence.rules.profiles import expected_count, in_percent, memory_factor
from governor.evidence.rules.series import Dimensions


@dataclass(slots=True)
class Pending:
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
    """The utilization of series that are of no GPU, such as the aggregate, once the GPUs are read
    one by one: in each period the highest."""
    sets: tuple[Dimensions, ...] = ()
    """The dimension sets by which utilization was read."""
    source: MetricSource = MetricSource.NONE
    searched: bool = False
    problem: str | None = None
    figures_read: frozenset[str] = frozenset()
    index_by_uuid: dict[str, str] = field(default_factory=dict)
    """The index of a GPU by its UUID, as far as a series has both."""

    @property
    def instance_id(self) -> str:
        """Return the id of the instance."""
        return self.request.instance.instance_id

    @property
    def aggregate(self) -> Dimensions:
        """Return the dimension set of the whole instance: `InstanceId` alone."""
        return evidence.whole_instance(self.instance_id)

    @property
    def expected(self) -> int | None:
        """Return how many GPUs, or cores, of the instance's type publish; `None` if that is not
        known."""
        return expected_count(self.shape, self.request.profile)

    @property
    def own_dimension(self) -> str:
        """Return the dimension that distinguishes devices by the policy; empty if it names none."""
        return self.request.policy.metrics.device_dimension

    @property
    def readings(self) -> Mapping[str, Series]:
        """Return the utilization by GPU, as far as it was read; empty if nothing was."""
        return self.figures.get("utilization", {})

    def factor(self, figure: str, period: timedelta) -> float | None:
        """Return the factor that turns readings of a period into the figure; `None` if the instance
        type does not say what 100% is."""
        factor = factor_of(FIGURES[figure].scale, self.shape, period.total_seconds())
        if factor is not None and figure == "memory":
            names = self.request.policy.metrics
            factor *= memory_factor(self.shape, names, self.request.profile)
        return factor

    def series(self, figure: str) -> Series | None:
        """Return the highest reading of all GPUs in each period, or the sum of EC2's metrics;
        `None` if nothing was read of the figure."""
        by_part = self.figures.get(figure, {})
        if is_published_by(figure, Publisher.EC2):
            total: Series | None = None
            for series in by_part.values():
                total = _sum(total, series)
            return total
        highest: Series | None = None
        for series in by_part.values():
            highest = evidence.merged(highest, series)
        return highest

    def parts(self, figure: str) -> list[Series]:
        """Return the series of a figure for each GPU, or for each metric of EC2. The series of a
        GPU or metric without readings is an empty tuple.

        EC2's own figure of GPUs has parts if any of its series names a GPU. Return an empty list if
        none does, and for other figures that only a listing shows: nobody knows their parts.
        """
        by_part = self.figures.get(figure, {})
        row = FIGURES[figure]
        if row.publisher is Publisher.EC2:
            return [by_part.get(metric, ()) for metric in row.metrics]
        if row.publisher is Publisher.AGENT:
            return self._parts_by_gpu(by_part)
        if row.publisher is Publisher.EC2_GPU:
            return self._parts_of_ec2(by_part)
        return []

    def _parts_of_ec2(self, by_part: Mapping[str, Series]) -> list[Series]:
        """Return a series for each GPU of the instance, an empty tuple for a GPU without one; an
        empty list if no series names a GPU, or if only one GPU exists.

        EC2 may name GPUs otherwise than the agent, so they are counted.
        """
        if self.expected == 1:
            return []
        parts = [series for gpu, series in by_part.items() if gpu != "all"]
        if not parts:
            return []
        gpu_count = 0 if self.shape is None else self.shape.accelerator_count or 0
        missing_count = max(0, gpu_count - len(parts))
        return [*parts, *[()] * missing_count]

    def _parts_by_gpu(self, by_part: Mapping[str, Series]) -> list[Series]:
        """Return a series for each GPU that publishes utilization, matched by the name of the GPU;
        an empty tuple for a GPU without one.

        If no name matches, and as many GPUs publish the figure, they are the same GPUs.
        """
        gpus = set(self.readings)
        others = set(by_part) - {"all"}
        if not gpus & set(by_part) and len(others) == len(gpus) == self.expected:
            return [by_part[gpu] for gpu in sorted(others)]
        return [by_part.get(gpu, ()) for gpu in self.readings]

    def is_missing(self, figure: str) -> bool:
        """Return whether some GPU that publishes utilization does not publish this figure."""
        return any(evidence.peak(series) is None for series in self.parts(figure))

    def note(self, asked: AskedSeries, series: Series) -> None:
        """Add a series that was read: to that of the same GPU or, for a figure of EC2, of the same
        metric, period by period the higher reading; a metric of a job is kept by itself."""
        if asked.figure == WORK:
            self.jobs.append((f"{asked.namespace} {asked.metric}", series))
            return
        by_part = self.figures.setdefault(asked.figure, {})
        self._remember_index(asked.dimensions)
        part = self._gpu_of(asked.dimensions)
        if is_published_by(asked.figure, Publisher.EC2):
            part = asked.metric
        if is_published_by(asked.figure, Publisher.EC2_GPU):
            part = self._gpu_of_ec2(asked.dimensions)
        if asked.figure == "utilization":
            series = in_percent(series, self.request.policy.metrics)
            if self._only_shows_work(asked, part):
                self.aggregated = evidence.merged(self.aggregated or None, series)
                return
        by_part[part] = evidence.merged(by_part.get(part), series)

    def _only_shows_work(self, asked: AskedSeries, part: str) -> bool:
        """Return whether a series of utilization may show work, but no idleness. That is a series
        of another namespace, the aggregate of the instance if other series are read too, and any
        series that names no GPU if others name theirs. `part` is its GPU; `all` if it names none.
        """
        own_namespace = self.request.policy.metrics.namespace
        if asked.namespace not in ("", own_namespace):
            return True
        if asked.dimensions == self.aggregate and len(self.sets) > 1:
            return True
        # Low readings of a series without a GPU say nothing about a GPU that is silent.
        return part == "all" and evidence.has_gpu(self.sets, self.own_dimension)

    def _remember_index(self, dimensions: Dimensions) -> None:
        """Note the index of a GPU by its UUID, if these dimensions hold both."""
        label = evidence.gpu_label(dimensions, self.own_dimension)
        uuid = evidence.gpu_uuid(dimensions)
        if uuid is not None and label not in (uuid, "all"):
            self.index_by_uuid[uuid] = label

    def _gpu_of(self, dimensions: Dimensions) -> str:
        """Return the name of the GPU that these dimensions are about, such as `0`, by its index
        also where they hold its UUID; `all` for an aggregate. On an instance with one GPU, all
        dimensions are about that one."""
        label = evidence.gpu_label(dimensions, self.own_dimension)
        if self.expected == 1:
            # Whatever the dimensions are, they are about the only GPU.
            return next(iter(self.readings), label)
        return self.index_by_uuid.get(label, label)

    def _gpu_of_ec2(self, dimensions: Dimensions) -> str:
        """Return the name of the GPU that EC2's figure is about; `all` only for the whole instance.
        A series with further dimensions, whatever they are, is of some GPU, and confirms no
        other."""
        part = self._gpu_of(dimensions)
        if part != "all" or dimensions == self.aggregate:
            return part
        return " ".join(value for name, value in dimensions if name != "InstanceId")

    def is_silent(self) -> bool:
        """Return whether the instance's utilization was read without a problem, and none is
        published."""
        return self.problem is None and not self.count_reporting()

    def count_reporting(self) -> int:
        """Return how many GPUs, or aggregates, publish utilization.

        One GPU may publish under its index and under its UUID, so the two are not added up.
        """
        reporting = []
        for label, series in self.readings.items():
            if evidence.peak(series) is not None:
                reporting.append(label)
        if self.own_dimension:
            return len(reporting)
        indexes = sum(label.isdigit() for label in reporting)
        return max(indexes, len(reporting) - indexes)


class AskedSeries(NamedTuple):
    """One series to read for an instance."""

    pending: Pending
    figure: str
    metric: str
    dimensions: Dimensions
    statistic: str = "Maximum"
    namespace: str = ""
    """Empty for the policy's own."""


def choose_sets(pending: Pending, *, all_sets: bool) -> None:
    """Set the `sets` and the `source` of an instance, by which its utilization is read: the
    dimension sets that are known, or the aggregate. With `all_sets`, known sets are always used."""
    request = pending.request
    known_sets = pending.dimensions or ()
    has_gpus = evidence.has_gpu(known_sets, pending.own_dimension)
    reads_by_gpu = all_sets or request.per_gpu or request.source == MetricSource.PER_GPU
    # Known sets without a GPU are an aggregate under more dimensions than `InstanceId`: only a
    # search finds it.
    more_sets = [dimensions for dimensions in known_sets if dimensions != pending.aggregate]
    if not more_sets or (has_gpus and not reads_by_gpu):
        pending.sets = (pending.aggregate,)
        pending.source = MetricSource.AGGREGATE
        return
    pending.aggregated = pending.readings.get("all", ())
    if has_gpus:
        pending.sets = known_sets
        pending.source = MetricSource.PER_GPU
        return
    # The instance alone may show work that the sets with further dimensions do not.
    pending.sets = (*more_sets, pending.aggregate)
    pending.source = MetricSource.AGGREGATE


def found_sets(pending: Pending, listed: Sequence[Listed]) -> tuple[Dimensions, ...]:
    """Return the dimension sets that a search found, with more dimensions than `InstanceId`: those
    of GPUs, and those of no GPU, which may show work. Sets known before are kept unless the
    instance is silent. Empty if there are none."""
    known_sets = {series.dimensions for series in listed if len(series.dimensions) > 1}
    if not pending.is_silent():
        # CloudWatch lists the last three hours: a GPU that is silent for longer is not forgotten.
        known_sets.update(pending.dimensions or ())
    return tuple(sorted(known_sets))


def _sum(left: Series | None, right: Series | None) -> Series | None:
    """Return the sum of each period, in which a hole beside a reading counts as 0; a period is a
    hole if both are. If only one series was published, return that; `None` if neither was."""
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
