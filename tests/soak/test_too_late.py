"""Whoever is told that it is too late to hold it: it was, and what is only stopped can be started
again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from governor.alerts.delivery import DIGEST_PREFIX
from governor.episode.model.episode import Outcome
from tests.soak.cloud import Cloud, Press
from tests.soak.invariants import after, episodes, watch
from tests.soak.parts import simulated
from tests.soak.scenarios import ALICE, HOURS, SCENARIOS, Answers, Scenario, freeze, lift, policy

DORA = "dora@example.com"
YES = Answers("approve", fields={"losses": "accepted", "typed_instance_id": "i-0123456789abcdef0"})


@pytest.fixture(scope="module", autouse=True)
def _simulated() -> Iterator[None]:
    with simulated():
        yield


def _fail_and_freeze(cloud: Cloud) -> None:
    cloud.ec2.instead = partial(freeze, cloud)


def test_a_termination_that_ec2_did_not_take_can_be_held_while_it_waits() -> None:
    """It is noted, EC2 is not available, and then everything freezes for hours."""
    story = Scenario(
        "held while a termination that was begun waits",
        policy(action="terminate"),
        frozenset({"stopped"}),
        Outcome.HELD,
        people={ALICE: YES, "bob@example.com": YES, DORA: Answers("hold", after=2 * HOURS)},
        script=((200.0, _fail_and_freeze), (4 * HOURS, lift)),
    )
    cloud = story.play()

    assert [] == story.complaints(cloud)
    assert Outcome.HELD is episodes(cloud)[0].outcome


def test_a_stop_that_cannot_be_held_any_more_can_be_undone_while_its_snapshots_run() -> None:
    """The hold comes a few minutes after the call, and so does the undo."""
    people = {
        ALICE: YES,
        DORA: Answers("hold", after=600.0),
        "bob@example.com": Answers("undo", after=660.0),
    }
    story = Scenario("undone", policy(), frozenset({"running"}), Outcome.STOPPED, people=people)
    cloud = story.play()

    assert [DORA] == [press.by for press in cloud.unheld]
    assert [] == story.complaints(cloud)


def test_an_undo_of_several_at_once_is_refused_and_breaks_nothing() -> None:
    """Pressed as a form that the page of several does not have: the machine of random stories found
    it."""
    cloud = SCENARIOS[0].play()
    watch(cloud)
    cloud.on_press(Press(cloud.moment, ALICE, f"{DIGEST_PREFIX}{'0' * 32}", "undo", 409))

    assert [] == after(cloud)
