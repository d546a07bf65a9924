"""The table of metric profiles: names that mean one thing, and how many series a type has."""

from __future__ import annotations

from datetime import timedelta

import pytest

from governor.core.catalog import accelerated_types, shape_of
from governor.evidence.model import Evidence, GpuReadings, MetricSource, Window
from governor.evidence.rules.profiles import (
    CORES_OF_A_DEVICE,
    expected_count,
    memory_factor,
    part_word_of_type,
)
from governor.evidence.rules.series import gpu_rows
from governor.policy.model.judging import Metrics, names_of_profile
from governor.policy.model.profiles import (
    PROFILES,
    Accelerators,
    ProfileName,
    profile_of,
    profile_of_names,
)
from tests.builders import NOW


def test_each_metric_of_utilization_belongs_to_one_profile() -> None:
    """A name that two profiles share would be read as the wrong one."""
    names = [profile.utilization for profile in PROFILES]
    assert len(names) == len(set(names))
    for profile in PROFILES:
        assert profile is profile_of(profile.utilization)
    assert profile_of("our_own_gpu_metric") is None


def test_the_agents_names_are_the_defaults_of_a_policy() -> None:
    """They stand in `Metrics` and in the table: a name changed in one of them alone would read
    nothing."""
    names = Metrics()
    agent = PROFILES[0]
    assert ProfileName.AGENT is agent.name
    assert names == agent.metrics(names, names.namespace)
    assert (agent.temperature, agent.memory_utilization) == (
        names.temperature,
        names.memory_utilization,
    )


def test_all_four_profiles_are_in_the_table() -> None:
    """`custom`, the fifth of a policy, has no names of its own."""
    in_the_table = {profile.name for profile in PROFILES}
    assert {*ProfileName} - {ProfileName.CUSTOM} == in_the_table


def test_memory_of_one_of_several_series_counts_as_that_of_its_whole_device() -> None:
    """A part has only its share of the memory, as a core has."""
    names = Metrics(
        profile=ProfileName.CUSTOM, namespace="Ours", utilization="ours", series_per_device=7
    )
    assert 7.0 == memory_factor(shape_of("p5.48xlarge"), names, profile_of_names(names))


@pytest.mark.parametrize(
    ("instance_type", "utilization", "expected"),
    [
        ("p5.48xlarge", "nvidia_smi_utilization_gpu", 8),
        ("p5.48xlarge", "node_gpu_utilization", 8),
        ("p5.48xlarge", "DCGM_FI_DEV_GPU_UTIL", 8),
        ("g5.xlarge", "our_own_gpu_metric", 1),
        ("trn1.32xlarge", "node_neuroncore_utilization", 32),
        ("trn1.2xlarge", "node_neuroncore_utilization", 2),
        ("trn2.48xlarge", "neuroncore_utilization", 128),
        ("inf1.24xlarge", "neuroncore_utilization", 64),
        ("inf2.48xlarge", "neuroncore_utilization_ratio", 24),
        ("trn1.32xlarge", "our_own_device_metric", 16),
        # A GPU has no NeuronCores: nothing says how many series there should be.
        ("p5.48xlarge", "node_neuroncore_utilization", None),
        ("made.up", "nvidia_smi_utilization_gpu", None),
    ],
)
def test_cores_and_devices_are_counted_apart(
    instance_type: str, utilization: str, expected: int | None
) -> None:
    """A trn1.32xlarge has 16 devices, and 32 series of cores."""
    assert expected == expected_count(shape_of(instance_type), profile_of(utilization))


def test_every_neuron_type_of_the_catalog_has_a_number_of_cores() -> None:
    """A type without one would never be judged."""
    shapes = [shape_of(name) for name in accelerated_types()]
    neuron = [shape for shape in shapes if shape and shape.vendor == Accelerators.NEURON]
    assert neuron
    assert {shape.accelerator for shape in neuron} <= CORES_OF_A_DEVICE.keys()


@pytest.mark.parametrize(
    ("profile", "instance_type", "own_memory", "factor"),
    [
        ("agent", "p5.48xlarge", "", 1),
        ("custom", "p5.48xlarge", "our_memory", 1),
        ("container-insights", "p5.48xlarge", "", 1 / 1024**2),
        ("container-insights", "p5.48xlarge", "our_memory", 1),
        ("neuron", "trn1.32xlarge", "", 2 / 1024**2),
        ("neuron", "trn1.32xlarge", "our_memory", 2),
    ],
)
def test_memory_of_container_insights_is_in_bytes(
    profile: str, instance_type: str, own_memory: str, factor: float
) -> None:
    """The agent sends MiB, as a policy's own metric does. A core of a Trainium device has half of
    its memory."""
    memory = own_memory or names_of_profile(ProfileName(profile))["memory_used"]
    names = Metrics(profile=ProfileName(profile), memory_used=memory)
    shape = shape_of(instance_type)
    assert factor == memory_factor(shape, names, profile_of_names(names))


def test_a_profile_replaces_names_and_keeps_the_rest_of_the_policy() -> None:
    """A figure that the publisher does not send keeps the policy's name."""
    policy = Metrics(lag_seconds=300, power_draw="our_power")
    profile = profile_of("node_neuroncore_utilization")
    assert profile is not None
    names = profile.metrics(policy, "ContainerInsights")
    assert ("ContainerInsights", profile.utilization) == (names.namespace, names.utilization)
    assert ProfileName.NEURON is names.profile
    assert ("our_power", 300) == (names.power_draw, names.lag_seconds)
    assert "node_neuroncore_memory_usage_total" == names.memory_used


@pytest.mark.parametrize(
    ("instance_type", "word"),
    [
        ("trn1.32xlarge", "NeuronCore"),
        ("inf2.48xlarge", "NeuronCore"),
        ("p5.48xlarge", "GPU"),
        ("g4ad.16xlarge", "GPU"),
        ("x99.invented", "GPU"),
    ],
)
def test_parts_are_named_by_the_type(instance_type: str, word: str) -> None:
    """Pages and mails name them for an episode, which keeps no names of metrics."""
    rows = gpu_rows(
        Evidence(
            Window(NOW, NOW + timedelta(minutes=5), timedelta(minutes=5)),
            MetricSource.PER_GPU,
            gpus=(GpuReadings("17", (0.0,)),),
        ),
        part_word_of_type(instance_type),
    )
    assert [f"{word} 17"] == [row[0] for row in rows]
