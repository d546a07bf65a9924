"""The whole loop with the roles of the template enforced: no function lacks a permission that it
uses.

All tests of this folder that use `stage` run with these roles enforced. Here is what their walks do
not show.

The template is deployed as it is, conditions included: partitions of the state table, tags of
instances and groups, tag keys, the sender of mail, writes that overwrite nothing. No function makes
a call here that meets those on KMS grants; they are evaluated over the template
(`tests/unit/template/test_rights.py`). The trust of member roles is enforced in `test_members.py`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from governor.alerts.delivery import Delivery
from governor.alerts.model import Alert, AlertKind, Severity, alert_document, sealed_text
from governor.aws.clients import Clients, allowing
from governor.aws.dynamodb import DynamoTable
from governor.core.instance import INSTANCE_TAG
from governor.core.units import iso
from governor.episode.model.episode import Episode, Outcome
from governor.table import keys
from governor.table.table import present, update
from local.demo.fleet import T4
from local.demo.samples import of_this_account
from local.demo.scene import CHECKPOINT_DOCUMENT
from local.engine.cloud import ROOT
from tests.console_world import without_id_marks
from tests.integration.gpus import heat, look
from tests.integration.people import decide, request
from tests.integration.stage import BREAK_GLASS, TARGET, Stage
from tests.twins.stores import EveryEventStore


@pytest.fixture
def guarded(stage: Stage) -> Stage:
    """The stack that tests share: its engine enforces IAM."""
    return stage


def test_a_role_is_refused_other_partitions_and_requests_without_a_key(guarded: Stage) -> None:
    """With the credentials of the page's role: it answers a question, and releases no freeze."""
    table = guarded.scene.outputs["StateTableName"]
    page = _as_role(guarded, "ServeApproval", "dynamodb")

    def key(pk: str) -> dict[str, Any]:
        return {"pk": {"S": pk}, "sk": {"S": "BREAKER"}}

    freeze = "BREAKER#123456789012#us-east-1"
    page.get_item(TableName=table, Key=key("APPROVAL#none"))
    attempts: tuple[Callable[[], Any], ...] = (
        lambda: page.get_item(TableName=table, Key=key(freeze)),
        lambda: page.update_item(TableName=table, Key=key(freeze)),
        lambda: page.delete_item(TableName=table, Key=key("APPROVAL#none")),
        lambda: page.scan(TableName=table),
        lambda: page.transact_write_items(
            TransactItems=[
                {
                    "Update": {
                        "TableName": table,
                        "Key": key("APPROVAL#none"),
                        "UpdateExpression": "SET a = pk",
                    }
                },
                {
                    "Update": {
                        "TableName": table,
                        "Key": key(freeze),
                        "UpdateExpression": "SET a = pk",
                    }
                },
            ]
        ),
    )
    for refused in attempts:
        with pytest.raises(ClientError, match="AccessDenied"):
            refused()


def test_nobody_but_the_stack_and_one_named_role_writes_into_the_table(guarded: Stage) -> None:
    """Not with every permission for DynamoDB. The named role writes; and everybody who may read
    still reads."""
    table = guarded.scene.outputs["StateTableName"]
    question = {"pk": {"S": "APPROVAL#forged"}, "sk": {"S": "REQUEST"}}
    forged = {**question, "status": {"S": "APPROVED"}}
    insider = _as_new_role(guarded, "developer")
    update = {"TableName": table, "Key": question, "UpdateExpression": "SET a = sk"}
    attempts: tuple[Callable[[], Any], ...] = (
        lambda: insider.put_item(TableName=table, Item=forged),
        lambda: insider.update_item(**update),
        lambda: insider.delete_item(TableName=table, Key=question),
        lambda: insider.batch_write_item(RequestItems={table: [{"PutRequest": {"Item": forged}}]}),
        lambda: insider.transact_write_items(
            TransactItems=[{"Put": {"TableName": table, "Item": forged}}]
        ),
    )
    for refused in attempts:
        with pytest.raises(
            ClientError, match=r"AccessDenied.*explicit deny in a resource-based policy"
        ):
            refused()
    assert "Item" not in insider.get_item(TableName=table, Key=question)

    breaker = _as_new_role(guarded, BREAK_GLASS.rpartition("/")[2])
    breaker.put_item(TableName=table, Item=forged)
    breaker.delete_item(TableName=table, Key=question)


def test_a_role_acts_on_instances_with_the_selector_alone(guarded: Stage) -> None:
    """Stops, terminations, starts, snapshots, marks and commands; and no mark but the two."""
    governed, other = guarded.launch(), guarded.launch(tags={"Purpose": "production"})
    marks = [{"Key": "LowUtilization", "Value": "true"}]
    selector = [{"Key": "Purpose", "Value": "GPU-Workload"}]
    actor, starter = _actor(guarded), _as_role(guarded, "UndoEpisode", "ec2")
    snapshotter, sweeper = (
        _as_role(guarded, "TakeSnapshot", "ec2"),
        _as_role(guarded, "SweepTarget", "ec2"),
    )
    commander = _as_role(guarded, "HandleSpotInterruption", "ssm")
    of_new = [{"ResourceType": "snapshot", "Tags": marks}]
    calls: tuple[Callable[[str], Any], ...] = (
        lambda one: actor.stop_instances(InstanceIds=[one]),
        lambda one: snapshotter.create_snapshots(
            InstanceSpecification={"InstanceId": one}, TagSpecifications=of_new
        ),
        lambda one: starter.start_instances(InstanceIds=[one]),
        lambda one: sweeper.create_tags(Resources=[one], Tags=marks),
        lambda one: sweeper.delete_tags(Resources=[one], Tags=marks),
        lambda one: commander.send_command(InstanceIds=[one], DocumentName=CHECKPOINT_DOCUMENT),
        lambda one: actor.terminate_instances(InstanceIds=[one]),
    )
    guarded.scene.simulation.set_delays(state_change=0, snapshot=0)
    for call in calls:
        with pytest.raises(ClientError, match=r"UnauthorizedOperation|AccessDenied"):
            call(other)
        guarded.eventually(
            lambda: guarded.ec2_state(governed) in ("running", "stopped") or None, "it moves"
        )
        call(governed)
    beyond: tuple[Callable[[], Any], ...] = (
        lambda: actor.terminate_instances(InstanceIds=[governed, other]),
        lambda: sweeper.create_tags(Resources=[governed], Tags=[*marks, *selector]),
        lambda: sweeper.create_tags(Resources=[other], Tags=selector),
        lambda: sweeper.delete_tags(Resources=[governed]),
        lambda: commander.send_command(InstanceIds=[governed], DocumentName="AWS-RunShellScript"),
    )
    for refused in beyond:
        with pytest.raises(ClientError, match=r"UnauthorizedOperation|AccessDenied"):
            refused()
    assert "running" == guarded.ec2_state(other)


def test_put_away_stops_nothing_by_itself_and_nobody_else_takes_the_role(guarded: Stage) -> None:
    """The permission is in a session of the role that acts; its trust names one function."""
    governed = guarded.launch()
    put_away = _as_role(guarded, "PutAway", "ec2")
    for call in (put_away.stop_instances, put_away.terminate_instances):
        with pytest.raises(ClientError, match="UnauthorizedOperation"):
            call(InstanceIds=[governed])
    for function in ("SweepTarget", "RecheckEpisode", "UndoEpisode", "TakeSnapshot"):
        with pytest.raises(ClientError, match="AccessDenied"):
            _actor(guarded, caller=function)
    assert "running" == guarded.ec2_state(governed)


def test_a_session_for_one_stop_reaches_no_other_instance_and_no_other_call(guarded: Stage) -> None:
    """With the session policy that put_away gives it."""
    first, second = guarded.launch(), guarded.launch()
    place = f"arn:aws:ec2:{TARGET.region}:{TARGET.account}:instance"
    session = _actor(guarded, policy=allowing("ec2:StopInstances", f"{place}/{first}"))
    beyond: tuple[Callable[[], Any], ...] = (
        lambda: session.stop_instances(InstanceIds=[second]),
        lambda: session.stop_instances(InstanceIds=[first, second]),
        lambda: session.terminate_instances(InstanceIds=[first]),
        session.describe_instances,
    )
    for refused in beyond:
        with pytest.raises(ClientError, match="UnauthorizedOperation"):
            refused()

    session.stop_instances(InstanceIds=[first])

    assert ("running", True) == (guarded.ec2_state(second), guarded.ec2_state(first) != "running")


MARKS: tuple[dict[str, str], ...] = (
    {"GpuGovernor": "exempt"},
    {"GpuGovernor": "anything"},
    {"aws:autoscaling:groupName": "trainers"},
    {"eks:nodegroup-name": "gpu"},
    {"aws:eks:cluster-name": "prod"},
    {"karpenter.sh/nodepool": "gpu"},
    {"aws:batch:compute-environment": "render"},
)
"""Tags of an exemption and of managers."""


def test_iam_keeps_exempt_and_managed_instances_whatever_the_code_believes(guarded: Stage) -> None:
    """With all that the role may do, and no session policy."""
    actor = _actor(guarded)
    for mark in MARKS:
        marked = guarded.launch(tags={"Purpose": "GPU-Workload", **mark})
        for call in (actor.stop_instances, actor.terminate_instances):
            with pytest.raises(ClientError, match="UnauthorizedOperation"):
                call(InstanceIds=[marked])
        assert "running" == guarded.ec2_state(marked), mark


def test_mail_is_sent_by_the_configured_sender_alone(guarded: Stage) -> None:
    """The role sends nothing in another name. `test_delivery.py` has the mail that it sends."""
    mail = {"Subject": {"Data": "s"}, "Body": {"Text": {"Data": "t"}}}
    ses = _as_role(guarded, "DeliverAlert", "sesv2")
    with pytest.raises(ClientError, match="AccessDenied"):
        ses.send_email(
            FromEmailAddress="ceo@example.com",
            Destination={"ToAddresses": ["alice@example.com"]},
            Content={"Simple": mail},
        )


def _as_new_role(guarded: Stage, name: str) -> Any:
    """A client of DynamoDB with the credentials of a role outside the stack that may do everything
    there."""
    cloud = guarded.scene.cloud
    trust = {"Effect": "Allow", "Principal": {"AWS": TARGET.account}, "Action": "sts:AssumeRole"}
    all_of_it = {"Effect": "Allow", "Action": ["dynamodb:*", "kms:*"], "Resource": "*"}
    documents = [
        json.dumps({"Version": "2012-10-17", "Statement": [one]}) for one in (trust, all_of_it)
    ]
    iam = cloud.client("iam")
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=documents[0])["Role"]["Arn"]
    iam.put_role_policy(RoleName=name, PolicyName="all", PolicyDocument=documents[1])
    return _in_session(guarded, role, "dynamodb")


def _as_role(guarded: Stage, function: str, service: str) -> Any:
    """A client with the credentials of a function's role."""
    return _in_session(guarded, _role_arn(guarded, f"{function}FunctionRole"), service)


def _actor(guarded: Stage, policy: str | None = None, caller: str = "PutAway") -> Any:
    """A client of EC2 in a session of the role that acts, as a function assumes it."""
    asked: dict[str, Any] = {"RoleArn": _role_arn(guarded, "ActorRole"), "RoleSessionName": "page"}
    if policy is not None:
        asked["Policy"] = policy
    given = _as_role(guarded, caller, "sts").assume_role(**asked)
    return _with_credentials(guarded, "ec2", given["Credentials"])


def _role_arn(guarded: Stage, logical_id: str) -> str:
    name = guarded.scene.physical_id(logical_id)
    return str(guarded.scene.cloud.client("iam").get_role(RoleName=name)["Role"]["Arn"])


def _in_session(guarded: Stage, role: str, service: str) -> Any:
    given = guarded.scene.cloud.client("sts").assume_role(RoleArn=role, RoleSessionName="page")
    return _with_credentials(guarded, service, given["Credentials"])


def _with_credentials(guarded: Stage, service: str, given: Mapping[str, Any]) -> Any:
    return boto3.client(
        service,  # type: ignore[call-overload]
        region_name=TARGET.region,
        endpoint_url=guarded.scene.cloud.endpoint_url,
        aws_access_key_id=given["AccessKeyId"],
        aws_secret_access_key=given["SecretAccessKey"],
        aws_session_token=given["SessionToken"],
    )


def test_every_role_suffices_for_a_termination(guarded: Stage) -> None:
    """Sweep, open, ask, decide, recheck, stop, snapshot, cancel, terminate, record. The persistent
    request is canceled first, so no successor is launched."""
    guarded.policy("mode: ask\nplan: {action: terminate}")
    script = b"#!/bin/sh\nexport TOKEN=hunter2\n"
    instance_id, link = guarded.ask(
        instance_type="g4dn.2xlarge",
        gpu=T4,
        lifecycle="spot",
        spot_request_type="persistent",
        user_data=base64.b64encode(script).decode(),
    )

    assert 303 == decide(guarded.personal(link), "approve", typed_instance_id=instance_id)[0]
    assert "terminated" == guarded.outcome(instance_id)
    dump = guarded.scene.simulation.dump()
    assert ["cancelled"] == list(dump["spot_requests"].values())
    assert {instance_id: "terminated"} == dump["instances"]
    _snapshots_come_first(guarded, instance_id)
    _audit_is_whole(guarded, instance_id)
    _user_data_is_kept(guarded, instance_id, script, request(guarded.personal(link))[1])


def _snapshots_come_first(guarded: Stage, instance_id: str) -> None:
    """The termination comes last, after a second recheck; the snapshots carry episode and
    DeleteAfter."""
    names = guarded.history(instance_id)
    assert (
        names.index("AreSnapshotsCompleted?")
        < names.index("RecheckBeforeTerminate")
        < names.index("Terminate")
    )
    own = [{"Name": f"tag:{INSTANCE_TAG}", "Values": [instance_id]}]
    ec2 = guarded.scene.cloud.client("ec2")
    snapshots = ec2.describe_snapshots(OwnerIds=["self"], Filters=own)["Snapshots"]
    tags = {tag["Key"]: tag["Value"] for tag in snapshots[0]["Tags"]}
    assert guarded.episode(instance_id).ref.execution_name == tags["GpuGovernor:Episode"]
    assert tags["DeleteAfter"].endswith("Z")


def _user_data_is_kept(guarded: Stage, instance_id: str, script: bytes, page: str) -> None:
    """A copy is at the place that the page names, for people alone; its text is in no message, item
    or page."""
    kept = guarded.episode(instance_id).progress.user_data
    assert kept is not None
    bucket, _, key = kept.kept_at.removeprefix("s3://").partition("/")
    s3 = guarded.scene.cloud.client("s3")

    assert script == s3.get_object(Bucket=bucket, Key=key)["Body"].read()
    assert f"aws s3 cp {kept.kept_at}" in without_id_marks(page)
    writer = _as_role(guarded, "TakeSnapshot", "s3")
    with pytest.raises(ClientError, match="AccessDenied"):
        writer.get_object(Bucket=bucket, Key=key)
    with pytest.raises(ClientError, match="AccessDenied"):
        writer.put_object(Bucket=bucket, Key=f"{key}-new", Body=b"", IfNoneMatch="*")
    items = guarded.scene.cloud.client("dynamodb").scan(
        TableName=guarded.scene.outputs["StateTableName"]
    )
    assert "hunter2" not in repr((items, guarded.scene.sent_mail(), page))


def _audit_is_whole(guarded: Stage, instance_id: str) -> None:
    """Question, deliveries, answer, each action with its request to EC2, and the end."""
    s3, bucket = guarded.scene.cloud.client("s3"), guarded.scene.outputs["AuditBucketName"]
    name = guarded.episode(instance_id).ref.execution_name

    def documents() -> list[dict[str, Any]]:
        keys = [
            one["Key"]
            for one in s3.list_objects_v2(Bucket=bucket, Prefix="audit/").get("Contents", ())
        ]
        own = sorted(key for key in keys if f"/{name}/" in key)
        return [json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read()) for key in own]

    def told() -> list[str] | None:
        found = [one["what"] for one in documents()]
        # The last message may be on its way: its deliveries come last of all.
        return found if {"outcome sent", "delivery"} <= {*found} else None

    sequence = guarded.eventually(told, "the audit does not come")
    expected = ["opened", "question made", "asked", "answered", "rechecked", "step begun", "done"]
    positions = [
        sequence.index(one) for one in (*expected, "snapshots made", "closed", "outcome sent")
    ]
    assert positions == sorted(positions)
    found = documents()
    done = {one["after"]["step"]: one["request_ids"] for one in found if one["what"] == "done"}
    assert {"stop": 1, "terminate": 2} == {step: len(requests) for step, requests in done.items()}
    assert all(requests for requests in done.values())
    assert "link:alice@example.com" in {one["who"] for one in found if one["what"] == "answered"}
    assert "TaskToken" not in json.dumps(found)
    assert "task_token" not in json.dumps(found)
    assert "Enabled" == s3.get_bucket_versioning(Bucket=bucket)["Status"]
    key = next(
        one["Key"] for one in s3.list_objects_v2(Bucket=bucket)["Contents"] if name in one["Key"]
    )
    writer = _as_role(guarded, "WriteAudit", "s3")
    with pytest.raises(ClientError, match="AccessDenied"):
        writer.delete_object(Bucket=bucket, Key=key)
    with pytest.raises(ClientError, match="AccessDenied"):
        writer.put_object(Bucket=bucket, Key=f"{key}-new", Body=b"{}")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        writer.put_object(Bucket=bucket, Key=key, Body=b"{}", IfNoneMatch="*")


def test_expired_snapshots_go_a_week_after_the_message(guarded: Stage) -> None:
    """The function may read what decides, send the message, and delete those snapshots; time is
    moved in what is stored."""
    guarded.policy("mode: ask\nplan: {snapshot_retention_days: 1, delete_expired_snapshots: true}")
    instance_id, link = guarded.ask()
    assert 303 == decide(link, "approve")[0]
    assert "stopped" == guarded.outcome(instance_id)
    episode, now = guarded.episode(instance_id), datetime.now(tz=UTC)
    ids, ec2 = list(episode.progress.snapshot_ids), guarded.scene.cloud.client("ec2")
    table = DynamoTable(guarded.clients, guarded.scene.outputs["StateTableName"])
    table.write(
        update(keys.episode(episode.ref), {"closed_at": now - timedelta(days=9)}, present())
    )
    ec2.create_tags(
        Resources=ids, Tags=[{"Key": "DeleteAfter", "Value": iso(now - timedelta(days=8))}]
    )

    answer, failed = guarded.invoke("ExpireSnapshots", {})

    assert (False, len(ids), 0) == (failed, answer["noticed"], answer["deleted"])
    assert ids == guarded.await_mail(instance_id, "snapshots-expire")["facts"]["snapshot_ids"]
    told = [
        one for one in guarded.state.expiries(TARGET) if one.episode == episode.ref.execution_name
    ]
    earlier = [replace(one, noticed_at=now - timedelta(days=8)) for one in told]
    guarded.state.note_expiring(TARGET, earlier)
    message, at = told[0].message, now - timedelta(days=7, hours=1)
    guarded.state.note_delivery(Delivery(message, message, "email", "alice@example.com", at))

    answer, failed = guarded.invoke("ExpireSnapshots", {})

    assert (False, len(ids)) == (failed, answer.get("deleted")), answer

    mine = [{"Name": "snapshot-id", "Values": ids}]
    assert [] == ec2.describe_snapshots(Filters=mine)["Snapshots"]


def test_an_instance_that_stays_stopped_is_asked_about_and_ended_by_two(guarded: Stage) -> None:
    """Each role suffices for the second question, too; time is moved in what is stored."""
    asks = (
        "mode: ask\napproval: {ask_about_stopped_after_days: 14, "
        "two_people_above_usd_per_hour: 0.1}\n"
        "ownership: {contacts: {team: {emails: [alice@example.com, bob@example.com]}}}"
    )
    guarded.policy(asks)
    instance_id, link = guarded.ask()
    assert 303 == decide(link, "approve")[0]
    assert "stopped" == guarded.outcome(instance_id)
    first, ago = guarded.episode(instance_id), datetime.now(tz=UTC) - timedelta(days=15)
    table = DynamoTable(guarded.clients, guarded.scene.outputs["StateTableName"])
    table.write(
        update(
            keys.episode(first.ref),
            {"steps_done": {**first.progress.steps_done, "stop": ago}},
            present(),
        )
    )
    open_key = keys.target_pk(TARGET), f"OPENLEDGER#{instance_id}#{first.ref.execution_name}"
    table.write(update(open_key, {"booked_at": ago}, present()))
    # The sweep before was an hour ago: what is due once an hour is due now.
    seen = guarded.state.observations(TARGET)
    earlier = {one: replace(its, at=its.at - timedelta(minutes=61)) for one, its in seen.items()}
    guarded.state.remember(TARGET, earlier, datetime.now(tz=UTC))

    swept = guarded.scene.sweep()["results"][0]["summary"]
    assert (0, False) == (swept["problems"], swept["frozen"])
    second = guarded.eventually(
        lambda: _asked_anew(guarded, first), "nobody is asked about the stopped one"
    )
    assert (first.ref, first.measurement.evidence_hash) == (
        second.stopped_by_episode,
        second.measurement.evidence_hash,
    )
    of_second = link.replace(first.approval_id, second.approval_id)
    for person in ("alice@example.com", "bob@example.com"):
        answer = decide(
            guarded.personal(of_second, person), "approve", typed_instance_id=instance_id
        )
        assert 303 == answer[0], (person, answer)

    assert "terminated" == guarded.outcome(instance_id)
    assert "terminated" == guarded.ec2_state(instance_id)
    stop, end = guarded.state.open_entries(TARGET, instance_id)
    assert (Outcome.STOPPED, Outcome.TERMINATED, True) == (
        stop.outcome,
        end.outcome,
        end.is_of_storage,
    )


def _asked_anew(guarded: Stage, first: Episode) -> Episode | None:
    try:
        found = guarded.episode(first.ref.instance_id)
    except AssertionError:
        return None  # Its workflow has begun, and not opened it.
    question = guarded.state.approval(found.approval_id)
    return found if found.ref != first.ref and question and question.task_token else None


def test_a_workflow_that_is_aborted_after_its_stop_is_closed_booked_and_told(
    guarded: Stage,
) -> None:
    """The handler of its end may describe the instance, close the episode, write the ledger and
    free the lock."""
    guarded.policy("mode: ask")
    throttled = ("ec2:CreateSnapshots", "SnapshotCreationPerVolumeRateExceeded")
    # Not the rehearsal: its dry run comes before the stop.
    guarded.scene.simulation.set_fault(*throttled, times=500, match={"DryRun": False})
    try:
        instance_id, link = guarded.ask()
        assert 303 == decide(link, "approve")[0]
        guarded.eventually(
            lambda: "TakeSnapshot" in guarded.history(instance_id) or None, "no snapshot is tried"
        )

        execution = guarded.scene.executions()[instance_id]["executionArn"]
        guarded.scene.cloud.client("stepfunctions").stop_execution(executionArn=execution)

        assert "failed" == guarded.await_mail(instance_id, "failure")["facts"]["outcome"]
        # People are told before the episode is closed, so the mail may be here before the entry is.
        (entry,) = guarded.eventually(
            lambda: guarded.state.open_entries(TARGET, instance_id) or None, "nothing is booked"
        )
        assert Outcome.STOPPED is entry.outcome
        guarded.eventually(
            lambda: guarded.state.record(TARGET, instance_id).open_episode is None or None,
            "its lock is not freed",
        )
    finally:
        guarded.scene.simulation.set_fault(*throttled, times=0)


def test_a_spot_warning_is_told(guarded: Stage) -> None:
    """The handler may read the instance, publish, run the hook, snapshot, close the question,
    compare prices; that of recommendations may run the hook."""
    events = "{snapshot_data_volumes: true, checkpoint_on_rebalance: true, placement_scores: true}"
    guarded.policy(f"mode: ask\nplan: {{when_stop_is_unsupported: terminate}}\nevents: {events}")
    instance_id, _ = guarded.ask(
        instance_type="g4dn.xlarge",
        gpu=T4,
        lifecycle="spot",
        spot_request_type="one-time",
        data_gib=50,
    )
    guarded.scene.simulation.rebalance_recommendation(instance_id)
    assert guarded.await_mail(instance_id, "rebalance-recommended")
    guarded.eventually(lambda: guarded.scene.simulation.commands() or None, "no hook is run")
    guarded.scene.simulation.spot_warning(instance_id)

    assert "critical" == guarded.await_mail(instance_id, "spot-interruption")["severity"]
    assert guarded.await_mail(instance_id, "interruption-advice")["facts"]["placement_scores"]
    assert "interrupted" == guarded.outcome(instance_id)
    assert 2 == len(
        [one for one in guarded.scene.simulation.commands() if instance_id in one["InstanceIds"]]
    )
    # Its own alone: workflows of other tests may still take theirs.
    own = [{"Name": f"tag:{INSTANCE_TAG}", "Values": [instance_id]}]
    assert 1 == len(guarded.scene.cloud.client("ec2").describe_snapshots(Filters=own)["Snapshots"])


def test_an_instance_that_auto_scaling_lets_go_is_told(guarded: Stage) -> None:
    """The handler may read the group's hook and the question, close it, publish, run the checkpoint
    hook, and complete a lifecycle hook of its own."""
    guarded.policy("mode: ask\nevents: {completed_lifecycle_hooks: [save-work]}")
    event = of_this_account(
        json.loads((ROOT / "events/handle_lifecycle_action/scale-in.json").read_text())
    )
    event["time"] = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    guarded.make_group(event["detail"]["AutoScalingGroupName"])
    asked, _ = guarded.ask()
    left = guarded.launch(name="left", tags={"GpuGovernorCheckpoint": "off"})
    answers = []
    for instance_id in (asked, left):
        of_it = {**event["detail"], "EC2InstanceId": instance_id}
        answers.append(
            guarded.invoke("HandleLifecycleAction", {**event, "id": instance_id, "detail": of_it})
        )

    assert [False, False] == [raised for _, raised in answers]
    did = [
        (answer["checkpoint_sent"], answer["voided"], answer["completed"]) for answer, _ in answers
    ]
    assert [(True, True, False), (False, False, True)] == did
    assert "interrupted" == guarded.outcome(asked)
    assert 2 <= guarded.scene.simulation.calls()["autoscaling:DescribeLifecycleHooks"]
    guarded.policy("mode: ask")


def test_what_is_given_up_is_kept_and_can_be_put_back(guarded: Stage) -> None:
    """With what the channel said; put back it goes to that channel alone."""
    sqs, receivers = guarded.scene.cloud.client("sqs"), guarded.scene.receivers
    urls = sqs.list_queues()["QueueUrls"]
    failures = next(url for url in urls if "DeliveryFailures" in url)
    queue = next(url for url in urls if "DeliveryQueue" in url)
    name = "a-message-of-the-day-before-yesterday"
    alert = Alert(
        AlertKind.TELEMETRY_SILENT,
        Severity.WARNING,
        TARGET.account,
        TARGET.region,
        name,
        ("It failed.",),
        name,
        datetime.now(tz=UTC) - timedelta(days=2),
    )

    def taken(channel: str) -> int:
        every = receivers.received(channel)
        return sum(one.status < 300 and name in str(one.payload) for one in every)

    receivers.fail("teams", 503, about=name)
    sealed = replace(alert, facts={"seal": guarded.seal(sealed_text(alert))})
    sqs.send_message(QueueUrl=queue, MessageBody=json.dumps(alert_document(sealed)))

    def kept() -> dict[str, Any] | None:
        found = sqs.receive_message(QueueUrl=failures, MessageAttributeNames=["All"])
        messages: list[dict[str, Any]] = found.get("Messages", [])
        return next((one for one in messages if name in one["Body"]), None)

    message = guarded.eventually(kept, "nothing is kept")
    assert "teams: it answered 503" == message["MessageAttributes"]["ErrorMessage"]["StringValue"]
    guarded.eventually(lambda: taken("webhook") or None, "the webhook got nothing")
    assert 0 == taken("teams")

    sqs.send_message(QueueUrl=queue, MessageBody=message["Body"])
    guarded.eventually(lambda: taken("teams") or None, "it was not tried again")
    assert (1, 1) == (taken("teams"), taken("webhook"))


def test_an_announced_date_is_told_and_kept(guarded: Stage) -> None:
    """The handler may read the instance, publish, keep the date and drop it; the sweep may read
    dates."""
    guarded.policy("mode: ask\nplan: {action: notify-only}")
    instance_id = guarded.launch()
    event = of_this_account(json.loads((ROOT / "events/handle_notice/retirement.json").read_text()))
    event["detail"]["affectedEntities"] = [{"entityValue": instance_id}]
    later = datetime.now(tz=UTC) + timedelta(days=14)
    event["detail"]["startTime"] = later.strftime("%Y-%m-%dT%H:%M:%SZ")

    assert ({"told": [instance_id]}, False) == guarded.invoke("HandleNotice", event)
    assert 0 == guarded.scene.sweep()["results"][0]["summary"]["problems"]
    event["detail"]["statusCode"] = "closed"
    assert ({"told": []}, False) == guarded.invoke("HandleNotice", event)
    guarded.policy("mode: ask")


def test_a_date_that_moved_nearer_replaces_the_one_that_was_kept(guarded: Stage) -> None:
    """Within a day of it nothing is kept to remind of, and what was kept is dropped: that takes a
    look."""
    guarded.policy("mode: ask\nplan: {action: notify-only}")
    instance_id = guarded.launch()
    event = of_this_account(json.loads((ROOT / "events/handle_notice/retirement.json").read_text()))
    event["detail"]["affectedEntities"] = [{"entityValue": instance_id}]
    event["detail"]["eventArn"] += "-moved"
    log = EveryEventStore(DynamoTable(Clients(), guarded.scene.outputs["StateTableName"]))
    kept = []
    for hours in (300, 10):
        when = datetime.now(tz=UTC) + timedelta(hours=hours)
        event["detail"]["startTime"] = when.strftime("%Y-%m-%dT%H:%M:%SZ")
        assert ({"told": [instance_id]}, False) == guarded.invoke("HandleNotice", event)
        kept.append([notice for notice in log.notices(TARGET) if notice.instance_id == instance_id])

    assert [1, 0] == [len(notices) for notices in kept]
    guarded.policy("mode: ask")


WARNINGS = {
    "HandleNotice": "handle_notice/retirement.json",
    "HandleRebalanceRecommendation": "handle_rebalance_recommendation/recommended.json",
    "HandleSpotInterruption": "handle_spot_interruption/terminate.json",
}


def test_a_refused_policy_keeps_no_warning_back(guarded: Stage) -> None:
    """Answered by the last document that was accepted, which each role may read."""
    guarded.policy("mode: ask\nplan: {action: notify-only}")
    guarded.launch()
    guarded.scene.sweep()
    guarded.policy("mode: reckless")
    try:
        for function, sample in WARNINGS.items():
            event = of_this_account(json.loads((ROOT / "events" / sample).read_text()))
            answer, raised = guarded.invoke(function, {**event, "id": f"refused-{function}"})
            assert not raised, (function, answer)
    finally:
        guarded.policy("mode: ask")


def test_the_health_of_gpus_is_told(guarded: Stage) -> None:
    """The function may list, read, publish, and keep what it told."""
    guarded.policy("mode: ask\nplan: {action: notify-only}")
    instance_id = guarded.launch()
    heat(guarded, instance_id, 90)

    looked = look(guarded)

    assert (1, 0) == (looked["told"], looked["problems"])
    assert guarded.await_mail(instance_id, "health-finding")
    guarded.policy("mode: ask")
