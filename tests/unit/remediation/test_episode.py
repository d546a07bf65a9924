"""An episode and the record of its instance: what they say of themselves, and when people are asked
again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from governor.episode.model.episode import Episode, InstanceRecord, Outcome, quiet_until
from governor.policy.model.acting import ApprovalRule
from governor.policy.model.policy import Mode
from governor.verdict.model import Hold
from tests.builders import NOW, TARGET
from tests.episodes import changed
from tests.unit.worlds.world import World

RULE = ApprovalRule(ask_again_after_hours=24)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
SPEAKS_FOR_ITSELF = ("stopped", "terminated", "kept", "exempted", "woke-up", "void", "interrupted")


@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize("was_opened", [True, False])
def test_what_was_told_is_not_told_again_for_a_day(outcome: Outcome, was_opened: bool) -> None:
    """Unless the outcome says what comes next; what nobody was asked about is tried again soon."""
    waits = None if outcome in SPEAKS_FOR_ITSELF else DAY
    waits = waits if was_opened else 60 * MINUTE
    assert (waits and NOW + waits) == quiet_until(outcome, RULE, NOW, was_opened=was_opened)


@pytest.mark.parametrize("was_opened", [True, False])
@pytest.mark.parametrize(("failures", "minutes"), [(0, 5), (1, 15), (2, 60), (3, None)])
def test_our_own_failure_is_tried_again_ever_later(
    was_opened: bool, failures: int, minutes: int | None
) -> None:
    """Three times; the fault was ours, and nobody has answered. Other outcomes know no failures."""
    later = DAY if was_opened else 60 * MINUTE
    found = quiet_until(Outcome.FAILED, RULE, NOW, was_opened=was_opened, failures=failures)
    assert NOW + (later if minutes is None else minutes * MINUTE) == found
    assert NOW + later == quiet_until(
        Outcome.TOLD, RULE, NOW, was_opened=was_opened, failures=failures
    )


def opened(**changes: Any) -> Episode:
    """A stored episode, so changed."""
    world = World(decide=False)
    episode = world.state.episode(world.ref)
    assert episode is not None
    return changed(episode, **changes)


def test_notice_is_given_in_mode_auto_where_something_is_done() -> None:
    """For as long as the policy said at the question; an hour where an earlier release asked."""
    auto = opened(mode=Mode.AUTO)
    assert auto.gives_notice
    assert not replace(auto, plan=replace(auto.plan, steps=())).gives_notice
    assert not opened(mode=Mode.ASK).gives_notice
    assert [60 * MINUTE, 3 * MINUTE] == [
        replace(auto, asking=replace(auto.asking, notice=given)).asking.notice_length
        for given in (None, 3 * MINUTE)
    ]


@pytest.mark.parametrize(
    ("until", "more", "warned", "alone"),
    [
        (None, {}, False, False),
        (NOW + MINUTE, {}, True, False),
        (NOW, {}, False, True),
        (NOW, {"failures": 1}, False, False),
        (NOW, {"hold": Hold(exempt_reason="demo")}, False, False),
        (NOW, {"quiet_until": NOW + DAY}, False, False),
    ],
)
def test_a_record_is_given_up_when_an_old_warning_is_all_it_holds(
    until: Any, more: dict[str, Any], warned: bool, alone: bool
) -> None:
    """A standing answer, a lock or a count would be lost with it."""
    record = InstanceRecord(TARGET, "i-0123456789abcdef0", warned_until=until, **more)
    assert (warned, alone) == (record.is_warned(NOW), record.holds_an_old_warning_alone(NOW))
