"""Slack's senders: what is posted, changed and told of errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from governor.core.errors import ConfigurationError
from governor.core.https import HttpAnswer
from governor.notify.message import DeliveryRefused, DeliveryRetryable
from governor.notify.slack import SlackApi, SlackAppChannel, SlackWebhookChannel
from local.demo.receiver_checks import slack_problems
from tests.unit.notify.builders import FakeHttps, FixedClock, make_message, make_outcome

TOKEN = "xoxb-secret-part"
HOOK = "https://hooks.slack.example/services/secret-part"
FIRST = "C0123456789:1795176150.000100"
TAKEN = {"ok": True, "channel": "C0123456789", "ts": "1795176150.000100"}
NO_ANSWER = HttpAnswer(0)


class FakeSlack(FakeHttps):
    """Answers each call in turn, and knows what was asked."""

    def __init__(self, *answers: HttpAnswer) -> None:
        super().__init__(list(answers))

    @property
    def asked(self) -> list[tuple[str, dict[str, Any]]]:
        """Method and arguments of each call."""
        for _, _, headers in self.sent:
            assert f"Bearer {TOKEN}" == headers["Authorization"]
        return [
            (url.removeprefix("https://slack.com/api/"), json.loads(body))
            for url, body, _ in self.sent
        ]


def ok(data: dict[str, Any] | None = None) -> HttpAnswer:
    """Slack took it."""
    return HttpAnswer(200, {}, json.dumps(data or TAKEN).encode())


def no(code: str, status: int = 200, **headers: str) -> HttpAnswer:
    """Slack says no, which it does with status 200."""
    return HttpAnswer(status, headers, json.dumps({"ok": False, "error": code}).encode())


def app(https: FakeHttps) -> SlackAppChannel:
    """In one conversation."""
    return SlackAppChannel(SlackApi(TOKEN, https, FixedClock()), "C0123456789")


def webhook(answer: HttpAnswer) -> SlackWebhookChannel:
    """Over one address."""
    return SlackWebhookChannel(HOOK, FakeHttps([answer]), FixedClock())


def test_the_first_message_gives_the_thread() -> None:
    """Links are not unfolded: nothing fetches the approval page on behalf of anybody."""
    client = FakeSlack(ok())
    delivered = app(client).send(make_message())
    ((method, sent),) = client.asked
    assert ("chat.postMessage", "C0123456789") == (method, sent["channel"])
    assert (False, False, "none") == (sent["unfurl_links"], sent["unfurl_media"], sent["parse"])
    assert ("1795176150.000100", FIRST) == (delivered.delivery_id, delivered.thread)


def test_a_reminder_is_a_reply_that_the_conversation_sees() -> None:
    """And the thread stays that of the first message."""
    client = FakeSlack(ok({**TAKEN, "ts": "1795176999.000200"}))
    delivered = app(client).send(make_message(stage="remind", thread=FIRST))
    ((method, sent),) = client.asked
    assert ("chat.postMessage", "1795176150.000100", True) == (
        method,
        sent["thread_ts"],
        sent["reply_broadcast"],
    )
    assert ("1795176999.000200", FIRST) == (delivered.delivery_id, delivered.thread)


def test_the_outcome_changes_the_first_message() -> None:
    """One call, on that message, without buttons to answer."""
    client = FakeSlack(ok())
    delivered = app(client).send(make_outcome(thread=FIRST))
    ((method, sent),) = client.asked
    assert ("chat.update", "C0123456789", "1795176150.000100") == (
        method,
        sent["channel"],
        sent["ts"],
    )
    assert "governor.approve" not in str(sent["blocks"])
    assert FIRST == delivered.thread


def test_the_outcome_is_told_anew_when_the_first_message_is_gone() -> None:
    """Somebody deleted message and thread; the people of the conversation still learn how it
    ended."""
    client = FakeSlack(no("message_not_found"), no("thread_not_found"), ok())
    app(client).send(make_outcome(thread=FIRST))
    assert ["chat.update", "chat.postMessage", "chat.postMessage"] == [
        method for method, _ in client.asked
    ]
    assert "thread_ts" not in client.asked[-1][1]


@pytest.mark.parametrize("code", ["ratelimited", "internal_error", "service_unavailable"])
def test_what_may_succeed_later_is_retryable(code: str) -> None:
    """A status says so, or a code alone."""
    with pytest.raises(DeliveryRetryable, match=code):
        app(FakeSlack(no(code))).send(make_message())


def test_the_wait_of_a_rate_limit_reaches_the_queue() -> None:
    """Slack asks for seconds."""
    with pytest.raises(DeliveryRetryable) as error:
        app(FakeSlack(no("ratelimited", 429, **{"retry-after": "30"}))).send(make_message())
    assert 30 == error.value.retry_after_seconds


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("invalid_auth", "bot token"),
        ("not_in_channel", "invite the app"),
        ("missing_scope", "chat:write"),
        ("invalid_blocks", "documentation"),
    ],
)
def test_what_never_succeeds_is_refused_and_says_what_to_do(code: str, advice: str) -> None:
    """Neither token nor request is in the error, nor in one it was made of."""
    channel = app(FakeSlack(no(code)))
    with pytest.raises(DeliveryRefused, match=advice) as error:
        channel.send(make_message())
    assert "secret-part" not in str(error.value) + repr(channel)
    assert error.value.__cause__ is None


@pytest.mark.parametrize(
    "page", [b"<html>secret-part", b"[]", b"\xff", b"[" * 100_000, b'{"error": "secret part"}']
)
def test_an_answer_that_is_not_slack_s_is_not_repeated(page: bytes) -> None:
    """A page of a proxy in place of a code could hold anything."""
    with pytest.raises(DeliveryRetryable) as error:
        app(FakeSlack(HttpAnswer(502, {}, page))).send(make_message())
    assert "it answered 502 without a code" == str(error.value)


def test_a_redirect_is_no_delivery() -> None:
    """The token goes to Slack and nowhere else."""
    with pytest.raises(DeliveryRefused, match="it answered 302"):
        app(FakeSlack(HttpAnswer(302, {"location": "https://evil.example/"}))).send(make_message())


def test_a_message_that_nobody_names_is_not_delivered() -> None:
    """Something answers `ok` and is not Slack."""
    with pytest.raises(DeliveryRefused, match="not Slack"):
        app(FakeSlack(ok({"ok": True}))).send(make_message())


def test_no_answer_is_retryable() -> None:
    """From both ways."""
    for channel in (app(FakeSlack(NO_ANSWER)), webhook(NO_ANSWER)):
        with pytest.raises(DeliveryRetryable, match="did not answer"):
            channel.send(make_message())


def test_a_foreign_thread_is_refused() -> None:
    """A thread of another channel is a mistake of the caller, not a new message."""
    with pytest.raises(ValueError, match=r"Delivered\.thread"):
        app(FakeSlack()).send(make_message(thread="ask-1"))


def test_an_incoming_webhook_takes_a_message_with_a_link() -> None:
    """No buttons to answer, no unfolding."""
    https = FakeHttps([HttpAnswer(200, {}, b"ok")])
    delivered = SlackWebhookChannel(HOOK, https, FixedClock()).send(make_message())
    ((url, body, headers),) = https.sent
    assert (HOOK, True) == (url, headers["Content-Type"].startswith("application/json"))
    sent = json.loads(body)
    assert "governor.approve" not in str(sent["blocks"])
    assert (False, False) == (sent["unfurl_links"], sent["unfurl_media"])
    assert (make_message().delivery_key, None) == (delivered.delivery_id, delivered.thread)


def test_a_webhook_s_refusals_and_rate_limits_are_told_apart() -> None:
    """404 `no_service` is for good, 429 is not."""
    with pytest.raises(DeliveryRefused, match="make a new one"):
        webhook(HttpAnswer(404, {}, b"no_service")).send(make_message())
    with pytest.raises(DeliveryRetryable) as error:
        webhook(HttpAnswer(429, {"retry-after": "7"}, b"rate_limited")).send(make_message())
    assert 7 == error.value.retry_after_seconds


def test_a_page_that_answers_200_is_no_delivery() -> None:
    """A login page of a proxy says 200, but not `ok`."""
    with pytest.raises(DeliveryRefused, match="no incoming webhook"):
        webhook(HttpAnswer(200, {}, b"<html>sign in</html>")).send(make_message())


@pytest.mark.parametrize(
    "token", ["", "xoxp-secret-part", "secret-part", "xoxb-secret-part\r\nX: y"]
)
def test_only_a_bot_token_is_taken(token: str) -> None:
    """A user token would post as a person."""
    with pytest.raises(ConfigurationError, match="bot token") as error:
        SlackApi(token, FakeHttps(), FixedClock())
    assert "secret-part" not in str(error.value)


@pytest.mark.parametrize("name", ["", "#alerts", "alerts", "C01\n"])
def test_a_conversation_is_given_by_its_id(name: str) -> None:
    """Names change, and somebody else may take one."""
    with pytest.raises(ConfigurationError, match="by its ID"):
        SlackAppChannel(SlackApi(TOKEN, FakeHttps(), FixedClock()), name)


@pytest.mark.parametrize("url", ["http://slack.example/api/", "http://hooks.example/secret-part"])
def test_only_https_is_spoken(url: str) -> None:
    """Addresses of the API and of a webhook; the refusal does not repeat them."""
    with pytest.raises(ConfigurationError) as api:
        SlackApi(TOKEN, FakeHttps(), FixedClock(), url)
    with pytest.raises(ConfigurationError) as hook:
        SlackWebhookChannel(url, FakeHttps(), FixedClock())
    assert "secret-part" not in f"{api.value} {hook.value}"


def test_a_ephemeral_is_for_one_person_of_the_conversation() -> None:
    """Its text is escaped like every other."""
    slack = FakeSlack(ok({"ok": True}))
    SlackApi(TOKEN, slack, FixedClock()).send_ephemeral(FIRST, "U01ANN", "Taken: <!channel>")
    ((method, said),) = slack.asked
    assert ("chat.postEphemeral", "C0123456789", "U01ANN") == (
        method,
        said["channel"],
        said["user"],
    )
    assert "Taken: &lt;!channel&gt;" == said["text"]


def test_the_answer_to_a_yes_has_a_button_that_holds() -> None:
    """For the person who pressed; its blocks are those of any message."""
    slack = FakeSlack(ok({"ok": True}))
    SlackApi(TOKEN, slack, FixedClock()).send_ephemeral(
        FIRST, "U01ANN", "Recorded <now>.", "approval-1"
    )
    ((_, said),) = slack.asked
    text, actions = said["blocks"]

    assert [] == slack_problems(said["blocks"])
    assert "Recorded &lt;now&gt;." == text["text"]["text"]
    assert ("governor.hold", "approval-1") == tuple(
        actions["elements"][0][key] for key in ("action_id", "value")
    )


def test_a_ephemeral_that_is_not_taken_says_why() -> None:
    """By Slack's code alone."""
    send = SlackApi(TOKEN, FakeSlack(no("user_not_in_channel")), FixedClock()).send_ephemeral
    with pytest.raises(DeliveryRefused, match="user_not_in_channel"):
        send(FIRST, "U01ANN", "Taken.")
