"""Read what EC2 publishes beside the accelerators: CPU, network, EBS, and its own power of GPUs.

This module must not judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from governor.evidence.model import Series, Window
from governor.evidence.ports import Listed, MetricAnswer, MetricQuery
from governor.evidence.rules import series as evidence
from governor.evidence.rules.figures import EC2_NAMESPACE
from governor.scan.kind import Place
from governor.scan.kinds.ec2_instance import rules
from governor.scan.kinds.ec2_instance.model import Beside, Host

_PERIOD = timedelta(minutes=5)
"""Basic monitoring publishes one value in five minutes."""
POWER_METRIC = "GPUPowerUtilization"


class _Figure(NamedTuple):
    """The metrics of EC2 that add up to one figure."""

    metrics: tuple[str, ...]
    statistic: str


_FIGURES: Mapping[str, _Figure] = {
    rules.CPU: _Figure(("CPUUtilization",), "Average"),
    rules.NETWORK: _Figure(("NetworkIn", "NetworkOut"), "Sum"),
    rules.DISK: _Figure(("EBSReadBytes", "EBSWriteBytes"), "Sum"),
    rules.DISK_OPERATIONS: _Figure(("EBSReadOps", "EBSWriteOps"), "Sum"),
}


@dataclass(frozen=True, slots=True)
class ReadBeside:
    """Reads the figures beside the accelerators of instances of one place, over one window."""

    place: Place
    length: timedelta
    power: Mapping[str, Sequence[Listed]]
    """EC2's own power of GPUs, by instance id, as CloudWatch lists it."""

    def __call__(self, hosts: Sequence[Host]) -> dict[str, Beside]:
        """Return the figures by instance id. A read that fails is a problem of its instance."""
        policy = self.place.policy
        window = evidence.window_before(self.place.now, self.length, _PERIOD, policy.lag)
        queries: list[MetricQuery] = []
        for host in hosts:
            queries += self._queries(host.resource_id)
        answer = self.place.metrics.read(self.place.target, queries, window)
        return {host.resource_id: self._beside(host.resource_id, answer, window) for host in hosts}

    def _queries(self, instance_id: str) -> Iterator[MetricQuery]:
        """Yield the queries for the figures of one instance, and for the power of each of its GPUs
        that CloudWatch lists."""
        own = evidence.whole_instance(instance_id)
        for figure in _FIGURES.values():
            for metric in figure.metrics:
                key = _key(instance_id, metric)
                yield MetricQuery(key, EC2_NAMESPACE, metric, own, figure.statistic)
        for number, listed in enumerate(self.power.get(instance_id, ())):
            key = _key(instance_id, f"{POWER_METRIC}{number}")
            yield MetricQuery(key, EC2_NAMESPACE, POWER_METRIC, listed.dimensions, "Maximum")

    def _beside(self, instance_id: str, answer: MetricAnswer, window: Window) -> Beside:
        """Return the highest reading of each figure of one instance, and which figures have too few
        readings to prove idleness. A figure without any reading has no highest one. A figure that
        CloudWatch counts is given per second."""
        peaks: dict[str, float] = {}
        missing: list[str] = []
        for name, figure in _FIGURES.items():
            parts = [answer.series.get(_key(instance_id, metric), ()) for metric in figure.metrics]
            peak = evidence.peak(_added(parts))
            if peak is not None:
                seconds = window.period.total_seconds() if figure.statistic == "Sum" else 1.0
                peaks[name] = peak / seconds
            if not self._are_whole(parts, window):
                missing.append(name)
        gpus = self._power_of_gpus(instance_id, answer)
        if gpus:
            peak = max((evidence.peak(gpu) or 0.0 for gpu in gpus), default=0.0)
            peaks[rules.GPU_POWER] = peak
            if not self._are_whole(gpus, window):
                missing.append(rules.GPU_POWER)
        return Beside(window, peaks, tuple(missing), self._problem(instance_id, answer))

    def _power_of_gpus(self, instance_id: str, answer: MetricAnswer) -> list[Series]:
        """Return the power of each GPU that CloudWatch lists; empty if it lists none."""
        count = len(self.power.get(instance_id, ()))
        keys = [_key(instance_id, f"{POWER_METRIC}{number}") for number in range(count)]
        return [answer.series.get(key, ()) for key in keys]

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


def _key(instance_id: str, metric: str) -> str:
    """Return the key by which the answer names the query for a metric of an instance."""
    return f"{instance_id} {metric}"


def _added(parts: Sequence[Series]) -> Series:
    """Return the sum of each period, of the parts that have a reading in it: what is there may show
    work although a part is missing. A period without any reading is a hole."""
    known_parts = [part for part in parts if part]
    total: list[float | None] = []
    for values in zip(*known_parts, strict=True):
        known = [value for value in values if value is not None and evidence.is_reading(value)]
        total.append(sum(known) if known else None)
    return tuple(total)
