"""Charts as inline SVG: shapes alone, stretched to the width there is, as the
Content-Security-Policy asks for. Their labels are HTML beside them, so that text keeps its size on
a phone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from itertools import groupby

from markupsafe import Markup

from governor.domain.units import Percent, Usd, UtcDatetime, day_and_time, usd

_WIDTH, _HEIGHT = 1000, 200
_STEPS = tuple(map(Decimal, ("1", "1.5", "2", "3", "4", "6", "8", "10")))


@dataclass(frozen=True, slots=True)
class Chart:
    """Shapes, and the labels of their axes: from the top down, and from the left to the right."""

    shapes: Markup
    up: tuple[str, ...]
    along: tuple[str, ...]


def stacked(days: Sequence[tuple[date, Sequence[Usd]]], kinds: Sequence[str]) -> Chart:
    """Draw a bar a day, of amounts in the order of `kinds`, from the bottom up. What is below zero,
    as storage makes an avoided cost, is in the table beside it alone."""
    top = _round_up(
        max((sum((max(one, Decimal(0)) for one in amounts), Decimal(0)) for _, amounts in days))
    )
    step = _WIDTH / len(days)
    bars: dict[str, list[str]] = {kind: [] for kind in kinds}
    hints = []
    for number, (day, amounts) in enumerate(days):
        foot, words = float(_HEIGHT), []
        for kind, amount in zip(kinds, amounts, strict=True):
            tall = _HEIGHT * float(max(amount, Decimal(0)) / top)
            words.append(f"{kind} {usd(amount)}")
            if tall:
                bars[kind].append(_box(number * step + 2, foot - tall, step - 4, tall))
                foot -= tall
        text = f"{day_text(day)}: {', '.join(words)}"
        x, wide = f"{number * step:.1f}", f"{step:.1f}"
        hints.append(
            f'<rect class="hint" x="{x}" width="{wide}" '
            f'height="{_HEIGHT}"><title>{text}</title></rect>'
        )
    return Chart(_markup([*_paths(bars), *hints]), _scale(top), _ends([day for day, _ in days]))


def lines(
    days: Sequence[date], series: Sequence[tuple[str, Sequence[Usd]]], limit: Usd | None = None
) -> Chart:
    """Draw sums that grow by day, and a limit; a series may end before the last day."""
    highest = max((one for _, amounts in series for one in amounts), default=Decimal(0))
    top = _round_up(max(highest, limit or Decimal(0)))
    step = _WIDTH / len(days)
    drawn = []
    for kind, amounts in series:
        points = [
            f"{(number + 1) * step:.1f} {_HEIGHT - _HEIGHT * float(max(one, Decimal(0)) / top):.1f}"
            for number, one in enumerate(amounts)
        ]
        drawn.append(f'<polyline class="{kind}" points="0 {_HEIGHT} {" ".join(points)}"/>')
    if limit is not None:
        y = f"{_HEIGHT - _HEIGHT * float(limit / top):.1f}"
        drawn.append(f'<line class="limit" x1="0" x2="{_WIDTH}" y1="{y}" y2="{y}"/>')
    return Chart(_markup(drawn), _scale(top), _ends(days))


def hourly(
    hours: Sequence[int | None], until: UtcDatetime, zone: str, idle_below: Percent
) -> Chart:
    """Draw the highest utilization of each hour; hours that were not measured are drawn as gaps."""
    step = _WIDTH / max(1, len(hours))
    boxes: dict[str, list[str]] = {"work": [], "idle": [], "no data": []}
    for number, percent in enumerate(hours):
        kind = "no data" if percent is None else "idle" if percent < idle_below else "work"
        tall = _HEIGHT if percent is None else max(3.0, _HEIGHT * percent / 100)
        boxes[kind].append(_box(number * step + 1, _HEIGHT - tall, step - 2, tall))
    shapes = _markup(_paths(boxes))
    length, place = timedelta(hours=len(hours)), zone.rpartition("/")[2].replace("_", " ")
    first, middle, last = (day_and_time(until - length * part, zone, until) for part in (1, 0.5, 0))
    return Chart(shapes, ("100%", "50%", "0%"), (first, middle, f"{last} {place}"))


def strip(
    spans: Iterable[tuple[str, UtcDatetime, UtcDatetime]], start: UtcDatetime, end: UtcDatetime
) -> Chart:
    """Draw times of several kinds side by side, cut at the start and at the end."""
    boxes: dict[str, list[str]] = {}
    for kind, first, last in spans:
        left, right = (_WIDTH * float((edge - start) / (end - start)) for edge in (first, last))
        left, right = max(0.0, left), min(float(_WIDTH), right)
        if right > left:
            boxes.setdefault(kind, []).append(_box(left, 0, max(2.0, right - left), _HEIGHT))
    shapes = _markup(_paths(boxes))
    days = [(start + (end - start) * share).date() for share in (0, 0.5, 1)]
    return Chart(shapes, (), tuple(map(day_text, days)))


def bar(kind: str, start: Usd, end: Usd, whole: Usd) -> Markup:
    """Draw one bar of a waterfall, between two amounts of a whole."""
    left, right = sorted(_WIDTH * float(one / whole) if whole else 0.0 for one in (start, end))
    [shape] = _paths({kind: [_box(left, 0, max(2.0, right - left), _HEIGHT)]})
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none"'
    return _markup([f'<svg class="fall" {size} aria-hidden="true">{shape}</svg>'])


def sparkline(hours: Sequence[int | None]) -> Markup:
    """Draw a day of utilization in as few bytes as may be: a table has hundreds. Gaps stay
    empty."""
    path, x, is_gap = "", 0, True
    for tall, run in groupby(
        None if one is None else 1 + round(min(one, 100) * 0.11) for one in hours
    ):
        wide = 2 * len(list(run))
        if tall is not None:
            path += f"{f'M{x} 12' if is_gap else ''}V{12 - tall}h{wide}"
        elif not is_gap:
            path += "V12"
        x, is_gap = x + wide, tall is None
    closed = path if is_gap else f"{path}V12"
    return _markup([f'<svg viewBox="0 0 {x} 12"><path d="{closed}"/></svg>'] if path else [])


def day_text(day: date) -> str:
    """`Nov 3`."""
    return f"{day:%b} {day.day}"


def _markup(parts: Iterable[str]) -> Markup:
    return Markup("".join(parts))  # noqa: S704 - built of numbers and our own words


def _paths(boxes: Mapping[str, Sequence[str]]) -> list[str]:
    """Return one shape of each kind that has any box."""
    return [
        f'<path class="{kind.replace(" ", "-")}" d="{"".join(some)}"/>'
        for kind, some in boxes.items()
        if some
    ]


def _box(x: float, y: float, wide: float, tall: float) -> str:
    return f"M{x:.1f} {y:.1f}h{wide:.1f}v{tall:.1f}h-{wide:.1f}z"


def _round_up(highest: Usd) -> Usd:
    """The next round amount: an axis ends with it."""
    if highest <= 0:
        return Decimal(1)
    unit = Decimal(1).scaleb(highest.adjusted())
    return next(unit * step for step in _STEPS if unit * step >= highest)


def _scale(top: Usd) -> tuple[str, ...]:
    return tuple(_short(one) for one in (top, top / 2, Decimal(0)))


def _short(amount: Usd) -> str:
    """`$12.5k`, `$500`, `$0`."""
    for unit, letter in ((Decimal(1_000_000), "M"), (Decimal(1_000), "k")):
        if amount >= unit:
            return f"${(amount / unit).normalize():f}{letter}"
    return f"${amount.normalize():f}"


def _ends(days: Sequence[date]) -> tuple[str, ...]:
    return tuple(day_text(days[at]) for at in (0, len(days) // 2, -1))
