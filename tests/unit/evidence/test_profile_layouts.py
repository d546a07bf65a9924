"""Each profile's layout of metrics, as its publisher's source has it, becomes a verdict by device
or by core."""

from __future__ import annotations

from dataclasses import replace

import pytest

from governor.core.instance import Instance
from governor.evidence.gather_evidence import GatherEvidence
from governor.evidence.model import Evidence
from governor.evidence.request import EvidenceRequest
from governor.evidence.rules.series import gpu_label
from governor.policy.model.policy import Policy
from governor.policy.model.profiles import ProfileName, profile_of
from governor.verdict.model import NO_HOLD, VerdictKind
from governor.verdict.rules.judge import judge
from governor.verdict.rules.judging import wanted_figures
from tests.builders import NOW, TARGET, make_instance
from tests.twins import MemoryMetrics
from tests.unit.worlds.metric_layouts import (
    CONTAINER_INSIGHTS,
    LAYOUTS,
    NEURON,
    Layout,
    insights,
)

OWN = "i-0123456789abcdef0"
layouts = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.utilization)


def metrics_with(layout: Layout, values: list[float]) -> MemoryMetrics:
    """CloudWatch with these readings of utilization, each all through the window."""
    metrics = MemoryMetrics()
    layout.publish(metrics, OWN, values)
    return metrics


def gathered(metrics: MemoryMetrics, instance: Instance, policy: Policy) -> Evidence:
    """The evidence of one instance."""
    figures = wanted_figures(policy)
    request = EvidenceRequest(instance, policy, figures=figures)
    return GatherEvidence(metrics)(TARGET, [request], NOW)[instance.instance_id].evidence


def verdict_of(layout: Layout, values: list[float]) -> tuple[VerdictKind, str]:
    """The kind and the reason of the verdict on these readings, one a device or core."""
    profile = layout.profile
    policy = Policy()
    names = profile.metrics(policy.metrics, profile.namespace or "CWAgent")
    policy = Policy(metrics=names)
    instance = make_instance(instance_id=OWN, instance_type=layout.instance_type)
    metrics = metrics_with(layout, values)
    evidence = gathered(metrics, instance, policy)
    verdict = judge(instance, NO_HOLD, evidence, policy, NOW)
    return verdict.kind, verdict.reason


@layouts
def test_idle_needs_every_device_or_core(layout: Layout) -> None:
    """All of them quiet is idle; one that publishes nothing leaves it unknown."""
    quiet = [4.0] * layout.parts
    assert VerdictKind.IDLE is verdict_of(layout, quiet)[0]
    kind, reason = verdict_of(layout, quiet[:-1])
    assert VerdictKind.NO_DATA is kind
    assert f"only {layout.parts - 1} of {layout.parts}" in reason


@layouts
@pytest.mark.parametrize(
    ("percent", "kind"),
    [(4.9, VerdictKind.IDLE), (5.0, VerdictKind.PARTLY_IDLE), (100.0, VerdictKind.PARTLY_IDLE)],
)
def test_one_busy_device_or_core_keeps_the_host(
    layout: Layout, percent: float, kind: VerdictKind
) -> None:
    """One of eight GPUs, or of 32 NeuronCores, from the policy's threshold on."""
    values = [0.0] * (layout.parts - 1) + [percent]
    assert kind is verdict_of(layout, values)[0]


def test_without_a_profile_cores_are_not_taken_for_devices() -> None:
    """A policy that only names the metric stays without a verdict, as before."""
    profile = profile_of("node_neuroncore_utilization")
    assert profile is not None
    names = profile.metrics(Policy().metrics, "ContainerInsights")
    policy = Policy(metrics=replace(names, profile=ProfileName.AGENT))
    instance = make_instance(instance_id=OWN, instance_type="trn1.32xlarge")
    metrics = metrics_with(NEURON, [0.0] * 32)
    evidence = gathered(metrics, instance, policy)
    verdict = judge(instance, NO_HOLD, evidence, policy, NOW)
    assert VerdictKind.NO_DATA is verdict.kind
    assert "32 GPUs seem to publish where 16 exist" in verdict.reason


def test_memory_in_bytes_is_compared_with_the_memory_of_the_gpu() -> None:
    """Half of the 80 GiB of an H100, which Container Insights sends in bytes."""
    profile = profile_of("node_gpu_utilization")
    assert profile is not None
    policy = Policy(metrics=profile.metrics(Policy().metrics, "ContainerInsights"))
    instance = make_instance(instance_id=OWN, instance_type="p5.48xlarge")
    metrics = metrics_with(CONTAINER_INSIGHTS, [0.0] * 8)
    for part in range(8):
        half = [40.0 * 1024**3] * 12
        metrics.publish("node_gpu_memory_used", insights(OWN, part, "p5.48xlarge"), half)
    figures = frozenset({"memory"})
    request = EvidenceRequest(instance, policy, figures=figures)
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
