"""A node group has the command that ends its nodes only if each of them is idle for sure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from governor.core.errors import AccessDenied
from governor.core.instance import Instance
from governor.scan.kinds.ec2_instance.kind import Ec2Instances
from governor.scan.kinds.groups.eks_node_group import EksNodeGroups
from governor.scan.model import Finding, Row
from governor.scan.scan_place import scan_place
from tests.unit.scan.ec2_world import World, instance
from tests.unit.scan.kinds import NOW, ApiTwin

GROUPS = "autoscaling:DescribeAutoScalingGroups"
NODE_GROUP = "eks:DescribeNodegroup"
TAGS = {"eks:cluster-name": "ml", "eks:nodegroup-name": "gpu"}
NODES = ("i-00000000000000001", "i-00000000000000002")
ARGUMENTS = "--region us-east-1 --cluster-name ml --nodegroup-name gpu"
SHOW = f"aws eks describe-nodegroup {ARGUMENTS}"
END = f"aws eks update-nodegroup-config {ARGUMENTS} --scaling-config minSize=0,desiredSize=0"
WARNING = "All 2 nodes of its group are idle: the command ends them and evicts their pods."


def answers(nodes: Sequence[str] = NODES, **more: Any) -> dict[str, Any]:
    """Return AWS's answers about the node group and the Auto Scaling group with these nodes."""
    in_service = {
        "InstanceType": "p5.48xlarge",
        "LifecycleState": "InService",
        "AvailabilityZone": "us-east-1a",
        "HealthStatus": "Healthy",
        "ProtectedFromScaleIn": False,
    }
    members = [{"InstanceId": node, **in_service} for node in nodes]
    group = {
        "AutoScalingGroupName": "eks-gpu",
        "MinSize": 2,
        "MaxSize": 8,
        "DesiredCapacity": 2,
        "DefaultCooldown": 300,
        "AvailabilityZones": ["us-east-1a"],
        "HealthCheckType": "EC2",
        "CreatedTime": NOW,
        "Instances": members,
        "Tags": [{"Key": key, "Value": value} for key, value in TAGS.items()],
    }
    scaling = {"minSize": 2, "maxSize": 8, "desiredSize": 2}
    node_group = {"nodegroupName": "gpu", "scalingConfig": scaling, **more}
    return {GROUPS: {"AutoScalingGroups": [group]}, NODE_GROUP: {"nodegroup": node_group}}


def world(percents: Sequence[float | None], described: Mapping[str, Any]) -> World:
    """Return a place with a node for each percentage. `None`: the node is not measured."""
    made = World(api=ApiTwin(described))
    for node, percent in zip(NODES, percents, strict=False):
        if percent is None:
            continue
        for device in range(8):
            made.metrics.publish(
                "ContainerInsights",
                "node_gpu_utilization",
                percent,
                ClusterName="ml",
                GpuDevice=f"nvidia{device}",
                InstanceId=node,
                NodeName="node",
            )
        made.metrics.quiet(node)
    return made


def rows_of(made: World, hosts: Sequence[Instance]) -> dict[str, Row]:
    """Return the rows of a place by the id of their resource."""
    made.ec2.instances = hosts
    report = scan_place(made.place(), [Ec2Instances(), EksNodeGroups()])
    return {row.resource.resource_id: row for row in report.rows}


def nodes(count: int = 2, **changes: Any) -> list[Instance]:
    """Return so many nodes of the group."""
    return [instance(node, tags={**TAGS, **changes}) for node in NODES[:count]]


def test_idle_nodes_have_the_command_that_ends_all_of_them() -> None:
    """A minimum of zero alone would end nothing. The rows say what the command does."""
    rows = rows_of(world([0.0, 0.0], answers()), nodes())
    assert {*NODES, "ml/gpu"} == rows.keys()
    for row in rows.values():
        assert END == row.command
        assert row.judgment.evidence.endswith(WARNING)
    assert Finding.KEEPS_RUNNING is rows["ml/gpu"].judgment.finding
    assert Decimal(0) == rows["ml/gpu"].own_usd_per_month


@pytest.mark.parametrize("second", [91.0, None])
def test_a_node_that_is_not_idle_for_sure_keeps_its_group(second: float | None) -> None:
    """It works, or nobody knows: the idle node beside it has no command that ends both."""
    rows = rows_of(world([0.0, second], answers()), nodes())
    assert Finding.IDLE is rows[NODES[0]].judgment.finding
    assert [SHOW, SHOW] == [rows[NODES[0]].command, rows["ml/gpu"].command]
    for row in rows.values():
        assert "evicts" not in row.judgment.evidence
        assert END != row.command


def test_a_node_that_the_report_lacks_keeps_its_group() -> None:
    """A node without accelerators, or with a record that cannot be read, has no row."""
    rows = rows_of(world([0.0, 0.0], answers()), nodes(1))
    assert [SHOW, SHOW] == [rows[NODES[0]].command, rows["ml/gpu"].command]


def test_a_node_that_the_group_lacks_keeps_its_group() -> None:
    """It has the group's tags, and works: it may have joined between two calls."""
    rows = rows_of(world([0.0, 91.0], answers(NODES[:1])), nodes())
    assert [SHOW, SHOW] == [rows[NODES[0]].command, rows["ml/gpu"].command]


def test_a_group_without_nodes_ends_none() -> None:
    """Nothing is idle where nothing runs."""
    described = answers(())
    group = described[GROUPS]["AutoScalingGroups"][0]
    group["MixedInstancesPolicy"] = {
        "LaunchTemplate": {"Overrides": [{"InstanceType": "p5.48xlarge"}]}
    }
    assert SHOW == rows_of(world([], described), [])["ml/gpu"].command


def test_an_exempt_node_keeps_its_group() -> None:
    """Its tag says that it is to be left alone."""
    first, second = nodes()
    exempt = replace(second, tags={**second.tags, "GpuGovernor": "exempt"})
    rows = rows_of(world([0.0, 0.0], answers()), [first, exempt])
    assert [SHOW, "", SHOW] == [rows[key].command for key in (*NODES, "ml/gpu")]


def test_an_exempt_group_keeps_its_nodes() -> None:
    """It has no command, and its nodes have none that ends it."""
    rows = rows_of(world([0.0, 0.0], answers(tags={"GpuGovernor": "exempt"})), nodes())
    assert [SHOW, SHOW, ""] == [rows[key].command for key in (*NODES, "ml/gpu")]


def test_nodes_of_a_group_that_cannot_be_read_have_a_command_that_shows_it() -> None:
    """Nobody knows then how many nodes it has."""
    denied = AccessDenied("x", operation=GROUPS, words="no right")
    rows = rows_of(world([0.0, 0.0], {GROUPS: denied}), nodes())
    assert [SHOW, SHOW] == [rows[node].command for node in NODES]
