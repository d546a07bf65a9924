"""Every function reaches its happy path by a sample of `events/`, made ready as `make invoke`
does."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cli.governor import main
from local.demo.samples import happening
from local.demo.seeds import CALLER, POLICY, physical_name
from local.engine.cloud import ACCOUNT, REGION
from local.engine.templates import load_template
from tests.integration.gpus import forget_turn
from tests.integration.stage import Stage

ROOT = Path(__file__).parents[2]
NAMED = "i-0123456789abcdef0"
"""The instance that samples name; each test has one of its own."""
PLACE = {"account": ACCOUNT, "region": REGION}
HAPPY: Mapping[str, Mapping[str, Any]] = {
    "ask_owner/ask": {"heard": False, "settled": False},
    "check_health/own-account": {"looked": True, "problems": 0},
    "scan_accelerators/own-account": PLACE,
    "check_progress/stopped": {"done": True, "wait_seconds": 0},
    "conclude_approval/nobody-answered": {"decision": "expired"},
    "deliver_alert/question": {"batchItemFailures": []},
    "handle_execution_end/failed": {"closed": True},
    "handle_lifecycle_action/scale-in": {"ours": True, "told": "singly", "checkpoint_sent": True},
    "handle_notice/retirement": {"told": [NAMED]},
    "handle_rebalance_recommendation/recommended": {"ours": True, "told": "singly"},
    "handle_slack_action/keep": {"statusCode": 200},
    "handle_spot_interruption/terminate": {"ours": True, "told": "singly", "checkpoint_sent": True},
    "handle_state_change/stopped": {"done": "question voided"},
    "open_episode/first-episode": {
        "status": "opened",
        "path": "ask",
        "stop": True,
        "dry_run": False,
    },
    "plan_sweep/schedule": {"targets": [PLACE], "target_count": 1},
    "put_away/stop": {"dry_run": False},
    "recheck_episode/before-stop": {"proceed": True, "wait": False, "outcome": None},
    "record_outcome/stopped": {"outcome": "stopped"},
    "rotate_link_keys/create": {"step": "createSecret"},
    "serve_api/list": {"statusCode": 200},
    "serve_approval/get": {"statusCode": 200},
    "serve_console/home": {"statusCode": 200},
    "sum_up_month/after-sweep": {"told": 0},
    "report_savings/nightly": {},
    "expire_snapshots/daily": {"noticed": 0, "deleted": 0},
    "refresh_prices/hourly": {"commitments": 0, "commitments_unread": {}},
    "sweep_target/own-account": {**PLACE, "problems": 0, "frozen": False},
    "take_snapshot/all-volumes": {"dry_run": False},
    "undo_episode/page": {"done": True},
    "write_audit/answered": {"kept": 1},
}
"""The sample of each function; sign_in, which is deployed only with an issuer, is tried in
test_sign_in.py."""
MORE: Mapping[str, Mapping[str, Any]] = {
    "check_progress/terminated": {"done": True},
    "deliver_alert/given-up": {"batchItemFailures": []},
    "put_away/terminate": {"dry_run": False},
    "record_outcome/exempted": {"outcome": "exempted"},
    "record_outcome/expired": {"outcome": "expired"},
    "record_outcome/kept": {"outcome": "kept"},
    "serve_api/keep": {"statusCode": 200},
    "serve_api/open": {"statusCode": 200},
    "serve_api/show": {"statusCode": 200},
    "serve_approval/post-approve": {"statusCode": 303},
    "serve_approval/post-keep": {"statusCode": 303},
    "serve_console/enter": {"statusCode": 303},
}


@pytest.mark.parametrize("name", [*HAPPY, *MORE])
def test_a_sample_reaches_the_happy_path_of_its_function(stage: Stage, name: str) -> None:
    """By its answer, and by what it was to do."""
    stage.policy(f"mode: ask\n{POLICY}")
    forget_turn(stage)
    function, own = name.partition("/")[0], f"i-{secrets.randbits(68):017x}"
    sample = json.loads((ROOT / f"events/{name}.json").read_text().replace(NAMED, own))
    if "id" in sample:
        sample["id"] = own  # each event is handled once

    event, notes = happening(stage.scene, function, sample, datetime.now(tz=UTC))
    answer = stage.scene.cloud.client("lambda").invoke(
        FunctionName=physical_name(stage.scene, function), Payload=json.dumps(event)
    )
    text = answer["Payload"].read().decode()

    assert "FunctionError" not in answer, (text, notes)
    found, expected = json.loads(text.replace(own, NAMED)), {**HAPPY, **MORE}[name]
    assert expected == {key: found.get(key) for key in expected}, text[:300]
    assert found.get("projects", 1) > 0
    if name in EFFECTS:
        EFFECTS[name](stage, own, found)


def test_every_function_has_a_happy_sample() -> None:
    """A new one comes with its own; docs/develop.md names them."""
    happy = [*HAPPY, "sign_in/begin"]
    page = (ROOT / "docs/develop.md").read_text()

    assert {path.name for path in (ROOT / "functions").iterdir() if path.is_dir()} == {
        name.partition("/")[0] for name in happy
    }
    assert [] == [name for name in happy if f"`{name}`" not in page]


def test_env_vars_are_those_of_the_deployed_functions(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """By logical id, as `sam local invoke --env-vars` reads them; it takes only names of the
    template."""
    assert 0 == main(["env-vars"])
    found = json.loads(capsys.readouterr().out)
    template = load_template(ROOT / "template.yaml")
    everywhere = template["Globals"]["Function"]["Environment"]["Variables"]

    assert len(HAPPY) == len(found)
    for logical, variables in found.items():
        own = template["Resources"][logical]["Properties"]["Environment"]["Variables"]
        assert variables.keys() <= everywhere.keys() | own.keys(), logical
    assert stage.scene.outputs["StateTableName"] == found["PutAwayFunction"]["TABLE_NAME"]

    assert 1 == main(["--stack-name", "nothing", "env-vars"])
    assert "there is no stack 'nothing'" in capsys.readouterr().err


def _asked(stage: Stage, own: str, _: Any) -> None:
    assert stage.await_mail(own, "approval-requested")["owner"] == "ml-platform"


def _notified(kind: str) -> Callable[[Stage, str, Any], None]:
    """Return a check that the owner of the instance gets an alert of this kind."""

    def check(stage: Stage, own: str, _: Any) -> None:
        assert stage.await_mail(own, kind)

    return check


def _stopped(stage: Stage, own: str, _: Any) -> None:
    assert stage.ec2_state(own) == "stopped"


def _terminated(stage: Stage, own: str, _: Any) -> None:
    assert stage.ec2_state(own) == "terminated"


def _runs(stage: Stage, own: str, _: Any) -> None:
    assert stage.ec2_state(own) in ("pending", "running")


def _copied(stage: Stage, own: str, answer: Any) -> None:
    assert len(answer["snapshot_ids"]) == len(stage.snapshots()) == 2


def _posted(stage: Stage, _: str, __: Any) -> None:
    """Slack has the alert of the sample in its own words."""
    posted = [
        one
        for one in stage.scene.receivers.received("slack")
        if "idle GPU g5.xlarge" in str(one.payload)
    ]
    assert [200] == [one.status for one in posted][-1:]


def _rotating(stage: Stage, _: str, __: Any) -> None:
    secret, manager = (
        stage.scene.outputs["LinkKeySecretArn"],
        stage.scene.cloud.client("secretsmanager"),
    )
    waiting = manager.get_secret_value(SecretId=secret, VersionStage="AWSPENDING")["SecretString"]
    assert {"current", "next"} < set(json.loads(waiting))


def _listed(_: Stage, __: str, answer: Any) -> None:
    assert "sample" in {one["instance_name"] for one in json.loads(answer["body"])["questions"]}


def _asks(_: Stage, __: str, answer: Any) -> None:
    assert "Stop it" in answer["body"]


def _seen(_: Stage, __: str, answer: Any) -> None:
    assert "<title>Overview" in answer["body"]


def _kept(_: Stage, __: str, answer: Any) -> None:
    assert ("KEPT", f"aws:{CALLER}") == tuple(
        json.loads(answer["body"])[k] for k in ("status", "decided_by")
    )


EFFECTS: Mapping[str, Callable[[Stage, str, Any], None]] = {
    "ask_owner/ask": _asked,
    "check_progress/terminated": _terminated,
    "deliver_alert/given-up": _posted,
    "deliver_alert/question": _posted,
    "handle_lifecycle_action/scale-in": _notified("auto-scaling-termination"),
    "handle_notice/retirement": _notified("scheduled-change"),
    "handle_rebalance_recommendation/recommended": _notified("rebalance-recommended"),
    "handle_spot_interruption/terminate": _notified("spot-interruption"),
    "put_away/stop": _stopped,
    "rotate_link_keys/create": _rotating,
    "serve_api/keep": _kept,
    "serve_api/list": _listed,
    "serve_approval/get": _asks,
    "serve_console/home": _seen,
    "take_snapshot/all-volumes": _copied,
    "undo_episode/page": _runs,
}
