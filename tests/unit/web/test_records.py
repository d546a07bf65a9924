"""Records: the outcome as headline, what it means, what happened step by step, and what can still
be done."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from governor.approvals.rules.terms import BROADCAST
from governor.core.units import iso
from governor.episode.model.episode import EpisodeEnding, Outcome, Phase, Undo
from governor.episode.model.start_try import StartStatus, StartTry
from governor.episode.rules.audit import Change
from governor.policy.model.acting import ApprovalRule, PlanRule
from governor.policy.model.contacts import Ownership
from governor.policy.model.policy import Policy
from governor.policy.rules.changes import asked_under
from governor.table import keys
from governor.verdict.model import Hold
from tests.builders import NOW
from tests.episodes import changed
from tests.unit.web.test_site import ALICE, ID, World

BOB = "bob@example.com"
SOON = (NOW + timedelta(hours=4)).replace(second=0)
END, BUTTON = "end-keep", "End this keep"


def kept(by: str = ALICE) -> World:
    """A question that somebody answered with a keep of four hours, and whose workflow has ended."""
    world = World(link_of=by)
    world.post("keep", keep_until=iso(SOON))
    world.state.close_episode(world.ref, Outcome.KEPT, "as asked", NOW, quiet_until=None)
    return world


def visit(world: World, person: str) -> World:
    """Goes on with another person's link."""
    world.link_of = person
    world.open_link()
    return world


def until(world: World) -> Any:
    """Until when the instance is kept."""
    return world.state.record(world.ref.target, world.ref.instance_id).hold.snoozed_until


def test_a_record_leads_with_what_became_of_the_instance() -> None:
    """Not with what it costs; then what that means, and each step in its order."""
    world = kept()
    page = world.get().body

    assert "is left alone until Fri 16:02 UTC</h1>" in page
    assert "Nothing was changed" not in page
    steps = re.findall(r"<li[^>]*>(.*?)</li>", page.split('class="steps"')[1].split("</ol>")[0])
    assert ["Found idle", "Kept by", "Kept"] == [
        " ".join(step.split()[:n]) for n, step in zip((2, 2, 1), steps, strict=True)
    ]
    assert "Fri 12:02 UTC" in steps[0]
    assert "What would have been lost</h2>" in page
    world.clock.moment = SOON
    assert "was kept until Fri 16:02 UTC</h1>" in world.get().body


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("keep", "is left alone until Fri 16:02 UTC</h1>"),
        ("exempt", "is exempt and keeps running</h1>"),
    ],
)
def test_an_answer_leads_the_page_before_the_workflow_has_closed_the_episode(
    answer: str, says: str
) -> None:
    """The page that follows the button says what came of it, not that the instance is idle."""
    world = World()
    world.post(answer, keep_until=iso(SOON), reason="a demo")

    assert says in world.get().body
    assert "The cause is not known" not in world.get().body


def test_a_record_of_a_stop_says_each_thing_once_and_in_the_past() -> None:
    """Its steps are sentences, its times are those of the headline, and what is lost is lost."""
    world = World()
    world.post("approve")
    world.end(Outcome.STOPPED)
    page = world.get().body

    assert 1 == page.count("As approved.")
    assert "Stop the instance: requested Fri 12:02 UTC" in page
    assert "Stopped Fri 12:02 UTC</li>" in page
    assert "What was lost</h2>" in page
    assert "2026-11" not in page


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (Outcome.STOPPED, "is stopped, which saves $24/day</h1>"),
        (Outcome.EXPIRED, "No answer about"),
        (Outcome.WOKE_UP, "is busy again</h1>"),
        (Outcome.INTERRUPTED, "Next step: if the instance still runs, save your work."),
        (Outcome.FAILED, "Could not"),
    ],
)
def test_every_end_says_what_became_of_it_in_the_words_of_its_message(
    outcome: Outcome, says: str
) -> None:
    """Also where nothing can be done here any more."""
    world = World()
    world.state.void(ID, "it is over", expired=False)
    world.end(outcome)

    assert says in world.get().body


@pytest.mark.parametrize("answer", ["keep", "exempt", "hold"])
def test_a_page_after_an_answer_that_leaves_it_alone_speaks_of_no_loss_ahead(answer: str) -> None:
    """Also while the workflow has not closed the record yet: nothing is checked or lost any
    more."""
    world = World()
    assert "What is lost</h2>" in world.get().body
    if answer == "hold":
        world.post("approve")
    world.post(answer, keep_until=iso(SOON), reason="a demo")
    page = world.get().body

    assert "What would have been lost</h2>" in page
    assert "What would have been kept</h2>" in page
    assert "The record is being closed: <a" in page
    assert "It may not see work that began" not in page


def test_a_hold_after_the_stop_does_not_take_back_what_the_stop_loses() -> None:
    """Seen: a plan that stops and terminates was held before the termination, and the page said
    that the local disks would have been lost."""
    world = World()
    world.post("approve")
    world.change(phase=Phase.ACTING, steps_done={"stop": NOW})
    world.post("hold", keep_until=iso(SOON), reason="a demo")

    assert "What is lost</h2>" in world.get().body
    world.change(phase=Phase.CLOSED, ending=EpisodeEnding(Outcome.HELD, "held", NOW))
    assert "What was lost</h2>" in world.get().body


def test_a_chart_says_which_time_it_shows_and_of_how_many_gpus() -> None:
    """An instance with one GPU has no busiest one."""
    page = World().get().body

    assert "GPU utilization, % · 1 h until Fri 12:00 UTC</figcaption>" in page
    assert "judged, UTC" not in page


def test_a_record_of_a_failure_does_not_lead_to_itself() -> None:
    """Its message does: the result of each step is on this page."""
    world = World()
    world.post("approve")
    world.end(Outcome.FAILED)
    page = world.get().body

    assert "Could not" in page
    assert "in its record" not in page


def test_whoever_keeps_it_may_end_that_before_its_date() -> None:
    """Once; the record and the audit say who, and the instance is judged again."""
    world = kept()
    before = dict(world.state._table.get(keys.approval(ID)) or {})
    assert BUTTON in world.get().body

    assert 303 == world.post(END).status

    assert until(world) is None
    page = world.get().body
    assert (BUTTON in page, "the keep was ended</h1>" in page) == (False, True)
    assert f"Keep ended by {ALICE} (mail link), Fri" in page
    said = (
        "The next sweep checks it again. If it is idle, GPU Governor asks its owner.",
        "It is asked about again after",
    )
    assert [True, False] == [text in page for text in said]
    after = dict(world.state._table.get(keys.approval(ID)) or {})
    told = Change(*keys.approval(ID), "MODIFY", NOW, "1", before, after).document()
    assert ("keep ended", f"link:{ALICE}") == (told["what"], told["who"])
    assert 409 == world.post(END).status


def test_an_approver_may_end_anybodys_keep() -> None:
    """Whom today's policy still names; nobody else's word is enough."""
    world = visit(kept(), BOB)
    assert BUTTON in world.get().body
    world.policies.policy = replace(world.policies.policy, ownership=Ownership())
    assert (403, SOON) == (world.post(END).status, until(world))

    world = visit(kept(BROADCAST), BOB)
    assert (303, None) == (world.post(END).status, until(world))


@pytest.mark.parametrize("by", [ALICE, BROADCAST])
def test_a_link_of_a_list_ends_nobodys_keep(by: str) -> None:
    """Not even one that such a link gave: it does not prove whose it was."""
    world = visit(kept(by), BROADCAST)
    assert BUTTON not in world.get().body

    assert (403, SOON) == (world.post(END).status, until(world))


def test_a_longer_keep_stays() -> None:
    """Somebody else gave it meanwhile: it is not shortened by the end of this one."""
    world, longer = kept(), SOON + timedelta(days=9)
    world.state.store_hold(world.ref.target, world.ref.instance_id, Hold(snoozed_until=longer))

    refused = world.post(END)

    assert (409, longer) == (refused.status, until(world))
    assert "kept it again" in refused.body


def test_a_keep_that_is_over_has_nothing_to_end() -> None:
    """Its record shows no button, and a press from an old page is refused."""
    world = kept()
    world.clock.moment = SOON

    assert BUTTON not in world.get().body
    assert (409, SOON) == (world.post(END).status, until(world))
    assert 403 == kept().post(END, csrf="k1.nonsense").status


_DATED = replace(
    Policy(),
    approval=ApprovalRule(
        ask_again_after_hours=24, keep_after_undo_hours=12, ask_about_stopped_after_days=14
    ),
    plan=PlanRule(snapshot_retention_days=30),
)
_SNAPSHOT = {"snapshots": {"snap-1": "vol-1"}}

_STARTED = StartTry(NOW, ALICE, "page", NOW, "", status=StartStatus.RUNNING)


@pytest.mark.parametrize(
    ("outcome", "changes", "expected"),
    [
        (
            Outcome.STOPPED,
            {"became": Outcome.STOPPED, "steps_done": {"stop": NOW}},
            "after Fri Dec 4, 12:02 UTC, GPU Governor asks whether to terminate it.",
        ),
        (
            Outcome.TERMINATED,
            {"steps_done": {"snapshot": NOW}, **_SNAPSHOT},
            "GPU Governor keeps its snapshots at least until Sun Dec 20, 12:02 UTC.",
        ),
        (Outcome.TERMINATED, {}, "Nothing more happens."),
        (
            Outcome.STOPPED,
            # A press an hour ago, by a policy that has changed since.
            {"undo": Undo(ALICE, NOW), "start_try": replace(_STARTED, kept_until=SOON)},
            "GPU Governor asks nobody about it before Fri 16:02 UTC.",
        ),
        (
            Outcome.STOPPED,
            {"undo": Undo(ALICE, NOW), "start_try": _STARTED},
            "Each sweep checks it like any other instance.",
        ),
        (Outcome.EXEMPTED, {}, "GPU Governor leaves it alone until somebody ends the exemption."),
        (Outcome.WOKE_UP, {}, "If it is idle again, GPU Governor asks again."),
        (Outcome.VOID, {}, "If it is idle again, GPU Governor asks again."),
    ],
)
def test_a_closed_record_has_the_date_of_what_comes_next(
    outcome: Outcome, changes: dict[str, Any], expected: str
) -> None:
    """By the policy that the question was asked under."""
    world = World()
    world.post("approve")
    ending = EpisodeEnding(outcome, "as approved", NOW, changes.pop("became", None))
    asking = replace(world.episode.asking, asked_under=asked_under(_DATED))
    world.state.put(
        changed(replace(world.episode, asking=asking, phase=Phase.CLOSED, ending=ending), **changes)
    )

    assert expected in world.get().body


@pytest.mark.parametrize("outcome", [Outcome.EXPIRED, Outcome.REFUSED, Outcome.FAILED])
def test_a_record_says_from_when_people_are_asked_again_as_stored(outcome: Outcome) -> None:
    """The same time as in the message of the end, whatever the policy said when it was opened."""
    world = World()
    asking = replace(world.episode.asking, asked_under=asked_under(_DATED))
    world.state.put(replace(world.episode, asking=asking))
    world.state.void(ID, "it is over", expired=False)
    world.state.close_episode(world.ref, outcome, "it ended", NOW, quiet_until=SOON)

    again = "If the instance stays idle and is neither kept nor exempt, GPU Governor asks again"
    assert f"{again} after Fri 16:02 UTC." in world.get().body
    world.clock.moment = SOON
    assert f"{again} later." in world.get().body


def test_a_record_names_no_date_that_it_does_not_know() -> None:
    """An episode of an earlier release has no policy stored; a date that is over is no next one."""
    world = World()
    world.post("approve")
    ending = EpisodeEnding(Outcome.STOPPED, "as approved", NOW, Outcome.STOPPED)
    asking = replace(world.episode.asking, asked_under=None)
    world.state.put(replace(world.episode, asking=asking, phase=Phase.CLOSED, ending=ending))

    assert "It stays stopped until somebody starts it." in world.get().body
