"""Finds out whether people could answer, or the API throttled or failed, before silence counts as
an answer.

This module only reads. It never decides that a question was answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from governor.core.errors import MetricsLate, SafetyError
from governor.core.instance import Target
from governor.core.units import UtcDatetime
from governor.evidence.ports import MetricQuery, MetricReader
from governor.evidence.rules.series import window_before

_PERIOD = timedelta(minutes=5)
REFUSALS_LATE = timedelta(minutes=5)
"""After this CloudWatch has the access log's counts of a period. Sooner, a period may read as
empty."""
_CROWDED = 300
"""Requests in a period, of all routes, from which some may have been refused unseen: API Gateway
does not log every 429 of a flood, but lets through what its limits allow, 5 a second on the
narrowest route."""


class UnusedAnswerTime(NamedTuple):
    """The time that people had to answer a question or to hold a plan, and did not use."""

    what: str
    """Says that nobody used it, as the beginning of a reason: `nobody answered`."""
    length: timedelta
    """How long before now nobody may have been refused: since the question was delivered, or for a
    whole notice period."""
    planned_end: UtcDatetime
    """The end of that time, if no message was late."""
    counts_from: UtcDatetime | None
    """When it begins to count that nobody used it; `None` if a message was not delivered."""
    starts_again: bool
    """True if a refusal begins the time again, as in the notice of mode `auto`. False for a
    question: people who were refused are asked again."""

    @property
    def until(self) -> UtcDatetime:
        """Return the end of that time: the planned one, or that after a late message."""
        if self.counts_from is None:
            return self.planned_end
        return max(self.planned_end, self.counts_from)


@dataclass(frozen=True, slots=True)
class RefusedAnswers:
    """Finds out whether people could answer, by the API requests that were throttled or failed.

    The limits of API Gateway are shared: a flood of requests to a route silences all who use it.
    """

    metrics: MetricReader
    hub: Target
    api_id: str
    namespace: str

    def __call__(self, unused_time: UnusedAnswerTime, now: datetime) -> str | None:
        """Return why silence is no answer yet: requests were refused, or so many came in one period
        that some may have been, or the counts of requests cannot be read. Return `None` if none of
        this is so for as long as people had to answer.

        Raises: SafetyError, instead of returning them, for refusals in the time of a question,
        which no wait takes back; MetricsLate while the counts of the last minutes are not known.
        """
        window = window_before(now, unused_time.length, _PERIOD, REFUSALS_LATE)
        queries = (
            MetricQuery("refused", self.namespace, "AnswersRefused", (), "Sum"),
            MetricQuery("all", "AWS/ApiGateway", "Count", (("ApiId", self.api_id),), "Sum"),
        )
        answer = self.metrics.read(self.hub, queries, window)
        if answer.problems:
            why = "; ".join(sorted(set(answer.problems.values())))
            return f"{unused_time.what}, but it cannot be read whether answers were refused: {why}"
        most_by_query: dict[str, float] = {}
        for key, series in answer.series.items():
            most_by_query[key] = max(count or 0 for count in series)
        were_refused = most_by_query.get("refused", 0) > 0
        is_crowded = most_by_query.get("all", 0) >= _CROWDED
        if were_refused or is_crowded:
            why = "the API refused requests: answers may have been among them"
            reason = f"{unused_time.what}, but {why}"
            if unused_time.starts_again:
                return reason
            raise SafetyError(reason)
        if window.end < unused_time.until:
            raise MetricsLate(f"{unused_time.what}; whether answers were refused is not known yet")
        return None
