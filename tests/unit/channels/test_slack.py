"""Slack's senders: what is posted, changed and told of errors."""

from __future__ import annotations

import logging
import ssl
from typing import Any
from urllib.error import URLError

import pytest
from slack_sdk.web.client import WebClient
from slack_sdk.web.slack_response import SlackResponse
from slack_sdk.webhook.client import WebhookClient
from slack_sdk.webhook.webhook_response import WebhookResponse

from governor.channels.errors import DeliveryRefused, DeliveryRetryable
from governor.channels.slack import (
    SlackAppChannel,
    SlackWebhookChannel,
    slack_app_client,
    slack_webhook_client,
)
from governor.errors import ConfigurationError
from tests.unit.channels.builders import FixedClock, make_message, make_outcome

TOKEN = "xoxb-secret-part"
FIRST = "C0123456789:1795176150.000100"
TAKEN = {"ok": True, "channel": "C0123456789", "ts": "1795176150.000100"}


class FakeWebClient(WebClient):
    """Answers each method in turn with data, a status and headers, or an error; keeps what was asked."""

    def __init__(self, *answers: tuple[int, dict[str, Any], dict[str, str]] | Exception) -> None:
        super().__init__(token=TOKEN)
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def api_call(self, api_method: str, **kwargs: Any) -> SlackResponse:
        """As the SDK: raises when Slack says no."""
        self.asked.append((api_method, kwargs["json"]))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, data, headers = answer
        response = SlackResponse(
            client=self,
            http_verb="POST",
            api_url="https://slack.com/api/secret-part",
            req_args={"headers": {"Authorization": TOKEN}},
            data=data,
            headers=headers,
            status_code=status,
        )
        response.validate()  # type: ignore[no-untyped-call]
        return response


class FakeWebhookClient(WebhookClient):
    """One answer, or an error."""

    def __init__(self, answer: WebhookResponse | Exception) -> None:
        super().__init__("https://hooks.slack.example/services/secret-part")
        self.answer = answer
        self.sent: list[dict[str, Any]] = []

    def send_dict(self, body: dict[str, Any], headers: dict[str, str] | None = None) -> WebhookResponse:
        """Keeps the body."""
        del headers
        self.sent.append(body)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def ok(data: dict[str, Any] | None = None) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Slack took it."""
    return 200, data or TAKEN, {}


def no(code: str, status: int = 200, **headers: str) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Slack says no, which it does with status 200."""
    return status, {"ok": False, "error": code}, headers


def app(client: WebClient) -> SlackAppChannel:
    """In one conversation."""
    return SlackAppChannel(client, "C0123456789", FixedClock())


def webhook(answer: WebhookResponse | Exception) -> SlackWebhookChannel:
    """Over one address."""
    return SlackWebhookChannel(FakeWebhookClient(answer), FixedClock())


def said(status: int, body: str, headers: dict[str, str] | None = None) -> WebhookResponse:
    """An answer to an incoming webhook."""
    return WebhookResponse(url="https://x", status_code=status, body=body, headers=headers or {})


def test_the_first_message_gives_the_thread() -> None:
    """Links are not unfolded: nothing fetches the approval page on behalf of anybody."""
    client = FakeWebClient(ok())
    delivered = app(client).send(make_message())
    ((method, sent),) = client.asked
    assert ("chat.postMessage", "C0123456789") == (method, sent["channel"])
    assert (False, False, "none") == (sent["unfurl_links"], sent["unfurl_media"], sent["parse"])
    assert ("1795176150.000100", FIRST) == (delivered.delivery_id, delivered.thread)


def test_a_reminder_is_a_reply_that_the_conversation_sees() -> None:
    """And the thread stays that of the first message."""
    client = FakeWebClient(ok({**TAKEN, "ts": "1795176999.000200"}))
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
    client = FakeWebClient(ok())
    delivered = app(client).send(make_outcome(thread=FIRST))
    ((method, sent),) = client.asked
    assert ("chat.update", "C0123456789", "1795176150.000100") == (method, sent["channel"], sent["ts"])
    assert "governor.approve" not in str(sent["blocks"])
    assert FIRST == delivered.thread


def test_the_outcome_is_told_anew_when_the_first_message_is_gone() -> None:
    """Somebody deleted message and thread; the people of the conversation still learn how it ended."""
    client = FakeWebClient(no("message_not_found"), no("thread_not_found"), ok())
    app(client).send(make_outcome(thread=FIRST))
    assert ["chat.update", "chat.postMessage", "chat.postMessage"] == [method for method, _ in client.asked]
    assert "thread_ts" not in client.asked[-1][1]


@pytest.mark.parametrize("code", ["ratelimited", "internal_error", "service_unavailable"])
def test_what_may_succeed_later_is_retryable(code: str) -> None:
    """Whether it is said with a status or with a code alone."""
    with pytest.raises(DeliveryRetryable, match=code):
        app(FakeWebClient(no(code))).send(make_message())


def test_the_wait_of_a_rate_limit_reaches_the_queue() -> None:
    """Slack asks for seconds."""
    with pytest.raises(DeliveryRetryable) as error:
        app(FakeWebClient(no("ratelimited", 429, **{"Retry-After": "30"}))).send(make_message())
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
    channel = app(FakeWebClient(no(code)))
    with pytest.raises(DeliveryRefused, match=advice) as error:
        channel.send(make_message())
    assert "secret-part" not in str(error.value) + repr(channel)
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


def test_an_answer_that_is_not_slack_s_is_not_repeated() -> None:
    """A page of a proxy in place of a code could hold anything."""
    page = "Received a response in a non-JSON format: <html>secret-part"
    with pytest.raises(DeliveryRetryable) as error:
        app(FakeWebClient(no(page, 502))).send(make_message())
    assert "slack: it answered 502 without a code" == str(error.value)


def test_a_message_that_nobody_names_is_not_delivered() -> None:
    """Something answers `ok` and is not Slack."""
    with pytest.raises(DeliveryRefused, match="not Slack"):
        app(FakeWebClient(ok({"ok": True}))).send(make_message())


@pytest.mark.parametrize(
    "foreign", [URLError(TimeoutError("secret-part")), TimeoutError(), ConnectionResetError(), OSError()]
)
def test_no_answer_is_retryable(foreign: Exception) -> None:
    """From both clients."""
    for channel in (app(FakeWebClient(foreign)), webhook(foreign)):
        with pytest.raises(DeliveryRetryable, match="did not answer") as error:
            channel.send(make_message())
        assert "secret-part" not in str(error.value)


def test_a_certificate_that_is_not_accepted_is_refused() -> None:
    """Repeating does not make it good."""
    with pytest.raises(DeliveryRefused, match="certificate"):
        webhook(URLError(ssl.SSLCertVerificationError("x"))).send(make_message())


def test_a_foreign_thread_is_refused() -> None:
    """A thread of another channel is a mistake of the caller, not a new message."""
    with pytest.raises(ValueError, match=r"Delivered\.thread"):
        app(FakeWebClient()).send(make_message(thread="ask-1"))


def test_an_incoming_webhook_takes_a_message_with_a_link() -> None:
    """No buttons to answer, no unfolding."""
    client = FakeWebhookClient(said(200, "ok"))
    delivered = SlackWebhookChannel(client, FixedClock()).send(make_message())
    (sent,) = client.sent
    assert "governor.approve" not in str(sent["blocks"])
    assert (False, False) == (sent["unfurl_links"], sent["unfurl_media"])
    assert (make_message().delivery_key, None) == (delivered.delivery_id, delivered.thread)


def test_a_webhook_s_refusals_and_rate_limits_are_told_apart() -> None:
    """404 `no_service` is for good, 429 is not."""
    with pytest.raises(DeliveryRefused, match="make a new one"):
        webhook(said(404, "no_service")).send(make_message())
    with pytest.raises(DeliveryRetryable) as error:
        webhook(said(429, "rate_limited", {"Retry-After": "7"})).send(make_message())
    assert 7 == error.value.retry_after_seconds


def test_a_page_that_answers_200_is_no_delivery() -> None:
    """A login page of a proxy says 200, but not `ok`."""
    with pytest.raises(DeliveryRefused, match="no incoming webhook"):
        webhook(said(200, "<html>sign in</html>")).send(make_message())


@pytest.mark.parametrize("token", ["", "xoxp-secret-part", "secret-part", "xoxb-secret-part\r\nX: y"])
def test_only_a_bot_token_is_taken(token: str) -> None:
    """A user token would post as a person."""
    with pytest.raises(ConfigurationError, match="bot token") as error:
        slack_app_client(token)
    assert "secret-part" not in str(error.value)


@pytest.mark.parametrize("name", ["", "#alerts", "alerts", "C01\n"])
def test_a_conversation_is_given_by_its_id(name: str) -> None:
    """Names change, and somebody else may take one."""
    with pytest.raises(ConfigurationError, match="by its id"):
        SlackAppChannel(FakeWebClient(), name, FixedClock())


def test_clients_speak_https_do_not_retry_and_do_not_log(caplog: pytest.LogCaptureFixture) -> None:
    """At DEBUG the SDK would log addresses and requests. The guard of the tests is the network here."""
    for url in ("http://slack.example/api/", "http://hooks.example/secret-part"):
        with pytest.raises(ConfigurationError):
            slack_app_client(TOKEN, url)
        with pytest.raises(ConfigurationError):
            slack_webhook_client(url)
    for client in (slack_app_client(TOKEN), slack_webhook_client("https://hooks.example/secret-part")):
        assert [] == client.retry_handlers
    caplog.set_level(logging.DEBUG)
    client = slack_webhook_client("https://hooks.example/secret-part")
    client.logger.error("secret-part")
    assert "secret-part" not in caplog.text
