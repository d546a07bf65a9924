"""What is told about budgets: the readable text and the facts of the message.

Pure wording. This module must not know channels, nor how often something is told.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from governor.domain.alert import Alert, AlertKind, Severity, short_hash
from governor.domain.cost import UNTAGGED, ProjectCost, month_end, month_of
from governor.domain.instance import Target
from governor.domain.ledger import cost_between
from governor.domain.units import Usd, UtcDatetime, iso, money

_NAMED = 5
"""Targets named in the text, the dearest first; the facts hold all."""
_NOBODY = "unassigned"


def used_percent(cost: ProjectCost, budget: Usd) -> Decimal:
    """How much of its budget a project has used; above 100 when it is exceeded."""
    return 100 * cost.usd / budget


def budget_alert(
    cost: ProjectCost, budget: Usd, tell_at: float, hub: Target, now: UtcDatetime, owner: str
) -> Alert:
    """A project has used the share `tell_at` (percent) of its budget.

    Args:
        cost: of the month so far.
        budget: in USD a month, above 0.
        tell_at: the share that was reached.
        hub: where the governor lives; a project may be in many targets.
        now: aware.
        owner: of the project, or whom everything else belongs to.
    """
    month, percent = month_of(now), used_percent(cost, budget)
    named = "Instances without a project" if cost.project == UNTAGGED else f"Project {cost.project}"
    return Alert(
        kind=AlertKind.BUDGET_REACHED,
        severity=Severity.CRITICAL if percent >= 100 else Severity.WARNING,
        account=hub.account,
        region=hub.region,
        subject=f"{named}: {money(percent, 0)} % of the GPU budget of {month}",
        lines=(
            f"{named} cost {money(cost.usd)} USD in {month} so far, by instance hours and prices: "
            f"{money(percent, 0)} % of {money(budget)} USD.",
            _outlook(cost, budget, now),
            *_places(cost),
            *_unpriced(cost),
            "Nothing is stopped because of a budget. Storage, traffic and discounts are not in it.",
        ),
        dedup_id=f"budget-{month}-{short_hash(cost.project, str(budget), str(tell_at))}",
        at=now,
        owner=owner,
        project=_NOBODY if cost.project == UNTAGGED else cost.project,
        facts={
            "month": month,
            "usd": str(cost.usd),
            "budget_usd": str(budget),
            "reached_percent": tell_at,
            "usd_per_hour": str(cost.usd_per_hour),
            "unpriced_instance_hours": str(cost.unpriced_hours),
            "usd_by_target": {str(target): str(usd) for target, usd in cost.by_target},
        },
    )


def _outlook(cost: ProjectCost, budget: Usd, now: UtcDatetime) -> str:
    """Where it leads at the rate of this moment; instances come and go, so it is no promise."""
    end = month_end(now)
    if not cost.usd_per_hour:
        return "Nothing of it with a price runs at the moment."
    whole = cost.usd + cost_between(cost.usd_per_hour, now, end)
    text = (
        f"What runs now costs {money(cost.usd_per_hour)} USD an hour; if it all runs on, the month "
        f"will cost {money(whole)} USD"
    )
    left = budget - cost.usd
    if left > 0 and whole > budget:
        seconds = int(left * 3600 / cost.usd_per_hour)
        text += f", and the budget is used up at {iso(now + timedelta(seconds=seconds))}"
    return f"{text}."


def _places(cost: ProjectCost) -> tuple[str, ...]:
    if len(cost.by_target) < 2:
        return ()
    first = [f"{target} {money(usd)} USD" for target, usd in cost.by_target[:_NAMED]]
    more = len(cost.by_target) - len(first)
    return (f"By account and Region: {', '.join(first)}{f', and {more} more' if more else ''}.",)


def _unpriced(cost: ProjectCost) -> tuple[str, ...]:
    if not cost.unpriced_hours:
        return ()
    hours = money(cost.unpriced_hours, 1)
    return (f"Not in it: {hours} instance hours whose price is not known; set prices.usd_per_hour.",)
