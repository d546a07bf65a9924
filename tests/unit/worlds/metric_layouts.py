"""The layout of each publisher's metrics, as its source has it: names, dimensions and units.

The dimensions are those of the CloudWatch agent's metric declarations, of the DCGM exporter's
labels, and of the agent's Neuron processor (`policy/model/profiles.py` names the sources).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from governor.policy.model.profiles import MetricProfile, profile_of
from tests.twins import MemoryMetrics

CORES_OF_TRN1 = 2


def agent(instance_id: str, part: int, instance_type: str) -> Mapping[str, str]:
    """The CloudWatch agent's dimensions of a GPU."""
    return {"InstanceId": instance_id, "index": str(part), "name": "H100", "arch": "Hopper"}


def node(instance_id: str) -> Mapping[str, str]:
    """Container Insights' dimensions of a whole node."""
    name = "ip-10-0-0-1.ec2.internal"
    return {"ClusterName": "training", "InstanceId": instance_id, "NodeName": name}


def insights(instance_id: str, part: int, instance_type: str) -> Mapping[str, str]:
    """Container Insights' dimensions of a GPU."""
    device = {"InstanceType": instance_type, "GpuDevice": f"nvidia{part}"}
    return {**node(instance_id), **device}


def dcgm(instance_id: str, part: int, instance_type: str) -> Mapping[str, str]:
    """The DCGM exporter's labels of a GPU."""
    names = {"gpu": str(part), "UUID": f"GPU-{part:08x}", "device": f"nvidia{part}"}
    return {"InstanceId": instance_id, **names}


def neuron(instance_id: str, part: int, instance_type: str) -> Mapping[str, str]:
    """Container Insights' dimensions of a NeuronCore, which are numbered over all devices."""
    device = {"NeuronDevice": f"device{part // CORES_OF_TRN1}", "NeuronCore": f"core{part}"}
    return {**node(instance_id), "InstanceType": instance_type, **device}


@dataclass(frozen=True)
class Layout:
    """One publisher on one instance type with so many devices, or cores."""

    utilization: str
    dimensions: object
    instance_type: str
    parts: int

    @property
    def profile(self) -> MetricProfile:
        """The profile whose metric it publishes."""
        profile = profile_of(self.utilization)
        assert profile is not None
        return profile

    def publish(
        self,
        metrics: MemoryMetrics,
        instance_id: str,
        percents: Sequence[float],
        bins: int = 12,
        watts: float = 70.0,
    ) -> None:
        """Publish each part's utilization all the time, power where the publisher has it, and EC2's
        own quiet figures."""
        profile = self.profile
        for part, percent in enumerate(percents):
            dimensions = self.dimensions(instance_id, part, self.instance_type)  # type: ignore[operator]
            reading = percent / profile.percent_per_unit
            metrics.publish(self.utilization, dimensions, [reading] * bins)
            if profile.power is not None:
                metrics.publish(profile.power, dimensions, [watts] * bins)
        for name in ("CPUUtilization", "NetworkIn", "NetworkOut"):
            metrics.publish(name, {"InstanceId": instance_id}, [1.0] * bins)


AGENT = Layout("nvidia_smi_utilization_gpu", agent, "p5.48xlarge", 8)
CONTAINER_INSIGHTS = Layout("node_gpu_utilization", insights, "p5.48xlarge", 8)
DCGM = Layout("DCGM_FI_DEV_GPU_UTIL", dcgm, "p5.48xlarge", 8)
DCGM_SHARE = Layout("DCGM_FI_PROF_GR_ENGINE_ACTIVE", dcgm, "p5.48xlarge", 8)
NEURON = Layout("node_neuroncore_utilization", neuron, "trn1.32xlarge", 32)

LAYOUTS = (
    AGENT,
    Layout("nvidia_smi utilization_gpu", agent, "p5.48xlarge", 8),
    Layout("GPUUtilization", agent, "p5.48xlarge", 8),
    CONTAINER_INSIGHTS,
    DCGM,
    DCGM_SHARE,
    NEURON,
    Layout("neuroncore_utilization", neuron, "trn1.32xlarge", 32),
    Layout("neuroncore_utilization_ratio", neuron, "trn1.32xlarge", 32),
)
