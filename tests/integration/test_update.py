"""A stack of an earlier release, with its own code, is updated while a question is open; and back
again."""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from local.demo.receivers import Receivers
from local.demo.scene import STACK, TEMPLATE, deploy_scene
from local.engine.cloud import REGION, ROOT, LocalCloud
from local.engine.templates import load_template
from tests.integration.people import decide, request
from tests.integration.stage import TARGET, Stage

RELEASE = Path(__file__).with_name("release_2428e04.tar.xz")
"""That release as it was: `git archive 2428e04 functions layers statemachines template.yaml`."""
PAGE = (ROOT / "docs/lifecycle.md").read_text(encoding="utf-8")
MEMBER_FUNCTIONS = load_template(TEMPLATE)["Resources"]["Fn::ForEach::MemberFunctions"][1]
PATH = f"/{STACK}-{REGION}/"
WRITES_BY_PATH = {
    f"{name}Role"
    for name, resource in load_template(TEMPLATE)["Resources"].items()
    if isinstance(resource, dict) and "RolePath" in resource.get("Properties", {})
}
"""Roles that write the state table, without a name of their own."""
READER = (
    "ownership: {contacts: {reader: {emails: [reader@example.com, alice@example.com]}}, "
    "default_contacts: [reader]}"
)


def unpacked(release: Path, folder: Path) -> Path:
    """Unpack a release; return its template, which lies beside its code."""
    with tarfile.open(release) as archive:
        # Python has it since 3.11.4; Debian 12 has 3.11.2.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        archive.extractall(folder)
    return folder / "template.yaml"


@pytest.fixture
def earlier_template(tmp_path: Path) -> Path:
    """The template of the earlier release, beside its code."""
    return unpacked(RELEASE, tmp_path)


@pytest.fixture
def earlier(earlier_template: Path) -> Iterator[Stage]:
    """A stack of the earlier release, in an engine of its own that enforces IAM."""
    with deployed(earlier_template, READER) as stage:
        yield stage


@contextmanager
def deployed(template: Path, policy: str) -> Iterator[Stage]:
    """A stack of a release in mode ask, in an engine of its own that enforces IAM."""
    with (
        Receivers() as receivers,
        LocalCloud(wait_scale=0.05, enforce_iam=True, trust=receivers.certificate) as cloud,
    ):
        before = dict(os.environ)
        os.environ.update(cloud.environment())
        try:
            scene = deploy_scene(cloud, receivers, mode="ask", policy=policy, template=template)
            scene.subscribe_a_person()
            yield Stage(scene)
        finally:
            os.environ.clear()
            os.environ.update(before)


def resources(cloud: LocalCloud) -> dict[str, str]:
    """The physical id of every resource of the stack, by its logical id."""
    pages = (
        cloud.client("cloudformation")
        .get_paginator("list_stack_resources")
        .paginate(StackName=STACK)
    )
    return {
        one["LogicalResourceId"]: one["PhysicalResourceId"]
        for page in pages
        for one in page["StackResourceSummaries"]
    }


def asked_again(stage: Stage, instance_id: str, before: str) -> str | None:
    """The link of a later question about the instance, which says why it is asked again."""
    for mail in stage.scene.read_mail():
        is_question = (
            mail["kind"] == "approval-requested" and mail.get("instance_id") == instance_id
        )
        link = stage.scene.cloud.reachable_url(mail["link"]) if is_question else ""
        if is_question and page_of(link) != page_of(before):
            assert "You are asked again: GPU Governor was updated" in mail["facts"]["reason"]
            return link
    return None


def page_of(link: str) -> str:
    """The id of the question that a link of either release opens."""
    return (
        re.split(r"/(?:q|approvals)/", link)[1]
        .partition(".")[0]
        .partition("?")[0]
        .partition("/")[0]
    )


def test_an_update_and_a_rollback_destroy_nothing_and_ask_again(
    earlier: Stage, earlier_template: Path
) -> None:
    """A stack is updated, rolled back and updated again. One stack goes the whole way, because each
    deployment and each update takes long."""
    instance_id, link = earlier.ask()
    _update_replaces_roles_alone(earlier)
    _question_asked_before_is_asked_again(earlier, instance_id, link)
    _first_stored_version_comes_in_force(earlier)
    asked = _rollback_destroys_nothing(earlier, earlier_template)
    _way_back_is_as_documented(earlier)
    assert "running" == earlier.ec2_state(asked)


def _store(stage: Stage) -> str:
    """Store a policy, and return its version."""
    stored = stage.scene.cloud.client("s3").put_object(
        Bucket=stage.scene.outputs["PolicyBucketName"],
        Key="policy.yaml",
        Body=f"mode: ask\n{READER}\n".encode(),
    )
    return str(stored["VersionId"])


def _update_replaces_roles_alone(earlier: Stage) -> None:
    """Roles that members trust by name get that name, and those that the table trusts by a path,
    that path. Every other resource but the layer keeps its physical id."""
    cloud = earlier.scene.cloud
    before = resources(cloud)

    outputs = cloud.update(TEMPLATE, STACK)

    after = resources(cloud)
    renamed = {name for name in before if after.get(name) != before[name] and "Layer" not in name}
    trusted = {f"{function}FunctionRole" for function in MEMBER_FUNCTIONS}
    iam = cloud.client("iam")
    of_the_path = {role["RoleName"] for role in iam.list_roles(PathPrefix=PATH)["Roles"]}
    moved = {name for name in renamed if after[name] in of_the_path}
    assert WRITES_BY_PATH & before.keys() == moved
    assert (trusted & before.keys()) | moved == renamed
    assert {"ExpireSnapshotsFunctionRole", "ScanAcceleratorsFunctionRole"} == (
        trusted - before.keys()
    ), "roles of functions that are new"
    for name in renamed - moved:
        assert re.fullmatch(rf"{STACK}-{REGION}-[a-z-]{{4,15}}", after[name])
        assert before[name] not in [one["RoleName"] for one in iam.list_roles()["Roles"]]
    assert earlier.scene.outputs.items() <= outputs.items()
    earlier.scene.outputs.update(outputs)


def _question_asked_before_is_asked_again(earlier: Stage, instance_id: str, link: str) -> None:
    """The link still opens; no answer to it counts, and a new question comes."""
    status, page = decide(earlier.personal(link), "approve")
    assert (303 != status, True) == (True, "You are asked again" in page)
    earlier.scene.sweep()
    assert "void" == earlier.outcome(instance_id)
    assert "running" == earlier.ec2_state(instance_id)
    # A sweep that remembers nothing looks at all readings: they are two hours old, and the memory
    # is not.
    earlier.state.remember(TARGET, {}, datetime.now(tz=UTC))
    earlier.scene.sweep()
    again = earlier.eventually(
        lambda: asked_again(earlier, instance_id, link), "nobody is asked again"
    )
    assert 303 == decide(earlier.personal(again), "approve")[0]
    assert "stopped" == earlier.outcome(instance_id)


def _first_stored_version_comes_in_force(earlier: Stage) -> None:
    """The parameter counts on, until a first version of the policy is stored; every role may read
    that."""
    earlier.scene.sweep()
    assert earlier.state.version_in_force() is None
    version = _store(earlier)
    earlier.eventually(
        lambda: earlier.state.version_in_force() == version or None,
        "the first version is not in force",
    )


def _rollback_destroys_nothing(earlier: Stage, earlier_template: Path) -> str:
    """A question of the newer release ends as failed, and its instance runs on. The earlier release
    asks and stops as before. Return the instance that runs on."""
    cloud = earlier.scene.cloud
    outputs = dict(earlier.scene.outputs)
    asked, link = earlier.ask(name="asked-by-the-newer")
    assert "ask" == earlier.episode(asked).mode.value

    cloud.update(earlier_template, STACK)

    kept = {one["Name"] for one in cloud.client("s3").list_buckets()["Buckets"]}
    assert {outputs["PolicyBucketName"], outputs["AuditBucketName"]} <= kept
    assert 404 == request(link)[0]
    in_an_hour = datetime.now(tz=UTC) + timedelta(hours=1)
    assert 303 == decide(earlier.personal(link, expires_at=in_an_hour), "approve")[0]
    assert "failed" == earlier.outcome(asked)
    assert "running" == earlier.ec2_state(asked)
    stopped, again = earlier.ask(name="asked-by-the-earlier")
    assert 303 == decide(again, "approve")[0]
    assert "stopped" == earlier.outcome(stopped)
    return asked


def _way_back_is_as_documented(earlier: Stage) -> None:
    """After the next update no sweep works before the stored policy is put back."""
    scene = earlier.scene
    cloud = scene.cloud
    scene.outputs.update(cloud.update(TEMPLATE, STACK))
    with pytest.raises(RuntimeError, match="NoSuchVersion"):
        scene.sweep()
    version = _store(earlier)
    with pytest.raises(RuntimeError, match="NoSuchVersion"):
        scene.sweep()
    key = '{"pk": {"S": "VERSION#in-force"}, "sk": {"S": "POLICY"}}'
    assert f"delete-item --table-name <StateTableName> --key '{key}'" in PAGE
    cloud.client("dynamodb").delete_item(
        TableName=scene.outputs["StateTableName"], Key=json.loads(key)
    )
    deeds = scene.simulation.deeds()
    scene.sweep()
    assert version == earlier.state.version_in_force()
    assert deeds == scene.simulation.deeds()
