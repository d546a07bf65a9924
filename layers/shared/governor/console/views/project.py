"""Projects: what each has spent of its budget this month, how much of that was idle, and what
runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from itertools import accumulate

from governor.console.page import Asked, Page, Row, Table
from governor.console.views import charts, figures
from governor.domain.fleet.rows import Share
from governor.domain.money.cost import DAY, cost_between, month_end, month_of, month_start
from governor.domain.money.forecast import PAST, forecast
from governor.domain.sweep.verdict import Family
from governor.domain.units import Usd, UtcDatetime
from governor.errors import NotFound

_LISTED = 25
_COLUMNS = ("project", "instances", "usd_per_hour", "spent_usd", "idle_usd", "budget_usd")


@dataclass(frozen=True, slots=True)
class Spending:
    """A project in this month (UTC), as far as the caller sees it. `budget` only where they see all
    of it."""

    name: str
    rows: Sequence[Row]
    days: Mapping[date, Share]
    budget: Usd | None
    before_days: Usd
    """Spent in days of the month of which only the sum is stored."""
    past: Mapping[date, Usd]
    """Return the costs of its days, for a forecast."""

    @property
    def share(self) -> Share:
        return figures.total(list(self.days.values()))

    @property
    def spent(self) -> Usd:
        return self.before_days + self.share.total

    @property
    def rate(self) -> figures.Rate:
        return figures.rate(self.rows)

    def if_it_runs_on(self, now: UtcDatetime) -> Usd:
        """Return what the month will have cost if what runs now runs on."""
        return self.spent + cost_between(self.rate.usd_per_hour, now, month_end(now))

    def runs_out_at(self, now: UtcDatetime) -> UtcDatetime | None:
        """Return when the budget is used up, if what runs now runs on; `None` if not in this
        month."""
        if self.budget is None or self.if_it_runs_on(now) <= self.budget:
            return None
        left = max(Decimal(0), self.budget - self.spent)
        return now + timedelta(seconds=int(left * 3600 / self.rate.usd_per_hour)) if left else now


def projects(ask: Asked) -> Page:
    found = sorted(_spending(ask, timedelta(0)), key=lambda one: (-one.spent, one.name))
    table = Table("projects", _COLUMNS, tuple(map(_cells, found)))
    return Page(
        title="Projects",
        template="projects.html",
        values={"projects": found},
        document={"month": month_of(ask.now), "projects": table.documents},
        tables=(table,),
    )


def _cells(one: Spending) -> tuple[object, ...]:
    return one.name, len(one.rows), one.rate.usd_per_hour, one.spent, one.share.idle, one.budget


def project(ask: Asked) -> Page:
    """Raises: NotFound for a project of which the caller sees nothing."""
    now, name = ask.now, ask.query["name"]
    found = next((one for one in _spending(ask, PAST) if one.name == name), None)
    if found is None:
        raise NotFound("there is no such project")
    rows = figures.by_price(found.rows)
    idle = [one for one in rows if figures.family_of(one[0]) is Family.IDLE]
    days = figures.days_between(month_start(now).date(), (month_end(now) - DAY).date())
    spent = [found.days.get(day, Share()).total for day in days if day <= now.date()]
    sums = list(accumulate(spent, initial=found.before_days))[1:]
    runs_out, by_past = found.runs_out_at(now), forecast(found.spent, found.past, now)
    return Page(
        title=found.name,
        template="project.html",
        values={
            "project": found,
            "idle": figures.rate(idle),
            "runs_out": runs_out,
            "by_past": by_past,
            "chart": charts.lines(days, [("this-month", sums)], found.budget),
            "lines": figures.lines(ask, rows[:_LISTED]),
            "questions": [one for one in figures.questions(ask) if one[0].project == name],
        },
        document={
            "project": found.name,
            "month": month_of(now),
            "spent_usd": found.spent,
            "idle_usd": found.share.idle,
            "budget_usd": found.budget,
            "runs_out_at": runs_out,
            "flat_forecast_usd": found.if_it_runs_on(now),
            "forecast_usd": by_past and by_past.usd,
            "forecast_error_percent": by_past and by_past.error_percent,
            "fleet": found.rate,
            "idle": figures.rate(idle),
            "days": [
                {"day": day, "spent_usd": amount} for day, amount in zip(days, spent, strict=False)
            ],
        },
        tables=(figures.table("instances", rows),),
    )


def _spending(ask: Asked, past: timedelta) -> list[Spending]:
    """Return all projects of which the caller sees an instance, or a cost of this month or of that
    time."""
    scope, now = ask.scope, ask.now
    first = month_start(now).date()
    rows: dict[str, list[Row]] = defaultdict(list)
    days: dict[str, dict[date, list[Share]]] = defaultdict(lambda: defaultdict(list))
    for one in ask.seen:
        rows[one[0].project].append(one)
    for day, name, share in figures.shares(ask, min(first, (now - past).date()), now.date()):
        days[name][day].append(share)
    metered: dict[str, Usd] = defaultdict(Decimal)
    for meter in ask.reader.state.meters(month_of(now)):
        for name, usd in meter.usd.items():
            metered[name] += usd
    found = []
    for name in rows.keys() | days.keys():
        is_whole = scope.everything or name in scope.projects
        every = {day: figures.total(parts) for day, parts in days[name].items()}
        by_day = {day: share for day, share in every.items() if day >= first}
        counted = figures.total(list(by_day.values())).total
        # A month's meter is older than its days where these began to be stored within the month.
        before = max(Decimal(0), metered[name] - counted) if is_whole else Decimal(0)
        budget = ask.reader.policy.budget.of(name) if is_whole else None
        totals = {day: share.total for day, share in every.items()}
        found.append(Spending(name, rows[name], by_day, budget, before, totals))
    return found
