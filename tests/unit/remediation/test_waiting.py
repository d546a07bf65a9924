"""An approved step that a freeze or a cap holds back waits, and counts once against the caps."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.approvals.model.approval import Stage
from governor.core.errors import (
    CloudError,
    GovernorError,
    MustWait,
    Protected,
    SafetyError,
    Throttled,
    Unavailable,
)
from governor.episode.model.episode import Outcome
from governor.episode.model.plan import Step
from governor.limits.model.breaker import BreakerState
from governor.policy.model.contacts import Contact, Ownership, Weekday
from governor.policy.model.limits import Breaker, Caps
from governor.policy.model.policy import Mode
from governor.table import keys
from tests.builders import NOW, TARGET
from tests.twins import MemoryStateTable
from tests.unit.worlds.builders import asker
from tests.unit.worlds.world import APPROVAL_ID, World

OUTAGE = BreakerState(NOW, "outage", turned=40)
OFFICE = Ownership(
    contacts={
        "people": Contact(
            emails=("alice@example.com",),
            time_zone="Europe/Berlin",
            working_days=(Weekday.MON, Weekday.TUE, Weekday.WED, Weekday.THU, Weekday.FRI),
            working_from="09:00",
            working_until="18:00",
        )
    },
    default_contacts=("people",),
)
AT = {
    "Fri 16:00": datetime(2026, 11, 20, 15, 0, tzinfo=UTC),
    "Sat 03:00": datetime(2026, 11, 21, 2, 0, tzinfo=UTC),
    "Mon 09:00": datetime(2026, 11, 23, 8, 0, tzinfo=UTC),
}
"""Times in Berlin."""
CAPS = {"ORGANIZATION": 3, "ACCOUNT#1": 2}


def with_caps(world: World, **caps: int) -> None:
    """The policy has these caps from now on."""
    world.policies.policy = replace(world.policies.policy, caps=Caps(**caps))


def taken(world: World) -> int:
    """Actions of all accounts that began in the last 60 minutes."""
    return world.state.used(world.clock.now()).get("ORGANIZATION", 0)


def journal(world: World) -> list[str]:
    """Return what the audit has of the steps, beside what the episode says itself."""
    return [
        entry["what"] for entry in world.state._table.query(keys.episode(world.ref)[0], "JOURNAL#")
    ]


@pytest.mark.parametrize("over_all", [False, True])
def test_a_frozen_approved_step_waits_and_goes_on_after_the_freeze(over_all: bool) -> None:
    """Before, a freeze ended what people had approved as refused."""
    world, freeze = World(), OUTAGE
    if over_all:
        world.state.begin_hub_freeze(freeze)
    else:
        world.state.set_breaker(TARGET, freeze)

    waiting = world.recheck(world.ref, Step.STOP)
    with pytest.raises(MustWait, match="frozen: outage"):
        world.put_away(world.ref, Step.STOP)
    if over_all:
        world.state.end_hub_freeze(freeze)
    else:
        world.state.reset_breaker(TARGET, freeze)

    assert (False, timedelta(minutes=15)) == (waiting.proceed, waiting.wait)
    assert "frozen: outage" in waiting.reason
    assert [] == world.writes()
    assert world.recheck(world.ref, Step.STOP).proceed


@pytest.mark.parametrize(
    ("hours", "minutes"),
    [(0, 15), (3, 15), (6, 30), (12, 60), (24, 120), (36, 180), (47, 60), (47.9, 15)],
)
def test_a_step_that_has_waited_for_hours_is_checked_less_often(hours: float, minutes: int) -> None:
    """A week of checks would not fit in an execution's history. None is long after the end of the
    wait."""
    world = World()
    world.state.begin_hub_freeze(OUTAGE)
    world.clock.moment += timedelta(hours=hours)
    world.publish_quiet()

    waiting = world.recheck(world.ref, Step.STOP)
    assert (False, timedelta(minutes=minutes)) == (waiting.proceed, waiting.wait)


def test_a_step_waits_no_longer_than_its_approval_lives() -> None:
    """The reason says that it waited, and which setting ended it."""
    world = World()
    world.state.begin_hub_freeze(OUTAGE)
    world.clock.moment += timedelta(hours=48)
    world.publish_quiet()

    over = world.recheck(world.ref, Step.STOP)

    assert (False, Outcome.REFUSED, None) == (over.proceed, over.outcome, over.wait)
    assert "approval.wait_at_most_hours" in over.reason


def test_work_ends_the_wait_and_missing_metrics_do_not() -> None:
    """In an outage of metrics there is no evidence of anything; a GPU at work is evidence."""
    world = World()
    world.state.begin_hub_freeze(OUTAGE)
    world.metrics.published.clear()
    silent = world.recheck(world.ref, Step.STOP)
    world.publish_quiet(utilization=90)
    busy = world.recheck(world.ref, Step.STOP)

    assert silent.wait is not None
    assert (None, Outcome.WOKE_UP) == (busy.wait, busy.outcome)


def test_a_cap_of_0_holds_the_step_back_until_the_policy_changes() -> None:
    """The recheck says how long to wait; whoever comes past it is stopped before EC2 is called."""
    world = World()
    with_caps(world, account_actions_per_hour=0)

    waiting = world.recheck(world.ref, Step.STOP)
    stored = world.state.episode(world.ref)
    assert stored is not None
    assert stored.progress.last_no is None, "a wait is no end that anybody could report"
    with pytest.raises(MustWait, match="account_actions_per_hour"):
        world.put_away(world.ref, Step.STOP)

    assert timedelta(minutes=15) == waiting.wait, "time alone makes no room"
    assert ([], 0) == (world.writes(), taken(world))
    with_caps(world)
    assert not world.put_away(world.ref, Step.STOP)


def test_a_reached_cap_holds_the_step_back_until_the_oldest_action_leaves_the_window() -> None:
    """And ten minutes more at most, by which steps that wait for the same room are spread. Before,
    it waited for the next clock hour, in which as many again could begin."""
    world = World()
    with_caps(world, account_actions_per_hour=2)
    one_account = {f"ACCOUNT#{TARGET.account}": 2}
    for minutes in (50, 20):
        at = NOW - timedelta(minutes=minutes)
        assert world.state.reserve(f"other-{minutes}", "stop", one_account, at, "a") is None

    waiting = world.recheck(world.ref, Step.STOP)
    with pytest.raises(MustWait, match="the cap of 2 stops and terminations in 60 minutes"):
        world.put_away(world.ref, Step.STOP)
    assert waiting.wait is not None
    assert timedelta(minutes=10) <= waiting.wait <= timedelta(minutes=23)
    assert [] == world.writes()

    world.clock.moment += waiting.wait
    world.let_through(Step.STOP)
    assert not world.put_away(world.ref, Step.STOP)
    assert 2 == world.state.used(world.clock.now())[f"ACCOUNT#{TARGET.account}"]


def test_an_invocation_that_loses_gives_back_nothing_of_the_one_that_wins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before, the loser of two ended the count of the winner, whoever of them had counted it."""
    world = World()
    note_call = world.state.note_call

    def at_the_same_time(*arguments: Any) -> None:
        monkeypatch.setattr(world.state, "note_call", note_call)
        world.put_away(world.ref, Step.STOP)
        note_call(*arguments)

    monkeypatch.setattr(world.state, "note_call", at_the_same_time)
    with pytest.raises(GovernorError):
        world.put_away(world.ref, Step.STOP)

    assert (["stop"], 1) == (world.writes(), taken(world))


def test_a_repeated_step_counts_once() -> None:
    """Lambda repeats what timed out, also after EC2 has taken the call."""
    world = World()
    world.ec2.failures["stop"] = [Throttled("slow down", operation="ec2:StopInstances")]
    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.STOP)

    assert world.recheck(world.ref, Step.STOP).proceed
    world.put_away(world.ref, Step.STOP)
    world.put_away(world.ref, Step.STOP)

    assert 1 == taken(world)


def test_a_step_that_waited_for_hours_is_counted_when_it_begins() -> None:
    """Before, a count of an earlier hour passed caps of 0, by which everything is held back."""
    state, later = MemoryStateTable(), NOW + timedelta(hours=5)
    assert state.reserve("e1", "stop", CAPS, NOW, "a") is None
    assert state.full_cap("e1", "stop", dict.fromkeys(CAPS, 0), later) == "ORGANIZATION"
    assert state.reserve("e1", "stop", dict.fromkeys(CAPS, 0), later, "b") == "ORGANIZATION"
    assert state.reserve("e1", "stop", CAPS, later, "b") is None
    assert {*CAPS} == {*state.used(later)}
    state.give_back("e1", "stop", "b")
    assert {} == state.used(later)


def test_a_cap_of_0_holds_back_what_was_counted_too() -> None:
    """Before, a step that EC2 had not taken at first called EC2 though nothing was to begin any
    more."""
    world = World()
    world.ec2.failures["stop"] = [Unavailable("503", operation="ec2:StopInstances")]
    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.STOP)
    tried = world.writes()
    with_caps(world, organization_actions_per_hour=0)
    world.clock.moment += timedelta(minutes=10)
    world.publish_quiet()
    assert not world.recheck(world.ref, Step.STOP).proceed
    world.let_through(Step.STOP)

    with pytest.raises(MustWait, match="organization_actions_per_hour"):
        world.put_away(world.ref, Step.STOP)
    assert tried == world.writes()
    state = world.state
    assert state.reserve("e1", "stop", CAPS, NOW, "a") is None
    assert (None, "ACCOUNT#1") == (
        state.full_cap("e1", "stop", CAPS, NOW),
        state.full_cap("e1", "stop", {**CAPS, "ACCOUNT#1": 0}, NOW),
    )


def test_what_ec2_refuses_and_a_dry_run_count_nothing() -> None:
    """The hour's actions are for what took effect, and so is the word that it was done."""
    world = World()
    world.ec2.failures["stop"] = [Protected("no", operation="ec2:StopInstances")]
    with pytest.raises(Protected):
        world.put_away(world.ref, Step.STOP)
    rehearsal = World(mode=Mode.OBSERVE)
    with_caps(rehearsal, organization_actions_per_hour=0)

    assert rehearsal.put_away(rehearsal.ref, Step.STOP)
    assert (0, 0) == (taken(world), taken(rehearsal))
    assert (["refused"], []) == (journal(world), journal(rehearsal))


@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from(["take", "back"])), max_size=40))
def test_no_order_of_calls_passes_a_cap(calls: list[tuple[int, str]]) -> None:
    """Whatever is repeated and given back: never more than the cap, and never a count lost."""
    state, held = MemoryStateTable(), set()
    for number, call in calls:
        if call == "back":
            state.give_back(f"e{number}", "stop", "a")
            held.discard(number)
            continue
        full = state.reserve(f"e{number}", "stop", CAPS, NOW, "a")
        assert (full is None) == (number in held or len(held) < 2)
        if full is None:
            held.add(number)
        else:
            assert "ACCOUNT#1" == full
    assert len(held) == state.used(NOW).get("ACCOUNT#1", 0)


def test_people_are_notified_once_that_it_waits_and_why() -> None:
    """With what to do; not at every recheck."""
    world = World()
    ask = asker(world)
    ask(world.ref, Stage.WAIT, None, "plans are frozen: outage")
    ask(world.ref, Stage.WAIT, None, "plans are frozen: outage")

    [alert] = world.announcer.sent
    assert "approved-waits" == alert.kind.value
    text = "\n".join(alert.lines)
    assert "Plans are frozen: outage." in text
    assert "Next step:" in text
    assert "48 h" in text


def test_a_held_back_step_notifies_people_until_they_know() -> None:
    """Each further notification is sent to nobody, and costs events of the workflow's history."""
    world = World()
    world.state.begin_hub_freeze(OUTAGE)
    assert world.recheck(world.ref, Step.STOP).notifies

    asker(world)(world.ref, Stage.WAIT, None, "plans are frozen: outage")
    waiting = world.recheck(world.ref, Step.STOP)
    assert (False, False) == (waiting.proceed, waiting.notifies)
    assert waiting.wait is not None


def test_no_question_is_sent_while_everything_is_frozen() -> None:
    """It is sent after the freeze."""
    world = World(decide=False)
    ask = asker(world)
    world.state.begin_hub_freeze(OUTAGE)

    with pytest.raises(MustWait, match="outage"):
        ask(world.ref, Stage.ASK, None)
    assert [] == world.announcer.sent
    assert world.state.end_hub_freeze(OUTAGE)
    ask(world.ref, Stage.ASK, None)
    assert 1 == len(world.announcer.sent)


def test_a_question_that_a_freeze_held_back_for_too_long_ends() -> None:
    """The error says so."""
    world = World(decide=False)
    ask = asker(world)
    world.state.begin_hub_freeze(OUTAGE)
    world.clock.moment += timedelta(days=3)

    with pytest.raises(SafetyError, match="wait_at_most_hours"):
        ask(world.ref, Stage.ASK, None)
    assert [] == world.announcer.sent


@pytest.mark.parametrize("freeze_ends", ["Fri 16:00", "Sat 03:00"])
def test_a_question_that_a_freeze_delayed_waits_for_working_hours(freeze_ends: str) -> None:
    """Before, it was sent at night, when the freeze ended."""
    world = World(decide=False)
    world.policies.policy = replace(world.policies.policy, ownership=OFFICE)
    ask = asker(world)
    world.clock.moment = AT[freeze_ends]

    if freeze_ends == "Sat 03:00":
        with pytest.raises(MustWait, match="do not work now"):
            ask(world.ref, Stage.ASK, None)
        assert [] == world.announcer.sent
        world.clock.moment = AT["Mon 09:00"]
    ask(world.ref, Stage.ASK, None)

    assert 1 == len(world.announcer.sent)


def test_a_question_on_time_and_one_that_is_decided_wait_for_no_hours() -> None:
    """It was planned for working hours; and who has answered is not asked."""
    world = World(decide=False)
    hours = Contact(emails=("alice@example.com",), working_from="09:00", working_until="12:00")
    ownership = replace(OFFICE, contacts={"people": hours})
    world.policies.policy = replace(world.policies.policy, ownership=ownership)
    world.clock.moment = NOW + timedelta(minutes=15)
    assert not asker(world)(world.ref, Stage.ASK, None).settled

    world = World()
    world.policies.policy = replace(world.policies.policy, ownership=OFFICE)
    world.clock.moment = AT["Sat 03:00"]
    assert asker(world)(world.ref, Stage.ASK, None).settled


@pytest.mark.parametrize("stage", [Stage.REMIND, Stage.ESCALATE])
def test_nobody_is_urged_to_answer_while_everything_is_frozen(stage: Stage) -> None:
    """An outage may show as idle what works; the question still waits for its answer."""
    world = World(decide=False)
    world.state.begin_hub_freeze(OUTAGE)
    asker(world)(world.ref, stage, "token")
    assert [] == world.announcer.sent
    assert world.state.end_hub_freeze(OUTAGE)
    asker(world)(world.ref, stage, "token")
    assert 1 == len(world.announcer.sent)


def test_a_guard_reads_what_was_counted_before_any_sweep_says_so() -> None:
    """Between the count that is too high and the sweep that freezes, nothing slips through."""
    world = World()
    ids = [f"i-{number}" for number in range(10)]
    world.state.try_count_turned(TARGET, {}, ids, (), world.state.hub(), NOW)

    with pytest.raises(MustWait, match="10 instances in all accounts"):
        world.put_away(world.ref, Step.STOP)
    lifted = Breaker(lift_freezes_before=(NOW + timedelta(hours=1)).isoformat())
    world.clock.moment += timedelta(hours=1)
    world.let_through(Step.STOP)
    world.publish_quiet()
    world.policies.policy = replace(world.policies.policy, breaker=lifted)
    assert not world.put_away(world.ref, Step.STOP)
    assert world.state.approval(APPROVAL_ID) is not None


@pytest.mark.parametrize(
    ("error", "counted"),
    [(Throttled("later"), 0), (Unavailable("no answer"), 1), (Protected("stop protection"), 0)],
)
def test_only_what_may_have_taken_effect_stays_counted(error: Exception, counted: int) -> None:
    """A lost answer may be a stop; what EC2 throttled or refused is none. The audit has each
    try."""
    world = World()
    world.ec2.failures["stop"] = [error]
    with pytest.raises((MustWait, Protected)):
        world.put_away(world.ref, Step.STOP)
    assert (counted, ["refused"]) == (taken(world), journal(world))


@pytest.mark.parametrize(
    "broken", [{"turned_2026112": 3}, {"turned_2026112308": "many"}, {"first": "never"}]
)
def test_a_breaker_that_cannot_be_read_refuses_and_the_audit_says_so(
    broken: dict[str, object],
) -> None:
    """Before, the step died of it, and no journal said why."""
    world = World()
    assert world.recheck(world.ref, Step.STOP).proceed
    world.state.items["BREAKER#hub", "HUB"] = {"pk": "BREAKER#hub", "sk": "HUB", **broken}

    with pytest.raises(CloudError, match="BREAKER#hub / HUB cannot be read"):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.writes()
    assert ["refused"] == journal(world)


# a step that is let through again and again


def later(world: World, minutes: float) -> None:
    """Time passes, and the GPUs stay idle."""
    world.clock.moment += timedelta(minutes=minutes)
    world.publish_quiet()


def test_people_learn_once_that_no_try_has_worked_for_an_hour() -> None:
    """The function that stops may die at every try. Its alarm alone said so, for two days."""
    world = World()
    assert world.recheck(world.ref, Step.STOP).proceed
    later(world, 59)
    assert world.recheck(world.ref, Step.STOP).proceed
    later(world, 1)
    waiting = world.recheck(world.ref, Step.STOP)

    assert (False, True) == (waiting.proceed, waiting.notifies)
    assert waiting.wait == timedelta(minutes=1)
    assert "no try to stop it has worked for 1 h" in waiting.reason
    asker(world)(world.ref, Stage.WAIT, None, waiting.reason)
    for _ in range(3):
        later(world, 1)
        assert world.recheck(world.ref, Step.STOP).proceed
    [alert] = world.announcer.sent
    assert "notebook has not been stopped yet: GPU Governor has to wait" == alert.subject
    assert [] == world.writes()


def test_the_reason_of_the_last_try_is_part_of_what_people_read() -> None:
    world = World()
    world.ec2.failures["stop"] = [Throttled("slow down")]
    assert world.recheck(world.ref, Step.STOP).proceed
    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.STOP)
    later(world, 60)

    assert "slow down" in world.recheck(world.ref, Step.STOP).reason


def test_a_rehearsal_that_does_not_get_on_waits_for_nobody() -> None:
    """Nobody approved it, so nobody is told that it waits."""
    world = World(mode=Mode.OBSERVE)
    assert world.recheck(world.ref, Step.STOP).proceed
    later(world, 60)
    assert world.recheck(world.ref, Step.STOP).proceed


def test_people_learn_that_it_is_stopped_while_its_workflow_does_not_go_on() -> None:
    """EC2 has stopped it, and the function dies before it says so."""
    world = World()
    world.put_away(world.ref, Step.STOP)
    world.clock.moment += timedelta(minutes=59)
    assert world.recheck(world.ref, Step.STOP).proceed
    world.clock.moment += timedelta(minutes=1)
    waiting = world.recheck(world.ref, Step.STOP)
    assert (False, True) == (waiting.proceed, waiting.notifies)

    asker(world)(world.ref, Stage.WAIT, None, waiting.reason)
    assert world.recheck(world.ref, Step.STOP).proceed
    [alert] = world.announcer.sent
    assert "notebook is stopped, but the next step has to wait" == alert.subject
    assert not any("has not begun" in line for line in alert.lines)
