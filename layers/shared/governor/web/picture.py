"""Draws measurements as inline SVG: the busiest GPU as a chart, and every GPU as a heat strip.

Only attributes and classes, as the page's Content-Security-Policy asks for. A unit is a point on a
phone of 390 points. The style sheet draws texts smaller where the picture is larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from zoneinfo import ZoneInfo

from markupsafe import Markup

from governor.domain.episode.episode import Episode
from governor.domain.evidence import Series, Window, busiest, busiest_of, is_reading, padded
from governor.domain.units import UtcDatetime, in_parts, span

_WIDTH, _CHART_LEFT, _STRIP_LEFT = 358.0, 28.0, 58.0
_TOP, _BOTTOM = 10.0, 90.0
"""Heights of 100 and 0 percent."""
_STRIP, _STRIP_PITCH = 14.0, 18.0
_FOOT = 20.0
_LETTER = 5.8
"""About as wide is a letter of a label."""
_HEATS = (25.0, 50.0, 75.0, 100.0)
"""Percent up to which a period is drawn as pale as its place in this list."""
_COLUMNS = 96
"""Most bars of a strip: more cannot be told apart on a phone, and sixteen GPUs would be a long
page."""


def _shown(episode: Episode) -> tuple[Window, list[tuple[str, Series]]]:
    """Return the 24 hours before, or the window that was judged where those could not be read."""
    drawn = episode.history or episode.evidence
    # A label of our own making: what a publisher wrote into a dimension never gets into the
    # picture.
    labels = [gpu.gpu for gpu in drawn.gpus]
    names = [
        "busiest" if one == "all" else f"GPU {int(one) if one.isdecimal() else '?'}"
        for one in labels
    ]
    series = [padded(gpu.utilization, drawn.window) for gpu in drawn.gpus]
    return drawn.window, list(zip(names, series, strict=True))


def busiest_svg(episode: Episode, idle_since: UtcDatetime | None) -> Markup:
    """Draw the busiest GPU in percent over time, and what is idle by now shaded and named. A period
    is a gap unless a GPU was at work in it or all of them were measured."""
    drawn, below = episode.history or episode.evidence, episode.idle_below_percent
    window, highest = drawn.window, busiest(drawn.gpus, drawn.window, below)
    about = f"{_length(window)}, in percent; threshold {below:g}%"
    parts = [_begin(_BOTTOM + _FOOT, "busiest", f"Utilization of the busiest GPU over {about}")]
    for percent in (100, 50, 0):
        y = _height(percent)
        parts.append(f'<line class="frame" x1="{_CHART_LEFT}" x2="{_WIDTH}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="axis end" x="{_CHART_LEFT - 4}" y="{y + 4}">{percent}</text>')
    if idle_since is not None:
        label = f"idle {span(window.end - idle_since)}"
        parts += _named("span", label, _x(window, idle_since, _CHART_LEFT), _WIDTH)
    step, x = (_WIDTH - _CHART_LEFT) / max(1, len(highest)), _CHART_LEFT
    for kind, run in groupby(highest, lambda value: _kind(value, below)):
        values = list(run)
        end = x + step * len(values)
        if kind == "gap":
            parts += _named(kind, "no data", x, end)
        else:
            parts.append(_area(kind, x, step, [value or 0.0 for value in values]))
        x = end
    y = _height(below)
    parts.append(f'<line class="threshold" x1="{_CHART_LEFT}" x2="{_WIDTH}" y1="{y}" y2="{y}"/>')
    return _whole(parts, _times(episode, window, _CHART_LEFT, _BOTTOM + 15))


def strips_svg(episode: Episode) -> Markup:
    """Draw every GPU as a strip, darker when busier, then memory and power; the judged window is
    framed."""
    window, rows = _shown(episode)
    below, history = episode.idle_below_percent, episode.history
    drawn = [(name, series, below) for name, series in rows]
    if history is not None:
        others = (("memory", history.memory_percent), ("power", history.power_percent))
        drawn += [(name, padded(series, window), 0.0) for name, series in others if series]
    bottom = _STRIP_PITCH * len(drawn)
    title = f"Utilization of each GPU over {_length(window)}, then GPU memory and power in percent"
    parts = [_begin(bottom + _FOOT, "strips", title)]
    for number, (name, series, threshold) in enumerate(drawn):
        y = number * _STRIP_PITCH + 2
        parts.append(f'<text class="axis" x="0" y="{y + 11}">{name}</text>')
        size = -(-len(series) // _COLUMNS)
        columns = [busiest_of(one, threshold) for one in in_parts(series, size)]
        x = _STRIP_LEFT
        for kind, run in groupby(_heat(one, threshold) for one in columns):
            width = (_WIDTH - _STRIP_LEFT) * len(list(run)) / len(columns)
            parts.append(_rect(kind, x, y, width, _STRIP))
            x += width
    if history is not None:
        judged = episode.evidence.window
        start, end = (_x(window, edge, _STRIP_LEFT) for edge in (judged.start, judged.end))
        parts.append(_rect("judged", start, 1, end - start, bottom - 2))
    return _whole(parts, _times(episode, window, _STRIP_LEFT, bottom + 15))


def _length(window: Window) -> str:
    return "24 hours" if window.length >= timedelta(hours=24) else "the window that was judged"


def _kind(value: float | None, below: float) -> str:
    if value is None or not is_reading(value):
        return "gap"
    return "busy" if value >= below else "idle"


def _heat(value: float | None, below: float) -> str:
    """The kind, with how dark it is; memory and power have no threshold."""
    kind = _kind(value, below)
    if kind != "busy":
        return kind
    place = next(
        (place for place, most in enumerate(_HEATS, 1) if (value or 0.0) <= most), len(_HEATS)
    )
    return f"{kind if below else 'level'} h{place}"


def _height(percent: float) -> float:
    return round(_BOTTOM - (_BOTTOM - _TOP) * min(100.0, percent) / 100, 1)


def _x(window: Window, moment: datetime, left: float) -> float:
    share = (moment - window.start) / (window.end - window.start)
    return left + (_WIDTH - left) * float(min(1.0, max(0.0, share)))


def _area(kind: str, x: float, step: float, values: Sequence[float]) -> str:
    """Draw periods as steps, of which those that are as high are one; an idle one is still seen."""
    path = [f"M{x:.1f} {_BOTTOM:g}"]
    for height, run in groupby(min(_height(value), _BOTTOM - 1.5) for value in values):
        x += step * len(list(run))
        path.append(f"V{height:g}H{x:.1f}")
    return f'<path class="{kind}" d="{"".join(path)}V{_BOTTOM:g}Z"/>'


def _named(kind: str, label: str, start: float, end: float) -> Iterator[str]:
    """Draw a time from top to bottom, with its label where that has room."""
    yield _rect(kind, start, _TOP, end - start, _BOTTOM - _TOP)
    if len(label) * _LETTER < end - start:
        y = _TOP + 22  # between the lines of 100 and 50 percent
        yield f'<text class="axis middle" x="{(start + end) / 2:.1f}" y="{y:g}">{label}</text>'


def _times(episode: Episode, window: Window, left: float, y: float) -> Iterator[str]:
    """Begin, middle and end, with their day, in the zone of those who are asked."""
    zone, middle = ZoneInfo(episode.time_zone), window.start + window.length / 2
    for place, x, moment in (
        ("", left, window.start),
        (" middle", (left + _WIDTH) / 2, middle),
        (" end", _WIDTH, window.end),
    ):
        time = f"{moment.astimezone(zone):%a %H:%M}"
        yield f'<text class="axis{place}" x="{x:g}" y="{y:g}">{time}</text>'


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{height:g}"/>'


def _begin(height: float, name: str, title: str) -> str:
    return (
        f'<svg class="picture" viewBox="0 0 {_WIDTH:g} {height:g}" role="img" '
        f'aria-labelledby="{name}"><title id="{name}">{title}</title>'
    )


def _whole(parts: Sequence[str], times: Iterator[str]) -> Markup:
    """Every text in it is of our own making, so nothing needs escaping."""
    return Markup("".join((*parts, *times, "</svg>")))  # noqa: S704 - built of numbers and our own words
