"""A first create that fails is rolled back, nothing of it stays, and the next one succeeds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from local.demo.scene import STACK, TEMPLATE
from local.engine.cloud import ROOT, LocalCloud, LocalCloudError
from local.engine.templates import load_template

LAST = ("SweepSchedule", "Dashboard", "ApiStage", "AlertTopicPolicy", "LinkKeyRotation")
"""Resources that are made late. The one that fails comes after all of them."""


@pytest.fixture
def cloud() -> Iterator[LocalCloud]:
    """An engine of its own."""
    with LocalCloud() as found:
        yield found


@pytest.fixture
def failing(tmp_path: Path, cloud: LocalCloud) -> Path:
    """The template with one resource more, which cannot be made: its name is taken."""
    cloud.client("ssm").put_parameter(Name="taken", Value="by others", Type="String")
    document = load_template(TEMPLATE)
    properties = {"Name": "taken", "Type": "String", "Value": "by the stack"}
    document["Resources"]["Taken"] = {
        "Type": "AWS::SSM::Parameter",
        "DependsOn": list(LAST),
        "Properties": properties,
    }
    template = tmp_path / "template.yaml"
    template.write_text(json.dumps(document))
    for folder in ("functions", "layers", "statemachines"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    return template


def left(cloud: LocalCloud) -> Mapping[str, list[str]]:
    """Return what an account holds beside what was there before the stack."""

    def named(service: str, call: str, field: str, name: str | None) -> list[str]:
        found = getattr(cloud.client(service), call)()[field]
        return sorted(str(one if name is None else one[name]) for one in found)

    keys = cloud.client("kms")
    key_ids = named("kms", "list_keys", "Keys", "KeyId")
    states = {one: keys.describe_key(KeyId=one)["KeyMetadata"]["KeyState"] for one in key_ids}
    every = {
        "tables": named("dynamodb", "list_tables", "TableNames", None),
        "buckets": [
            one for one in named("s3", "list_buckets", "Buckets", "Name") if one != "deployment"
        ],
        "log groups": named("logs", "describe_log_groups", "logGroups", "logGroupName"),
        "functions": named("lambda", "list_functions", "Functions", "FunctionName"),
        "layers": named("lambda", "list_layers", "Layers", "LayerName"),
        "roles": named("iam", "list_roles", "Roles", "RoleName"),
        "policies": [
            one["PolicyName"]
            for one in cloud.client("iam").list_policies(Scope="Local")["Policies"]
        ],
        "machines": named("stepfunctions", "list_state_machines", "stateMachines", "name"),
        "schedules": named("scheduler", "list_schedules", "Schedules", "Name"),
        "buses": [
            one
            for one in named("events", "list_event_buses", "EventBuses", "Name")
            if one != "default"
        ],
        "rules": named("events", "list_rules", "Rules", "Name"),
        "queues": cloud.client("sqs").list_queues().get("QueueUrls", []),
        "topics": named("sns", "list_topics", "Topics", "TopicArn"),
        "parameters": named("ssm", "describe_parameters", "Parameters", "Name"),
        "secrets": named("secretsmanager", "list_secrets", "SecretList", "Name"),
        "alarms": named("cloudwatch", "describe_alarms", "MetricAlarms", "AlarmName"),
        "dashboards": named("cloudwatch", "list_dashboards", "DashboardEntries", "DashboardName"),
        "APIs": named("apigatewayv2", "get_apis", "Items", "Name"),
        "keys in use": [one for one, state in states.items() if state != "PendingDeletion"],
    }
    return {what: names for what, names in every.items() if names}


def status(cloud: LocalCloud) -> str:
    """Return the stack's status."""
    stack: dict[str, Any] = cloud.client("cloudformation").describe_stacks(StackName=STACK)[
        "Stacks"
    ][0]
    return str(stack["StackStatus"])


def test_a_first_create_that_fails_leaves_nothing(cloud: LocalCloud, failing: Path) -> None:
    """As `make deploy` creates: protection of the table comes with a second change set."""
    before = left(cloud)
    with pytest.raises(LocalCloudError, match="Taken: "):
        cloud.deploy(failing, STACK, {"DeletionProtection": "false"})

    assert "ROLLBACK_COMPLETE" == status(cloud)
    assert before == left(cloud)

    cloud.client("cloudformation").delete_stack(StackName=STACK)
    outputs = cloud.deploy(TEMPLATE, STACK, {"DeletionProtection": "false"})
    assert outputs["StateTableName"] in left(cloud)["tables"]


def test_with_protection_from_the_start_the_table_stays_in_the_way(
    cloud: LocalCloud, failing: Path
) -> None:
    """Why `make deploy` does not: the rollback fails, and the table stays."""
    with pytest.raises(
        LocalCloudError, match=r"StateTable: Table .* is protected against deletion"
    ):
        cloud.deploy(failing, STACK, {"DeletionProtection": "true"})
    assert "ROLLBACK_FAILED" == status(cloud)
    assert 1 == len(left(cloud)["tables"])
