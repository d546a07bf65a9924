"""Counts of calls in CloudWatch over the last days, such as the invocations of an endpoint.

Services publish a count only when something was called, so a missing reading is zero only where
something else proves that the service was measured.
"""

from __future__ import annotations

from datetime import timedelta

from governor.core.errors import AccessDenied, CloudError
from governor.core.units import UtcDatetime, not_none
from governor.evidence.model import Window
from governor.evidence.ports import MetricAnswer, MetricQuery
from governor.scan.kind import Place

GET_METRIC_DATA = "cloudwatch:GetMetricData"
LOOK_BACK = timedelta(days=7)
"""Long enough for work that comes once a week, such as a report on Mondays."""
GRACE = timedelta(hours=24)
"""Nothing younger is judged."""
_HOUR = timedelta(hours=1)


def calls_window(now: UtcDatetime) -> Window:
    """Return the whole hours that cover the last seven days, with the one that has begun."""
    end = now.replace(minute=0, second=0, microsecond=0) + _HOUR
    return Window(start=end - _HOUR - LOOK_BACK, end=end, period=_HOUR)


def first_hour(window: Window, since: UtcDatetime) -> int:
    """Return the number of the hour in the window in which something began: 0 for all that is
    older."""
    hour = (since - window.start) // window.period
    return min(max(hour, 0), window.bins - 1)


def readings(answer: MetricAnswer, query: MetricQuery, first: int) -> list[float]:
    """Return the readings of a query from the hour `first` on; empty if there are none."""
    series = answer.series.get(query.key, ())
    return not_none(series[first:])


def problem_of(answer: MetricAnswer, query: MetricQuery) -> list[str]:
    """Return the reason why a query could not be read, or nothing."""
    problem = answer.problems.get(query.key)
    return [] if problem is None else [problem]


def report_problem(place: Place, topic: str, problem: str) -> None:
    """Report that figures could not be read from CloudWatch, as a missing permission if the
    problem reads like one."""
    is_missing_right = "AccessDenied" in problem or "not authorized" in problem
    kind = AccessDenied if is_missing_right else CloudError
    place.could_not_read(topic, kind(problem, operation=GET_METRIC_DATA, words=problem))
