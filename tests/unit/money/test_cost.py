"""Costs of projects: every hour counted once, for the right month, at the right price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.alerts.model import UNASSIGNED
from governor.core.instance import Lifecycle
from governor.episode.model.episode import Observation
from governor.episode.model.plan import Price
from governor.fleet.model import AMOUNTS, DayCosts, Payer, Share
from governor.money.rules.cost import (
    UNTAGGED,
    Meter,
    Rate,
    Run,
    costs_of,
    counted_up_to,
    ended_runs,
    marginal_price,
    month_end,
    month_of,
    month_start,
    new_meter,
    parse_month,
    shares_by_day,
    with_rates,
)
from tests.builders import TARGET, make_instance

START = datetime(2026, 11, 1, tzinfo=UTC)
END = datetime(2026, 12, 1, tzinfo=UTC)
LLM = Rate("llm", Decimal("21.9576"))
TINY = Decimal("1e-18")
"""The error of a division that was rounded at its 28th digit."""
MINUTES = st.integers(min_value=-60 * 24 * 10, max_value=60 * 24 * 40)
moments = MINUTES.map(lambda minutes: START + timedelta(minutes=minutes))
rates = st.builds(
    Rate,
    st.sampled_from(["llm", "vision"]),
    st.none() | st.decimals("0", "200", places=4, allow_nan=False),
)


def at(day: int, hour: float = 0) -> datetime:
    """A moment of November."""
    return START + timedelta(days=day - 1, hours=hour)


def run(start: datetime, end: datetime, rate: Rate = LLM) -> Run:
    """Make a run of project llm."""
    return Run(rate, start, end)


def seen(launched: datetime, when: datetime, **changes: Any) -> Observation:
    """By the last sweep, at work for llm."""
    plain = Observation(launched, "busy", when, project="llm", usd_per_hour=Decimal(10))
    return replace(plain, **changes)


def total(meter: Meter) -> tuple[Decimal, Decimal]:
    """USD and unpriced hours of all projects."""
    return sum(meter.usd.values(), Decimal(0)), sum(meter.unpriced_hours.values(), Decimal(0))


def runs_of(spans: Sequence[tuple[Rate, datetime, datetime]]) -> list[Run]:
    """Runs from unordered pairs of moments."""
    return [Run(rate, min(a, b), max(a, b)) for rate, a, b in spans]


@given(
    spans=st.lists(st.tuples(rates, moments, moments), max_size=6),
    sweeps=st.lists(moments, min_size=1, max_size=8),
)
def test_however_often_it_is_counted_every_hour_counts_once(
    spans: list[tuple[Rate, datetime, datetime]], sweeps: list[datetime]
) -> None:
    """Many sweeps, missed ones, repeated ones and ones out of order come to what one sweep
    would."""
    runs = runs_of(spans)
    step_by_step = new_meter(TARGET, START)
    for moment in sweeps:
        step_by_step = counted_up_to(step_by_step, runs, moment)
    at_once = counted_up_to(new_meter(TARGET, START), runs, max(sweeps))

    assert at_once.counted_until == step_by_step.counted_until
    for one, other in zip(total(at_once), total(step_by_step), strict=True):
        assert abs(one - other) <= TINY


@given(spans=st.lists(st.tuples(rates, moments, moments), max_size=6), moment=moments)
def test_counting_again_adds_nothing_and_never_takes_away(
    spans: list[tuple[Rate, datetime, datetime]], moment: datetime
) -> None:
    """A retried sweep reads what it wrote."""
    once = counted_up_to(new_meter(TARGET, START), runs_of(spans), moment)

    assert once == counted_up_to(once, runs_of(spans), moment)
    assert all(amount >= 0 for amount in total(once))
    assert START <= once.counted_until <= END


@given(spans=st.lists(st.tuples(rates, moments, moments), max_size=6))
def test_months_split_what_runs_across_them(spans: list[tuple[Rate, datetime, datetime]]) -> None:
    """October, November and December together are the whole, and no hour is in two of them."""
    runs = runs_of(spans)
    far = START + timedelta(days=80)
    months = [new_meter(TARGET, START + timedelta(days=days)) for days in (-1, 0, 35, 65)]
    counted = [counted_up_to(meter, runs, far) for meter in months]
    hours = sum(
        (r.end - max(r.start, START - timedelta(days=31))).total_seconds() / 3600 for r in runs
    )
    free = [Run(Rate("all", Decimal(1)), r.start, r.end) for r in runs]
    as_hours = sum(float(total(counted_up_to(meter, free, far))[0]) for meter in months)

    assert pytest.approx(hours) == as_hours
    assert ["2026-10", "2026-11", "2026-12", "2027-01"] == [meter.month for meter in counted]


def test_an_amount_is_hours_times_price() -> None:
    """Ninety minutes of a p4d at its list price, to the last digit."""
    counted = counted_up_to(new_meter(TARGET, START), [run(at(3), at(3, 1.5))], at(4))

    assert {"llm": Decimal("32.93640")} == counted.usd


def test_an_unknown_price_is_hours_and_never_zero() -> None:
    """It is in no amount, and it is not forgotten."""
    counted = counted_up_to(
        new_meter(TARGET, START), [run(at(3), at(3, 2), Rate("llm", None))], at(4)
    )

    assert ({}, {"llm": Decimal(2)}) == (counted.usd, counted.unpriced_hours)


def test_a_change_of_price_counts_from_the_next_sweep_on() -> None:
    """Counted hours stay as they were."""
    meter = counted_up_to(
        new_meter(TARGET, START), [run(at(2), at(2, 1), Rate("llm", Decimal(10)))], at(2, 1)
    )
    meter = counted_up_to(meter, [run(at(2), at(2, 2), Rate("llm", Decimal(4)))], at(2, 2))

    assert {"llm": Decimal(14)} == meter.usd


def test_what_was_started_anew_ran_before_as_well() -> None:
    """Its first run ended somewhere between the sweep and the new start: half way."""
    before = {"i-1": seen(at(2), at(5, 10))}

    (found,) = ended_runs(before, {"i-1": at(5, 11)}, at(5, 10), at(5, 12))

    assert (at(2), at(5, 10.5)) == (found.start, found.end)


def test_what_is_gone_is_counted_half_way_to_now() -> None:
    """When it stopped is not known; on average that is right."""
    (found,) = ended_runs({"i-1": seen(at(2), at(5, 10))}, {}, at(5, 10), at(5, 14))

    assert (Rate("llm", Decimal(10), part="used"), at(5, 12)) == (found.rate, found.end)


@pytest.mark.parametrize(
    "observation",
    [
        seen(at(2), at(5, 10)),
        seen(at(3), at(5, 8)),
        seen(at(3), at(5, 10), project=None),
    ],
    ids=[
        "still runs",
        "counted by a sweep that could not remember",
        "seen by one that counted nothing",
    ],
)
def test_what_must_not_be_counted_as_ended(observation: Observation) -> None:
    """Each of these would be counted twice, or at a price that nobody knows."""
    assert [] == list(ended_runs({"i-1": observation}, {"i-1": at(2)}, at(5, 10), at(5, 12)))


def test_what_runs_has_run_since_its_last_start() -> None:
    """A stop between two sweeps is not paid for."""
    found = Run(LLM, at(5, 9), at(5, 10))

    counted = counted_up_to(
        replace(new_meter(TARGET, START), counted_until=at(5, 8)), [found], at(5, 10)
    )

    assert {"llm": Decimal("21.9576")} == counted.usd


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, Decimal("1.006")),
        ({"lifecycle": Lifecycle.SPOT}, Decimal("1.006")),
        ({"capacity_reservation_id": "cr-1"}, Decimal("1.006")),
        ({"lifecycle": Lifecycle.CAPACITY_BLOCK, "capacity_reservation_id": "cr-1"}, Decimal(0)),
        ({"lifecycle": Lifecycle.SCHEDULED}, Decimal(0)),
        ({"host_id": "h-1"}, Decimal(0)),
    ],
)
def test_only_what_an_hour_adds_to_the_bill_is_counted(
    changes: dict[str, Any], wanted: Decimal
) -> None:
    """Capacity that was paid for in advance costs nothing more by being used."""
    price = Price(Decimal("1.006"), "list price")

    assert wanted == marginal_price(make_instance(**changes), price).usd_per_hour


def test_prepaid_capacity_needs_no_price() -> None:
    """And what needs one and has none is unknown."""
    unknown = Price(None, "no list price")

    assert (
        Decimal(0)
        == marginal_price(make_instance(lifecycle=Lifecycle.CAPACITY_BLOCK), unknown).usd_per_hour
    )
    assert marginal_price(make_instance(), unknown).usd_per_hour is None


def test_projects_are_summed_over_targets_the_dearest_first() -> None:
    """With what each account and Region has to do with it."""
    there = replace(TARGET, region="eu-west-1")
    here = with_rates(
        replace(new_meter(TARGET, START), usd={"llm": Decimal(3), "vision": Decimal(9)}), [LLM]
    )
    other = replace(
        new_meter(there, START),
        usd={"llm": Decimal(8)},
        unpriced_hours={"llm": Decimal(1), "x": Decimal(2)},
    )

    llm, vision, x = costs_of([here, other])

    assert ("llm", Decimal(11), Decimal(1)) == (llm.project, llm.usd, llm.unpriced_hours)
    assert ((there, Decimal(8)), (TARGET, Decimal(3))) == llm.by_target
    assert (Decimal("21.9576"), Decimal(0)) == (llm.usd_per_hour, vision.usd_per_hour)
    assert ("x", Decimal(0), ()) == (x.project, x.usd, x.by_target)


@pytest.mark.parametrize("month", ["2026-02", "2026-11", "2026-12", "2028-02"])
def test_a_month_ends_where_the_next_begins(month: str) -> None:
    """February and leap years included, in UTC whatever the moment's own zone."""
    start = parse_month(month)

    assert month_of(start) == month == month_of(month_end(start) - timedelta(microseconds=1))
    assert 1 == month_end(start).day
    assert month_end(start) == month_start(month_end(start))
    east = start.astimezone(tz=None)
    assert start == month_start(east)


owned = st.builds(
    Rate,
    st.sampled_from(["llm", UNTAGGED]),
    st.none() | st.decimals("0", "200", places=4, allow_nan=False),
    st.sampled_from(["alice", "bob"]),
    st.sampled_from(["used", "idle", "kept", "unmeasured"]),
    st.sampled_from([None, "eval", "train"]),
)


@given(
    spans=st.lists(st.tuples(owned, moments, moments), max_size=6),
    sweeps=st.lists(moments, min_size=1, max_size=8),
)
def test_days_add_up_to_the_meter_whenever_it_is_counted(
    spans: Sequence[tuple[Rate, datetime, datetime]], sweeps: Sequence[datetime]
) -> None:
    """Used, idle, kept and unmeasured together, by project; each amount rounded to a billionth of a
    USD."""
    meter, runs = new_meter(TARGET, START), runs_of(spans)
    days: dict[date, DayCosts] = {}
    amounts = 0
    for until in sorted(sweeps):
        for day, shares in shares_by_day(meter, runs, until).items():
            amounts += 4 * len(shares)
            days[day] = days.get(day, DayCosts(day, "", "")).plus(shares)
        meter = counted_up_to(meter, runs, until)

    assert all(START.date() <= day < END.date() for day in days)
    for costs in days.values():
        sums: dict[Payer, Share] = dict.fromkeys(costs.shares, Share())
        for key, share in costs.by_job():
            assert min(AMOUNTS(share)) >= 0
            sums[key.payer] += share
        assert costs.shares == sums
    for counted, shown in (("llm", "llm"), (UNTAGGED, UNASSIGNED)):
        whole = sum(
            (
                share.total
                for one in days.values()
                for (_, name), share in one.shares.items()
                if name == shown
            ),
            Decimal(0),
        )
        assert abs(whole - meter.usd.get(counted, Decimal(0))) <= amounts * Decimal("5E-10") + TINY


def test_a_day_is_split_at_midnight_utc_and_by_what_was_seen() -> None:
    """Two instances of one owner, one of them idle, over two days."""
    busy, idle = (Rate("llm", Decimal(10), "alice", part) for part in ("used", "idle"))
    runs = [run(at(3, 22), at(4, 1), busy), run(at(4), at(4, 2), idle)]

    assert {
        at(3).date(): {("alice", "llm", None): Share(used=Decimal(20))},
        at(4).date(): {("alice", "llm", None): Share(used=Decimal(10), idle=Decimal(20))},
    } == shares_by_day(new_meter(TARGET, START), runs, at(5))
