"""What the docs say the governor costs is what the bench computes."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest

from benchmarks import sweep

monthly_usd = cache(sweep.monthly_usd)
PAGE = (Path(__file__).parents[2] / "docs" / "costs.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("size", [100, 1_000])
def test_the_pages_costs_are_the_benchs(size: int) -> None:
    """To the dollar, and what CloudWatch's reads are of it to ten cents."""
    items = monthly_usd(size)
    row = re.search(rf"^\| {size:,} \| about (\d+) \| ([\d.]+) \|$", PAGE, re.MULTILINE)
    assert row is not None
    reads = sum(usd for name, usd in items.items() if "GetMetricData" in name)

    assert (round(sum(items.values())), round(reads, 1)) == (int(row[1]), round(Decimal(row[2]), 1))


def test_every_alarm_of_the_template_is_counted() -> None:
    """The bench reads the template, not a number somebody once wrote."""
    assert any(str(sweep.ALARMS) in name for name in monthly_usd(100) if "alarms" in name)
    assert sweep.ALARMS >= 9
