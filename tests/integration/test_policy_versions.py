"""The versions of the policy on the deployed stack: put, announced, accepted, in force."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cli.governor import main
from local.demo.samples import of_this_account
from local.engine.cloud import ACCOUNT
from tests.integration.stage import Stage

ARN = f"arn:aws:iam::{ACCOUNT}:user"
POLICY = f"""mode: observe
two_people_for_policy: true
ownership:
  default_contacts: [ops]
  contacts:
    ops:
      emails: [alice@example.com, bob@example.com]
      identities: {{"aws:{ARN}/alice": alice@example.com, "aws:{ARN}/bob": bob@example.com}}
"""
ASK = POLICY.replace("observe", "ask")
As = Callable[[str], None]


@pytest.fixture
def versions(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """The stack with an empty bucket, before and after: other tests go by the parameter."""
    monkeypatch.setenv(
        "GOVERNOR_API_URL", stage.scene.cloud.reachable_url(stage.scene.outputs["ApiUrl"])
    )
    yield stage
    bucket, table = stage.scene.outputs["PolicyBucketName"], stage.scene.outputs["StateTableName"]
    cloud = stage.scene.cloud
    cloud.client("s3").delete_object(Bucket=bucket, Key="policy.yaml")
    key = {"pk": {"S": "VERSION#in-force"}, "sk": {"S": "POLICY"}}
    cloud.client("dynamodb").delete_item(TableName=table, Key=key)


@pytest.fixture
def be(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> As:
    """The command line with the keys of an IAM user, who may call the API and nothing else."""
    iam = stage.scene.cloud.client("iam")
    keys: dict[str, dict[str, str]] = {}
    call = {"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": "*"}
    for name in ("alice", "bob", "mallory"):
        # Another test may have made them.
        with suppress(iam.exceptions.EntityAlreadyExistsException):
            iam.create_user(UserName=name)
        iam.put_user_policy(
            UserName=name, PolicyName="call", PolicyDocument=json.dumps({"Statement": [call]})
        )
        keys[name] = iam.create_access_key(UserName=name)["AccessKey"]

    def become(name: str) -> None:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", keys[name]["AccessKeyId"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", keys[name]["SecretAccessKey"])

    return become


@pytest.fixture
def put(
    versions: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    """Store a policy by the command line; the version."""

    def store(text: str) -> str:
        file = tmp_path / "policy.yaml"
        file.write_text(text)
        assert 0 == main(["policy", "put", str(file)])
        (line,) = [
            line for line in capsys.readouterr().out.splitlines() if line.startswith("stored as")
        ]
        return line.split()[-1]

    assert versions.scene.outputs
    return store


def told(stage: Stage, version: str, state: str) -> dict[str, Any]:
    """The message about a version, once it has arrived."""

    def arrived() -> dict[str, Any] | None:
        mails = [m for m in stage.scene.read_mail() if m["kind"] == "policy-changed"]
        wanted = {"version": version, "state": state}.items()
        return next((m for m in mails if wanted <= m["facts"].items()), None)

    return stage.eventually(arrived, f"nobody was told that {version} is {state}")


def in_force(stage: Stage, version: str) -> bool | None:
    """Return whether the version is in force; for waiting."""
    return stage.state.version_in_force() == version or None


def test_a_risky_version_waits_until_another_person_accepts_it(
    versions: Stage, put: Callable[[str], str], be: As, capsys: pytest.CaptureFixture[str]
) -> None:
    """Alice writes it, as CloudTrail says. She cannot accept it, Bob can; the next sweep goes by
    it."""
    first = put(POLICY)
    versions.eventually(lambda: in_force(versions, first), "the first version is not in force")
    assert "mode: ask" not in "".join(told(versions, first, "in-force")["lines"])

    risky = put(ASK)
    waits = told(versions, risky, "waits")
    assert ["mode"] == waits["facts"]["risky"]
    assert {"-mode: observe", "+mode: ask"} <= set(waits["lines"])
    event = of_this_account(
        json.loads(
            (Path(__file__).parents[2] / "events/plan_sweep/seen-by-cloudtrail.json").read_text()
        )
    )
    event["detail"]["responseElements"]["x-amz-version-id"] = risky
    # Nobody but AWS can send events of CloudTrail, also not to the local cloud.
    assert ({}, False) == versions.invoke("PlanSweep", event)
    assert f"{ARN}/alice" == versions.state.writer(risky)

    be("mallory")
    assert 1 == main(["policy", "accept", risky])
    be("alice")
    assert 1 == main(["policy", "accept", risky])
    assert "another person must accept it" in capsys.readouterr().err
    versions.scene.sweep()
    assert in_force(versions, first)

    be("bob")
    assert 0 == main(["policy", "accept", risky])
    assert "comes into force with the next sweep" in capsys.readouterr().out
    versions.scene.sweep()
    assert in_force(versions, risky)
    assert f"{ARN}/alice (CloudTrail)" in "".join(told(versions, risky, "in-force")["lines"])


def test_a_version_that_cannot_be_used_leaves_the_one_before_in_force(
    versions: Stage, put: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where it came past the command line, which refuses it; and the next sweep works."""
    long = ASK + "".join(f"# {number} {'x' * 70}\n" for number in range(400))
    assert len(long) > 30_000
    first = put(long)
    versions.eventually(lambda: in_force(versions, first), "the first version is not in force")
    capsys.readouterr()
    bad = versions.scene.cloud.client("s3").put_object(
        Bucket=versions.scene.outputs["PolicyBucketName"], Key="policy.yaml", Body=b"mode: banana\n"
    )["VersionId"]

    assert any("banana" in line for line in told(versions, bad, "refused")["lines"])
    instance_id, _ = versions.ask()
    assert in_force(versions, first)
    assert "ask" == versions.episode(instance_id).mode.value

    assert 0 == main(["policy", "history"])
    _, *rows = capsys.readouterr().out.splitlines()
    for version, state, row in zip((bad, first), ("not in force", "in force"), rows, strict=False):
        short_id, _, shown_state, *_ = re.split(" {2,}", row)
        assert version.startswith(short_id)
        assert state == shown_state
    assert 0 == main(["policy", "show"])
    assert long == capsys.readouterr().out
    assert 0 == main(["policy", "show", bad])
    assert "mode: banana\n" == capsys.readouterr().out


def test_put_refuses_what_could_never_work(versions: Stage, tmp_path: Path) -> None:
    """A mistake, and a selector that IAM does not allow: nothing is stored."""
    for text in ("mode: banana\n", "selector: {tag_key: Purpose, tag_value: other}\n"):
        file = tmp_path / "policy.yaml"
        file.write_text(text)
        assert 1 == main(["policy", "put", str(file)])
    listed = versions.scene.cloud.client("s3").list_objects_v2(
        Bucket=versions.scene.outputs["PolicyBucketName"]
    )
    assert 0 == listed["KeyCount"]


def test_one_command_leads_from_the_parameters_to_ask_and_back(
    versions: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """No deploy: the first version is what the parameters said, with another mode; then back to
    it."""
    seeded = "# seeded\n" + POLICY.replace("two_people_for_policy: true\n", "")
    versions.policy(seeded, as_it_is=True)
    assert 0 == main(["mode"])
    assert "observe\n" == capsys.readouterr().out
    assert 0 == main(["mode", "ask"])
    said = capsys.readouterr().out
    first = said.split("stored as version ")[1].split()[0]
    assert "-mode: observe\n+mode: ask\n" in said
    versions.eventually(lambda: in_force(versions, first), "the first version is not in force")
    assert 0 == main(["policy", "get"])
    assert seeded.replace("observe", "ask") == capsys.readouterr().out

    assert 0 == main(["mode", "observe"])
    second = capsys.readouterr().out.split("stored as version ")[1].split()[0]
    versions.eventually(lambda: in_force(versions, second), "the second version is not in force")
    assert 0 == main(["policy", "rollback", first])
    third = capsys.readouterr().out.split("stored as version ")[1].split()[0]
    versions.eventually(lambda: in_force(versions, third), "the third version is not in force")
    assert 0 == main(["--json", "policy", "history"])
    found = json.loads(capsys.readouterr().out)
    assert [third, second, first] == [row["version"] for row in found[:3]]
    assert all(":iam::" in row["author"] or ":sts::" in row["author"] for row in found[:3])


OVERRIDE = """metrics: {publishers_are_trusted: true}
overrides:
  - name: scratch
    match: {tags: {Life: short}}
    set: {mode: auto, plan: {action: terminate}}
    approved_by: [alice@example.com, bob@example.com]
"""


def test_an_override_counts_once_the_people_whom_it_names_have_accepted(
    versions: Stage, put: Callable[[str], str], be: As, capsys: pytest.CaptureFixture[str]
) -> None:
    """One writer puts it in force; it counts as ask, and both are notified. IAM says who
    accepts."""
    alone = POLICY.replace("two_people_for_policy: true", "two_people_for_policy: false")
    first = put(alone)
    versions.eventually(lambda: in_force(versions, first), "the first version is not in force")
    second = put(alone + OVERRIDE)
    versions.eventually(lambda: in_force(versions, second), "the second version is not in force")
    until = (
        'Override "scratch" counts as ask until alice@example.com and bob@example.com '
        "accept this version."
    )
    assert until in told(versions, second, "in-force")["lines"]

    def notified() -> set[str] | None:
        mails = [m for m in versions.scene.read_mail() if m["kind"] == "consent-missing"]
        owners = {m["owner"] for m in mails if m["facts"]["version"] == second}
        return owners if len(owners) > 1 else None

    both = {"alice@example.com", "bob@example.com"}
    assert both == versions.eventually(notified, "the people were not notified")
    for name, missing in (("alice", True), ("bob", False)):
        be(name)
        capsys.readouterr()
        assert 0 == main(["policy", "accept", second])
        assert ("counts as ask until bob@example.com accepts" in capsys.readouterr().out) is missing
    versions.scene.sweep()

    standing = versions.state.standing_version()
    assert standing is not None
    assert (second, first) == (standing.version, standing.before)
    assert both == set(standing.acceptances.people)
