"""A question that a freeze delays over a weekend, from the freeze to the stop: the real state
machine over the real functions.

Each stage comes when its messages say, in working hours. The definition of the release before, and
this one with a function of that release, wait as they did.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from governor.wiring.payloads import AskPayload
from tests.soak import cloud as simulation
from tests.soak.asl import Execution, check
from tests.soak.cloud import START, Cloud
from tests.soak.parts import simulated
from tests.soak.scenarios import HOURS, ID, SCENARIOS, Scenario, freeze, lift
from tests.soak.test_definition_before import BEFORE

_WORKING = "working_days: [mon, tue, wed, thu, fri], working_from: '09:00', working_until: '17:00'"
_SILENCE_ACTS = next(one for one in SCENARIOS if one.name == "silence acts")
FRIDAY_NIGHT = datetime.fromisoformat("2026-11-20T22:00Z")
MON = datetime.fromisoformat("2026-11-23T09:00Z")
QUARTER = timedelta(minutes=15)


@pytest.fixture(autouse=True)
def _simulated() -> Iterator[None]:
    with simulated():
        yield


def _policy() -> str:
    """Silence acts, everybody works in an office, and the planned escalation is after a weekend."""
    text = _SILENCE_ACTS.policy.replace("escalate_after_minutes: 30", "escalate_after_minutes: 300")
    text = text.replace("\n  wait_at_most_hours: 1", "")
    text = text.replace("dora@example.com]}", f"dora@example.com], {_WORKING}}}")
    return text.replace("carol@example.com]}", f"carol@example.com], {_WORKING}}}")


@contextmanager
def _frozen_before_it_asks(cloud: Cloud) -> Iterator[None]:
    """A freeze begins while the first question waits to be asked, and ends on Friday night."""
    enter = Execution.enter
    froze: list[str] = []

    def entered(self: Execution, state: str, data: dict[str, Any]) -> None:
        enter(self, state, data)
        if state == "WaitForWorkingHours" and not froze:
            froze.append(state)
            freeze(cloud)
            cloud.later((FRIDAY_NIGHT - cloud.moment).total_seconds(), partial(lift, cloud))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Execution, "enter", entered)
        yield


def _played(hours: float) -> tuple[Scenario, Cloud]:
    scenario = replace(
        _SILENCE_ACTS,
        policy=_policy(),
        hours=hours,
        at_least_hours=(MON - START).total_seconds() / HOURS,
        sweeps_every=HOURS,
    )
    cloud = scenario.begin()
    cloud.expects = None
    with _frozen_before_it_asks(cloud):
        scenario.finish(cloud)
    return scenario, cloud


def _came(cloud: Cloud, kind: str) -> datetime:
    """Return when the first message of this kind came."""
    return min(mail.at for mail in cloud.mails if mail.kind == kind)


def test_a_late_question_is_asked_reminded_escalated_and_ended_in_working_hours() -> None:
    scenario, cloud = _played(hours=90.0)

    assert [] == scenario.complaints(cloud)
    asked = _came(cloud, "approval-requested")
    assert MON <= asked <= MON + timedelta(minutes=2)
    reminded = _came(cloud, "approval-reminder")
    escalated = _came(cloud, "approval-escalation")
    assert abs(reminded - asked - timedelta(minutes=30)) < timedelta(minutes=5)
    assert abs(escalated - reminded - timedelta(hours=5)) < timedelta(minutes=5)
    assert "stopped" == cloud.ec2.instances[ID].state
    [stop] = [sent for sent in cloud.sent if sent.what == "stop"]
    assert escalated + timedelta(minutes=30) <= stop.at < escalated + timedelta(hours=1)


@pytest.mark.parametrize("is_old", ["definition", "function"])
def test_an_update_that_is_half_done_keeps_the_planned_distances(
    is_old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The escalation is as far from the reminder as on Friday, in the night to Thursday. Silence
    counts when people work again, with the tolerance of `RETRIES_OF_A_STAGE`."""
    if is_old == "definition":
        check(BEFORE)
        monkeypatch.setattr(simulation, "definition", lambda: BEFORE)
    else:
        monkeypatch.setattr(AskPayload, "takes_new_times", False)
        monkeypatch.setattr(AskPayload, "takes_waits", False)
    scenario, cloud = _played(hours=180.0)

    assert [] == scenario.complaints(cloud)
    reminded = _came(cloud, "approval-reminder")
    escalated = _came(cloud, "approval-escalation")
    assert escalated - reminded > timedelta(hours=60)
    [stop] = [sent for sent in cloud.sent if sent.what == "stop"]
    thursday = MON + timedelta(days=3)
    assert thursday - QUARTER <= stop.at < thursday + timedelta(hours=8)


def test_an_execution_of_the_definition_before_keeps_its_new_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes new times, and no wait: it tries again every twenty minutes."""
    before = copy.deepcopy(simulation.definition())
    states = before["States"]
    states["AskOwner"]["Parameters"]["Payload"]["reason"] = "takes new times"
    del states["WaitToAskAgain"]
    del states["Settled?"]["Choices"][1]
    check(before)
    monkeypatch.setattr(simulation, "definition", lambda: before)
    scenario, cloud = _played(hours=90.0)

    assert [] == scenario.complaints(cloud)
    asked = _came(cloud, "approval-requested")
    assert MON <= asked <= MON + timedelta(minutes=22)
    reminded = _came(cloud, "approval-reminder")
    escalated = _came(cloud, "approval-escalation")
    assert abs(reminded - asked - timedelta(minutes=30)) < timedelta(minutes=5)
    assert abs(escalated - reminded - timedelta(hours=5)) < timedelta(minutes=5)
    [stop] = [sent for sent in cloud.sent if sent.what == "stop"]
    assert escalated + timedelta(minutes=30) <= stop.at < escalated + timedelta(hours=1)
