"""A replay does what the product would have done: asks when it proves idleness, stops after a
second look."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.core.instance import Protection, Shape
from governor.evidence.gather_evidence import GatherEvidence
from governor.evidence.model import Evidence, MetricSource
from governor.evidence.request import EvidenceRequest
from governor.policy.model.acting import Action, ApprovalRule, PlanRule
from governor.policy.model.contacts import Contact, Ownership, Weekday
from governor.policy.model.judging import IdleRule
from governor.policy.model.policy import Mode, Policy
from governor.verdict.model import NO_HOLD, VerdictKind
from governor.verdict.rules.judge import is_candidate, judge
from governor.verdict.rules.judging import Subject, wanted_figures
from governor.verdict.rules.vetoes import activity
from simulation.outcome import Ending, InstanceResult
from simulation.recording import PERIOD, RecordedMetrics, Recording, highest
from simulation.replay import ReplayError
from tests.builders import make_instance
from tests.unit.simulation.builders import (
    BUSY,
    HOLE,
    HOUR,
    IDLE,
    SHAPE,
    START,
    at,
    bins,
    by_window,
    make_recording,
    run,
    with_memory,
)

LAG = timedelta(minutes=5)
"""The policy's two minutes, on a grid of five."""
DELAY = timedelta(minutes=30)


def only(recording: Recording, policy: Policy | None = None) -> InstanceResult:
    """Return what became of the one instance."""
    return run(recording, policy=policy).results[0]


def test_idleness_is_asked_about_when_the_window_proves_it_and_stopped_after_the_answer() -> None:
    """Asked after the window and the lag, stopped after the delay, saved until work resumes."""
    result = only(make_recording(bins((BUSY, 2), (IDLE, 10), (BUSY, 2))))

    (event,) = result.events
    assert at(3) + LAG == event.found_at
    assert Ending.STOPPED is event.ending
    assert event.stop is not None
    assert (at(3) + LAG + DELAY, at(12), True) == (
        event.stop.at,
        event.stop.until,
        event.stop.hit_work,
    )
    assert timedelta(hours=10) == result.idle
    assert timedelta(hours=10) - event.stop.length == result.idle_left


def test_what_is_saved_is_net_of_the_storage_that_stays() -> None:
    """A volume is billed before and after; the snapshot comes on top of it."""
    (event,) = only(make_recording(bins((BUSY, 2), (IDLE, 10), (BUSY, 1)))).events

    assert event.stop is not None
    hours = Decimal(event.stop.length // timedelta(minutes=5)) / HOUR
    snapshot = Decimal(100) * Decimal("0.05") / 730
    assert (Decimal(1) - snapshot) * hours == pytest.approx(event.stop.usd)


def test_an_unpriced_stop_saves_an_unknown_amount() -> None:
    """Unknown is never booked as zero."""
    (event,) = only(make_recording(bins((IDLE, 6)), price=None)).events
    assert event.stop is not None
    assert event.stop.usd is None


def test_work_before_the_answer_ends_the_question() -> None:
    """Nothing is stopped, and the next idleness is asked about anew."""
    result = only(make_recording(bins((BUSY, 1), (IDLE, 1.4), (BUSY, 1), (IDLE, 3))))
    assert [Ending.WOKE_UP, Ending.STOPPED] == [event.ending for event in result.events]


def test_the_second_look_sees_work_that_began_in_the_last_minutes() -> None:
    """The five minutes that the window leaves out are looked at before the act."""
    asked = 1 + 1 + 5 / 60
    result = only(make_recording(bins((BUSY, 1), (IDLE, asked + 0.5 - 1 - 5 / 60), (BUSY, 1))))
    assert [Ending.WOKE_UP] == [event.ending for event in result.events]


def test_a_stop_at_the_very_moment_work_begins_is_a_hit_that_saves_nothing() -> None:
    """Work that begins after the second look cannot be seen by it."""
    (event,) = only(make_recording(bins((BUSY, 1), (IDLE, 1 + 35 / 60), (BUSY, 1)))).events
    assert event.stop is not None
    assert (timedelta(0), True) == (event.stop.length, event.stop.hit_work)


def test_missing_readings_are_never_idle() -> None:
    """A silent agent on a running instance: no question, and hours without data."""
    quiet = bins((BUSY, 1), (HOLE, 6))
    result = only(make_recording(quiet, cpu=[1.0] * len(quiet)))
    assert () == result.events
    assert (
        timedelta(hours=5) == result.no_data
    )  # six, less the hour in which the window still holds work
    assert timedelta(0) == result.idle


def test_an_instance_that_others_put_away_is_not_our_saving() -> None:
    """The saving ends where the record shows that nothing ran, and no work was hit."""
    (event,) = only(make_recording(bins((BUSY, 1), (IDLE, 4), (HOLE, 5)))).events
    assert event.stop is not None
    assert (at(5), False) == (event.stop.until, event.stop.hit_work)


def test_an_instance_that_is_started_again_gets_its_grace() -> None:
    """After a hole in everything it is young: no question before grace and window have passed."""
    policy = by_window(idle=IdleRule(grace_after_launch_minutes=180))
    result = only(make_recording(bins((BUSY, 1), (HOLE, 2), (IDLE, 6))), policy)
    assert at(6) == result.events[0].found_at


def test_what_was_stopped_is_young_again_when_work_resumes() -> None:
    """The restart hides what came before it."""
    policy = by_window(idle=IdleRule(grace_after_launch_minutes=180))
    result = only(make_recording(bins((IDLE, 6), (BUSY, 0.5), (IDLE, 6))), policy)
    assert [at(1) - PERIOD, at(9)] == [event.found_at for event in result.events]


def test_quiet_hours_hold_the_question_back() -> None:
    """The delay counts from the sending; what resumes before that asks nobody."""
    contact = Contact(
        emails=("a@example.com",),
        working_days=tuple(Weekday),
        working_from="09:00",
        working_until="17:00",
    )
    policy = by_window(ownership=Ownership(contacts={"a": contact}, default_contacts=("a",)))
    result = only(make_recording(bins((IDLE, 6), (BUSY, 1), (IDLE, 6))), policy)
    assert [None, at(9)] == [event.sent_at for event in result.events]
    assert [Ending.WOKE_UP, Ending.STOPPED] == [event.ending for event in result.events]


def test_an_answer_that_comes_too_late_stops_nothing() -> None:
    """It expires, and the same idleness is not asked about again for a day."""
    rule = ApprovalRule(remind_after_minutes=10, escalate_after_minutes=10, expire_after_minutes=5)
    result = only(make_recording(bins((IDLE, 20))), by_window(approval=rule))
    assert [Ending.EXPIRED] == [event.ending for event in result.events]


def test_an_expiry_may_act_where_the_policy_says_so() -> None:
    """Never where local disks would be wiped unasked."""
    rule = ApprovalRule(
        remind_after_minutes=10, escalate_after_minutes=10, expire_after_minutes=5, on_expiry="act"
    )
    diskless = replace(SHAPE, local_nvme=None)
    (acted,) = only(
        make_recording(bins((IDLE, 20)), shape=diskless), by_window(approval=rule)
    ).events
    (kept,) = only(make_recording(bins((IDLE, 20))), by_window(approval=rule)).events
    assert (Ending.STOPPED, Ending.EXPIRED) == (acted.ending, kept.ending)
    # Refused answers are known five minutes later.
    assert timedelta(minutes=25 + 5) == acted.ended_at - acted.found_at
    assert timedelta(minutes=25) == kept.ended_at - kept.found_at


def test_silence_while_asked_refuses_the_act_and_is_quiet_for_a_day() -> None:
    """The second look needs readings, too."""
    past = bins((BUSY, 1), (IDLE, 1.25), (HOLE, 2), (IDLE, 25))
    result = only(make_recording(past, cpu=[1.0] * len(past)))
    first, second = result.events
    assert (Ending.REFUSED, None) == (first.ending, first.stop)
    assert timedelta(hours=24) == second.found_at - first.ended_at


@pytest.mark.parametrize(
    ("past", "ending"),
    [
        (bins((BUSY, 1), (IDLE, 1.25), (HOLE, 2), (BUSY, 1)), Ending.GONE),
        (bins((IDLE, 1.25)), Ending.OPEN),
    ],
    ids=["put away by others", "end of the record"],
)
def test_a_question_nobody_needs_to_answer_any_more_is_closed(
    past: list[float], ending: Ending
) -> None:
    """It was asked, and nothing was stopped."""
    (event,) = only(make_recording(past)).events
    assert (ending, None) == (event.ending, event.stop)
    assert event.sent_at is not None


def test_auto_acts_after_its_notice_and_asks_nobody() -> None:
    """Only where nothing local is lost; else it asks. Work that comes back in the notice keeps
    it."""
    diskless = replace(SHAPE, local_nvme=None)
    policy = by_window(mode=Mode.AUTO, approval=ApprovalRule(notice_minutes=90.0))
    (acted,) = only(make_recording(bins((IDLE, 6)), shape=diskless), policy).events
    (asked,) = only(make_recording(bins((IDLE, 6))), policy).events
    (woken,) = only(make_recording(bins((IDLE, 2), (BUSY, 4)), shape=diskless), policy).events
    assert acted.stop is not None
    # Whether the page was down, so that nobody could hold it, is known five minutes after the
    # notice.
    assert (None, acted.found_at + timedelta(minutes=90 + 5)) == (acted.sent_at, acted.stop.at)
    assert acted.stop.at + acted.stop.length == at(6)
    usd = (
        (Decimal(1) - Decimal(100) * Decimal("0.05") / 730)
        * (acted.stop.length // timedelta(minutes=5))
        / HOUR
    )
    assert usd == pytest.approx(acted.stop.usd)
    assert asked.found_at == asked.sent_at
    assert (Ending.WOKE_UP, None) == (woken.ending, woken.stop)


@pytest.mark.parametrize(
    "changes",
    [
        {"protection": Protection(stop=True)},
        {"instance": make_instance(tags={"aws:autoscaling:groupName": "g"})},
        {"policy": by_window(plan=PlanRule(action=Action.NOTIFY_ONLY))},
    ],
    ids=["protected", "managed", "notify-only"],
)
def test_what_cannot_be_stopped_is_told_once_a_day(changes: dict[str, Any]) -> None:
    """Told, nobody asked, nothing saved."""
    policy = changes.pop("policy", None)
    events = only(make_recording(bins((IDLE, 30)), **changes), policy).events
    assert [Ending.TOLD] * 2 == [event.ending for event in events]
    assert timedelta(hours=24) == events[1].found_at - events[0].found_at


def test_the_breaker_freezes_when_most_of_the_fleet_turns_idle_at_once() -> None:
    """A metrics outage looks like that; after the hold people are asked."""
    fleet = [
        make_recording(
            bins((BUSY, 3), (IDLE, 9)), instance=make_instance(instance_id=f"i-{n:017x}")
        )
        for n in range(6)
    ]
    together = run(*fleet)
    alone = run(fleet[0])
    assert (1, 0) == (together.freezes, alone.freezes)
    assert at(4) + LAG == alone.results[0].events[0].found_at
    assert {at(7) + LAG} == {result.events[0].found_at for result in together.results}


def fleet_of(*pasts: list[float]) -> list[Recording]:
    """Instances without local disks, so that mode `auto` asks nobody."""
    diskless = replace(SHAPE, local_nvme=None)
    return [
        make_recording(past, shape=diskless, instance=make_instance(instance_id=f"i-{number:017x}"))
        for number, past in enumerate(pasts)
    ]


def test_where_nobody_is_asked_a_freeze_does_not_end_by_time_alone() -> None:
    """That all turned at once is seen before any of them can be acted on."""
    policy = Policy(mode=Mode.AUTO)
    found = run(*fleet_of(*[bins((BUSY, 3), (IDLE, 30))] * 6), policy=policy)
    assert (1, []) == (
        found.freezes,
        [event for result in found.results for event in result.events],
    )


def test_a_freeze_ends_when_most_of_those_that_turned_have_worked() -> None:
    """The one that was forgotten is acted on."""
    policy = Policy(mode=Mode.AUTO)
    pasts = [bins((BUSY, 3), (IDLE, 5), (BUSY, 10))] * 9 + [bins((BUSY, 3), (IDLE, 15))]
    found = run(*fleet_of(*pasts), policy=policy)
    assert (1, [0] * 9 + [1]) == (found.freezes, [len(result.events) for result in found.results])


def test_a_freeze_refuses_what_was_approved_before() -> None:
    """An approval that comes while plans are frozen stops nothing."""
    pasts = [bins((BUSY, 1), (IDLE, 11))] + [bins((BUSY, 2), (IDLE, 10))] * 6
    fleet = [
        make_recording(past, instance=make_instance(instance_id=f"i-{number:017x}"))
        for number, past in enumerate(pasts)
    ]
    found = run(*fleet, delay=timedelta(hours=3))
    (event,) = found.results[0].events
    assert (1, Ending.REFUSED, "plans were frozen") == (found.freezes, event.ending, event.reason)


def test_pauses_are_not_idle_hours() -> None:
    """Only stretches of an hour and more are counted."""
    result = only(make_recording(bins((BUSY, 1), (IDLE, 55 / 60), (BUSY, 1), (IDLE, 1), (BUSY, 1))))
    assert (timedelta(hours=1), timedelta(hours=1)) == (result.idle, result.idle_left)


@pytest.mark.parametrize(("minutes", "soon"), [(60, True), (65, False)])
def test_work_within_the_hour_makes_a_false_stop(minutes: int, soon: bool) -> None:
    """To the minute, as in the product's ledger."""
    (event,) = only(
        make_recording(bins((BUSY, 1), (IDLE, 1 + (35 + minutes) / 60), (BUSY, 1)))
    ).events
    assert event.stop is not None
    assert soon == event.stop.is_hit_soon


def test_those_that_work_on_count_for_the_breaker() -> None:
    """A quarter of the fleet going home is no outage, whether or not the others were read in that
    sweep."""
    pasts = [bins((BUSY, 3), (IDLE, 9))] * 6 + [bins((BUSY, 12))] * 18
    fleet = [
        make_recording(past, instance=make_instance(instance_id=f"i-{number:017x}"))
        for number, past in enumerate(pasts)
    ]
    assert 0 == run(*fleet).freezes


def test_work_ends_the_quiet() -> None:
    """People are notified again when it rests anew."""
    policy = by_window(plan=PlanRule(action=Action.NOTIFY_ONLY))
    events = only(make_recording(bins((IDLE, 5), (BUSY, 1), (IDLE, 5))), policy).events
    assert [Ending.TOLD] * 2 == [event.ending for event in events]


def test_a_start_that_ec2_knows_of_is_a_start_however_short_the_stop_was() -> None:
    """The grace counts from it."""
    policy = by_window(idle=IdleRule(grace_after_launch_minutes=180))
    restarted = make_instance(launch_time=at(2))
    result = only(make_recording(bins((BUSY, 1), (IDLE, 10)), instance=restarted), policy)
    assert at(5) == result.events[0].found_at


def test_a_hole_of_ten_minutes_is_no_stop() -> None:
    """No instance is stopped and started in that time; one of a quarter of an hour is."""
    policy = by_window(idle=IdleRule(grace_after_launch_minutes=180))
    short, longer = (
        only(
            make_recording(bins((BUSY, 1), (IDLE, 0.5), (HOLE, hole / 60), (IDLE, 10))), policy
        ).events[0]
        for hole in (10, 15)
    )
    assert at(2) + LAG == short.found_at
    assert at(1.5) + timedelta(minutes=15 + 180) == longer.found_at


def test_one_busy_gpu_keeps_the_instance() -> None:
    """Series by GPU are judged as the product judges them."""
    idle, busy = bins((IDLE, 6)), bins((BUSY, 6))
    plain = make_recording(busy)
    ((name, _, statistic), *others) = plain.series
    owner = ("InstanceId", plain.instance.instance_id)
    sets = tuple((owner, ("index", str(gpu))) for gpu in range(2))
    series = {key: plain.series[key] for key in others}
    series |= {
        (name, one, statistic): values.__class__("d", readings)
        for one, readings, values in zip(
            sets, (idle, busy), [plain.figures.by_name["cpu"]] * 2, strict=True
        )
    }
    shape = Shape("g5.xlarge", "NVIDIA A10G", 2, 22888, 300)
    recording = replace(plain, series=series, sets=sets, source=MetricSource.PER_GPU, shape=shape)
    assert () == only(recording).events


@pytest.mark.parametrize(
    "policy",
    [
        by_window(metrics=replace(Policy().metrics, period_seconds=3600)),
        by_window(
            metrics=replace(Policy().metrics, period_seconds=60), idle=IdleRule(window_minutes=61)
        ),
    ],
    ids=["period", "window"],
)
def test_what_five_minute_data_cannot_answer_is_refused(policy: Policy) -> None:
    """Said with the setting's name."""
    with pytest.raises(ReplayError, match=r"metrics\.period_seconds|idle\.window_minutes"):
        run(make_recording(bins((IDLE, 2))), policy=policy)


# what was not measured


def two_gpus(first: Sequence[float], second: Sequence[float]) -> Recording:
    """Published GPU by GPU."""
    shape = replace(SHAPE, accelerator_count=2)
    instance = make_instance(launch_time=START - timedelta(days=30))
    names = by_window().metrics
    sets = tuple((("InstanceId", instance.instance_id), ("index", str(gpu))) for gpu in range(2))
    busiest = highest([array("d", first), array("d", second)], len(first))
    recording = make_recording(busiest, instance=instance, shape=shape, cpu=[1.0] * len(first))
    series = {key: one for key, one in recording.series.items() if key[0] != names.utilization}
    for one, values in zip(sets, (first, second), strict=True):
        series[names.utilization, one, "Maximum"] = array("d", values)
    return replace(recording, sets=sets, source=MetricSource.PER_GPU, series=series)


def test_idle_hours_are_those_in_which_every_gpu_was_measured() -> None:
    """One that falls silent, or writes what measures nothing, may work; back again, they count."""
    for silence in (HOLE, -1.0):
        quiet = bins((IDLE, 12))
        result = only(two_gpus(quiet, bins((IDLE, 4), (silence, 5), (IDLE, 3))))
        assert timedelta(hours=7) == result.idle
    assert timedelta(0) == only(two_gpus(quiet, bins((HOLE, 12)))).idle


def test_a_gpu_that_never_publishes_leaves_no_idle_hours() -> None:
    """Three exist, two are seen."""
    quiet = bins((IDLE, 12))
    recording = two_gpus(quiet, quiet)
    assert timedelta(hours=12) == only(recording).idle
    assert timedelta(0) == only(replace(recording, shape=replace(SHAPE, accelerator_count=3))).idle


def test_an_instance_that_published_nothing_is_hours_without_data() -> None:
    """From its launch on: before it, nobody knows whether it ran."""
    silent = make_recording(bins((HOLE, 12)))
    assert (timedelta(hours=12), True) == (only(silent).no_data, silent.is_silent)
    later = make_instance(launch_time=START + timedelta(hours=9))
    assert timedelta(hours=3) == only(make_recording(bins((HOLE, 12)), instance=later)).no_data
    assert not make_recording(bins((HOLE, 11), (IDLE, 1))).is_silent


def test_released_memory_brings_the_question_forward() -> None:
    """After 90 minutes instead of 180 by default, once the newest 15 minutes show it."""
    past = bins((BUSY, 1), (IDLE, 6))
    for memory, hours in (
        ([60.0] * 84, 3),
        ([60.0] * 12 + [2.0] * 72, 1.5),
        ([60.0] * 36 + [2.0] * 48, 2.25),
        ([60.0] * 12 + [HOLE] * 72, 3),
    ):
        (event,) = only(with_memory(make_recording(past), memory), Policy()).events
        assert at(1 + hours) + LAG == event.found_at


def test_late_readings_hold_the_stop_and_end_it_after_half_an_hour() -> None:
    """The recheck waits for them; when they do not come, nothing is stopped."""
    past = bins((BUSY, 1), (IDLE, 4 / 3), (HOLE, 1 / 6), (IDLE, 3))
    (event,) = only(make_recording(past, cpu=[1.0] * len(past))).events
    assert event.stop is not None
    assert event.found_at + DELAY + timedelta(minutes=10) == event.stop.at
    silent = bins((BUSY, 1), (IDLE, 4 / 3), (HOLE, 3))
    (refused,) = only(make_recording(silent, cpu=[1.0] * len(silent))).events
    assert (Ending.REFUSED, None) == (refused.ending, refused.stop)
    assert refused.ended_at - at(1 + 4 / 3) == timedelta(minutes=35)


def test_a_question_knows_whether_it_was_wrong() -> None:
    """Work within the hour after it; without an hour left, nobody knows."""
    for hours, wrong in ((0.5, True), (0.9, True), (1, False), (8, False)):
        past = bins((BUSY, 1), (IDLE, 1 + 5 / 60 + hours), (BUSY, 1))
        (event,) = only(make_recording(past)).events
        assert wrong is event.is_wrong
    (late,) = only(make_recording(bins((BUSY, 1), (IDLE, 1.75)))).events
    assert late.is_wrong is None
    (enough,) = only(make_recording(bins((BUSY, 1), (IDLE, 3)))).events
    assert enough.is_wrong is False


# properties

VALUES = st.sampled_from([IDLE, IDLE, IDLE, BUSY, HOLE])
PASTS = st.lists(st.tuples(VALUES, st.integers(1, 30)), min_size=1, max_size=12).map(
    lambda parts: [value for value, count in parts for _ in range(count)]
)
GAPLESS = st.lists(
    st.tuples(st.sampled_from([IDLE, IDLE, BUSY]), st.integers(1, 40)), min_size=1, max_size=12
).map(lambda parts: [value for value, count in parts for _ in range(count)])


def first_proved(recording: Recording, policy: Policy) -> int | None:
    """The first sweep that proves a question when every sweep reads and judges in full."""
    metrics = RecordedMetrics([recording])
    gather = GatherEvidence(metrics, lambda _: recording.shape)
    start, end = recording.runs[0]
    instance = recording.instance
    if start:
        instance = replace(instance, launch_time=recording.time(start))
    for index in range(start + 1, end):
        now = recording.time(index)

        def read(length: timedelta, now: datetime = now) -> Evidence:
            figures = wanted_figures(policy) | {"memory"}
            request = EvidenceRequest(
                instance,
                policy,
                search=False,
                figures=figures,
                only_if=is_candidate,
                length=length,
            )
            return gather(instance.target, [request], now)[instance.instance_id].evidence

        if judge(
            instance, NO_HOLD, read(policy.window), policy, now
        ).kind is VerdictKind.IDLE and any(
            Subject(instance, policy, now).judge_question(read(window), window).kind
            is VerdictKind.IDLE
            for window in (policy.ask_window, policy.released_window)
        ):
            return index
    return None


@given(
    past=PASTS,
    asks=st.sampled_from([(30, 30, 30), (60, 60, 60), (60, 90, 60), (60, 180, 90), (120, 180, 90)]),
    held=st.lists(
        st.tuples(st.sampled_from([2.0, 2.0, 60.0, HOLE]), st.integers(1, 60)), min_size=1
    ),
)
def test_a_question_comes_when_it_is_proved_and_never_before(
    past: list[float], asks: tuple[int, int, int], held: list[tuple[float, int]]
) -> None:
    """As in a replay that reads and judges in full every five minutes, while memory comes and goes.

    After a hole it may come later: a sweep that cannot prove it waits until the hole has left the
    window.
    """
    window, wait, sooner = asks
    rule = ApprovalRule(ask_after_minutes=wait, ask_after_released_minutes=sooner)
    policy = Policy(idle=IdleRule(window_minutes=window), approval=rule)
    past = [BUSY, *past]
    memory = [value for value, count in held for _ in range(count)]
    memory = (memory * (len(past) // len(memory) + 1))[: len(past)]
    recording = with_memory(make_recording(past, shape=replace(SHAPE, local_nvme=None)), memory)
    start, stop = recording.runs[0]
    end = recording.time(stop)
    expected = first_proved(recording, policy)
    found = [event.found_at for event in only(recording, policy).events if event.found_at < end]
    if expected is None:
        assert [] == found
    elif any(value != value for value in past[start:stop]):
        assert all(recording.time(expected) <= one for one in found)
    # What worked in the last minutes is found idle by its window and given up by the second look.
    elif recording.activity(policy).find(1, expected - 1, expected) < 0:
        assert recording.time(expected) == found[0]


@given(past=GAPLESS, loose=st.sampled_from([30, 60, 90]), longer=st.sampled_from([5, 60, 240]))
def test_a_longer_window_never_stops_for_more_hours(
    past: list[float], loose: int, longer: int
) -> None:
    """True of gapless readings, and of a grace that fits into the window.

    Not true in general: after a recheck without data a day of quiet begins, and a grace longer than
    the window, or a breaker that trips, may hold back the looser policy in a place where the
    stricter one, which has not stopped (and restarted) anything, goes on.
    """
    recording = make_recording(past)
    hours = []
    for window in (loose, loose + longer):
        policy = by_window(idle=IdleRule(window_minutes=window))
        stops = [event.stop for event in only(recording, policy).events if event.stop]
        hours.append(sum((stop.length for stop in stops), timedelta(0)))
    assert hours[1] <= hours[0]


@given(past=PASTS)
def test_time_is_stopped_idle_or_worked_and_never_twice(past: list[float]) -> None:
    """Stops do not overlap, and what is left idle is never more than what was idle."""
    result = only(make_recording(past))
    stops = [event.stop for event in result.events if event.stop]
    assert all(a.until <= b.at for a, b in pairwise(stops))
    assert timedelta(0) <= result.idle_left <= result.idle
    assert all(stop.length >= timedelta(0) for stop in stops)


@given(
    value=st.sampled_from([0.0, 4.9, 5.0, 80.0, HOLE]), cpu=st.sampled_from([0.0, 29.9, 30.0, HOLE])
)
def test_activity_is_the_product_s_own(value: float, cpu: float) -> None:
    """The short form for looking ahead agrees with `verdict.rules.vetoes.activity` on every
    bin."""
    recording = make_recording([value], cpu=[cpu])
    policy = by_window()
    request = EvidenceRequest(
        recording.instance, policy, search=False, figures=wanted_figures(policy)
    )
    answer = RecordedMetrics([recording])
    newest = replace(policy, metrics=replace(policy.metrics, lag_seconds=0))
    one_bin = replace(request, policy=newest, length=timedelta(minutes=5))
    gathered = GatherEvidence(answer, lambda _: recording.shape)(
        recording.instance.target, [one_bin], recording.span.end
    )
    evidence = gathered[recording.instance.instance_id].evidence
    assert (activity(evidence, policy) is not None) == bool(recording.activity(policy)[0])


@given(past=PASTS, window=st.sampled_from([30, 60]), seed=st.integers(0, 9))
def test_what_is_known_to_stay_so_is_not_judged_again(
    past: list[float], window: int, seed: int
) -> None:
    """Announced idleness and silence: a replay that reads it every time finds the same."""
    chance = Random(seed)
    other = [value if chance.random() < 0.95 else HOLE for value in past]
    recordings = [
        two_gpus(past, other),
        make_recording(other, instance=make_instance(instance_id="i-2")),
    ]
    policy = by_window(idle=IdleRule(window_minutes=window))
    found = run(*recordings, policy=policy, delay=timedelta(hours=4))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simulation.replay._known", lambda *_: None)
        slow = run(*recordings, policy=policy, delay=timedelta(hours=4))
    assert slow == found
