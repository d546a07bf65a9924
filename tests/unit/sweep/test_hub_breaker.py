"""The breaker over all targets: outages across small accounts freeze everything, ordinary evenings
do not."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from unittest import mock

import pytest

from benchmarks.freezes import INSTANCES, JOBS, START, STEP, run
from governor.alerts.model import AlertKind
from governor.core.errors import Unavailable
from governor.core.instance import Target
from governor.limits.model.breaker import HourCount, Hub
from governor.limits.rules.breaker import hour_of, why_freeze_everything
from governor.policy.model.acting import ApprovalRule
from governor.policy.model.limits import Breaker
from governor.policy.model.policy import Mode, Policy
from governor.verdict.model import Hold
from tests.builders import NOW, TARGET
from tests.properties import IS_LONG, examples, step
from tests.twins import table
from tests.unit.worlds.fleet_world import FleetWorld

BREAKER = (AlertKind.BREAKER_TRIPPED, AlertKind.BREAKER_RELEASED)
BUSY, QUIET = [90.0] * 12, [1.0] * 48
EVERY = STEP if IS_LONG else timedelta(hours=1)
"""Between the sweeps of long times in which nothing should happen."""
AT_ONCE = ApprovalRule(ask_after_minutes=60, ask_after_released_minutes=60)
"""Nobody is given time: who is idle for the window is asked about."""


def fleet(mode: Mode, accounts: int, each: int) -> tuple[FleetWorld, dict[Target, list[str]]]:
    """Busy instances in many small accounts, swept once."""
    world = FleetWorld(Policy(mode=mode, approval=AT_ONCE), hub=True)
    found: dict[Target, list[str]] = {}
    for number in range(accounts * each):
        target = Target(f"{number // each:012d}", TARGET.region)
        found.setdefault(target, []).append(world.add(number + 1, BUSY, target=target))
    for target in found:
        world.sweep_target(target)
    return world, found


def sweep_all(world: FleetWorld, found: dict[Target, list[str]], minutes: float) -> None:
    """Sweeps every target, that many minutes later."""
    sweep(world, list(found), minutes)


def sweep(world: FleetWorld, targets: list[Target], minutes: float) -> bool:
    """One sweep of these targets, with the step before it. Return whether plans of the last one
    were frozen."""
    world.clock.moment += timedelta(minutes=minutes)
    world.follow_hub_freeze()
    return [world.sweep_target(target).frozen for target in targets][-1]


@pytest.mark.parametrize("mode", [Mode.ASK, Mode.AUTO])
def test_zeros_from_all_agents_in_small_accounts_start_nothing(mode: Mode) -> None:
    """Before, all workflows started: no account had the five instances that its own breaker
    needs."""
    world, found = fleet(mode, accounts=6, each=4)
    for ids in found.values():
        for one in ids:
            world.publish(one, QUIET)
    for minutes in (65, 5, 5, 600):
        sweep_all(world, found, minutes)

    assert {} == world.workflow.executions
    told = [alert for alert in world.announcer.sent if "all accounts" in alert.subject]
    assert 1 == len({alert.dedup_id for alert in told})


@pytest.mark.repeats
@pytest.mark.parametrize("at_once", range(1, 5, step(3)))
def test_a_rollout_of_a_few_instances_an_hour_is_caught(at_once: int) -> None:
    """Before, all workflows started: no sweep saw five turn at once.

    What turned before the tenth did is asked about: a question is no action, and caps bound what
    follows."""
    world, found = fleet(Mode.ASK, accounts=5, each=4)
    left = [(target, one) for target, ids in found.items() for one in ids]
    while left:
        for _, one in left[:at_once]:
            world.publish(one, QUIET)
        del left[:at_once]
        sweep_all(world, found, minutes=70)

    assert world.state.hub().freeze is not None
    assert len(world.workflow.executions) < 10


def test_an_operator_lifts_a_freeze_and_what_was_counted_before() -> None:
    """By the policy; a time to come lifts nothing, for it would switch the breakers off."""
    world, found = fleet(Mode.ASK, accounts=3, each=4)
    for ids in found.values():
        for one in ids:
            world.publish(one, QUIET)

    def sweeps(minutes: float) -> bool:
        return sweep(world, list(found), minutes)

    assert sweeps(65)
    world.policies.policy = replace(
        world.policies.policy,
        breaker=Breaker(lift_freezes_before=(NOW + timedelta(days=9)).isoformat()),
    )
    assert sweeps(5)
    lifted = (world.clock.moment + timedelta(minutes=2)).isoformat()
    world.policies.policy = replace(
        world.policies.policy, breaker=Breaker(lift_freezes_before=lifted)
    )
    assert not sweeps(60)
    assert world.state.hub().freeze is None
    assert not world.sweep_target(next(iter(found))).frozen


def test_an_admin_ends_a_freeze_in_the_console_and_what_was_counted_until_then_is_usual() -> None:
    """The next sweep says who did; the same instances freeze nothing anew, others do."""
    world, found = fleet(Mode.ASK, accounts=6, each=4)
    targets = list(found)

    def sweeps(minutes: float, quiet: list[Target]) -> bool:
        for target in quiet:
            for one in found[target]:
                world.publish(one, QUIET)
        return sweep(world, targets, minutes)

    assert sweeps(65, targets[:3])
    freeze = world.state.hub().freeze
    assert freeze is not None
    world.state.request_freeze_end(None, freeze, "oidc:ada@example.com", world.clock.moment)

    assert not sweeps(5, [])
    assert not sweeps(5, [])
    (told,) = {
        " ".join(alert.lines)
        for alert in world.announcer.sent
        if "is working again" in alert.subject
    }
    assert "ada@example.com (signed in) ended it in the console." in told
    assert 12 == sum(hour.turned for hour in world.state.hub().hours.values())
    # A freeze that comes later is another one, though it began with the same count.
    assert sweeps(60 * 13, targets[3:])
    assert world.state.hub().freeze not in (None, freeze)


def messages(world: FleetWorld) -> list[str]:
    """The ids of the messages about the freeze of all targets, in the order in which they were
    sent."""
    about = [alert for alert in world.announcer.sent if alert.kind in BREAKER]
    return [alert.dedup_id for alert in about]


def frozen_fleet(accounts: int) -> tuple[FleetWorld, list[Target]]:
    """A fleet whose agents all publish zeros, after the sweep that froze everything."""
    world, found = fleet(Mode.ASK, accounts=accounts, each=4)
    for ids in found.values():
        for one in ids:
            world.publish(one, QUIET)
    sweep_all(world, found, minutes=65)
    assert world.state.hub().freeze is not None
    return world, list(found)


def test_the_sweep_of_a_target_neither_ends_the_freeze_nor_reminds_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The step that opens the whole sweep does, once, however many targets there are."""

    def requests(accounts: int) -> int:
        world, targets = frozen_fleet(accounts)
        asked: list[str] = []
        monkeypatch.setattr(table, "ASKED", [lambda _, partition: asked.append(partition)])
        for days in (1, 2):
            assert days == len(messages(world))
            sweep(world, targets, minutes=24 * 60 + 5)
        freeze = world.state.hub().freeze
        assert freeze is not None
        world.state.request_freeze_end(None, freeze, "oidc:ada@example.com", world.clock.moment)
        asked_before = asked.count("ENDED#hub")
        for target in targets:
            assert world.sweep_target(target).frozen
        assert asked_before == asked.count("ENDED#hub")
        sweep(world, targets, minutes=5)
        assert world.state.hub().freeze is None
        assert 4 == len(messages(world))
        return asked.count("ENDED#hub")

    assert requests(3) == requests(9)


def test_the_sweep_that_freezes_everything_says_so_at_once_and_once() -> None:
    """Before the step that opens the next sweep."""
    world, targets = frozen_fleet(6)
    (first,) = messages(world)

    sweep(world, targets, minutes=5)
    assert [first] == messages(world)


def test_a_first_message_that_could_not_be_sent_is_sent_by_the_next_sweep() -> None:
    world, found = fleet(Mode.ASK, accounts=6, each=4)
    for ids in found.values():
        for one in ids:
            world.publish(one, QUIET)
    with mock.patch.object(world.announcer, "announce", side_effect=Unavailable("away")):
        sweep_all(world, found, minutes=65)
    assert [] == messages(world)

    for _ in range(2):
        sweep_all(world, found, minutes=5)
    assert 1 == len(messages(world))


def test_no_freeze_is_released_before_people_could_be_notified() -> None:
    world, targets = frozen_fleet(3)
    freeze = world.state.hub().freeze
    assert freeze is not None
    world.state.request_freeze_end(None, freeze, "oidc:ada@example.com", world.clock.moment)
    with (
        mock.patch.object(world.announcer, "announce", side_effect=Unavailable("away")),
        pytest.raises(Unavailable),
    ):
        world.follow_hub_freeze()

    assert freeze == replace(world.state.hub().freeze or freeze, told_at=freeze.told_at)
    assert world.sweep_target(targets[0]).frozen
    assert not sweep(world, targets, minutes=5)


def test_what_turns_in_the_sweep_after_a_freeze_was_ended_freezes_anew() -> None:
    """An admin ends a freeze; then the agents of the other accounts break. Their instances are no
    part of what the admin ended, though the sweep that ends the freeze counts them."""
    world, found = fleet(Mode.ASK, accounts=6, each=4)
    targets = list(found)
    for target in targets[:3]:
        for one in found[target]:
            world.publish(one, QUIET)
    assert sweep(world, targets, minutes=65)
    freeze = world.state.hub().freeze
    assert freeze is not None
    world.state.request_freeze_end(None, freeze, "oidc:ada@example.com", world.clock.moment)
    for target in targets[3:]:
        for one in found[target]:
            world.publish(one, QUIET)

    assert sweep(world, targets, minutes=60 * 13)
    assert world.state.hub().freeze not in (None, freeze)


def test_a_sweep_that_lags_ends_no_freeze_that_began_since(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has read one that an admin ended; another sweep released that, and a third froze
    everything anew."""
    world, found = fleet(Mode.ASK, accounts=3, each=4)
    for ids in found.values():
        for one in ids:
            world.publish(one, QUIET)
    sweep_all(world, found, minutes=65)
    freeze = world.state.hub().freeze
    assert freeze is not None
    world.state.request_freeze_end(None, freeze, "oidc:ada@example.com", world.clock.moment)
    anew = replace(freeze, tripped_at=world.clock.moment + timedelta(minutes=1))
    release = world.state.end_hub_freeze

    def too_late(*arguments: object) -> bool:
        monkeypatch.undo()
        release(freeze)
        world.state.begin_hub_freeze(anew)
        return release(*arguments)  # type: ignore[arg-type]

    counted = world.state.hub().hours
    monkeypatch.setattr(world.state, "end_hub_freeze", too_late)
    world.follow_hub_freeze()

    assert (anew, counted) == (world.state.hub().freeze, world.state.hub().hours)


def test_a_freeze_of_everything_ends_when_most_work_again_and_not_by_time() -> None:
    """An instance is counted once in an idle stretch, however often it is swept."""
    world, found = fleet(Mode.ASK, accounts=3, each=4)

    def sweeps(readings: list[float], minutes: float) -> bool:
        for ids in found.values():
            for one in ids:
                world.publish(one, readings)
        return sweep(world, list(found), minutes)

    assert sweeps(QUIET, 65)
    assert sweeps(QUIET, 48 * 60)
    assert 12 == sum(hour.turned for hour in world.state.hub().hours.values())
    assert sweeps(BUSY, 60), "the next sweep ends it, once all accounts have been counted"
    assert not sweeps(BUSY, 5)


@pytest.mark.parametrize("started_anew", [True, False], ids=["restarted", "kept"])
def test_zeros_freeze_though_nobody_saw_the_instances_work_before(started_anew: bool) -> None:
    """Started anew with an agent that publishes zeros, or out of a keep: before, all were asked
    about."""
    world, found = fleet(Mode.ASK, accounts=8, each=4)
    night = timedelta(hours=12)
    everybody = [(target, one) for target, ids in found.items() for one in ids]
    if not started_anew:
        for target, one in everybody:
            world.state.store_hold(target, one, Hold(snoozed_until=world.clock.moment + night))
        sweep_all(world, found, minutes=60)
    world.clock.moment += night
    for _, one in everybody:
        world.publish(one, QUIET)
        if started_anew:
            world.change(one, launch_time=world.clock.moment)
    for minutes in (5, 5, 65, 30, 5, 60, 5):
        sweep_all(world, found, minutes)

    assert {} == world.workflow.executions
    assert world.state.hub().freeze is not None


def test_zeros_freeze_though_the_instances_were_started_anew_while_no_sweep_looked() -> None:
    """After an hour without sweeps no grace was left to be seen in: before, all were asked
    about."""
    world, found = fleet(Mode.ASK, accounts=8, each=4)
    world.clock.moment += timedelta(hours=12)
    for ids in found.values():
        for one in ids:
            world.publish(one, QUIET)
            world.change(one, launch_time=world.clock.moment)
    for minutes in (65, 30, 5, 60, 5):
        sweep_all(world, found, minutes)

    assert {} == world.workflow.executions
    assert world.state.hub().freeze is not None


def test_who_was_counted_before_a_start_is_counted_anew_after_it() -> None:
    """Idle in the evening, and started in the morning with zeros: before, all were asked about
    again."""
    world, found = fleet(Mode.ASK, accounts=3, each=4)
    everybody = [one for ids in found.values() for one in ids]
    for half in (everybody[:6], everybody[6:]):
        for one in half:
            world.publish(one, QUIET)
        sweep_all(world, found, minutes=13 * 60)
    assert world.state.hub().freeze is None

    for one in everybody:
        world.change(one, launch_time=world.clock.moment)
    for minutes in (5, 65, 30, 5):
        sweep_all(world, found, minutes)

    assert world.state.hub().freeze is not None


def test_the_first_sweep_of_instances_that_have_been_idle_for_long_freezes_nothing() -> None:
    """Forgotten instances are what a new stack is for."""
    world = FleetWorld(Policy(mode=Mode.ASK, approval=AT_ONCE), hub=True)
    for number in range(20):
        world.add(number + 1)
    world.sweep()
    world.sweep(5)

    assert world.state.hub().freeze is None
    assert 20 == len(world.workflow.executions)


def test_an_outage_does_not_pass_for_a_habit_of_the_next_day() -> None:
    """The outage that froze everything on the fifth day does so again on the sixth, at the same
    hour."""
    broken = [START + timedelta(days=day, hours=3) for day in (4, 5)]
    hour = timedelta(hours=1)
    month = run(
        seed=3, days=6, extra=[(one, (at, at + 2 * hour)) for at in broken for one in range(JOBS)]
    )

    assert [] == [at for at in broken if not any(at <= one <= at + hour for one in month.froze)]


def test_after_quiet_weeks_an_outage_is_no_habit_either() -> None:
    """Nothing turned for so long that all counts were forgotten. Before, the breaker took itself
    for new, learned the outage, and let the next one pass at the same hour: all were asked
    about."""
    world, found = fleet(Mode.ASK, accounts=5, each=4)
    everybody = [one for ids in found.values() for one in ids]

    def turn(ids: list[str], readings: list[float], hours: float) -> bool:
        for one in ids:
            world.publish(one, readings)
        sweep_all(world, found, minutes=60 * hours)
        world.follow_hub_freeze()
        return world.state.hub().freeze is not None

    assert not turn(everybody[:1], QUIET, hours=12)
    assert not turn(everybody, BUSY, hours=12)
    for _ in range(16):
        sweep_all(world, found, minutes=24 * 60)
    assert turn(everybody, QUIET, hours=2)
    assert not turn(everybody, BUSY, hours=48)

    assert turn(everybody, QUIET, hours=48)
    assert {} == world.workflow.executions


@pytest.mark.repeats
def test_office_hours_freeze_at_most_once_in_a_month() -> None:
    """400 instances of 100 accounts: only the first two days, of which nothing is known, are
    unusual.

    `make soak` plays the whole month, and `python -m benchmarks.freezes` plays more of them.
    """
    month = run(seed=11, days=examples(9, 31), step=EVERY)

    assert len(month.froze) <= 1
    assert len(month.released) == len(month.froze)


@pytest.mark.repeats
def test_ordinary_days_after_holidays_freeze_nothing() -> None:
    """Ten days without people in the third week. Before, each day after them froze everything,
    twice."""
    month = run(seed=11, days=24, holidays=range(11, 21), step=EVERY)

    assert 1 == len(month.froze)


def test_what_turns_each_day_is_usual_though_it_never_works_again() -> None:
    """Jobs on new instances do so, and would freeze everything each day. A patient attacker has as
    much."""
    hour, rule = hour_of(NOW), Breaker()
    before = {hour - timedelta(days=day): HourCount(9 + day) for day in (1, 2, 3)}
    most = int(12 * rule.hub_times_the_usual)

    assert why_freeze_everything(Hub({**before, hour: HourCount(most)}), NOW, rule) is None
    assert why_freeze_everything(Hub({**before, hour: HourCount(most + 1)}), NOW, rule) is not None


def test_a_true_outage_among_office_hours_is_caught() -> None:
    """In the second week, at 11 in the morning, all agents publish zeros."""
    noon = START + timedelta(days=8, hours=11)
    month = run(
        seed=2,
        days=9,
        extra=[(number, (noon, noon + timedelta(days=1))) for number in range(INSTANCES)],
    )

    assert JOBS < INSTANCES
    assert any(noon <= at <= noon + timedelta(hours=1) for at in month.froze)
