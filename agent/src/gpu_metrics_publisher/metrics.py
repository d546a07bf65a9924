"""Names the published metrics, such as utilization and Xid errors, and makes calls of PutMetricData
from samples.

`GPU/EC2` holds what the CloudWatch agent publishes, under its names and without units, as the agent
sends none; and, named alike, the work of the video encoder and decoder, which that agent cannot
publish on Linux. `GPU/Custom` holds what else it cannot publish. Every metric is sent twice:
per GPU (InstanceId, InstanceType, index, name, arch) and per instance (InstanceId alone).

As with the agent, each GPU counts as one sample an interval, however often it was read. So the
sample count of an instance is its number of GPUs, the mean is the mean over GPUs, and the maximum
is the busiest moment of the busiest GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

from gpu_metrics_publisher.readings import Figure, Gpu, Sample

AGENT_NAMESPACE = "GPU/EC2"
CUSTOM_NAMESPACE = "GPU/Custom"
BOUND_NAMESPACE = "GPU/EC2/"
"""The sink completes a namespace that ends in a slash with the `aws:userid` of its credentials."""

DATUMS_PER_CALL = 500
"""CloudWatch takes 1,000 datums and 1 MB a call. 500 stay under 1 MB even uncompressed in the query
protocol of older botocore."""


@dataclass(frozen=True)
class Metric:
    """One published metric; `group` is what the user may switch off."""

    group: str
    namespace: str
    name: str
    figure: Figure
    unit: str | None = None
    only_work: bool = False
    """True if zeros are not sent, so that a GPU without such work costs nothing."""


METRICS: tuple[Metric, ...] = (
    Metric("agent", AGENT_NAMESPACE, "nvidia_smi_utilization_gpu", Figure.UTILIZATION),
    Metric("agent", AGENT_NAMESPACE, "nvidia_smi_utilization_memory", Figure.MEMORY_UTILIZATION),
    Metric("agent", AGENT_NAMESPACE, "nvidia_smi_memory_used", Figure.MEMORY_USED),
    Metric("agent", AGENT_NAMESPACE, "nvidia_smi_memory_total", Figure.MEMORY_TOTAL),
    Metric("agent", AGENT_NAMESPACE, "nvidia_smi_memory_free", Figure.MEMORY_FREE),
    Metric("agent", AGENT_NAMESPACE, "nvidia_smi_temperature_gpu", Figure.TEMPERATURE),
    Metric("agent", AGENT_NAMESPACE, "nvidia_smi_power_draw", Figure.POWER_DRAW),
    Metric("agent", AGENT_NAMESPACE, "nvidia_smi_clocks_current_sm", Figure.SM_CLOCK),
    Metric("agent", AGENT_NAMESPACE, "nvidia_smi_clocks_current_memory", Figure.MEMORY_CLOCK),
    Metric(
        "agent",
        AGENT_NAMESPACE,
        "nvidia_smi_utilization_encoder",
        Figure.ENCODER_UTILIZATION,
        only_work=True,
    ),
    Metric(
        "agent",
        AGENT_NAMESPACE,
        "nvidia_smi_utilization_decoder",
        Figure.DECODER_UTILIZATION,
        only_work=True,
    ),
    Metric("bound", BOUND_NAMESPACE, "nvidia_smi_utilization_gpu", Figure.UTILIZATION),
    Metric("custom", CUSTOM_NAMESPACE, "GPUUtilization", Figure.UTILIZATION, "Percent"),
    Metric(
        "custom", CUSTOM_NAMESPACE, "GPUMemoryUtilization", Figure.MEMORY_UTILIZATION, "Percent"
    ),
    Metric("custom", CUSTOM_NAMESPACE, "GPUTemperature", Figure.TEMPERATURE),
    Metric("custom", CUSTOM_NAMESPACE, "GPUPowerDraw", Figure.POWER_DRAW),
    Metric("health", CUSTOM_NAMESPACE, "GPUPowerLimit", Figure.POWER_LIMIT),
    Metric("health", CUSTOM_NAMESPACE, "GPUThermalThrottle", Figure.THERMAL_THROTTLE, "Percent"),
    Metric("health", CUSTOM_NAMESPACE, "GPUPowerThrottle", Figure.POWER_THROTTLE, "Percent"),
    Metric("health", CUSTOM_NAMESPACE, "GPUHardwareSlowdown", Figure.HARDWARE_SLOWDOWN, "Percent"),
    Metric("health", CUSTOM_NAMESPACE, "GPUEccCorrected", Figure.ECC_CORRECTED, "Count"),
    Metric("health", CUSTOM_NAMESPACE, "GPUEccUncorrected", Figure.ECC_UNCORRECTED, "Count"),
    Metric(
        "health", CUSTOM_NAMESPACE, "GPUMemoryRepairPending", Figure.MEMORY_REPAIR_PENDING, "Count"
    ),
    Metric(
        "health", CUSTOM_NAMESPACE, "GPUMemoryRepairFailed", Figure.MEMORY_REPAIR_FAILED, "Count"
    ),
    Metric("health", CUSTOM_NAMESPACE, "GPUProcesses", Figure.PROCESSES, "Count"),
    Metric("health", CUSTOM_NAMESPACE, "GPUMigEnabled", Figure.MIG_ENABLED, "Count"),
    Metric("health", CUSTOM_NAMESPACE, "GPULost", Figure.LOST, "Count"),
)
XID_METRIC = "GPUXidErrors"
"""Group `health`, unit Count: its sum is the number of Xid events. If there were any, it is
published by `Xid`, too."""

GROUPS = ("agent", "custom", "health")
BOUND = "bound"
"""A group that is published only on request: one metric an instance, in a namespace of its own."""


@dataclass(frozen=True)
class Host:
    """The host that the metrics belong to."""

    instance_id: str
    instance_type: str | None = None


@dataclass(frozen=True)
class Call:
    """One PutMetricData call as plain JSON data; `Timestamp` is in seconds since 1970."""

    namespace: str
    datums: Sequence[dict[str, Any]]


@dataclass
class _Summary:
    """All readings of one figure of one GPU in an interval."""

    readings: int
    total: float
    low: float
    high: float

    def add(self, value: float) -> None:
        self.readings += 1
        self.total += value
        self.low = min(self.low, value)
        self.high = max(self.high, value)

    @property
    def mean(self) -> float:
        return round(self.total / self.readings, 3)


class Window:
    """The samples of one publishing interval. CloudWatch gets them under one timestamp."""

    def __init__(self, start: int) -> None:
        self.start = start
        """The start of the interval, in seconds since 1970."""
        self._figures: dict[Gpu, dict[Figure, _Summary]] = {}
        self._xids: dict[Gpu, Counter[int]] = {}

    def add(self, samples: Iterable[Sample]) -> None:
        """Add one reading of all GPUs."""
        for sample in samples:
            summaries = self._figures.setdefault(sample.gpu, {})
            for figure, exact in sample.figures.items():
                # NVML has no more decimals. With all values rounded alike, a rounded mean stays
                # between the extremes; CloudWatch refuses statistics that contradict each other.
                value = round(exact, 3)
                if figure in summaries:
                    summaries[figure].add(value)
                else:
                    summaries[figure] = _Summary(1, value, value, value)
            if sample.xids is not None:
                self._xids.setdefault(sample.gpu, Counter()).update(sample.xids)

    def calls(self, host: Host, groups: Iterable[str]) -> list[Call]:
        """Return all that was measured as calls within CloudWatch's limits; none if nothing was."""
        chosen = frozenset(groups)
        datums_by_namespace: dict[str, list[dict[str, Any]]] = {
            AGENT_NAMESPACE: [],
            CUSTOM_NAMESPACE: [],
            BOUND_NAMESPACE: [],
        }
        for metric in METRICS:
            if metric.group in chosen:
                datums_by_namespace[metric.namespace] += self._datums(metric, host)
        if "health" in chosen:
            datums_by_namespace[CUSTOM_NAMESPACE] += self._xid_datums(host)
        calls: list[Call] = []
        for namespace, datums in datums_by_namespace.items():
            starts = range(0, len(datums), DATUMS_PER_CALL)
            calls += [Call(namespace, datums[start : start + DATUMS_PER_CALL]) for start in starts]
        return calls

    def _datums(self, metric: Metric, host: Host) -> Iterable[dict[str, Any]]:
        """Yield a metric for each GPU, unless it is bound, and for the instance."""
        measured: list[_Summary] = []
        for gpu, summaries in self._figures.items():
            summary = summaries.get(metric.figure)
            if summary is None or (metric.only_work and summary.high == 0):
                continue
            measured.append(summary)
            if metric.group != BOUND:
                yield self._datum(metric.name, _gpu_dimensions(host, gpu), [summary], metric.unit)
        if measured:
            instance = {"InstanceId": host.instance_id}
            yield self._datum(metric.name, instance, measured, metric.unit)

    def _xid_datums(self, host: Host) -> Iterable[dict[str, Any]]:
        """Yield the number of Xid events for each GPU, also by Xid, and for the instance."""
        totals: list[_Summary] = []
        for gpu, xids in self._xids.items():
            dimensions = _gpu_dimensions(host, gpu)
            total = _single(sum(xids.values()))
            totals.append(total)
            yield self._datum(XID_METRIC, dimensions, [total], "Count")
            for xid, times in sorted(xids.items()):
                xid_dimensions = {**dimensions, "Xid": str(xid)}
                yield self._datum(XID_METRIC, xid_dimensions, [_single(times)], "Count")
        if totals:
            yield self._datum(XID_METRIC, {"InstanceId": host.instance_id}, totals, "Count")

    def _datum(
        self, name: str, dimensions: dict[str, str], summaries: Sequence[_Summary], unit: str | None
    ) -> dict[str, Any]:
        """Return a datum with one sample for each summary, that is for each GPU."""
        statistics = {
            "SampleCount": float(len(summaries)),
            "Sum": round(fsum(summary.mean for summary in summaries), 3),
            "Minimum": min(summary.low for summary in summaries),
            "Maximum": max(summary.high for summary in summaries),
        }
        datum: dict[str, Any] = {
            "MetricName": name,
            "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
            "Timestamp": self.start,
            "StatisticValues": statistics,
        }
        if unit is not None:
            datum["Unit"] = unit
        return datum


def _single(value: float) -> _Summary:
    return _Summary(1, float(value), float(value), float(value))


def _gpu_dimensions(host: Host, gpu: Gpu) -> dict[str, str]:
    dimensions = {"InstanceId": host.instance_id}
    if host.instance_type:
        dimensions["InstanceType"] = host.instance_type
    return {**dimensions, "index": str(gpu.index), "name": gpu.name, "arch": gpu.arch}
