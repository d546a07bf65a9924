"""A question's page, the API and the command line say the consequence in the words of the mail."""

from __future__ import annotations

import pytest

from governor.approvals.messages.consequence import consequence
from governor.approvals.messages.questions import stage_alert
from governor.approvals.model.approval import Stage
from governor.web.api import question_document
from governor.web.pages import Form, Visitor, digest_page
from tests.builders import NOW
from tests.unit.web.test_site import ALICE, ID, LATER, World


@pytest.mark.parametrize("people", [1, 2])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("acts", [False, True])
def test_page_api_and_mail_say_the_same(acts: bool, zone: str, people: int) -> None:
    """The verb, the time with its zone, and what silence does."""
    world = World(acts=acts, zone=zone, people=people)
    view = world.site.show(ID)
    mail = stage_alert(view.episode, Stage.ASK, NOW, None, LATER)
    said = consequence(view.episode, LATER, NOW)

    assert said.sentence == mail.lines[0]
    assert mail.subject.startswith(said.subject)
    assert f"<strong>{said.sentence}</strong>" in world.get().body
    assert said.sentence == question_document(view)["silence"]
    assert ("GPU Governor stops it" if acts else "nothing happens") in said.sentence


def test_half_an_approval_changes_the_consequence_everywhere() -> None:
    """The page still said that nobody had answered."""
    world = World(people=2, acts=True)
    assert 303 == world.post("approve").status
    view = world.site.show(ID)
    said = consequence(view.episode, LATER, NOW, is_half_approved=True).sentence

    assert said.startswith("If no second person approves, GPU Governor stops it anyway")
    assert f"<strong>{said}</strong>" in world.get().body
    assert said == question_document(view)["silence"]


def test_a_question_that_is_over_has_no_consequence() -> None:
    """The document says null; the page shows what became of it."""
    world = World()
    assert 303 == world.post("approve").status

    assert question_document(world.site.show(ID))["silence"] is None
    assert "If nobody answers" not in world.get().body


def test_a_list_of_questions_says_the_same_where_silence_acts() -> None:
    """Its row said neither when nor in which zone."""
    world = World(acts=True, zone="Europe/Berlin")
    view = world.site.show(ID)
    form = Form(Visitor("", ALICE, ALICE), "csrf", "/q/1")
    page = digest_page([view, view], ["a", "b"], form)

    assert f'<span class="acts">{consequence(view.episode, LATER, NOW).sentence}</span>' in page
    assert "after Sat 13:02 Berlin" in page
