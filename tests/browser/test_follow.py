"""A record that follows its steps keeps what its reader has opened and typed.

Its page is answered from memory: no stack is needed.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from governor.episode.model.episode import Outcome, Phase
from governor.policy.model.acting import Action
from tests.browser.conftest import NewVisitor
from tests.browser.visitor import Visitor
from tests.builders import NOW
from tests.unit.web.test_site import World

if TYPE_CHECKING:
    from playwright.sync_api import Route

ADDRESS = "https://record.example/approvals/a"


def acting(action: Action = Action.STOP, **steps: object) -> World:
    """An approved plan that is carried out."""
    world = World(action)
    world.post("approve", typed_instance_id=world.ref.instance_id)
    world.change(phase=Phase.ACTING, steps_done=steps)
    return world


def watch(visitor: Visitor, world: World) -> None:
    """Open the record in a window whose time the test sets."""

    def answer(route: Route) -> None:
        page = world.get()
        route.fulfill(status=page.status, headers=dict(page.headers), body=page.body)

    visitor.page.route("**/*", answer)
    visitor.page.clock.install()
    visitor.open(ADDRESS)


def follow(visitor: Visitor, times: int = 2) -> None:
    """Let the page look again, as it does every three seconds."""
    for _ in range(times):
        with visitor.page.expect_response(ADDRESS):
            visitor.page.clock.run_for(3_000)
    visitor.page.wait_for_load_state()


@pytest.fixture
def reader(new_visitor: NewVisitor) -> Visitor:
    """Somebody whose clock these tests alone change."""
    return new_visitor("desktop", viewport={"width": 1111, "height": 900})


def test_an_opened_confirmation_stays_open(reader: Visitor) -> None:
    """Nobody can press a button that folds away every three seconds."""
    world = acting(stop=NOW)
    watch(reader, world)
    reader.page.get_by_text("Start it again…").click()
    follow(reader)

    button = reader.page.get_by_role("button", name="Start it: $24 a day")
    assert button.is_visible()
    button.focus()
    world.change(steps_done={"stop": NOW, "snapshot": NOW + timedelta(minutes=1)})
    follow(reader)
    assert button.is_visible()
    assert "Start it: $24 a day" == reader.focused("one => one.textContent")


def test_typed_text_stays_while_the_steps_go_on(reader: Visitor) -> None:
    """A termination can be held or exempted until its last step."""
    world = acting(Action.TERMINATE)
    watch(reader, world)
    reader.page.get_by_text("Never ask about it").click()
    reader.page.get_by_label("Why").fill("a demo on Tue")
    reader.page.get_by_role("heading", name="What happened").click()
    world.change(steps_done={"stop": NOW})
    follow(reader)

    assert ": requested " in reader.text()
    assert "a demo on Tue" == reader.page.get_by_label("Why").input_value()


def test_other_answers_come_without_closing_what_is_open(reader: Visitor) -> None:
    """Until EC2 has stopped it the plan can be held; after that it can be started again."""
    world = acting()
    watch(reader, world)
    assert "Hold it" in reader.offered()
    reader.page.get_by_text("Every GPU, and the numbers").click()
    world.change(steps_done={"stop": NOW, "snapshot": NOW})
    follow(reader)

    assert "Hold it" not in reader.offered()
    assert reader.page.get_by_text("Start it again…").is_visible()
    assert reader.page.get_by_text("The judged window").is_visible()


def test_the_end_changes_the_whole_record(reader: Visitor) -> None:
    """It went on saying that GPU Governor checks again before it acts, and what "is" lost, below a
    headline that said it is stopped."""
    world = acting(stop=NOW, snapshot=NOW)
    watch(reader, world)
    reader.page.get_by_text("Start it again…").click()
    assert "checks again right before it acts" in reader.text()
    world.state.close_episode(
        world.ref, Outcome.STOPPED, "as approved", NOW, quiet_until=None, became=Outcome.STOPPED
    )
    follow(reader, times=1)
    # The page has the answer, and does not look again after this one. It may not show it yet.
    reader.page.locator("h1", has_text="is stopped, which saves").wait_for()

    text = reader.text()
    assert "What was lost" in text
    assert "checks again right before it acts" not in text
    assert reader.page.get_by_role("button", name="Start it: $24 a day").is_visible()
