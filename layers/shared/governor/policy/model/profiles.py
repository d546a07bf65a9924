"""The one table of metric profiles, such as the CloudWatch agent, Container Insights, DCGM and
Neuron: names, dimensions and units of each publisher's metrics.

This module is data. It reads and judges nothing. The agent's names are also the defaults of
`Metrics` (`judging.py`). Sources, as of 2026-11:

- `agent`: the CloudWatch agent's NVIDIA page, and its `registered_metrics.go`. On Windows its names
  have a space (`plugins/outputs/cloudwatch/cloudwatch_test.go`). `agent/` of this project uses the
  same names; what it sends into `GPU/Custom` is in its `metrics.py`.
- `container-insights` and `neuron` in `ContainerInsights`: the metric declarations of the
  CloudWatch agent (`translator/translate/otel/exporter/awsemf/kubernetes.go`), which
  `Container-Insights-metrics-enhanced-EKS` lists as well. Its `metricstransformprocessor` scales
  the utilization of cores to percent, and GPU memory to bytes. `awsneuron_metric_modifier.go`
  writes cores as `core0`, numbered over the whole instance, and devices as `device0`.
- `dcgm`: the counters of NVIDIA's DCGM exporter (`default-counters.csv`), as a Prometheus scrape
  of the CloudWatch agent publishes them. `DCGM_FI_PROF_*` are shares from 0 to 1. On EC2 the agent
  publishes what it scrapes into `CWAgent/Prometheus`, unless its configuration names a namespace.
- `neuron` outside of EKS: `neuroncore_utilization` of neuron-monitor, in percent, and
  `neuroncore_utilization_ratio` of `neuron-monitor-prometheus.py`, a share from 0 to 1. AWS does
  not document under which dimensions the scripts publish: only series with an `InstanceId` are
  read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # `judging` imports this module.
    from governor.policy.model.judging import Metrics


class ProfileName(StrEnum):
    """The names of profiles, as a policy writes them in `metrics.profile`."""

    AGENT = "agent"
    CONTAINER_INSIGHTS = "container-insights"
    DCGM = "dcgm"
    NEURON = "neuron"
    CUSTOM = "custom"
    """No row of the table: all names are those of the policy."""


class UtilizationScale(StrEnum):
    """The unit of a utilization that a team publishes under a name of its own."""

    PERCENT = "percent"
    """0 to 100. Readings that may be shares from 0 to 1 are not believed."""
    SHARE = "share"
    """0 to 1. A metric in percent would only look busier."""


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


GPU = "GPU"
NEURON_CORE = "NeuronCore"
BYTES_IN_MIB = 1024.0 * 1024.0
_MIB_IN_A_BYTE = 1.0 / BYTES_IN_MIB


@dataclass(frozen=True, slots=True)
class MetricProfile:
    """The names of one publisher's metrics.

    Attributes:
        publisher: for people, such as `the CloudWatch agent`.
        namespace: the namespace in which alone these names mean this; `None`: any may hold them.
        usual_namespace: where the publisher sends them unless it is configured otherwise; empty if
            that is not documented. That of the first profile of a name is the default of a policy.
        power: the metric of power in watts; `None` if there is none.
        memory: the metric of used memory; `None` if there is none.
        temperature: the metric of temperature in degrees Celsius; `None` if there is none.
        memory_utilization: the metric of the time in which memory was read or written, in percent;
            `None` if there is none.
        encoder, decoder: the metrics of the utilization of video encoders and decoders, in percent;
            `None` if there are none.
        device_dimensions: the dimensions that tell the parts of an instance apart, the first one
            before the others.
        percent_per_unit: turns a reading of utilization into percent: 100 for a share from 0 to 1.
        series_per_device: the number of series of a device whose parts are no cores that the
            catalog of cores counts.
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
    series_per_device: int = 1
    usual_namespace: str = ""
    temperature: str | None = None
    memory_utilization: str | None = None
    encoder: str | None = None
    decoder: str | None = None

    def metrics(self, names: Metrics, namespace: str) -> Metrics:
        """Return the policy's names of metrics with those of this profile in their place, in this
        namespace. A metric that the publisher does not send keeps the policy's name."""
        return replace(
            names,
            profile=self.name,
            namespace=namespace,
            utilization=self.utilization,
            power_draw=self.power or names.power_draw,
            memory_used=self.memory or names.memory_used,
        )


CONTAINER_INSIGHTS_NAMESPACE = "ContainerInsights"
_PROMETHEUS_NAMESPACE = "CWAgent/Prometheus"
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
        usual_namespace="GPU/EC2",
        temperature="nvidia_smi_temperature_gpu",
        memory_utilization="nvidia_smi_utilization_memory",
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
        usual_namespace=CONTAINER_INSIGHTS_NAMESPACE,
        temperature="node_gpu_temperature",
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
        usual_namespace=_PROMETHEUS_NAMESPACE,
        temperature="DCGM_FI_DEV_GPU_TEMP",
        memory_utilization="DCGM_FI_DEV_MEM_COPY_UTIL",
        encoder="DCGM_FI_DEV_ENC_UTIL",
        decoder="DCGM_FI_DEV_DEC_UTIL",
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
        usual_namespace=_PROMETHEUS_NAMESPACE,
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
        usual_namespace="GPU/Custom",
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
        usual_namespace=CONTAINER_INSIGHTS_NAMESPACE,
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


def profile_of(utilization: str) -> MetricProfile | None:
    """Return the profile whose metric of utilization has this name; `None` if there is none, as for
    names of a team's own."""
    return _profile_by_utilization().get(utilization)


@cache
def _profile_by_utilization() -> Mapping[str, MetricProfile]:
    """Return the profiles by their metric of utilization. No two profiles share one."""
    return {profile.utilization: profile for profile in PROFILES}


def profile_of_names(names: Metrics) -> MetricProfile | None:
    """Return the profile by which metrics of these names are read: of those with the policy's
    profile the one that has its metric of utilization, or else the first.

    For `custom`, the policy gives the scale and the number of series. `None` if these are percent
    and one series for each device. Power is in watts and memory in MiB.
    """
    if names.profile is ProfileName.CUSTOM:
        return _custom(names)
    return _profile(names.profile, names.utilization)


def part_word(names: Metrics) -> str:
    """Return the word for one part of an instance that metrics of these names tell apart:
    `NeuronCore` if the profile reads cores, else `GPU`."""
    profile = profile_of_names(names)
    if profile is not None and profile.part is Part.CORE:
        return NEURON_CORE
    return GPU


def _custom(names: Metrics) -> MetricProfile | None:
    """Return the profile of a team's own metrics; `None` if they are in percent, with one series
    for each device."""
    is_share = names.utilization_scale is UtilizationScale.SHARE
    if not is_share and names.series_per_device == 1:
        return None
    return _custom_profile(names.utilization, names.series_per_device, is_share=is_share)


@cache
def _custom_profile(utilization: str, series_per_device: int, *, is_share: bool) -> MetricProfile:
    """Return the profile of a team's own metric of utilization."""
    # Cached, because it is asked for every series that is read.
    return MetricProfile(
        name=ProfileName.CUSTOM,
        publisher="your own publisher",
        namespace=None,
        accelerators=Accelerators.NVIDIA,
        utilization=utilization,
        power=None,
        memory=None,
        device_dimensions=(),
        percent_per_unit=100.0 if is_share else 1.0,
        series_per_device=series_per_device,
    )


@cache
def _profile(name: ProfileName, utilization: str) -> MetricProfile | None:
    """Return the profile of this name that has this metric of utilization, or else the first one of
    the name; `None` if there is none."""
    # Cached, because it is asked for every series that is read.
    profiles = [profile for profile in PROFILES if profile.name is name]
    for profile in profiles:
        if profile.utilization == utilization:
            return profile
    return profiles[0] if profiles else None
