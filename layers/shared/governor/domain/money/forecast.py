"""Forecast of a month's cost at its end, by what its days (UTC) have cost in past weeks, in Decimal
USD."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from statistics import median
from typing import NamedTuple

from governor.domain.alerts.alert import UNASSIGNED
from governor.domain.fleet.rows import DayCosts
from governor.domain.money.cost import DAY, UNTAGGED, month_end
from governor.domain.units import Usd, UtcDatetime

PAST = timedelta(weeks=6)
_WEEK = timedelta(weeks=1)

Days = Mapping[date, Usd]
Rule = Callable[[Days, date, date], Usd]
"""Computes a day's expected cost, by the days before another one. A day that is not there cost
nothing."""


class Forecast(NamedTuple):
    """`error_percent`: by how much forecasts of one week, made before it, missed the past weeks
    (median)."""

    usd: Usd
    error_percent: Decimal


def by_day(costs: Iterable[DayCosts], project: str) -> dict[date, Usd]:
    """Return what the days of a project have cost, over all owners and targets."""
    name, found = UNASSIGNED if project == UNTAGGED else project, dict[date, Usd]()
    for one in costs:
        for (_, theirs), share in one.shares.items():
            if theirs == name:
                found[one.day] = found.get(one.day, Decimal(0)) + share.total
    return found


def forecast(spent: Usd, days: Days, now: UtcDatetime) -> Forecast | None:
    """Return what the month will have cost, `spent` being what it did up to now; `None` before two
    whole weeks of days are known. Of two rules the one counts that has missed this project's past
    weeks by less: the last day again, for what grows or shrinks, or the mean of the last two days
    of that weekday."""
    today = now.date()
    known = {day: usd for day, usd in days.items() if today - PAST <= day < today}
    if today - min(known, default=today) < 2 * _WEEK:
        return None
    error, rule = min(
        ((_error(one, known, today), one) for one in _RULES), key=lambda found: found[0]
    )
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    left = Decimal((midnight + DAY - now) // _MICROSECOND) / (DAY // _MICROSECOND)
    rest = rule(known, today, today) * left
    following = (month_end(now).date() - today).days
    return Forecast(
        spent + rest + sum(rule(known, today, today + DAY * n) for n in range(1, following)), error
    )


def _last_day(days: Days, before: date, _: date) -> Usd:
    return days.get(before - DAY, Decimal(0))


def _same_weekday(days: Days, before: date, day: date) -> Usd:
    last = day - _WEEK * ((day - before) // _WEEK + 1)
    found = [days.get(one, Decimal(0)) for one in (last, last - _WEEK) if one >= min(days)]
    return sum(found, Decimal(0)) / len(found)


_RULES: tuple[Rule, ...] = (_last_day, _same_weekday)
_MICROSECOND = timedelta(microseconds=1)


def _error(rule: Rule, days: Days, today: date) -> Decimal:
    """Return by how many percent the rule missed the last weeks; one that cost nothing by 100, or
    by 0."""
    missed = []
    week = today - _WEEK
    while week - _WEEK >= min(days):
        ahead = [week + DAY * number for number in range(7)]
        cost = sum((days.get(day, Decimal(0)) for day in ahead), Decimal(0))
        off = abs(sum(rule(days, week, day) for day in ahead) - cost)
        missed.append(100 * off / cost if cost else Decimal(100 if off else 0))
        week -= _WEEK
    return median(missed)
