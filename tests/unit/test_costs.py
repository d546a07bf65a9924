"""The docs state the governor's cost as the bench computes it."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest

from benchmarks import sweep
from benchmarks.fleet import Style
from tests.unit.stacks.test_telemetry_stack import LEAN_MEASUREMENTS, MEASUREMENTS

monthly_usd = cache(sweep.monthly_usd)
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "money.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
GOALS = {100: 14, 1_000: 29}
"""USD a month, for a fleet with aggregates. Four keys of seals cost a dollar each (decision
0011)."""


def reads(items: dict[str, Decimal]) -> Decimal:
    """Return what CloudWatch's reads are of it."""
    return round(
        sum((usd for name, usd in items.items() if "GetMetricData" in name), Decimal(0)), 1
    )


@pytest.mark.parametrize(
    ("style", "size"), [("aggregate", 100), ("aggregate", 1_000), ("per-gpu", 100)]
)
def test_the_pages_costs_are_the_benchs(style: Style, size: int) -> None:
    """To the dollar, and what CloudWatch's reads are of it to ten cents."""
    items, named = (
        monthly_usd(size, style),
        {"aggregate": "aggregate", "per-gpu": "per GPU, 8 each"}[style],
    )
    row = re.search(
        rf"^\| {size:,} \| {named} \| (\d+) \| ([\d.]+) \| ([\d,]+) \|$", PAGE, re.MULTILINE
    )
    assert row is not None

    telemetry = f"{sweep.telemetry_usd(size, style):,.0f}"
    assert (f"{sum(items.values()):.0f}", f"{reads(items)}", telemetry) == row.groups()


@pytest.mark.parametrize(
    ("style", "size"), [("aggregate", 100), ("aggregate", 1_000), ("per-gpu", 100)]
)
def test_the_pages_bills_of_telemetry_are_counts_times_prices(style: Style, size: int) -> None:
    """The full and the lean configuration, as the bench counts their metrics and the stack has
    their measurements."""
    named = {"aggregate": "aggregate", "per-gpu": "per GPU, 8 each"}[style]
    rows = re.findall(rf"^\| {size:,} \| {named} \| ([\d,]+ \| .*) \|$", PAGE, re.MULTILINE)
    expected = []
    for published in ("full", "lean"):
        expected.append(f"{sweep.telemetry_metrics(size, style, published):,}")
        expected.append(f"{sweep.telemetry_usd(size, style, published):,.0f}")
    assert " | ".join(expected) in rows
    assert {"full": len(MEASUREMENTS), "lean": len(LEAN_MEASUREMENTS)} == sweep.AGENT_METRICS


@pytest.mark.parametrize(("size", "usd"), GOALS.items())
def test_it_costs_no_more_than_it_should(size: int, usd: int) -> None:
    """All of the hub, every five minutes."""
    computed = sum(monthly_usd(size, "aggregate").values())

    assert usd >= computed
    assert re.search(rf"\${computed:.0f} (a month )?at {size:,}\b", README)


def test_what_the_free_tier_saves_is_on_the_page() -> None:
    """For accounts that have used it up."""
    small = (monthly_usd(100, "aggregate"), monthly_usd(100, "aggregate", free=False))
    saved = sum(small[1].values()) - sum(small[0].values())

    assert f"about ${saved:.0f} a month more" in PAGE


def test_how_much_more_others_cost_is_what_the_table_beside_them_says() -> None:
    """At 2,000 instances, the cheaper of the two."""
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    _, _, beside_others = page.partition("## Compared with Cloud Custodian")
    _, _, of_2000 = beside_others.partition("| 2,000 |")
    ours, custodian, plain = (
        Decimal(usd) for usd in re.findall(r"\| ([\d.]+) \|$", of_2000, re.MULTILINE)[:3]
    )

    factor = NUMBERS[round(min(custodian, plain) / ours)]
    assert f"{factor} times as much at 2,000 instances" in " ".join(PAGE.split())


def test_every_alarm_of_the_template_is_counted() -> None:
    """The bench reads the template, not a number somebody once wrote; two metrics in one count
    twice."""
    assert any(
        f"({sweep.ALARMS})" in name for name in monthly_usd(100, "aggregate") if "alarms" in name
    )
    assert sweep.ALARMS >= 20
