"""The pages of projects: what each has spent of its budget this month, how much of that was idle,
and the forecast.

A budget is shown only to callers who see all of its project.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from itertools import accumulate

from governor.console.current_fleet import Row
from governor.console.page import Page, Table, ViewRequest
from governor.console.views import charts, figures
from governor.core.errors import NotFound
from governor.core.units import Usd, UtcDatetime
from governor.fleet.model import Share
from governor.money.rules import jobs
from governor.money.rules.cost import DAY, cost_between, month_end, month_of, month_start
from governor.money.rules.forecast import PAST, forecast
from governor.money.rules.jobs import CountedCost, JobCost, ProjectJobs, costs_by_job

_INSTANCES_LISTED = 25
_JOBS_LISTED = 25
_SHOWN_FROM = Decimal("0.005")
"""USD: less than that is written as 0.00."""
_COLUMNS = ("project", "instances", "usd_per_hour", "spent_usd", "idle_usd", "budget_usd")


@dataclass(frozen=True, slots=True)
class Spending:
    """A project in this month (UTC), as far as the caller sees it. `budget` is `None` unless they
    see all of the project."""

    name: str
    rows: Sequence[Row]
    days: Mapping[date, Share]
    budget: Usd | None
    before_days: Usd
    """Spent on days of the month for which only a sum is stored."""
    past: Mapping[date, Usd]
    """The cost of each day, for a forecast."""
    counted: Sequence[CountedCost]
    """The costs of `days` by job."""

    @property
    def share(self) -> Share:
        """Return what was spent on the days of the month for which costs are stored, by part: used,
        idle, kept, not measured; all zero if there are none."""
        return figures.total(list(self.days.values()))

    @property
    def spent(self) -> Usd:
        """Return the cost of the month so far, in USD, with the days for which only a sum is
        stored."""
        return self.before_days + self.share.total

    @property
    def by_job(self) -> ProjectJobs:
        """Return the cost of the month so far by job. Days for which only a sum is stored have no
        job."""
        sum_of_days = Share(unmeasured=self.before_days)
        [project_jobs] = costs_by_job(
            [*self.counted, CountedCost(self.name, None, sum_of_days, is_before_jobs=True)]
        )
        return project_jobs

    @property
    def rate(self) -> figures.Rate:
        """Return the number of the project's instances and the cost of an hour of them."""
        return figures.rate(self.rows)

    def if_it_runs_on(self, now: UtcDatetime) -> Usd:
        """Return the cost of the whole month, in USD, if everything that runs now keeps running."""
        return self.spent + cost_between(self.rate.usd_per_hour, now, month_end(now))

    def runs_out_at(self, now: UtcDatetime) -> UtcDatetime | None:
        """Return when the budget is used up if everything that runs now keeps running: `now` if it
        is used up already. Return `None` if there is no budget, or it lasts this month."""
        if self.budget is None or self.if_it_runs_on(now) <= self.budget:
            return None
        left = max(Decimal(0), self.budget - self.spent)
        if not left:
            return now
        return now + timedelta(seconds=int(left * 3600 / self.rate.usd_per_hour))


def projects(request: ViewRequest) -> Page:
    """Return the page of all projects of which the caller sees anything, the one that spent most
    this month first. Raises: CloudError."""
    spendings = sorted(_spending(request, timedelta(0)), key=_most_spent_first)
    table = Table("projects", _COLUMNS, tuple(map(_cells, spendings)))
    return Page(
        title="Projects",
        template="projects.html",
        values={"projects": spendings},
        document={"month": month_of(request.now), "projects": table.documents},
        tables=(table,),
    )


def _most_spent_first(spending: Spending) -> tuple[Usd, str]:
    """Return a sort key: the highest cost first, then by name."""
    return -spending.spent, spending.name


def _cells(spending: Spending) -> tuple[object, ...]:
    """Return the cells of one project, in the order of `_COLUMNS`."""
    return (
        spending.name,
        len(spending.rows),
        spending.rate.usd_per_hour,
        spending.spent,
        spending.share.idle,
        spending.budget,
    )


def project(request: ViewRequest) -> Page:
    """Return the page of the project that the query names. Raises: NotFound for a project of which
    the caller sees nothing; CloudError."""
    now = request.now
    spending = _spending_of(request, request.query["name"])
    rows = figures.by_price(spending.rows)
    idle_rows = [(row, page) for row, page in rows if row.is_idle]
    stopped_rows: list[Row] = []
    for row, page in figures.by_price(request.stopped):
        if row.project == spending.name:
            stopped_rows.append((row, page))
    days = figures.days_between(month_start(now).date(), (month_end(now) - DAY).date())
    days_so_far = [day for day in days if day <= now.date()]
    spent = [spending.days.get(day, Share()).total for day in days_so_far]
    sums = list(accumulate(spent, initial=spending.before_days))[1:]
    runs_out_at = spending.runs_out_at(now)
    by_past = forecast(spending.spent, spending.past, now)
    questions = _questions_of(request, spending.name)
    by_job = spending.by_job
    day_documents = []
    for day, amount in zip(days_so_far, spent, strict=True):
        day_documents.append({"day": day, "spent_usd": amount})
    return Page(
        title=spending.name,
        template="project.html",
        values={
            "project": spending,
            "idle": figures.rate(idle_rows),
            "runs_out": runs_out_at,
            "by_past": by_past,
            "chart": charts.lines(days, [("this-month", sums)], spending.budget),
            "by_job": by_job,
            "job_lines": _job_lines(by_job),
            "lines": figures.lines(request, rows[:_INSTANCES_LISTED]),
            "stopped": figures.rate(stopped_rows),
            "stopped_lines": figures.lines(request, stopped_rows[:_INSTANCES_LISTED]),
            "questions": questions,
            "days": _day_lines(spending, days_so_far),
        },
        document={
            "project": spending.name,
            "month": month_of(now),
            "spent_usd": spending.spent,
            "idle_usd": spending.share.idle,
            "budget_usd": spending.budget,
            "runs_out_at": runs_out_at,
            "flat_forecast_usd": spending.if_it_runs_on(now),
            "forecast_usd": by_past and by_past.usd,
            "forecast_error_percent": by_past and by_past.error_percent,
            "fleet": spending.rate,
            "idle": figures.rate(idle_rows),
            "stopped": figures.rate(stopped_rows),
            "days": day_documents,
            "jobs": by_job.document["jobs"],
        },
        tables=(
            figures.table(request, "instances", [*rows, *stopped_rows]),
            Table("jobs", jobs.COLUMNS, jobs.rows_of([by_job], month_start(now), now)),
        ),
    )


def _job_lines(by_job: ProjectJobs) -> list[JobCost]:
    """Return the rows of the table of jobs: the most expensive jobs, one row for the sum of the
    jobs after them, and the costs without a job. They add up to the cost of the project. Empty if
    no instance of the project names a job."""
    if not by_job.names_a_job:
        return []
    return list(by_job.shortened(_JOBS_LISTED))


def _day_lines(spending: Spending, days: Sequence[date]) -> list[tuple[str, Usd, Usd | None]]:
    """Return a line for each of these days on which anything was spent, the newest first: the day,
    and what was spent and was idle. Earlier days of which only a sum is stored are one line at the
    end if it is more than 0.00, with `None` as idle, because that is not known."""
    lines: list[tuple[str, Usd, Usd | None]] = []
    for day in reversed(days):
        share = spending.days.get(day, Share())
        if share.total:
            lines.append((charts.day_text(day), share.total, share.idle))
    if spending.before_days >= _SHOWN_FROM:
        lines.append(("earlier days", spending.before_days, None))
    return lines


def _questions_of(request: ViewRequest, name: str) -> list[Row]:
    """Return the caller's instances of a project that have an open question, the most expensive
    first; empty if there are none. Raises: CloudError."""
    return [(row, page) for row, page in figures.questions(request) if row.project == name]


def _spending_of(request: ViewRequest, name: str) -> Spending:
    """Return what the project of this name spent this month, and by day for a forecast. Raises:
    NotFound for a project of which the caller sees nothing; CloudError."""
    for spending in _spending(request, PAST):
        if spending.name == name:
            return spending
    raise NotFound("there is no such project")


def _spending(request: ViewRequest, past: timedelta) -> list[Spending]:
    """Return each project of which the caller sees an instance, or a cost since the month began or
    within the `past` until now, whichever is longer; in any order, empty if there are none. Raises:
    CloudError."""
    month_begins = month_start(request.now).date()
    first_day = min(month_begins, (request.now - past).date())
    rows_by_project: dict[str, list[Row]] = defaultdict(list)
    for row, page in request.running:
        rows_by_project[row.project].append((row, page))
    stopped_in = {row.project for row, _ in request.stopped}
    shares_by_project: dict[str, dict[date, list[Share]]] = defaultdict(lambda: defaultdict(list))
    counted_by_project: dict[str, list[CountedCost]] = defaultdict(list)
    for day, cost in figures.counted(request, first_day, request.now.date()):
        shares_by_project[cost.project][day].append(cost.share)
        if day >= month_begins:
            counted_by_project[cost.project].append(cost)
    metered_by_project = _metered(request)
    spendings = []
    for name in rows_by_project.keys() | shares_by_project.keys() | stopped_in:
        share_by_day = {day: figures.total(parts) for day, parts in shares_by_project[name].items()}
        days_of_month = {day: share for day, share in share_by_day.items() if day >= month_begins}
        budget = None
        before_days = Decimal(0)
        if request.scope.everything or name in request.scope.projects:
            budget = request.reader.policy.budget.of(name)
            # The month's sum is older than its days if days began to be stored within the month.
            counted = figures.total(list(days_of_month.values())).total
            before_days = max(Decimal(0), metered_by_project[name] - counted)
        spendings.append(
            Spending(
                name=name,
                rows=rows_by_project[name],
                days=days_of_month,
                budget=budget,
                before_days=before_days,
                past={day: share.total for day, share in share_by_day.items()},
                counted=counted_by_project[name],
            )
        )
    return spendings


def _metered(request: ViewRequest) -> Mapping[str, Usd]:
    """Return the stored cost of this month by project, of everybody's instances; 0 for a project
    without one. Show it only to callers who see all of the project. Raises: CloudError."""
    metered: dict[str, Usd] = defaultdict(Decimal)
    for meter in request.reader.ledger_store.meters(month_of(request.now)):
        for name, usd in meter.usd.items():
            metered[name] += usd
    return metered
