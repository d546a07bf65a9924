"""Samples of `events/` as they are, on a deployed stack: nothing is written, and nobody is
notified.

So it is where they are pointed at a real account by mistake: they name an account that does not
exist, and signatures, codes and callers that are none. Where a function would write, it refuses;
docs/develop.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_socket

from local.demo.fleet import demo_fleet
from local.demo.receivers import CHANNELS
from local.demo.scene import Scene
from local.demo.seeds import physical_name
from tests.integration.stage import Stage, guarded_stage

ROOT = Path(__file__).parents[2]
SAMPLES = sorted(ROOT.glob("events/*/*.json"))
FLEET = {"train-a", "notebook-1", "asg-member", "snoozed"}
"""Members of the demo's fleet: one works, one is asked about, and two are not judged."""
SIGN_IN = "sign_in"
"""Deployed only with an issuer: tests/integration/test_sign_in.py."""
REFUSED = {
    "ask_owner/ask": "the episode does not exist",
    "check_health/own-account": "the policy's targets do not name 000000000000/us-east-1",
    "deliver_alert/question": "it is not one of account",
    "plan_sweep/schedule": "sample: Extra inputs are not permitted",
    "plan_sweep/seen-by-cloudtrail": "it is not one of account",
    "put_away/stop": "the policy's targets do not name 000000000000/us-east-1",
    "recheck_episode/before-stop": "is not authorized to perform: sts:AssumeRole",
    "record_outcome/stopped": "it was neither saved nor locked",
    "rotate_link_keys/create": "is not waiting to be rotated",
    "expire_snapshots/daily": "sample: Extra inputs are not permitted",
    "refresh_prices/hourly": "sample: Extra inputs are not permitted",
    "report_savings/nightly": "sample: Extra inputs are not permitted",
    "sum_up_month/after-sweep": "sample: Extra inputs are not permitted",
    "scan_accelerators/own-account": "the policy's targets do not name 000000000000/us-east-1",
    "sweep_target/own-account": "the policy's targets do not name 000000000000/us-east-1",
    "take_snapshot/all-volumes": "the policy's targets do not name 000000000000/us-east-1",
    "undo_episode/page": "the policy's targets do not name 000000000000/us-east-1",
    "write_audit/answered": "it is not one of account",
}
"""Errors that functions raise; docs/develop.md has the same words."""
ANSWERED: Mapping[str, Mapping[str, Any]] = {
    "handle_execution_end/failed": {"closed": False},
    "handle_notice/retirement": {"told": []},
    "handle_slack_action/keep": {"statusCode": 403},
    "handle_spot_interruption/terminate": {"ours": False, "told": None, "checkpoint_sent": False},
    "handle_state_change/stopped": {"done": "nothing to do"},
    "open_episode/first-episode": {"status": "not-opened"},
    "serve_api/keep": {"statusCode": 404},
    "serve_api/open": {"statusCode": 400},
    "serve_approval/post-approve": {"statusCode": 403},
    "serve_console/enter": {"statusCode": 403},
    "serve_console/home": {"statusCode": 401},
}
"""Parts of the others' answers."""


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A stack of its own: what tests before it have left to be sent later would be sent
    meanwhile."""
    pytest_socket.enable_socket()
    with guarded_stage() as own:
        yield own


def test_no_sample_writes_or_notifies(stage: Stage) -> None:
    """With a fleet that was swept, and open questions; the table, EC2, queues, buckets and inboxes
    stay."""
    stage.policy("mode: ask")
    scene = stage.scene
    scene.launch([member for member in demo_fleet() if member.name in FLEET])
    scene.sweep()
    before = _settled(scene)
    assert before["questions"]
    assert FLEET == {member.name for member in scene.members.values()}

    answers = {}
    for path in SAMPLES:
        if path.parent.name == SIGN_IN:
            continue
        name = f"{path.parent.name}/{path.stem}"
        answer = scene.cloud.client("lambda").invoke(
            FunctionName=physical_name(scene, path.parent.name), Payload=path.read_bytes()
        )
        answers[name] = answer["Payload"].read().decode()

    assert _changed(before, _settled(scene)) == {}
    wrong = {name: answers[name] for name, why in REFUSED.items() if why not in answers[name]}
    assert {} == wrong
    for name, part in ANSWERED.items():
        found = json.loads(answers[name])
        assert part == {key: found.get(key) for key in part}, (name, found)
    page = (ROOT / "docs/develop.md").read_text()
    assert [] == [why for why in REFUSED.values() if why not in page]


def _changed(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {
        name: (before.get(name), after.get(name))
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name)
    }


_QUIET_LOOKS = 15


def _settled(scene: Scene) -> dict[str, Any]:
    """The state, once look after look no function has worked or called AWS, and no workflow has
    gone on. On a busy machine a workflow that has begun shows nothing for seconds."""
    looks: list[object] = []

    def at_rest() -> bool | None:
        simulation = scene.simulation
        look = (simulation.calls(), simulation.steps(), scene.cloud.work())
        looks[:] = [*looks[-_QUIET_LOOKS + 1 :], look]
        is_quiet = all(one == look for one in looks)
        return (len(looks) == _QUIET_LOOKS and is_quiet) or None

    scene.wait_for(at_rest, "the stack does not come to rest")
    return _state(scene)


def _state(scene: Scene) -> dict[str, Any]:
    """Everything that a function can write, and everybody whom it can reach."""
    client = scene.cloud.client
    found: dict[str, Any] = {}
    table = scene.outputs["StateTableName"]
    for page in client("dynamodb").get_paginator("scan").paginate(TableName=table):
        for item in page["Items"]:
            key = "/".join(item[name]["S"] for name in ("pk", "sk"))
            found[f"item {key}"] = json.dumps(item, sort_keys=True, default=str)
    found["questions"] = sum("/REQUEST" in key for key in found)
    for url in client("sqs").list_queues()["QueueUrls"]:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        counts = client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)[
            "Attributes"
        ]
        found[f"queue {url}"] = [counts.get(name) for name in names]
    for bucket in client("s3").list_buckets()["Buckets"]:
        for page in client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket["Name"]):
            for one in page.get("Contents", ()):
                found[f"object {bucket['Name']}/{one['Key']}"] = one["ETag"]
    for secret in client("secretsmanager").list_secrets()["SecretList"]:
        versions = client("secretsmanager").describe_secret(SecretId=secret["ARN"])[
            "VersionIdsToStages"
        ]
        found[f"secret {secret['Name']}"] = sorted(versions.items())
    for machine in ("SweepStateMachineArn", "RemediationStateMachineArn"):
        listed = client("stepfunctions").list_executions(stateMachineArn=scene.outputs[machine])[
            "executions"
        ]
        found[machine] = len(listed)
    instances = client("ec2").describe_instances()["Reservations"]
    found["instances, with states and tags"] = json.dumps(instances, sort_keys=True, default=str)
    found["snapshots and volumes"] = json.dumps(
        scene.simulation.dump(), sort_keys=True, default=str
    )
    found["commands"] = len(scene.simulation.commands())
    found["mail"] = len(scene.sent_mail())
    for channel in CHANNELS:
        found[channel] = len(scene.receivers.received(channel))
    return found
