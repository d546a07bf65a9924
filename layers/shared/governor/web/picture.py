"""Draws measurements as inline SVG: the busiest GPU as a chart, and every GPU as a heat strip.

The pictures use only attributes and classes, as the page's Content-Security-Policy requires. No
text of a publisher of metrics gets into a picture. A unit is a point on a phone of 390 points; the
style sheet draws texts smaller if the picture is larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple
from zoneinfo import ZoneInfo

from markupsafe import Markup

from governor.core.units import UtcDatetime, in_parts, span
from governor.episode.model.episode import Episode
from governor.evidence.model import Series, Window
from governor.evidence.rules.profiles import part_word_of_type
from governor.evidence.rules.series import busiest, busiest_of, is_reading, padded
from governor.policy.model.profiles import NEURON_CORE

_WIDTH = 358.0
_CHART_LEFT = 28.0
_STRIP_LEFT = 58.0
_TOP = 10.0
"""Height of 100 percent."""
_BOTTOM = 90.0
"""Height of 0 percent."""
_STRIP_HEIGHT = 14.0
_STRIP_PITCH = 18.0
"""Distance from the top of one strip to the top of the next."""
_FOOT = 20.0
_LETTER_WIDTH = 6.6
"""The width of a letter of a label, roughly."""
_HEATS = (25.0, 50.0, 75.0, 100.0)
"""The highest percent of each shade, from pale to dark."""
_COLUMNS = 96
"""The most bars of a strip: more cannot be distinguished on a phone, and would make the page of
sixteen GPUs long."""
_SHORT_WORDS = {NEURON_CORE: "core"}
"""Words for labels, where the word itself is wider than the room on the left."""
_NO_THRESHOLD = 0.0
"""The threshold of memory and power: they are never idle."""
_GAP_PATTERN = (
    '<pattern id="gap-pattern" patternUnits="userSpaceOnUse" width="6" height="6">'
    '<path d="M-1 1L1 -1M0 6L6 0M5 7L7 5"/></pattern>'
)
"""Hatching for time without readings, in both pictures of a page. The style sheet uses it where the
reader's own colors replace ours."""


class Strip(NamedTuple):
    """One series that is drawn as a strip. Percents under the threshold count as idle."""

    name: str
    series: Series
    threshold: float


def _gpu_strips(episode: Episode) -> tuple[Window, list[Strip]]:
    """Return the window of time to draw, and a strip for each GPU in it. The window is the 24 hours
    of the history, or the judged window if the history could not be read."""
    drawn = episode.measurement.history or episode.measurement.evidence
    word = part_word_of_type(episode.instance.instance_type)
    strips = []
    for gpu in drawn.gpus:
        label = _label(gpu.gpu, _SHORT_WORDS.get(word, word))
        series = padded(gpu.utilization, drawn.window)
        strips.append(Strip(label, series, episode.measurement.idle_below_percent))
    return drawn.window, strips


def _label(gpu: str, word: str) -> str:
    """Return the label of a GPU: `GPU 3`, `busiest` for `all`, or `GPU ?`, with the `word` for a
    GPU of this instance. Any other name is not shown, as a publisher of metrics may have written
    anything into it."""
    if gpu == "all":
        return "busiest"
    if gpu.isdecimal():
        return f"{word} {int(gpu)}"
    return f"{word} ?"


def busiest_svg(episode: Episode, idle_since: UtcDatetime | None) -> Markup:
    """Draw the busiest GPU in percent over time, with the idle time shaded and named. A period is
    drawn as a gap if no GPU worked in it and not all were measured. `idle_since` is `None` if no
    idle time is to be shaded."""
    drawn = episode.measurement.history or episode.measurement.evidence
    below = episode.measurement.idle_below_percent
    window = drawn.window
    highest = busiest(drawn.gpus, window, below)
    about = f"{_length(window)}, in percent; threshold {below:g}%"
    word = part_word_of_type(episode.instance.instance_type)
    title = f"Utilization of the busiest {word} over {about}"
    parts = [_begin(_BOTTOM + _FOOT, "busiest", title), _GAP_PATTERN]
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
    """Yield a shape for each run of periods of the same kind: busy, idle under `below` percent, or
    gap (`None`)."""
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
    """Draw a strip for each GPU, darker when busier, then for memory and power if the history has
    them. If the history is shown, the judged window is framed; without a history the strips show
    that window alone."""
    window, strips = _gpu_strips(episode)
    history = episode.measurement.history
    if history is not None:
        if history.memory_percent:
            memory = padded(history.memory_percent, window)
            strips.append(Strip("memory", memory, _NO_THRESHOLD))
        if history.power_percent:
            power = padded(history.power_percent, window)
            strips.append(Strip("power", power, _NO_THRESHOLD))
    bottom = _STRIP_PITCH * len(strips)
    word = part_word_of_type(episode.instance.instance_type)
    title = (
        f"Utilization of each {word} over {_length(window)}, then its memory and power in percent"
    )
    parts = [_begin(bottom + _FOOT, "strips", title)]
    for number, strip in enumerate(strips):
        y = number * _STRIP_PITCH + 2
        parts.append(f'<text class="axis" x="0" y="{y + 11}">{strip.name}</text>')
        parts += _strip_shapes(strip, y)
    if history is not None:
        judged = episode.measurement.evidence.window
        start = _x(window, judged.start, _STRIP_LEFT)
        end = _x(window, judged.end, _STRIP_LEFT)
        parts.append(_rect("judged", start, 1, end - start, bottom - 2))
    return _whole(parts, _times(episode, window, _STRIP_LEFT, bottom + 15))


def _strip_shapes(strip: Strip, y: float) -> Iterator[str]:
    """Yield the shapes of a strip whose top is at `y`: one for each run of columns of the same
    heat. A column shows the busiest of its periods."""
    # Rounded up: at most `_COLUMNS` columns.
    periods_a_column = -(-len(strip.series) // _COLUMNS)
    columns = []
    for periods in in_parts(strip.series, periods_a_column):
        columns.append(busiest_of(periods, strip.threshold))
    heats = [_heat(percent, strip.threshold) for percent in columns]
    x = _STRIP_LEFT
    for heat, run in groupby(heats):
        width = (_WIDTH - _STRIP_LEFT) * len(list(run)) / len(columns)
        yield _rect(heat, x, y, width, _STRIP_HEIGHT)
        x += width


def _length(window: Window) -> str:
    """Return the length of the drawn window in words, such as `24 hours` or `35 min`."""
    if window.length >= timedelta(hours=24):
        return "24 hours"
    return span(window.length)


def _kind(percent: float | None, below: float) -> str:
    """Return the class of a period: `gap` without a reading, `busy`, or `idle` under the threshold
    `below`."""
    if percent is None or not is_reading(percent):
        return "gap"
    return "busy" if percent >= below else "idle"


def _heat(percent: float | None, below: float) -> str:
    """Return the classes of a column: `gap` or `idle`, as `_kind` has it, else `busy` with its
    shade, such as `busy h2`. Without a threshold (`below` is 0, for memory and power) a reading is
    `level` in place of `busy`."""
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
    """Return the y of a percent in the chart; more than 100 is drawn as 100."""
    return round(_BOTTOM - (_BOTTOM - _TOP) * min(100.0, percent) / 100, 1)


def _x(window: Window, moment: datetime, left: float) -> float:
    """Return the x of a moment, in a picture that begins at `left`. Moments outside of the window
    are drawn at its ends."""
    share = (moment - window.start) / (window.end - window.start)
    return left + (_WIDTH - left) * float(min(1.0, max(0.0, share)))


def _area(kind: str, x: float, step: float, percents: Sequence[float]) -> str:
    """Return the shape of periods of a kind, drawn as steps from `x` on, each `step` wide. Even a
    period of 0 percent can be seen."""
    path = [f"M{x:.1f} {_BOTTOM:g}"]
    heights = [min(_height(percent), _BOTTOM - 1.5) for percent in percents]
    for height, run in groupby(heights):
        x += step * len(list(run))
        path.append(f"V{height:g}H{x:.1f}")
    return f'<path class="{kind}" d="{"".join(path)}V{_BOTTOM:g}Z"/>'


def _named(kind: str, label: str, start: float, end: float) -> Iterator[str]:
    """Yield the shape of a time from x `start` to x `end`, as high as the chart, and its label if
    there is room for it. `kind` is the class of the shape. The label is not escaped: call it only
    with text of our own."""
    yield _rect(kind, start, _TOP, end - start, _BOTTOM - _TOP)
    if len(label) * _LETTER_WIDTH < end - start:
        # Between the lines of 100 and 50 percent.
        y = _TOP + 22
        yield f'<text class="axis middle" x="{(start + end) / 2:.1f}" y="{y:g}">{label}</text>'


def _times(episode: Episode, window: Window, left: float, y: float) -> Iterator[str]:
    """Yield the texts for the begin, the middle and the end of the window, in the time zone of the
    people who are asked."""
    zone = ZoneInfo(episode.asking.time_zone)
    labels = (
        ("", left, window.start),
        (" middle", (left + _WIDTH) / 2, window.start + window.length / 2),
        (" end", _WIDTH, window.end),
    )
    for style, x, moment in labels:
        time = f"{moment.astimezone(zone):%a %H:%M}"
        yield f'<text class="axis{style}" x="{x:g}" y="{y:g}">{time}</text>'


def _level_line(kind: str, y: float) -> str:
    """Return a horizontal line across the chart at this y, whose class is `kind`."""
    return f'<line class="{kind}" x1="{_CHART_LEFT}" x2="{_WIDTH}" y1="{y}" y2="{y}"/>'


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    """Return a rectangle whose class is `kind`, with its upper left corner at `x` and `y`."""
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{height:g}"/>'


def _begin(height: float, name: str, title: str) -> str:
    """Return the opening tag of a picture of this height, with its title. `name` is the id of the
    title. Neither is escaped: call it only with text of our own."""
    return (
        f'<svg class="picture" viewBox="0 0 {_WIDTH:g} {height:g}" role="img" '
        f'aria-labelledby="{name}"><title id="{name}">{title}</title>'
    )


def _whole(parts: Sequence[str], times: Iterator[str]) -> Markup:
    """Return the finished picture. All its texts are of our own making, so none needs escaping."""
    return Markup("".join((*parts, *times, "</svg>")))  # noqa: S704 - numbers and our own words
