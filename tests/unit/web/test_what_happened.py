"""A record lists what happened, and says no more: no future steps, no doubt about an answer."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from markupsafe import escape

from governor.approvals.messages.questions import stage_alert
from governor.approvals.messages.sentences import cost_lines, price_text
from governor.approvals.model.approval import Stage
from governor.approvals.rules.approval import first_approval
from governor.core.units import iso
from governor.episode.model.episode import Outcome
from governor.episode.model.plan import Price, Saving
from governor.policy.model.acting import Action
from governor.policy.model.policy import Mode
from governor.web.api import question_document
from tests.builders import NOW
from tests.unit.web.test_records import kept
from tests.unit.web.test_site import ALICE, ID, XSS, World


def happened(body: str) -> list[str]:
    """Return the entries of the list of what happened."""
    listed = body.split('class="steps"')[1].split("</ol>")[0]
    return [re.sub(r"<[^>]+>", "", entry) for entry in re.findall(r"<li[^>]*>(.*?)</li>", listed)]


def next_steps(body: str) -> list[str]:
    """Return the beginnings of the steps that come next; empty if the page lists none."""
    if 'id="next"' not in body:
        return []
    listed = body.split('id="next"')[1].split("</ol>")[0]
    return [" ".join(text.split()[:3]) for text in re.findall(r"<li>(.*?)</li>", listed)]


def unasked(mode: Mode) -> World:
    """Return an episode of a mode that asks nobody."""
    world = World()
    world.change(mode=mode)
    world.state.put(first_approval(world.episode))
    return world


@pytest.mark.parametrize("is_over", [False, True])
@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.AUTO])
def test_a_mode_that_asks_nobody_lists_no_future_step(mode: Mode, is_over: bool) -> None:
    """Only what was done: a rehearsal listed the stop as something that happens next."""
    world = unasked(mode)
    if is_over:
        world.state.close_episode(world.ref, Outcome.HELD, "held", NOW, quiet_until=None)

    assert [] == [
        one for one in happened(world.get().body) if "not yet" in one or "not done" in one
    ]


def test_a_question_that_nobody_approved_lists_no_future_step() -> None:
    """Nor one that was canceled: its plan is folded below."""
    world = World()
    world.state.void(ID, "it works again", expired=False, outcome="woke-up")

    assert [] == [
        one for one in happened(world.get().body) if "not yet" in one or "not done" in one
    ]


def test_the_steps_of_an_approved_plan_come_next_and_then_have_happened() -> None:
    """They stood under what happened: "Stop the instance: not yet"."""
    world = World()
    assert 303 == world.post("approve").status
    approved = world.get().body
    world.state.note_step(world.ref, "stop", NOW)
    stopping = world.get().body

    assert ["Stop the instance", "Take snapshots of"] == next_steps(approved)
    assert ["Take snapshots of"] == next_steps(stopping)
    assert not [entry for entry in happened(approved) if "Stop the instance" in entry]
    assert "Stop the instance: requested Fri 12:02 UTC" in happened(stopping)


@pytest.mark.parametrize(("mode", "is_stopped"), [(Mode.AUTO, True), (Mode.OBSERVE, False)])
def test_a_mode_that_asks_nobody_says_what_comes_next(mode: Mode, is_stopped: bool) -> None:
    """In mode auto, no line said that the instance is about to be stopped. A rehearsal has no such
    step, and neither has an episode that was canceled."""
    world = unasked(mode)
    body = world.get().body
    world.state.void(ID, "it works again", expired=False, outcome="woke-up")

    assert (["Stop the instance", "Take snapshots of"] if is_stopped else []) == next_steps(body)
    assert [] == next_steps(world.get().body)


def test_a_stop_in_mode_auto_leads_its_record_once_it_was_requested() -> None:
    """The headline stayed "has been idle for 1 h", above "Nobody is asked about this."."""
    world = unasked(Mode.AUTO)
    assert "has been idle for 1 h</h1>" in world.get().body
    assert "Nobody is asked about this." in world.get().body
    world.state.note_step(world.ref, "stop", NOW)
    body = world.get().body

    assert f"<h1>Stopping {escape(XSS)}: mode auto</h1>" in body
    assert "Mode auto: the policy says to act without asking." in body
    assert "Nobody is asked about this." not in body


@pytest.mark.parametrize(
    ("answer", "form", "said"),
    [
        ("keep", {"keep_until": iso(NOW + timedelta(hours=4))}, ", until Fri 16:02 UTC."),
        ("exempt", {"reason": "license server"}, ": license server."),
        ("hold", {}, "."),
    ],
)
def test_an_answer_after_an_approval_has_its_time_and_its_person(
    answer: str, form: dict[str, Any], said: str
) -> None:
    """It said "Kept by alice@example.com." without a time, then "Held on ..." of nobody."""
    world = World()
    assert 303 == world.post("approve").status
    world.clock.moment = NOW + timedelta(minutes=3)
    assert 303 == world.post(answer, **form).status
    done = {"keep": "Kept", "exempt": "Exempted", "hold": "Held"}[answer]
    entry = f"{done} by alice@example.com (mail link), Fri 12:05 UTC{said}"

    assert f"{entry} Nothing more is done; this record is closed within minutes." in happened(
        world.get().body
    )
    closed_at = NOW + timedelta(minutes=5)
    world.state.close_episode(world.ref, Outcome.HELD, "held", closed_at, quiet_until=None)
    entries = happened(world.get().body)

    assert f"{entry} Nothing more was done." in entries
    assert entries[-1].startswith("Record closed Fri 12:07 UTC")


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_plan_that_was_approved_and_then_held_has_no_step_that_did_not_happen(
    is_closed: bool,
) -> None:
    """It listed "Stop the instance: not done" under what happened."""
    world = World()
    assert 303 == world.post("approve").status
    assert 303 == world.post("hold").status
    if is_closed:
        world.state.close_episode(world.ref, Outcome.HELD, "held", NOW, quiet_until=None)
    body = world.get().body

    assert [] == next_steps(body)
    assert not [entry for entry in happened(body) if "Stop the instance" in entry]


def test_a_stop_that_was_undone_is_not_said_to_last() -> None:
    """It said "Stopped on ...: The instance is stopped." of an instance that runs."""
    world = World()
    assert 303 == world.post("approve").status
    world.state.note_step(world.ref, "stop", NOW)
    reason = "the instance is stopped"
    world.state.close_episode(
        world.ref, Outcome.STOPPED, reason, NOW, quiet_until=None, became=Outcome.STOPPED
    )
    assert "The instance is stopped." in world.get().body
    world.state.note_undo(world.ref, ALICE, NOW)
    body = world.get().body

    assert "Stopped Fri 12:02 UTC" in happened(body)
    assert "The instance is stopped" not in body
    assert "and alice@example.com started it again." in body
    assert "it was started again" not in body
    assert "Nothing was deleted." in body


@pytest.mark.parametrize("answer", ["keep", "exempt"])
def test_an_answer_that_keeps_the_instance_changed_something(answer: str) -> None:
    """Nothing was changed, said the page below the new date."""
    world = kept()
    if answer == "exempt":
        world = World()
        assert 303 == world.post("exempt", reason="license server").status
        world.state.close_episode(world.ref, Outcome.EXEMPTED, "as asked", NOW, quiet_until=None)

    assert "Nothing was changed" not in world.get().body


def test_a_spot_price_has_its_time_in_the_zone_of_the_people() -> None:
    """The command line, the page and the messages said "at 2026-11-20T11:49:52Z"."""
    world = World(zone="Europe/Berlin")
    source = "Spot price in us-east-1a at 2026-11-20T11:49:52Z"
    world.change(price=Price(Decimal("1.006"), source))
    said = "Spot price in us-east-1a at Fri 12:49 Berlin (11:49 UTC)"

    assert said in question_document(world.site.show(ID))["cost"][0]
    assert said in world.get().body
    until = NOW + timedelta(hours=24)
    lines = stage_alert(world.episode, Stage.ASK, NOW, None, until).lines
    assert any(said in line for line in lines)
    assert not any("T11:49:52Z" in line for line in lines)


def test_prepaid_capacity_says_so() -> None:
    """It said that it costs $0.00 a day, as if it were free."""
    world = World()
    world.change(price=Price(Decimal(0), "its capacity is paid for, used or not"))
    view = world.site.show(ID)
    body = world.get().body

    assert "prepaid" == price_text(view.episode)
    assert "It is prepaid" in cost_lines(view.episode, view.now)[0]
    assert "It is prepaid" in question_document(view)["cost"][0]
    assert "$0.00" not in body
    assert "<dd>prepaid</dd>" in body


@pytest.mark.parametrize(("saved", "is_named"), [("0.214", True), ("0.2101", False)])
def test_a_saving_above_the_price_says_that_storage_is_in_it(saved: str, is_named: bool) -> None:
    """A termination deletes volumes, too. Amounts that look alike need no reason."""
    world = World(Action.TERMINATE)
    saving = Saving(Decimal(saved), Decimal(0))
    world.change(
        plan=replace(world.episode.plan, saving=saving), price=Price(Decimal("0.21"), "list")
    )
    label = re.findall(r"<dt>(a day saved[^<]*)</dt>", world.get().body)

    assert [f"a day saved if terminated{', with its storage' if is_named else ''}"] == label
