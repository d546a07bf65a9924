"""Limits that hold actions back: the caps of an action, and the time to room under one."""

from __future__ import annotations

from datetime import timedelta

import pytest

from governor.limits.freezes import (
    FREEZE_CHECKED,
    ShowLimits,
    cap_reached_text,
    caps_of,
    wait_for_room,
)
from governor.limits.model.breaker import BreakerState, HourCount, Hub
from governor.limits.model.pause import Pause
from governor.limits.rules.breaker import hour_of
from governor.policy.model.limits import Caps
from tests.builders import NOW, TARGET
from tests.unit.worlds.world import World

HOUR = timedelta(hours=1)


def test_an_action_counts_for_all_for_its_account_and_for_its_owner() -> None:
    """Each by the cap of its own kind."""
    assert {
        "ORGANIZATION": 20,
        f"ACCOUNT#{TARGET.account}": 5,
        "OWNER#ada": 4,
    } == caps_of(TARGET.account, "ada", Caps(20, 5, 4))


@pytest.mark.parametrize(
    ("cap", "whose", "setting"),
    [
        ("ORGANIZATION", "for all accounts", "organization_actions_per_hour"),
        ("ACCOUNT#123456789012", "for account 123456789012", "account_actions_per_hour"),
        ("OWNER#ada", "for the owner ada", "owner_actions_per_hour"),
    ],
)
def test_a_reached_cap_says_whose_it_is_and_which_setting_raises_it(
    cap: str, whose: str, setting: str
) -> None:
    """It is the reason of a step that waits, in its audit and in the message about it."""
    assert cap_reached_text(cap, 5) == (
        f"the cap of 5 stops and terminations in 60 minutes {whose} has been reached "
        f"(caps.{setting})"
    )


def test_a_pause_hides_no_freeze() -> None:
    """When somebody ends the pause, the freezes still hold plans back."""
    world = World()
    assert world.state.begin_pause(Pause(NOW, "oidc:ada@example.com"))
    assert world.state.set_breaker(TARGET, BreakerState(NOW - HOUR, "an outage"))

    assert [
        ("everything", NOW),
        (str(TARGET), NOW - HOUR),
    ] == [(one.place, one.since) for one in show_limits(world).freezes([TARGET])]


def test_what_waits_for_the_same_room_begins_over_ten_minutes() -> None:
    """Spread by name, from the moment on at which there is room."""
    room_at = NOW + timedelta(minutes=48)
    spread = [
        wait_for_room(room_at, NOW, f"episode-{number}") - (room_at - NOW) for number in range(50)
    ]

    assert timedelta() <= min(spread) < timedelta(minutes=2)
    assert timedelta(minutes=8) < max(spread) < timedelta(minutes=10)


def test_room_that_is_there_already_is_waited_for_by_the_spread_alone() -> None:
    """It may have come since the cap was read."""
    assert timedelta() <= wait_for_room(NOW - HOUR, NOW, "episode-1") < timedelta(minutes=10)


def test_a_cap_of_0_is_looked_at_again_as_a_freeze_is() -> None:
    """No action leaves its window."""
    assert FREEZE_CHECKED == wait_for_room(None, NOW, "episode-1")


def test_the_caps_are_shown_with_that_of_all_first() -> None:
    """Then by name, however much of them was used in the last 60 minutes."""
    world, none = World(), Caps()
    for number, caps in enumerate(({"ACCOUNT#1": 5, "OWNER#a": 5}, {"ACCOUNT#1": 5, "OWNER#b": 5})):
        assert world.state.reserve(f"episode-{number}", "stop", caps, NOW - 0.9 * HOUR, "a") is None

    assert [
        ("ORGANIZATION", 0, none.organization_actions_per_hour),
        ("ACCOUNT#1", 2, none.account_actions_per_hour),
        ("OWNER#a", 1, none.owner_actions_per_hour),
        ("OWNER#b", 1, none.owner_actions_per_hour),
    ] == show_limits(world).caps()


def show_limits(world: World) -> ShowLimits:
    """The list of what is frozen or used in this world."""
    return ShowLimits(
        breaker_store=world.state,
        pause_store=world.state,
        cap_store=world.state,
        policies=world.policies,
        clock=world.clock,
    )


def test_an_hour_counts_who_turned_in_it_and_who_of_them_is_back() -> None:
    """Whichever of the two is known."""
    state, this = World().state, hour_of(NOW)
    state.try_count_turned(TARGET, {}, ["i-1"], [], Hub(), NOW)
    state.try_count_turned(TARGET, {"i-2": this - HOUR}, [], ["i-2"], state.hub(), NOW, anyway=True)

    assert {this: HourCount(1, 0), this - HOUR: HourCount(0, 1)} == state.hub().hours
