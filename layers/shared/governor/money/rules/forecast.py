"""Forecasts a month's cost from the cost of single days (UTC) in past weeks, in Decimal USD.

A forecast is for messages and pages; no action follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from statistics import median
from typing import NamedTuple

from governor.alerts.model import UNASSIGNED
from governor.core.units import Usd, UtcDatetime
from governor.fleet.model import DayCosts
from governor.money.rules.cost import DAY, UNTAGGED, month_end

PAST = timedelta(weeks=6)
"""How far back days are used."""
_WEEK = timedelta(weeks=1)

Days = Mapping[date, Usd]
Rule = Callable[[Days, date, date], Usd]
"""A rule takes the known days, a day `before`, and a day to forecast. It returns the expected cost
of the latter by days earlier than `before`. A day that is missing cost nothing."""


class Forecast(NamedTuple):
    """The cost of a month at its end."""

    usd: Usd
    error_percent: Decimal
    """The median error of the same rule for past weeks, each forecast from the days before it."""


def by_day(costs: Iterable[DayCosts], project: str) -> dict[date, Usd]:
    """Return the cost of a project by day (UTC), over all owners and targets. Days without cost are
    missing. `untagged` stands for instances without a project."""
    name = UNASSIGNED if project == UNTAGGED else project
    usd_by_day: dict[date, Usd] = {}
    for day_costs in costs:
        for (_, share_project), share in day_costs.shares.items():
            if share_project == name:
                usd = usd_by_day.get(day_costs.day, Decimal(0))
                usd_by_day[day_costs.day] = usd + share.total
    return usd_by_day


def forecast(spent: Usd, days: Days, now: UtcDatetime) -> Forecast | None:
    """Return what this month will cost at its end; `spent` is its cost up to now, and `days` are
    the costs of past days. Return `None` until two whole weeks of days are known.

    The forecast uses the rule that was closer in this project's past weeks: either each day costs
    as much as the last day (for costs that grow or shrink), or as much as the mean of the last two
    days of the same weekday.
    """
    today = now.date()
    known_days = {day: usd for day, usd in days.items() if today - PAST <= day < today}
    if today - min(known_days, default=today) < 2 * _WEEK:
        return None
    error, rule = _best_rule(known_days, today)

    # The rest of today, then the whole days that are left of the month.
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    part_left = Decimal((midnight + DAY - now) // _MICROSECOND) / (DAY // _MICROSECOND)
    usd = spent + rule(known_days, today, today) * part_left
    days_left = (month_end(now).date() - today).days
    usd += sum(rule(known_days, today, today + DAY * number) for number in range(1, days_left))
    return Forecast(usd, error)


def _best_rule(days: Days, today: date) -> tuple[Decimal, Rule]:
    """Return the smallest error of a rule in past weeks, in percent, and that rule; the first of
    two with the same error. At least two weeks of `days` must be known."""
    errors = [(_error(rule, days, today), rule) for rule in _RULES]
    return min(errors, key=lambda error_and_rule: error_and_rule[0])


def _last_day(days: Days, before: date, _: date) -> Usd:
    """Return the cost of the day before `before`, whatever day is forecast; 0 if it is missing."""
    return days.get(before - DAY, Decimal(0))


def _same_weekday(days: Days, before: date, day: date) -> Usd:
    """Return the mean cost of the last two days before `before` with the weekday of `day`; the cost
    of one of them if only one is known. At least a week of `days` before `before` must be known."""
    last = day - _WEEK * ((day - before) // _WEEK + 1)
    first_known = min(days)
    same_weekdays = [weekday for weekday in (last, last - _WEEK) if weekday >= first_known]
    costs = [days.get(weekday, Decimal(0)) for weekday in same_weekdays]
    return sum(costs, Decimal(0)) / len(costs)


_RULES: tuple[Rule, ...] = (_last_day, _same_weekday)
_MICROSECOND = timedelta(microseconds=1)


def _error(rule: Rule, days: Days, today: date) -> Decimal:
    """Return the median error of the rule in the past weeks, each forecast from the days before it,
    in percent of the week's cost. At least two weeks of `days` must be known; a day that is missing
    cost nothing.

    For a week that cost nothing the error is 100, or 0 if the rule expected nothing.
    """
    errors = []
    week_start = today - _WEEK
    first_known = min(days)
    while week_start - _WEEK >= first_known:
        week_days = [week_start + DAY * number for number in range(7)]
        actual = sum((days.get(day, Decimal(0)) for day in week_days), Decimal(0))
        expected = sum(rule(days, week_start, day) for day in week_days)
        missed_by = abs(expected - actual)
        if actual:
            errors.append(100 * missed_by / actual)
        else:
            errors.append(Decimal(100 if missed_by else 0))
        week_start -= _WEEK
    return median(errors)
