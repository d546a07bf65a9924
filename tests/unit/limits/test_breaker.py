"""The breaker trips on what looks like an outage, and not on a quiet evening."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest

from governor.limits.model.breaker import BreakerState, Change, HourCount, Hub, SweepDay, Turned
from governor.limits.rules.breaker import (
    HOUR,
    acts_unasked,
    are_counts_new,
    counted_by_new_freeze,
    due_message,
    history_with,
    hour_of,
    hours_around,
    is_cause_gone,
    is_freeze_over,
    is_hub_freeze_over,
    is_lifted_by_policy,
    turned_around,
    turned_in_sweep,
    why_freeze_everything,
    why_freeze_target,
)
from governor.policy.model.acting import ApprovalRule
from governor.policy.model.limits import Breaker
from governor.policy.model.policy import Mode, Policy
from governor.verdict.model import VerdictKind as Kind
from tests.builders import NOW

RULE = Breaker()
_IDS = count()


def changes(
    number: int, before: Kind | None, after: Kind, *, was_read: bool = True
) -> list[Change]:
    """So many instances that changed alike."""
    return [Change(f"i-{next(_IDS)}", before, before, after, was_read) for _ in range(number)]


def test_half_the_working_fleet_turning_idle_at_once_trips() -> None:
    """An agent that reports zeros looks like this."""
    fleet = changes(5, Kind.BUSY, Kind.IDLE) + changes(5, Kind.BUSY, Kind.BUSY)

    assert why_freeze_target(turned_in_sweep(fleet), RULE) is not None
    assert (
        why_freeze_target(turned_in_sweep(fleet + changes(1, Kind.BUSY, Kind.BUSY)), RULE) is None
    )


@pytest.mark.parametrize("after", [Kind.IDLE, Kind.MANAGED_ELSEWHERE])
def test_every_idle_verdict_counts_and_only_once(after: Kind) -> None:
    """Whoever runs the instance."""
    assert why_freeze_target(turned_in_sweep(changes(5, Kind.BUSY, after)), RULE) is not None
    assert why_freeze_target(turned_in_sweep(changes(5, Kind.FROZEN, Kind.IDLE)), RULE) is None
    assert why_freeze_target(turned_in_sweep(changes(5, after, Kind.NO_DATA)), RULE) is not None


def test_who_turned_is_known() -> None:
    """By either way; those that work on are none of them."""
    fleet = [
        Change("i-1", Kind.BUSY, Kind.BUSY, Kind.IDLE, True),
        Change("i-2", Kind.IDLE, Kind.IDLE, Kind.NO_DATA, True),
        Change("i-3", Kind.BUSY, Kind.BUSY, Kind.BUSY, True),
        Change("i-4", None, None, Kind.IDLE, True),
    ]
    assert {"i-1", "i-2"} == turned_in_sweep(fleet).turned_ids


def test_the_reason_of_a_freeze_says_of_how_many_they_turned() -> None:
    """People judge by it whether it is an outage."""
    idle = changes(5, Kind.BUSY, Kind.IDLE) + changes(3, Kind.BUSY, Kind.BUSY)
    silent = changes(6, Kind.IDLE, Kind.NO_DATA) + changes(4, Kind.IDLE, Kind.IDLE)

    assert why_freeze_target(turned_in_sweep(idle), RULE) == (
        "5 of 8 working instances turned idle in one sweep"
    )
    assert why_freeze_target(turned_in_sweep(silent), RULE) == (
        "6 of 10 instances that published metrics fell silent in one sweep"
    )


def test_what_it_turned_from_is_not_forgotten_when_a_read_fails() -> None:
    """Busy, then nothing that could be read, then zeros: it turned idle all the same."""
    turned = [Change(f"i-{n}", Kind.NO_DATA, Kind.BUSY, Kind.IDLE, True) for n in range(5)]
    assert why_freeze_target(turned_in_sweep(turned), RULE) is not None


@pytest.mark.parametrize(
    ("turned", "left", "gone"),
    [(20, 10, False), (20, 9, True), (5, 5, False), (5, 4, True), (0, 0, True), (9, 5, False)],
)
def test_the_cause_is_gone_when_most_have_worked_or_were_put_away(
    turned: int, left: int, gone: bool
) -> None:
    """By the same share, and the same least number, that trip it."""
    assert gone is is_cause_gone(turned, left, RULE)


@pytest.mark.parametrize(
    ("policy", "unasked"),
    [
        (Policy(mode=Mode.AUTO), True),
        (Policy(mode=Mode.ASK), False),
        (Policy(mode=Mode.ASK, approval=ApprovalRule(on_expiry="act")), True),
        (Policy(mode=Mode.OBSERVE, approval=ApprovalRule(on_expiry="act")), False),
    ],
)
def test_silence_that_counts_as_yes_asks_nobody(policy: Policy, unasked: bool) -> None:
    """The mode says so, or what follows when nobody answers."""
    assert unasked is acts_unasked(policy)


def test_a_handful_never_trips() -> None:
    """Four notebooks in the evening are no outage."""
    assert why_freeze_target(turned_in_sweep(changes(4, Kind.BUSY, Kind.IDLE)), RULE) is None


def test_a_first_sweep_over_a_neglected_fleet_does_not_trip() -> None:
    """Nothing turned idle: it was so before anybody looked."""
    assert why_freeze_target(turned_in_sweep(changes(50, None, Kind.IDLE)), RULE) is None


def test_silence_is_counted_among_those_that_were_read() -> None:
    """Skipped instances tell nothing about an outage."""
    silent = changes(5, Kind.BUSY, Kind.NO_DATA)
    skipped = changes(500, Kind.BUSY, Kind.BUSY, was_read=False)

    assert why_freeze_target(turned_in_sweep(silent + skipped), RULE) is not None
    assert (
        why_freeze_target(turned_in_sweep(silent + changes(6, Kind.BUSY, Kind.BUSY)), RULE) is None
    )


TODAY = NOW.date()


def days(*most: int) -> list[SweepDay]:
    """The days before today, the newest last: so many turned idle, and silent, in their largest
    sweep."""
    count = len(most)
    return [SweepDay(TODAY - timedelta(days=count - n), most[n], most[n]) for n in range(count)]


def turned(number: int, after: Kind, of: int = 200) -> str | None:
    """Return what is said when so many of a large fleet turn, after two quiet weeks whose largest
    sweep saw two."""
    fleet = changes(number, Kind.BUSY, after) + changes(of - number, Kind.BUSY, Kind.BUSY)
    return why_freeze_target(turned_in_sweep(fleet), RULE, days(0, 2, 1))


@pytest.mark.parametrize("after", [Kind.IDLE, Kind.NO_DATA])
def test_far_more_than_any_sweep_has_seen_trips_however_small_a_share(after: Kind) -> None:
    """Seven of two hundred: a rack, a proxy, a release of the agent. Six is three times two, and no
    more."""
    said = turned(7, after)

    assert said is not None
    assert said.endswith("the most in a sweep of the last 3 days was 2")
    assert turned(6, after) is None


def test_a_handful_is_never_unusual() -> None:
    """Also where nothing ever turned before."""
    fleet = changes(4, Kind.BUSY, Kind.IDLE) + changes(196, Kind.BUSY, Kind.BUSY)

    assert why_freeze_target(turned_in_sweep(fleet), RULE, days(0, 0, 0)) is None


def test_what_is_usual_in_this_fleet_trips_nothing() -> None:
    """A cluster whose forty nodes end their job together, every few days."""
    fleet = changes(40, Kind.BUSY, Kind.IDLE) + changes(160, Kind.BUSY, Kind.BUSY)

    assert why_freeze_target(turned_in_sweep(fleet), RULE, days(0, 40, 0)) is None
    assert why_freeze_target(turned_in_sweep(fleet), RULE, days(0, 1, 0)) is not None


def test_two_days_are_no_knowledge_of_a_fleet() -> None:
    """Nor is a policy that does not want it."""
    fleet = turned_in_sweep(changes(20, Kind.BUSY, Kind.IDLE) + changes(180, Kind.BUSY, Kind.BUSY))

    assert why_freeze_target(fleet, RULE, days(0, 0)) is None
    assert (
        why_freeze_target(fleet, replace(RULE, unusual_times_the_most=None), days(0, 0, 0)) is None
    )


def test_the_largest_sweep_of_each_day_is_remembered_for_two_weeks() -> None:
    """Whatever order sweeps come in; older days are forgotten."""
    history: tuple[SweepDay, ...] = ()
    for age, idle in ((20, 9), (14, 3), (0, 1), (0, 5), (0, 2)):
        sweep = turned_in_sweep(changes(idle, Kind.BUSY, Kind.IDLE))
        history = history_with(history, TODAY - timedelta(days=age), sweep)

    assert (SweepDay(TODAY - timedelta(days=14), 3, 0), SweepDay(TODAY, 5, 0)) == history


def test_a_share_is_reached_at_its_percentage_and_not_before() -> None:
    """50 of 101 are less than half; what is not known any more is no part of the whole."""
    fleet = changes(50, Kind.BUSY, Kind.IDLE) + changes(50, Kind.BUSY, Kind.BUSY)

    assert (
        why_freeze_target(turned_in_sweep([*fleet, *changes(1, Kind.BUSY, Kind.NO_DATA)]), RULE)
        is not None
    )
    assert (
        why_freeze_target(turned_in_sweep(fleet + changes(1, Kind.BUSY, Kind.BUSY)), RULE) is None
    )


def test_the_fewest_that_count_are_unusual_in_a_fleet_that_knows_its_days() -> None:
    """Five of a hundred, where one was the most."""
    history = [SweepDay((NOW - timedelta(days=day)).date(), 1, 1) for day in range(3)]

    assert why_freeze_target(Turned(100, RULE.minimum_instances, 100, 0), RULE, history) is not None
    assert why_freeze_target(Turned(100, RULE.minimum_instances - 1, 100, 0), RULE, history) is None


def test_a_day_is_remembered_by_its_largest_sweeps() -> None:
    """The largest of each kind; a day on which nothing turned is known, too."""
    today = NOW.date()
    after = history_with(history_with((), today, Turned(9, 0, 9, 4)), today, Turned(9, 3, 9, 1))

    assert (SweepDay(today, 3, 4),) == after
    assert (SweepDay(today, 0, 0),) == history_with((), today, Turned(9, 0, 9, 0))


def test_a_freeze_is_over_at_the_minute_that_the_policy_says() -> None:
    held = timedelta(minutes=RULE.hold_minutes)

    assert is_freeze_over(held, 5, 5, RULE, unasked=False)
    assert not is_freeze_over(held - timedelta(seconds=1), 5, 5, RULE, unasked=False)


THIS = hour_of(NOW)
MANY = HourCount(RULE.hub_minimum_instances * 2)


@pytest.mark.parametrize(
    ("days", "is_usual"), [(1, True), (2, True), (13, True), (14, True), (15, False)]
)
def test_everything_freezes_unless_as_many_turned_at_this_hour_of_two_weeks(
    days: int, is_usual: bool
) -> None:
    """Yesterday and the same weekday two weeks ago count, what was before does not."""
    hub = Hub({THIS: MANY, THIS - timedelta(days=days): MANY})

    assert is_usual == (why_freeze_everything(hub, NOW, RULE) is None)


def test_what_turned_counts_at_any_moment_of_its_hour() -> None:
    """A clock gives microseconds, too."""
    assert why_freeze_everything(Hub({THIS: MANY}), NOW.replace(microsecond=1), RULE) is not None


def test_a_freeze_of_everything_lasts_as_long_as_the_policy_says_at_least() -> None:
    """Also where all are back at work long before."""
    back = HourCount(MANY.turned, MANY.turned)
    hub = Hub({THIS: back}, first=NOW - timedelta(days=30))
    over_at = NOW + timedelta(minutes=RULE.hold_minutes)
    freeze = BreakerState(NOW, "why")

    assert not is_hub_freeze_over(hub, freeze, over_at - timedelta(seconds=1), RULE)
    assert is_hub_freeze_over(hub, freeze, over_at, RULE)


def test_a_freeze_of_everything_stays_while_the_counts_demand_another_one() -> None:
    """Its own instances work again; as many others have turned since. A new freeze would begin with
    the next sweep, and plans would be carried out before it."""
    back = HourCount(MANY.turned, MANY.turned)
    tripped = THIS - 8 * HOUR
    known_since = NOW - timedelta(days=30)
    freeze = BreakerState(tripped, "why")

    assert not is_hub_freeze_over(
        Hub({tripped: back, THIS: MANY}, None, known_since), freeze, NOW, RULE
    )
    assert is_hub_freeze_over(
        Hub({tripped: back, THIS: back}, None, known_since), freeze, NOW, RULE
    )


@pytest.mark.parametrize(
    ("tripped_ago", "told_ago", "number"),
    [
        (0, None, 0),
        (30, None, 0),
        (24, 23, None),
        # People were notified a little after it began.
        (25, 24, 1),
        (47, 24, 1),
        (48, 24, 2),
        (80, 30, 3),
        # The clock of the host that notified them was behind.
        (23, 24, 1),
    ],
)
def test_people_are_reminded_of_a_freeze_once_a_day(
    tripped_ago: int, told_ago: int | None, number: int | None
) -> None:
    """A reminder is never numbered as the first message, which would be dropped as its repeat."""
    told_at = None if told_ago is None else NOW - told_ago * HOUR
    assert number == due_message(BreakerState(NOW - tripped_ago * HOUR, "why", told_at), NOW)


def test_the_reason_to_freeze_everything_names_what_is_usual() -> None:
    """Nothing turned at these hours before."""
    reason = why_freeze_everything(Hub({THIS: MANY}), NOW, RULE)

    assert reason is not None
    assert reason.why.endswith("the most in the same hours of any day of the last two weeks was 0")


def test_what_turned_in_the_hour_of_a_lift_counts_on() -> None:
    """An operator lifts what was before."""
    lifted = Breaker(lift_freezes_before=THIS.isoformat())

    assert why_freeze_everything(Hub({THIS: MANY}), NOW, lifted) is not None
    assert why_freeze_everything(Hub({THIS - HOUR: MANY}), NOW, lifted) is None
    assert is_lifted_by_policy(BreakerState(THIS - timedelta(seconds=1), "why"), lifted, NOW)
    assert not is_lifted_by_policy(BreakerState(THIS, "why"), lifted, NOW)


def test_of_a_freeze_the_larger_count_is_told() -> None:
    """More may turn after it began; of those that were forgotten since, it keeps the number."""
    hub = Hub({THIS: HourCount(20, 8)})

    assert (20, 12) == turned_around(hub, BreakerState(NOW, "why", turned=5))
    assert (30, 12) == turned_around(hub, BreakerState(NOW, "why", turned=30))


def test_what_turned_in_two_days_is_new_and_then_known() -> None:
    """To the second: one day of counts is no habit."""
    assert are_counts_new(Hub(first=NOW - timedelta(days=2, seconds=-1)), NOW)
    assert not are_counts_new(Hub(first=NOW - timedelta(days=2)), NOW)


def test_a_freeze_is_about_the_hours_of_its_window_and_two_more() -> None:
    """Eleven before the one in which it tripped."""
    hour = hour_of(NOW)
    hub = Hub({hour + timedelta(hours=number): HourCount(1) for number in range(-20, 20)})
    found = hours_around(hub, BreakerState(hour + timedelta(minutes=59), "why"))
    assert [hour + timedelta(hours=number) for number in range(-11, 3)] == found


def test_what_a_new_freeze_would_count_are_those_of_twelve_hours_who_have_not_worked_since() -> (
    None
):
    hour = hour_of(NOW)
    counts = {number: HourCount(3, 3 if number == -4 else 1) for number in range(-20, 3)}
    hub = Hub({hour + timedelta(hours=number): one for number, one in counts.items()})
    wanted = {hour + timedelta(hours=number): 2 for number in range(-11, 1) if number != -4}
    assert wanted == counted_by_new_freeze(hub, hour + timedelta(minutes=59))
