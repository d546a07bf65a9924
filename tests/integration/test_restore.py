"""The state table is lost, and an old copy of it is put back: nothing wrong follows from the old
state."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_socket
from botocore.exceptions import ClientError

from cli.governor import main
from governor.core.units import in_utc, iso
from local.demo.scene import STACK, Scene
from tests.integration.conftest import cleaned_stage
from tests.integration.people import decide, request
from tests.integration.stage import AT_ONCE, BREAK_GLASS, TARGET, Stage, guarded_stage

COPY = "copy-of-the-state"
KINDS = {"APPROVAL", "EPISODE", "LOCK"}


@pytest.fixture(scope="module")
def own_scene() -> Iterator[Scene]:
    """A stack of this module, whose table is lost."""
    pytest_socket.enable_socket()
    with guarded_stage(more={"BreakGlassRoleArn": BREAK_GLASS}) as stage:
        yield stage.scene


@pytest.fixture
def own_stage(own_scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """That stack with nothing running; afterwards its table is empty and has no copy."""
    url = own_scene.cloud.reachable_url(own_scene.outputs["ApiUrl"])
    monkeypatch.setenv("GOVERNOR_API_URL", url)
    with cleaned_stage(own_scene) as stage:
        yield stage
    own_scene.cloud.client("dynamodb").delete_table(TableName=COPY)
    empty(stage)


def restore_copy(stage: Stage, at: datetime) -> None:
    """As docs/lifecycle.md says: to a new table, at a time."""
    stage.scene.cloud.client("dynamodb").restore_table_to_point_in_time(
        SourceTableName=stage.scene.outputs["StateTableName"],
        TargetTableName=COPY,
        RestoreDateTime=at,
    )


def items(stage: Stage, table: str) -> list[dict[str, Any]]:
    """All of a table."""
    pages = stage.scene.cloud.client("dynamodb").get_paginator("scan").paginate(TableName=table)
    return [item for page in pages for item in page["Items"]]


def executions(stage: Stage) -> dict[str, str]:
    """The latest workflow of each instance."""
    return {one: found["executionArn"] for one, found in stage.scene.executions().items()}


def empty(stage: Stage) -> None:
    """Delete every item of the state table."""
    table = stage.scene.outputs["StateTableName"]
    for item in items(stage, table):
        key = {"pk": item["pk"], "sk": item["sk"]}
        stage.scene.cloud.client("dynamodb").delete_item(TableName=table, Key=key)


def lose_everything(stage: Stage) -> None:
    """Somebody has deleted every item."""
    empty(stage)
    assert not kinds(stage, stage.scene.outputs["StateTableName"]) & KINDS


def kinds(stage: Stage, table: str) -> set[str]:
    """Return the kinds of its items; a message that is being delivered may be noted at any time."""
    return {item["pk"]["S"].partition("#")[0] for item in items(stage, table)}


def test_the_stack_has_point_in_time_recovery(stage: Stage) -> None:
    """And only such a table can be restored, to no time to come. Copies harm nobody, so this runs
    on the stack that tests share, and before this module has one of its own."""
    dynamodb = stage.scene.cloud.client("dynamodb")
    found = dynamodb.describe_continuous_backups(TableName=stage.scene.outputs["StateTableName"])
    state = found["ContinuousBackupsDescription"]["PointInTimeRecoveryDescription"]
    assert "ENABLED" == state["PointInTimeRecoveryStatus"]
    with pytest.raises(ClientError, match="InvalidRestoreTime"):
        restore_copy(stage, datetime.now(tz=UTC) + timedelta(hours=1))
    restore_copy(stage, datetime.now(tz=UTC))
    with pytest.raises(ClientError, match="PointInTimeRecoveryUnavailable"):
        dynamodb.restore_table_to_point_in_time(
            SourceTableName=COPY, TargetTableName="another", UseLatestRestorableTime=True
        )
    dynamodb.delete_table(TableName=COPY)


def test_what_is_there_is_not_overwritten_and_sign_ins_are_left_out(
    own_stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """A caps counter that has gone on, a session that was ended since, an item that has expired."""
    dynamodb, table = (
        own_stage.scene.cloud.client("dynamodb"),
        own_stage.scene.outputs["StateTableName"],
    )

    def put(name: str, pk: str, sk: str, **more: Any) -> None:
        dynamodb.put_item(TableName=name, Item={"pk": {"S": pk}, "sk": {"S": sk}, **more})

    put(table, "CAPS#2099010100", "ORGANIZATION", taken={"N": "1"})
    put(table, "CAPS#2099010100", "OWNER#a", taken={"N": "2"})
    put(table, "SESSION#x", "SESSION", who={"S": "ada"})
    put(table, "EVENT#x", "SEEN", expires_at_epoch={"N": "1"})
    before = datetime.now(tz=UTC).replace(microsecond=0)
    dynamodb.restore_table_to_point_in_time(
        SourceTableName=table, TargetTableName=COPY, UseLatestRestorableTime=True
    )
    summary = dynamodb.describe_table(TableName=COPY)["Table"]["RestoreSummary"]
    assert before <= summary["RestoreDateTime"]
    assert table == summary["SourceTableArn"].rpartition("/")[2]
    put(table, "CAPS#2099010100", "ORGANIZATION", taken={"N": "9"})
    for pk, sk in (("SESSION#x", "SESSION"), ("EVENT#x", "SEEN"), ("CAPS#2099010100", "OWNER#a")):
        dynamodb.delete_item(TableName=table, Key={"pk": {"S": pk}, "sk": {"S": sk}})

    assert 0 == main(["restore", "--from", COPY, "--confirm", STACK])

    said = capsys.readouterr().out
    assert "sign-ins" in said
    assert (
        f"item of {COPY}, as it was on {in_utc(summary['RestoreDateTime'])}: 1 count of a cap"
        in said
    )
    now = {(one["pk"]["S"], one["sk"]["S"]): one for one in items(own_stage, table)}
    assert {"N": "9"} == now["CAPS#2099010100", "ORGANIZATION"]["taken"]
    assert {"N": "2"} == now["CAPS#2099010100", "OWNER#a"]["taken"]
    assert not {"SESSION#x", "EVENT#x"} & {pk for pk, _ in now}
    put(COPY, "VERSION#items", "SCHEMA", number={"N": "99"})
    assert 1 == main(["restore", "--from", COPY, "--confirm", STACK])
    assert "has items of schema 99" in capsys.readouterr().err
    for wrong, why in ((table, "the state table itself"), ("none", "there is no table")):
        assert 1 == main(["restore", "--from", wrong, "--confirm", STACK])
        assert why in capsys.readouterr().err


def sign_in_as(stage: Stage, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a new role that may do everything with tables, and look at the stack."""
    trust = {"Effect": "Allow", "Principal": {"AWS": TARGET.account}, "Action": "sts:AssumeRole"}
    actions = ["dynamodb:*", "kms:*", "cloudformation:Describe*", "cloudformation:List*"]
    rights = {"Effect": "Allow", "Action": actions, "Resource": "*"}
    documents = [
        json.dumps({"Version": "2012-10-17", "Statement": [one]}) for one in (trust, rights)
    ]
    iam = stage.scene.cloud.client("iam")
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=documents[0])["Role"]["Arn"]
    iam.put_role_policy(RoleName=name, PolicyName="all", PolicyDocument=documents[1])
    sts = stage.scene.cloud.client("sts")
    given = sts.assume_role(RoleArn=role, RoleSessionName="operator")["Credentials"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", given["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", given["SecretAccessKey"])
    monkeypatch.setenv("AWS_SESSION_TOKEN", given["SessionToken"])


def test_the_named_role_restores_and_another_learns_its_name(
    own_stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table's policy denies the other whatever its permissions; nothing is written then."""
    table = own_stage.scene.outputs["StateTableName"]
    own_stage.ask()
    restore_copy(own_stage, datetime.now(tz=UTC))
    lose_everything(own_stage)
    monkeypatch.delenv("AWS_PROFILE", raising=False)

    sign_in_as(own_stage, "developer", monkeypatch)
    assert 0 == main(["restore", "--from", COPY, "--dry-run"])
    assert 1 == main(["restore", "--from", COPY, "--confirm", STACK])
    assert f"and {BREAK_GLASS}: assume that role, and run this again" in capsys.readouterr().err
    assert not kinds(own_stage, table) & KINDS

    sign_in_as(own_stage, "break-glass", monkeypatch)
    assert 0 == main(["restore", "--from", COPY, "--confirm", STACK])
    assert kinds(own_stage, table) >= KINDS


def test_nothing_wrong_follows_from_an_hour_old_state(
    own_stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two questions were open then. Since then one instance was stopped, one is kept; a third was
    asked about, and is kept."""
    stage = own_stage
    table = stage.scene.outputs["StateTableName"]
    stopped, yes = stage.ask(name="stopped")
    kept, keep = stage.ask(name="kept")
    time.sleep(0.05)
    then = datetime.now(tz=UTC)
    time.sleep(0.05)
    assert 303 == decide(yes, "approve")[0]
    assert 303 == decide(keep, "keep")[0]
    assert "stopped" == stage.outcome(stopped)
    later, keep_later = stage.ask(name="later")
    assert 303 == decide(keep_later, "keep")[0]
    stage.ended(kept)
    stage.ended(later)
    assert stage.state.record(TARGET, kept).hold is not None
    restore_copy(stage, then)
    lose_everything(stage)
    deeds = stage.scene.simulation.deeds()

    assert 1 == main(["restore", "--from", COPY])
    assert "confirm with --confirm gpu-governor" in capsys.readouterr().err
    assert 0 == main(["restore", "--from", COPY, "--dry-run"])
    assert "Nothing was written" in capsys.readouterr().out
    assert not kinds(stage, table) & KINDS
    assert 0 == main(["restore", "--from", COPY, "--confirm", STACK, "--json"])
    said = json.loads(capsys.readouterr().out)
    assert said["frozen"]
    assert iso(then) == said["source_as_of"]
    assert said["lacking"].keys() >= KINDS
    assert kinds(stage, table) >= KINDS

    # The keep is lost, and mode auto would act unasked: but everything is frozen, sweep after
    # sweep.
    auto = {"mode": "auto", "approval": {**AT_ONCE, "notice_minutes": 0.01}}
    stage.policy(json.dumps({**auto, "metrics": {"publishers_are_trusted": True}}))
    begun = executions(stage)
    for _ in range(3):
        stage.scene.sweep()
    # Links of then open, and answer nothing: their workflows have ended.
    for link in (yes, keep):
        assert request(link)[0] < 500
    assert begun == executions(stage)
    assert ["running"] * 2 == [stage.ec2_state(one) for one in (kept, later)]
    assert deeds == stage.scene.simulation.deeds()

    # Once an admin ends the freeze, people are asked again.
    stage.policy("mode: ask")
    freeze = stage.state.hub().freeze
    assert freeze is not None
    assert COPY in freeze.why
    stage.state.request_freeze_end(None, freeze, "ada@example.com", datetime.now(tz=UTC))
    for _ in range(3):
        stage.scene.sweep()
    assert stage.state.hub().freeze is None
    stage.await_mail(later, "approval-requested")
    assert "ask" == stage.episode(later).mode.value
    assert deeds == stage.scene.simulation.deeds()
