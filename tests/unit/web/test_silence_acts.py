"""Between the deadline and the stop that follows from silence, each place says that it follows, and
that it can be held."""

from __future__ import annotations

from datetime import timedelta

import pytest
from markupsafe import escape

from governor.approvals.messages.consequence import consequence_of_question
from governor.approvals.rules.approval import first_approval
from governor.episode.model.episode import Outcome
from governor.policy.model.policy import Mode
from governor.web.answers import brief
from governor.web.api import question_document
from governor.web.pages import Form, Visitor, digest_page
from tests.builders import NOW
from tests.unit.web.test_site import ALICE, ID, TOKEN, XSS, World
from tests.unit.web.test_what_happened import happened

SOON = (
    "Nobody answered in time. GPU Governor stops it within minutes. You can still hold it. If a "
    "GPU is busy again, nothing happens."
)
END = NOW + timedelta(hours=1)
AT_THE_DEADLINE = "Nobody answered by Fri 13:02 UTC"


def over(*, is_noted: bool, people: int = 1, acts: bool = True) -> World:
    """A question whose time to answer is over; the workflow has noted that, or not yet."""
    world = World(acts=acts, people=people)
    if people > 1:
        assert 303 == world.post("approve").status
    world.state.await_answer(ID, TOKEN, "escalate", END)
    world.clock.moment = END + timedelta(minutes=1)
    if is_noted:
        world.state.void(ID, "nobody answered in time", expired=True)
    return world


def ahead(body: str) -> str:
    """Return the steps that come next, by the page."""
    return body.split('id="next">What comes next</h2>')[1].split("</ol>")[0]


@pytest.mark.parametrize("is_noted", [False, True])
def test_the_page_says_that_the_stop_follows(is_noted: bool) -> None:
    """It said "Expired", and listed the stop under what happened: "not yet"."""
    world = over(is_noted=is_noted)
    body = world.get().body

    assert "will be stopped within minutes: nobody answered</h1>" in body
    assert f"<strong>{SOON}</strong>" in body
    assert "Hold it</button>" in body
    assert "Stop the instance" in ahead(body)
    assert AT_THE_DEADLINE in happened(body)
    for wrong in ("Expired:", "not yet", "Nothing was changed", "Nobody has been asked yet"):
        assert wrong not in body, wrong


def test_the_api_and_a_list_say_the_same() -> None:
    """In the words of the page."""
    world = over(is_noted=True)
    view = world.site.show(ID)

    assert SOON == question_document(view)["silence"]
    assert brief(view)["acts_soon"]
    page = digest_page([view, view], ["a", "b"], Form(Visitor("", ALICE, ALICE), "csrf", "/q/1"))
    assert SOON in page
    assert 2 == page.count("Nobody answered in time.")


def test_the_heading_of_a_list_excepts_a_question_outside_of_it() -> None:
    """It said "If nobody answers, nothing happens." beside "GPU Governor stops it within
    minutes"."""
    soon = over(is_noted=False).site.show(ID)
    still_open = World().site.show(ID)
    form = Form(Visitor("", ALICE, ALICE), "csrf", "/q/1")

    page = digest_page([still_open, soon], ["a", "b"], form)
    assert "If nobody answers, nothing happens, except where the row says so.</p>" in page
    page = digest_page([still_open, still_open], ["a", "b"], form)
    assert "If nobody answers, nothing happens.</p>" in page


def test_without_a_second_approval_it_says_so() -> None:
    """Somebody did answer."""
    body = over(is_noted=True, people=2).get().body

    assert "will be stopped within minutes: no second person approved</h1>" in body
    assert "<strong>No second person approved in time." in body
    assert "No second person approved by Fri 13:02 UTC" in happened(body)


def test_a_step_that_waits_promises_no_minutes() -> None:
    """A freeze or a cap holds it back, as people were told."""
    world = over(is_noted=True)
    world.state.note_waits_told(ID, world.clock.moment)
    body = world.get().body

    assert "will be stopped: nobody answered</h1>" in body
    assert "GPU Governor has to wait, and stops it as soon as it can." in body


@pytest.mark.parametrize("how", ["held", "requested", "no silence"])
def test_nothing_is_announced_that_does_not_follow(how: str) -> None:
    """Somebody holds it, EC2 was asked, or silence does nothing."""
    world = over(is_noted=True, acts=how != "no silence")
    if how == "held":
        assert 303 == world.post("hold").status
    if how == "requested":
        world.state.note_step(world.ref, "stop", world.clock.moment)
    view = world.site.show(ID)

    assert "within minutes: nobody answered" not in world.get().body
    assert not brief(view)["acts_soon"]
    assert question_document(view)["silence"] is None


@pytest.mark.parametrize("is_noted", [False, True])
@pytest.mark.parametrize(
    ("people", "headline", "said"),
    [
        (1, "No answer about ", "Nobody answered in time."),
        (2, "No second person approved in time, so ", "No second person approved in time."),
    ],
)
def test_a_question_that_has_just_expired_says_so(
    people: int, headline: str, said: str, *, is_noted: bool
) -> None:
    """It said "Nobody has been asked yet, or the time to decide is over", under a headline that
    spoke only of the idle time."""
    body = over(is_noted=is_noted, people=people, acts=False).get().body

    assert body.partition("<h1>")[2].startswith(headline)
    assert "nothing happens" in body.partition("<h1>")[2].partition("</h1>")[0]
    if not is_noted:
        assert f"{said} This record is closed within minutes." in body
    assert "Nobody has been asked yet" not in body
    assert "was found idle" not in body.partition("</h1>")[0]


@pytest.mark.parametrize(
    ("people", "silent"), [(1, "nobody answered"), (2, "no second person approved")]
)
def test_a_stop_by_silence_leads_its_record_once_it_was_requested(people: int, silent: str) -> None:
    """Its headline fell back to the idle time."""
    world = over(is_noted=True, people=people)
    world.state.note_step(world.ref, "stop", world.clock.moment)

    assert f"<h1>Stopping {escape(XSS)}: {silent}</h1>" in world.get().body


def test_a_question_that_was_not_asked_yet_says_only_that() -> None:
    """It may be late, or wait for working hours."""
    world = World()
    world.state.put(first_approval(world.episode))
    body = world.get().body

    assert "Nobody has been asked yet.</p>" in body
    assert "in time" not in body.partition('class="steps"')[0]


def test_the_record_keeps_the_deadline() -> None:
    """It listed the stop, and nothing that led to it."""
    world = over(is_noted=True)
    world.end(Outcome.STOPPED)

    assert AT_THE_DEADLINE in happened(world.get().body)


def test_a_question_that_silence_ends_says_so_once() -> None:
    """The outcome is that nobody answered."""
    world = over(is_noted=True, acts=False)
    world.state.close_episode(
        world.ref, Outcome.EXPIRED, "nobody answered in time", END, quiet_until=None
    )

    assert AT_THE_DEADLINE not in happened(world.get().body)


def test_mode_auto_has_words_of_its_own() -> None:
    """Nobody is asked there."""
    world = over(is_noted=True)
    world.change(mode=Mode.AUTO)
    view = world.site.show(ID)

    words = consequence_of_question(view.episode, view.approval, view.now)
    assert "nobody answered" not in words.subject
