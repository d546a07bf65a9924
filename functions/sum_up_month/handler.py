"""Publishes what projects cost this month and what was saved; notifies owners of used budgets. The
last step of a sweep, so it says when a target was not swept."""

from __future__ import annotations

from typing import Any

from governor.core.errors import TargetsNotSwept, Unavailable
from governor.core.parsing import parse
from governor.money.costs import SumUpMonth
from governor.wiring import money
from governor.wiring.basics import Ready
from governor.wiring.observability import MetricUnit, count, logger, observed
from governor.wiring.parts import Parts
from governor.wiring.payloads import SweptPayload


@observed(money.sum_up_month(Parts()))
def handler(event: dict[str, Any], context: Any, sum_up_month: Ready[SumUpMonth]) -> dict[str, Any]:
    """Sum up the month after the sweeps of all targets; return the sums.

    Raises, after the figures were published: TargetsNotSwept, which hides no failure of the sums
    but is known first; Unavailable, if somebody could not be notified.
    """
    swept = parse(SweptPayload, event)
    missing = swept.target_count - swept.outcomes.count("swept")
    try:
        return _summed_up(sum_up_month())
    finally:
        if missing:
            why = "governor status names them and says why"
            raise TargetsNotSwept(
                f"{missing} of {swept.target_count} targets were not swept: {why}"
            )


def _summed_up(sum_up_month: SumUpMonth) -> dict[str, Any]:
    month = sum_up_month()
    # The only floats: metrics know no others. Amounts stay decimal in the table and in messages.
    usd = sum(cost.usd for cost in month.costs)
    count("EstimatedCost", float(usd), MetricUnit.NoUnit)
    for cost in month.published:
        count("EstimatedCost", float(cost.usd), MetricUnit.NoUnit, Project=cost.project)
    count("HighestBudgetUsedPercent", float(month.highest_budget_used_percent), MetricUnit.Percent)
    count("SavedMonthToDate", float(month.saved_usd), MetricUnit.NoUnit)
    count("FalseStops", month.false_stops)
    logger.info(
        "summed up", extra={"month": month.month, "projects": len(month.costs), "told": month.told}
    )
    if month.problems:
        raise Unavailable("; ".join(month.problems), operation="sns:Publish")
    return {
        "month": month.month,
        "projects": len(month.costs),
        "usd": str(usd),
        "saved_usd": str(month.saved_usd),
        "told": len(month.told),
    }
