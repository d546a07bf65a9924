"""The one table of metric profiles: under which names and dimensions a publisher sends what its
accelerators do, and in which unit.

This module is data with a few look-ups. It reads and judges nothing. Sources, as of 2026-11:

- `agent`: the CloudWatch agent's NVIDIA page, and its `registered_metrics.go`. On Windows its names
  have a space (`plugins/outputs/cloudwatch/cloudwatch_test.go`). `agent/` of this project uses the
  same names; what it sends into `GPU/Custom` is in its `metrics.py`.
- `container-insights` and `neuron` in `ContainerInsights`: the metric declarations of the
  CloudWatch agent (`translator/translate/otel/exporter/awsemf/kubernetes.go`), which
  `Container-Insights-metrics-enhanced-EKS` lists as well. Its `metricstransformprocessor` scales
  the utilization of cores to percent, and GPU memory to bytes. `awsneuron_metric_modifier.go`
  writes cores as `core0`, numbered over the whole instance, and devices as `device0`.
- `dcgm`: the counters of NVIDIA's DCGM exporter (`default-counters.csv`), as a Prometheus scrape
  of the CloudWatch agent publishes them. `DCGM_FI_PROF_*` are shares of 0 to 1.
- `neuron` outside of EKS: `neuroncore_utilization` of neuron-monitor, in percent, and
  `neuroncore_utilization_ratio` of `neuron-monitor-prometheus.py`, a share of 0 to 1. AWS does not
  document under which dimensions the scripts publish: only series with an `InstanceId` are read.
- Cores of a Neuron device: the pages on Inferentia, Inferentia2, Trainium, Trainium2 and
  Trainium3 of the Neuron documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

from governor.core.instance import Shape
from governor.policy.model.judging import Metrics


class ProfileName(StrEnum):
    """The names of profiles, as a policy will write them."""

    AGENT = "agent"
    CONTAINER_INSIGHTS = "container-insights"
    DCGM = "dcgm"
    NEURON = "neuron"


class Part(StrEnum):
    """The part of an instance that one value of the device dimension stands for."""

    DEVICE = "device"
    CORE = "core"
    """One core of a Neuron device, which has several."""


class Accelerators(StrEnum):
    """The accelerators that a publisher can measure, by the first word of their name in the
    catalog."""

    NVIDIA = "NVIDIA"
    NEURON = "AWS"


BYTES_IN_MIB = 1024.0 * 1024.0
_MIB_IN_A_BYTE = 1.0 / BYTES_IN_MIB


@dataclass(frozen=True, slots=True)
class MetricProfile:
    """The names of one publisher's metrics.

    Attributes:
        publisher: for people, such as `the CloudWatch agent`.
        namespace: the namespace in which alone these names mean this; `None`: any may hold them.
        power: the metric of power in watts; `None` if there is none.
        memory: the metric of used memory; `None` if there is none.
        device_dimensions: the dimensions that tell the parts of an instance apart, the first one
            before the others.
        percent_per_unit: turns a reading of utilization into percent: 100 for a share of 0 to 1.
        mib_per_unit: turns a reading of memory into MiB.
    """

    name: ProfileName
    publisher: str
    namespace: str | None
    accelerators: Accelerators
    utilization: str
    power: str | None
    memory: str | None
    device_dimensions: tuple[str, ...]
    part: Part = Part.DEVICE
    percent_per_unit: float = 1.0
    mib_per_unit: float = 1.0

    def metrics(self, names: Metrics, namespace: str) -> Metrics:
        """Return the policy's names of metrics with those of this profile in their place, in this
        namespace. A metric that the publisher does not send keeps the policy's name."""
        return replace(
            names,
            namespace=namespace,
            utilization=self.utilization,
            power_draw=self.power or names.power_draw,
            memory_used=self.memory or names.memory_used,
        )


CONTAINER_INSIGHTS_NAMESPACE = "ContainerInsights"
_GPU_DIMENSIONS = ("index",)
_DCGM_DIMENSIONS = ("gpu", "UUID")
_CORE_DIMENSIONS = ("NeuronCore",)

PROFILES: tuple[MetricProfile, ...] = (
    MetricProfile(
        name=ProfileName.AGENT,
        publisher="the CloudWatch agent",
        namespace=None,
        accelerators=Accelerators.NVIDIA,
        utilization="nvidia_smi_utilization_gpu",
        power="nvidia_smi_power_draw",
        memory="nvidia_smi_memory_used",
        device_dimensions=_GPU_DIMENSIONS,
    ),
    MetricProfile(
        name=ProfileName.AGENT,
        publisher="the CloudWatch agent on Windows",
        namespace=None,
        accelerators=Accelerators.NVIDIA,
        utilization="nvidia_smi utilization_gpu",
        power="nvidia_smi power_draw",
        memory="nvidia_smi memory_used",
        device_dimensions=_GPU_DIMENSIONS,
    ),
    MetricProfile(
        name=ProfileName.CONTAINER_INSIGHTS,
        publisher="Container Insights",
        namespace=CONTAINER_INSIGHTS_NAMESPACE,
        accelerators=Accelerators.NVIDIA,
        utilization="node_gpu_utilization",
        power="node_gpu_power_draw",
        memory="node_gpu_memory_used",
        device_dimensions=("GpuDevice",),
        mib_per_unit=_MIB_IN_A_BYTE,
    ),
    MetricProfile(
        name=ProfileName.DCGM,
        publisher="the DCGM exporter",
        namespace=None,
        accelerators=Accelerators.NVIDIA,
        utilization="DCGM_FI_DEV_GPU_UTIL",
        power="DCGM_FI_DEV_POWER_USAGE",
        memory="DCGM_FI_DEV_FB_USED",
        device_dimensions=_DCGM_DIMENSIONS,
    ),
    MetricProfile(
        name=ProfileName.DCGM,
        publisher="the DCGM exporter (profiling)",
        namespace=None,
        accelerators=Accelerators.NVIDIA,
        utilization="DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        power="DCGM_FI_DEV_POWER_USAGE",
        memory="DCGM_FI_DEV_FB_USED",
        device_dimensions=_DCGM_DIMENSIONS,
        percent_per_unit=100.0,
    ),
    MetricProfile(
        name=ProfileName.AGENT,
        publisher="the GPU metrics publisher",
        namespace="GPU/Custom",
        accelerators=Accelerators.NVIDIA,
        utilization="GPUUtilization",
        power="GPUPowerDraw",
        memory=None,
        device_dimensions=_GPU_DIMENSIONS,
    ),
    MetricProfile(
        name=ProfileName.NEURON,
        publisher="Container Insights",
        namespace=CONTAINER_INSIGHTS_NAMESPACE,
        accelerators=Accelerators.NEURON,
        utilization="node_neuroncore_utilization",
        power=None,
        memory="node_neuroncore_memory_usage_total",
        device_dimensions=_CORE_DIMENSIONS,
        part=Part.CORE,
        mib_per_unit=_MIB_IN_A_BYTE,
    ),
    MetricProfile(
        name=ProfileName.NEURON,
        publisher="neuron-monitor",
        namespace=None,
        accelerators=Accelerators.NEURON,
        utilization="neuroncore_utilization",
        power=None,
        memory=None,
        device_dimensions=_CORE_DIMENSIONS,
        part=Part.CORE,
    ),
    MetricProfile(
        name=ProfileName.NEURON,
        publisher="neuron-monitor (Prometheus)",
        namespace=None,
        accelerators=Accelerators.NEURON,
        utilization="neuroncore_utilization_ratio",
        power=None,
        memory=None,
        device_dimensions=_CORE_DIMENSIONS,
        part=Part.CORE,
        percent_per_unit=100.0,
    ),
)
"""All profiles. Where an instance has series of several, the first that fits is the most exact."""

CORES_OF_A_DEVICE: Mapping[str, int] = {
    "AWS Inferentia": 4,
    "AWS Inferentia2": 2,
    "AWS Trainium": 2,
    "AWS Trainium2": 8,
    "AWS Trainium3": 8,
}
"""NeuronCores of one device, by the name of the accelerator in the catalog. From Trainium2 on,
software may join two of them to one logical core. The physical number stays right for a proof: if
fewer publish, some may work unseen."""


def profile_of(utilization: str) -> MetricProfile | None:
    """Return the profile whose metric of utilization has this name; `None` if there is none, as for
    names of a team's own."""
    return _profile_by_utilization().get(utilization)


@cache
def _profile_by_utilization() -> Mapping[str, MetricProfile]:
    """Return the profiles by their metric of utilization. No two profiles share one."""
    return {profile.utilization: profile for profile in PROFILES}


def expected_count(shape: Shape | None, profile: MetricProfile | None) -> int | None:
    """Return how many series of utilization an instance of this type publishes: one for each of its
    devices, or for each core of them if the profile says so. Return `None` if that is not known."""
    if shape is None or shape.accelerator_count is None:
        return None
    if profile is None or profile.part is Part.DEVICE:
        return shape.accelerator_count
    cores = CORES_OF_A_DEVICE.get(shape.accelerator)
    return None if cores is None else shape.accelerator_count * cores


def memory_factor(shape: Shape | None, profile: MetricProfile | None) -> float:
    """Return the factor that turns a reading of memory into MiB of a whole device: a core has only
    its part of the memory of its device. Return 1 without a profile."""
    if profile is None:
        return 1.0
    parts = 1
    if shape is not None and profile.part is Part.CORE:
        parts = CORES_OF_A_DEVICE.get(shape.accelerator, 1)
    return profile.mib_per_unit * parts
