"""A question that silence answers stays in the lists until its plan is carried out or held."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from governor.approvals.model.approval import Answer
from governor.console.views.fleet import fleet
from governor.console.views.overview import overview
from governor.episode.model.episode import Phase
from governor.fleet.model import FleetPage, FleetRow
from governor.table import keys
from governor.table.table import update
from tests.builders import NOW, TARGET, make_entry
from tests.console_world import ConsoleWorld, asked, html, make_episode, make_row
from tests.unit.console.asking import OTHER as OTHER_ID
from tests.unit.console.asking import Site, episode_of
from tests.unit.worlds.world import APPROVAL_ID

PASSED = NOW - timedelta(minutes=3)
ROW = replace(asked(make_row(1, name="notebook-1")), acts_on_silence=True, expires_at=PASSED)
OTHER = replace(asked(make_row(2, name="other")), expires_at=PASSED)
NEXT = "stopped within minutes: nobody answered"


def unanswered(**changes: Any) -> ConsoleWorld:
    """The time to answer was over three minutes ago, and the workflow has noted that."""
    world = ConsoleWorld()
    world.keep(ROW, OTHER)
    episode = make_episode(ROW, approval_id=str(ROW.approval_id), phase=Phase.ASKING, **changes)
    world.state.take_lock(episode.ref)
    world.state.save_opened(episode)
    world.state.await_answer(episode.approval_id, "token", "ask", PASSED)
    world.state.void(episode.approval_id, "nobody answered in time", expired=True)
    return world


def counted(world: ConsoleWorld) -> int:
    rate: Any = overview(world.asked()).document["questions"]
    return int(rate.instances)


def test_it_is_counted_and_says_what_follows() -> None:
    """It left the Overview at its deadline, and the Fleet said that the time to answer is over."""
    world = unanswered()
    page = html(overview, world)
    lines: Any = fleet(world.asked()).values["lines"]

    assert 1 == counted(world)
    assert '<td class="number">no answer</td>' in page
    assert "next expires in" not in page
    assert [NEXT] == [line.next for line in lines if line.row.name == "notebook-1"]
    assert ["time to answer is over"] == [line.next for line in lines if line.row.name == "other"]


def test_a_termination_takes_longer() -> None:
    """Its snapshots come first."""
    world = ConsoleWorld()
    world.keep(replace(ROW, verb="terminate"))
    lines: Any = fleet(world.asked()).values["lines"]

    assert ["terminated soon: nobody answered"] == [line.next for line in lines]


@pytest.mark.parametrize("how", ["held", "stopped"])
def test_it_leaves_the_list_once_it_is_held_or_stopped(how: str) -> None:
    """Before the next sweep."""
    world = unanswered()
    if how == "held":
        held = {"brake": {"answer": Answer.HOLD, "by": "link:a", "channel": "page", "at": NOW}}
        world.state._table.write(update(keys.approval(str(ROW.approval_id)), held))
    else:
        ref = make_episode(ROW).ref
        world.book(make_entry(1, episode=ref, booked_at=NOW, owner=ROW.owner, project=ROW.project))

    assert 0 == counted(world)


def unanswered_site() -> tuple[Site, FleetRow]:
    """Return the Questions page over a question that silence answers, with its row."""
    site = Site()
    world = site.world
    world.state._table.write(
        update(keys.episode(world.ref), {"acts_on_silence": True, "phase": Phase.ASKING})
    )
    world.state.await_answer(APPROVAL_ID, "token", "ask", PASSED)
    world.state.void(APPROVAL_ID, "nobody answered in time", expired=True)
    ref = episode_of(world).ref
    row = make_row(
        1,
        instance_id=ref.instance_id,
        launched_at=ref.launch_time,
        account=ref.account,
        region=ref.region,
        episode=ref.execution_name,
        approval_id=APPROVAL_ID,
        acts_on_silence=True,
        expires_at=PASSED,
    )
    return site, row


def sweep(site: Site, *rows: FleetRow) -> None:
    """The last sweep has seen these rows."""
    page = FleetPage(TARGET.account, TARGET.region, NOW, "ask", None, rows)
    site.world.state.keep_page(page)


def test_the_questions_page_lists_it_with_what_follows() -> None:
    """As the page of the question says it."""
    site, row = unanswered_site()
    sweep(site, row)
    body = site.ask("/questions", cookies=site.cookies())["body"]

    assert "1 open question" in body
    assert "Nobody answered in time</h2>" in body
    assert "For others to answer" not in body
    assert "time to answer is over" in body
    assert "GPU Governor stops it within minutes. You can still hold it." in body


def test_the_questions_page_excepts_it_from_the_silence_of_the_others() -> None:
    """The list above it was headed "If nobody answers, nothing happens."."""
    site, row = unanswered_site()
    sweep(site, row, site.row(2, OTHER_ID))
    body = site.ask("/questions", cookies=site.cookies())["body"]

    assert "2 open questions" in body
    assert "If nobody answers, nothing happens, except where the row says so." in body
    assert "If nobody answers, nothing happens." not in body
