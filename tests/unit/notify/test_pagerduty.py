"""PagerDuty: what is worth an incident, and when it is over."""

from __future__ import annotations

import json
from typing import Any

import pytest

from governor.alerts.model import AlertKind, Severity
from governor.core.errors import ConfigurationError
from governor.core.https import HttpAnswer
from governor.limits.messages import breaker_alert
from governor.limits.model.breaker import BreakerState
from governor.notify.compose import message_of
from governor.notify.message import DeliveryRefused, DeliveryRetryable, Message
from governor.notify.pagerduty import PagerDutyChannel, dedup_key, pagerduty_event
from tests.builders import TARGET
from tests.unit.notify.builders import (
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
    assert (KEY, "trigger", EPISODE) == (
        event["routing_key"],
        event["event_action"],
        event["dedup_key"],
    )
    payload = event["payload"]
    assert ("critical", "i-0123456789abcdef0") == (payload["severity"], payload["source"])
    assert "$1,321 a day while it runs" == payload["custom_details"]["Cost"]
    assert [{"href": LINK, "text": "Stop or keep it"}] == event["links"]
    assert EPISODE == delivered.thread


def sent(message: Message) -> list[tuple[str, str]]:
    """Return what PagerDuty gets: action and incident."""
    https = FakeHttps([HttpAnswer(202)] * 2)
    channel(https).send(message)
    events = [json.loads(body) for _, body, _ in https.sent]
    return [(event["event_action"], event["dedup_key"]) for event in events]


def test_the_outcome_resolves_the_incident_of_its_episode() -> None:
    """With the key that it was given, and nothing that could open another one."""
    assert [("resolve", EPISODE)] == sent(make_outcome(thread=EPISODE))


def test_an_outcome_without_incident_is_not_for_this_channel() -> None:
    """There is nothing to resolve."""
    assert not channel(FakeHttps()).takes(make_outcome())


def failure(incident: str = "failure-1", **changes: Any) -> Message:
    """A workflow that failed."""
    about = {
        "kind": AlertKind.FAILURE,
        "severity": Severity.CRITICAL,
        "data": {"incident": incident},
    }
    return make_outcome(**about, **changes)


def test_a_failure_is_an_incident_also_when_it_ends_the_episode() -> None:
    """Somebody must look at what was left behind; the question of the episode is over all the same.
    Before, each of fifteen questions that had paged stayed open for good."""
    assert channel(FakeHttps()).takes(failure(thread=EPISODE))
    assert [("resolve", EPISODE), ("trigger", "failure-1")] == sent(failure(thread=EPISODE))


def test_workflows_that_fail_for_one_cause_are_one_incident_until_it_is_gone() -> None:
    """Fifteen of them page once; another cause is another incident."""
    found = [sent(failure(episode=f"e-{number}")) for number in range(15)]
    over = make_message(
        kind=AlertKind.FAILURE_OVER, severity=Severity.INFO, data={"incident": "failure-1"}
    )

    assert [[("trigger", "failure-1")]] * 15 == found
    assert [("trigger", "failure-2")] == sent(failure("failure-2"))
    assert [("resolve", "failure-1")] == sent(over)


def test_a_freeze_is_an_incident_until_it_ends() -> None:
    """A reminder of it pages nobody. Before, nothing ever resolved it."""
    state = BreakerState(NOW, "half the fleet turned idle", turned=6)
    for kind in ("", "all "):
        tripped, ended = (
            message_of(breaker_alert(f"{kind}{name}", TARGET, state, NOW), None, link=None)
            for name in ("frozen", "released")
        )
        ((action, incident),) = sent(tripped)
        assert "trigger" == action
        assert [("resolve", incident)] == sent(ended)
    again = message_of(
        breaker_alert("frozen", TARGET, state, NOW, left=3, again=1), None, link=None
    )
    assert not channel(FakeHttps()).takes(again)


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
    event = pagerduty_event(
        make_message(severity=Severity.CRITICAL, title="x\n" * 2000, episode="e" * 300)
    )
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
