"""Messages about budgets, and reports of costs and savings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from decimal import Decimal

from governor.domain.alerts.alert import (
    INCIDENT_UNTIL,
    UNASSIGNED,
    Alert,
    Owner,
    Severity,
    short_hash,
)
from governor.domain.alerts.templates import written
from governor.domain.documents import plain
from governor.domain.fleet.rows import FleetRow
from governor.domain.instance import Target
from governor.domain.money.cost import DAY, UNTAGGED, ProjectCost, cost_between, month_end, month_of
from governor.domain.money.forecast import Forecast
from governor.domain.money.ledger import PROVISIONAL, net_by_day
from governor.domain.money.report import GROUPS, Report
from governor.domain.sweep.verdict import Family, known_kind
from governor.domain.units import Usd, UtcDatetime, listed, money, plural, usd

STILL = timedelta(hours=3)
"""How long a budget counts as used up without a sum that says so: longer than from one sum to the
next."""
_NAMED = 5
"""Targets, or groups, named in the text, those with the most USD first."""
_LEAST_USED = 3


def used_percent(cost: ProjectCost, budget: Usd) -> Decimal:
    """Return how much of its budget a project has used; above 100 when it is exceeded."""
    return 100 * cost.usd / budget


def budget_id(cost: ProjectCost, budget: Usd, at_percent: float, now: UtcDatetime) -> str:
    return f"budget-{month_of(now)}-{short_hash(cost.project, str(budget), str(at_percent))}"


def incident_id(cost: ProjectCost, now: UtcDatetime) -> str:
    """Name the incident of a budget that is used up: one a project and month, whatever share is
    reached."""
    return f"budget-{month_of(now)}-{short_hash(cost.project)}"


def budget_alert(
    cost: ProjectCost,
    budget: Usd,
    at_percent: float,
    hub: Target,
    now: UtcDatetime,
    owner: str,
    by_past: Forecast | None,
    running: Sequence[FleetRow] = (),
    *,
    asks: bool = False,
) -> Alert:
    """Return that a project, over all targets, has used the share `at_percent` (percent) of its
    monthly `budget` (USD, above 0). `owner` is the project's, or that of everything without a
    project; `running` are its instances. Where it `asks`, people are asked about idle ones because
    of the budget."""
    percent = used_percent(cost, budget)
    untagged, rate, left = cost.project == UNTAGGED, cost.usd_per_hour, budget - cost.usd
    whole = cost.usd + cost_between(rate, now, month_end(now))
    is_over = left > 0 and whole > budget
    places = [f"{target} {usd(amount)}" for target, amount in cost.by_target]
    facts = {
        "month": month_of(now),
        "usd": cost.usd,
        "budget_usd": budget,
        "reached_percent": at_percent,
        "usd_per_hour": rate,
        "flat_forecast_usd": whole,
        "forecast_usd": by_past and by_past.usd,
        "forecast_error_percent": by_past and by_past.error_percent,
        "unpriced_instance_hours": cost.unpriced_hours,
        "incident": incident_id(cost, now),
        INCIDENT_UNTIL: now + STILL,
        "usd_by_target": {str(target): plain(amount) for target, amount in cost.by_target},
    }
    words = {
        "who": "Instances without a project" if untagged else f"Project {cost.project}",
        "used": money(percent, 0),
        "month": f"{now:%B %Y}",
        # At the rate of this moment; instances come and go, so it is no promise.
        "outlook": "nothing" if not rate else "over" if is_over else "within",
        "error": by_past and money(by_past.error_percent, 0),
        "runs_out": now + timedelta(seconds=int(left * 3600 / rate)) if rate and is_over else None,
        "places": listed(places, _NAMED) if len(places) > 1 else None,
        "asks": asks,
        "least_used": least_used(running),
        "hours": money(cost.unpriced_hours, 1) if cost.unpriced_hours else None,
    }
    whose = Owner(owner, UNASSIGNED if untagged else cost.project)
    dedup_id = budget_id(cost, budget, at_percent, now)
    severity = Severity.CRITICAL if percent >= 100 else None
    return written("budget", hub, dedup_id, now, facts, words, owner=whose, severity=severity)


def least_used(rows: Iterable[FleetRow]) -> list[str]:
    """Return the working instances with the lowest mean of the highest utilization of each hour."""
    found = []
    for row in rows:
        hours, kind = [hour for hour in row.hours if hour is not None], known_kind(row.verdict)
        if hours and kind is not None and kind.family is Family.WORKING:
            price = f", {usd(row.usd_per_hour)} an hour" if row.usd_per_hour else ""
            mean, known = sum(hours) / len(hours), plural(len(hours), "hour")
            text = f"{row.name} ({row.instance_type}): {mean:.0f}% in its last {known}{price}"
            found.append((mean, text))
    return [text for _, text in sorted(found)[:_LEAST_USED]]


def report_alert(
    found: Report, name: str, hub: Target, now: UtcDatetime, whose: Owner, *, is_everything: bool
) -> Alert:
    """Return the report of a week or a month, as its `name` begins: of an owner, a project, or
    everything."""
    saved, costs, last = found.saved, found.costs, found.end - DAY
    is_month = not name.startswith("week")
    month = f"{found.start:%B %Y}{' so far' if found.end < month_end(found.start) else ''}"
    days = [
        found.start.date() + DAY * number for number in range(-((found.start - found.end) // DAY))
    ]
    by_day = net_by_day(
        [one.entry for one in found.lines], days, min(now, found.end), found.counts_for
    )
    facts = {
        "period_start": found.start,
        "period_end": found.end,
        "total_usd": costs.total,
        "idle_usd": costs.idle,
        "kept_usd": costs.kept,
        "net_usd": saved.net_usd,
        "cash_low_usd": saved.cash_low_usd,
        "cash_high_usd": saved.cash_high_usd,
        "by_morning_usd": saved.by_morning_usd,
        "saved_by_day": [plain(one) for one in by_day],
    }
    groups = ("project", "owner", "account") if is_everything else ("project",)
    final = month_end(found.start) + PROVISIONAL
    words = {
        "whose": "All governed instances" if is_everything else f"Instances of {_named(whose)}",
        "period": month if is_month else f"{_day(found.start)} to {_day(last)}",
        "actions": plural(saved.actions, "stop or termination", "stops and terminations"),
        "false_stops": saved.false_stops,
        "unpriced": plural(saved.unpriced, "action is", "actions are") if saved.unpriced else None,
        "final_at": _day(final) if is_month and found.provisional else None,
        **{f"by_{name}": _listed(found.by(name)) if name in groups else "" for name in GROUPS},
    }
    dedup_id = f"report-{name}-{short_hash(whose.name, whose.project, str(is_everything))}"
    return written("report", hub, dedup_id, now, facts, words, owner=whose)


def _named(whose: Owner) -> str:
    return whose.name if whose.project == UNASSIGNED else f"project {whose.project}"


def _day(at: UtcDatetime) -> str:
    return f"{at:%B} {at.day}"


def _listed(sums: Sequence[tuple[str, Usd, int]]) -> str:
    return listed([f"{name} {usd(amount)}" for name, amount, _ in sums], _NAMED)
