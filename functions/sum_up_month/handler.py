"""Publishes what projects cost this month and what was saved, and notifies owners of used budgets,
and people of states in which targets cannot be swept. The last step of a sweep, so it says when a
target was not swept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit

from governor.core.errors import TargetsNotSwept, Unavailable
from governor.core.parsing import parse
from governor.money.costs import SumUpMonth
from governor.sweep.close_sweep import ClosedSweep
from governor.wiring.basics import Ready
from governor.wiring.closing import HubSteps, hub_steps
from governor.wiring.observability import count, logger, observed
from governor.wiring.parts import Parts
from governor.wiring.payloads import SweptPayload


@observed(hub_steps(Parts()))
def handler(event: dict[str, Any], context: Any, steps: Ready[HubSteps]) -> dict[str, Any]:
    """Do what concerns all targets, and sum up the month, after the sweeps of all targets; return
    the sums.

    Raises, after the figures were published: TargetsNotSwept for targets that were not swept for a
    new reason; it hides no failure of the sums but is known first. Unavailable, if somebody could
    not be notified.
    """
    swept = parse(SweptPayload, event)
    has_failures = "failed" in swept.outcomes
    closed = ClosedSweep()
    try:
        close_sweep, sum_up_month = steps()
        closed = close_sweep(has_failures=has_failures)
        return _summed_up(sum_up_month, closed.problems)
    finally:
        _fail_if_unswept(swept, closed)


def _fail_if_unswept(swept: SweptPayload, closed: ClosedSweep) -> None:
    """Do nothing if every target was swept, or was not for a reason that people know. A failure
    that could not be noted in the table, as of a child that died, is never known. Raises:
    TargetsNotSwept."""
    noted = swept.outcomes.count("failed")
    not_noted = swept.target_count - swept.outcomes.count("swept") - noted
    new = max(noted - len(closed.known_failures), 0)
    missing = not_noted + new + len(closed.newly_unswept)
    if missing:
        raise TargetsNotSwept(
            f"{missing} of {swept.target_count} targets were not swept: governor status names them "
            "and says why"
        )


def _summed_up(sum_up_month: SumUpMonth, problems: Sequence[str]) -> dict[str, Any]:
    """Sum up the month, publish its figures, and return the sums.

    Raises: Unavailable if somebody could not be notified, or there are `problems` from before;
    CloudError.
    """
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
        "summed up",
        extra={"month": month.month, "projects": len(month.costs), "told": month.notified},
    )
    all_problems = [*problems, *month.problems]
    if all_problems:
        raise Unavailable("; ".join(all_problems), operation="sns:Publish")
    return {
        "month": month.month,
        "projects": len(month.costs),
        "usd": str(usd),
        "saved_usd": str(month.saved_usd),
        "told": len(month.notified),
    }
