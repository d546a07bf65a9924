"""Reads what EC2 publishes beside the accelerators' metrics: CPU, network, EBS, and its own power
of GPUs.

`rules.figures_beside` says which figures that are. This module must not judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain

from governor.core.catalog import shape_of
from governor.evidence.model import Series, Window
from governor.evidence.ports import Listed, MetricAnswer, MetricQuery
from governor.evidence.rules import series as evidence
from governor.evidence.rules.figures import EC2_NAMESPACE, factor_of
from governor.scan.kind import Place
from governor.scan.kinds.ec2_instance.model import Beside, Host
from governor.scan.kinds.ec2_instance.rules import FigureBeside

_PERIOD = timedelta(minutes=5)
"""Basic monitoring publishes one value in five minutes."""


@dataclass(frozen=True, slots=True)
class ReadBeside:
    """Reads the figures beside the accelerators of instances of one place, over one window."""

    place: Place
    length: timedelta
    figures: Mapping[str, FigureBeside]
    """The figures to read, by name."""
    listed: Mapping[str, Mapping[str, Sequence[Listed]]]
    """The series that only a listing shows, by metric and instance id."""

    def __call__(self, hosts: Sequence[Host]) -> dict[str, Beside]:
        """Return the figures by instance id. A read that fails is a problem of its instance."""
        policy = self.place.policy
        window = evidence.window_before(self.place.now, self.length, _PERIOD, policy.lag)
        queries: list[MetricQuery] = []
        for host in hosts:
            queries += self._queries(host.resource_id)
        answer = self.place.metrics.read(self.place.target, queries, window)
        return {host.resource_id: self._beside(host, answer, window) for host in hosts}

    def _queries(self, instance_id: str) -> Sequence[MetricQuery]:
        """Return the queries for the figures of one instance, each series once: two figures may
        come from one, such as CPU in percent and in vCPUs."""
        query_by_key: dict[str, MetricQuery] = {}
        for figure in self.figures.values():
            for query in self._queries_of(figure, instance_id):
                query_by_key[query.key] = query
        return list(query_by_key.values())

    def _queries_of(self, figure: FigureBeside, instance_id: str) -> list[MetricQuery]:
        """Return the queries for a figure of one instance: one for each metric, or for each series
        that CloudWatch lists. The list is empty if it lists none."""
        queries: list[MetricQuery] = []
        for metric in figure.metrics:
            if figure.is_listed:
                all_listed = self.listed[metric].get(instance_id, ())
                dimension_sets = [listed.dimensions for listed in all_listed]
            else:
                dimension_sets = [evidence.whole_instance(instance_id)]
            for number, dimensions in enumerate(dimension_sets):
                key = f"{instance_id} {metric} {figure.statistic} {number}"
                query = MetricQuery(key, EC2_NAMESPACE, metric, dimensions, figure.statistic)
                queries.append(query)
        return queries

    def _beside(self, host: Host, answer: MetricAnswer, window: Window) -> Beside:
        """Return the highest value of each figure of one instance, and which figures have too few
        readings to prove idleness. A figure without any reading has no highest value. One that its
        type does not publish, or whose readings mean nothing for an unknown type, is left out."""
        peaks: dict[str, float] = {}
        missing: list[str] = []
        shape = shape_of(host.instance.instance_type)
        for name, figure in self.figures.items():
            factor = factor_of(figure.scale, shape, window.period.total_seconds())
            queries = self._queries_of(figure, host.resource_id)
            if factor is None or not queries:
                continue
            parts = [answer.series.get(query.key, ()) for query in queries]
            peak = _peak(figure, parts)
            if peak is not None:
                peaks[name] = round(peak * factor, 3)
            if not self._are_whole(parts, window):
                missing.append(name)
        problem = self._problem(host.resource_id, answer)
        return Beside(window, peaks, tuple(missing), problem)

    def _problem(self, instance_id: str, answer: MetricAnswer) -> str:
        """Return why a figure of an instance could not be read; empty if all were."""
        for query in self._queries(instance_id):
            if query.key in answer.problems:
                return answer.problems[query.key]
        return ""

    def _are_whole(self, parts: Sequence[Series], window: Window) -> bool:
        """Return whether each series has enough readings, an end, and no long hole."""
        least_percent = self.place.policy.idle.minimum_coverage_percent
        for series in parts:
            percent = evidence.coverage_percent(evidence.padded(series, window))
            if percent < least_percent:
                return False
            if evidence.longest_hole(series, window) > evidence.LONGEST_HOLE:
                return False
        return True


def _peak(figure: FigureBeside, parts: Sequence[Series]) -> float | None:
    """Return the highest reading: of any GPU, or of the sum of the metrics. Return `None` if there
    is none."""
    if figure.is_listed:
        return evidence.peak(tuple(chain.from_iterable(parts)))
    return evidence.peak(_added(parts))


def _added(parts: Sequence[Series]) -> Series:
    """Return the sum of each period, of the parts that have a reading in it: what is there may show
    work although a part is missing. A period without any reading is a hole."""
    known_parts = [part for part in parts if part]
    total: list[float | None] = []
    for values in zip(*known_parts, strict=True):
        known = [value for value in values if value is not None and evidence.is_reading(value)]
        total.append(sum(known) if known else None)
    return tuple(total)
