"""Which figure is published under which name, and how samples become calls of PutMetricData.

`GPU/EC2` holds exactly what the CloudWatch agent publishes, in its names, without units as it sends
none; `GPU/Custom` holds what it cannot. Every metric goes out twice: per GPU (InstanceId,
InstanceType, index, name, arch) and per instance (InstanceId alone). Each GPU counts as one sample
per interval, as with the agent, however often it was read: the aggregate's sample count tells how
many GPUs are in it, its mean is the mean over GPUs, and its maximum is the busiest moment of the
busiest GPU.
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
"""The sink completes what ends in a slash by the `aws:userid` of its credentials."""

DATUMS_PER_CALL = 500
"""CloudWatch takes 1,000 datums and 1 MB a call; 500 stay under 1 MB even in the wordy query
protocol of older botocore, before compression."""


@dataclass(frozen=True)
class Metric:
    """One published metric; `group` is what the user may switch off."""

    group: str
    namespace: str
    name: str
    figure: Figure
    unit: str | None = None


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
"""Group `health`, unit Count: its sum is the number of Xid events; where there were any, also by
`Xid`."""

GROUPS = ("agent", "custom", "health")
BOUND = "bound"
"""A group that is published only where it is asked for: one metric an instance, in a namespace of
its own."""


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
    """The samples of one publishing interval, which CloudWatch shall see under one timestamp."""

    def __init__(self, start: int) -> None:
        self.start = start
        """Seconds since 1970, the beginning of the interval."""
        self._figures: dict[Gpu, dict[Figure, _Summary]] = {}
        self._xids: dict[Gpu, Counter[int]] = {}

    def add(self, samples: Iterable[Sample]) -> None:
        """Takes in one reading of all GPUs."""
        for sample in samples:
            summaries = self._figures.setdefault(sample.gpu, {})
            for figure, exact in sample.figures.items():
                # NVML knows no more decimals, and on one grid a rounded mean stays between the
                # extremes: CloudWatch refuses statistics that contradict each other.
                value = round(exact, 3)
                if figure in summaries:
                    summaries[figure].add(value)
                else:
                    summaries[figure] = _Summary(1, value, value, value)
            if sample.xids is not None:
                self._xids.setdefault(sample.gpu, Counter()).update(sample.xids)

    def calls(self, host: Host, groups: Iterable[str]) -> list[Call]:
        """Everything measured, as calls within CloudWatch's limits; none where nothing was
        measured."""
        chosen = frozenset(groups)
        datums: dict[str, list[dict[str, Any]]] = {
            AGENT_NAMESPACE: [],
            CUSTOM_NAMESPACE: [],
            BOUND_NAMESPACE: [],
        }
        for metric in METRICS:
            if metric.group in chosen:
                datums[metric.namespace] += self._datums(metric, host)
        if "health" in chosen:
            datums[CUSTOM_NAMESPACE] += self._xid_datums(host)
        return [
            Call(namespace, found[start : start + DATUMS_PER_CALL])
            for namespace, found in datums.items()
            for start in range(0, len(found), DATUMS_PER_CALL)
        ]

    def _datums(self, metric: Metric, host: Host) -> Iterable[dict[str, Any]]:
        measured = {
            gpu: summaries[metric.figure]
            for gpu, summaries in self._figures.items()
            if metric.figure in summaries
        }
        for gpu, summary in measured.items():
            if metric.group != BOUND:
                yield self._datum(metric.name, _gpu_dimensions(host, gpu), [summary], metric.unit)
        if measured:
            whole = list(measured.values())
            yield self._datum(metric.name, {"InstanceId": host.instance_id}, whole, metric.unit)

    def _xid_datums(self, host: Host) -> Iterable[dict[str, Any]]:
        whole = []
        for gpu, xids in self._xids.items():
            dimensions = _gpu_dimensions(host, gpu)
            whole.append(_once(sum(xids.values())))
            yield self._datum(XID_METRIC, dimensions, whole[-1:], "Count")
            for xid, times in sorted(xids.items()):
                yield self._datum(
                    XID_METRIC, {**dimensions, "Xid": str(xid)}, [_once(times)], "Count"
                )
        if whole:
            yield self._datum(XID_METRIC, {"InstanceId": host.instance_id}, whole, "Count")

    def _datum(
        self, name: str, dimensions: dict[str, str], summaries: Sequence[_Summary], unit: str | None
    ) -> dict[str, Any]:
        """One sample per summary, that is per GPU."""
        datum: dict[str, Any] = {
            "MetricName": name,
            "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
            "Timestamp": self.start,
            "StatisticValues": {
                "SampleCount": float(len(summaries)),
                "Sum": round(fsum(summary.mean for summary in summaries), 3),
                "Minimum": min(summary.low for summary in summaries),
                "Maximum": max(summary.high for summary in summaries),
            },
        }
        if unit is not None:
            datum["Unit"] = unit
        return datum


def _once(value: float) -> _Summary:
    return _Summary(1, float(value), float(value), float(value))


def _gpu_dimensions(host: Host, gpu: Gpu) -> dict[str, str]:
    dimensions = {"InstanceId": host.instance_id}
    if host.instance_type:
        dimensions["InstanceType"] = host.instance_type
    return {**dimensions, "index": str(gpu.index), "name": gpu.name, "arch": gpu.arch}
