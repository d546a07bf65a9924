"""Makes a sample of `events/` happen now, on a stack in the local cloud: docs/develop.md.

The files name a fixed day, an instance and a queue that do not exist, and signatures that are
wrong. Here the instance is launched, of the kind that such an event is about, all times of the
event move by the same span, so that it has just been sent, and `local.demo.seeds` makes what else
the sample needs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any

from local.demo.fleet import T4, Member, busy
from local.demo.scene import Scene
from local.demo.seeds import prepared
from local.engine.cloud import ACCOUNT

NO_ACCOUNT = "000000000000"
"""The account of all samples, which AWS gives to nobody: functions refuse it, so they are safe to
try."""
_ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
_MAIL_DATE = r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT"
_SENT = re.compile(rf'\\?"time\\?": ?\\?"({_ISO})')
"""Also within a message of a queue, which holds the event as text."""
_HEARTBEAT_SECONDS = 900
_SPOT = {"lifecycle": "spot", "spot_request_type": "one-time"}
_KINDS: Mapping[str, Mapping[str, Any]] = {
    "EC2 Spot Instance Interruption Warning": _SPOT,
    "EC2 Instance Rebalance Recommendation": _SPOT,
    "EC2 Capacity Reservation Instance Interruption Warning": {
        "lifecycle": "interruptible-capacity-reservation"
    },
    "EC2 Instance-terminate Lifecycle Action": {},
    "AWS Health Event": {},
}


def happening(scene: Scene, function: str, sample: object, now: datetime) -> tuple[Any, list[str]]:
    """The sample of a function as if it had been sent now, and what was made for it, in words.

    Puts into the scene the instances that it names and, where it is about one, the group's
    lifecycle hook; the episode or question that comes before it; and signs what must be signed.
    """
    event, moved_by = moved_to(of_this_account(sample), now)
    notes = []
    if moved_by is not None:
        notes.append(f"all its times are moved by {moved_by}, so that it has been sent now")
    for one in _events_in(event):
        notes += _arrange(scene, one, now)
    event, made = prepared(scene, function, event, now)
    return event, notes + made


def of_this_account(sample: object) -> Any:
    """The sample as if it were about the local cloud's account."""
    return json.loads(json.dumps(sample).replace(NO_ACCOUNT, ACCOUNT))


def moved_to(sample: object, now: datetime) -> tuple[Any, timedelta | None]:
    """The sample with all its times moved, and how far; `None` where it was not sent at any
    time."""
    text = json.dumps(sample)
    if (sent := _SENT.search(text)) is None:
        return sample, None
    by = now.replace(microsecond=0) - datetime.fromisoformat(sent[1])

    def move(found: re.Match[str]) -> str:
        if re.fullmatch(_ISO, found[0]):
            return f"{datetime.fromisoformat(found[0]) + by:%Y-%m-%dT%H:%M:%SZ}"
        return format_datetime((parsedate_to_datetime(found[0]) + by).astimezone(UTC), usegmt=True)

    return json.loads(re.sub(f"{_ISO}|{_MAIL_DATE}", move, text)), by


def _events_in(event: Any) -> Iterator[Mapping[str, Any]]:
    if not isinstance(event, dict):
        return
    queued = [json.loads(record["body"]) for record in event.get("Records", ()) if "body" in record]
    for one in queued or [event]:
        if isinstance(one, dict) and one.get("detail-type") in _KINDS:
            yield one


def _arrange(scene: Scene, event: Mapping[str, Any], now: datetime) -> Iterator[str]:
    detail = event["detail"]
    kind = dict(_KINDS[event["detail-type"]])
    tags = {"Owner": "ml-platform", "Project": "vision"}
    if "AutoScalingGroupName" in detail:
        tags["aws:autoscaling:groupName"] = detail["AutoScalingGroupName"]
        scene.cloud.client("autoscaling").put_lifecycle_hook(
            AutoScalingGroupName=detail["AutoScalingGroupName"],
            LifecycleHookName=detail["LifecycleHookName"],
            LifecycleTransition=detail["LifecycleTransition"],
            HeartbeatTimeout=_HEARTBEAT_SECONDS,
        )
    if detail.get("instance-action") in ("stop", "hibernate"):
        kind["spot_request_type"] = "persistent"
    entities = [one.get("entityValue") for one in detail.get("affectedEntities", ())]
    named = [detail.get("instance-id"), detail.get("EC2InstanceId"), *entities]
    for instance_id in filter(None, named):
        member = Member(
            "sample",
            "g4dn.xlarge",
            T4,
            1,
            busy,
            "busy",
            "what a sample event is about",
            data_gib=50,
            tags=tags,
            instance_id=instance_id,
            **kind,
        )
        scene.launch([member], now)
        what = kind.get("lifecycle", "on-demand")
        yield f"{instance_id} runs, {what}" + (" in its group" if len(tags) > 2 else "")
