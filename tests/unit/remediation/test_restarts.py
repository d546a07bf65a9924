"""Others start an instance again after each stop: the escalation contacts are asked once, then
nobody for 30 days; and never is anything done unasked."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal

import pytest

from governor.approvals.messages.questions import stage_alert
from governor.approvals.model.approval import Answer, Stage
from governor.episode.model.episode import Episode, Outcome, Restart
from governor.episode.model.plan import Step
from governor.policy.model.acting import ApprovalRule, PlanRule
from governor.policy.model.contacts import Contact, Ownership
from governor.policy.model.policy import Mode, Policy
from governor.table import keys
from governor.table.table import update
from tests.builders import NOW, TARGET
from tests.unit.remediation.test_stopped import react
from tests.unit.web.test_site import World as SiteWorld
from tests.unit.worlds.builders import (
    approval_id_of,
    asked,
    decision,
    open_question,
    opener,
    recorder,
    ref_of,
    start_acting,
)
from tests.unit.worlds.fleet_world import FleetWorld
from tests.unit.worlds.world import World

DAY = timedelta(days=1)
BUSY = [90.0] * 12
PEOPLE = Ownership(
    contacts={
        "ml": Contact(emails=("alice@example.com",)),
        "night": Contact(
            emails=("night@example.com",), working_from="22:00", working_until="23:00"
        ),
    },
    default_contacts=("ml",),
    escalation_contacts=("night",),
)


def policy_of(
    mode: Mode = Mode.ASK, on_expiry: Literal["no-action", "act"] = "no-action"
) -> Policy:
    """A policy with escalation contacts, under which a stop needs no person if it may."""
    return Policy(
        mode=mode,
        ownership=PEOPLE,
        plan=PlanRule(local_disks_may_be_lost_unasked=True),
        approval=ApprovalRule(on_expiry=on_expiry),
    )


def note(world: FleetWorld, instance_id: str, *days_ago: float) -> None:
    """Others started it again that long ago, each time after another stop of ours."""
    first = ref_of(world, instance_id)
    for number, days in enumerate(days_ago):
        at = world.clock.now() - timedelta(days=days)
        stop = replace(first, number=100 + number, launch_time=at - DAY)
        world.state.note_restart(Restart(stop, at))


def opened_after(*days_ago: float, policy: Policy | None = None, **changes: Any) -> Episode:
    """The episode that opens about an idle instance which others started again so long ago."""
    world = FleetWorld(policy or policy_of())
    instance_id = world.add(1, **changes)
    note(world, instance_id, *days_ago)
    episode = opener(world)(ref_of(world, instance_id)).episode
    assert episode is not None
    return episode


# what counts


def restart(
    world: FleetWorld, instance_id: str, minutes: float, *, by_event: bool = True
) -> datetime:
    """Somebody starts it, that long after the stop; the sweep sees it, and the event may."""
    at = NOW + timedelta(minutes=minutes)
    world.change(instance_id, state="running", launch_time=at)
    if by_event:
        react(world)(
            TARGET.account, TARGET.region, instance_id, "running", at + timedelta(seconds=9)
        )
    world.sweep(minutes)
    return at


def stopped_by_us() -> tuple[FleetWorld, str]:
    """An instance that we have stopped, with its saving booked."""
    world, instance_id, ref = asked()
    start_acting(world, ref)
    for step in (Step.STOP, Step.SNAPSHOT):
        world.state.note_step(ref, step.value, NOW)
    world.state.set_snapshots(ref, {"snap-1": "vol-1"})
    world.change(instance_id, state="stopped")
    recorder(world)(ref, Outcome.STOPPED)
    return world, instance_id


@pytest.mark.parametrize("by_event", [True, False], ids=["event and sweep", "the sweep alone"])
def test_a_restart_by_others_is_counted_once(by_event: bool) -> None:
    """The event and every later sweep see the same start."""
    world, instance_id = stopped_by_us()
    ref = ref_of(world, instance_id)
    restart(world, instance_id, 90, by_event=by_event)
    world.sweep(60)
    react(world)(TARGET.account, TARGET.region, instance_id, "running", world.clock.now())

    (only,) = world.state.record(TARGET, instance_id).restarts
    assert ref == only.stopped_in
    assert timedelta(0) <= only.at - (NOW + timedelta(minutes=90)) < timedelta(minutes=1)


def test_a_restart_is_counted_although_the_first_try_died_before_the_ledger() -> None:
    """It is noted before the saving ends, so the repeat finds both, and counts nothing twice."""
    world, instance_id = stopped_by_us()
    ref = ref_of(world, instance_id)
    world.state.note_restart(Restart(ref, NOW + timedelta(minutes=90)))
    restart(world, instance_id, 90)

    assert 1 == len(world.state.record(TARGET, instance_id).restarts)
    assert world.state.entries("2026-11")[0].ended_at is not None


def test_one_start_that_ends_two_savings_is_counted_once() -> None:
    """The saving of an earlier stop may still be open, where its restart could not be booked."""
    world, instance_id = stopped_by_us()
    ref = ref_of(world, instance_id)
    at = NOW + timedelta(minutes=90)
    world.state.note_restart(Restart(ref, at))
    world.state.note_restart(Restart(replace(ref, number=2), at))

    assert 1 == len(world.state.record(TARGET, instance_id).restarts)


def test_our_own_start_does_not_count() -> None:
    """Somebody had it started again by GPU Governor: that is an undo, and has its own rules."""
    world, instance_id = stopped_by_us()
    ref = ref_of(world, instance_id)
    world.state.note_undo(ref, "alice", NOW + timedelta(minutes=90))
    restart(world, instance_id, 90)

    assert () == world.state.record(TARGET, instance_id).restarts
    assert world.state.entries("2026-11")[0].ended_at is not None


def test_a_restart_of_an_instance_that_we_did_not_stop_does_not_count() -> None:
    """No saving ends by it."""
    world, instance_id, _ = asked()
    world.change(instance_id, state="stopped")
    restart(world, instance_id, 90)

    assert () == world.state.record(TARGET, instance_id).restarts


# when the escalation contacts are asked


@pytest.mark.parametrize(
    ("days_ago", "escalated"),
    [
        ((), False),
        ((1,), False),
        ((2, 1), True),
        ((3, 2, 1), True),
        ((29, 1), True),
        ((30, 1), True),
        ((30.01, 1), False),
        ((31, 29, 1), True),
        ((31, 1), False),
    ],
)
def test_two_restarts_within_30_days_ask_the_escalation_contacts(
    days_ago: tuple[float, ...], escalated: bool
) -> None:
    """One is no pattern, and what is older than 30 days is over."""
    episode = opened_after(*days_ago)
    alert = stage_alert(episode, Stage.ASK, NOW, None)
    said = [line for line in alert.lines if "others started it again" in line]

    assert escalated == bool(episode.asking.others_started_at)
    assert escalated == alert.facts.get("asks_escalation_contacts", False)
    assert escalated == bool(said)


def test_the_question_says_when_others_started_it_and_how_long_it_is_quiet() -> None:
    """In plain words, with the day from which people are asked again."""
    episode = opened_after(8, 2)
    (said,) = [
        line
        for line in stage_alert(episode, Stage.ASK, NOW, None).lines
        if "others started it again" in line
    ]
    assert said == (
        "After GPU Governor stopped it, others started it again twice (on Thu Nov 12 and Wed "
        "Nov 18). After this question, GPU Governor asks nobody about it until Sun Dec 20."
    )


@pytest.mark.parametrize(
    ("days_ago", "said"),
    [
        ((2.1, 2), "others started it again twice (on Wed Nov 18). After"),
        (
            (3, 2.1, 2),
            "others started it again 3 times (on Tue Nov 17 and Wed Nov 18). After",
        ),
    ],
)
def test_the_question_names_each_day_once(days_ago: tuple[float, ...], said: str) -> None:
    """Two restarts may fall on one day."""
    lines = stage_alert(opened_after(*days_ago), Stage.ASK, NOW, None).lines
    assert any(said in line for line in lines)


def test_the_question_names_the_tool_that_may_do_it() -> None:
    """A schedule's tag."""
    episode = opened_after(8, 2, tags={"Purpose": "GPU-Workload", "Schedule": "office-hours"})
    lines = stage_alert(episode, Stage.ASK, NOW, None).lines
    assert any("Instance Scheduler" in line for line in lines if "others started" in line)


def test_everybody_is_asked_when_all_of_them_work() -> None:
    """At once, not at the escalation; and never in somebody's quiet hours."""
    episode = opened_after(2, 1)
    assert episode.asking.schedule is not None
    assert 22 == episode.asking.schedule.ask_at.hour
    usual = opened_after()
    assert usual.asking.schedule is not None
    assert NOW == usual.asking.schedule.ask_at


def test_the_page_of_the_question_says_it_too() -> None:
    """As long as the question is open."""
    world = SiteWorld()
    assert "others started it again" not in world.get().body
    times = (NOW - 2 * DAY, NOW - DAY)
    asking = replace(world.episode.asking, others_started_at=times)
    world.state.put(replace(world.episode, asking=asking))

    assert "others started it again twice" in world.get().body


# nobody else to ask

ALONE = replace(PEOPLE, escalation_contacts=())
LISTED_TWICE = replace(
    PEOPLE,
    contacts={**PEOPLE.contacts, "again": Contact(emails=("Alice@example.com",))},
    escalation_contacts=("again",),
)
UNREACHABLE = replace(
    PEOPLE, contacts={**PEOPLE.contacts, "nowhere": Contact()}, escalation_contacts=("nowhere",)
)
NOBODY_ELSE = pytest.mark.parametrize(
    "people", [ALONE, LISTED_TWICE, UNREACHABLE], ids=["alone", "listed twice", "unreachable"]
)


@NOBODY_ELSE
def test_nobody_exempts_himself_where_nobody_else_can_be_asked(people: Ownership) -> None:
    """The owner could start it twice, ignore one question, and run it idle for 30 days."""
    world, instance_id = ended(Outcome.EXPIRED, 2, 1, people=people)

    assert world.state.record(TARGET, instance_id).restarts_quiet_until is None
    assert not is_quiet(world, instance_id, 1.1)


@NOBODY_ELSE
def test_a_question_to_the_owner_alone_says_that_it_is_asked_again(people: Ownership) -> None:
    """It still says when others started it, and asks before it acts."""
    episode = opened_after(8, 2, policy=replace(policy_of(Mode.AUTO), ownership=people))
    alert = stage_alert(episode, Stage.ASK, NOW, None)

    assert (
        "After GPU Governor stopped it, others started it again twice (on Thu Nov 12 and Wed "
        "Nov 18). GPU Governor keeps asking about it, because the policy names nobody else to ask."
    ) in alert.lines
    assert "asks_escalation_contacts" not in alert.facts
    assert episode.mode is Mode.ASK


def test_the_question_to_the_owner_alone_names_the_tool_too() -> None:
    tags = {"Purpose": "GPU-Workload", "Schedule": "office-hours"}
    policy = replace(policy_of(), ownership=ALONE)
    alert = stage_alert(opened_after(8, 2, policy=policy, tags=tags), Stage.ASK, NOW, None)
    (said,) = [line for line in alert.lines if "others started it again" in line]

    assert "Instance Scheduler" in said
    assert said.endswith("GPU Governor keeps asking about it, because the policy names nobody else"
                         " to ask.")  # fmt: skip


# nothing is done unasked


@pytest.mark.parametrize(
    "policy", [policy_of(Mode.AUTO), policy_of(Mode.ASK, "act")], ids=["auto", "on_expiry: act"]
)
def test_what_would_act_unasked_asks(policy: Policy) -> None:
    """Otherwise GPU Governor and a scheduler would stop and start it forever."""
    before = opened_after(1, policy=policy)
    assert before.mode is Mode.AUTO or before.asking.acts_on_silence
    episode = opened_after(2, 1, policy=policy)
    assert episode.mode is Mode.ASK
    assert not episode.asking.acts_on_silence


def test_mode_observe_goes_on_observing() -> None:
    """It asks nobody, and is not quiet afterwards either."""
    episode = opened_after(2, 1, policy=policy_of(Mode.OBSERVE))
    assert episode.mode is Mode.OBSERVE
    assert () == episode.asking.others_started_at


@pytest.mark.parametrize("mode", [Mode.ASK, Mode.AUTO])
def test_a_yes_to_such_a_question_may_act_in_either_mode(mode: Mode) -> None:
    """The guards look at the policy as the question did."""
    world = World()
    world.policies.policy = replace(world.policies.policy, mode=mode)
    times = (NOW - 2 * DAY, NOW - DAY)
    world.state._table.write(update(keys.episode(world.ref), {"others_started_at": times}))

    world.put_away(world.ref, Step.STOP)
    assert 1 == len(world.writes())


# quiet


def ended(outcome: Outcome, *days_ago: float, people: Ownership = PEOPLE) -> tuple[FleetWorld, str]:
    """A question about restarts that ended so."""
    world = FleetWorld(replace(policy_of(), ownership=people))
    instance_id = world.add(1)
    world.sweep()
    note(world, instance_id, *days_ago)
    ref = open_question(world, instance_id)
    approval_id = approval_id_of(instance_id)
    if outcome is Outcome.KEPT:
        world.state.settle(approval_id, decision(Answer.KEEP, keep_until=NOW + DAY))
    elif outcome is not Outcome.FAILED:
        is_expired = outcome is Outcome.EXPIRED
        world.state.void(approval_id, "said so", expired=is_expired, outcome=outcome.value)
    recorder(world)(ref, outcome)
    return world, instance_id


def is_quiet(world: FleetWorld, instance_id: str, days: float, run: datetime = NOW) -> bool:
    """Nobody is asked about this run that many days after the question."""
    at = NOW + timedelta(days=days)
    return world.state.record(TARGET, instance_id).is_quiet(run, at)


@pytest.mark.parametrize(
    "outcome", [Outcome.EXPIRED, Outcome.KEPT, Outcome.WOKE_UP, Outcome.VOID, Outcome.INTERRUPTED]
)
def test_after_such_a_question_it_is_quiet_for_30_days_in_every_run(outcome: Outcome) -> None:
    """Counted from the question, whatever its outcome; then people are asked as usual."""
    world, instance_id = ended(outcome, 2, 1)

    assert is_quiet(world, instance_id, 29)
    assert is_quiet(world, instance_id, 29.99)
    assert not is_quiet(world, instance_id, 30)
    assert not is_quiet(world, instance_id, 31)


def test_a_question_that_failed_was_not_asked() -> None:
    """Perhaps nobody has it, so it is asked again soon."""
    world, instance_id = ended(Outcome.FAILED, 2, 1)
    assert not is_quiet(world, instance_id, 1)


def test_a_yes_that_was_refused_makes_nothing_quiet_for_30_days() -> None:
    """People decided to stop it, and it runs on: they are asked again as after any refusal."""
    world, instance_id = ended(Outcome.REFUSED, 2, 1)

    assert world.state.record(TARGET, instance_id).restarts_quiet_until is None
    assert not is_quiet(world, instance_id, 1.1)


@pytest.mark.parametrize("outcome", [Outcome.WOKE_UP, Outcome.VOID, Outcome.INTERRUPTED])
def test_a_question_that_was_canceled_before_anybody_was_asked_makes_nothing_quiet(
    outcome: Outcome,
) -> None:
    """It waited for the hours in which all of them work, and the instance worked meanwhile."""
    world = FleetWorld(policy_of())
    instance_id = world.add(1)
    world.sweep()
    note(world, instance_id, 2, 1)
    ref = ref_of(world, instance_id)
    approval_id = approval_id_of(instance_id)
    assert opener(world, approval_id)(ref).episode is not None
    world.state.void(approval_id, "said so", expired=False, outcome=outcome.value)
    recorder(world)(ref, outcome)

    assert world.state.record(TARGET, instance_id).restarts_quiet_until is None


def test_an_answer_that_came_before_the_task_waited_was_an_answer() -> None:
    """The question is open from when it is sent."""
    world = FleetWorld(policy_of())
    instance_id = world.add(1)
    world.sweep()
    note(world, instance_id, 2, 1)
    ref = ref_of(world, instance_id)
    approval_id = approval_id_of(instance_id)
    assert opener(world, approval_id)(ref).episode is not None
    world.state.await_answer(approval_id, None, "ask", NOW + DAY)
    world.state.settle(approval_id, decision(Answer.KEEP, keep_until=NOW + DAY))
    recorder(world)(ref, Outcome.KEPT)

    assert is_quiet(world, instance_id, 29)


def test_after_an_ordinary_question_another_run_is_not_quiet() -> None:
    """As before."""
    world, instance_id = ended(Outcome.EXPIRED, 1)
    assert not is_quiet(world, instance_id, 0.1, run=NOW - DAY)


def test_neither_work_nor_another_restart_changes_how_long_it_is_quiet() -> None:
    """A schedule works and starts it daily: that would ask the same people daily, or never."""
    world, instance_id = ended(Outcome.EXPIRED, 2, 1)
    until = world.state.record(TARGET, instance_id).restarts_quiet_until
    world.publish(instance_id, BUSY)
    world.sweep(30)
    note(world, instance_id, 0)

    assert NOW + 30 * DAY == until
    assert until == world.state.record(TARGET, instance_id).restarts_quiet_until


def test_nobody_is_asked_while_it_is_quiet_and_the_console_says_why() -> None:
    """It is not exempt: its verdict and its cost go on."""
    world, instance_id = ended(Outcome.EXPIRED, 2, 1)
    questions = set(world.workflow.executions)
    world.change(instance_id, launch_time=NOW - timedelta(hours=9))
    for _ in range(3):
        world.sweep(5)
    page = world.state.page(TARGET)
    assert page is not None
    (row,) = page.rows

    assert questions == set(world.workflow.executions)
    assert "idle" == row.verdict
    assert NOW + 30 * DAY == row.quiet_until
    assert row.reason.startswith(
        "Others started it again after GPU Governor's stops, so nobody is asked about it until "
        "Sun Dec 20, 12:02 UTC."
    )


def test_after_the_quiet_time_it_is_asked_about_as_usual() -> None:
    """The restarts before the question are over by then."""
    world, instance_id = ended(Outcome.EXPIRED, 2, 1)
    world.clock.moment = NOW + 30 * DAY
    world.change(instance_id, launch_time=NOW)
    episode = opener(world, "approval-9")(ref_of(world, instance_id, 2)).episode

    assert episode is not None
    assert () == episode.asking.others_started_at
