"""Charts as inline SVG.

They are shapes alone, stretched to the width of the page, as the Content-Security-Policy asks for.
Their labels are HTML beside them, so that text keeps its size on a phone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import groupby

from markupsafe import Markup

from governor.core.units import Percent, Usd, UtcDatetime, city_of, day_and_time, usd
from governor.limits.rules.breaker import HOUR, hour_of

_WIDTH = 1000
"""The units of a chart's coordinates from left to right, whatever its size on the page."""
_HEIGHT = 200
"""Those from top to bottom."""
_BAR_HEIGHT = 20
"""Those of one bar, so that its pattern is as large as in a chart; its lower part is cut off."""
_SPARK_HEIGHT = 12
_THINNEST = 2.0
"""The least width of a span of a strip, so that it can be seen."""
_ROUND_AMOUNTS = tuple(map(Decimal, ("1", "1.5", "2", "3", "4", "6", "8", "10")))
_Piece = tuple[str, float, float]
"""A kind of a strip, from one x to another."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Shapes, and the labels of their axes: `up` from the top down, `along` from left to right."""

    shapes: Markup
    up: tuple[str, ...]
    along: tuple[str, ...]


def stacked(days: Sequence[tuple[date, Sequence[Usd]]], kinds: Sequence[str]) -> Chart:
    """Draw a bar for each day, stacked of its amounts in the order of `kinds`, the first at the
    bottom. Amounts below zero (storage can make an avoided cost one) are not drawn: they stand in
    the table beside it. `days` must not be empty, and each day has an amount for each of the
    `kinds`."""
    top = _round_up(max(_sum_above_zero(amounts) for _, amounts in days))
    step = _WIDTH / len(days)
    boxes: dict[str, list[str]] = {kind: [] for kind in kinds}
    hints = []
    for number, (day, amounts) in enumerate(days):
        foot = float(_HEIGHT)
        words = []
        for kind, amount in zip(kinds, amounts, strict=True):
            height = _HEIGHT * _share(amount, top)
            words.append(f"{kind} {usd(amount)}")
            if height:
                boxes[kind].append(_box(number * step + 2, foot - height, step - 4, height))
                foot -= height
        text = f"{day_text(day)}: {', '.join(words)}"
        hints.append(_hint(text, number * step, step))
    shapes = _markup([*_paths(boxes), *hints])
    return Chart(shapes, _scale(top), _ends([day for day, _ in days]))


def _sum_above_zero(amounts: Sequence[Usd]) -> Usd:
    """Return the sum of the amounts; those below zero count as nothing."""
    return sum((max(amount, Decimal(0)) for amount in amounts), Decimal(0))


def _share(amount: Usd, top: Usd) -> float:
    """Return the share of the height that an amount takes, 1 for `top`; 0 if the amount is below
    zero."""
    return float(max(amount, Decimal(0)) / top)


def _hint(text: str, x: float, width: float) -> str:
    """Return an invisible shape, as high as the chart, that shows a text when it is pointed at."""
    return (
        f'<rect class="hint" x="{x:.1f}" width="{width:.1f}" '
        f'height="{_HEIGHT}"><title>{text}</title></rect>'
    )


def lines(
    days: Sequence[date], series: Sequence[tuple[str, Sequence[Usd]]], limit: Usd | None = None
) -> Chart:
    """Draw a line for each series, a name (the class of its color) and the sum up to each day, and
    a level line at `limit` (`None`: no such line). A series may end before the last day; sums below
    zero are drawn at zero. `days` must not be empty."""
    highest = max((amount for _, amounts in series for amount in amounts), default=Decimal(0))
    top = _round_up(max(highest, limit or Decimal(0)))
    step = _WIDTH / len(days)
    drawn = []
    for kind, amounts in series:
        points = []
        for number, amount in enumerate(amounts, 1):
            y = _HEIGHT - _HEIGHT * _share(amount, top)
            points.append(f"{number * step:.1f} {y:.1f}")
        drawn.append(f'<polyline class="{kind}" points="0 {_HEIGHT} {" ".join(points)}"/>')
    if limit is not None:
        limit_y = f"{_HEIGHT - _HEIGHT * float(limit / top):.1f}"
        drawn.append(f'<line class="limit" x1="0" x2="{_WIDTH}" y1="{limit_y}" y2="{limit_y}"/>')
    return Chart(_markup(drawn), _scale(top), _ends(days))


def hourly(
    hours: Sequence[int | None], until: UtcDatetime, zone: str, idle_below: Percent
) -> Chart:
    """Draw a bar for the highest utilization in percent of each clock hour up to that of `until`,
    as used, or as idle below `idle_below`; hours without a reading (`None`) are bars of full
    height, of the kind `no data`. The last hour is not over, so without a reading it stays empty.
    Labels are in the time zone `zone`, such as `Europe/Berlin`."""
    last_hour = len(hours) - 1
    step = _WIDTH / max(1, len(hours))
    boxes: dict[str, list[str]] = {"used": [], "idle": [], "no data": []}
    for number, percent in enumerate(hours):
        if percent is None and number == last_hour:
            continue
        height: float = _HEIGHT
        kind = "no data"
        if percent is not None:
            height = max(3.0, _HEIGHT * percent / 100)
            kind = "idle" if percent < idle_below else "used"
        boxes[kind].append(_box(number * step + 1, _HEIGHT - height, step - 2, height))
    shapes = _markup(_paths(boxes))
    start = hour_of(until) - HOUR * last_hour
    first = day_and_time(start, zone, until)
    middle = day_and_time(start + HOUR * (len(hours) * 0.5), zone, until)
    last = day_and_time(until, zone, until)
    return Chart(shapes, ("100%", "50%", "0%"), (first, middle, f"{last} {city_of(zone)}"))


def strip(
    spans: Iterable[tuple[str, UtcDatetime, UtcDatetime]], start: UtcDatetime, end: UtcDatetime
) -> Chart:
    """Draw spans of time (kind, from, to) on one line from `start` to `end`, later ones over those
    before of another kind. Parts outside of that are cut off. The kinds are the classes of the
    colors."""
    length = end - start
    painted: list[_Piece] = []
    for kind, first, last in spans:
        left = max(0.0, _WIDTH * float((first - start) / length))
        right = min(float(_WIDTH), _WIDTH * float((last - start) / length))
        if right <= left:
            continue
        left = min(left, _WIDTH - _THINNEST)
        right = max(right, left + _THINNEST)
        painted = [part for piece in painted for part in _without(piece, left, right)]
        painted.append((kind, left, right))
    boxes: dict[str, list[str]] = {}
    for kind, left, right in painted:
        boxes.setdefault(kind, []).append(_box(left, 0, right - left, _HEIGHT))
    shapes = _markup(_paths(boxes))
    days = [(start + length * share).date() for share in (0, 0.5, 1)]
    return Chart(shapes, (), tuple(map(day_text, days)))


def _without(piece: _Piece, left: float, right: float) -> Iterator[_Piece]:
    """Yield the parts of a piece that lie before `left` or after `right`."""
    kind, start, end = piece
    if start < left:
        yield kind, start, min(end, left)
    if end > right:
        yield kind, max(start, right), end


def bar(kind: str, start: Usd, end: Usd, whole: Usd) -> Markup:
    """Draw one bar of a waterfall, from one amount to another, if `whole` takes the full width (the
    bar stands at the left if it is zero). The kind is the class of its color."""
    left, right = sorted([_place(start, whole), _place(end, whole)])
    shape = _path(kind, [_box(left, 0, max(2.0, right - left), _HEIGHT)])
    size = f'viewBox="0 0 {_WIDTH} {_BAR_HEIGHT}" preserveAspectRatio="none"'
    return _markup([f'<svg class="fall" {size} aria-hidden="true">{shape}</svg>'])


def _place(amount: Usd, whole: Usd) -> float:
    """Return the x of an amount, if the whole takes the width; 0 without a whole."""
    if not whole:
        return 0.0
    return _WIDTH * float(amount / whole)


def sparkline(hours: Sequence[int | None]) -> Markup:
    """Draw the utilization of each hour of a day in as few bytes as possible, as a table has
    hundreds. Hours without a reading stay empty; without any reading, return an empty text."""
    path = ""
    x = 0
    is_gap = True
    for height, run in groupby(hours, _spark_height):
        width = 2 * len(list(run))
        if height is not None:
            move = f"M{x} {_SPARK_HEIGHT}" if is_gap else ""
            path += f"{move}V{_SPARK_HEIGHT - height}h{width}"
        elif not is_gap:
            path += f"V{_SPARK_HEIGHT}"
        x += width
        is_gap = height is None
    if not path:
        return _markup([])
    if not is_gap:
        path += f"V{_SPARK_HEIGHT}"
    return _markup([f'<svg viewBox="0 0 {x} {_SPARK_HEIGHT}"><path d="{path}"/></svg>'])


def _spark_height(percent: int | None) -> int | None:
    """Return the height of an hour in a sparkline, from 1 to 12; `None` without a reading."""
    if percent is None:
        return None
    return 1 + round(min(percent, 100) * 0.11)


def day_text(day: date) -> str:
    """Return a day as `Nov 3`."""
    return f"{day:%b} {day.day}"


def _markup(parts: Iterable[str]) -> Markup:
    """Return the parts joined, as HTML that templates do not escape. Call it only with text of our
    own."""
    return Markup("".join(parts))  # noqa: S704 - built of numbers and our own words


def _paths(boxes: Mapping[str, Sequence[str]]) -> list[str]:
    """Return one `<path>` for each kind with any box, all its boxes joined; empty if there are no
    boxes."""
    return [_path(kind, fragments) for kind, fragments in boxes.items() if fragments]


def _path(kind: str, fragments: Sequence[str]) -> str:
    """Return one `<path>` of these fragments, with the kind as its class."""
    name = kind.replace(" ", "-")
    return f'<path class="{name}" d="{"".join(fragments)}"/>'


def _box(x: float, y: float, width: float, height: float) -> str:
    """Return the fragment of a path that draws a box."""
    return f"M{x:.1f} {y:.1f}h{width:.1f}v{height:.1f}h-{width:.1f}z"


def _round_up(highest: Usd) -> Usd:
    """Return the round amount, at least this high, with which an axis ends: 600 for 520; 1 for an
    amount of 0."""
    if highest <= 0:
        return Decimal(1)
    unit = Decimal(1).scaleb(highest.adjusted())
    return next(unit * step for step in _ROUND_AMOUNTS if unit * step >= highest)


def _scale(top: Usd) -> tuple[str, ...]:
    """Return the labels of the upright axis: `top`, its half, and zero."""
    return _short(top), _short(top / 2), _short(Decimal(0))


def _short(amount: Usd) -> str:
    """Return an amount as `$500` or `$0`; from a thousand on in thousands (`$12.5k`), from a
    million on in millions (`$1.2M`)."""
    for unit, letter in ((Decimal(1_000_000), "M"), (Decimal(1_000), "k")):
        if amount >= unit:
            return f"${(amount / unit).normalize():f}{letter}"
    return f"${amount.normalize():f}"


def _ends(days: Sequence[date]) -> tuple[str, ...]:
    """Return the first, the middle and the last day as text. `days` must not be empty."""
    return tuple(day_text(days[index]) for index in (0, len(days) // 2, -1))
