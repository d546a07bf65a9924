"""Messages about budgets, and the weekly and monthly reports of costs and savings.

This module only words figures that the rules of this room have computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import NamedTuple

from governor.alerts.model import EVERYWHERE, UNASSIGNED, Alert, Owner
from governor.alerts.templates import alert_from_template
from governor.core.documents import plain
from governor.core.hashing import short_hash
from governor.core.instance import Target
from governor.core.units import (
    Usd,
    UtcDatetime,
    daily_cost,
    listed,
    money,
    not_none,
    plural,
    usd,
)
from governor.fleet.model import FleetRow
from governor.fleet.rules.kept import KeptList
from governor.money.model.found import FoundWaste
from governor.money.rules.cost import DAY, UNTAGGED, ProjectCost, cost_between, month_end, month_of
from governor.money.rules.forecast import Forecast
from governor.money.rules.jobs import ProjectJobs
from governor.money.rules.ledger import PROVISIONAL, net_by_day
from governor.money.rules.report import GROUPS, GroupSum, Report
from governor.verdict.model import Family, known_kind, partly_idle_text

SEE_ALSO = (
    "The Savings page of the console lists every action, and so does this command: governor report"
)
"""The sentence of a report that names where its actions are listed."""
_MOST_NAMED = 5
"""Targets, or groups, named in the text, those with the most USD first."""
_PROJECTS_BY_JOB = 5
"""Projects whose jobs are in the text, the most expensive first."""
_LEAST_USED = 3
"""Instances with low utilization named in the text."""


def used_percent(cost: ProjectCost, budget: Usd) -> Decimal:
    """Return how much of its budget a project has used, in percent; above 100 if it is exceeded.
    `budget` is above 0."""
    return 100 * cost.usd / budget


def budget_id(cost: ProjectCost, budget: Usd, at_percent: float, now: UtcDatetime) -> str:
    """Return the id of the message that a budget is used to `at_percent`: one for each project,
    month, budget and percentage, as `budget-2026-11-` and a hash."""
    return f"budget-{month_of(now)}-{short_hash(cost.project, str(budget), str(at_percent))}"


def budget_alert(
    cost: ProjectCost,
    budget: Usd,
    at_percent: float,
    hub: Target,
    now: UtcDatetime,
    owner: Owner,
    forecast: Forecast | None,
    running: Sequence[FleetRow] = (),
    *,
    asks: bool = False,
) -> Alert:
    """Return the message that a project has used `at_percent` of its monthly budget, over all
    targets.

    `budget` is above 0. `owner` is the project's owner, with the project, or the owner of instances
    without a project. `forecast` is that by past days; `None` if there are too few. `running` are
    the project's instances. `asks` is true if people are asked about idle ones because of the
    budget.
    """
    words = {
        **_whose_budget(cost),
        **_budget_words(cost, budget, now),
        "error": None if forecast is None else money(forecast.error_percent, 0),
        "asks": asks,
        "least_used": least_used(running),
    }
    facts = _budget_facts(cost, budget, at_percent, now, forecast)
    dedup_id = budget_id(cost, budget, at_percent, now)
    return alert_from_template("budget", hub, dedup_id, now, facts, words, owner=owner)


def _budget_facts(
    cost: ProjectCost, budget: Usd, at_percent: float, now: UtcDatetime, forecast: Forecast | None
) -> dict[str, object]:
    """Return the exact figures of a message about a budget, for machines and for the template."""
    forecast_usd: Usd | None = None
    forecast_error: Decimal | None = None
    if forecast is not None:
        forecast_usd = forecast.usd
        forecast_error = forecast.error_percent
    return {
        EVERYWHERE: True,
        "month": month_of(now),
        "usd": cost.usd,
        "budget_usd": budget,
        "reached_percent": at_percent,
        "usd_per_hour": cost.usd_per_hour,
        "flat_forecast_usd": _flat_forecast(cost, now),
        "forecast_usd": forecast_usd,
        "forecast_error_percent": forecast_error,
        "unpriced_instance_hours": cost.unpriced_hours,
        "usd_by_target": {str(target): plain(amount) for target, amount in cost.by_target},
    }


def _whose_budget(cost: ProjectCost) -> dict[str, object]:
    """Return the subject of the sentences about a budget, and its verb."""
    if cost.project == UNTAGGED:
        return {"who": "Instances without a project", "have": "have"}
    return {"who": f"Project {cost.project}", "have": "has"}


def _budget_words(cost: ProjectCost, budget: Usd, now: UtcDatetime) -> dict[str, object]:
    """Return how much of the budget is used, its outlook, the places that cost most (an empty text
    if none is known), and the instance hours without a known price: `None` if all have one."""
    outlook = _outlook(cost, budget, now)
    targets = [f"{target} {usd(amount)}" for target, amount in cost.by_target]
    unpriced_hours = None
    if cost.unpriced_hours:
        unpriced_hours = money(cost.unpriced_hours, 1)
    return {
        "used": money(used_percent(cost, budget), 0),
        "month": f"{now:%B %Y}",
        "usd_per_day": daily_cost(cost.usd_per_hour),
        "outlook": outlook.name,
        "runs_out": outlook.runs_out_at,
        "places": listed(targets, _MOST_NAMED),
        "hours": unpriced_hours,
    }


def _flat_forecast(cost: ProjectCost, now: UtcDatetime) -> Usd:
    """Return the cost of the whole month if the instances that run now run on to its end."""
    return cost.usd + cost_between(cost.usd_per_hour, now, month_end(now))


class _Outlook(NamedTuple):
    """The end of a budget, if the instances that run now run on to the end of the month."""

    name: str
    """For the template: `nothing` runs; the month ends `within` the budget, or the budget is used
    up already; or it will run out, `over`."""
    runs_out_at: UtcDatetime | None
    """`None` if the budget lasts, or is used up already."""


def _outlook(cost: ProjectCost, budget: Usd, now: UtcDatetime) -> _Outlook:
    """Return what becomes of the budget if the instances that run now run on to the end of the
    month: `nothing` with a price runs, the month ends `within` the budget, or goes `over` it, and
    when. A budget that is used up already counts as `within`: nothing runs out any more."""
    usd_left = budget - cost.usd
    usd_per_hour = cost.usd_per_hour
    if not usd_per_hour:
        return _Outlook("nothing", None)
    if usd_left <= 0 or _flat_forecast(cost, now) <= budget:
        return _Outlook("within", None)
    return _Outlook("over", now + timedelta(seconds=int(usd_left * 3600 / usd_per_hour)))


def least_used(rows: Iterable[FleetRow]) -> list[str]:
    """Return a line for each of the three working instances with the lowest utilization, the lowest
    first: `notebook-7 (g5.12xlarge): 12% in its last 24 hours, $136 a day`.

    Utilization is the mean of the hourly peaks of the busiest GPU, so a partly idle instance also
    says how many of its GPUs are idle. Empty if no working instance has readings.
    """
    texts_by_mean: list[tuple[float, str]] = []
    for row in rows:
        hours = not_none(row.hours)
        kind = known_kind(row.verdict)
        is_working = kind is not None and kind.family is Family.WORKING
        if not hours or not is_working:
            continue
        mean = sum(hours) / len(hours)
        measured = plural(len(hours), "hour")
        text = f"{row.name} ({row.instance_type}): {mean:.0f}% in its last {measured}"
        if row.idle_parts is not None:
            text = f"{text}, {partly_idle_text(row.idle_parts)}"
        if row.usd_per_hour:
            text = f"{text}, {usd(daily_cost(row.usd_per_hour))} a day"
        texts_by_mean.append((mean, text))
    texts_by_mean.sort()
    return [text for _, text in texts_by_mean[:_LEAST_USED]]


def report_alert(
    report: Report, name: str, hub: Target, now: UtcDatetime, whose: Owner, *, is_everything: bool
) -> Alert:
    """Return the message with a report, about an owner, a project or everything.

    The `name` of a weekly report begins with `week`, as `week-2026-11-23`; all others are monthly.
    `whose` is the owner who gets the report, with the project that it is about, or `unassigned`.
    With `is_everything` it is about all instances, and lists savings by owner and account, too.
    """
    whose_instances = f"Instances of {_whose(whose)}"
    shown_groups = ["project"]
    if is_everything:
        whose_instances = "All governed instances"
        shown_groups = ["project", "owner", "account"]
    is_week = name.startswith("week")
    words = {
        "whose": whose_instances,
        **(_week_words(report) if is_week else _month_words(report)),
        **_savings_words(report),
        **_staying_words(report.kept),
        **_group_words(report, shown_groups),
        "jobs": _jobs_lines(report.projects),
        "see_also": SEE_ALSO,
    }
    facts = _report_facts(report, now)
    dedup_id = f"report-{name}-{short_hash(whose.name, whose.project, str(is_everything))}"
    return alert_from_template("report", hub, dedup_id, now, facts, words, owner=whose)


def _report_facts(report: Report, now: UtcDatetime) -> dict[str, object]:
    """Return the exact figures of a report, for machines and for the template."""
    saved = report.saved
    costs = report.costs
    return {
        EVERYWHERE: True,
        "period_start": report.start,
        "period_end": report.end,
        "total_usd": costs.total,
        "idle_usd": costs.idle,
        "kept_usd": costs.kept,
        "net_usd": saved.net_usd,
        "cash_low_usd": saved.cash_low_usd,
        "cash_high_usd": saved.cash_high_usd,
        "by_morning_usd": saved.by_morning_usd,
        "stays_idle_usd_per_month": report.kept.idle_usd_per_month,
        "stays_not_measured_usd_per_month": report.kept.not_measured_usd_per_month,
        "ungoverned_waste_usd_per_month": report.ungoverned.waste_usd_per_month,
        "saved_by_day": [plain(amount) for amount in _saved_by_day(report, now)],
    }


# Each of the following returns values of the template `report`. It leaves out a part whose value
# is `None` or empty.


def _month_words(report: Report) -> dict[str, object]:
    """Return the name of the month; the day from which its figures are final, `None` if they are;
    and the sentences about what is not governed."""
    final_at = None
    if report.provisional:
        final_at = _day(month_end(report.start) + PROVISIONAL)
    sentences = _ungoverned_sentences(report.ungoverned)
    return {"period": _month_text(report), "final_at": final_at, "ungoverned": sentences}


def _ungoverned_sentences(found: FoundWaste) -> list[str]:
    """Return the sentences about what is not governed; before the first scan, only that one."""
    if not found.is_scanned:
        return [found.headline]
    sentences = [found.headline, *found.remarks]
    sentences += [f"{line}." for line in found.lines]
    sentences += [f"Not read: {line}." for line in found.not_read[:_MOST_NAMED]]
    return sentences


def _week_words(report: Report) -> dict[str, object]:
    """Return the days of the week. A weekly report says neither when its figures are final nor what
    is not governed."""
    return {"period": _week_text(report), "final_at": None, "ungoverned": None}


def _savings_words(report: Report) -> dict[str, object]:
    """Return how many actions there were, how many of them were undone, and how many have no known
    price: `None` if all have one."""
    saved = report.saved
    unpriced = None
    if saved.unpriced:
        unpriced = plural(saved.unpriced, "action is", "actions are")
    return {
        "actions": plural(saved.actions, "stop or termination", "stops and terminations"),
        "false_stops": saved.false_stops,
        "unpriced": unpriced,
    }


def _staying_words(kept: KeptList) -> dict[str, object]:
    """Return the lines about instances that stay, empty if none does, and how many of them have no
    known price: `None` if all have one."""
    unpriced = None
    if kept.unpriced:
        unpriced = plural(
            kept.unpriced, "instance of unknown price is", "instances of unknown price are"
        )
    return {"stays": _staying_lines(kept), "stays_unpriced": unpriced}


def _group_words(report: Report, shown_groups: Sequence[str]) -> dict[str, object]:
    """Return the savings by each group, such as `by_owner`: an empty text for a group that is not
    shown, or in which nobody saved anything."""
    words: dict[str, object] = {}
    for group in GROUPS:
        words[f"by_{group}"] = _listed(report.by(group)) if group in shown_groups else ""
    return words


def _staying_lines(kept: KeptList) -> list[str]:
    """Return a line for each reason why instances stay, the most expensive first: `exempt by a tag:
    2 instances, $136 a month, not measured`; empty if nothing stays."""
    lines = []
    for kept_sum in kept.sums:
        number = plural(kept_sum.instances, "instance")
        amount = "prepaid" if kept_sum.is_prepaid else f"{usd(kept_sum.usd_per_month)} a month"
        lines.append(f"{kept_sum.words}: {number}, {amount}, {kept_sum.measured}")
    return lines


def _jobs_lines(projects: Sequence[ProjectJobs]) -> list[str]:
    """Return a sentence for each of the five most expensive projects that name a job: `Cost by job
    in project vision ($1,234.56): finetune $1,000.00 (12% idle), no job named $234.56 (100%
    idle).` Its amounts add up. Empty if no project names one."""
    lines = []
    with_jobs = [project for project in projects if project.names_a_job]
    for project in with_jobs[:_PROJECTS_BY_JOB]:
        texts = []
        for job in project.shortened(_MOST_NAMED):
            idle = "" if job.idle_percent is None else f" ({money(job.idle_percent, 0)}% idle)"
            texts.append(f"{job.name} ${money(job.usd)}{idle}")
        amount = f"${money(project.usd)}"
        lines.append(
            f"Cost by job in {_project_text(project.project)} ({amount}): {', '.join(texts)}."
        )
    left_out = len(with_jobs) - _PROJECTS_BY_JOB
    if left_out > 0:
        # Without a full stop, because people copy the command.
        lines.append(f"Cost by job in {plural(left_out, 'more project')}: governor report --jobs")
    return lines


def _project_text(project: str) -> str:
    """Return a project for a sentence: `project vision`, or `instances without a project`."""
    if project in (UNTAGGED, UNASSIGNED):
        return "instances without a project"
    return f"project {project}"


def _saved_by_day(report: Report, now: UtcDatetime) -> list[Usd]:
    """Return the net saving of each day (UTC) of the report, in order; 0 for days after `now`."""
    # Rounded up: a part of a day counts as a day.
    number_of_days = -((report.start - report.end) // DAY)
    first_day = report.start.date()
    days = [first_day + DAY * number for number in range(number_of_days)]
    entries = [line.entry for line in report.lines]
    return net_by_day(entries, days, min(now, report.end), report.counts_for)


def _month_text(report: Report) -> str:
    """Return the month for a sentence: `June 2026`, or `June 2026 so far`."""
    month = f"{report.start:%B %Y}"
    is_over = report.end >= month_end(report.start)
    return month if is_over else f"{month} so far"


def _week_text(report: Report) -> str:
    """Return the first and last day for a sentence: `June 1 to June 7`."""
    return f"{_day(report.start)} to {_day(report.end - DAY)}"


def _whose(owner: Owner) -> str:
    """Return whom a report is about: `project vision`, or the owner's name if it is about no
    project."""
    if owner.project == UNASSIGNED:
        return owner.name
    return f"project {owner.project}"


def _day(at: UtcDatetime) -> str:
    """Return the day in UTC for a sentence: `June 7`."""
    return f"{at:%B} {at.day}"


def _listed(sums: Sequence[GroupSum]) -> str:
    """Return the first five members of a group with their savings: `vision $136, llm $12 and 3
    more`; empty if there are none."""
    return listed([f"{member.name} {usd(member.net_usd)}" for member in sums], _MOST_NAMED)
