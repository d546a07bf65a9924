"""`governor approvals` against the deployed API, as a person in a terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from cli.demo import VISITORS_POLICY, visitors_key
from cli.governor import main
from governor import __version__
from local.engine.cloud import ANSWER_SECONDS, ROOT
from tests.integration.stage import Stage


@pytest.fixture(autouse=True)
def api(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the API's address, which the command line finds in the stack's outputs on AWS."""
    url = stage.scene.cloud.reachable_url(stage.scene.outputs["ApiUrl"] + "/")
    monkeypatch.setenv("GOVERNOR_API_URL", url)
    return url


CALLERS_MAY = (
    "{name: callers, match: {tags: {Purpose: GPU-Workload}}, "
    "set: {approval: {people_to_stop: 0, cli_may: [keep, stop, exempt]}}}"
)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit status, output and errors."""
    code = main(arguments)
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_question_is_listed_shown_and_approved(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """The loss must be accepted; the record names the ARN; the workflow goes on. The policy lets
    callers who are in no contact stop it, by an override; otherwise they may keep it."""
    refused, _ = stage.ask()
    stage.policy(f"mode: ask\noverrides: [{CALLERS_MAY}]")
    instance_id, _ = stage.ask()
    unknown = stage.episode(refused).approval_id
    code, _, err = run(capsys, "approvals", "approve", unknown, "--accept-losses")
    assert (1, True) == (code, "ownership.contacts" in err)
    code, out, _ = run(capsys, "--json", "approvals", "list")
    (question,) = [q for q in json.loads(out) if q["instance_id"] == instance_id]
    assert 0 == code
    assert question["id"][:8] in run(capsys, "approvals", "list")[1]
    assert "everything in RAM" in run(capsys, "approvals", "show", question["id"])[1]

    code, _, err = run(capsys, "approvals", "approve", question["id"])
    assert (1, True) == (code, "local disks" in err)
    code, out, _ = run(capsys, "approvals", "approve", question["id"], "--accept-losses")
    assert (0, True) == (code, "Approved by " in out)

    assert "stopped" == stage.outcome(instance_id)
    assert "arn:aws:" in run(capsys, "approvals", "show", question["id"], "--json")[1]


def test_keep_and_exempt(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """Both end the question; a second answer is refused with who was first. The next sweep finds
    one snoozed and the other exempt, and the marks are gone."""
    stage.policy(f"mode: ask\noverrides: [{CALLERS_MAY}]")
    kept, exempted = stage.launch(), stage.launch()
    stage.scene.sweep()
    for instance_id in (kept, exempted):
        stage.question(instance_id)
    run(capsys, "approvals", "keep", stage.episode(kept).approval_id, "--until", "4h")
    assert "kept" == stage.outcome(kept)

    approval_id = stage.episode(exempted).approval_id
    assert 0 == run(capsys, "approvals", "exempt", approval_id, "--reason", "license server")[0]
    assert "exempted" == stage.outcome(exempted)
    code, _, err = run(capsys, "approvals", "keep", approval_id, "--until", "4h")
    assert (1, True) == (code, "already decided" in err)

    verdicts = stage.scene.sweep()["results"][0]["summary"]["verdicts"]
    assert {"snoozed": 1, "exempt": 1} == verdicts
    for instance_id in (kept, exempted):
        assert "LowUtilization" not in stage.tags(instance_id)


def test_the_line_that_make_up_prints_works_as_it_stands(stage: Stage) -> None:
    """In a shell that knows nothing of the local cloud, as a person whom the policy of `make up`
    names."""
    stage.policy(VISITORS_POLICY + "mode: ask\n", as_it_is=True)
    instance_id, _ = stage.ask()
    question = stage.episode(instance_id).approval_id
    given = stage.scene.exports(visitors_key(stage.scene.cloud))
    answer = f"bin/governor approvals approve {question} --accept-losses"
    done = subprocess.run(
        ["bash", "-c", f"{given}; bin/governor approvals list && {answer}"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == done.returncode, done.stderr[-2000:]
    assert question[:8] in done.stdout
    assert "stopped" == stage.outcome(instance_id)


def test_the_status_is_one_screen(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """All that the stack, its API and AWS say can be read."""
    stage.policy(f"mode: ask\noverrides: [{CALLERS_MAY}]")
    stage.ask()
    _, out, err = run(capsys, "status", "--json")
    found = json.loads(out)

    assert "" == err
    assert [] == [
        name for name, one in found.items() if isinstance(one, dict) and "not_readable" in one
    ], out
    assert (__version__, "ask") == (found["stack"]["version"], found["mode"])
    assert 1 <= found["questions"]["open"]
    assert {"targets": 1, "unread": {}} == found["targets"]
    assert "SUCCEEDED" == found["last_sweep"]["status"]
    assert {"EventFailures", "AlertFailures", "DeliveryFailures"} == found["undelivered"].keys()
    assert ("ENABLED", 1) == (found["schedule"]["state"], found["subscribers"]["confirmed"])
    _, out, _ = run(capsys, "status")
    lines = out.splitlines()
    assert 16 == len(lines)
    assert lines[1].split() == ["mode", "ask"]


def test_doctor_says_that_the_deploy_worked(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each line of the checklist is of the deployed stack, and none is unreadable."""
    stage.policy("mode: observe")
    stage.launch()
    _, out, err = run(capsys, "doctor")
    checklist = dict(re.findall(r"^(?:ok|LOOK)  +([a-z ]+?)  +(.*)$", out, re.MULTILINE))

    assert "" == err
    names = [
        "stack",
        "policy",
        "exemption",
        "schedule",
        "last sweep",
        "targets",
        "states",
        "subscribers",
        "alarms",
    ]
    names.append("telemetry")
    assert names == list(checklist), out
    assert "not readable" not in out
    assert "did it work? " in out


UNLIKE_AWS = {
    **dict.fromkeys(
        ("iam-stop", "iam-snapshots", "iam-snapshot-tags", "iam-tag-keys", "iam-leading-keys",
        "iam-command",
         "iam-namespace"),
        "its simulator of IAM knows no conditions; tests/iam.py does",
    ),
    "table": "its tables take no recovery, key and expiry from a template",
    "buckets": "its buckets take no Object Lock from a template",
    "api-throttles": "its stages keep no settings of routes",
    "link-keys": "its secrets keep no date of a rotation",
}  # fmt: skip
"""The checks that show that the local cloud is not AWS."""
NOT_OF_AWS = "the local cloud answers in place of AWS: "
"""The beginning of what such a check has seen."""


def test_preflight_refutes_nothing_on_the_local_cloud(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """Checks that the local cloud would refute are unknown: it is not AWS. The instance is as
    before."""
    instance_id, _ = stage.ask()
    before = stage.ec2_state(instance_id)
    code, out, err = run(capsys, "preflight", "--json")
    found = {one["check"]: one for one in json.loads(out)}
    unlike_aws = {
        name
        for name, one in found.items()
        if one["outcome"] == "unknown" and one["seen"].startswith(NOT_OF_AWS)
    }

    assert (0, "") == (code, err)
    assert [] == [name for name, one in found.items() if one["outcome"] == "refuted"], out
    assert UNLIKE_AWS.keys() == unlike_aws, out
    confirmed = {name for name, one in found.items() if one["outcome"] == "confirmed"}
    assert {
        "agent-metrics", "api-signatures", "clock", "credentials", "dry-runs", "ec2-metric-delay",
        "event-delivery", "gpu-metric-delay", "keys", "lifecycles", "mail", "mappings",
        "missing-metric",
        "role-names", "role-policies", "state-machines", "subscriptions", "unknown-instance",
    } <= confirmed, out  # fmt: skip
    assert before == stage.ec2_state(instance_id)
    code, out, _ = run(capsys, "preflight", "--only", "dry-runs", "--only", "role-names")
    assert (0, "2 confirmed, 0 refuted, 0 unknown") == (code, out.splitlines()[-1])


def test_nobody_gets_in_without_a_signature(stage: Stage, api: str) -> None:
    """The routes are authorized by IAM; a request that names nobody is refused."""
    assert stage.scene.outputs
    with pytest.raises(HTTPError) as refused:
        urlopen(f"{api.rstrip('/')}/api/approvals", timeout=ANSWER_SECONDS)
    with refused.value:
        assert refused.value.code in (400, 401, 403)
