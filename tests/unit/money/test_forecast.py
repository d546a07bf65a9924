"""Forecasts of a month by past weeks: what is constant stays so, and parts add up."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from governor.alerts.model import UNASSIGNED
from governor.fleet.model import DayCosts, Share
from governor.money.rules.cost import DAY, UNTAGGED, cost_between, month_end, month_start
from governor.money.rules.forecast import PAST, by_day, forecast

START = datetime(2023, 2, 1, tzinfo=UTC)
MOMENTS = st.timedeltas(timedelta(0), timedelta(days=2_500)).map(START.__add__)
USD = st.decimals("0.01", "100000", places=2)
WEEK = timedelta(weeks=1)
CENT = Decimal("0.01")


def days_before(now: datetime, weeks: int, *usd: Decimal) -> dict[date, Decimal]:
    """Costs of so many whole weeks before today; the amounts are those of the days in turn, the
    last last."""
    return {now.date() - DAY * (n + 1): usd[-1 - n % len(usd)] for n in range(7 * weeks)}


@given(MOMENTS, USD)
def test_the_forecast_of_a_constant_is_the_constant(now: datetime, usd: Decimal) -> None:
    """Every day of the month costs the same, in leap years and months of any length, without any
    error."""
    spent = cost_between(usd / 24, month_start(now), now)
    found = forecast(spent, days_before(now, 6, usd), now)

    length = (month_end(now) - month_start(now)).days
    assert found is not None
    assert (usd * length).quantize(CENT) == found.usd.quantize(CENT)
    assert Decimal(0) == found.error_percent


@given(MOMENTS, st.lists(USD, min_size=7, max_size=7), USD)
def test_a_week_that_comes_again_is_forecast_day_by_day(
    now: datetime, week: list[Decimal], spent: Decimal
) -> None:
    """The sum of the spent, the rest of today, and each following day as its weekday."""
    days = days_before(now, 6, *week)
    found = forecast(spent, days, now)

    midnight = datetime.combine(now.date(), datetime.min.time(), UTC)
    parts: list[Decimal] = [spent, cost_between(days[now.date() - WEEK] / 24, now, midnight + DAY)]
    at = midnight + DAY
    while at < month_end(now):
        parts.append(days[at.date() - WEEK * ((at.date() - now.date()).days // 7 + 1)])
        at += DAY
    assert found is not None
    assert sum(parts, Decimal(0)).quantize(CENT) == found.usd.quantize(CENT)


@given(MOMENTS, st.lists(USD, min_size=14, max_size=42), st.lists(USD, min_size=42, max_size=42))
def test_only_the_last_six_weeks_before_today_count(
    now: datetime, mine: list[Decimal], other: list[Decimal]
) -> None:
    """And a forecast never falls below what is spent."""
    days = days_before(now, 6, *mine)
    found = forecast(mine[0], days, now)
    later = {now.date() + DAY * n: usd for n, usd in enumerate(other)}
    older = {now.date() - PAST - DAY * (n + 1): usd for n, usd in enumerate(other)}

    assert found is not None
    assert found.usd >= mine[0]
    assert found == forecast(mine[0], {**older, **days, **later}, now)


def test_under_two_weeks_of_days_nothing_is_known() -> None:
    """A forecast says how well it has done, which takes one week to learn from and one to check."""
    now = datetime(2028, 2, 29, 12, tzinfo=UTC)
    whole = days_before(now, 2, Decimal(10))
    short = {day: usd for day, usd in whole.items() if day > min(whole)}

    assert forecast(Decimal(0), short, now) is None
    assert forecast(Decimal(0), {}, now) is None
    assert forecast(Decimal(280), whole, now) == (Decimal(285), Decimal(0))


def test_the_rule_counts_that_missed_the_past_weeks_by_less() -> None:
    """Daily growth goes on as yesterday; rest at weekends does not, and its error says so."""
    monday = datetime(2026, 11, 23, tzinfo=UTC)
    grows = {
        day: Decimal(100 + n) for n, day in enumerate(sorted(days_before(monday, 6, Decimal(1))))
    }
    rests = days_before(monday, 6, *map(Decimal, (100, 100, 100, 100, 100, 0, 0)))
    by_growth, by_week = forecast(Decimal(0), grows, monday), forecast(Decimal(0), rests, monday)

    assert by_growth is not None
    assert Decimal(141 * 8) == by_growth.usd
    assert 0 < by_growth.error_percent < 5
    assert (Decimal(600), Decimal(0)) == by_week


def test_a_week_that_cost_nothing_is_missed_by_all_or_nothing() -> None:
    """No division by zero: a project that stopped is forecast to cost no more."""
    now = datetime(2026, 11, 23, 12, tzinfo=UTC)
    days = {now.date() - DAY * n: Decimal(50) for n in range(36, 43)}

    assert (Decimal(7), Decimal(0)) == forecast(Decimal(7), days, now)


def test_costs_of_a_project_are_those_of_all_its_owners_and_targets() -> None:
    """And those without a project have a name in meters that they have not in days."""
    day = date(2026, 11, 20)
    one = DayCosts(
        day, "1", "a", {("ada", "llm"): Share(Decimal(1)), ("bob", "llm"): Share(idle=Decimal(2))}
    )
    two = DayCosts(
        day, "1", "b", {("ada", "llm"): Share(Decimal(4)), ("ada", UNASSIGNED): Share(Decimal(8))}
    )

    assert ({day: Decimal(7)}, {day: Decimal(8)}) == (
        by_day([one, two], "llm"),
        by_day([one, two], UNTAGGED),
    )
