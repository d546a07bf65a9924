"""A reader of metrics that counts what AWS charges for."""

from __future__ import annotations

from collections.abc import Sequence

from governor.aws.cloudwatch import CloudWatchMetrics
from governor.core.instance import Target
from governor.evidence.model import Window
from governor.evidence.ports import MetricAnswer, MetricQuery
from governor.wiring.observability import tally


class CountedMetrics(CloudWatchMetrics):
    """Counts the metrics that it reads: AWS charges for each."""

    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        """Count the queries, and return CloudWatch's answer to them: the series, and why a query
        failed."""
        tally("MetricsRead", len(queries))
        return super().read(target, queries, window)
