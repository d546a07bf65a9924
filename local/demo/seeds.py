"""Makes what a sample of `events/` needs to reach the happy path of its function: an episode at the
step before it, an open question, a caller, a code, a signature.

Episodes get there by the deployed functions themselves, in the order of the state machine.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import html
import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, quote, urlencode
from uuid import uuid4

from governor.alerts.model import SEAL, Alert, alert_document, sealed_text
from governor.approvals.rules.links import LinkSigner
from governor.core.episode_ref import EpisodeRef
from governor.notify.contract import parse_queued
from local.demo.fleet import T4, Member, idle
from local.demo.scene import Scene
from local.engine.cloud import ACCOUNT, REGION, LocalCloudError

CALLER = f"arn:aws:iam::{ACCOUNT}:user/alice"
PERSON = "alice@example.com"
SLACK_USER = "U012ABCDEF"
POLICY = f"""\
plan: {{action: stop, when_stop_is_unsupported: terminate}}
approval: {{digest_from: 0, digest_after_seconds: 0}}
ownership:
  contacts:
    ml-platform:
      emails: [{PERSON}, bob@example.com]
      identities: {{"aws:{CALLER}": {PERSON}, "slack:{SLACK_USER}": {PERSON}}}
  default_contacts: [ml-platform]
console:
  scopes: {{samples: {{identities: ["{CALLER}"], role: admin, everything: true}}}}
overrides:
  - name: one person terminates what a sample names
    match: {{tags: {{Name: sample}}}}
    set: {{approval: {{people_to_terminate: 1}}}}
"""
"""Policy of the stack that samples are tried on: messages leave at once, and Alice may do
everything."""
IDLE_SINCE = timedelta(hours=26)
_INSTANCE = re.compile(r"i-[0-9a-f]{17}")
_INPUT = re.compile(r'<input [^>]*?type="(?:hidden|checkbox)" name="([^"]+)" value="([^"]*)"')
_Step = tuple[str, Mapping[str, str]]
_ASKED: tuple[_Step, ...] = (
    ("open_episode", {}),
    ("ask_owner", {"stage": "ask"}),
    ("serve_api", {"answer": "approve"}),
)
STOP: tuple[_Step, ...] = (
    *_ASKED,
    ("recheck_episode", {"before": "stop"}),
    ("put_away", {"action": "stop"}),
    ("check_progress", {"until": "stopped"}),
    ("record_outcome", {"outcome": "stopped"}),
)
TERMINATE: tuple[_Step, ...] = (
    *_ASKED,
    ("recheck_episode", {"before": "snapshot"}),
    ("take_snapshot", {}),
    ("check_progress", {"until": "snapshots-completed"}),
    ("recheck_episode", {"before": "terminate"}),
    ("put_away", {"action": "terminate"}),
    ("check_progress", {"until": "terminated"}),
    ("record_outcome", {"outcome": "terminated"}),
)
ANSWERS: tuple[tuple[_Step, ...], ...] = (
    (*_ASKED[:2], ("serve_api", {"answer": "keep"}), ("record_outcome", {"outcome": "kept"})),
    (
        *_ASKED[:2],
        ("serve_api", {"answer": "exempt", "reason": "as in the sample"}),
        ("record_outcome", {"outcome": "exempted"}),
    ),
    (*_ASKED[:2], ("conclude_approval", {}), ("record_outcome", {"outcome": "expired"})),
)
"""Ends without an act."""
_SPOT = {"lifecycle": "spot", "spot_request_type": "one-time"}
"""It cannot be stopped, so the plan is to terminate it."""
_COMES_AFTER = {"open_episode": 0, "handle_execution_end": 1, "undo_episode": len(STOP)}
"""How many steps come before a function that no step of a plan names; of others the question is
open."""
_QUESTION = 2


def prepared(scene: Scene, function: str, event: Any, now: datetime) -> tuple[Any, list[str]]:
    """The event with what it needs in place of what its file names, and what was made, in words.

    What is malformed stays so.

    Raises:
        LocalCloudError: a step before it was refused.
    """
    if not isinstance(event, dict):
        return event, []
    needed, make = _MAKERS.get(function, ("", None))
    if make is None or not _has(event, needed):
        return event, []
    seeds = Seeds(scene, now)
    return make(seeds, event), seeds.notes


def _has(event: Any, path: str) -> bool:
    for name in path.split():
        if not isinstance(event, dict) or name not in event:
            return False
        event = event[name]
    return True


def physical_name(scene: Scene, function: str) -> str:
    """The deployed function of a folder in `functions/`. Raises: LocalCloudError."""
    return scene.physical_id(logical_id(function))


def logical_id(function: str) -> str:
    """The function of a folder in `functions/`, as the template names it."""
    return "".join(part.capitalize() for part in function.split("_")) + "Function"


class Seeds:
    """The things that samples name, on one stack. `notes` says which were made."""

    def __init__(self, scene: Scene, now: datetime) -> None:
        self.scene, self.now = scene, now
        self.notes: list[str] = []

    def call(self, function: str, event: Any) -> Any:
        """Return what a deployed function answers. Raises: LocalCloudError when it raised."""
        answer = self.scene.cloud.client("lambda").invoke(
            FunctionName=physical_name(self.scene, function), Payload=json.dumps(event)
        )
        found = json.loads(answer["Payload"].read())
        if "FunctionError" in answer:
            raise LocalCloudError(
                f"{function}, which comes before the sample, was refused: {found}"
            )
        return found

    def idle(self, instance_id: str | None = None, **kind: Any) -> dict[str, Any]:
        """The payload that names the first episode of an idle instance, which is launched."""
        member = Member(
            "sample",
            "g4dn.xlarge",
            T4,
            1,
            idle,
            "idle",
            "what a sample is about",
            data_gib=50,
            tags={"Owner": "ml-platform", "Project": "vision"},
            launched_minutes_ago=int(IDLE_SINCE.total_seconds() // 60),
            instance_id=instance_id or f"i-{secrets.randbits(68):017x}",
            **kind,
        )
        made = self.scene.launch([member], self.now)["sample"]
        launched = (self.now - IDLE_SINCE).replace(microsecond=0)
        self.notes.append(f"{made} runs since {launched:%Y-%m-%d %H:%M} UTC, idle")
        return {
            "account": ACCOUNT,
            "region": REGION,
            "instance_id": made,
            "launch_time": f"{launched:%Y-%m-%dT%H:%M:%SZ}",
            "number": 1,
        }

    def episode(
        self, instance_id: str | None, steps: Sequence[_Step], **kind: Any
    ) -> dict[str, Any]:
        """The payload of an episode that has done these steps."""
        episode = self.idle(instance_id, **kind)
        self.scene.simulation.set_delays(state_change=0, snapshot=0)
        for function, fields in steps:
            self._do(function, fields, episode)
        if steps:
            self.notes.append("before it: " + ", ".join(function for function, _ in steps))
        return episode

    def _do(self, function: str, fields: Mapping[str, str], episode: Mapping[str, Any]) -> None:
        if function == "open_episode":
            opened = self.call(function, episode)
            if opened["status"] != "opened":
                raise LocalCloudError(f"no episode was opened: {opened['reason']}")
        elif function == "serve_api":
            approval_id = self.question_about(episode["instance_id"])
            document = {**fields, "instance_id": episode["instance_id"], "losses_accepted": True}
            answered = self.api("POST /api/approvals/{approval_id}", approval_id, document)
            if answered["statusCode"] != 200:
                raise LocalCloudError(f"the question was not answered: {answered['body']}")
        elif function == "check_progress":
            event = {"episode": episode, **fields}
            self.scene.wait_for(
                lambda: self.call(function, event)["done"] or None, f"{fields} does not end"
            )
        else:
            self.call(function, {"episode": episode, **fields})

    def api(self, route: str, approval_id: str | None = None, document: Any = None) -> Any:
        """Return what the JSON API answers Alice."""
        method, _, path = route.partition(" ")
        event: dict[str, Any] = {"routeKey": route, "rawPath": path, "headers": {}}
        event["requestContext"] = {"http": {"method": method, "path": path}, "authorizer": _ALICE}
        if approval_id is not None:
            event["pathParameters"] = {"approval_id": approval_id}
        return self.call(
            "serve_api", event | {"body": json.dumps(document) if document is not None else None}
        )

    def question_about(self, instance_id: str) -> str:
        """The id of the open question about an instance."""
        listed = json.loads(self.api("GET /api/approvals")["body"])["questions"]
        return str(next(one["id"] for one in listed if one["instance_id"] == instance_id))

    def question(self) -> str:
        """The id of a question that is asked about an instance of its own."""
        episode = self.episode(None, _ASKED[:_QUESTION])
        return self.question_about(episode["instance_id"])

    def signer(self) -> LinkSigner:
        """Signs links with the keys of the stack."""
        secret = self.scene.outputs["LinkKeySecretArn"]
        manager = self.scene.cloud.client("secretsmanager")
        keys = json.loads(manager.get_secret_value(SecretId=secret)["SecretString"])
        return LinkSigner(lambda: keys, None)

    def session(self) -> list[str]:
        """The cookies of a session in the console, which Alice has begun by a code."""
        entered = self.call("serve_console", self.entering(_form("POST", "/console")))
        if entered["statusCode"] != 303:
            raise LocalCloudError(f"the code opened nothing: {entered['body']}")
        return _cookies(entered)

    def entering(self, event: dict[str, Any]) -> dict[str, Any]:
        """The press of `Open the console`, with a code that is good once and for a minute."""
        code = str(json.loads(self.api("POST /api/console", document={})["body"])["url"]).partition(
            "#"
        )[2]
        shown = self.call(
            "serve_console", {**event, "body": urlencode({"code": code, "answer": "show"})}
        )
        filled = urlencode({**_fields(shown["body"]), "answer": "open"})
        self.notes.append("a code was made for Alice, as `governor open` does")
        return {**event, "body": filled, "cookies": _cookies(shown)}


_ALICE = {"iam": {"accountId": ACCOUNT, "userArn": CALLER}}


def _form(method: str, path: str) -> dict[str, Any]:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    context = {"stage": "$default", "http": {"method": method, "path": path}}
    return {"rawPath": path, "rawQueryString": "", "headers": headers, "requestContext": context}


def _cookies(answer: Mapping[str, Any]) -> list[str]:
    return [answer["headers"]["Set-Cookie"].partition(";")[0]]


def _fields(page: str) -> dict[str, str]:
    """Return what the forms of a page send by themselves, with every box ticked."""
    return {name: html.unescape(value) for name, value in _INPUT.findall(page)}


def _empty(event: dict[str, Any]) -> dict[str, Any]:
    """The event without the field by which the sample is refused."""
    return {name: value for name, value in event.items() if name != "sample"}


def _plan_sweep(seeds: Seeds, event: dict[str, Any]) -> dict[str, Any]:
    if "detail" not in event:
        return _empty(event)
    bucket = seeds.scene.physical_id("PolicyBucket")
    named = json.dumps(event).replace("gpu-governor-policybucket-abc", bucket)
    seeds.notes.append(f"its bucket is {bucket}")
    found: dict[str, Any] = json.loads(named)
    return found


def _sum_up_month(seeds: Seeds, event: dict[str, Any]) -> dict[str, Any]:
    seeds.idle()
    seeds.call("sweep_target", {"account": ACCOUNT, "region": REGION})
    seeds.notes.append("a sweep has counted the costs")
    return _empty(event)


def _payload(function: str) -> Callable[[Seeds, dict[str, Any]], dict[str, Any]]:
    def make(seeds: Seeds, event: dict[str, Any]) -> dict[str, Any]:
        given = event if function == "open_episode" else event["episode"]
        path, before = way_to(function, event)
        known = {name: given[name] for name in ("instance_id", "launch_time", "number")}
        if known["number"] != 1:
            return event
        kind = _SPOT if path is TERMINATE else {}
        made = seeds.episode(known["instance_id"], path[:before], **kind)
        return (
            {**event, **made}
            if function == "open_episode"
            else {**event, "episode": {**given, **made}}
        )

    return make


def way_to(function: str, event: Mapping[str, Any]) -> tuple[tuple[_Step, ...], int]:
    """The plan whose step a sample is, and how many steps come before it."""
    for path in (STOP, TERMINATE, *ANSWERS):
        for before, (name, fields) in enumerate(path):
            if name == function and fields.items() <= event.items():
                return path, before
    return STOP, _COMES_AFTER.get(function, _QUESTION)


def _execution_end(seeds: Seeds, event: dict[str, Any]) -> dict[str, Any]:
    name = event["detail"]["name"]
    made = seeds.episode(_INSTANCE.findall(name)[0], STOP[:1])
    launched = datetime.fromisoformat(made["launch_time"])
    ref = EpisodeRef(ACCOUNT, REGION, made["instance_id"], launched, 1)
    found: dict[str, Any] = json.loads(json.dumps(event).replace(name, ref.execution_name))
    return found


def _state_change(seeds: Seeds, event: dict[str, Any]) -> dict[str, Any]:
    seeds.episode(event["detail"]["instance-id"], _ASKED[:_QUESTION])
    return event


def _audit(seeds: Seeds, event: dict[str, Any]) -> dict[str, Any]:
    table = seeds.scene.cloud.client("dynamodb").describe_table(
        TableName=seeds.scene.outputs["StateTableName"]
    )
    stream = table["Table"]["LatestStreamArn"]
    seeds.notes.append(f"its stream is {stream}")
    return {"Records": [{**one, "eventSourceARN": stream} for one in event["Records"]]}


def _deliver(seeds: Seeds, event: dict[str, Any]) -> dict[str, Any]:
    sqs, name = seeds.scene.cloud.client("sqs"), seeds.scene.physical_id("DeliveryQueue")
    attributes = sqs.get_queue_attributes(QueueUrl=name, AttributeNames=["QueueArn"])["Attributes"]
    queue = attributes["QueueArn"]
    seeds.notes.append(f"its queue is {queue}, and its alerts bear the seal of the stack")
    return {
        "Records": [
            {**one, "eventSourceARN": queue, "body": _sealed(seeds, one["body"])}
            for one in event["Records"]
        ]
    }


def _sealed(seeds: Seeds, body: str) -> str:
    document = json.loads(body)
    inner = document.get("again", document)
    if "subject" not in inner:
        return body
    parsed = parse_queued(json.dumps(inner))
    if not isinstance(parsed, Alert):
        return body
    alert = replace(
        parsed, at=seeds.now.replace(microsecond=0), dedup_id=f"sample-{seeds.now:%H%M%S%f}"
    )
    functions = seeds.scene.cloud.client("lambda")
    name = physical_name(seeds.scene, "deliver_alert")
    key = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"][
        "ALERT_KEY_ARN"
    ]
    mac = seeds.scene.cloud.client("kms").generate_mac(
        KeyId=key, MacAlgorithm="HMAC_SHA_256", Message=hashlib.sha256(sealed_text(alert)).digest()
    )["Mac"]
    sealed = alert_document(
        replace(alert, facts={**alert.facts, SEAL: base64.b64encode(mac).decode()})
    )
    return json.dumps({"again": sealed} if "again" in document else sealed)


def _slack(seeds: Seeds, event: dict[str, Any]) -> dict[str, Any]:
    payload = json.loads(parse_qs(event["body"])["payload"][0])
    if "actions" not in payload:
        return event  # forged, and stays so
    receivers = seeds.scene.receivers
    payload["actions"][0]["value"] = seeds.question()
    payload["container"]["channel_id"] = receivers.slack_channel
    body, stamp = urlencode({"payload": json.dumps(payload)}), str(int(seeds.now.timestamp()))
    mac = hmac.new(
        receivers.slack_signing_secret.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256
    )
    signed = {"x-slack-request-timestamp": stamp, "x-slack-signature": f"v0={mac.hexdigest()}"}
    seeds.notes.append("it is signed with the stack's slack_signing_secret")
    return {**event, "body": body, "headers": {**event["headers"], **signed}}


def _serve_api(seeds: Seeds, event: dict[str, Any]) -> dict[str, Any]:
    context = {**event["requestContext"], "authorizer": _ALICE}
    made = {**event, "requestContext": context}
    seeds.notes.append(f"its caller is {CALLER}")
    if "approvals" in event["routeKey"]:
        approval_id = seeds.question()
        if "pathParameters" in event:
            made |= {
                "pathParameters": {"approval_id": approval_id},
                "rawPath": f"/api/approvals/{approval_id}",
            }
    if "keep_until" in event.get("body", ""):
        made["body"] = json.dumps({**json.loads(event["body"]), "keep_until": _later(seeds)})
    return made


def _later(seeds: Seeds) -> str:
    return f"{seeds.now + timedelta(days=2):%Y-%m-%dT%H:%M:%SZ}"


def _serve_approval(seeds: Seeds, event: dict[str, Any]) -> dict[str, Any]:
    approval_id = event["pathParameters"]["approval_id"]
    asked = seeds.question()
    made: dict[str, Any] = json.loads(json.dumps(event).replace(approval_id, asked))
    link = seeds.signer().earlier(asked, PERSON, seeds.now + timedelta(hours=1))
    made["rawQueryString"] = link.partition("?")[2]
    seeds.notes.append(f"its link is signed, for {PERSON}")
    if event["requestContext"]["http"]["method"] != "POST":
        return made
    looked = json.loads(json.dumps(made).replace('"POST', '"GET'))
    fields = _fields(str(seeds.call("serve_approval", {**looked, "body": None})["body"]))
    body = event["body"]
    text = base64.b64decode(body).decode() if event["isBase64Encoded"] else body
    pressed = {name: values[0] for name, values in parse_qs(text).items() if name != "csrf"}
    if "keep_until" in pressed:
        pressed["keep_until"] = _later(seeds)
    filled = urlencode({**fields, **pressed})
    made["body"] = (
        base64.b64encode(filled.encode()).decode() if event["isBase64Encoded"] else filled
    )
    return made


def _serve_console(seeds: Seeds, event: dict[str, Any]) -> dict[str, Any]:
    method, path = (event["requestContext"]["http"][name] for name in ("method", "path"))
    if method == "GET" and path == "/":
        seeds.notes.append("Alice has a session")
        return {**event, "cookies": seeds.session()}
    if "made-by-make-invoke" in event.get("body", ""):
        return seeds.entering(event)
    return event


def _sign_in(seeds: Seeds, event: dict[str, Any]) -> dict[str, Any]:
    if event["requestContext"]["http"]["path"] != "/sign-in":
        return event
    link = seeds.signer().earlier(seeds.question(), PERSON, seeds.now + timedelta(hours=1))
    seeds.notes.append("it returns to a link that is signed")
    return {**event, "rawQueryString": f"return={quote(link, safe='')}"}


def _rotate(seeds: Seeds, event: dict[str, Any]) -> dict[str, Any]:
    """As Secrets Manager begins a rotation: an empty version waits. Nobody goes on with it: no
    function has that name."""
    manager, secret = (
        seeds.scene.cloud.client("secretsmanager"),
        seeds.scene.outputs["LinkKeySecretArn"],
    )
    place = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function"
    version = str(uuid4())
    manager.rotate_secret(
        SecretId=secret, ClientRequestToken=version, RotationLambdaARN=f"{place}:nobody"
    )
    own = physical_name(seeds.scene, "rotate_link_keys")
    manager.rotate_secret(
        SecretId=secret, RotationLambdaARN=f"{place}:{own}", RotateImmediately=False
    )
    seeds.notes.append("Secrets Manager has begun a rotation")
    return {**event, "SecretId": secret, "ClientRequestToken": version}


_EPISODES = (
    "ask_owner",
    "conclude_approval",
    "recheck_episode",
    "put_away",
    "take_snapshot",
    "check_progress",
    "record_outcome",
    "undo_episode",
)
_METHOD = "requestContext http method"
_MAKERS: Mapping[str, tuple[str, Callable[[Seeds, dict[str, Any]], dict[str, Any]]]] = {
    "plan_sweep": ("", _plan_sweep),
    "sum_up_month": ("", _sum_up_month),
    "report_savings": ("", _sum_up_month),
    "refresh_prices": ("", _sum_up_month),
    "expire_snapshots": ("", _sum_up_month),
    "open_episode": ("launch_time", _payload("open_episode")),
    **{name: ("episode launch_time", _payload(name)) for name in _EPISODES},
    "handle_execution_end": ("detail name", _execution_end),
    "handle_state_change": ("detail instance-id", _state_change),
    "write_audit": ("Records", _audit),
    "deliver_alert": ("Records", _deliver),
    "handle_slack_action": ("body", _slack),
    "serve_api": (_METHOD, _serve_api),
    "serve_approval": (_METHOD, _serve_approval),
    "serve_console": (_METHOD, _serve_console),
    "sign_in": (_METHOD, _sign_in),
    "rotate_link_keys": ("ClientRequestToken", _rotate),
}
"""By function: the field without which a sample is malformed, and stays so; and what makes it
ready."""
