"""Draws measurements as inline SVG: the busiest GPU as a chart, and every GPU as a heat strip.

The pictures use only attributes and classes, as the page's Content-Security-Policy asks for. No
text that a publisher of metrics wrote gets into one. A unit is a point on a phone of 390 points;
the style sheet draws texts smaller where the picture is larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from zoneinfo import ZoneInfo

from markupsafe import Markup

from governor.core.units import UtcDatetime, in_parts, span
from governor.episode.model.episode import Episode
from governor.evidence.model import Series, Window
from governor.evidence.rules.series import busiest, busiest_of, is_reading, padded

_WIDTH = 358.0
_CHART_LEFT = 28.0
_STRIP_LEFT = 58.0
_TOP = 10.0
"""Height of 100 percent."""
_BOTTOM = 90.0
"""Height of 0 percent."""
_STRIP = 14.0
_STRIP_PITCH = 18.0
_FOOT = 20.0
_LETTER = 5.8
"""The width of a letter of a label, about."""
_HEATS = (25.0, 50.0, 75.0, 100.0)
"""The highest percent of each shade, from pale to dark."""
_COLUMNS = 96
"""The most bars of a strip: more cannot be distinguished on a phone, and would make the page of
sixteen GPUs long."""


def _shown(episode: Episode) -> tuple[Window, list[tuple[str, Series]]]:
    """Return the 24 hours before, or the judged window if those could not be read, with the series
    of each GPU by its label."""
    drawn = episode.history or episode.evidence
    rows = [(_label(gpu.gpu), padded(gpu.utilization, drawn.window)) for gpu in drawn.gpus]
    return drawn.window, rows


def _label(gpu: str) -> str:
    """Return a label of our own making: a publisher may have written anything into the
    dimension."""
    if gpu == "all":
        return "busiest"
    return f"GPU {int(gpu)}" if gpu.isdecimal() else "GPU ?"


def busiest_svg(episode: Episode, idle_since: UtcDatetime | None) -> Markup:
    """Draw the busiest GPU in percent over time, and the idle time shaded and named. A period is a
    gap unless a GPU worked in it or all of them were measured."""
    drawn = episode.history or episode.evidence
    below = episode.idle_below_percent
    window = drawn.window
    highest = busiest(drawn.gpus, window, below)
    about = f"{_length(window)}, in percent; threshold {below:g}%"
    parts = [_begin(_BOTTOM + _FOOT, "busiest", f"Utilization of the busiest GPU over {about}")]
    for percent in (100, 50, 0):
        y = _height(percent)
        parts.append(_level_line("frame", y))
        parts.append(f'<text class="axis end" x="{_CHART_LEFT - 4}" y="{y + 4}">{percent}</text>')
    if idle_since is not None:
        label = f"idle {span(window.end - idle_since)}"
        parts += _named("span", label, _x(window, idle_since, _CHART_LEFT), _WIDTH)
    parts += _runs(highest, below)
    parts.append(_level_line("threshold", _height(below)))
    return _whole(parts, _times(episode, window, _CHART_LEFT, _BOTTOM + 15))


def _runs(highest: Sequence[float | None], below: float) -> Iterator[str]:
    """Draw the periods of one kind that follow each other as one shape."""
    step = (_WIDTH - _CHART_LEFT) / max(1, len(highest))
    x = _CHART_LEFT
    for kind, run in groupby(highest, lambda percent: _kind(percent, below)):
        percents = list(run)
        end = x + step * len(percents)
        if kind == "gap":
            yield from _named(kind, "no data", x, end)
        else:
            yield _area(kind, x, step, [percent or 0.0 for percent in percents])
        x = end


def strips_svg(episode: Episode) -> Markup:
    """Draw every GPU as a strip, darker when busier, then memory and power; the judged window is
    framed."""
    window, rows = _shown(episode)
    below = episode.idle_below_percent
    history = episode.history
    drawn = [(name, series, below) for name, series in rows]
    if history is not None:
        if history.memory_percent:
            drawn.append(("memory", padded(history.memory_percent, window), 0.0))
        if history.power_percent:
            drawn.append(("power", padded(history.power_percent, window), 0.0))
    bottom = _STRIP_PITCH * len(drawn)
    title = f"Utilization of each GPU over {_length(window)}, then GPU memory and power in percent"
    parts = [_begin(bottom + _FOOT, "strips", title)]
    for number, (name, series, threshold) in enumerate(drawn):
        y = number * _STRIP_PITCH + 2
        parts.append(f'<text class="axis" x="0" y="{y + 11}">{name}</text>')
        parts += _strip(series, threshold, y)
    if history is not None:
        judged = episode.evidence.window
        start = _x(window, judged.start, _STRIP_LEFT)
        end = _x(window, judged.end, _STRIP_LEFT)
        parts.append(_rect("judged", start, 1, end - start, bottom - 2))
    return _whole(parts, _times(episode, window, _STRIP_LEFT, bottom + 15))


def _strip(series: Series, threshold: float, y: float) -> Iterator[str]:
    """Draw one series; columns of one heat that follow each other are one shape."""
    periods_a_column = -(-len(series) // _COLUMNS)
    columns = [busiest_of(periods, threshold) for periods in in_parts(series, periods_a_column)]
    heats = [_heat(percent, threshold) for percent in columns]
    x = _STRIP_LEFT
    for heat, run in groupby(heats):
        width = (_WIDTH - _STRIP_LEFT) * len(list(run)) / len(columns)
        yield _rect(heat, x, y, width, _STRIP)
        x += width


def _length(window: Window) -> str:
    return "24 hours" if window.length >= timedelta(hours=24) else "the window that was judged"


def _kind(percent: float | None, below: float) -> str:
    if percent is None or not is_reading(percent):
        return "gap"
    return "busy" if percent >= below else "idle"


def _heat(percent: float | None, below: float) -> str:
    """Return the kind and how dark it is; memory and power have no threshold."""
    kind = _kind(percent, below)
    if kind != "busy":
        return kind
    shade = len(_HEATS)
    for number, highest in enumerate(_HEATS, 1):
        if (percent or 0.0) <= highest:
            shade = number
            break
    return f"{kind if below else 'level'} h{shade}"


def _height(percent: float) -> float:
    return round(_BOTTOM - (_BOTTOM - _TOP) * min(100.0, percent) / 100, 1)


def _x(window: Window, moment: datetime, left: float) -> float:
    share = (moment - window.start) / (window.end - window.start)
    return left + (_WIDTH - left) * float(min(1.0, max(0.0, share)))


def _area(kind: str, x: float, step: float, percents: Sequence[float]) -> str:
    """Draw periods as steps; equally high ones are one step, and an idle one can still be seen."""
    path = [f"M{x:.1f} {_BOTTOM:g}"]
    heights = [min(_height(percent), _BOTTOM - 1.5) for percent in percents]
    for height, run in groupby(heights):
        x += step * len(list(run))
        path.append(f"V{height:g}H{x:.1f}")
    return f'<path class="{kind}" d="{"".join(path)}V{_BOTTOM:g}Z"/>'


def _named(kind: str, label: str, start: float, end: float) -> Iterator[str]:
    """Draw a time from top to bottom, with its label if there is room for it."""
    yield _rect(kind, start, _TOP, end - start, _BOTTOM - _TOP)
    if len(label) * _LETTER < end - start:
        y = _TOP + 22  # between the lines of 100 and 50 percent
        yield f'<text class="axis middle" x="{(start + end) / 2:.1f}" y="{y:g}">{label}</text>'


def _times(episode: Episode, window: Window, left: float, y: float) -> Iterator[str]:
    """Draw the begin, the middle and the end with their days, in the zone of those who are
    asked."""
    zone = ZoneInfo(episode.time_zone)
    labels = (
        ("", left, window.start),
        (" middle", (left + _WIDTH) / 2, window.start + window.length / 2),
        (" end", _WIDTH, window.end),
    )
    for style, x, moment in labels:
        time = f"{moment.astimezone(zone):%a %H:%M}"
        yield f'<text class="axis{style}" x="{x:g}" y="{y:g}">{time}</text>'


def _level_line(kind: str, y: float) -> str:
    return f'<line class="{kind}" x1="{_CHART_LEFT}" x2="{_WIDTH}" y1="{y}" y2="{y}"/>'


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{height:g}"/>'


def _begin(height: float, name: str, title: str) -> str:
    return (
        f'<svg class="picture" viewBox="0 0 {_WIDTH:g} {height:g}" role="img" '
        f'aria-labelledby="{name}"><title id="{name}">{title}</title>'
    )


def _whole(parts: Sequence[str], times: Iterator[str]) -> Markup:
    """Return the finished picture. All its texts are of our own making, so none needs escaping."""
    return Markup("".join((*parts, *times, "</svg>")))  # noqa: S704 - numbers and our own words
