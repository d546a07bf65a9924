"""The senders over real TLS, to receivers that check what the real services check; mail, to the
engine's SES.

The receivers need no engine; they are here because unit tests open no socket.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from governor.alerts.model import Section, Severity
from governor.approvals.model.approval import Answer
from governor.aws.clients import Clients
from governor.aws.messaging import SesMailService
from governor.core.https import Https
from governor.notify.email import EmailChannel
from governor.notify.message import (
    CallbackRefused,
    Channel,
    DeliveryRefused,
    DeliveryRetryable,
    Table,
)
from governor.notify.pagerduty import PagerDutyChannel, dedup_key
from governor.notify.slack import SlackApi, SlackAppChannel, SlackWebhookChannel
from governor.notify.slack_actions import parse_slack_answer, verify_slack_request
from governor.notify.teams import TeamsChannel
from governor.notify.webhook import WebhookChannel, sign_webhook
from local.demo.receivers import CHANNELS, Receivers
from local.engine.cloud import ANSWER_SECONDS, LocalCloud
from tests.unit.notify.builders import EPISODE, LINK, make_message, make_outcome

pytestmark = pytest.mark.integration


class NowClock:
    """The port `Clock`; the real time, as receivers check it."""

    def now(self) -> datetime:
        """Aware UTC."""
        return datetime.now(UTC)


@pytest.fixture
def receivers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receivers]:
    """Trusted by this process."""
    with Receivers() as started:
        monkeypatch.setenv("SSL_CERT_FILE", str(started.certificate))
        yield started


def slack_app(
    receivers: Receivers, token: str | None = None, channel: str | None = None
) -> SlackAppChannel:
    """In the receivers' conversation, with their token, unless told otherwise."""
    api = SlackApi(token or receivers.slack_token, Https(), NowClock(), receivers.slack_api_url)
    return SlackAppChannel(api, channel or receivers.slack_channel)


def sender(receivers: Receivers, name: str) -> Channel:
    """The sender for one of the receivers' channels."""
    https, clock = Https(), NowClock()
    match name:
        case "slack":
            return slack_app(receivers)
        case "slack_webhook":
            return SlackWebhookChannel(receivers.slack_webhook_url, https, clock)
        case "teams":
            return TeamsChannel(receivers.teams_url, https, clock)
        case "pagerduty":
            return PagerDutyChannel(receivers.pagerduty_key, https, clock, receivers.pagerduty_url)
        case _:
            return WebhookChannel(receivers.webhook_url, [receivers.webhook_secret], https, clock)


def post(url: str, body: bytes, headers: dict[str, str], certificate: Path) -> tuple[int, Any]:
    """Somebody else's request: status and document."""
    context = ssl.create_default_context(cafile=str(certificate))
    with urlopen(
        Request(url, data=body, headers=headers), context=context, timeout=ANSWER_SECONDS
    ) as answer:
        return answer.status, json.loads(answer.read())


@pytest.mark.parametrize("name", CHANNELS)
def test_every_channel_is_taken_as_the_real_service_would(receivers: Receivers, name: str) -> None:
    """Credentials, signatures and documents are right; nothing is refused."""
    long = make_message(
        severity=Severity.CRITICAL,
        sections=tuple(Section(f"<{number}>", ("*x* & " * 300,) * 9) for number in range(40)),
        evidence=Table("Evidence", ("GPU", "Highest"), tuple((str(n), "é%") for n in range(300))),
    )
    for message in (
        make_message(severity=Severity.CRITICAL),
        make_message(
            severity=Severity.CRITICAL,
            link=None,
            evidence=None,
            sections=(),
            approval_id=None,
            answers=(),
        ),
        long,
    ):
        assert sender(receivers, name).send(message).delivery_id
    assert ["", "", ""] == [
        one.problem.removeprefix("known already") for one in receivers.received(name)
    ]


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize(("status", "asked", "expected"), [(429, "7", 7), (503, None, None)])
def test_what_may_pass_is_retryable_and_then_taken(
    receivers: Receivers, name: str, status: int, asked: str | None, expected: int | None
) -> None:
    """With the wait that was asked for; nothing is repeated by the sender itself."""
    receivers.fail(name, status, retry_after=asked)
    channel = sender(receivers, name)
    with pytest.raises(DeliveryRetryable) as error:
        channel.send(make_message(severity=Severity.CRITICAL))
    assert expected == error.value.retry_after_seconds
    assert 1 == len(receivers.received(name))
    assert channel.send(make_message(severity=Severity.CRITICAL)).delivery_id


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize("status", [302, 307])
def test_redirects_are_not_followed(receivers: Receivers, name: str, status: int) -> None:
    """A token or a message would go wherever the redirect says."""
    receivers.fail(name, status)
    with pytest.raises(DeliveryRefused, match=str(status)):
        sender(receivers, name).send(make_message(severity=Severity.CRITICAL))
    assert 1 == len(receivers.received())


@pytest.mark.parametrize("name", CHANNELS)
def test_an_unknown_certificate_gets_nothing(
    receivers: Receivers, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a message nor a secret."""
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(DeliveryRefused, match="certificate"):
        sender(receivers, name).send(make_message(severity=Severity.CRITICAL))
    assert () == receivers.received()


def test_wrong_credentials_are_refused_and_say_so(receivers: Receivers) -> None:
    """Each by what its service says."""
    https, clock = Https(), NowClock()
    wrong: list[tuple[Channel, str]] = [
        (slack_app(receivers, token="xoxb-other"), "invalid_auth: store the current bot token"),
        (slack_app(receivers, channel="C0OTHER"), "channel_not_found: invite the app"),
        (
            SlackWebhookChannel(f"{receivers.url}/services/T/B/other", https, clock),
            "404: .*make a new one",
        ),
        (TeamsChannel(f"{receivers.url}/workflows/other", https, clock), "404: .*make a new one"),
        (PagerDutyChannel("0" * 32, https, clock, receivers.pagerduty_url), "400"),
        (WebhookChannel(receivers.webhook_url, ["o" * 32], https, clock), "401: .*credentials"),
    ]
    for channel, expected in wrong:
        with pytest.raises(DeliveryRefused, match=expected):
            channel.send(make_message(severity=Severity.CRITICAL))


def test_an_answer_in_slack_comes_back_with_its_user_and_the_outcome_ends_it(
    receivers: Receivers,
) -> None:
    """Ask, press, verify, read, tell the outcome: then there is nothing to press any more."""
    channel = slack_app(receivers)
    thread = channel.send(make_message()).thread
    assert thread is not None
    pressed = receivers.press(thread, "governor.exempt", user="U0ANN", reason="demo on Friday")
    secret, now = receivers.slack_signing_secret, datetime.now(UTC)
    verify_slack_request(secret, pressed.body, pressed.timestamp, pressed.signature, now)
    answer = parse_slack_answer(pressed.body)
    assert answer is not None
    assert ("apr-1", Answer.EXEMPT, "U0ANN", "demo on Friday", thread) == (
        answer.approval_id,
        answer.answer,
        answer.user_id,
        answer.reason,
        answer.thread,
    )
    with pytest.raises(CallbackRefused):
        verify_slack_request(secret, pressed.body + b"&", pressed.timestamp, pressed.signature, now)

    assert thread == channel.send(make_message(stage="remind", thread=thread)).thread
    assert thread == channel.send(make_outcome(thread=thread)).thread
    message = receivers.slack_message(thread)
    assert message is not None
    assert "notebook is stopped" in message["text"]
    with pytest.raises(LookupError, match=r"no button governor\.exempt"):
        receivers.press(thread, "governor.exempt")
    operations = [one.operation for one in receivers.received("slack")]
    assert ["chat.postMessage", "chat.postMessage", "chat.update"] == operations


def test_an_outcome_reaches_slack_also_when_the_question_was_deleted(receivers: Receivers) -> None:
    """As a new message."""
    channel = slack_app(receivers)
    thread = channel.send(make_message()).thread
    assert thread is not None
    receivers.delete_slack_message(thread)
    delivered = channel.send(make_outcome(thread=thread))
    problems = [one.problem for one in receivers.received("slack")]
    assert ["", "message_not_found", "thread_not_found", ""] == problems
    assert receivers.slack_message(f"{receivers.slack_channel}:{delivered.delivery_id}") is not None


def test_an_incident_is_opened_once_and_resolved_by_the_outcome(receivers: Receivers) -> None:
    """One for an episode, however often it is told."""
    channel = sender(receivers, "pagerduty")
    thread = [channel.send(make_message(severity=Severity.CRITICAL)).thread for _ in range(2)][-1]
    assert {dedup_key(EPISODE): "triggered"} == receivers.incidents()
    channel.send(make_outcome(thread=thread))
    assert {dedup_key(EPISODE): "resolved"} == receivers.incidents()


def test_a_webhook_tells_a_repetition_from_something_new(receivers: Receivers) -> None:
    """By the delivery's id."""
    for message in (make_message(), make_message(), make_outcome()):
        sender(receivers, "webhook").send(message)
    problems = [one.problem for one in receivers.received("webhook")]
    assert ["", "known already", ""] == problems


@pytest.mark.parametrize(
    ("path", "document", "problem"),
    [
        ("slack_webhook_url", {"blocks": []}, "no_text"),
        ("slack_webhook_url", {"text": "x", "blocks": [{"type": "divider?"}]}, "unsupported type"),
        (
            "slack_webhook_url",
            {
                "text": "x",
                "blocks": [{"type": "header", "text": {"type": "plain_text", "text": "x" * 151}}],
            },
            "too long",
        ),
        ("teams_url", {"type": "message", "attachments": []}, "attachments"),
        ("teams_url", {"text": "x" * 28 * 1024}, "28 KB"),
        ("pagerduty_url", {"event_action": "open"}, "event_action"),
        ("pagerduty_url", {"event_action": "resolve", "routing_key": "0" * 32}, "dedup_key"),
        ("webhook_url", {"version": 1}, "not signed"),
    ],
)
def test_receivers_refuse_what_the_services_refuse(
    receivers: Receivers, path: str, document: dict[str, Any], problem: str
) -> None:
    """A receiver that takes everything proves nothing."""
    with pytest.raises(URLError, match=r"HTTP Error 4\d\d") as error:
        post(
            getattr(receivers, path),
            json.dumps(document).encode(),
            {"Content-Type": "application/json"},
            receivers.certificate,
        )
    error.value.close()  # type: ignore[attr-defined]
    assert problem in receivers.received()[-1].problem


def test_a_signed_document_that_breaks_its_promise_is_refused(receivers: Receivers) -> None:
    """The signature alone is not enough."""
    body = b'{"version": 2}'
    headers = {
        "GpuGovernor-Signature": sign_webhook([receivers.webhook_secret], body, datetime.now(UTC))
    }
    with pytest.raises(URLError, match="422") as error:
        post(receivers.webhook_url, body, headers, receivers.certificate)
    error.value.close()  # type: ignore[attr-defined]


def test_the_inbox_shows_what_came_and_no_secret(receivers: Receivers) -> None:
    """As a page and as JSON; what others wrote is text there too."""
    for name in CHANNELS:
        title = "<script>alert(1)</script>"
        sender(receivers, name).send(make_message(severity=Severity.CRITICAL, title=title))
    with urlopen(receivers.inbox_url, timeout=ANSWER_SECONDS) as answer:
        page = answer.read().decode()
    with urlopen(f"{receivers.inbox_url}inbox.json", timeout=ANSWER_SECONDS) as answer:
        document = json.loads(answer.read())
    assert list(CHANNELS) == [one["channel"] for one in document["received"]]
    assert LINK.replace("&", "&amp;") in page
    assert "<script>" not in page
    for secret in (
        receivers.slack_token,
        receivers.pagerduty_key,
        receivers.webhook_secret,
        receivers.slack_webhook_url,
        receivers.teams_url,
    ):
        assert secret not in page + json.dumps(document)


def test_a_short_link_leads_to_its_address(receivers: Receivers) -> None:
    """And a number that was not given out leads nowhere."""
    short = receivers.short_link(f"{receivers.inbox_url}inbox.json")
    with urlopen(short, timeout=ANSWER_SECONDS) as answer:
        assert f"{receivers.inbox_url}inbox.json" == answer.url
    for other in ("0", "2", "\u0661"):
        assert receivers.linked(f"/{other}") is None


def test_a_planned_failure_names_a_channel_that_exists(receivers: Receivers) -> None:
    """A test that misspells one would prove nothing."""
    with pytest.raises(ValueError, match="no channel slak: name one of slack"):
        receivers.fail("slak", 500)


def test_mail_is_taken_from_a_verified_sender_and_lies_in_the_mailbox(
    bare_cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both forms arrive, to the one recipient; without a verified sender the refusal says what to
    do."""
    for name, value in bare_cloud.environment().items():
        monkeypatch.setenv(name, value)
    mail = EmailChannel(
        SesMailService(Clients()), sender="governor@example.com", recipient="ann@example.com"
    )
    with pytest.raises(DeliveryRefused, match=r"MessageRejected.*verify the sender"):
        mail.send(make_message())
    bare_cloud.client("sesv2").create_email_identity(EmailIdentity="governor@example.com")
    delivered = mail.send(make_message())
    with urlopen(
        f"{bare_cloud.endpoint_url}/_ministack/ses/messages", timeout=ANSWER_SECONDS
    ) as answer:
        (boxes,) = json.loads(answer.read())["messages"].values()
    (found,) = [one for one in boxes if one["MessageId"] == delivered.delivery_id]
    assert ["ann@example.com"] == found["To"]
    assert LINK in found["BodyText"]
    assert LINK.replace("&", "&amp;") in found["BodyHtml"]
