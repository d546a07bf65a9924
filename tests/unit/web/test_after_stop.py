"""The record of a stop says whether the instance was started again, by what is stored: the page,
the API and the command line say the same."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from governor.approvals.model.approval import ApprovalStatus
from governor.approvals.show_approval import ApprovalView
from governor.core.errors import Unavailable
from governor.core.units import iso
from governor.episode.model.episode import EpisodeEnding, Outcome, Phase
from governor.episode.model.start_try import StartStatus, StartTry
from governor.money.model.ledger import Ending, LedgerEntry
from governor.web.api import ApiRequest, question_document
from tests.builders import NOW
from tests.unit.aws.state_samples import entry
from tests.unit.web.test_api import ALICE, SHOW, api
from tests.unit.web.test_site import FIRST, ID, ONE, DigestWorld, World
from tests.unit.web.test_what_happened import happened

LATER = NOW + timedelta(hours=20)
STARTED = "was stopped Fri 12:02, started again Sat 08:02 UTC"
BUTTON = "Start it again"
TERMINATED_ELSEWHERE = (
    "It was terminated outside of GPU Governor before the stop was recorded, so no savings are "
    "recorded."
)


def stopped(zone: str = "UTC") -> World:
    """A stop that was approved, carried out and booked."""
    world = World(zone=zone)
    assert 303 == world.post("approve").status
    carry_out(world)
    return world


def carry_out(world: World) -> None:
    """The approved stop is carried out and booked."""
    world.state.note_step(world.ref, "stop", NOW)
    booked = replace(entry(), episode=world.ref, outcome=Outcome.STOPPED, booked_at=NOW)
    world.state.close_episode(
        world.ref,
        Outcome.STOPPED,
        "as approved",
        NOW,
        quiet_until=None,
        became=Outcome.STOPPED,
        ledger=booked,
    )
    world.clock.moment = NOW + timedelta(hours=21)


def booked(world: World) -> LedgerEntry:
    """The entry of the stop."""
    [found] = world.state.open_entries(world.ref.target, world.ref.instance_id)
    return found


def settle(world: World, why: Ending) -> None:
    """The stop has ended."""
    assert world.state.settle_entry(booked(world), LATER, why, LATER, by="i-other")


def heading(body: str) -> str:
    return body.split("<h1>")[1].split("</h1>")[0]


def record(world: World) -> ApprovalView:
    return world.site.show.record(ID)


def test_a_stop_that_lasts_is_a_stop() -> None:
    """It can be started again."""
    world = stopped()
    body = world.get().body

    assert "is stopped, which saves" in heading(body)
    assert BUTTON in body
    assert question_document(record(world))["after_stop"] is None


@pytest.mark.parametrize("why", [Ending.STARTED, Ending.UNDONE])
def test_a_start_outside_of_gpu_governor_is_on_the_record(why: Ending) -> None:
    """It said that the instance is stopped, and offered to start it."""
    world = stopped()
    settle(world, why)
    body = world.get().body

    assert heading(body).endswith(STARTED)
    assert "It was stopped Fri 12:02 UTC." in body
    assert "Each sweep checks it like any other instance." in body
    assert "Started again Sat 08:02 UTC" in happened(body)
    for wrong in (BUTTON, "This saves", "is stopped", "stays stopped", "a day saved"):
        assert wrong not in body, wrong
    assert f"It {STARTED}." == question_document(record(world))["after_stop"]


def test_a_termination_by_others_before_the_stop_was_recorded_saves_nothing() -> None:
    """Nothing is booked then. The record said that the instance is stopped, and what that saves."""
    world = World()
    assert 303 == world.post("approve").status
    world.state.note_step(world.ref, "stop", NOW)
    world.state.close_episode(
        world.ref, Outcome.STOPPED, "the instance is stopped", NOW, quiet_until=None
    )
    body = world.get().body

    assert heading(body).endswith("was stopped Fri 12:02 UTC, and terminated since")
    assert TERMINATED_ELSEWHERE in body
    for wrong in (BUTTON, "This saves", "is stopped", "stays stopped", "a day saved"):
        assert wrong not in body, wrong


def test_the_times_are_those_of_the_people_who_were_asked() -> None:
    """In one zone, which is named once."""
    world = stopped("Europe/Berlin")
    settle(world, Ending.STARTED)

    assert heading(world.get().body).endswith(
        "was stopped Fri 13:02, started again Sat 09:02 Berlin"
    )


def test_an_instance_that_is_gone_cannot_be_started() -> None:
    """Others terminated it."""
    world = stopped()
    settle(world, Ending.TERMINATED)
    body = world.get().body

    assert heading(body).endswith("was stopped Fri 12:02, terminated Sat 08:02 UTC")
    assert "Terminated Sat 08:02 UTC" in happened(body)
    assert BUTTON not in body
    assert "started again" not in body


def test_one_whose_place_was_taken_is_stopped_until_it_is_started_itself() -> None:
    """The ledger keeps it open; its own start has no time there."""
    world = stopped()
    settle(world, Ending.REPLACED)
    assert BUTTON in world.get().body

    world.state.settle_entry(booked(world), LATER, Ending.STARTED, LATER)

    assert heading(world.get().body).endswith("was stopped Fri 12:02 UTC, and started again since")
    assert BUTTON not in world.get().body


def test_a_start_that_fell_back_leaves_it_stopped_until_the_next_one() -> None:
    """The ledger goes on with the stop in an entry of its own."""
    world = stopped()
    settle(world, Ending.STARTED)
    fell_back = StartTry(
        asked_at=LATER - timedelta(seconds=20),
        asked_by="link:alice@example.com",
        channel="page",
        launched_before=world.ref.launch_time,
        reason_before="",
        status=StartStatus.FELL_BACK,
        ran_at=LATER,
        ended_at=LATER + timedelta(minutes=2),
    )
    world.change(start_try=fell_back)
    assert BUTTON in world.get().body

    again = replace(
        entry(),
        episode=world.ref,
        outcome=Outcome.STOPPED,
        booked_at=LATER + timedelta(minutes=2),
        first_booked_at=NOW,
    )
    assert world.state.book(again)
    assert BUTTON in world.get().body

    started_at = LATER + timedelta(minutes=30)
    world.state.settle_entry(booked(world), started_at, Ending.STARTED, started_at)
    assert heading(world.get().body).endswith("started again Sat 08:32 UTC")


def start(world: World) -> None:
    """Somebody pressed the button, and EC2 has accepted the start."""
    accepted = StartTry(
        asked_at=LATER,
        asked_by="link:alice@example.com",
        channel="page",
        launched_before=world.ref.launch_time,
        reason_before="",
        status=StartStatus.ACCEPTED,
    )
    world.change(start_try=accepted)


def row_of(world: World) -> str:
    """Its row on the page of the digest, as text."""
    row = world.get().body.split('<div class="row">')[1].split("</strong>: ")[1].split(" <a ")[0]
    return re.sub(r"\s+", " ", row.replace("\xa0", " ")).strip()


def test_the_row_of_a_digest_says_what_the_record_says() -> None:
    """It said "Stopped." for ever."""
    world = DigestWorld()
    assert 200 == world.post("approve", losses="accepted", **FIRST).status
    carry_out(world)
    approved = "Approved by alice@example.com (mail link)."
    assert f"{approved} Stopped." == row_of(world)

    start(world)
    assert f"{approved} It is starting." == row_of(world)

    world.change(start_try=None)
    settle(world, Ending.STARTED)
    assert f"{approved} It {STARTED}." == row_of(world)


def test_a_digest_answers_although_the_ledger_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The end of one stop would keep people from the questions about other instances."""
    world = DigestWorld()
    assert 200 == world.post("approve", losses="accepted", **FIRST).status
    carry_out(world)
    world.clock.moment = NOW

    def fail(*_: object, **__: object) -> None:
        raise Unavailable("the ledger is damaged")

    monkeypatch.setattr(type(world.state), "end_of_stop", fail)

    assert row_of(world).endswith("Stopped.")
    answered = world.post("keep", keep_until=iso(NOW + timedelta(hours=4)), **ONE)
    assert 200 == answered.status
    assert ApprovalStatus.KEPT is world.statuses()[1]


def test_the_row_of_a_failure_says_that_it_was_started_again() -> None:
    """Beside the failure."""
    world = DigestWorld()
    assert 200 == world.post("approve", losses="accepted", **FIRST).status
    carry_out(world)
    ending = EpisodeEnding(Outcome.FAILED, "Throttled: EC2", NOW, Outcome.STOPPED)
    world.change(phase=Phase.CLOSED, ending=ending)
    settle(world, Ending.STARTED)

    assert row_of(world).endswith(f"Failed. It {STARTED}.")


def test_while_it_is_starting_it_is_not_stopped() -> None:
    """The page still said "The instance is stopped", and what that saves."""
    world = stopped()
    start(world)
    body = world.get().body

    assert heading(body).endswith("is starting")
    assert "It was stopped Fri 12:02 UTC." in body
    for wrong in ("is stopped", "This saves", "a day saved", BUTTON):
        assert wrong not in body, wrong


def test_a_failure_after_a_stop_does_not_say_that_it_is_stopped() -> None:
    """It was, until somebody started it."""
    world = stopped()
    ending = EpisodeEnding(Outcome.FAILED, "Throttled: EC2", NOW, Outcome.STOPPED)
    world.change(phase=Phase.CLOSED, ending=ending)
    settle(world, Ending.STARTED)
    body = world.get().body

    assert heading(body).startswith("Could not")
    assert "it was started again" in body
    assert BUTTON not in body


def test_the_command_line_reads_it_through_the_api() -> None:
    """As `governor approvals show` does, with the permissions of `serve_api`."""
    world = stopped()
    settle(world, Ending.STARTED)
    answer = api(world).handle(ApiRequest(SHOW, ALICE, ID))

    assert (200, f"It {STARTED}.") == (answer.status, answer.document["after_stop"])
