"""Names in all stacks fit AWS's limits for the longest stack name that is allowed, in any
Region."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from local.engine.templates import expand_template, load_template
from tests.iam import ROOT, written_out

LIMITS = {
    "AWS::ApiGatewayV2::Api": ("Name", 128, None),
    "AWS::CloudWatch::Alarm": ("AlarmName", 255, None),
    "AWS::CloudWatch::Dashboard": ("DashboardName", 255, r"[\w-]+"),
    "AWS::DynamoDB::Table": ("TableName", 255, r"[\w.-]+"),
    "AWS::EC2::LaunchTemplate": ("LaunchTemplateName", 128, None),
    "AWS::EC2::SecurityGroup": ("GroupName", 255, None),
    "AWS::Events::EventBus": ("Name", 256, r"[\w./-]+"),
    "AWS::Events::Rule": ("Name", 64, r"[\w.-]+"),
    "AWS::IAM::InstanceProfile": ("InstanceProfileName", 128, r"[\w+=,.@-]+"),
    "AWS::IAM::ManagedPolicy": ("ManagedPolicyName", 128, r"[\w+=,.@-]+"),
    "AWS::IAM::Role": ("RoleName", 64, r"[\w+=,.@-]+"),
    "AWS::Logs::LogGroup": ("LogGroupName", 512, r"[\w./#-]+"),
    "AWS::S3::Bucket": ("BucketName", 63, r"[a-z0-9.-]+"),
    "AWS::SNS::Topic": ("TopicName", 256, r"[\w-]+"),
    "AWS::SQS::Queue": ("QueueName", 80, r"[\w-]+"),
    "AWS::SSM::Association": ("AssociationName", 128, r"[\w.-]{3,}"),
    "AWS::SSM::Document": ("Name", 128, r"[\w.-]{3,}"),
    "AWS::SSM::Parameter": ("Name", 1011, r"[\w./-]+"),
    "AWS::Scheduler::Schedule": ("Name", 64, r"[\w.-]+"),
    "AWS::SecretsManager::Secret": ("Name", 512, None),
    "AWS::Serverless::Function": ("FunctionName", 64, r"[\w-]+"),
    "AWS::Serverless::LayerVersion": ("LayerName", 140, r"[\w-]+"),
    "AWS::Serverless::StateMachine": ("Name", 80, r"[\w-]+"),
}
"""The property that holds the name, and the characters it may have, and how many; of AWS's
references. What has no name there gets one from CloudFormation, which keeps to the limit."""
NAMELESS = re.compile(
    r"AWS::(ApiGatewayV2::(?!Api$)|EC2::(EC2Fleet|Instance)|KMS::Key"
    r"|Lambda::(EventSourceMapping|Permission)|S3::BucketPolicy"
    r"|Logs::MetricFilter|SNS::(Subscription|TopicPolicy)|SQS::QueuePolicy|SecretsManager::RotationSchedule)"
)
STACKS = (
    "template.yaml",
    *(f"stacks/{one.name}" for one in sorted((ROOT / "stacks").glob("*.yaml"))),
)
LONGEST_REGION = "r" * 15
"""ap-southeast-1 has 14 characters; so far no Region's name is longer."""


def longest_stack() -> str:
    """As members take it; `make deploy` takes the same."""
    hub = load_template(ROOT / "stacks/member.yaml")["Parameters"]["HubStackName"]
    return "s" * int(hub["MaxLength"])


def longest(path: str) -> dict[str, str]:
    """Parameters and pseudo parameters, as long as they are allowed to be where names are made of
    them."""
    parameters = load_template(ROOT / path)["Parameters"]
    found = {
        "AWS::StackName": longest_stack(),
        "AWS::Region": LONGEST_REGION,
        "AWS::AccountId": "1" * 12,
    }
    if "MemberRoleName" in parameters:
        found["MemberRoleName"] = "m" * int(parameters["MemberRoleName"]["MaxLength"])
    if "NamePrefix" in parameters:
        assert parameters["NamePrefix"]["AllowedPattern"].endswith("{2,31}")
        found["NamePrefix"] = "n" * 32
    return found


def names(path: str) -> Iterator[tuple[str, str, int, str | None]]:
    """Logical id, name, limit and allowed characters of everything in a stack that is given a
    name."""
    known = longest(path)
    for logical_id, resource in expand_template(ROOT / path)["Resources"].items():
        if NAMELESS.match(resource["Type"]):
            continue
        key, limit, pattern = LIMITS[resource["Type"]]
        properties: dict[str, Any] = resource.get("Properties", {})
        if key in properties:
            yield logical_id, str(written_out(properties[key], known)), limit, pattern
        for policy in properties.get("Policies", ()):
            if "PolicyName" in policy:
                yield logical_id, policy["PolicyName"], 128, r"[\w+=,.@-]+"


@pytest.mark.parametrize("path", STACKS)
def test_every_name_fits(path: str) -> None:
    """Also the namespace of metrics, which is the stack's name."""
    found = [*names(path)]

    assert found or path == "stacks/gpu_fleet.yaml"
    for logical_id, name, limit, pattern in found:
        assert "the-" not in name, f"{logical_id}: {name} is made of what this test does not know"
        assert len(name) <= limit, (
            f"{logical_id}: {name} has {len(name)} characters, {limit} are allowed"
        )
        assert pattern is None or re.fullmatch(pattern, name), f"{logical_id}: {name}"
    assert len(longest_stack()) <= 255


def test_roles_of_two_stacks_and_of_two_regions_never_meet() -> None:
    """Their names are the account's: both are in each, and no two functions have one."""
    roles = [
        n for i, n, *_ in names("template.yaml") if i.endswith("FunctionRole") and n.startswith("s")
    ]

    assert 16 == len({*roles}) == len(roles)
    assert all(name.startswith(f"{longest_stack()}-{LONGEST_REGION}-") for name in roles)


@pytest.mark.parametrize("path", [one for one in STACKS if one != "template.yaml"])
def test_a_stack_for_stack_sets_is_plain(path: str) -> None:
    """Stack sets of an organization take no transform, and no stack within a stack."""
    document = load_template(ROOT / path)

    assert "Transform" not in document
    assert not [k for k in document["Resources"] if k.startswith("Fn::")]
    assert not [
        r for r in document["Resources"].values() if r["Type"] == "AWS::CloudFormation::Stack"
    ]
    assert "Fn::Transform" not in str(document)
