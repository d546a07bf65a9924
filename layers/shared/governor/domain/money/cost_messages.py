"""The words of messages about budgets."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from governor.domain.alerts.alert import Alert, AlertKind, Severity, alert_of
from governor.domain.alerts.owner import UNASSIGNED, Owner, short_hash
from governor.domain.instance import Target
from governor.domain.money.cost import UNTAGGED, ProjectCost, month_end, month_of
from governor.domain.money.ledger import cost_between
from governor.domain.units import Usd, UtcDatetime, money
from governor.domain.wording import clock, listed, usd

_NAMED = 5
"""Targets named in the text, the most expensive first; the facts hold all."""


def used_percent(cost: ProjectCost, budget: Usd) -> Decimal:
    """Return how much of its budget a project has used; above 100 when it is exceeded."""
    return 100 * cost.usd / budget


def budget_alert(
    cost: ProjectCost, budget: Usd, at_percent: float, hub: Target, now: UtcDatetime, owner: str
) -> Alert:
    """Return that a project has used the share `at_percent` (percent) of its monthly `budget` (USD, above 0).

    `hub` is where the governor lives; a project may be in many targets. `owner` is the project's, or that of
    everything without a project.
    """
    month, percent = month_of(now), used_percent(cost, budget)
    untagged = cost.project == UNTAGGED
    named = "Instances without a project" if untagged else f"Project {cost.project}"
    used, hours = f"{money(percent, 0)}%", money(cost.unpriced_hours, 1)
    places = [f"{target} {usd(amount)}" for target, amount in cost.by_target]
    subject = f"{named}: {used} of the GPU budget of {month} is used"
    lines = [
        f"{named} cost {usd(cost.usd)} in {month} so far, {used} of its budget of {usd(budget)}.",
        _outlook(cost, budget, now),
        "Nothing is stopped because of a budget. Storage, traffic and discounts are not included.",
        f"By account and Region: {listed(places, _NAMED)}." if len(places) > 1 else None,
        f"Not included: {hours} instance hours of unknown price; set prices.usd_per_hour in the policy."
        if cost.unpriced_hours
        else None,
    ]
    facts = {
        "month": month,
        "usd": cost.usd,
        "budget_usd": budget,
        "reached_percent": at_percent,
        "usd_per_hour": cost.usd_per_hour,
        "unpriced_instance_hours": cost.unpriced_hours,
        "usd_by_target": {str(target): str(amount) for target, amount in cost.by_target},
    }
    kind, severity = AlertKind.BUDGET_REACHED, Severity.CRITICAL if percent >= 100 else Severity.WARNING
    dedup_id = f"budget-{month}-{short_hash(cost.project, str(budget), str(at_percent))}"
    whose = Owner(owner, UNASSIGNED if untagged else cost.project)
    return alert_of(kind, severity, hub, subject, lines, dedup_id, now, owner=whose, facts=facts)


def _outlook(cost: ProjectCost, budget: Usd, now: UtcDatetime) -> str:
    """Return where it leads at the rate of this moment; instances come and go, so it is no promise."""
    rate, left = cost.usd_per_hour, budget - cost.usd
    if not rate:
        return "Nothing with a known price runs at the moment."
    whole = cost.usd + cost_between(rate, now, month_end(now))
    text = f"What runs now costs {usd(rate)} an hour; if it all keeps running, the month costs {usd(whole)}"
    if left > 0 and whole > budget:
        end = now + timedelta(seconds=int(left * 3600 / rate))
        text += f", and the budget runs out at {clock(end, 'UTC', now)}"
    return f"{text}."
