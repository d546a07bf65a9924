"""Which figure is published under which name, and how samples become calls of PutMetricData.

`GPU/EC2` holds exactly what the CloudWatch agent publishes, in its names, without units as it sends none;
`GPU/Custom` holds what it cannot. Every metric goes out twice: per GPU (InstanceId, InstanceType, index,
name, arch) and per instance (InstanceId alone), where one value per GPU makes the maximum the busiest GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_metrics_publisher.readings import Figure, Gpu, Sample

AGENT_NAMESPACE = "GPU/EC2"
CUSTOM_NAMESPACE = "GPU/Custom"

DATUMS_PER_CALL = 500
VALUES_PER_CALL = 6_000
"""CloudWatch takes 1,000 datums and 1 MB a call. These stay under 1 MB even in the wordy query protocol of
older botocore: about 550 bytes a datum and 90 a value with its count, before compression."""
VALUES_PER_DATUM = 150
"""CloudWatch's limit of distinct values in one datum."""


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
    Metric("custom", CUSTOM_NAMESPACE, "GPUUtilization", Figure.UTILIZATION, "Percent"),
    Metric("custom", CUSTOM_NAMESPACE, "GPUMemoryUtilization", Figure.MEMORY_UTILIZATION, "Percent"),
    Metric("custom", CUSTOM_NAMESPACE, "GPUTemperature", Figure.TEMPERATURE),
    Metric("custom", CUSTOM_NAMESPACE, "GPUPowerDraw", Figure.POWER_DRAW),
    Metric("health", CUSTOM_NAMESPACE, "GPUPowerLimit", Figure.POWER_LIMIT),
    Metric("health", CUSTOM_NAMESPACE, "GPUThermalThrottle", Figure.THERMAL_THROTTLE, "Percent"),
    Metric("health", CUSTOM_NAMESPACE, "GPUPowerThrottle", Figure.POWER_THROTTLE, "Percent"),
    Metric("health", CUSTOM_NAMESPACE, "GPUHardwareSlowdown", Figure.HARDWARE_SLOWDOWN, "Percent"),
    Metric("health", CUSTOM_NAMESPACE, "GPUEccCorrected", Figure.ECC_CORRECTED, "Count"),
    Metric("health", CUSTOM_NAMESPACE, "GPUEccUncorrected", Figure.ECC_UNCORRECTED, "Count"),
    Metric("health", CUSTOM_NAMESPACE, "GPUMemoryRepairPending", Figure.MEMORY_REPAIR_PENDING, "Count"),
    Metric("health", CUSTOM_NAMESPACE, "GPUMemoryRepairFailed", Figure.MEMORY_REPAIR_FAILED, "Count"),
    Metric("health", CUSTOM_NAMESPACE, "GPUProcesses", Figure.PROCESSES, "Count"),
    Metric("health", CUSTOM_NAMESPACE, "GPUMigEnabled", Figure.MIG_ENABLED, "Count"),
    Metric("health", CUSTOM_NAMESPACE, "GPULost", Figure.LOST, "Count"),
)
XID_METRIC = "GPUXidErrors"
"""Group `health`, unit Count: its sum is the number of Xid events; where there were any, also by `Xid`."""

GROUPS = ("agent", "custom", "health")


@dataclass(frozen=True)
class Host:
    """Whose metrics these are."""

    instance_id: str
    instance_type: str | None = None


@dataclass(frozen=True)
class Call:
    """One PutMetricData call as plain JSON data; `Timestamp` is in seconds since 1970."""

    namespace: str
    datums: Sequence[dict[str, Any]]


class Window:
    """The samples of one publishing interval, which CloudWatch shall see under one timestamp."""

    def __init__(self, start: int) -> None:
        self.start = start
        """Seconds since 1970, the beginning of the interval."""
        self._values: dict[Gpu, dict[Figure, Counter[float]]] = {}
        self._xids: dict[Gpu, Counter[int]] = {}

    def add(self, samples: Iterable[Sample]) -> None:
        """Takes in one reading of all GPUs."""
        for sample in samples:
            figures = self._values.setdefault(sample.gpu, {})
            for figure, value in sample.figures.items():
                figures.setdefault(figure, Counter())[round(value, 2)] += 1
            if sample.xids is not None:
                self._xids.setdefault(sample.gpu, Counter()).update(sample.xids)

    def calls(self, host: Host, groups: Iterable[str]) -> list[Call]:
        """Everything measured, as calls within CloudWatch's limits; none where nothing was measured."""
        chosen = frozenset(groups)
        datums: dict[str, list[dict[str, Any]]] = {AGENT_NAMESPACE: [], CUSTOM_NAMESPACE: []}
        for metric in METRICS:
            if metric.group in chosen:
                datums[metric.namespace] += self._datums(metric, host)
        if "health" in chosen:
            datums[CUSTOM_NAMESPACE] += self._xid_datums(host)
        return [call for namespace, found in datums.items() for call in _in_limits(namespace, found)]

    def _datums(self, metric: Metric, host: Host) -> Iterable[dict[str, Any]]:
        whole: Counter[float] = Counter()
        for gpu, figures in self._values.items():
            values = figures.get(metric.figure)
            if values:
                yield from self._split(metric.name, _gpu_dimensions(host, gpu), values, metric.unit)
                whole.update(values)
        if whole:
            yield from self._split(metric.name, {"InstanceId": host.instance_id}, whole, metric.unit)

    def _xid_datums(self, host: Host) -> Iterable[dict[str, Any]]:
        totals: Counter[float] = Counter()
        for gpu, xids in self._xids.items():
            total = float(sum(xids.values()))
            totals[total] += 1
            dimensions = _gpu_dimensions(host, gpu)
            yield from self._split(XID_METRIC, dimensions, Counter({total: 1}), "Count")
            for xid, times in sorted(xids.items()):
                one = Counter({float(times): 1})
                yield from self._split(XID_METRIC, {**dimensions, "Xid": str(xid)}, one, "Count")
        if totals:
            yield from self._split(XID_METRIC, {"InstanceId": host.instance_id}, totals, "Count")

    def _split(
        self, name: str, dimensions: dict[str, str], values: Counter[float], unit: str | None
    ) -> Iterable[dict[str, Any]]:
        pairs = sorted(values.items())
        for start in range(0, len(pairs), VALUES_PER_DATUM):
            part = pairs[start : start + VALUES_PER_DATUM]
            datum: dict[str, Any] = {
                "MetricName": name,
                "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
                "Timestamp": self.start,
                "Values": [value for value, _ in part],
                "Counts": [float(count) for _, count in part],
            }
            if unit is not None:
                datum["Unit"] = unit
            yield datum


def _in_limits(namespace: str, datums: Iterable[dict[str, Any]]) -> Iterable[Call]:
    part: list[dict[str, Any]] = []
    values = 0
    for datum in datums:
        if part and (len(part) == DATUMS_PER_CALL or values + len(datum["Values"]) > VALUES_PER_CALL):
            yield Call(namespace, part)
            part, values = [], 0
        part.append(datum)
        values += len(datum["Values"])
    if part:
        yield Call(namespace, part)


def _gpu_dimensions(host: Host, gpu: Gpu) -> dict[str, str]:
    dimensions = {"InstanceId": host.instance_id}
    if host.instance_type:
        dimensions["InstanceType"] = host.instance_type
    return {**dimensions, "index": str(gpu.index), "name": gpu.name, "arch": gpu.arch}
