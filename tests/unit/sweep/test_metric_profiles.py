"""The sweep under each metric profile, from the policy's text to verdict and question."""

from __future__ import annotations

import pytest

from governor.alerts.model import AlertKind
from governor.policy.document import parse_policy
from tests.builders import TARGET, make_instance
from tests.unit.worlds.fleet_world import FleetWorld
from tests.unit.worlds.metric_layouts import (
    AGENT,
    CONTAINER_INSIGHTS,
    DCGM,
    DCGM_SHARE,
    NEURON,
    Layout,
    insights,
    node,
)

PEOPLE = """
mode: ask
breaker: {hub_minimum_instances: 10000}
ownership:
  contacts:
    ada: {emails: [ada@example.com]}
  default_contacts: [ada]
"""
EKS_NODE = {
    "Purpose": "GPU-Workload",
    "eks:cluster-name": "prod",
    "eks:nodegroup-name": "gpu",
    "aws:autoscaling:groupName": "eks-gpu-1",
}
PROFILES = [
    (AGENT, "{}"),
    (CONTAINER_INSIGHTS, "{profile: container-insights}"),
    (DCGM, "{profile: dcgm}"),
    (DCGM_SHARE, "{profile: dcgm, utilization: DCGM_FI_PROF_GR_ENGINE_ACTIVE}"),
    (NEURON, "{profile: neuron}"),
    (
        DCGM,
        "{profile: custom, namespace: N, utilization: DCGM_FI_DEV_GPU_UTIL, "
        "power_draw: DCGM_FI_DEV_POWER_USAGE}",
    ),
]
profiles = pytest.mark.parametrize(("layout", "metrics"), PROFILES)


def world_of(document: str) -> FleetWorld:
    """A fleet under the policy of this document."""
    return FleetWorld(book=parse_policy(PEOPLE + document))


def add(
    world: FleetWorld, layout: Layout, percents: list[float], tags: dict[str, str] | None = None
) -> str:
    """An instance that publishes these percentages, one a device or core, by this layout."""
    instance_id = f"i-{len(world.ec2.instances) + 1:017x}"
    changes = {} if tags is None else {"tags": tags}
    instance_type = layout.instance_type
    world.ec2.add(make_instance(instance_id=instance_id, instance_type=instance_type, **changes))
    layout.publish(world.metrics, instance_id, percents, bins=96)
    return instance_id


@profiles
def test_an_idle_host_is_judged_by_every_device_or_core(layout: Layout, metrics: str) -> None:
    """Idle, with one question; and again when the sweep knows its series."""
    world = world_of(f"metrics: {metrics}")
    instance_id = add(world, layout, [0.5] * layout.parts)
    summary = world.sweep()

    assert ("idle", []) == (world.verdict(instance_id), summary.problems)
    assert 1 == summary.episodes_started
    observation = world.state.observations(TARGET)[instance_id]
    assert layout.parts == len(observation.dimensions or ())
    world.sweep(5)
    assert "idle" == world.verdict(instance_id)


@profiles
def test_one_busy_device_or_core_keeps_the_host(layout: Layout, metrics: str) -> None:
    """One of eight GPUs, or of 32 NeuronCores."""
    world = world_of(f"metrics: {metrics}")
    instance_id = add(world, layout, [0.0] * (layout.parts - 1) + [60.0])
    summary = world.sweep()

    assert "partly-idle" == world.verdict(instance_id)
    assert 0 == summary.episodes_started


@profiles
def test_a_device_or_core_that_is_silent_is_not_idle(layout: Layout, metrics: str) -> None:
    """It may work unseen."""
    world = world_of(f"metrics: {metrics}")
    instance_id = add(world, layout, [0.0] * (layout.parts - 1))
    world.sweep()
    assert "no-data" == world.verdict(instance_id)


SLOTS = "metrics: {profile: custom, namespace: Ours, utilization: ours, device_dimension: Slot}"


@pytest.mark.parametrize(
    ("percents", "verdict"),
    [
        ([2.0] * 8, "idle"),
        ([0.0] * 7 + [60.0], "partly-idle"),
        ([60.0] * 8, "busy"),
        ([0.0] * 7, "no-data"),
    ],
)
@pytest.mark.parametrize("spelled", ["slot-{}", "{}", "PCI:0000:{}0"])
def test_devices_of_a_dimension_of_our_own_are_judged_one_by_one(
    percents: list[float], verdict: str, spelled: str
) -> None:
    """The other dimensions of a series, such as `index`, may mean something else there."""
    world = world_of(SLOTS)
    instance_id = f"i-{1:017x}"
    world.ec2.add(make_instance(instance_id=instance_id, instance_type="p5.48xlarge"))
    for slot, percent in enumerate(percents):
        dimensions = {"InstanceId": instance_id, "Slot": spelled.format(slot), "index": "0"}
        world.metrics.publish("ours", dimensions, [percent] * 96)
    for name in ("CPUUtilization", "NetworkIn", "NetworkOut"):
        world.metrics.publish(name, {"InstanceId": instance_id}, [1.0] * 96)
    world.sweep()
    assert verdict == world.verdict(instance_id)


OURS = "profile: custom, namespace: Ours, utilization: ours"


def add_series(world: FleetWorld, instance_type: str, values: list[float]) -> str:
    """Add a host with one series of our own metric for each of these values. Return its id."""
    instance_id = f"i-{1:017x}"
    world.ec2.add(make_instance(instance_id=instance_id, instance_type=instance_type))
    for index, value in enumerate(values):
        dimensions = {"InstanceId": instance_id, "index": str(index)}
        world.metrics.publish("ours", dimensions, [value] * 96)
    for name in ("CPUUtilization", "NetworkIn", "NetworkOut"):
        world.metrics.publish(name, {"InstanceId": instance_id}, [1.0] * 96)
    return instance_id


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ([0.0] * 8, "idle"),
        ([0.02] * 8, "idle"),
        ([0.02] * 7 + [0.06], "partly-idle"),
        ([1.0] * 8, "busy"),
        ([0.02] * 7, "no-data"),
    ],
)
def test_a_metric_of_our_own_in_shares_is_judged_in_percent(
    shares: list[float], verdict: str
) -> None:
    """Without the setting, 2% as a share would be no data, and 6% idle."""
    world = world_of(f"metrics: {{{OURS}, utilization_scale: share}}")
    instance_id = add_series(world, "p5.48xlarge", shares)
    world.sweep()
    assert verdict == world.verdict(instance_id)


def test_a_metric_of_our_own_that_is_no_share_never_makes_idle_by_that_setting() -> None:
    """A wrong scale only makes readings greater: 3% become 300%."""
    world = world_of(f"metrics: {{{OURS}, utilization_scale: share}}")
    instance_id = add_series(world, "p5.48xlarge", [3.0] * 8)
    world.sweep()
    assert "busy" == world.verdict(instance_id)


@pytest.mark.parametrize("scale", ["percent", "share"])
@pytest.mark.parametrize(
    ("instance_type", "per_device", "count"),
    [("trn1.32xlarge", 2, 32), ("p5.48xlarge", 7, 56), ("g5.xlarge", 3, 3)],
)
def test_each_series_of_our_own_must_be_measured(
    instance_type: str, per_device: int, count: int, scale: str
) -> None:
    """Cores and parts of a GPU count alike. One that is silent may work unseen, and one that works
    keeps the instance."""
    settings = f"{OURS}, series_per_device: {per_device}, utilization_scale: {scale}"
    verdicts = []
    for values in ([0.0] * count, [0.0] * (count - 1), [0.0] * (count - 1) + [60.0]):
        world = world_of(f"metrics: {{{settings}}}")
        instance_id = add_series(world, instance_type, values)
        world.sweep()
        verdicts.append(world.verdict(instance_id))
    assert ["idle", "no-data", "partly-idle"] == verdicts


def test_a_number_of_series_does_not_settle_the_scale() -> None:
    """Fractions may still be shares from 0 to 1."""
    world = world_of(f"metrics: {{{OURS}, series_per_device: 2}}")
    instance_id = add_series(world, "trn1.32xlarge", [0.9] * 32)
    world.sweep()
    assert "no-data" == world.verdict(instance_id)


STRANGERS = [{"index": "9"}, {"GpuDevice": "nvidia9"}, {"UUID": "GPU-abcdef12-1234-1234-1234-1234"}]
"""Dimensions by which other publishers tell devices apart, without a `Slot`."""


def add_slots(
    world: FleetWorld, idle_slots: int, others: list[dict[str, str]], percent: float = 0.0
) -> str:
    """Add a host of eight GPUs with so many idle slots, and series of other dimensions at this
    percentage. Return its id."""
    instance_id = f"i-{1:017x}"
    world.ec2.add(make_instance(instance_id=instance_id, instance_type="p5.48xlarge"))
    for slot in range(idle_slots):
        dimensions = {"InstanceId": instance_id, "Slot": str(slot)}
        world.metrics.publish("ours", dimensions, [0.0] * 96)
    for other in others:
        world.metrics.publish("ours", {"InstanceId": instance_id, **other}, [percent] * 96)
    for name in ("CPUUtilization", "NetworkIn", "NetworkOut"):
        world.metrics.publish(name, {"InstanceId": instance_id}, [1.0] * 96)
    return instance_id


@pytest.mark.parametrize("stranger", STRANGERS)
def test_a_series_without_our_own_dimension_stands_for_no_silent_device(
    stranger: dict[str, str],
) -> None:
    """Slot 7 is silent. Another series at 0% does not take its place."""
    world = world_of(SLOTS)
    instance_id = add_slots(world, 7, [stranger])
    world.sweep()
    assert "no-data" == world.verdict(instance_id)


@pytest.mark.parametrize("name", ["index", "GpuDevice", "slot"])
def test_no_series_with_our_own_dimension_is_never_idle(name: str) -> None:
    """The policy names a dimension that nobody publishes, so some device may work unseen."""
    world = world_of(SLOTS)
    others = [{name: str(device)} for device in range(7)]
    instance_id = add_slots(world, 0, others)
    world.sweep()
    assert "no-data" == world.verdict(instance_id)


def test_each_override_has_its_own_profile() -> None:
    """One fleet: the agent's hosts by the document, EKS and Trainium by overrides."""
    world = world_of(
        """
overrides:
- {name: eks, match: {tags: {team: eks}}, set: {metrics: {profile: container-insights}}}
- {name: trn, match: {instance_families: [trn1]}, set: {metrics: {profile: neuron}}}
"""
    )
    eks = {"Purpose": "GPU-Workload", "team": "eks"}
    own = {"Purpose": "GPU-Workload"}
    verdict_by_id = {
        add(world, AGENT, [0.0] * 8, own): "idle",
        add(world, AGENT, [0.0] * 7 + [60.0], own): "partly-idle",
        add(world, CONTAINER_INSIGHTS, [0.0] * 8, eks): "idle",
        add(world, CONTAINER_INSIGHTS, [60.0] * 8, eks): "busy",
        add(world, NEURON, [0.0] * 32, own): "idle",
        add(world, NEURON, [0.0] * 31 + [60.0], own): "partly-idle",
        # It publishes by another profile than its own: nothing is known of it.
        add(world, CONTAINER_INSIGHTS, [0.0] * 8, own): "no-data",
    }
    world.sweep()
    assert verdict_by_id == {one: world.verdict(one) for one in verdict_by_id}


def test_aggregates_of_a_node_do_not_count_as_devices() -> None:
    """Container Insights publishes the node's average beside each GPU."""
    world = world_of("metrics: {profile: container-insights}")
    instance_id = add(world, CONTAINER_INSIGHTS, [0.0] * 7 + [60.0])
    world.metrics.publish("node_gpu_utilization", node(instance_id), [1.0] * 96)
    world.sweep()
    assert "partly-idle" == world.verdict(instance_id)


@pytest.mark.parametrize(
    ("layout", "metrics"),
    [(CONTAINER_INSIGHTS, "{profile: container-insights}"), (NEURON, "{profile: neuron}")],
)
def test_an_idle_eks_host_gets_the_command_for_its_node_group(layout: Layout, metrics: str) -> None:
    """It is measured, and left to its node group: nothing is done to it."""
    world = world_of(f"metrics: {metrics}")
    idle = add(world, layout, [0.0] * layout.parts, EKS_NODE)
    working = add(world, layout, [0.0] * (layout.parts - 1) + [60.0], EKS_NODE)
    summary = world.sweep()

    assert ("managed-elsewhere", "partly-idle") == (
        world.verdict(idle),
        world.verdict(working),
    )
    alerts = [one for one in world.announcer.sent if one.kind is AlertKind.MANAGED_IDLE]
    assert [[idle]] == [alert.facts["instance_ids"] for alert in alerts]
    text = "\n".join((alerts[0].subject, *alerts[0].lines))
    assert "EKS node group gpu of cluster prod" in text
    command = "--cluster-name prod --nodegroup-name gpu --scaling-config minSize=0"
    assert f"aws eks update-nodegroup-config {command}" in text
    assert (0, []) == (summary.episodes_started, world.ec2.calls)


def test_memory_in_bytes_does_not_keep_a_host() -> None:
    """A gibibyte of the 80 of an H100 is no work; 60 are."""
    for gibibytes, verdict in ((1, "idle"), (60, "busy")):
        document = "vetoes: {memory_used_percent: 50}\nmetrics: {profile: container-insights}"
        world = world_of(document)
        instance_id = add(world, CONTAINER_INSIGHTS, [0.0] * 8)
        for part in range(8):
            dimensions = insights(instance_id, part, CONTAINER_INSIGHTS.instance_type)
            reading = [gibibytes * 1024.0**3] * 96
            world.metrics.publish("node_gpu_memory_used", dimensions, reading)
        world.sweep()
        assert verdict == world.verdict(instance_id)


@pytest.mark.parametrize(
    ("layout", "metrics", "word"),
    [
        (CONTAINER_INSIGHTS, "{profile: container-insights}", "GPU"),
        (NEURON, "{profile: neuron}", "NeuronCore"),
    ],
)
def test_people_read_the_name_of_what_was_measured(layout: Layout, metrics: str, word: str) -> None:
    """A Trainium host has no GPU 17, and its cores are not accelerators."""
    world = world_of(f"metrics: {metrics}")
    silent = add(world, layout, [0.0] * (layout.parts - 1))
    working = add(world, layout, [60.0, 60.0, 60.0] + [0.0] * (layout.parts - 3))
    world.sweep()
    observations = world.state.observations(TARGET)

    seen = f"only {layout.parts - 1} of {layout.parts} {word}s publish utilization"
    assert observations[silent].reason.startswith(seen)
    assert ("MIG" in observations[silent].reason) is (word == "GPU")
    assert f"3 of {layout.parts} {word}s work" in observations[working].reason
    needed = "3 accelerators" if word == "GPU" else "3 NeuronCores"
    (advice,) = observations[working].advice
    assert advice.startswith(f"right-size: {word}s 3, 4")
    assert advice.endswith(f"A type with {needed} would do")


def test_more_series_than_the_policy_says_are_never_idle_and_name_the_setting() -> None:
    """20 of 32 cores publish, and the policy says one for each of 16 devices."""
    world = world_of(f"metrics: {{{OURS}}}")
    instance_id = add_series(world, "trn1.32xlarge", [0.0] * 20)
    world.sweep()
    assert "no-data" == world.verdict(instance_id)
    page = world.state.page(TARGET)
    assert page is not None
    [row] = page.rows
    assert "metrics.series_per_device" in row.reason
