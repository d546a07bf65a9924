"""PagerDuty: what is worth an incident, and when it is over."""

from __future__ import annotations

import json

import pytest

from governor.channels.message import DeliveryRefused, DeliveryRetryable
from governor.channels.pagerduty import PagerDutyChannel, dedup_key, pagerduty_event
from governor.domain.alerts.alert import AlertKind, Severity
from governor.errors import ConfigurationError
from governor.https import HttpAnswer
from tests.unit.channels.builders import (
    EPISODE,
    LINK,
    NOW,
    FakeHttps,
    FixedClock,
    make_message,
    make_outcome,
)

KEY = "R0uting" + "k" * 25


def channel(https: FakeHttps) -> PagerDutyChannel:
    """With a well-formed key."""
    return PagerDutyChannel(KEY, https, FixedClock())


def test_an_escalation_triggers_one_incident_for_its_episode() -> None:
    """Key, severity, source and link are where PagerDuty looks for them."""
    https = FakeHttps([HttpAnswer(202)])
    delivered = channel(https).send(make_message(severity=Severity.CRITICAL, stage="escalate"))
    ((url, body, _),) = https.sent
    event = json.loads(body)

    assert "https://events.pagerduty.com/v2/enqueue" == url
    assert (KEY, "trigger", EPISODE) == (event["routing_key"], event["event_action"], event["dedup_key"])
    payload = event["payload"]
    assert ("critical", "i-0123456789abcdef0") == (payload["severity"], payload["source"])
    assert "$1,321 a day while it runs" == payload["custom_details"]["Cost"]
    assert [{"href": LINK, "text": "Stop or keep it"}] == event["links"]
    assert EPISODE == delivered.thread


def test_the_outcome_resolves_the_incident_of_its_episode() -> None:
    """With the same key, and nothing that could open another one."""
    event = pagerduty_event(make_outcome(thread=EPISODE))
    assert {"event_action": "resolve", "dedup_key": EPISODE} == event


def test_an_outcome_without_incident_is_not_for_this_channel() -> None:
    """There is nothing to resolve."""
    assert not channel(FakeHttps()).takes(make_outcome())


def test_a_failure_is_an_incident_also_when_it_ends_the_episode() -> None:
    """Somebody must look at what was left behind."""
    failure = make_outcome(kind=AlertKind.FAILURE, severity=Severity.CRITICAL, thread=EPISODE)
    assert channel(FakeHttps()).takes(failure)
    assert "trigger" == pagerduty_event(failure)["event_action"]


def test_workflows_that_fail_for_one_cause_are_one_incident() -> None:
    """Fifteen of them in one account and Region page once a day; another cause is another incident."""

    def key(reason: str, episode: str) -> object:
        failure = {
            "kind": AlertKind.FAILURE,
            "severity": Severity.CRITICAL,
            "data": {"outcome_reason": reason},
        }
        return pagerduty_event(make_outcome(**failure, episode=episode))["dedup_key"]

    timed_out = {key(f"States.Timeout: {number}", f"e-{number}") for number in range(15)}
    assert 1 == len(timed_out)
    assert key("AccessDenied: ec2:StopInstances", "e-1") not in timed_out


@pytest.mark.parametrize("severity", [Severity.INFO, Severity.WARNING])
def test_nobody_is_woken_by_less_than_critical(severity: Severity) -> None:
    """Not even by a caller that does not ask first."""
    https = FakeHttps()
    sender, message = channel(https), make_message(severity=severity)
    assert not sender.takes(message)
    with pytest.raises(ValueError, match="severity"):
        sender.send(message)
    assert [] == https.sent


def test_long_texts_and_names_stay_within_the_limits() -> None:
    """An event that is too long would be refused whole."""
    event = pagerduty_event(make_message(severity=Severity.CRITICAL, title="x\n" * 2000, episode="e" * 300))
    payload = event["payload"]
    assert isinstance(payload, dict)
    assert 1024 == len(payload["summary"])
    assert "\n" not in payload["summary"]
    assert dedup_key("e" * 300) == event["dedup_key"] != dedup_key("e" * 301)
    assert 64 == len(str(event["dedup_key"]))


def test_refusals_and_overload_are_told_apart_without_the_key() -> None:
    """400 means a wrong key or event, 429 means later."""
    message = make_message(severity=Severity.CRITICAL)
    sender = channel(FakeHttps([HttpAnswer(400), HttpAnswer(429, {"retry-after": "9"})]))
    with pytest.raises(DeliveryRefused) as refused:
        sender.send(message)
    with pytest.raises(DeliveryRetryable) as later:
        sender.send(message)
    assert 9 == later.value.retry_after_seconds
    for text in (str(refused.value), str(later.value), repr(sender)):
        assert KEY not in text


@pytest.mark.parametrize("key", ["", "k" * 31, "k" * 33, "k" * 31 + "\n", "k" * 31 + "é"])
def test_a_malformed_key_is_refused_before_anything_is_sent(key: str) -> None:
    """And is not repeated in the error."""
    with pytest.raises(ConfigurationError, match="32 letters and digits") as error:
        PagerDutyChannel(key, FakeHttps(), FixedClock())
    assert "kkk" not in str(error.value)


def test_the_time_of_the_event_is_the_message_s() -> None:
    """Not that of a later attempt."""
    payload = pagerduty_event(make_message(severity=Severity.CRITICAL, at=NOW))["payload"]
    assert isinstance(payload, dict)
    assert "2026-11-20T12:02:30Z" == payload["timestamp"]
