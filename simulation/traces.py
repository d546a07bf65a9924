"""Trace files as recordings: what other people's clusters did, under this project's policies.

Traces hold GPU utilization, some the share of GPU memory, and nothing else: a policy that requires
CPU or network is replayed without that requirement. This module does not know file formats:
`evaluation.traces` reads the files.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from evaluation.bins import BIN_SECONDS, holes
from evaluation.traces import Trace, TraceError, read_directory
from governor.core.instance import Instance, Shape, Target
from governor.episode.model.plan import Price
from governor.evidence.model import MetricSource, Window
from governor.evidence.rules.series import Dimensions
from governor.policy.model.judging import Metrics
from governor.policy.model.policy import AppliedPolicy
from governor.policy.ports import Policies
from simulation.recording import PERIOD, Figures, Recording, SeriesKey, highest, replayed_figures


def read_traces(path: Path, metrics: Metrics, warn: Callable[[str], None]) -> list[Recording]:
    """Return all instances of the files: a family is their account, `trace-8-gpu` their type.

    A policy may name such types in `prices.usd_per_hour`; other types are unpriced.

    Args:
        path: a trace file, or a directory of them.
        metrics: names under which the utilization is offered.
        warn: gets what was left out or shortened.

    Raises:
        TraceError: the files are unusable, there are none, or nothing is measured in them.
    """
    recordings = []
    for trace in read_directory(path, warn):
        recording = as_recording(trace, metrics)
        if recording is not None:
            recordings.append(recording)
    if not recordings:
        raise TraceError(
            f"no rows in {path} that measure 5 minutes or more: there is nothing to replay"
        )
    return recordings


def as_recording(trace: Trace, metrics: Metrics) -> Recording | None:
    """Return the recording of one instance; `None` if nothing was measured."""
    if not trace.length:
        return None
    count = len(trace.gpus)
    bins = trace.length
    start = datetime.fromtimestamp(trace.first_bin * BIN_SECONDS, tz=UTC)
    instance_type = f"trace-{count}-gpu"
    instance = Instance(
        target=Target(trace.family, "traces"),
        instance_id=f"{trace.family}/{trace.instance}",
        instance_type=instance_type,
        state="running",
        launch_time=start,
        tags={"Owner": trace.family, "Project": trace.family},
    )
    sets: tuple[Dimensions, ...] = tuple(
        (("InstanceId", instance.instance_id), ("index", str(gpu))) for gpu in range(count)
    )
    series: dict[SeriesKey, array[float]] = {}
    gpus = [_whole_below_1(values) for values in trace.gpus]
    for dimensions, values in zip(sets, gpus, strict=True):
        series[metrics.utilization, dimensions, "Maximum"] = values
    memory_mib_each = None
    if trace.memory:
        # Only shares of memory are known, as if every GPU had 100 MiB.
        memory_mib_each = 100
        for dimensions, values in zip(sets, trace.memory, strict=True):
            series[metrics.memory_used, dimensions, "Maximum"] = values
    return Recording(
        instance=instance,
        shape=Shape(instance_type, "unknown", count, memory_mib_each=memory_mib_each),
        span=Window(start, start + bins * PERIOD, PERIOD),
        source=MetricSource.PER_GPU,
        sets=sets,
        series=series,
        figures=Figures(
            utilization=highest(gpus, bins),
            # Traces hold no other figure.
            by_name={
                **{figure: holes(bins) for figure in replayed_figures()},
                "memory": highest(trace.memory, bins),
            },
        ),
        price=Price(None, "traces name no price"),
    )


def _whole_below_1(utilization: array[float]) -> array[float]:
    """Return the utilization with percentages below 1 as whole ones, as a driver gives them.

    A trace is in percent and holds no power. The product would take such a fraction for a share
    from 0 to 1, and could not tell.
    """
    return array("d", [float(round(value)) if 0 < value < 1 else value for value in utilization])


@dataclass(frozen=True, slots=True)
class UtilizationOnly:
    """The port `Policies`: the same policies, without requirements that traces cannot meet."""

    policies: Policies

    def base(self) -> AppliedPolicy:
        """Return the base without required figures."""
        return _without_requirements(self.policies.base())

    def applied_to(self, instance: Instance) -> AppliedPolicy:
        """Return the policy of an instance without required figures."""
        return _without_requirements(self.policies.applied_to(instance))


def _without_requirements(applied: AppliedPolicy) -> AppliedPolicy:
    policy = applied.policy
    return replace(applied, policy=replace(policy, vetoes=replace(policy.vetoes, required=())))
