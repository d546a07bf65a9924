"""When a question may start and an action go on: the window, its holes, its end, and released
memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governor.alerts.model import AlertKind
from governor.core.errors import MetricsLate
from governor.core.units import span
from governor.episode.model.episode import Outcome
from governor.episode.model.plan import Step
from governor.evidence.model import GpuReadings
from governor.evidence.rules.series import window_before
from governor.policy.model.acting import ApprovalRule
from governor.policy.model.judging import IdleRule, Metrics
from governor.policy.model.policy import Mode, Policy
from governor.verdict.model import VerdictKind
from governor.verdict.rules.judging import Memory, Subject
from tests.builders import NOW, TARGET, make_evidence, make_instance
from tests.properties import examples
from tests.unit.worlds.builders import opener, ref_of, stored_episode
from tests.unit.worlds.fleet_world import UTILIZATION, FleetWorld
from tests.unit.worlds.world import World

MEMORY = "nvidia_smi_memory_used"
A10G_MIB = 22888
HOURS_5 = 60
"""Bins of five minutes."""


def fleet(
    readings: Sequence[float | None], policy: Policy | None = None, **changes: Any
) -> FleetWorld:
    """One instance with exactly these readings up to now; its CPU and network are quiet."""
    world = FleetWorld(policy or Policy(mode=Mode.ASK))
    name = world.add(1, **changes)
    world.metrics.publish(UTILIZATION, {"InstanceId": name}, readings)
    for metric in ("CPUUtilization", "NetworkIn", "NetworkOut"):
        world.metrics.publish(metric, {"InstanceId": name}, [1.0] * 300)
    return world


def holding(world: FleetWorld, *percent: float | None) -> FleetWorld:
    """The same with so much GPU memory held in the newest bins."""
    (name,) = world.ec2.instances
    world.metrics.period = timedelta(minutes=5)
    mib = [None if one is None else one * A10G_MIB / 100 for one in percent]
    world.metrics.publish(MEMORY, {"InstanceId": name}, mib)
    return world


def idle_bins(bins: int) -> list[float]:
    """Work before, idle for so many bins."""
    return [90.0] * (300 - bins) + [1.0] * bins


def with_hole(start: int, length: int) -> list[float | None]:
    """Five idle hours with a hole; `start` counts bins back from now."""
    readings: list[float | None] = [1.0] * HOURS_5
    for index in range(HOURS_5 - start, min(HOURS_5, HOURS_5 - start + length)):
        readings[index] = None
    return readings


def may_ask(readings: Sequence[float | None]) -> bool:
    """The rule in plain words, for three hours of five-minute bins."""
    window = list(readings[-36:])
    runs = "".join("." if value is None else "x" for value in window)
    covered = len(window) - runs.count(".") >= 0.8 * 36
    recent = sum(value is not None for value in window[-12:]) >= 0.8 * 12
    return covered and recent and "...." not in runs and runs.endswith("xx")


@pytest.mark.parametrize(("bins", "asks"), [(12, 0), (35, 0), (36, 1), (60, 1)])
def test_an_idle_instance_is_asked_about_after_three_hours(bins: int, asks: int) -> None:
    """It is idle after one: tagged, shown and counted."""
    world = fleet(idle_bins(bins))
    summary = world.sweep()

    assert ({"idle": 1}, asks) == (dict(summary.verdicts), summary.episodes_started)
    assert ["set_tags"] == [call for call, *_ in world.ec2.calls]


def test_work_three_hours_ago_is_waited_out_without_reading_again() -> None:
    """The longer window is read again when it can be complete."""
    world = fleet(idle_bins(24))
    world.sweep()
    world.metrics.publish(
        UTILIZATION, {"InstanceId": next(iter(world.ec2.instances))}, idle_bins(60)
    )
    world.metrics.reads.clear()

    assert 0 == world.sweep(5).episodes_started
    assert 6 == len(world.metrics.reads)
    assert 1 == world.sweep(60).episodes_started


@settings(max_examples=examples(25, 500), deadline=None)
@given(st.integers(1, 40), st.integers(1, 40))
def test_holes_of_every_length_and_place_at_the_sweep(start: int, length: int) -> None:
    """No question rests on what nobody measured."""
    readings = with_hole(start, length)
    assert may_ask(readings) == bool(fleet(readings).sweep().episodes_started)


@settings(max_examples=examples(25, 500), deadline=None)
@given(st.integers(1, 40), st.integers(1, 40))
def test_holes_of_every_length_and_place_at_the_recheck(start: int, length: int) -> None:
    """Nor does an action."""
    world = World()
    readings = with_hole(start, length)
    world.metrics.publish(UTILIZATION, {"InstanceId": world.instance.instance_id}, readings)
    try:
        proceeds = world.recheck(world.ref, Step.STOP).proceed
    except MetricsLate:
        proceeds = False
        assert readings[-1] is None or readings[-2] is None
    window = readings[-36:]
    runs = "".join("." if value is None else "x" for value in window)
    covered = 36 - runs.count(".") >= 0.8 * 36
    assert (covered and "...." not in runs and runs.endswith("xx")) == proceeds


@pytest.mark.parametrize("window", [60, 120, 240, 720])
@pytest.mark.parametrize("mode", [Mode.ASK, Mode.AUTO, Mode.OBSERVE])
@pytest.mark.parametrize("period", [60, 300, 3600])
def test_a_silent_end_lets_nothing_through_whatever_is_set(
    window: int, mode: Mode, period: int
) -> None:
    """The newest 140 minutes are silent; before them it was idle for days."""
    metrics = Metrics(period_seconds=period, collection_interval_seconds=60)
    idle = IdleRule(window_minutes=window, minimum_coverage_percent=50)
    policy = Policy(mode=mode, metrics=metrics, idle=idle)
    silent = 140 * 60 // period
    readings: list[float | None] = [1.0] * (43_200 * 2 // period)
    world = fleet([*readings, *[None] * silent], policy)
    assert 0 == world.sweep().episodes_started

    acting = World(mode=mode)
    acting.policies.policy = replace(acting.policies.policy, metrics=metrics, idle=idle)
    own = {"InstanceId": acting.instance.instance_id}
    acting.metrics.publish(UTILIZATION, own, [*readings, *[None] * silent])
    for metric in ("CPUUtilization", "NetworkIn", "NetworkOut"):
        acting.metrics.publish(metric, own, [1.0] * 3_000)
    result = acting.recheck(acting.ref, Step.STOP)
    assert (False, Outcome.REFUSED) == (result.proceed, result.outcome)


def test_periods_of_an_hour_mark_and_never_ask() -> None:
    """Hourly readings show idleness, but not that it lasts."""
    policy = Policy(mode=Mode.AUTO, metrics=Metrics(period_seconds=3600))
    summary = fleet([1.0] * 300, policy).sweep()
    assert ({"idle": 1}, 0) == (dict(summary.verdicts), summary.episodes_started)


def test_a_late_reading_alerts_nobody_for_half_an_hour_and_then_does() -> None:
    """CloudWatch may be late; agents that died are told."""
    world = fleet([1.0] * 60)
    world.sweep()
    name = next(iter(world.ec2.instances))
    for missing, alerts in ((1, 0), (3, 0), (5, 0), (6, 1)):
        world.metrics.publish(UTILIZATION, {"InstanceId": name}, [1.0] * 60 + [None] * missing)
        assert {"no-data": 1} == dict(world.sweep(5).verdicts)
        told = [one for one in world.announcer.sent if one.kind is AlertKind.TELEMETRY_SILENT]
        assert alerts == len(told), missing


def silent_alerts(world: FleetWorld) -> int:
    """How many alerts were sent about missing metrics."""
    return sum(one.kind is AlertKind.TELEMETRY_SILENT for one in world.announcer.sent)


@pytest.mark.parametrize("every", [2, 3, 4, 5])
def test_an_agent_that_collects_too_seldom_is_not_late_for_ever(every: int) -> None:
    """The newest reading is never old, and too few of them come."""
    world = fleet([1.0] * 60)
    world.sweep()
    name = next(iter(world.ec2.instances))
    for step in range(12):
        readings = [1.0 if (index + step) % every == 0 else None for index in range(60)]
        world.metrics.publish(UTILIZATION, {"InstanceId": name}, readings)
        world.sweep(5)
    assert 1 == silent_alerts(world)


def test_readings_that_always_come_late_are_alerted_about_after_half_an_hour() -> None:
    """And counted by the breaker; a fleet that is always late proves nothing."""
    world = FleetWorld()
    names = [world.add(number, [1.0] * 60) for number in range(1, 9)]
    world.sweep()
    for name in names:
        world.publish(name, [*[1.0] * 60, None, None, None])
    frozen = [world.sweep(5).frozen for _ in range(8)]
    assert [False] * 6 + [True] * 2 == frozen


def test_a_short_outage_that_is_over_alerts_nobody_and_freezes_nothing() -> None:
    """Too little of the window was measured for a while; nothing is wrong any more."""
    world = FleetWorld()
    names = [world.add(number, [1.0] * 60) for number in range(1, 9)]
    world.sweep()
    for missing, since in [(n, 0) for n in range(1, 6)] + [(5, n) for n in range(1, 14)]:
        for name in names:
            world.publish(name, [*[1.0] * 60, *[None] * missing, *[1.0] * since])
        assert not world.sweep(5).frozen
    assert (0, "idle") == (silent_alerts(world), world.verdict(names[0]))


def test_a_window_of_ten_minutes_waits_for_late_readings_too() -> None:
    """Silence over all of it is not half an hour yet."""
    approval = ApprovalRule(ask_after_minutes=15, ask_after_released_minutes=15)
    policy = Policy(mode=Mode.ASK, idle=IdleRule(window_minutes=10), approval=approval)
    world = fleet([1.0] * 60, policy)
    world.sweep()
    name = next(iter(world.ec2.instances))
    alerts = []
    for missing in range(1, 9):
        world.metrics.publish(UTILIZATION, {"InstanceId": name}, [1.0] * 60 + [None] * missing)
        world.sweep(5)
        alerts.append(silent_alerts(world))
    assert [0] * 6 + [1] * 2 == alerts


def test_idle_time_is_never_counted_across_a_long_hole() -> None:
    """Neither in the reason nor in the memory, though the hole has left the window."""
    world = fleet(idle_bins(2))
    name = next(iter(world.ec2.instances))
    gap: list[float | None] = [*[90.0] * 200, 1.0, 1.0, *[None] * 12]
    for since in range(12, 36):
        world.metrics.publish(UTILIZATION, {"InstanceId": name}, [*gap, *[1.0] * since])
        world.sweep(5)
        seen = world.state.observations(TARGET)[name]
        assert f"Idle for {span(timedelta(minutes=5 * since))} (every GPU under 5%)." == seen.reason


def proof_of(world: FleetWorld, idle_since: datetime | None, **changes: Any) -> Memory:
    """The memory after a proof over three hours that had these flaws."""
    policy, evidence = world.policy, make_evidence()
    known = Memory(NOW - timedelta(minutes=5), VerdictKind.IDLE, idle_since=idle_since)
    window = window_before(NOW, policy.ask_window, policy.period, policy.lag)
    gpus = (GpuReadings("0", (1.0,) * window.bins),)
    longer = replace(evidence, window=window, gpus=gpus, **changes)
    subject = Subject(make_instance(), policy, NOW, memory=known)
    verdict, proof = (
        subject.after_reading(evidence),
        subject.judge_question(longer, policy.ask_window),
    )
    assert (True, False) == (verdict.is_idle, proof.is_idle)
    return subject.remembered(verdict, proof)


@pytest.mark.parametrize(
    "flaw",
    [
        {"read_problem": "Throttling"},
        {"longest_hole_minutes": {"cpu": 30.0}},
        {"measured_percent": {"cpu": 70.0, "network": 100.0}},
    ],
    ids=["throttled", "a hole of CPU", "too little CPU"],
)
def test_a_proof_that_failed_for_want_of_readings_is_tried_again_at_the_next_sweep(
    flaw: dict[str, Any],
) -> None:
    """It has shown no work, so what is known stays known."""
    for known in (NOW - timedelta(minutes=185), None):
        assert known == proof_of(FleetWorld(), known, **flaw).idle_since


def test_a_fleet_that_falls_silent_freezes_after_half_an_hour() -> None:
    """Its first half hour counts nothing, and hides nothing."""
    world = FleetWorld()
    names = [world.add(number, [90.0] * 12) for number in range(1, 9)]
    world.sweep()
    for missing, frozen in ((2, False), (4, False), (7, True)):
        for name in names:
            quiet = [1.0] * 12 + [None] * missing
            world.metrics.publish(UTILIZATION, {"InstanceId": name}, [90.0, *quiet])
        assert frozen == world.sweep(65).frozen, missing


@pytest.mark.parametrize(
    ("held", "asks"),
    [
        ((5.0,) * 3, 1),
        ((5.0, 5.0, 10.0), 0),
        ((60.0, 5.0, 5.0, 5.0), 1),
        ((5.0, None, 5.0), 0),
        ((None,) * 3, 0),
        ((), 0),
    ],
)
def test_released_memory_asks_sooner(held: tuple[float | None, ...], asks: int) -> None:
    """After 90 minutes, while every GPU holds under 10% over the newest 15 minutes; unknown is
    held."""
    world = holding(fleet(idle_bins(20)), *held)
    world.sweep()  # learns that it works no more, and since when

    assert asks == world.sweep(5).episodes_started


@pytest.mark.parametrize(
    ("mode", "on_expiry", "asks"),
    [
        (Mode.ASK, "no-action", 1),
        (Mode.OBSERVE, "no-action", 1),
        (Mode.AUTO, "no-action", 0),
        (Mode.ASK, "act", 0),
        (Mode.OBSERVE, "act", 0),
    ],
)
def test_what_is_done_unasked_never_uses_the_shortcut(
    mode: Mode, on_expiry: Any, asks: int
) -> None:
    """Neither at the sweep nor at the recheck."""
    policy = Policy(mode=mode, approval=ApprovalRule(on_expiry=on_expiry))
    world = holding(fleet(idle_bins(20), policy), *[5.0] * 60)
    world.sweep()
    assert asks == world.sweep(5).episodes_started

    acting = World(mode=mode, on_expiry=on_expiry)
    own = {"InstanceId": acting.instance.instance_id}
    acting.metrics.period = timedelta(minutes=5)
    acting.metrics.publish(UTILIZATION, own, idle_bins(20))
    acting.metrics.publish(MEMORY, own, [100.0] * 60)
    assert bool(asks) == acting.recheck(acting.ref, Step.STOP).proceed


def test_memory_that_is_held_again_stops_nothing() -> None:
    """The recheck measures it anew: a job may be loading."""
    acting = World()
    own = {"InstanceId": acting.instance.instance_id}
    acting.metrics.period = timedelta(minutes=5)
    acting.metrics.publish(UTILIZATION, own, idle_bins(20))
    acting.metrics.publish(MEMORY, own, [100.0] * 58 + [20_000.0] * 2)
    result = acting.recheck(acting.ref, Step.STOP)
    assert (False, Outcome.REFUSED) == (result.proceed, result.outcome)


def test_a_refusal_after_memory_came_back_says_so() -> None:
    """Not only that it worked some hours ago: people knew that when they were asked."""
    acting = World(evidence=make_evidence(memory_newest_percent=1.0))
    own = {"InstanceId": acting.instance.instance_id}
    acting.metrics.period = timedelta(minutes=5)
    acting.metrics.publish(UTILIZATION, own, idle_bins(20))
    acting.metrics.publish(MEMORY, own, [100.0] * 58 + [20_000.0] * 2)
    reason = acting.recheck(acting.ref, Step.STOP).reason
    assert reason.startswith(
        "GPU memory is no longer released, so 3 h of idle time is required; busy:"
    )


@pytest.mark.parametrize(
    ("bins", "memory", "reason"),
    [
        (37, 80.0, "Idle for 3 h 05 min (every GPU under 5%)."),
        (19, 5.0, "Idle for 1 h 35 min and GPU memory is released."),
    ],
)
def test_the_reason_is_one_plain_sentence(bins: int, memory: float, reason: str) -> None:
    """With the whole time that it has been idle, which the episode holds as a figure, too."""
    world = holding(fleet(idle_bins(bins)), *[memory] * 60)
    (name,) = world.ec2.instances
    opener(world)(ref_of(world, name))
    episode = stored_episode(world, ref_of(world, name))

    assert reason == episode.reason
    assert timedelta(minutes=5 * bins) == episode.measurement.idle_for


def test_a_longer_window_of_an_override_is_kept() -> None:
    """As the inference example's twelve hours, at the sweep and at the recheck."""
    policy = Policy(mode=Mode.ASK, idle=IdleRule(window_minutes=720))
    assert 0 == fleet(idle_bins(143), policy).sweep().episodes_started
    assert 1 == fleet(idle_bins(145), policy).sweep().episodes_started


def test_one_event_per_idle_stretch() -> None:
    """For machines; told again only after work."""
    world = fleet(idle_bins(20))
    name = next(iter(world.ec2.instances))

    def events() -> int:
        return sum(one.kind is AlertKind.INSTANCE_IDLE for one in world.announcer.sent)

    world.sweep()
    world.sweep(5)
    world.metrics.publish(UTILIZATION, {"InstanceId": name}, [1.0] * 60 + [None] * 2)
    world.sweep(5)
    world.metrics.publish(UTILIZATION, {"InstanceId": name}, [1.0] * 60)
    world.sweep(5)
    assert 1 == events()
    world.metrics.publish(UTILIZATION, {"InstanceId": name}, [90.0] * 60)
    world.sweep(5)
    world.metrics.publish(UTILIZATION, {"InstanceId": name}, idle_bins(12))
    world.sweep(65)
    assert 2 == events()


def test_what_an_earlier_release_called_resting_is_idle_and_not_yet_asked_about() -> None:
    """Its observations are read; those of a verdict that nobody knows are dropped."""
    for verdict in ("resting", "of-a-later-release"):
        world = fleet(idle_bins(60))
        world.sweep()
        name = next(iter(world.ec2.instances))
        seen = replace(world.state.observations(TARGET)[name], verdict=verdict, idle_since=None)
        world.state.remember(TARGET, {name: seen}, world.clock.now())
        world.workflow.executions.clear()
        assert 1 == world.sweep(5).episodes_started, verdict


def test_a_question_of_the_release_before_is_refused_while_its_proof_is_too_short() -> None:
    """It was asked after two hours; three are needed now, and the work before them is no news."""
    acting = World()
    own = {"InstanceId": acting.instance.instance_id}
    acting.metrics.publish(UTILIZATION, own, idle_bins(24))
    result = acting.recheck(acting.ref, Step.STOP)
    assert (False, Outcome.REFUSED) == (result.proceed, result.outcome)
