"""Messages about budgets."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from governor.domain.alerts.alert import UNASSIGNED, Alert, Owner, Severity, short_hash
from governor.domain.alerts.templates import written
from governor.domain.instance import Target
from governor.domain.money.cost import UNTAGGED, ProjectCost, cost_between, month_end, month_of
from governor.domain.units import Usd, UtcDatetime, listed, money, usd

_NAMED = 5
"""Targets named in the text, the most expensive first; the facts hold all."""


def used_percent(cost: ProjectCost, budget: Usd) -> Decimal:
    """Return how much of its budget a project has used; above 100 when it is exceeded."""
    return 100 * cost.usd / budget


def budget_alert(
    cost: ProjectCost, budget: Usd, at_percent: float, hub: Target, now: UtcDatetime, owner: str
) -> Alert:
    """Return that a project, over all targets, has used the share `at_percent` (percent) of its monthly
    `budget` (USD, above 0). `owner` is the project's, or that of everything without a project."""
    month, percent = month_of(now), used_percent(cost, budget)
    untagged, rate, left = cost.project == UNTAGGED, cost.usd_per_hour, budget - cost.usd
    whole = cost.usd + cost_between(rate, now, month_end(now))
    is_over = left > 0 and whole > budget
    places = [f"{target} {usd(amount)}" for target, amount in cost.by_target]
    facts = {
        "month": month,
        "usd": cost.usd,
        "budget_usd": budget,
        "reached_percent": at_percent,
        "usd_per_hour": rate,
        "unpriced_instance_hours": cost.unpriced_hours,
        "usd_by_target": {str(target): str(amount) for target, amount in cost.by_target},
    }
    words = {
        "who": "Instances without a project" if untagged else f"Project {cost.project}",
        "used": money(percent, 0),
        # At the rate of this moment; instances come and go, so it is no promise.
        "outlook": "nothing" if not rate else "over" if is_over else "within",
        "whole": whole,
        "runs_out": now + timedelta(seconds=int(left * 3600 / rate)) if rate and is_over else None,
        "places": listed(places, _NAMED) if len(places) > 1 else None,
        "hours": money(cost.unpriced_hours, 1) if cost.unpriced_hours else None,
    }
    whose = Owner(owner, UNASSIGNED if untagged else cost.project)
    dedup_id = f"budget-{month}-{short_hash(cost.project, str(budget), str(at_percent))}"
    severity = Severity.CRITICAL if percent >= 100 else None
    return written("budget", hub, dedup_id, now, facts, words, owner=whose, severity=severity)
