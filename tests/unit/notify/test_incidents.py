"""Incidents of critical messages whose cause ends by itself: opened by a channel, closed by a
sweep."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import governor.alerts
from governor.alerts.model import NOBODY, REPEATS, Alert, Severity
from governor.approvals.messages.questions import stage_alert
from governor.approvals.model.approval import Stage
from governor.core.errors import Unavailable
from governor.core.https import HttpAnswer
from governor.events.messages import (
    block_alert,
    checkpoint_failed_alert,
    mass_alert,
    notice_alert,
    warning_alert,
)
from governor.events.model.interruption import Cause, HookAnswer, HookState, Warned
from governor.events.model.notice import BlockChange, Notice
from governor.notify.pagerduty import PagerDutyChannel
from governor.notify.registry import Route
from governor.policy.model.policy import Mode, Policy
from tests.builders import NOW, TARGET, make_instance
from tests.unit.money.test_sum_up_month import MonthWorld
from tests.unit.notify.builders import FakeHttps
from tests.unit.notify.test_dispatch import FakeChannel, Post, sealed
from tests.unit.worlds.fleet_world import FleetWorld
from tests.unit.worlds.health_world import HealthWorld, flat
from tests.unit.worlds.world import APPROVAL_ID

ONE = make_instance()
PLACE = (TARGET.account, TARGET.region)
SPOT = Warned("event-1", *PLACE, ONE.instance_id, Cause.SPOT, NOW, action="terminate")
UNSENT = HookAnswer(HookState.REFUSED, "no agent")


class Pager:
    """A PagerDuty behind the channels, and a sweep over the same state."""

    def __init__(self) -> None:
        self.post, self.fleet = Post(), FleetWorld(Policy(mode=Mode.ASK))
        self.https = FakeHttps([HttpAnswer(202)] * 9)
        duty = PagerDutyChannel("k" * 32, self.https, self.post.world.clock)
        self.hook = FakeChannel("webhook")
        self.post.registry.routes_ += [Route(duty, "service"), Route(self.hook, "webhook")]
        self.fleet.close_sweep = replace(
            self.fleet.close_sweep, failure_store=self.post.world.state
        )

    def send(self, alert: Alert) -> list[str]:
        """Return what PagerDuty gets of an alert."""
        before, self.post.world.clock.moment = len(self.https.sent), self.fleet.clock.moment
        self.post.dispatch([sealed(alert)])
        events = [json.loads(body) for _, body, _ in self.https.sent[before:]]
        return [f"{event['event_action']} {event['dedup_key']}" for event in events]

    def sweep(self, at: datetime) -> list[str]:
        """Return what PagerDuty gets of a sweep at that time."""
        self.fleet.clock.moment = at
        self.fleet.announcer.sent.clear()
        self.fleet.sweep()
        self.fleet.close_sweep()
        return [event for alert in self.fleet.announcer.sent for event in self.send(alert)]


def mass(now: datetime) -> Alert:
    """Many warnings in one zone."""
    return mass_alert(ONE, SPOT, [ONE], Policy(), now, now, owner=NOBODY)


def block(now: datetime) -> Alert:
    """A Capacity Block whose instances are terminated from ten minutes later."""
    change = BlockChange("event-2", *PLACE, "cr-1", True, now, now + timedelta(minutes=40))
    return block_alert(change, [ONE], NOBODY, now)


def reminder(now: datetime) -> Alert:
    """A retirement in a day."""
    at = now + timedelta(days=1)
    notice = Notice(*PLACE, "arn", "instance retirement", at, now, instance_id=ONE.instance_id)
    return notice_alert(notice, [ONE], NOBODY, now, again=True)


@pytest.mark.parametrize(
    ("make", "open_minutes", "over_minutes"),
    [
        (lambda now: warning_alert(ONE, SPOT, None, NOBODY, now, UNSENT), 1, 30),
        (lambda now: checkpoint_failed_alert(ONE, SPOT, UNSENT, NOBODY, now), 1, 30),
        (mass, 1, 60),
        (block, 35, 41),
        (reminder, 23 * 60, 24 * 60 + 1),
    ],
)
def test_an_incident_ends_when_the_time_it_was_about_has_passed(
    make: Callable[[datetime], Alert], open_minutes: int, over_minutes: int
) -> None:
    """Once, and not before; people get no message of it."""
    world = Pager()
    alert = make(NOW)
    assert Severity.CRITICAL is alert.severity
    assert [f"trigger {alert.dedup_id}"] == world.send(alert)
    people = len(world.post.mail.sent)
    assert [] == world.sweep(NOW + timedelta(minutes=open_minutes))
    assert [f"resolve {alert.dedup_id}"] == world.sweep(NOW + timedelta(minutes=over_minutes))
    assert [] == world.sweep(NOW + timedelta(minutes=over_minutes + 15))

    assert people == len(world.post.mail.sent)
    over = world.hook.sent[-1]
    assert (f"Resolved: {alert.subject}", True) == (over.title, over.data[REPEATS])


def test_what_opened_late_is_closed_late() -> None:
    """PagerDuty was away when it was over: the trigger that comes after the end is resolved all the
    same."""
    world = Pager()
    alert = warning_alert(ONE, SPOT, None, NOBODY, NOW, UNSENT)
    resolve = [f"resolve {alert.dedup_id}"]
    later = NOW + timedelta(minutes=30)
    world.send(alert)
    assert resolve == world.sweep(later)
    world.fleet.clock.moment = later + timedelta(minutes=1)
    incident = replace(
        alert, dedup_id="spot-again", facts={**alert.facts, "incident": alert.dedup_id}
    )
    assert [f"trigger {alert.dedup_id}"] == world.send(incident)
    assert resolve == world.sweep(later + timedelta(minutes=2))


def test_an_end_that_nobody_took_is_sent_by_the_next_sweep() -> None:
    """The topic was away."""
    world = Pager()
    alert = warning_alert(ONE, SPOT, None, NOBODY, NOW, UNSENT)
    world.send(alert)
    world.fleet.announcer.failure = Unavailable("sns:Publish: try again")
    assert [] == world.sweep(NOW + timedelta(minutes=30))
    world.fleet.announcer.failure = None
    assert [f"resolve {alert.dedup_id}"] == world.sweep(NOW + timedelta(minutes=31))


def test_a_gpu_fault_is_an_incident_while_it_is_found() -> None:
    """Sound again for as long as the health check takes it for the same trouble: then it is
    over."""
    world, health = Pager(), HealthWorld()
    health.log = world.fleet.log
    health.check_health = replace(
        health.check_health, claim_store=health.log, finding_store=health.log
    )
    instance_id = health.add(1, gpus=2)
    health.publish(instance_id, [{}, {"lost": flat(1)}])
    health.check()
    (alert,) = health.told()
    assert [f"trigger {alert.dedup_id}"] == world.send(alert)
    for _ in range(5):
        health.check(60)
        assert [] == world.sweep(health.clock.moment)

    health.publish(instance_id, [{}, {}])
    found = [
        event for _ in range(5) if health.check(60) for event in world.sweep(health.clock.moment)
    ]
    assert [f"resolve {alert.dedup_id}"] == found


@pytest.mark.parametrize("usd", ["7999.99", "8000", "9999.99", "10000", "10000.01", "50000"])
def test_money_never_wakes_anybody(usd: str) -> None:
    """A used-up budget is sent, and opens no incident: nothing is broken, and nothing stops."""
    world, month = Pager(), MonthWorld()
    month.cost("llm", usd)
    month.sum_up()

    for alert in month.told():
        assert Severity.INFO is alert.severity
        assert [] == world.send(alert)
    assert [] == world.sweep(month.clock.moment + timedelta(hours=4))


@pytest.mark.parametrize("silence_acts", [True, False])
def test_an_escalation_opens_an_incident_only_where_silence_acts(silence_acts: bool) -> None:
    """An idle instance costs money and nothing else. Where nobody's answer would stop it, the last
    message before that may wake somebody."""
    world = Pager()
    episode = world.post.world.state.episode(world.post.world.ref)
    assert episode is not None
    episode = replace(episode, asking=replace(episode.asking, acts_on_silence=silence_acts))

    until = NOW + timedelta(hours=4)
    events_by_stage = {}
    for stage in (Stage.ASK, Stage.REMIND, Stage.ESCALATE):
        world.post.world.state.await_answer(APPROVAL_ID, "token", stage.value, until)
        events_by_stage[stage] = world.send(stage_alert(episode, stage, NOW, None, until))

    incident = [f"trigger {episode.ref.execution_name}"] if silence_acts else []
    assert {Stage.ASK: [], Stage.REMIND: [], Stage.ESCALATE: incident} == events_by_stage


def test_every_message_about_money_is_information() -> None:
    """Unused reservations and prices elsewhere, too: none is a fault."""
    words = Path(governor.alerts.__file__).parent / "words"
    of_money = [*(words / "money").glob("*.txt"), words / "health/empty.txt"]
    of_money.append(words / "events/elsewhere.txt")
    assert len(of_money) > 3
    for template in of_money:
        assert '{% set alert_severity = "info" %}' in template.read_text(), template.name
