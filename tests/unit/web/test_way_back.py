"""The record says what became of a start, and offers the button when it can be pressed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from governor.episode.model.episode import Outcome, Undo
from governor.episode.model.start_try import StartStatus, StartTry
from tests.builders import NOW
from tests.unit.web.test_site import World

BUTTON = "Start it again…</summary>"
SCRIPT = "EVERY_MS"
TRY = StartTry(
    asked_at=NOW,
    asked_by="link:bob@example.com",
    channel="page",
    launched_before=NOW - timedelta(days=2),
    reason_before="",
    code="VcpuLimitExceeded",
    words='Your limit of 0 <b>"vCPU"</b> is reached',
)


def record(start_try: StartTry | None, undo: Undo | None = None) -> str:
    """The page of a stop that somebody tried to undo."""
    world = World()
    world.post("approve")
    world.end(Outcome.STOPPED)
    world.change(start_try=start_try, undo=undo)
    return world.get().body


@pytest.mark.parametrize(
    ("status", "text", "has_button", "follows"),
    [
        (StartStatus.ASKED, "EC2 has not clearly answered.", True, True),
        (StartStatus.ACCEPTED, "and EC2 accepted. This page will show when it runs", False, True),
        (StartStatus.REFUSED, "and EC2 refused.", True, False),
        (StartStatus.FELL_BACK, "the instance went back to stopped.", True, False),
        (StartStatus.NO_EFFECT, "the instance is still stopped.", True, False),
        (StartStatus.OVERTAKEN, "terminated it before it was seen running.", True, False),
    ],
)
def test_each_stage_of_a_start_is_said_and_the_page_follows_what_is_open(
    status: StartStatus, text: str, has_button: bool, follows: bool
) -> None:
    """By whom it was asked for, and never that it was started."""
    page = record(replace(TRY, status=status))

    assert text in page
    assert "bob@example.com" in page
    assert "Started again by" not in page
    assert (has_button, follows) == (BUTTON in page, SCRIPT in page)


@pytest.mark.parametrize("status", [StartStatus.REFUSED, StartStatus.FELL_BACK])
def test_ec2_s_reason_and_what_to_do_stand_on_the_record(status: StartStatus) -> None:
    """EC2's words are text, whatever they hold."""
    page = record(replace(TRY, status=status))

    assert "EC2&#39;s reason: VcpuLimitExceeded: Your limit of 0 &lt;b&gt;" in page
    assert "Ask for a higher quota in Service Quotas" in page


def test_a_fall_back_without_a_reason_says_so() -> None:
    page = record(replace(TRY, status=StartStatus.FELL_BACK, code="", words=""))
    assert "EC2 gives no reason." in page


def test_what_was_seen_running_is_said_alone() -> None:
    """The try is no longer of interest."""
    running = replace(TRY, status=StartStatus.RUNNING)
    page = record(running, Undo("link:bob@example.com", NOW + timedelta(minutes=1)))

    assert "Started again by bob@example.com" in page
    assert "VcpuLimitExceeded" not in page
    assert (False, False) == (BUTTON in page, SCRIPT in page)


def test_nobody_has_tried() -> None:
    page = record(None)
    assert (True, False) == (BUTTON in page, "EC2&#39;s reason" in page)


def test_a_record_that_starts_leads_with_that() -> None:
    """And not with what its stop saves."""
    page = record(replace(TRY, status=StartStatus.ACCEPTED))
    assert " is starting</h1>" in page
    assert "a day saved" not in page


@pytest.mark.parametrize("doubts", [(), ("The KMS key k of volume /dev/sda1 is disabled.",)])
def test_the_question_shows_doubts_about_the_next_start_unfolded(doubts: tuple[str, ...]) -> None:
    """Before the folded part; without doubts, the general words stay folded."""
    world = World()
    world.change(plan=replace(world.episode.plan, restart_doubts=doubts))
    shown, _, folded = world.get().body.partition('<h2 id="more">')

    assert bool(doubts) == ("Starting it again" in shown)
    assert bool(doubts) == ("Starting it again" not in folded)
    for doubt in doubts:
        assert f"<li>{doubt}</li>" in shown
