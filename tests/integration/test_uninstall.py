"""From a deployed stack to an empty account, by `governor uninstall` and the delete of the
stack."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cli.governor import main
from governor.core.instance import INSTANCE_TAG, MARKS
from local.demo.receivers import Receivers
from local.demo.scene import STACK, deploy_scene
from local.engine.cloud import LocalCloud
from tests.integration.people import decide
from tests.integration.stage import WAIT_SCALE, Stage
from tests.integration.test_first_create import left

POLICY = (
    "ownership: {contacts: {people: {emails: [alice@example.com]}}, default_contacts: [people]}"
)
ALL = "tags,alarms,schedules,logs,table,copies,policy,reports,key"
STAYS = {"instances", "addresses", "snapshots", "audit", *ALL.split(",")} - {
    "alarms",
    "schedules",
    "logs",
}


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A stack of its own, which is removed."""
    with (
        Receivers() as receivers,
        LocalCloud(wait_scale=WAIT_SCALE, trust=receivers.certificate) as cloud,
    ):
        before = dict(os.environ)
        os.environ.update(cloud.environment())
        try:
            cloud.client("s3").create_bucket(Bucket="deployment")
            scene = deploy_scene(cloud, receivers, mode="ask", policy=POLICY)
            os.environ["GOVERNOR_API_URL"] = cloud.reachable_url(scene.outputs["ApiUrl"])
            scene.subscribe_a_person()
            yield Stage(scene)
        finally:
            os.environ.clear()
            os.environ.update(before)


def run(capsys: pytest.CaptureFixture[str], *given: str, expected: int = 0) -> str:
    """`governor uninstall` with this; what it prints."""
    code = main(["uninstall", *given])
    said = capsys.readouterr()
    assert expected == code, said.err
    return said.out + said.err


def shown(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """By kind."""
    document = json.loads(run(capsys, "--json"))
    assert "unread" not in document
    return {one["kind"]: one for one in document.get("left", ())}


def test_from_a_deployed_stack_to_an_empty_account(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing goes that was not asked for by name; what others need goes last; instances stay."""
    scene, cloud = stage.scene, stage.scene.cloud
    ec2 = cloud.client("ec2")
    stopped, link = stage.ask()
    assert 303 == decide(link, "approve")[0]
    assert "stopped" == stage.outcome(stopped)
    waiting, _ = stage.ask(name="waiting")
    volume = ec2.describe_instances(InstanceIds=[stopped])["Reservations"][0]["Instances"][0]
    made = ec2.create_snapshots(
        InstanceSpecification={"InstanceId": volume["InstanceId"]},
        TagSpecifications=[
            {
                "ResourceType": "snapshot",
                "Tags": [
                    {"Key": INSTANCE_TAG, "Value": stopped},
                    {"Key": "DeleteAfter", "Value": "2027-01-31T00:00:00Z"},
                ],
            }
        ],
    )
    forged = [one["SnapshotId"] for one in made["Snapshots"]]
    address = ec2.allocate_address(Domain="vpc")
    ec2.associate_address(AllocationId=address["AllocationId"], InstanceId=stopped)
    ec2.create_tags(Resources=[waiting], Tags=[{"Key": "GpuGovernor", "Value": "exempt"}])

    cloud.client("dynamodb").restore_table_to_point_in_time(
        SourceTableName=scene.outputs["StateTableName"],
        TargetTableName="COPY",
        UseLatestRestorableTime=True,
    )

    # While the stack is there, it shows what would stay, and removes workflows and copies alone.
    found = shown(capsys)
    assert {"workflows", *STAYS} == found.keys()
    assert [stopped] == [one.split()[1] for one in found["instances"]["names"]]
    assert [f"us-east-1 {address['PublicIp']}"] == found["addresses"]["names"]
    said = run(capsys)
    assert "1 workflow waiting" in said
    assert "Its policy targets 123456789012/us-east-1" in said
    assert "still exists, and needs" in run(
        capsys, "--remove", "table", "--confirm", STACK, expected=1
    )
    assert "confirm with --confirm gpu-governor" in run(capsys, "--remove", "workflows", expected=1)
    assert "confirm with" in run(capsys, "--remove", "workflows", "--confirm", "other", expected=1)
    assert "pass --remove-audit" in run(capsys, "--remove", "audit", expected=1)
    assert found == shown(capsys)
    run(capsys, "--remove", "workflows", "--confirm", STACK)
    assert "ABORTED" == stage.ended(waiting)["status"]
    assert "running" == stage.ec2_state(waiting)

    cloud.client("dynamodb").update_table(
        TableName=scene.outputs["StateTableName"], DeletionProtectionEnabled=True
    )

    # The stack goes, and leaves what it said.
    cloud.client("cloudformation").delete_stack(StackName=STACK)
    assert "There is no stack gpu-governor" in run(capsys)
    found = shown(capsys)
    assert STAYS == found.keys() - {"logs"}
    assert ["COPY"] == found["copies"]["names"]
    for but, needing in (("", "table, copies, policy"), (",table,policy", "copies")):
        assert f"without the key, nobody can read {needing}: " in run(
            capsys, "--remove", f"key{but}", "--confirm", STACK, expected=1
        )
    # What CloudFormation could not delete, and what another stack of a longer name has.
    alarm = {
        "Namespace": "x",
        "MetricName": "x",
        "Period": 60,
        "EvaluationPeriods": 1,
        "Threshold": 1.0,
    }
    for name in (
        "gpu-governor-NoSweepAlarm-ABCDEFGHIJKL",
        "gpu-governor-two-NoSweepAlarm-ABCDEFGHIJKL",
    ):
        cloud.client("cloudwatch").put_metric_alarm(
            AlarmName=name, ComparisonOperator="GreaterThanThreshold", Statistic="Sum", **alarm
        )

    # Anybody may have set our tags: what no episode has recorded stays.
    said = run(capsys, "--remove-snapshots", "--confirm", STACK, expected=1)
    assert "deleted snapshot snap-" in said
    assert sorted(forged) == sorted(scene.simulation.dump()["snapshots"])
    assert all(
        f"kept snapshot {one} in us-east-1: it is in no state table" in said for one in forged
    )

    said = run(capsys, "--remove", ALL, "--confirm", STACK)
    assert "will be deleted in 30 days" in said
    assert (
        f"note this, as only the table knew it: 1 instance that GPU Governor stopped ({stopped})"
        in said
    )
    assert {"snapshots", "audit"} == shown(capsys).keys()
    assert [MARKS[0] in one for one in tags(ec2).values()] == [False, False]
    assert {"Key": "GpuGovernor", "Value": "exempt"} in tags(ec2)[waiting]

    # What Object Lock holds stays, and the next call says so again.
    s3, locked = (
        cloud.client("s3"),
        {"Bucket": scene.outputs["AuditBucketName"], "Key": "audit/locked"},
    )
    until = datetime.now(tz=UTC) + timedelta(days=1)
    s3.put_object_lock_configuration(
        Bucket=locked["Bucket"], ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"}
    )
    s3.put_object(**locked, Body=b"x", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until)
    assert "1 version in it may not be deleted" in run(
        capsys, "--remove-snapshots", "--remove-audit", "--confirm", STACK, expected=1
    )
    assert {"snapshots", "audit"} == shown(capsys).keys()
    [one] = s3.list_object_versions(Bucket=locked["Bucket"])["Versions"]
    s3.delete_object(**locked, VersionId=one["VersionId"], BypassGovernanceRetention=True)
    run(capsys, "--remove-audit", "--confirm", STACK)
    assert {"snapshots"} == shown(capsys).keys()
    assert "running" == stage.ec2_state(waiting)
    assert "stopped" == stage.ec2_state(stopped)
    rest = left(cloud)
    assert {"queues", "alarms"} == rest.keys()
    assert ["gpu-governor-two-NoSweepAlarm-ABCDEFGHIJKL"] == rest["alarms"]
    assert [scene.mailbox_url] == rest["queues"]


def tags(ec2: Any) -> dict[str, list[Any]]:
    """By instance."""
    reservations = ec2.describe_instances()["Reservations"]
    return {one["InstanceId"]: one["Tags"] for each in reservations for one in each["Instances"]}
