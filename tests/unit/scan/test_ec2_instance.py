"""Running instances: judged by what their accelerators publish, or weakly by what is beside
them."""

from __future__ import annotations

import shlex
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from governor.core.catalog import family_patterns
from governor.core.errors import AccessDenied, CloudError, Throttled
from governor.core.instance import Lifecycle
from governor.evidence.model import Series
from governor.evidence.ports import SeriesFilter
from governor.policy.model.policy import Policy
from governor.scan.kinds.ec2_instance.kind import MOST_CREATORS
from governor.scan.kinds.ec2_instance.rules import figures_beside, finding_of
from governor.scan.model import Finding, Row, Strength
from governor.verdict.model import IdleParts, VerdictKind
from tests.unit.scan.ec2_world import OWN, PricesTwin, World, ago, instance
from tests.unit.scan.kinds import ApiTwin

UTILIZATION = "nvidia_smi_utilization_gpu"
NODE = {"ClusterName": "prod", "InstanceId": OWN, "NodeName": "ip-10-0-0-1"}
EKS = {"eks:cluster-name": "prod", "eks:nodegroup-name": "gpu nodes"}
DENIED = AccessDenied("x", operation="cloudwatch:ListMetrics", words="no right")


def agent(world: World, *values: Any, instance_id: str = OWN, namespace: str = "CWAgent") -> None:
    """The CloudWatch agent's series of each GPU, with little power, and EC2's quiet figures."""
    for index, value in enumerate(values):
        gpu = {"InstanceId": instance_id, "index": str(index), "name": "NVIDIA H100"}
        world.metrics.publish(namespace, "nvidia_smi_utilization_gpu", value, **gpu)
        world.metrics.publish(namespace, "nvidia_smi_power_draw", 70.0, **gpu)
    world.metrics.quiet(instance_id)


def insights(world: World, *values: Any) -> None:
    """Container Insights' series of each GPU, and of the node."""
    for index, value in enumerate(values):
        gpu = {**NODE, "InstanceType": "p5.48xlarge", "GpuDevice": f"nvidia{index}"}
        world.metrics.publish("ContainerInsights", "node_gpu_utilization", value, **gpu)
        world.metrics.publish("ContainerInsights", "node_gpu_power_draw", 70.0, **gpu)
    world.metrics.publish("ContainerInsights", "node_gpu_utilization", 0.0, **NODE)
    world.metrics.quiet()


def neuron(world: World, *values: Any) -> None:
    """Container Insights' series of each NeuronCore of a trn1.32xlarge."""
    for core, value in enumerate(values):
        names = {"NeuronDevice": f"device{core // 2}", "NeuronCore": f"core{core}"}
        dimensions = {**NODE, "InstanceType": "trn1.32xlarge", **names}
        world.metrics.publish(
            "ContainerInsights", "node_neuroncore_utilization", value, **dimensions
        )
    world.metrics.quiet()


def told(row: Row) -> tuple[Finding, Strength]:
    """The finding of a row and its strength."""
    return row.judgment.finding, row.judgment.strength


IDLE = (Finding.IDLE, Strength.STRONG)
BUSY = (Finding.BUSY, Strength.STRONG)
PARTLY = (Finding.PARTLY_IDLE, Strength.STRONG)
LIKELY = (Finding.LIKELY_IDLE, Strength.WEAK)
WEAKLY_BUSY = (Finding.BUSY, Strength.WEAK)
UNKNOWN = (Finding.NOT_MEASURED, Strength.NONE)


# By the accelerators' own figures.


def test_an_untagged_idle_instance_is_found_with_its_price_and_command() -> None:
    """Figure, time and publisher are in the sentence, and what a stop loses."""
    world = World()
    agent(world, *[0.0] * 7, 2.3)
    row = world.row(instance(tags={"Name": "old, =notebook"}))
    assert IDLE == told(row)
    assert (
        "No GPU passed 2.3% in 24 h (the CloudWatch agent, CWAgent; all 8 GPUs measured; "
        "CPU up to 2.0%; network up to 0.00 MB/s). Stopping it loses its local NVMe disks "
        "(8x3800 GB)." == row.judgment.evidence
    )
    assert f"aws ec2 stop-instances --region us-east-1 --instance-ids {OWN}" == row.command
    assert Decimal("40150.00") == row.waste_usd_per_month
    assert ago(hours=24) >= row.judgment.idle_since  # type: ignore[operator]
    assert ("old, =notebook", False) == (row.resource.name, row.resource.is_governed)
    assert "p5.48xlarge, 8 x NVIDIA H100" == row.resource.what


@pytest.mark.parametrize("publish", [agent, insights])
@pytest.mark.parametrize(
    ("last", "expected"), [(4.9, IDLE), (5.0, PARTLY), (100.0, PARTLY), (None, UNKNOWN)]
)
def test_one_gpu_of_eight_keeps_the_host(publish: Any, last: float | None, expected: Any) -> None:
    """Busy from the policy's threshold on, and unknown if it publishes nothing."""
    world = World()
    publish(world, *[0.0] * 7, *([] if last is None else [last]))
    row = world.row(instance())
    assert expected == told(row)
    parts = IdleParts(7, 8, "GPU") if expected == PARTLY else None
    assert parts == row.judgment.idle_parts


@pytest.mark.parametrize(
    ("last", "expected"), [(0.0, IDLE), (4.9, IDLE), (5.0, PARTLY), (None, UNKNOWN)]
)
def test_one_neuron_core_of_32_keeps_the_host(last: float | None, expected: Any) -> None:
    """A trn1.32xlarge has 16 devices with two cores each."""
    world = World()
    neuron(world, *[0.0] * 31, *([] if last is None else [last]))
    row = world.row(instance(instance_type="trn1.32xlarge"))
    assert expected == told(row)
    if expected == IDLE:
        assert "all 32 NeuronCores measured" in row.judgment.evidence
    if expected == PARTLY:
        assert "partly idle: 31 of 32 NeuronCores" == row.judgment.finding_text


def test_work_earlier_in_the_day_is_no_idleness() -> None:
    """The last hour was quiet, but six hours ago every GPU worked."""
    world = World()
    worked = (*(0.0,) * 200, *(90.0,) * 16, *(0.0,) * 72)
    agent(world, *[worked] * 8)
    row = world.row(instance())
    assert BUSY == told(row)
    assert "" == row.command
    assert Decimal() == row.waste_usd_per_month


def test_busy_gpus_with_much_cpu_are_busy() -> None:
    """40% CPU is never called idle, whatever the GPUs do."""
    world = World()
    agent(world, *[80.0] * 8)
    world.metrics.quiet(changes={"CPUUtilization": 40.0})
    assert BUSY == told(world.row(instance()))


def test_quiet_gpus_with_much_cpu_are_busy() -> None:
    """The product's own veto."""
    world = World()
    agent(world, *[0.0] * 8)
    world.metrics.quiet(changes={"CPUUtilization": 40.0})
    row = world.row(instance())
    assert BUSY == told(row)
    assert "CPU reached 40.0%" in row.judgment.evidence


@pytest.mark.parametrize(
    ("hours", "expected", "length"),
    [(0.2, Finding.TOO_YOUNG, ""), (3, Finding.IDLE, "in 1 h "), (30, Finding.IDLE, "in 24 h ")],
)
def test_a_day_is_looked_at_where_the_instance_has_run_that_long(
    hours: float, expected: Finding, length: str
) -> None:
    """Else the policy's window, and nothing before its grace."""
    world = World()
    agent(world, *[0.0] * 8)
    row = world.row(instance(launch_time=ago(hours=hours)))
    assert expected is row.judgment.finding
    assert length in row.judgment.evidence


def test_an_exempt_instance_is_left_alone() -> None:
    """Its metrics are not even read."""
    world = World()
    agent(world, *[0.0] * 8)
    row = world.row(instance(tags={"GpuGovernor": "exempt"}))
    assert Finding.EXEMPT is row.judgment.finding
    assert [] == world.metrics.lists


def test_zeros_in_one_namespace_do_not_hide_work_in_another() -> None:
    """Anybody may publish under a known name."""
    world = World()
    agent(world, *[0.0] * 8, namespace="Forged")
    agent(world, *[50.0] * 8, namespace="CWAgent")
    assert BUSY == told(world.row(instance()))
    other_profile = World()
    agent(other_profile, *[0.0] * 8)
    insights(other_profile, *[50.0] * 8)
    assert BUSY == told(other_profile.row(instance()))


def test_a_namespace_of_its_own_shows_work_that_forged_zeros_hide() -> None:
    """Only the role of the instance may publish there."""
    world = World()
    agent(world, *[0.0] * 8, namespace="GPU/EC2")
    own = f"GPU/EC2/AROAEXAMPLE:{OWN}"
    world.metrics.publish(own, "nvidia_smi_utilization_gpu", 70.0, InstanceId=OWN)
    assert BUSY == told(world.row(instance()))
    world.metrics.publish(own, "nvidia_smi_utilization_gpu", 0.0, InstanceId=OWN)
    assert IDLE == told(world.row(instance()))


def test_series_of_another_instance_s_own_namespace_are_not_believed() -> None:
    """A namespace that names another instance is no publisher of this one."""
    world = World()
    world.metrics.quiet()
    other = "GPU/EC2/AROAEXAMPLE:i-0fffffffffffffff0"
    world.metrics.publish(other, "nvidia_smi_utilization_gpu", 0.0, InstanceId=OWN)
    assert LIKELY == told(world.row(instance()))


def test_the_interval_of_an_agent_is_no_matter_where_each_gpu_has_a_series() -> None:
    """Its aggregate would be counted by the samples of a minute."""
    world = World()
    agent(world, *[0.0] * 8)
    world.metrics.publish("CWAgent", UTILIZATION, 0.0, InstanceId=OWN)
    assert IDLE == told(world.row(instance()))


@pytest.mark.parametrize("name", ["=cmd|'/c calc'!A1", "a, b\n\x1b[31mred", "\N{FIRE}" * 60])
def test_odd_names_stay_on_one_line(name: str) -> None:
    """In the name, the namespace and the tags of a service."""
    world = World()
    agent(world, *[0.0] * 8, namespace=name)
    row = world.row(instance(tags={"Name": name, "aws:autoscaling:groupName": name}))
    assert IDLE == told(row)
    for text in (row.resource.name, row.judgment.evidence):
        assert text.isprintable()
    assert name in shlex.split(row.command)


# Who runs it, and what ends the waste.


def test_an_idle_eks_node_has_its_node_group_and_a_command_that_shows_it() -> None:
    """It is never stopped by its own row. A minimum of zero would end nothing, and a desired size
    of zero would end nodes that work."""
    world = World()
    insights(world, *[0.0] * 8)
    row = world.row(instance(tags=EKS))
    assert IDLE == told(row)
    assert "Amazon EKS" == row.resource.manager
    assert "Amazon EKS runs it (EKS node group gpu nodes of cluster prod)." in row.judgment.evidence
    assert (
        "aws eks describe-nodegroup --region us-east-1 --cluster-name prod "
        "--nodegroup-name 'gpu nodes'" == row.command
    )


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (
            {"aws:autoscaling:groupName": "a; rm -rf /"},
            "aws autoscaling update-auto-scaling-group --region us-east-1 "
            "--auto-scaling-group-name 'a; rm -rf /' --min-size 0",
        ),
        (
            {"aws:batch:compute-environment": "arn:aws:batch:us-east-1:1:compute-environment/ce"},
            "aws batch update-compute-environment --region us-east-1 --compute-environment ce "
            "--compute-resources minvCpus=0",
        ),
        ({"karpenter.sh/nodepool": "gpu"}, ""),
        ({"eks:cluster-name": "prod"}, ""),
    ],
)
def test_a_managed_instance_is_shrunk_by_its_service(tags: dict[str, str], expected: str) -> None:
    """Names are quoted. Where no command is known there is none, and never a stop."""
    world = World()
    agent(world, *[0.0] * 8)
    row = world.row(instance(tags=tags))
    assert IDLE == told(row)
    assert expected == row.command
    assert "stop-instances" not in row.command


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"root_device_type": "instance-store"}, "cannot be stopped, only terminated"),
        ({"lifecycle": Lifecycle.UNKNOWN}, "bought like this is not known"),
        ({"lifecycle": Lifecycle.SPOT}, "Spot instance can be stopped is not known"),
    ],
)
def test_what_cannot_be_stopped_has_no_command(changes: dict[str, Any], note: str) -> None:
    """A termination loses disks, so it is never proposed."""
    world = World()
    agent(world, *[0.0] * 8)
    row = world.row(instance(**changes))
    assert IDLE == told(row)
    assert "" == row.command
    assert note in row.judgment.evidence


@pytest.mark.parametrize(
    ("spot_type", "has_command"), [("one-time", False), ("persistent", True), (None, False)]
)
def test_only_a_persistent_spot_instance_can_be_stopped(
    spot_type: str | None, has_command: bool
) -> None:
    """All requests of a place are asked about in one call."""
    record = {"SpotInstanceRequestId": "sir-1", "Type": spot_type}
    requests = [record] if spot_type else []
    answers = {"ec2:DescribeSpotInstanceRequests": {"SpotInstanceRequests": requests}}
    world = World(api=ApiTwin(answers))
    agent(world, *[0.0] * 8)
    row = world.row(instance(lifecycle=Lifecycle.SPOT, spot_request_id="sir-1"))
    assert has_command is ("stop-instances" in row.command)
    assert "terminate" not in row.command
    assert 1 == world.api.count("ec2:DescribeSpotInstanceRequests")


def test_capacity_that_is_paid_for_is_no_waste_of_the_instance() -> None:
    """A Capacity Block costs the same if its instance is stopped."""
    world = World()
    agent(world, *[0.0] * 8)
    row = world.row(instance(lifecycle=Lifecycle.CAPACITY_BLOCK))
    assert Decimal() == row.waste_usd_per_month
    assert row.resource.is_prepaid
    assert "stopping it saves nothing" in row.judgment.evidence
    # A stop would lose the local disks and save nothing.
    assert not row.command


def test_an_unknown_price_stays_unknown() -> None:
    """It is never zero."""
    world = World()
    agent(world, *[0.0] * 8)
    row = world.row(instance(instance_type="p4d.24xlarge"))
    assert row.usd_per_hour is None


# Beside the accelerators.


def test_without_series_of_its_own_a_quiet_host_is_likely_idle_and_never_stopped() -> None:
    """Case m10. The sentence has every figure, and the command only looks closer."""
    world = World()
    world.metrics.quiet()
    row = world.row(instance())
    assert LIKELY == told(row)
    evidence = row.judgment.evidence
    assert evidence.startswith(
        "Quiet for 24 h according to EC2's metrics (CPU up to 2.0%, network traffic up to "
        "0.00 MB/s, "
    )
    assert evidence.endswith(
        ", disk traffic up to 0.00 MB/s, disk operations up to 1.0/s); its GPUs are not measured; "
        "docs/telemetry.md says how to measure them."
    )
    for figure in figures_beside(Policy()).values():
        assert figure.is_listed or f"{figure.words} up to " in evidence
    assert (
        "aws cloudwatch list-metrics --region us-east-1 --dimensions "
        f"Name=InstanceId,Value={OWN} --recently-active PT3H" == row.command
    )


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("CPUUtilization", 40.0, "CPU reached 40.0% within 24 h"),
        ("CPUUtilization", 30.0, "CPU reached 30.0%"),
        ("NetworkIn", 300_000_000.0, "Network traffic reached 1.00 MB/s"),
        ("EBSReadBytes", 300_000_000.0, "Disk traffic reached 1.00 MB/s"),
        ("EBSWriteOps", 30_000.0, "Disk operations reached 100.0/s"),
    ],
)
def test_one_high_figure_is_weak_evidence_of_work(metric: str, value: float, text: str) -> None:
    """At its limit, in a single period of the day."""
    quiet_day = (1.0,) * 287
    world = World()
    world.metrics.quiet(changes={metric: (*quiet_day, value)})
    row = world.row(instance())
    assert WEAKLY_BUSY == told(row)
    assert text in row.judgment.evidence
    assert "" == row.command


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("CPUUtilization", 29.9),
        ("NetworkOut", 299_000_000.0),
        ("EBSWriteBytes", 299_000_000.0),
        ("EBSReadOps", 29_000.0),
    ],
)
def test_a_figure_under_its_limit_is_quiet(metric: str, value: float) -> None:
    """Just under it."""
    world = World()
    world.metrics.quiet(changes={metric: (*(1.0,) * 287, value)})
    assert LIKELY == told(world.row(instance()))


@pytest.mark.parametrize("metric", ["CPUUtilization", "NetworkOut", "EBSReadBytes", "EBSWriteOps"])
@pytest.mark.parametrize(
    "series",
    [
        None,
        (*(1.0,) * 284, *(None,) * 4),
        (*(1.0,) * 100, *(None,) * 4, *(1.0,) * 184),
        (1.0,) * 200,
    ],
)
def test_a_hole_in_a_figure_is_not_idleness(metric: str, series: Any) -> None:
    """Missing, silent at the end, a hole of 20 minutes, or a part of the day."""
    world = World()
    world.metrics.quiet(changes={metric: series})
    row = world.row(instance())
    assert UNKNOWN == told(row)
    assert "Not measured over 24 h" in row.judgment.evidence


def test_a_short_hole_is_allowed() -> None:
    """EC2 skips a value now and then."""
    world = World()
    world.metrics.quiet(changes={"CPUUtilization": (*(1.0,) * 100, *(None,) * 3, *(1.0,) * 185)})
    assert LIKELY == told(world.row(instance()))


@pytest.mark.parametrize(
    ("percent", "expected"), [(0.9, LIKELY), (4.9, LIKELY), (5.0, WEAKLY_BUSY)]
)
def test_ec2_s_own_power_of_one_gpu_shows_work(percent: float, expected: Any) -> None:
    """In percent. It is found by a listing, whatever its dimensions are."""
    world = World()
    world.metrics.quiet()
    for gpu, value in enumerate((0.5, percent)):
        dimensions = {"InstanceId": OWN, "GpuId": str(gpu)}
        world.metrics.publish("AWS/EC2", "GPUPowerUtilization", value, **dimensions)
    row = world.row(instance())
    assert expected == told(row)
    assert "GPUPowerUtilization" in row.judgment.evidence


def test_a_gpu_without_power_is_not_idleness() -> None:
    """One of two GPUs has no reading."""
    world = World()
    world.metrics.quiet()
    readings: tuple[float | Series, ...] = (0.5, (None,))
    for gpu, value in enumerate(readings):
        dimensions = {"InstanceId": OWN, "GpuId": str(gpu)}
        world.metrics.publish("AWS/EC2", "GPUPowerUtilization", value, **dimensions)
    assert UNKNOWN == told(world.row(instance()))


def test_the_command_of_a_weak_row_is_quoted() -> None:
    """An id is EC2's, and still nothing of it reaches a shell unquoted."""
    world = World()
    row = world.row(instance(instance_id="i-1; rm -rf /"))
    assert "Name=InstanceId,Value=i-1; rm -rf /" in shlex.split(row.command)


# Field cases.

RENAMED = {"index": "0", "name": "A10G", "host": "a"}
RENAMED_LATER = {"index": "0", "name": "NVIDIA A10G", "host": "b"}


def test_a_node_sum_of_container_insights_hides_no_gpu() -> None:
    """aws/amazon-cloudwatch-agent#1090: a sum over the node stands beside each of four GPUs."""
    world = World()
    insights(world, *[0.0] * 4)
    assert IDLE == told(world.row(instance(instance_type="g5.12xlarge")))
    without_one = World()
    insights(without_one, *[0.0] * 3)
    assert UNKNOWN == told(without_one.row(instance(instance_type="g5.12xlarge")))


def test_an_instance_without_any_metric_is_not_measured() -> None:
    """cloud-custodian#336: no figure at all, not even EC2's."""
    assert UNKNOWN == told(World().row(instance(instance_type="g5.xlarge")))


def test_a_host_whose_dimensions_change_is_still_one_gpu() -> None:
    """amazon-cloudwatch-agent#981: half of the hour under one name, then work under another."""
    world = World()
    quiet_then_nothing = (*(0.0,) * 6, *(None,) * 6)
    nothing_then_work = (*(None,) * 6, *(90.0,) * 6)
    world.metrics.publish("CWAgent", UTILIZATION, quiet_then_nothing, InstanceId=OWN, **RENAMED)
    world.metrics.publish(
        "CWAgent", UTILIZATION, nothing_then_work, InstanceId=OWN, **RENAMED_LATER
    )
    world.metrics.quiet()
    assert BUSY == told(world.row(instance(instance_type="g5.xlarge")))


@pytest.mark.parametrize(("watts", "expected"), [(500.0, BUSY), (70.0, IDLE)])
def test_power_under_other_dimensions_contradicts_a_low_utilization(
    watts: float, expected: Any
) -> None:
    """NVIDIA/dcgm-exporter#216: utilization of parts, power of the whole GPU."""
    world = World()
    names = {"index": "0", "name": "H100"}
    world.metrics.publish("CWAgent", UTILIZATION, 1.0, InstanceId=OWN, **names)
    world.metrics.publish("CWAgent", "nvidia_smi_power_draw", watts, InstanceId=OWN, index="0")
    world.metrics.quiet()
    assert expected == told(world.row(instance(instance_type="p5.4xlarge")))


# Refusals and size.


def test_a_refused_listing_leaves_everything_unknown_and_says_so() -> None:
    """The accelerators may publish work that could not be seen."""
    world = World()
    agent(world, *[0.0] * 8)
    world.metrics.refused = {"nvidia_smi_utilization_gpu": DENIED}
    report = world.report(instance())
    assert [UNKNOWN] == [told(row) for row in report.rows]
    (line,) = report.unread
    assert ("cloudwatch:ListMetrics", True) == (line.operation, line.is_missing_right)
    assert 1 == len(world.metrics.lists)


def test_one_listing_of_many_that_fails_keeps_those_that_publish_elsewhere() -> None:
    """An instance whose publisher is known is judged; another may have the one that was not
    read."""
    world = World()
    agent(world, *[0.0] * 8)
    world.metrics.quiet("i-0fffffffffffffff0")
    throttled = Throttled("x", operation="cloudwatch:ListMetrics", words="too many")
    world.metrics.refused = {"DCGM_FI_DEV_GPU_UTIL": throttled}
    report = world.report(instance(), instance("i-0fffffffffffffff0"))
    assert [IDLE, UNKNOWN] == [told(row) for row in report.rows]
    assert 1 == len(report.unread)


def test_a_read_that_fails_is_reported_and_never_idleness() -> None:
    """Both for series of accelerators and for figures beside them."""
    for publish in (agent, lambda world: world.metrics.quiet()):
        world = World()
        publish(world, *([0.0] * 8 if publish is agent else []))
        world.metrics.problem = "InternalError"
        report = world.report(instance())
        assert [UNKNOWN] == [told(row) for row in report.rows]
        assert ["cloudwatch:GetMetricData"] == [line.operation for line in report.unread]


def test_a_missing_right_to_read_figures_is_named_as_one() -> None:
    """CloudWatch's refusal comes as text."""
    world = World()
    agent(world, *[0.0] * 8)
    world.metrics.problem = "cloudwatch:GetMetricData failed: AccessDenied: no"
    (line,) = world.report(instance()).unread
    assert line.is_missing_right


def test_an_instance_whose_record_cannot_be_read_costs_only_its_own_row() -> None:
    """And a line says so."""
    world = World()
    agent(world, *[0.0] * 8)
    world.ec2.odd = {"i-0fffffffffffffff0": "no InstanceType"}
    report = world.report(instance())
    assert [IDLE] == [told(row) for row in report.rows]
    (line,) = report.unread
    assert "i-0fffffffffffffff0: no InstanceType" in line.reason


def test_a_record_without_an_id_is_reported_by_its_reason_alone() -> None:
    """As when a proxy answers a page of its own."""
    world = World()
    world.ec2.odd = {"": "ec2:DescribeInstances gave a record that cannot be read"}
    (line,) = world.report().unread
    assert (
        "records that cannot be read are left out: "
        "ec2:DescribeInstances gave a record that cannot be read"
    ) == line.reason


def test_a_refused_list_of_instances_is_a_line() -> None:
    """The other kinds of the place go on."""
    error = AccessDenied("x", operation="ec2:DescribeInstances", words="no right")
    world = World()
    world.ec2.error = error
    report = world.report()
    assert () == report.rows
    assert ["ec2:DescribeInstances"] == [line.operation for line in report.unread]


def test_an_empty_place_costs_one_call() -> None:
    """No metric is listed without an instance."""
    world = World()
    assert () == world.report().rows
    assert [] == world.metrics.lists
    assert not world.metrics.reads


def test_only_names_of_the_vendors_that_run_are_asked_for() -> None:
    """And never every series of a place."""
    world = World()
    neuron(world, *[0.0] * 32)
    world.row(instance(instance_type="trn1.32xlarge"))
    asked = {wanted.metric for wanted in world.metrics.lists if wanted.metric}
    assert asked == {
        "node_neuroncore_utilization",
        "neuroncore_utilization",
        "neuroncore_utilization_ratio",
        "GPUPowerUtilization",
    }
    assert SeriesFilter(None, None) not in world.metrics.lists


def test_a_thousand_instances_are_one_pass_a_name() -> None:
    """Nothing is listed or looked up for each of them."""
    world = World(prices=_flat())
    instances = []
    for number in range(1_000):
        instance_id = f"i-{number:017x}"
        instances.append(instance(instance_id, "g5.xlarge"))
        value = 0.0 if number % 2 else 90.0
        gpu = {"InstanceId": instance_id, "index": "0", "name": "NVIDIA A10G"}
        world.metrics.publish("CWAgent", "nvidia_smi_utilization_gpu", value, **gpu)
        if number % 100 == 1:
            world.metrics.quiet(instance_id)
    report = world.report(*instances)
    findings = [row.judgment.finding for row in report.rows]
    assert (500, 10) == (findings.count(Finding.BUSY), findings.count(Finding.IDLE))
    assert 490 == findings.count(Finding.NOT_MEASURED)
    assert len(world.metrics.lists) <= 16
    assert MOST_CREATORS == len(world.ec2.asked)


def _flat() -> PricesTwin:
    """Prices of one type."""
    return PricesTwin({"g5.xlarge": "1"})


# Creators.


def test_only_the_most_expensive_waste_has_its_creator() -> None:
    """CloudTrail allows two lookups a second."""
    world = World()
    ids = [f"i-{number:017x}" for number in range(4)]
    for instance_id in ids:
        agent(world, *[0.0] * 8, instance_id=instance_id)
    world.ec2.launched_by = dict.fromkeys(ids, "arn:aws:iam::1:user/ada")
    report = world.report(*[instance(instance_id) for instance_id in ids])
    creators = [row.resource.creator for row in report.rows if row.resource.creator]
    assert ["arn:aws:iam::1:user/ada"] * MOST_CREATORS == creators
    assert MOST_CREATORS == len(world.ec2.asked)


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (AccessDenied("x", operation="cloudtrail:LookupEvents", words="no right"), 1),
        (CloudError("x", operation="cloudtrail:LookupEvents", words="slow down"), 0),
    ],
)
def test_a_creator_that_cannot_be_read_is_unknown(error: CloudError, lines: int) -> None:
    """A missing permission is a line of the report; the rows stay."""
    world = World()
    agent(world, *[0.0] * 8)
    world.ec2.trail_error = error
    report = world.report(instance())
    assert [None] == [row.resource.creator for row in report.rows]
    assert lines == len(report.unread)


def test_busy_instances_cost_no_lookup() -> None:
    """Nobody is asked about who works."""
    world = World()
    agent(world, *[90.0] * 8)
    world.row(replace(instance(), tags={"Purpose": "GPU-Workload"}))
    assert [] == world.ec2.asked


@pytest.mark.parametrize(
    ("instance_type", "publish"),
    [("p6e-gb200.36xlarge", agent), ("trn2u.48xlarge", neuron)],
)
def test_a_type_with_an_unknown_number_of_accelerators_is_listed_and_never_idle(
    instance_type: str, publish: Any
) -> None:
    """EC2 is asked for its family, and no zeros prove that none of its accelerators works."""
    assert f"{instance_type.partition('.')[0]}.*" in family_patterns()
    world = World()
    publish(world, 0.0, 0.0, 0.0, 0.0)
    row = world.row(instance(instance_type=instance_type))
    assert UNKNOWN == told(row)
    assert instance_type == row.resource.what


def test_each_verdict_is_a_finding() -> None:
    """A verdict without one would leave the instance out of the report."""
    findings = {kind: finding_of(kind) for kind in VerdictKind}
    assert Finding.IDLE is findings[VerdictKind.MANAGED_ELSEWHERE]
    assert Finding.EXEMPT is findings[VerdictKind.SNOOZED]
    assert Finding.PARTLY_IDLE is findings[VerdictKind.PARTLY_IDLE]
