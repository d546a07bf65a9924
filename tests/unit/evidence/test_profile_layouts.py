"""Each profile's layout of metrics, as its publisher's source has it, becomes a verdict by device
or by core."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from governor.core.instance import Instance
from governor.evidence.gather_evidence import GatherEvidence
from governor.evidence.model import Evidence
from governor.evidence.request import EvidenceRequest
from governor.evidence.rules.profiles import MetricProfile, profile_of
from governor.evidence.rules.series import gpu_label
from governor.policy.model.policy import Policy
from governor.verdict.model import NO_HOLD, VerdictKind
from governor.verdict.rules.judge import judge
from governor.verdict.rules.judging import wanted_figures
from tests.builders import NOW, TARGET, make_instance
from tests.twins import MemoryMetrics

OWN = "i-0123456789abcdef0"
NODE = {"ClusterName": "training", "InstanceId": OWN, "NodeName": "ip-10-0-0-1.ec2.internal"}
CORES_OF_TRN1 = 2


def agent(part: int, instance_type: str) -> Mapping[str, str]:
    """The CloudWatch agent's dimensions of a GPU."""
    return {"InstanceId": OWN, "index": str(part), "name": "H100", "arch": "Hopper"}


def insights(part: int, instance_type: str) -> Mapping[str, str]:
    """Container Insights' dimensions of a GPU."""
    return {**NODE, "InstanceType": instance_type, "GpuDevice": f"nvidia{part}"}


def dcgm(part: int, instance_type: str) -> Mapping[str, str]:
    """The DCGM exporter's labels of a GPU."""
    names = {"gpu": str(part), "UUID": f"GPU-{part:08x}", "device": f"nvidia{part}"}
    return {"InstanceId": OWN, **names}


def neuron(part: int, instance_type: str) -> Mapping[str, str]:
    """Container Insights' dimensions of a NeuronCore, which are numbered over all devices."""
    device = {"NeuronDevice": f"device{part // CORES_OF_TRN1}", "NeuronCore": f"core{part}"}
    return {**NODE, "InstanceType": instance_type, **device}


LAYOUTS = [
    ("nvidia_smi_utilization_gpu", agent, "p5.48xlarge", 8),
    ("nvidia_smi utilization_gpu", agent, "p5.48xlarge", 8),
    ("GPUUtilization", agent, "p5.48xlarge", 8),
    ("node_gpu_utilization", insights, "p5.48xlarge", 8),
    ("DCGM_FI_DEV_GPU_UTIL", dcgm, "p5.48xlarge", 8),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", dcgm, "p5.48xlarge", 8),
    ("node_neuroncore_utilization", neuron, "trn1.32xlarge", 32),
    ("neuroncore_utilization", neuron, "trn1.32xlarge", 32),
]
layouts = pytest.mark.parametrize(("utilization", "layout", "instance_type", "parts"), LAYOUTS)


def metrics_with(
    profile: MetricProfile, layout: object, instance_type: str, values: list[float]
) -> MemoryMetrics:
    """CloudWatch with these readings of utilization, each all through the window, little power
    where the profile has it, and EC2's own quiet figures."""
    metrics = MemoryMetrics()
    for part, value in enumerate(values):
        dimensions = layout(part, instance_type)  # type: ignore[operator]
        reading = value / profile.percent_per_unit
        metrics.publish(profile.utilization, dimensions, [reading] * 12)
        if profile.power is not None:
            metrics.publish(profile.power, dimensions, [70.0] * 12)
    for name in ("CPUUtilization", "NetworkIn", "NetworkOut"):
        metrics.publish(name, {"InstanceId": OWN}, [1.0] * 12)
    return metrics


def gathered(
    metrics: MemoryMetrics, instance: Instance, policy: Policy, profile: MetricProfile | None
) -> Evidence:
    """The evidence of one instance."""
    figures = wanted_figures(policy)
    request = EvidenceRequest(instance, policy, figures=figures, profile=profile)
    return GatherEvidence(metrics)(TARGET, [request], NOW)[instance.instance_id].evidence


def verdict_of(
    utilization: str, layout: object, instance_type: str, values: list[float]
) -> tuple[VerdictKind, str]:
    """The kind and the reason of the verdict on these readings, one a device or core."""
    profile = profile_of(utilization)
    assert profile is not None
    policy = Policy()
    names = profile.metrics(policy.metrics, profile.namespace or "CWAgent")
    policy = Policy(metrics=names)
    instance = make_instance(instance_id=OWN, instance_type=instance_type)
    metrics = metrics_with(profile, layout, instance_type, values)
    evidence = gathered(metrics, instance, policy, profile)
    verdict = judge(instance, NO_HOLD, evidence, policy, NOW)
    return verdict.kind, verdict.reason


@layouts
def test_idle_needs_every_device_or_core(
    utilization: str, layout: object, instance_type: str, parts: int
) -> None:
    """All of them quiet is idle; one that publishes nothing leaves it unknown."""
    quiet = [4.0] * parts
    assert VerdictKind.IDLE is verdict_of(utilization, layout, instance_type, quiet)[0]
    kind, reason = verdict_of(utilization, layout, instance_type, quiet[:-1])
    assert VerdictKind.NO_DATA is kind
    assert f"only {parts - 1} of {parts}" in reason


@layouts
@pytest.mark.parametrize(
    ("percent", "kind"),
    [(4.9, VerdictKind.IDLE), (5.0, VerdictKind.PARTLY_IDLE), (100.0, VerdictKind.PARTLY_IDLE)],
)
def test_one_busy_device_or_core_keeps_the_host(
    utilization: str,
    layout: object,
    instance_type: str,
    parts: int,
    percent: float,
    kind: VerdictKind,
) -> None:
    """One of eight GPUs, or of 32 NeuronCores, from the policy's threshold on."""
    values = [0.0] * (parts - 1) + [percent]
    if utilization == "DCGM_FI_PROF_GR_ENGINE_ACTIVE":
        values = [2.0] * (parts - 1) + [percent]
    assert kind is verdict_of(utilization, layout, instance_type, values)[0]


def test_without_a_profile_cores_are_not_taken_for_devices() -> None:
    """A policy that only names the metric stays without a verdict, as before."""
    profile = profile_of("node_neuroncore_utilization")
    assert profile is not None
    policy = Policy(metrics=profile.metrics(Policy().metrics, "ContainerInsights"))
    instance = make_instance(instance_id=OWN, instance_type="trn1.32xlarge")
    metrics = metrics_with(profile, neuron, "trn1.32xlarge", [0.0] * 32)
    evidence = gathered(metrics, instance, policy, None)
    verdict = judge(instance, NO_HOLD, evidence, policy, NOW)
    assert VerdictKind.NO_DATA is verdict.kind
    assert "32 GPUs seem to publish where 16 exist" in verdict.reason


def test_memory_in_bytes_is_compared_with_the_memory_of_the_gpu() -> None:
    """Half of the 80 GiB of an H100, which Container Insights sends in bytes."""
    profile = profile_of("node_gpu_utilization")
    assert profile is not None
    policy = Policy(metrics=profile.metrics(Policy().metrics, "ContainerInsights"))
    instance = make_instance(instance_id=OWN, instance_type="p5.48xlarge")
    metrics = metrics_with(profile, insights, "p5.48xlarge", [0.0] * 8)
    for part in range(8):
        half = [40.0 * 1024**3] * 12
        metrics.publish("node_gpu_memory_used", insights(part, "p5.48xlarge"), half)
    figures = frozenset({"memory"})
    request = EvidenceRequest(instance, policy, figures=figures, profile=profile)
    evidence = GatherEvidence(metrics)(TARGET, [request], NOW)[OWN].evidence
    assert 50.0 == pytest.approx(evidence.memory_used_percent, abs=0.5)


@pytest.mark.parametrize(
    ("dimensions", "label"),
    [
        ((("InstanceId", OWN), ("NeuronCore", "core17"), ("NeuronDevice", "device8")), "17"),
        ((("InstanceId", OWN), ("NeuronCore", "3")), "3"),
        ((("InstanceId", OWN), ("NeuronDevice", "device8")), "all"),
        ((("InstanceId", OWN), ("NeuronCore", "=cmd|'/c calc'!A1")), "all"),
    ],
)
def test_a_neuron_core_is_named_by_its_number(
    dimensions: tuple[tuple[str, str], ...], label: str
) -> None:
    """A device is no core, and a value that is no number names none."""
    assert label == gpu_label(dimensions)
