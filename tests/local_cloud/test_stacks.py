"""The stacks beside the hub's, deployed and deleted, and the names that CloudFormation makes up."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from local.engine.cloud import ACCOUNT, REGION, ROOT, LocalCloud, LocalCloudError
from local.engine.simulation import Simulation

pytestmark = pytest.mark.integration

ELSEWHERE = "444444444444"
HUB = {"HubAccountId": ACCOUNT, "HubRegion": REGION}
BUNDLE = {
    "PublisherBucket": "bundles",
    "PublisherKey": "publisher.tar.gz",
    "PublisherSha256": "0" * 64,
}
STACKS = [
    ("member", HUB, {"AWS::IAM::Role": 11}),
    ("forward_events", HUB, {"AWS::Events::Rule": 6, "AWS::CloudWatch::Alarm": 2}),
    (
        "telemetry",
        {"AlertEmail": "ops@example.com"},
        {"AWS::SSM::Document": 4, "AWS::SSM::Association": 3},
    ),
    (
        "telemetry",
        {"TelemetryBy": "tag", **BUNDLE},
        {"AWS::SSM::Document": 5, "AWS::SSM::Association": 4},
    ),
]
ROLE: dict[str, Any] = {
    "Type": "AWS::IAM::Role",
    "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}},
}


@pytest.mark.parametrize(("name", "parameters", "some"), STACKS)
def test_a_stack_is_deployed_twice_over_and_leaves_nothing(
    bare_cloud: LocalCloud, name: str, parameters: dict[str, str], some: dict[str, int]
) -> None:
    """In a member account and another Region; deleted, it can be deployed again under the same
    names."""
    cloudformation = bare_cloud.client("cloudformation", "eu-west-1", ELSEWHERE)
    stack = f"gpu-governor-{name.replace('_', '-')}"
    for _ in range(2):
        _deploy(bare_cloud, name, stack, parameters)
        kinds = [one["ResourceType"] for one in _resources(cloudformation, stack)]
        assert some == {kind: kinds.count(kind) for kind in some}
        cloudformation.delete_stack(StackName=stack)
        bare_cloud.wait_for(lambda: _is_gone(cloudformation, stack), f"{stack} is still there")


def test_a_second_telemetry_stack_of_one_name_prefix_is_refused(bare_cloud: LocalCloud) -> None:
    """The names of its documents are taken: AWS refuses it, and so does the local cloud."""
    _deploy(bare_cloud, "telemetry", "first", {}, region="eu-north-1")

    with pytest.raises(LocalCloudError, match="already"):
        _deploy(bare_cloud, "telemetry", "second", {}, region="eu-north-1")


def test_the_example_fleet_is_launched_governed_and_terminated(
    bare_cloud: LocalCloud, simulation: Simulation
) -> None:
    """Its instances carry the selector, as the template says; they go with the stack."""
    del simulation
    ec2 = bare_cloud.client("ec2")
    vpc = ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    subnets = ",".join(one["SubnetId"] for one in ec2.describe_subnets()["Subnets"])
    given = {"VpcId": vpc, "SubnetIds": subnets, "ImageId": "image", "OwnerTag": "ada"}
    bare_cloud.client("ssm").put_parameter(
        Name="image", Value="ami-0123456789abcdef0", Type="String"
    )
    outputs = bare_cloud.deploy_plain(
        ROOT / "stacks/gpu_fleet.yaml", "fleet", given, region=REGION, account=ACCOUNT
    )

    launched = _instances(ec2)
    assert {"GPU-Workload"} == {tags["Purpose"] for tags, _ in launched}
    assert {None: 1, "spot": 2} == {
        kind: [k for _, k in launched].count(kind) for _, kind in launched
    }
    assert outputs["SpotFleetId"].startswith("fleet-")

    cloudformation = bare_cloud.client("cloudformation")
    cloudformation.delete_stack(StackName="fleet")
    bare_cloud.wait_for(
        lambda: _is_gone(cloudformation, "fleet"), "the fleet's stack is still there"
    )
    assert [] == _instances(ec2)


def test_the_example_fleet_starts_by_its_documented_command(
    bare_cloud: LocalCloud, simulation: Simulation
) -> None:
    """As `aws cloudformation deploy` does: by a change set, with the parameters of the docs alone.
    The image is that of AWS's public parameter."""
    del simulation
    command = _documented_command("stacks/gpu_fleet.yaml")
    assert ["VpcId", "SubnetIds", "OwnerTag"] == re.findall(r"(\w+)=", command)
    ec2 = bare_cloud.client("ec2")
    vpc = ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    subnets = ",".join(one["SubnetId"] for one in ec2.describe_subnets()["Subnets"])
    given = {"VpcId": vpc, "SubnetIds": subnets, "OwnerTag": "you@example.com"}
    cloudformation = bare_cloud.client("cloudformation")
    cloudformation.create_change_set(
        StackName="gpu-example",
        ChangeSetName="deploy",
        ChangeSetType="CREATE",
        TemplateBody=(ROOT / "stacks/gpu_fleet.yaml").read_text(),
        Parameters=[{"ParameterKey": key, "ParameterValue": given[key]} for key in given],
        Capabilities=["CAPABILITY_IAM"],
    )
    cloudformation.execute_change_set(StackName="gpu-example", ChangeSetName="deploy")

    bare_cloud.wait_for(
        lambda: _status(cloudformation, "gpu-example") == "CREATE_COMPLETE",
        "the example fleet is not there",
    )
    assert 3 == len(_instances(ec2))
    images = {
        one["ImageId"]
        for reservation in ec2.describe_instances()["Reservations"]
        for one in reservation["Instances"]
    }
    (image,) = ec2.describe_images(ImageIds=[*images])["Images"]
    assert image["ImageId"] in images

    cloudformation.delete_stack(StackName="gpu-example")
    bare_cloud.wait_for(
        lambda: _is_gone(cloudformation, "gpu-example"), "the fleet's stack is still there"
    )


def _documented_command(template: str) -> str:
    """Return the parameters of the command that docs/telemetry.md shows for a template."""
    text = (ROOT / "docs/telemetry.md").read_text()
    _, _, after = text.partition(f"--template-file {template}")
    return after.partition("```")[0].partition("--parameter-overrides")[2]


def _status(cloudformation: Any, stack: str) -> str:
    return str(cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"])


@pytest.mark.parametrize(
    ("stack", "logical_id", "shown"),
    [
        ("s" * 40, "L" * 40, f"{'s' * 25}-{'L' * 25}"),
        ("gpu-governor", "L" * 50, f"gpu-governor-{'L' * 38}"),
        ("s" * 60, "Role", f"{'s' * 46}-Role"),
        ("governor", "Role", "governor-Role"),
    ],
)
def test_a_name_that_is_too_long_is_shortened_as_cloudformation_does(
    bare_cloud: LocalCloud, stack: str, logical_id: str, shown: str
) -> None:
    """Stack and logical id share 50 of a role's 64 characters; what one does not need is the
    other's."""
    cloudformation = bare_cloud.client("cloudformation", "eu-west-1", ELSEWHERE)
    cloudformation.create_stack(
        StackName=stack,
        TemplateBody=json.dumps({"Resources": {logical_id: ROLE}}),
        Capabilities=["CAPABILITY_IAM"],
    )
    (made,) = bare_cloud.wait_for(
        lambda: _resources(cloudformation, stack) or None, "no role is made"
    )

    assert re.fullmatch(rf"{shown}-[A-Z0-9]{{12}}", made["PhysicalResourceId"])
    assert len(made["PhysicalResourceId"]) <= 64


def test_a_stack_has_the_description_of_its_last_template(bare_cloud: LocalCloud) -> None:
    """Made by a change set, as SAM CLI makes it, and after one that has changed it."""
    cloudformation = bare_cloud.client("cloudformation", "eu-west-1", ELSEWHERE)
    for kind, said in (("CREATE", "version 1"), ("UPDATE", "version 2")):
        role = {**ROLE, "Properties": {**ROLE["Properties"], "Description": said}}
        cloudformation.create_change_set(
            StackName="described",
            ChangeSetName=kind.lower(),
            ChangeSetType=kind,
            TemplateBody=json.dumps({"Description": said, "Resources": {"Role": role}}),
            Capabilities=["CAPABILITY_IAM"],
        )
        cloudformation.execute_change_set(StackName="described", ChangeSetName=kind.lower())
        waiter = cloudformation.get_waiter(f"stack_{kind.lower()}_complete")
        waiter.wait(StackName="described", WaiterConfig={"Delay": 1})

        assert (
            said
            == cloudformation.describe_stacks(StackName="described")["Stacks"][0]["Description"]
        )


def _deploy(
    cloud: LocalCloud, name: str, stack: str, parameters: dict[str, str], region: str = "eu-west-1"
) -> dict[str, str]:
    path = ROOT / f"stacks/{name}.yaml"
    return cloud.deploy_plain(path, stack, parameters, region=region, account=ELSEWHERE)


def _resources(cloudformation: Any, stack: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cloudformation.describe_stack_resources(StackName=stack)[
        "StackResources"
    ]
    return [one for one in found if one["ResourceStatus"] == "CREATE_COMPLETE"]


def _is_gone(cloudformation: Any, stack: str) -> bool | None:
    there = cloudformation.list_stacks()["StackSummaries"]
    return (
        not [o for o in there if o["StackName"] == stack and o["StackStatus"] != "DELETE_COMPLETE"]
        or None
    )


def _instances(ec2: Any) -> list[tuple[dict[str, str], str | None]]:
    """Tags and life cycle of those that are not terminated."""
    return [
        ({tag["Key"]: tag["Value"] for tag in one["Tags"]}, one.get("InstanceLifecycle"))
        for page in ec2.describe_instances()["Reservations"]
        for one in page["Instances"]
        if one["State"]["Name"] not in ("shutting-down", "terminated")
    ]
