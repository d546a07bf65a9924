"""Limits that hold actions back: the caps of an episode, the time to room under one, the life of an
approval, and whether silence is an answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from governor.domain.approvals.approval import Answer, ApprovalStatus, Decision
from governor.domain.policy.policy import Caps
from governor.domain.sweep.breaker import HourCount, Hub, hour_of
from governor.errors import MetricsLate
from governor.ports import MetricAnswer
from governor.usecases.brakes import (
    FREEZE_CHECKED,
    RefusedAnswers,
    ShowBrakes,
    Unanswered,
    approved_at,
    caps_of,
    time_to_room,
)
from tests.builders import NOW, TARGET
from tests.twins import MemoryMetrics
from tests.unit.usecases.world import World

HOUR = timedelta(hours=1)


def test_an_action_counts_for_all_for_its_account_and_for_its_owner() -> None:
    """Each by the cap of its own kind."""
    episode = World()._stored()

    assert {
        "ORGANIZATION": 20,
        f"ACCOUNT#{TARGET.account}": 5,
        f"OWNER#{episode.owner}": 4,
    } == caps_of(episode, Caps(20, 5, 4))


def test_what_waits_for_the_same_room_begins_over_ten_minutes() -> None:
    """Spread by name, from the moment on at which there is room."""
    room_at = NOW + timedelta(minutes=48)
    spread = [
        time_to_room(room_at, NOW, f"episode-{number}") - (room_at - NOW) for number in range(50)
    ]

    assert timedelta() <= min(spread) < timedelta(minutes=2)
    assert timedelta(minutes=8) < max(spread) < timedelta(minutes=10)


def test_room_that_is_there_already_is_waited_for_by_the_spread_alone() -> None:
    """It may have come since the cap was read."""
    assert timedelta() <= time_to_room(NOW - HOUR, NOW, "episode-1") < timedelta(minutes=10)


def test_a_cap_of_0_is_looked_at_again_as_a_freeze_is() -> None:
    """No action leaves its window."""
    assert FREEZE_CHECKED == time_to_room(None, NOW, "episode-1")


def test_an_approval_lives_from_its_answer_or_from_the_expiry_that_passes_for_one() -> None:
    """Where nobody was asked, from the opening on."""
    world = World()
    episode, approval = world._stored(), world.state.approval("approval-1")
    assert approval is not None
    later = Decision(Answer.APPROVE, "link:alice@example.com", "page", NOW + HOUR)
    expired = replace(
        approval,
        status=ApprovalStatus.EXPIRED,
        decision=None,
        expires_at=episode.opened_at + 9 * HOUR,
    )

    assert NOW + HOUR == approved_at(episode, replace(approval, decision=later))
    assert episode.opened_at + 9 * HOUR == approved_at(episode, expired)
    assert episode.opened_at == approved_at(
        episode, replace(expired, status=ApprovalStatus.PENDING)
    )
    assert episode.opened_at == approved_at(episode, None)


@pytest.mark.parametrize(("seconds", "is_known"), [(0, True), (1, False)])
def test_silence_is_no_answer_before_cloudwatch_knows_its_last_minute(
    seconds: int, is_known: bool
) -> None:
    """Five minutes later it does."""

    class Nothing(MemoryMetrics):
        def read(self, *_: object) -> MetricAnswer:
            return MetricAnswer({"all": (None, 1.0)}, {})

    now = NOW.replace(minute=30, second=0, microsecond=0)
    until = now - timedelta(minutes=5) + timedelta(seconds=seconds)
    refused, unanswered = (
        RefusedAnswers(Nothing(), TARGET, "api", "stack"),
        Unanswered("why", HOUR, until),
    )
    if is_known:
        assert refused(unanswered, now) is None
    else:
        with pytest.raises(MetricsLate):
            refused(unanswered, now)


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
    ] == ShowBrakes(
        brake_store=world.state,
        pause_store=world.state,
        cap_store=world.state,
        policies=world.policies,
        clock=world.clock,
    ).caps()


def test_an_hour_counts_who_turned_in_it_and_who_of_them_is_back() -> None:
    """Whichever of the two is known."""
    state, this = World().state, hour_of(NOW)
    state.count_turned(TARGET, {}, ["i-1"], [], Hub(), NOW)
    state.count_turned(TARGET, {"i-2": this - HOUR}, [], ["i-2"], state.hub(), NOW, anyway=True)

    assert {this: HourCount(1, 0), this - HOUR: HourCount(0, 1)} == state.hub().hours
