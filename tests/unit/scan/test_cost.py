"""The bill of a scan itself."""

from __future__ import annotations

from decimal import Decimal

from governor.scan.cost import usd_of_calls


def test_metrics_and_cost_explorer_are_billed_and_all_else_is_free() -> None:
    """GetMetricData by metric, other calls of CloudWatch and those of Cost Explorer by call."""
    calls = {
        "ec2:DescribeInstances": 900,
        "cloudwatch:GetMetricData": 7,
        "cloudwatch:ListMetrics": 100,
        "ce:GetSavingsPlansUtilizationDetails": 2,
    }
    assert Decimal("0.041") == usd_of_calls(calls, 2_000)
    assert Decimal() == usd_of_calls({"ec2:DescribeInstances": 900}, 0)
