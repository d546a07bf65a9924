"""Publishes what projects cost this month and what was saved; tells who has used up a budget."""

from __future__ import annotations

from typing import Any

from governor.contracts.parsing import Payload, parse
from governor.errors import Unavailable
from governor.observability import MetricUnit, count, logger, observed
from governor.usecases.money.costs import SumUpMonth
from governor.wiring.basics import Ready
from governor.wiring.parts import Parts
from governor.wiring.policies import use_case


@observed(use_case(Parts(), SumUpMonth))
def handler(event: dict[str, Any], context: Any, sum_up_month: Ready[SumUpMonth]) -> dict[str, Any]:
    """`{}` to the sums. What could not be told is raised after the figures were published."""
    parse(Payload, event)
    month = sum_up_month()()
    # The only floats: metrics know no others. Amounts stay decimal in the table and in messages.
    for cost in month.published:
        count("EstimatedCost", float(cost.usd), MetricUnit.NoUnit, Project=cost.project)
    count("HighestBudgetUsedPercent", float(month.highest_budget_used_percent), MetricUnit.Percent)
    count("SavedMonthToDate", float(month.saved_usd), MetricUnit.NoUnit)
    count("FalseStops", month.false_stops)
    logger.info("summed up", extra={"month": month.month, "projects": len(month.costs), "told": month.told})
    if month.problems:
        raise Unavailable("; ".join(month.problems), operation="sns:Publish")
    return {
        "month": month.month,
        "projects": len(month.costs),
        "usd": str(sum(cost.usd for cost in month.costs)),
        "saved_usd": str(month.saved_usd),
        "told": len(month.told),
    }
