"""Reads the day before an episode, for the picture on the approval page."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from governor.domain.evidence import GpuReadings, Series, Window, is_reading
from governor.domain.history import LENGTH, SHORTEST_PERIOD, History
from governor.domain.instance import Instance
from governor.domain.policy.policy import Policy
from governor.domain.units import UtcDatetime
from governor.ports import Catalogue, MetricAnswer, MetricQuery, MetricReader
from governor.usecases.evidence.gather_evidence import EvidenceRequest, GatherEvidence
from governor.usecases.evidence.gpu_series import Dimensions

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadHistory:
    """A search and two reads for one instance; never used in a loop over a fleet."""

    gather: GatherEvidence
    metrics: MetricReader
    catalogue: Catalogue

    def __call__(self, instance: Instance, policy: Policy, now: UtcDatetime) -> History | None:
        """The last 24 hours, or `None` when they could not be read.

        Nothing is decided by it, so a failed read costs a picture and holds up no question.
        """
        seconds = int(max(policy.period, SHORTEST_PERIOD).total_seconds())
        # Utilization alone is read; no other setting has a say in it.
        names = Policy(metrics=replace(policy.metrics, period_seconds=seconds))
        request = EvidenceRequest(instance=instance, policy=names, per_gpu=True, length=LENGTH)
        gathered = self.gather(instance.target, [request], now)[instance.instance_id]
        evidence = gathered.evidence
        if evidence.read_problem is not None:
            return self._unreadable(instance, evidence.read_problem)
        sets = gathered.dimensions or ((("InstanceId", instance.instance_id),),)
        answer = self._figures(instance, policy, sets, evidence.window)
        if answer.problems:
            return self._unreadable(instance, next(iter(answer.problems.values())))
        shape = self.catalogue.shape(instance.instance_type)
        return History(
            window=evidence.window,
            gpus=tuple(GpuReadings(gpu.gpu, gpu.utilization) for gpu in evidence.gpus),
            memory_percent=_percent(answer, "m", shape.memory_mib_each if shape else None),
            power_percent=_percent(answer, "p", shape.board_power_watts if shape else None),
        )

    def _figures(
        self, instance: Instance, policy: Policy, sets: Sequence[Dimensions], window: Window
    ) -> MetricAnswer:
        names = policy.metrics
        queries = [
            MetricQuery(f"{letter}{number}", names.namespace, metric, dimensions, "Maximum")
            for number, dimensions in enumerate(sets)
            for letter, metric in (("m", names.memory_used), ("p", names.power_draw))
        ]
        return self.metrics.read(instance.target, queries, window)

    @staticmethod
    def _unreadable(instance: Instance, problem: str) -> None:
        _log.warning("the last day of %s could not be read: %s", instance.instance_id, problem)


def _percent(answer: MetricAnswer, letter: str, whole: int | None) -> Series:
    """Per period the highest of all GPUs, in percent of `whole`; empty where that is not known."""
    if not whole:
        return ()
    found = [series for key, series in answer.series.items() if key.startswith(letter)]
    highest = []
    for values in zip(*found, strict=True):
        readings = [value for value in values if value is not None and is_reading(value)]
        highest.append(round(100.0 * max(readings) / whole, 1) if readings else None)
    return tuple(highest)
