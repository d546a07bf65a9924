"""A small fleet in memory whose GPUs publish what the CloudWatch agent and `agent/` publish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from governor.alerts.model import Alert
from governor.health.check_health import CheckHealth, HealthSummary
from governor.health.read_health import HealthReading, HealthRequest, ReadHealth
from governor.policy.model.notices import Health
from governor.policy.model.policy import Policy
from tests.builders import NOW, TARGET, make_instance
from tests.twins import (
    FakeClock,
    MemoryEc2,
    MemoryEventLog,
    MemoryMetrics,
    MemoryStateTable,
    RecordingAnnouncer,
    StaticPolicies,
)

AGENT = {
    "temperature_celsius": "nvidia_smi_temperature_gpu",
    "utilization": "nvidia_smi_utilization_gpu",
    "memory_utilization": "nvidia_smi_utilization_memory",
}
HARDWARE = {
    "lost": "GPULost",
    "ecc_uncorrected": "GPUEccUncorrected",
    "repair_pending": "GPUMemoryRepairPending",
    "repair_failed": "GPUMemoryRepairFailed",
    "thermal_throttle": "GPUThermalThrottle",
    "hardware_slowdown": "GPUHardwareSlowdown",
    "xids": "GPUXidErrors",
}
BINS = 18
"""Bins of a window of 90 minutes."""
Values = Sequence[float | None]


def flat(value: float) -> tuple[float, ...]:
    """The same in every period."""
    return (value,) * BINS


SOUND: Mapping[str, Values] = {
    "temperature_celsius": flat(60),
    "utilization": flat(0),
    "memory_utilization": flat(0),
    **dict.fromkeys(HARDWARE, flat(0)),
}


def policy_with(**health: Any) -> Policy:
    """An hourly check with these settings of health."""
    return Policy(health=Health(**{"check_every_minutes": 60, **health}))


@dataclass
class HealthWorld:
    """Instances with one series a figure and GPU and, unless told otherwise, the aggregate over
    them."""

    policy: Policy = field(default_factory=policy_with)

    def __post_init__(self) -> None:
        self.clock = FakeClock(NOW)
        self.ec2, self.metrics, self.log = MemoryEc2(), MemoryMetrics(), MemoryEventLog()
        self.state = MemoryStateTable()
        self.announcer = RecordingAnnouncer()
        self.policies = StaticPolicies(self.policy)
        self.read_health = ReadHealth(self.metrics)
        self.check_health = CheckHealth(
            clock=self.clock,
            policies=self.policies,
            instances=self.ec2,
            read=self.read_health,
            claim_store=self.log,
            finding_store=self.log,
            failure_store=self.state,
            announcer=self.announcer,
        )

    def add(self, number: int, gpus: int = 1, *, owner: str = "ada", **publish: Any) -> str:
        """An instance with so many sound and idle GPUs."""
        instance_id = f"i-{number:017x}"
        tags = {"Purpose": "GPU-Workload", "Name": f"node-{number}", "Owner": owner}
        self.ec2.add(make_instance(instance_id=instance_id, tags=tags))
        self.publish(instance_id, [{}] * gpus, **publish)
        return instance_id

    def publish(
        self,
        instance_id: str,
        gpus: Sequence[Mapping[str, Values]],
        *,
        aggregate: bool = True,
        singly: bool = True,
        hardware: bool = True,
    ) -> None:
        """Publish readings of every GPU over the window; a figure that is not named is that of a
        sound one."""
        names = {**AGENT, **(HARDWARE if hardware else {})}
        for figure, metric in names.items():
            all_of_it = [gpu.get(figure, SOUND[figure]) for gpu in gpus]
            for index, values in enumerate(all_of_it):
                if singly and any(value is not None for value in values):
                    dimensions = {"InstanceId": instance_id, "index": str(index), "name": "A100"}
                    self.metrics.publish(metric, dimensions, values)
            if aggregate:
                self._aggregate(metric, instance_id, all_of_it)

    def _aggregate(self, metric: str, instance_id: str, gpus: Sequence[Values]) -> None:
        """As CloudWatch does: over whatever was published in a period."""
        own = {"InstanceId": instance_id}
        bins = [
            [value for value in values if value is not None] for values in zip(*gpus, strict=True)
        ]
        if not any(bins):
            return
        for statistic, summary in (
            ("Maximum", max),
            ("Sum", sum),
            ("Average", lambda v: sum(v) / len(v)),
        ):
            values = [summary(found) if found else None for found in bins]
            self.metrics.publish(metric, own, values, statistic=statistic)
        self.metrics.publish(metric, own, [None] * BINS)

    def xid(self, instance_id: str, gpu: int, number: int, values: Values) -> None:
        """One kind of Xid error of one GPU, beside its sum."""
        dimensions = {
            "InstanceId": instance_id,
            "index": str(gpu),
            "name": "A100",
            "Xid": str(number),
        }
        self.metrics.publish(HARDWARE["xids"], dimensions, values)

    def read(self, instance_id: str, *, advice: bool = True) -> HealthReading:
        """Return what is known of one instance."""
        instance = self.ec2.instances[instance_id]
        request = HealthRequest(instance, self.policy, advice)
        return self.read_health(TARGET, [request], self.clock.now())[instance_id]

    def check(self, minutes: float = 0) -> HealthSummary:
        """One look, that many minutes later."""
        self.clock.moment += timedelta(minutes=minutes)
        return self.check_health(TARGET)

    def told(self) -> list[Alert]:
        """The messages since the last question."""
        sent = list(self.announcer.sent)
        self.announcer.sent.clear()
        return sent
