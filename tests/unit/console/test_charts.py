"""Charts are drawn to scale, keep gaps as gaps, and hold nothing that the security policy
forbids."""

from __future__ import annotations

import re
from datetime import date, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.console.formats import TEMPLATES
from governor.console.views import charts
from tests.builders import NOW
from tests.console_world import INSTANCE, html, lively, view_of

DAYS = [date(2026, 11, 1) + timedelta(days=number) for number in range(3)]


def boxes(shapes: str, kind: str) -> list[tuple[float, ...]]:
    """Left, top, width and height of each bar of a kind."""
    path = re.search(rf'<path class="{kind}" d="([^"]*)"', shapes)
    pattern = r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)"
    return [tuple(map(float, one)) for one in re.findall(pattern, path[1] if path else "")]


@given(st.lists(st.tuples(*[st.decimals(0, 9999, places=2)] * 2), min_size=1, max_size=30))
def test_a_bar_is_as_tall_as_its_amount(amounts: list[tuple[Decimal, Decimal]]) -> None:
    """Stacked without a hole between them, under a round end of the axis."""
    days = [(DAYS[0] + timedelta(days=number), one) for number, one in enumerate(amounts)]
    chart = charts.stacked(days, ("used", "idle"))
    drawn = sum(tall for kind in ("used", "idle") for *_, tall in boxes(chart.shapes, kind))
    highest = max(sum(one) for one in amounts)

    assert drawn <= 200 * len(amounts) + 1
    for *_, y, _, tall in boxes(chart.shapes, "used"):
        assert abs(y + tall - 200) < 0.2
    whole = float(sum(map(sum, amounts)))
    if whole:
        scale = drawn / whole
        # Heights are rounded to tenths.
        assert scale * float(highest) <= 200.5 + 0.1 * len(amounts)


@pytest.mark.parametrize(
    ("highest", "labels"),
    [
        ("11200", ("$15k", "$7.5k", "$0")),
        ("95", ("$100", "$50", "$0")),
        ("0", ("$1", "$0.5", "$0")),
    ],
)
def test_an_axis_ends_with_a_round_amount(highest: str, labels: tuple[str, ...]) -> None:
    """Not far above the highest bar."""
    assert labels == charts.stacked([(DAYS[0], (Decimal(highest),))], ("used",)).up


def test_a_negative_amount_is_not_drawn() -> None:
    """Storage may cost more than what was avoided; a bar below the axis would hide the others."""
    chart = charts.stacked([(DAYS[0], (Decimal(5), Decimal(-3)))], ("used", "avoided"))

    assert [] == boxes(chart.shapes, "avoided")
    assert "avoided -$3.00" in chart.shapes


def test_a_sparkline_keeps_gaps_and_tells_nothing_from_not_measured() -> None:
    """Zero is a low bar, a hole is none."""
    assert '<path d="M0 12V11h4V12M6 12V0h2V12"/>' in charts.sparkline((0, 2, None, 100))
    assert "" == charts.sparkline((None,) * 24)


def test_hours_are_dated_in_the_zone_of_the_reader() -> None:
    """Its name stands at the end."""
    chart = charts.hourly((80, 2, None, 0), NOW, "Europe/Berlin", 5.0)

    assert ("Fri 10:00", "Fri 12:00", "Fri 13:02 Berlin") == chart.along
    assert [1, 2, 1] == [len(boxes(chart.shapes, kind)) for kind in ("used", "idle", "no-data")]


def test_the_hour_that_has_just_begun_is_no_gap() -> None:
    """Its first readings come some minutes later; an earlier hour without any is one."""
    chart = charts.hourly((80, None, 2, None), NOW, "UTC", 5.0)

    assert [1, 1, 1] == [len(boxes(chart.shapes, kind)) for kind in ("used", "idle", "no-data")]


def test_times_outside_of_a_strip_are_cut() -> None:
    """And what lies outside altogether is not drawn."""
    day = timedelta(days=1)
    spans = [("idle", NOW - 50 * day, NOW - 5 * day), ("used", NOW - 60 * day, NOW - 55 * day)]
    chart = charts.strip(spans, NOW - 10 * day, NOW)

    assert [(0.0, 0.0, 500.0, 200.0)] == boxes(chart.shapes, "idle")
    assert [] == boxes(chart.shapes, "used")


def test_a_later_span_of_a_strip_covers_those_before_and_none_after() -> None:
    """The kinds come in any order, and one kind more than once."""
    day = timedelta(days=1)
    spans = [
        ("asked", NOW - 6 * day, NOW - 5 * day),
        ("running", NOW - 10 * day, NOW),
        ("used", NOW - 8 * day, NOW - 2 * day),
        ("running", NOW - 5 * day, NOW - 4 * day),
    ]
    shapes = charts.strip(spans, NOW - 10 * day, NOW).shapes

    assert [] == boxes(shapes, "asked")
    assert [(200.0, 0.0, 300.0, 200.0), (600.0, 0.0, 200.0, 200.0)] == sorted(boxes(shapes, "used"))
    assert [0.0, 500.0, 800.0] == sorted(left for left, *_ in boxes(shapes, "running"))


def test_a_short_span_of_a_strip_can_be_seen_and_stays_inside() -> None:
    day = timedelta(days=1)
    spans = [("used", NOW - 10 * day, NOW), ("asked", NOW - timedelta(minutes=1), NOW)]
    shapes = charts.strip(spans, NOW - 10 * day, NOW).shapes

    assert [(998.0, 0.0, 2.0, 200.0)] == boxes(shapes, "asked")
    assert [(0.0, 0.0, 998.0, 200.0)] == boxes(shapes, "used")


@pytest.mark.parametrize("address", ["/", "/savings", "/projects/vision", INSTANCE])
def test_whatever_a_chart_draws_has_a_color_and_a_legend_of_the_style_sheet(address: str) -> None:
    """A class that the style sheet does not know is drawn in black."""
    view, named = view_of(address)
    text, style = html(view, lively(), None, address, **named), str(TEMPLATES.globals["style"])
    drawn = set(re.findall(r'<(?:path|polyline|line|rect) class="([^"]+)"', text))
    legends = set(re.findall(r'<li class="([^"]+)"', text))

    assert drawn
    for kind in drawn | legends:
        assert re.search(rf"\.{kind}[ ,)]", style), kind
    assert drawn - {"hint", "limit", "net"} <= legends | set(
        re.findall(r'<td class="([^"]+)"', text)
    )
