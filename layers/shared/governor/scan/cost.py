"""AWS's charge for the API calls of a scan. Nearly all are free."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from governor.core.units import Usd

_USD_PER_METRIC = Decimal("0.00001")
"""For each metric that GetMetricData is asked for. Source: CloudWatch pricing, us-east-1."""
_METRIC_DATA = "cloudwatch:GetMetricData"
_USD_PER_CLOUDWATCH_CALL = Decimal("0.00001")
"""For the other calls of CloudWatch, after a million free ones a month. Source: the same."""
_USD_PER_COST_EXPLORER_CALL = Decimal("0.01")
"""Source: AWS Cost Explorer pricing."""


def usd_of_calls(calls: Mapping[str, int], metrics_requested: int) -> Usd:
    """Return the charge for so many calls by operation, free tiers not counted, and for so many
    metrics asked for by GetMetricData."""
    usd = metrics_requested * _USD_PER_METRIC
    for operation, number in calls.items():
        service = operation.partition(":")[0]
        if service == "ce":
            usd += number * _USD_PER_COST_EXPLORER_CALL
        elif service == "cloudwatch" and operation != _METRIC_DATA:
            usd += number * _USD_PER_CLOUDWATCH_CALL
    return usd
