"""The press of a button in Slack: who may say so, and what is understood."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.approvals.model.approval import Answer
from governor.core.errors import ConfigurationError, InputError
from governor.notify.message import CallbackRefused
from governor.notify.slack_actions import SlackAnswer, parse_slack_answer, verify_slack_request
from tests.unit.notify.builders import NOW

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
STAMP = str(int(NOW.timestamp()))


def sign(body: bytes, stamp: str = STAMP, secret: str = SECRET) -> str:
    """As Slack signs."""
    base = b"v0:" + stamp.encode() + b":" + body
    return "v0=" + hmac.new(secret.encode(), base, hashlib.sha256).hexdigest()


def payload(**changes: Any) -> dict[str, Any]:
    """Return what Slack sends when somebody presses Approve in a message."""
    plain: dict[str, Any] = {
        "type": "block_actions",
        "user": {"id": "U0123ABC", "username": "ann", "team_id": "T01"},
        "api_app_id": "A01",
        "team": {"id": "T01", "domain": "example"},
        "container": {
            "type": "message",
            "message_ts": "1795176150.000100",
            "channel_id": "C0123456789",
            "is_ephemeral": False,
        },
        "state": {"values": {"governor.reason": {"governor.reason_text": {"value": None}}}},
        "actions": [
            {"action_id": "governor.approve", "block_id": "governor.answers", "value": "apr-1"}
        ],
    }
    return {**plain, **changes}


def form(document: object) -> bytes:
    """As the body of the request."""
    return urlencode({"payload": json.dumps(document)}).encode()


def test_slack_s_own_example_verifies() -> None:
    """Secret, time, body and signature of docs.slack.dev, "Verifying requests from Slack"."""
    body = (
        "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        "&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        "&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F"
        "96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    at = datetime.fromtimestamp(1531420618, tz=UTC)
    verify_slack_request(SECRET, body.encode(), "1531420618", signature, at)


@given(body=st.binary(min_size=1, max_size=80), position=st.integers(0), bit=st.integers(0, 7))
def test_any_flipped_bit_of_the_body_is_refused(body: bytes, position: int, bit: int) -> None:
    """Also of a body that is no text."""
    altered = bytearray(body)
    altered[position % len(body)] ^= 1 << bit
    with pytest.raises(CallbackRefused, match="was not signed"):
        verify_slack_request(SECRET, bytes(altered), STAMP, sign(body), NOW)


@given(position=st.integers(0, 66), replacement=st.characters())
def test_any_altered_signature_is_refused(position: int, replacement: str) -> None:
    """Also one that is not ASCII."""
    right = sign(b"x")
    altered = right[:position] + replacement + right[position + 1 :]
    if altered != right:
        with pytest.raises(CallbackRefused, match="was not signed"):
            verify_slack_request(SECRET, b"x", STAMP, altered, NOW)


@pytest.mark.parametrize(
    "signature", ["", "v0=", "\ud800", sign(b"x", secret="another" * 5), sign(b"x").upper()]
)
def test_other_signatures_are_refused(signature: str) -> None:
    """None, an empty one, one that no encoding knows, one of another app."""
    with pytest.raises(CallbackRefused, match="was not signed"):
        verify_slack_request(SECRET, b"x", STAMP, signature, NOW)


@pytest.mark.parametrize("seconds", [-301, 301])
def test_a_replay_is_refused_after_five_minutes(seconds: int) -> None:
    """In both directions."""
    with pytest.raises(CallbackRefused, match="five minutes"):
        verify_slack_request(SECRET, b"x", STAMP, sign(b"x"), NOW + timedelta(seconds=seconds))


@pytest.mark.parametrize("stamp", ["", "soon", "-1", "1e9", STAMP + " ", "٣", "9" * 13])
def test_a_malformed_time_is_refused(stamp: str) -> None:
    """Before anything is computed of it."""
    with pytest.raises(CallbackRefused, match="time stamp"):
        verify_slack_request(SECRET, b"x", stamp, sign(b"x", stamp), NOW)


def test_without_a_secret_nobody_gets_in() -> None:
    """With an empty one anybody could sign."""
    with pytest.raises(ConfigurationError, match="signing secret"):
        verify_slack_request("", b"x", STAMP, sign(b"x", secret=""), NOW)


@pytest.mark.parametrize("answer", list(Answer))
def test_a_press_is_an_answer_with_its_approval_and_user(answer: Answer) -> None:
    """The user is Slack's word, not a field of the message."""
    pressed = [{"action_id": f"governor.{answer.value}", "value": "apr-1"}]
    expected = SlackAnswer("apr-1", answer, "U0123ABC", "C0123456789:1795176150.000100")
    assert expected == parse_slack_answer(form(payload(actions=pressed)))


def test_the_reason_comes_with_the_press() -> None:
    """The reason is what somebody typed above the buttons."""
    state = {"values": {"governor.reason": {"governor.reason_text": {"value": " demo on Friday "}}}}
    found = parse_slack_answer(form(payload(state=state)))
    assert found is not None
    assert "demo on Friday" == found.reason


def test_opening_the_page_is_no_answer() -> None:
    """Slack tells of link buttons too."""
    assert (
        parse_slack_answer(form(payload(actions=[{"action_id": "governor.open", "value": "x"}])))
        is None
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "view_submission"},
        {"actions": []},
        {"actions": [{}, {}]},
        {"actions": "x"},
        {"actions": [{"action_id": "governor.terminate", "value": "apr-1"}]},
        {"actions": [{"action_id": "approve", "value": "apr-1"}]},
        {"actions": [{"action_id": "governor.approve"}]},
        {"actions": [{"action_id": "governor.approve", "value": "x" * 201}]},
        {"user": None},
        {"user": {"id": "ann@example.com"}},
        {"container": {}},
    ],
)
def test_everything_else_is_refused(changes: dict[str, Any]) -> None:
    """An answer is never guessed."""
    with pytest.raises(InputError, match="not the press of a button"):
        parse_slack_answer(form(payload(**changes)))


@pytest.mark.parametrize(
    "body",
    [b"", b"payload", b"payload=", b"payload=%7B", b"payload=1&payload=2", b"\xff", b"payload=[]"],
)
def test_a_body_that_is_no_form_of_json_is_refused(body: bytes) -> None:
    """With one message for all of them."""
    with pytest.raises(InputError, match=r"form with one field|not the press"):
        parse_slack_answer(body)


@given(body=st.one_of(st.binary(), st.recursive(st.none() | st.text(), st.lists).map(form)))
def test_no_body_leads_to_a_foreign_error(body: bytes) -> None:
    """A body that an edge cannot read is a refusal, not a crash."""
    with pytest.raises(InputError):
        parse_slack_answer(body)
