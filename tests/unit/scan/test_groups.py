"""Groups and fleets that keep accelerated instances running are shown, and never count as waste."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from shlex import split
from typing import Any

import pytest

from governor.core.errors import AccessDenied, NotFound
from governor.scan.kind import Kind
from governor.scan.kinds.groups.auto_scaling_group import AutoScalingGroups
from governor.scan.kinds.groups.batch_environment import BatchEnvironments
from governor.scan.kinds.groups.eks_node_group import EksNodeGroups
from governor.scan.kinds.groups.fleets import Ec2Fleets, SpotFleets
from governor.scan.kinds.groups.rules import Choice, least_usd_per_hour
from governor.scan.model import Finding, Row
from governor.scan.scan_place import PlaceReport, scan_place
from tests.unit.scan.kinds import NOW, ApiTwin, PricesTwin, place
from tests.unit.scan.shapes import is_command_of_aws

GROUPS = "autoscaling:DescribeAutoScalingGroups"
CONFIGURATIONS = "autoscaling:DescribeLaunchConfigurations"
TEMPLATES = "ec2:DescribeLaunchTemplateVersions"
NODE_GROUP = "eks:DescribeNodegroup"
ENVIRONMENTS = "batch:DescribeComputeEnvironments"
SPOT_FLEETS = "ec2:DescribeSpotFleetRequests"
FLEETS = "ec2:DescribeFleets"
USD = {"g5.xlarge": Decimal(1), "g5.12xlarge": Decimal(5), "p5.48xlarge": Decimal(50)}


def scan(kind: Kind[Any, Any], answers: Mapping[str, Any], *, is_odd: bool = False) -> PlaceReport:
    """Return the report on one kind. AWS answers as the test says, and no other operation."""
    api = ApiTwin(answers, is_odd=is_odd)
    report = scan_place(place(api=api, prices=PricesTwin(USD)), [kind])
    assert {name for name, _ in api.calls} <= set(kind.operations)
    return report


def only_row(kind: Kind[Any, Any], answers: Mapping[str, Any]) -> Row:
    """Return the only row of a kind. Nothing was unreadable."""
    report = scan(kind, answers)
    assert () == report.unread
    (row,) = report.rows
    if row.command:
        is_command_of_aws(row.command)
    return row


def instances(*types: str, state: str = "InService") -> list[dict[str, Any]]:
    """Return instances of a group as Auto Scaling describes them."""
    described: list[dict[str, Any]] = []
    for number, instance_type in enumerate(types):
        instance = {
            "InstanceId": f"i-{number}",
            "InstanceType": instance_type,
            "AvailabilityZone": "us-east-1a",
            "LifecycleState": state,
            "HealthStatus": "Healthy",
            "ProtectedFromScaleIn": False,
        }
        described.append(instance)
    return described


def group(minimum: int = 1, **changes: Any) -> dict[str, Any]:
    """Return a group with an instance of an accelerated type, unless the test says otherwise."""
    return {
        "AutoScalingGroupName": "trainers",
        "MinSize": minimum,
        "MaxSize": 8,
        "DesiredCapacity": minimum,
        "DefaultCooldown": 300,
        "AvailabilityZones": ["us-east-1a"],
        "HealthCheckType": "EC2",
        "CreatedTime": NOW,
        "Instances": instances("g5.xlarge"),
        **changes,
    }


def groups(*described: Mapping[str, Any]) -> dict[str, Any]:
    """Return Auto Scaling's answer."""
    return {GROUPS: {"AutoScalingGroups": list(described)}}


def tag(key: str, value: str) -> dict[str, str]:
    """Return a tag as Auto Scaling describes it."""
    return {"Key": key, "Value": value}


def template(instance_type: str | None = None, **data: Any) -> dict[str, Any]:
    """Return EC2's answer about a launch template."""
    if instance_type is not None:
        data["InstanceType"] = instance_type
    return {"LaunchTemplateVersions": [{"LaunchTemplateId": "lt-1", "LaunchTemplateData": data}]}


def mixed(*overrides: Mapping[str, Any], **distribution: Any) -> dict[str, Any]:
    """Return a mixed instances policy with these overrides."""
    launch_template = {
        "LaunchTemplateSpecification": {"LaunchTemplateId": "lt-1", "Version": "3"},
        "Overrides": list(overrides),
    }
    return {"LaunchTemplate": launch_template, "InstancesDistribution": distribution}


def requirements(**accelerators: int) -> dict[str, Any]:
    """Return requirements of an instance, with this number of accelerators."""
    return {
        "VCpuCount": {"Min": 4},
        "MemoryMiB": {"Min": 1024},
        "AcceleratorCount": accelerators,
    }


def test_a_group_says_what_its_minimum_costs_and_how_to_lower_it() -> None:
    """It is information: its instances are rows of their own."""
    row = only_row(AutoScalingGroups(), groups(group(2)))
    assert Finding.KEEPS_RUNNING is row.judgment.finding
    assert Decimal(2) == row.usd_per_hour
    assert Decimal() == row.waste_usd_per_month
    assert "2 x g5.xlarge, 1 x NVIDIA A10G each" == row.resource.what
    assert "minimum size is 2" in row.judgment.evidence
    assert "1 instance in service" in row.judgment.evidence
    expected = (
        "aws autoscaling update-auto-scaling-group --region us-east-1 "
        "--auto-scaling-group-name trainers --min-size 0"
    )
    assert expected == row.command


@pytest.mark.parametrize(("minimum", "rows"), [(0, 0), (1, 1)])
def test_only_a_minimum_above_zero_keeps_instances(minimum: int, rows: int) -> None:
    """A group may shrink to nothing by itself otherwise."""
    assert rows == len(scan(AutoScalingGroups(), groups(group(minimum))).rows)


def test_a_group_without_accelerators_is_left_out() -> None:
    """It belongs to another report."""
    described = groups(group(Instances=instances("m5.large")))
    assert PlaceReport((), ()) == scan(AutoScalingGroups(), described)


def test_an_empty_region_takes_one_call_for_groups_and_node_groups() -> None:
    """Both kinds read the same list."""
    api = ApiTwin(groups())
    report = scan_place(place(api=api), [AutoScalingGroups(), EksNodeGroups()])
    assert PlaceReport((), ()) == report
    assert 1 == len(api.calls)


def test_all_pages_are_read() -> None:
    """Auto Scaling gives 100 groups a page."""
    pages = [{"AutoScalingGroups": [group(AutoScalingGroupName=f"g-{n}")]} for n in range(3)]
    report = scan(AutoScalingGroups(), {GROUPS: pages})
    assert 3 == len(report.rows)


@pytest.mark.parametrize(
    "launch",
    [
        {"LaunchTemplate": {"LaunchTemplateId": "lt-1", "Version": "$Latest"}},
        {"LaunchTemplate": {"LaunchTemplateName": "gpu"}},
        {"MixedInstancesPolicy": mixed()},
    ],
)
def test_a_group_without_instances_is_known_by_its_template(launch: dict[str, Any]) -> None:
    """EC2 may have no capacity for its instances now."""
    described = group(Instances=[], **launch)
    answers = {**groups(described), TEMPLATES: template("p5.48xlarge")}
    row = only_row(AutoScalingGroups(), answers)
    assert Decimal(50) == row.usd_per_hour
    assert "0 instances in service" in row.judgment.evidence
    assert Decimal() == row.waste_usd_per_month


def test_a_template_is_read_once_for_all_its_groups() -> None:
    """A fleet of groups often shares one."""
    launch = {"LaunchTemplateId": "lt-1", "Version": "$Latest"}
    described = [
        group(AutoScalingGroupName=f"g-{n}", Instances=[], LaunchTemplate=launch) for n in range(9)
    ]
    api = ApiTwin({**groups(*described), TEMPLATES: template("g5.xlarge")})
    report = scan_place(place(api=api, prices=PricesTwin(USD)), [AutoScalingGroups()])
    assert 9 == len(report.rows)
    assert 1 == api.count(TEMPLATES)


def test_a_group_without_instances_is_known_by_its_launch_configuration() -> None:
    """Old groups still have one."""
    configuration = {
        "LaunchConfigurationName": "old",
        "ImageId": "ami-1",
        "InstanceType": "g5.xlarge",
        "CreatedTime": NOW,
    }
    answers = {
        **groups(group(Instances=[], LaunchConfigurationName="old")),
        CONFIGURATIONS: {"LaunchConfigurations": [configuration]},
    }
    assert Decimal(1) == only_row(AutoScalingGroups(), answers).usd_per_hour


def test_the_cheapest_of_mixed_types_is_the_least_by_its_weight() -> None:
    """Six units are six small instances, or two large ones of weight four."""
    overrides = [
        {"InstanceType": "g5.xlarge", "WeightedCapacity": "1"},
        {"InstanceType": "g5.12xlarge", "WeightedCapacity": "4"},
    ]
    row = only_row(AutoScalingGroups(), groups(group(6, MixedInstancesPolicy=mixed(*overrides))))
    assert Decimal(6) == row.usd_per_hour
    assert "6 x g5.xlarge, 1 x NVIDIA A10G each, or 1 other type" == row.resource.what


def test_a_type_without_a_price_leaves_the_least_unknown() -> None:
    """A group may launch that one: `None`, never a price of another type."""
    policy = mixed({"InstanceType": "g5.xlarge"}, {"InstanceType": "m5.large"})
    row = only_row(AutoScalingGroups(), groups(group(MixedInstancesPolicy=policy)))
    assert row.usd_per_hour is None


def test_a_group_of_spot_instances_has_the_spot_price() -> None:
    """The twin's Spot price is half of the list price."""
    policy = mixed(
        {"InstanceType": "g5.xlarge"},
        OnDemandBaseCapacity=0,
        OnDemandPercentageAboveBaseCapacity=0,
    )
    row = only_row(AutoScalingGroups(), groups(group(MixedInstancesPolicy=policy)))
    assert Decimal("0.5") == row.usd_per_hour


def test_accelerators_by_attributes_are_shown_without_a_price() -> None:
    """Any type may come."""
    policy = mixed({"InstanceRequirements": requirements(Min=1)})
    described = group(3, Instances=[], MixedInstancesPolicy=policy)
    row = only_row(AutoScalingGroups(), groups(described))
    assert "3 x accelerated instances by attributes" == row.resource.what
    assert row.usd_per_hour is None


def test_attributes_without_accelerators_are_left_out() -> None:
    """A maximum of zero asks for none."""
    policy = mixed({"InstanceRequirements": requirements(Max=0)})
    described = group(Instances=[], MixedInstancesPolicy=policy)
    report = scan(AutoScalingGroups(), {**groups(described), TEMPLATES: template()})
    assert PlaceReport((), ()) == report


@pytest.mark.parametrize(
    "name", ["a, b", "=cmd|' /C calc'!A0", 'x"; rm -rf / #', "🚀 idle", "$(reboot)", "-min-size"]
)
def test_a_name_is_one_word_of_the_command(name: str) -> None:
    """Anybody may name a group."""
    row = only_row(AutoScalingGroups(), groups(group(AutoScalingGroupName=name)))
    words = split(row.command)
    if name.startswith("-"):
        assert f"--auto-scaling-group-name={name}" in words
    else:
        assert name == words[words.index("--auto-scaling-group-name") + 1]
    assert ["--min-size", "0"] == words[-2:]


def test_a_record_in_another_form_costs_its_own_row() -> None:
    """It is left out, and the report says so."""
    odd = group()
    del odd["MinSize"]
    report = scan(AutoScalingGroups(), groups(odd, group()), is_odd=True)
    assert 1 == len(report.rows)
    (line,) = report.unread
    assert "left out" in line.reason


def test_a_refusal_costs_the_kind_and_names_the_right() -> None:
    """All other kinds are still read."""
    denied = AccessDenied("x", operation=GROUPS, words="no right")
    report = scan(AutoScalingGroups(), {GROUPS: denied})
    assert () == report.rows
    assert [(GROUPS, True)] == [(line.operation, line.is_missing_right) for line in report.unread]


def test_a_template_that_may_not_be_read_is_reported() -> None:
    """Nothing then says that the group has accelerators."""
    launch = {"LaunchTemplateId": "lt-1", "Version": "$Latest"}
    denied = AccessDenied("x", operation=TEMPLATES, words="no right")
    answers = {**groups(group(Instances=[], LaunchTemplate=launch)), TEMPLATES: denied}
    report = scan(AutoScalingGroups(), answers)
    assert () == report.rows
    assert [TEMPLATES] == [line.operation for line in report.unread]


def test_a_template_that_is_gone_is_no_missing_part() -> None:
    """Such a group launches nothing."""
    launch = {"LaunchTemplateId": "lt-1", "Version": "$Latest"}
    gone = NotFound("x", operation=TEMPLATES, words="gone")
    answers = {**groups(group(Instances=[], LaunchTemplate=launch)), TEMPLATES: gone}
    assert PlaceReport((), ()) == scan(AutoScalingGroups(), answers)


def test_an_exempt_group_has_no_command() -> None:
    """Its tag says that it is to be left alone."""
    row = only_row(AutoScalingGroups(), groups(group(Tags=[tag("GpuGovernor", "exempt")])))
    assert Finding.EXEMPT is row.judgment.finding
    assert "" == row.command


NODE_GROUP_TAGS = [tag("eks:cluster-name", "ml"), tag("eks:nodegroup-name", "gpu")]


def node_group(minimum: int) -> dict[str, Any]:
    """Return EKS's answer about a node group."""
    scaling = {"minSize": minimum, "maxSize": 8, "desiredSize": minimum}
    return {"nodegroup": {"nodegroupName": "gpu", "scalingConfig": scaling}}


def test_a_node_group_has_a_command_that_shows_it() -> None:
    """Its nodes may work: no command ends them. Its Auto Scaling group is not shown beside it."""
    answers = {**groups(group(2, Tags=NODE_GROUP_TAGS)), NODE_GROUP: node_group(2)}
    row = only_row(EksNodeGroups(), answers)
    assert "ml/gpu" == row.resource.resource_id
    assert "EKS" == row.resource.manager
    assert Decimal(2) == row.usd_per_hour
    assert Finding.KEEPS_RUNNING is row.judgment.finding
    expected = (
        "aws eks describe-nodegroup --region us-east-1 --cluster-name ml --nodegroup-name gpu"
    )
    assert "evicts" not in row.judgment.evidence
    assert expected == row.command
    assert PlaceReport((), ()) == scan(AutoScalingGroups(), answers)


@pytest.mark.parametrize(
    ("tags", "finding", "owner"),
    [
        ({"Owner": "ada"}, Finding.KEEPS_RUNNING, "ada"),
        ({"GpuGovernor": "exempt"}, Finding.EXEMPT, None),
    ],
)
def test_the_tags_of_a_node_group_count(
    tags: dict[str, str], finding: Finding, owner: str | None
) -> None:
    """EKS does not copy them to the Auto Scaling group."""
    answer = node_group(2)
    answer["nodegroup"]["tags"] = tags
    row = only_row(EksNodeGroups(), {**groups(group(2, Tags=NODE_GROUP_TAGS)), NODE_GROUP: answer})
    assert (finding, owner) == (row.judgment.finding, row.owner)


@pytest.mark.parametrize(("minimum", "usd"), [(0, None), (1, Decimal(1)), (3, Decimal(3))])
def test_the_minimum_is_that_of_eks(minimum: int, usd: Decimal | None) -> None:
    """The Auto Scaling group may be changed later than the node group."""
    answers = {**groups(group(2, Tags=NODE_GROUP_TAGS)), NODE_GROUP: node_group(minimum)}
    rows = scan(EksNodeGroups(), answers).rows
    assert ([] if usd is None else [usd]) == [row.usd_per_hour for row in rows]


def test_a_node_group_that_eks_does_not_show_has_the_minimum_of_its_group() -> None:
    """The report names the missing permission."""
    denied = AccessDenied("x", operation=NODE_GROUP, words="no right")
    answers = {**groups(group(2, Tags=NODE_GROUP_TAGS)), NODE_GROUP: denied}
    report = scan(EksNodeGroups(), answers)
    assert [Decimal(2)] == [row.usd_per_hour for row in report.rows]
    assert [NODE_GROUP] == [line.operation for line in report.unread]


def environment(minimum: int = 8, **changes: Any) -> dict[str, Any]:
    """Return a compute environment of Batch."""
    resources = {
        "type": "EC2",
        "minvCpus": minimum,
        "maxvCpus": 256,
        "desiredvCpus": 4,
        "instanceTypes": ["g5.xlarge"],
        "subnets": ["subnet-1"],
    }
    resources.update(changes)
    return {
        "computeEnvironmentName": "training",
        "computeEnvironmentArn": "arn:aws:batch:us-east-1:123456789012:compute-environment/t",
        "status": "VALID",
        "tags": {"Owner": "ada"},
        "computeResources": resources,
    }


def environments(*described: Mapping[str, Any]) -> dict[str, Any]:
    """Return Batch's answer."""
    return {ENVIRONMENTS: {"computeEnvironments": list(described)}}


def test_an_environment_counts_its_vcpus_in_instances() -> None:
    """A g5.xlarge has four vCPUs, so nine of them are three instances."""
    row = only_row(BatchEnvironments(), environments(environment(9)))
    assert Decimal(3) == row.usd_per_hour
    assert Finding.KEEPS_RUNNING is row.judgment.finding
    assert "ada" == row.owner
    expected = (
        "aws batch update-compute-environment --region us-east-1 "
        "--compute-environment training --compute-resources minvCpus=0"
    )
    assert expected == row.command


@pytest.mark.parametrize(
    ("described", "rows"),
    [
        (environment(0), 0),
        (environment(1), 1),
        (environment(instanceTypes=["m5"]), 0),
        (environment(instanceTypes=["optimal"]), 0),
        (environment(instanceTypes=["g5"]), 1),
        ({**environment(), "status": "DELETING"}, 0),
        ({"computeEnvironmentName": "u", "computeEnvironmentArn": "arn:u"}, 0),
    ],
)
def test_only_environments_that_keep_accelerators_are_shown(
    described: dict[str, Any], rows: int
) -> None:
    """An unmanaged one has no compute resources."""
    assert rows == len(scan(BatchEnvironments(), environments(described)).rows)


def test_an_environment_that_may_launch_others_has_no_price() -> None:
    """Its minimum may be made of instances without accelerators."""
    described = environment(instanceTypes=["g5.xlarge", "optimal"])
    assert only_row(BatchEnvironments(), environments(described)).usd_per_hour is None


def test_a_region_without_batch_is_not_asked() -> None:
    """It has no host for the call."""
    api = ApiTwin({}, absent=["batch"])
    assert PlaceReport((), ()) == scan_place(place(api=api), [BatchEnvironments()])


def spot_fleet(capacity: int = 3, **changes: Any) -> dict[str, Any]:
    """Return a Spot fleet."""
    config = {
        "IamFleetRole": "arn:aws:iam::123456789012:role/fleet",
        "TargetCapacity": capacity,
        "Type": "maintain",
        "LaunchSpecifications": [{"InstanceType": "g5.xlarge", "WeightedCapacity": 1.0}],
    }
    config.update(changes)
    return {
        "SpotFleetRequestId": "sfr-1",
        "SpotFleetRequestState": "active",
        "CreateTime": NOW,
        "SpotFleetRequestConfig": config,
        "Tags": [tag("Name", "renderers")],
    }


def test_a_spot_fleet_is_shown_and_no_command_ends_its_instances() -> None:
    """They may be at work."""
    answers = {SPOT_FLEETS: {"SpotFleetRequestConfigs": [spot_fleet()]}}
    row = only_row(SpotFleets(), answers)
    assert Decimal("1.5") == row.usd_per_hour
    assert "renderers" == row.resource.name
    assert Finding.KEEPS_RUNNING is row.judgment.finding
    expected = (
        "aws ec2 describe-spot-fleet-instances --region us-east-1 --spot-fleet-request-id sfr-1"
    )
    assert expected == row.command


@pytest.mark.parametrize(
    ("fleet", "rows"),
    [
        (spot_fleet(0), 0),
        (spot_fleet(1), 1),
        (spot_fleet(Type="request"), 0),
        ({**spot_fleet(), "SpotFleetRequestState": "cancelled"}, 0),
        ({**spot_fleet(), "SpotFleetRequestState": "modifying"}, 1),
        (spot_fleet(LaunchSpecifications=[{"InstanceType": "m5.large"}]), 0),
    ],
)
def test_only_spot_fleets_that_maintain_accelerators_are_shown(
    fleet: dict[str, Any], rows: int
) -> None:
    """Others end with their instances."""
    answers = {SPOT_FLEETS: {"SpotFleetRequestConfigs": [fleet]}}
    assert rows == len(scan(SpotFleets(), answers).rows)


def ec2_fleet(capacity: int = 2, **changes: Any) -> dict[str, Any]:
    """Return an EC2 fleet with overrides."""
    config = {
        "LaunchTemplateSpecification": {"LaunchTemplateId": "lt-1", "Version": "1"},
        "Overrides": [{"InstanceType": "g5.12xlarge"}],
    }
    target = {
        "TotalTargetCapacity": capacity,
        "OnDemandTargetCapacity": capacity,
        "SpotTargetCapacity": 0,
        "DefaultTargetCapacityType": "on-demand",
    }
    return {
        "FleetId": "fleet-1",
        "FleetState": "active",
        "Type": "maintain",
        "CreateTime": NOW,
        "TargetCapacitySpecification": target,
        "LaunchTemplateConfigs": [config],
        **changes,
    }


@pytest.mark.parametrize(
    ("fleet", "usd"),
    [
        (ec2_fleet(), [Decimal(10)]),
        (ec2_fleet(0), []),
        (ec2_fleet(Type="instant"), []),
        (ec2_fleet(FleetState="deleted"), []),
    ],
)
def test_only_ec2_fleets_that_maintain_accelerators_are_shown(
    fleet: dict[str, Any], usd: list[Decimal]
) -> None:
    """Karpenter's fleets, among others, are of type `instant`."""
    rows: Sequence[Row] = scan(Ec2Fleets(), {FLEETS: {"Fleets": [fleet]}}).rows
    assert usd == [row.usd_per_hour for row in rows]


def test_a_fleet_without_overrides_is_known_by_its_template() -> None:
    """That takes a call for each template."""
    config = {"LaunchTemplateSpecification": {"LaunchTemplateId": "lt-1", "Version": "1"}}
    answers = {
        FLEETS: {"Fleets": [ec2_fleet(LaunchTemplateConfigs=[config])]},
        TEMPLATES: template("g5.xlarge"),
    }
    row = only_row(Ec2Fleets(), answers)
    assert Decimal(2) == row.usd_per_hour
    assert "aws ec2 describe-fleet-instances --region us-east-1 --fleet-id fleet-1" == row.command


def test_a_target_in_vcpus_has_no_price() -> None:
    """It is not counted in instances."""
    fleet = ec2_fleet()
    fleet["TargetCapacitySpecification"]["TargetCapacityUnitType"] = "vcpu"
    row = only_row(Ec2Fleets(), {FLEETS: {"Fleets": [fleet]}})
    assert row.usd_per_hour is None
    assert "2 vcpu of accelerated instances" == row.resource.what


def test_the_least_of_nothing_is_not_known() -> None:
    """An unknown price is `None`, never zero."""
    assert least_usd_per_hour((), 3, {}) is None
    assert least_usd_per_hour([Choice("g5.xlarge")], 3, {"g5.xlarge": None}) is None


@pytest.mark.parametrize(
    ("distribution", "usd"),
    [
        ({"OnDemandBaseCapacity": 0, "OnDemandPercentageAboveBaseCapacity": 0}, "0.5"),
        ({"OnDemandBaseCapacity": 1, "OnDemandPercentageAboveBaseCapacity": 0}, "1"),
        ({"OnDemandBaseCapacity": 0, "OnDemandPercentageAboveBaseCapacity": 50}, "1"),
        ({}, "1"),
    ],
)
def test_only_spot_alone_has_the_spot_price(distribution: dict[str, int], usd: str) -> None:
    """A group may launch both."""
    policy = mixed({"InstanceType": "g5.xlarge"}, **distribution)
    row = only_row(AutoScalingGroups(), groups(group(MixedInstancesPolicy=policy)))
    assert Decimal(usd) == row.usd_per_hour


@pytest.mark.parametrize("key", ["eks:nodegroup-name", "AWSBatchServiceTag"])
def test_a_group_of_another_service_is_left_out(key: str) -> None:
    """Its node group or compute environment is shown."""
    described = groups(group(Tags=[tag(key, "x")]))
    assert PlaceReport((), ()) == scan(AutoScalingGroups(), described)


def test_a_type_that_two_templates_name_counts_once() -> None:
    """Fleets have a template for each zone or image."""
    config = ec2_fleet()["LaunchTemplateConfigs"][0]
    fleet = ec2_fleet(LaunchTemplateConfigs=[config, config])
    row = only_row(Ec2Fleets(), {FLEETS: {"Fleets": [fleet]}})
    assert "2 x g5.12xlarge, 4 x NVIDIA A10G each" == row.resource.what


def test_a_spot_fleet_with_an_on_demand_part_has_the_list_price() -> None:
    """The least of it is not known to be Spot."""
    fleet = spot_fleet(OnDemandTargetCapacity=1)
    row = only_row(SpotFleets(), {SPOT_FLEETS: {"SpotFleetRequestConfigs": [fleet]}})
    assert Decimal(3) == row.usd_per_hour


def test_an_environment_of_spot_instances_has_the_spot_price() -> None:
    """Eight vCPUs are two instances."""
    row = only_row(BatchEnvironments(), environments(environment(type="SPOT")))
    assert Decimal(1) == row.usd_per_hour


def test_a_family_is_shown_by_its_smallest_type() -> None:
    """Any of its sizes may come."""
    row = only_row(BatchEnvironments(), environments(environment(4, instanceTypes=["g5"])))
    assert row.resource.what.startswith("g5.xlarge, 1 x NVIDIA A10G, or ")
