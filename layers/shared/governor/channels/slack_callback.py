"""Requests of Slack when somebody presses a button: proof that Slack sent it, and the answer.

This module must not know what becomes of the answer.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

from governor.channels.errors import CallbackRefused
from governor.channels.slack_blocks import ACTION_PREFIX, OPEN_ACTION, REASON_ACTION, REASON_BLOCK
from governor.domain.approvals.approval import Answer
from governor.errors import ConfigurationError, InputError

_TOLERANCE = timedelta(minutes=5)
_EPOCH = re.compile(r"[1-9][0-9]{0,11}")
_USER = re.compile(r"[UW][A-Z0-9]{2,20}")
_APPROVAL_CHARACTERS = 200
_SHORTEST_SECRET = 16


@dataclass(frozen=True, slots=True)
class SlackAnswer:
    """An answer and who gave it. `thread` names the message with the button, as `Delivered.thread` does.

    A keep comes without a date and an exemption perhaps without a reason: what an approval asks for beyond
    the answer is for the caller to add or to refuse.
    """

    approval_id: str
    answer: Answer
    team_id: str
    user_id: str
    user_name: str
    thread: str
    reason: str | None = None


def verify_slack_request(
    signing_secret: str, timestamp: str, body: bytes, signature: str, now: datetime
) -> None:
    """Returns when Slack has signed this body within the last five minutes.

    `timestamp` and `signature` are the headers `X-Slack-Request-Timestamp` and `X-Slack-Signature`, empty
    when missing; `body` is the body as received (docs.slack.dev, "Verifying requests from Slack").

    Raises:
        CallbackRefused: a header is missing or malformed, the time is off by more than five minutes, or the
            signature does not belong to time, body and secret.
        ConfigurationError: there is no signing secret, so that anybody could sign.
    """
    if len(signing_secret) < _SHORTEST_SECRET:
        raise ConfigurationError("the signing secret of Slack is missing or too short: store the app's")
    if _EPOCH.fullmatch(timestamp) is None:
        raise CallbackRefused("the request has no time stamp of Slack")
    if abs(now.timestamp() - int(timestamp)) > _TOLERANCE.total_seconds():
        raise CallbackRefused("the request is older or newer than five minutes")
    base = b"v0:" + timestamp.encode() + b":" + body
    wanted = "v0=" + hmac.new(signing_secret.encode(), base, hashlib.sha256).hexdigest()
    # Bytes, because compare_digest refuses text that is not ASCII.
    if not hmac.compare_digest(wanted.encode(), signature.encode(errors="replace")):
        raise CallbackRefused("the request was not signed with this app's signing secret")


def parse_slack_answer(body: bytes) -> SlackAnswer | None:
    """The answer in the body of a verified request; `None` for a link button, which answers nothing.

    Raises:
        InputError: not a press of one of the buttons that a message of ours has; names the field.
    """
    payload = _payload(body)
    if payload.get("type") != "block_actions":
        raise InputError("type: only the press of a button (block_actions) is understood")
    actions = payload.get("actions")
    if not isinstance(actions, list) or len(actions) != 1 or not isinstance(actions[0], dict):
        raise InputError("actions: exactly one is expected")
    action_id = _text(actions[0], "action_id", 255)
    if action_id == OPEN_ACTION:
        return None
    user, message = _object(payload, "user"), _object(payload, "container")
    user_id = _text(user, "id", 30)
    if _USER.fullmatch(user_id) is None:
        raise InputError("user.id: not an id of Slack")
    name = user.get("username") or user.get("name") or user_id
    return SlackAnswer(
        approval_id=_text(actions[0], "value", _APPROVAL_CHARACTERS),
        answer=_answer(action_id),
        team_id=_text(_object(payload, "team"), "id", 30),
        user_id=user_id,
        user_name=str(name)[:100],
        thread=f"{_text(message, 'channel_id', 30)}:{_text(message, 'message_ts', 30)}",
        reason=_reason(payload),
    )


def _payload(body: bytes) -> dict[str, Any]:
    try:
        fields = parse_qs(body.decode("ascii"), strict_parsing=True, max_num_fields=5, errors="strict")
        (text,) = fields["payload"]
        payload = json.loads(text)
    except (ValueError, KeyError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise InputError("payload: a form with one field of JSON is expected")
    return payload


def _answer(action_id: str) -> Answer:
    for answer in Answer:
        if action_id == f"{ACTION_PREFIX}{answer.value}":
            return answer
    raise InputError("action_id: no button of a message of ours")


def _reason(payload: dict[str, Any]) -> str | None:
    """Return the text of the input above the buttons."""
    try:
        value = payload["state"]["values"][REASON_BLOCK][REASON_ACTION]["value"]
    except (KeyError, TypeError):
        return None
    return value.strip()[:500] or None if isinstance(value, str) else None


def _object(data: dict[str, Any], field: str) -> dict[str, Any]:
    value = data.get(field)
    if not isinstance(value, dict):
        raise InputError(f"{field}: an object is expected")
    return value


def _text(data: dict[str, Any], field: str, limit: int) -> str:
    value = data.get(field)
    if not isinstance(value, str) or not 0 < len(value) <= limit:
        raise InputError(f"{field}: a text of 1 to {limit} characters is expected")
    return value
