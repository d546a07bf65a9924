"""Other accounts and Regions: their events come through their own rules to the hub's bus and its
handlers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from local.demo.fleet import series_of
from local.demo.scene import CHECKPOINT_DOCUMENT, STACK
from local.engine.cloud import ACCOUNT, REGION, ROOT
from local.engine.repairs.organization import ORGANIZATION
from local.engine.simulation import InstanceSpec, Simulation, VolumeSpec
from tests.integration.conftest import MEMBER
from tests.integration.people import decide
from tests.integration.stage import FORGOTTEN, Stage

ELSEWHERE = "eu-west-1"
NOT_UPDATED = "444455556666"
"""A member whose stack is of the release before."""
TAGS = {"Purpose": "GPU-Workload", "Name": "trainer", "Owner": "ada"}


def spec(**changes: Any) -> InstanceSpec:
    """A governed Spot instance that has run for an hour."""
    plain = InstanceSpec(
        instance_type="g4dn.xlarge",
        launch_time=(datetime.now(tz=UTC) - timedelta(hours=1)).replace(microsecond=0),
        tags=TAGS,
        spot_request_type="one-time",
        volumes=(VolumeSpec(100), VolumeSpec(50, "/dev/sdb")),
    )
    return replace(plain, **changes)


@pytest.fixture(scope="module")
def places(scene: Any) -> dict[tuple[str, str], Simulation]:
    """The member account in another Region, that Region of the hub's account, and a stranger: all
    forward.

    The member trusts the hub's roles by name and organization, as the docs say.
    """
    cloud = scene.cloud
    hub = {"HubAccountId": ACCOUNT, "HubRegion": REGION, "HubStackName": STACK}
    cloud.client("organizations").describe_organization()
    member = {**hub, "OrganizationId": ORGANIZATION, "CheckpointDocumentName": CHECKPOINT_DOCUMENT}
    cloud.deploy_plain(ROOT / "stacks/member.yaml", "member", member, region=REGION, account=MEMBER)
    found = {}
    for account in (MEMBER, ACCOUNT, "333333333333"):
        cloud.deploy_plain(
            ROOT / "stacks/forward_events.yaml", "forward", hub, region=ELSEWHERE, account=account
        )
        found[account, ELSEWHERE] = cloud.simulation(ELSEWHERE, account)
    return found


@pytest.fixture
def governed(stage: Stage, places: dict[tuple[str, str], Simulation]) -> Stage:
    """The policy targets both accounts in both Regions."""
    stage.policy(
        f"mode: ask\ntargets: {{accounts: ['{ACCOUNT}', '{MEMBER}'], regions: [{REGION}, "
        f"{ELSEWHERE}]}}\n"
        "events: {snapshot_data_volumes: true}"
    )
    return stage


@pytest.mark.parametrize("account", [MEMBER, ACCOUNT])
def test_a_spot_warning_elsewhere_is_told_hooked_and_snapshot_there(
    governed: Stage, places: dict[tuple[str, str], Simulation], account: str
) -> None:
    """By the account and Region of the envelope: the ARN names neither. In a member, by its own
    role."""
    there = places[account, ELSEWHERE]
    instance_id = there.put_instance(spec())

    there.spot_warning(instance_id)

    told = governed.await_mail(instance_id, "spot-interruption")
    assert (account, ELSEWHERE) == (told["account"], told["region"])
    (command,) = governed.eventually(lambda: there.commands() or None, "no command is sent")
    assert [instance_id] == command["InstanceIds"]
    snapshots = governed.eventually(
        lambda: there.dump()["snapshots"] or None, "no snapshot is begun"
    )
    assert 1 == len(snapshots)


def test_an_idle_instance_of_a_member_is_asked_about_and_stopped_there(
    governed: Stage, places: dict[tuple[str, str], Simulation]
) -> None:
    """From the sweep to the record, each step by the role that the member keeps for it."""
    _asked_about_and_stopped(governed, places[MEMBER, ELSEWHERE], MEMBER)


def test_a_member_that_is_not_updated_yet_goes_on_working(
    stage: Stage, places: dict[tuple[str, str], Simulation], tmp_path: Path
) -> None:
    """Its stack denies nothing by tag. A session for one call needs no more than its role."""
    del places
    text = (ROOT / "stacks/member.yaml").read_text(encoding="utf-8")
    denials = re.compile(r"        # Whatever else allows it.*?\n            \]\}\n", re.DOTALL)
    older, count = denials.subn("", text)
    assert 1 == count
    template = tmp_path / "member.yaml"
    template.write_text(older, encoding="utf-8")
    cloud = stage.scene.cloud
    hub = {"HubAccountId": ACCOUNT, "HubRegion": REGION, "HubStackName": STACK}
    cloud.deploy_plain(template, "member", hub, region=REGION, account=NOT_UPDATED)
    stage.policy(f"mode: ask\ntargets: {{accounts: ['{NOT_UPDATED}'], regions: [{ELSEWHERE}]}}")

    _asked_about_and_stopped(stage, cloud.simulation(ELSEWHERE, NOT_UPDATED), NOT_UPDATED)


def _asked_about_and_stopped(stage: Stage, there: Simulation, account: str) -> None:
    now = datetime.now(tz=UTC)
    instance_id = there.put_instance(
        spec(
            instance_type=FORGOTTEN.instance_type,
            launch_time=now - timedelta(days=2),
            spot_request_type=None,
        )
    )
    there.put_metrics(series_of(FORGOTTEN, instance_id, now))

    stage.scene.sweep()
    asked = stage.await_mail(instance_id, "approval-requested")
    link = stage.personal(stage.scene.cloud.reachable_url(asked["link"]))
    assert (account, ELSEWHERE) == (asked["account"], asked["region"])
    assert 303 == decide(link, "approve")[0]

    assert "stopped" == stage.outcome(instance_id)
    assert "stopped" == there.dump()["instances"][instance_id]


def test_nobody_else_in_the_hub_takes_a_role_of_the_member(
    places: dict[tuple[str, str], Simulation], scene: Any
) -> None:
    """Neither another function, nor a role of the hub whose name begins as that of put_away."""
    del places
    iam = scene.cloud.client("iam")
    actor = f"arn:aws:iam::{MEMBER}:role/gpu-governor-member-actor"
    anybody = {"Effect": "Allow", "Principal": {"AWS": ACCOUNT}, "Action": "sts:AssumeRole"}
    trust = json.dumps({"Version": "2012-10-17", "Statement": [anybody]})
    allow = {"Effect": "Allow", "Action": "sts:*", "Resource": "*"}
    name = f"{STACK}-{REGION}-put-away-too"
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust)
    iam.put_role_policy(
        RoleName=name,
        PolicyName="assume",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [allow]}),
    )
    role = iam.get_role(RoleName=name)["Role"]["Arn"]
    given = scene.cloud.client("sts").assume_role(RoleArn=role, RoleSessionName="page")[
        "Credentials"
    ]
    sts = boto3.client(
        "sts",
        region_name=REGION,
        endpoint_url=scene.cloud.endpoint_url,
        aws_access_key_id=given["AccessKeyId"],
        aws_secret_access_key=given["SecretAccessKey"],
        aws_session_token=given["SessionToken"],
    )

    with pytest.raises(ClientError, match="AccessDenied"):
        sts.assume_role(RoleArn=actor, RoleSessionName="page")


def test_every_event_of_a_member_finds_its_handler(
    governed: Stage, places: dict[tuple[str, str], Simulation]
) -> None:
    """Recommendation, lifecycle action and scheduled change, each by its own rules."""
    there = places[MEMBER, ELSEWHERE]
    instance_id = there.put_instance(spec())
    lifecycle = {
        "LifecycleActionToken": "87654321-4321-4321-4321-210987654321",
        "AutoScalingGroupName": "trainers",
        "LifecycleHookName": "save-work",
        "EC2InstanceId": instance_id,
        "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
    }
    health = {
        "eventArn": f"arn:aws:health:::{instance_id}",
        "service": "EC2",
        "eventTypeCode": "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED",
        "eventTypeCategory": "scheduledChange",
        "startTime": (datetime.now(tz=UTC) + timedelta(days=9)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "affectedEntities": [{"entityValue": instance_id}],
    }

    there.rebalance_recommendation(instance_id)
    there.put_event("aws.autoscaling", "EC2 Instance-terminate Lifecycle Action", lifecycle)
    there.put_event("aws.health", "AWS Health Event", health)

    for kind in ("rebalance-recommended", "auto-scaling-termination", "scheduled-change"):
        assert MEMBER == governed.await_mail(instance_id, kind)["account"]


def test_a_place_that_the_policy_does_not_target_is_left_alone(
    stage: Stage, places: dict[tuple[str, str], Simulation]
) -> None:
    """Although its events may come: neither read, nor told, nor hooked; the function says why in
    its log."""
    stage.policy(f"mode: ask\ntargets: {{accounts: ['{ACCOUNT}'], regions: [{REGION}]}}")
    there = places[MEMBER, ELSEWHERE]
    instance_id = there.put_instance(spec())
    event = {
        "id": f"event-{instance_id}",
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "account": MEMBER,
        "region": ELSEWHERE,
        "time": datetime.now(tz=UTC).isoformat(),
        "detail": {"instance-id": instance_id, "instance-action": "terminate"},
    }

    answer, raised = stage.invoke("HandleSpotInterruption", event)

    assert (False, False, None) == (raised, answer["ours"], answer["told"])
    assert [] == there.commands()


def test_a_stranger_is_not_let_in(
    governed: Stage, places: dict[tuple[str, str], Simulation]
) -> None:
    """Whatever rules it has: the policy of the bus names members only. The member's next warning is
    told."""
    stranger, member = places["333333333333", ELSEWHERE], places[MEMBER, ELSEWHERE]
    refused, told = stranger.put_instance(spec()), member.put_instance(spec())
    before = governed.scene.cloud.log().count("takes nothing from 333333333333")

    stranger.spot_warning(refused)
    member.spot_warning(told)

    governed.await_mail(told, "spot-interruption")
    assert before + 1 == governed.scene.cloud.log().count("takes nothing from 333333333333")
    assert [] == [mail for mail in governed.scene.read_mail() if mail["instance_id"] == refused]
