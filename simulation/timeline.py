"""The timeline of one instance in a back-test as inline SVG: utilization on top, below it a lane
for each policy.

It has only attributes and classes, no styles and no scripts. Names of policies, which others wrote,
are escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import groupby
from math import ceil, isnan

from markupsafe import Markup, escape

from evaluation.bins import IDLE_BELOW_PERCENT
from governor.core.units import money
from simulation.outcome import Event, Stop
from simulation.recording import Recording

_TALL = 46
_NAME = 15
_LANE = 14
_SPACE = 4
_FOOT = 18
_MOST_BARS = 380
"""More bars cannot be distinguished on a screen."""
_MOST_TICKS = 15
_NARROWEST = 0.4
"""Percent of the width: narrower marks could not be seen."""
_EDGE = 3
"""Percent of the width: so near the edge, a date begins or ends at its tick."""


def timeline(recording: Recording, lanes: Sequence[tuple[str, Sequence[Event]]]) -> Markup:
    """Return the picture of one instance, with a lane for each policy under its name.

    It is as wide as the screen: places are in percent, and text keeps its size.
    """
    bottom = _TALL + (_NAME + _LANE + _SPACE) * len(lanes) + _SPACE
    parts = [
        Markup('<svg width="100%" height="{}" role="img"><title>{}</title>').format(
            bottom + _FOOT,
            f"Utilization of {recording.instance.name}, and what each policy would have done",
        ),
        *_ticks(recording, bottom),
        *_bars(recording),
    ]
    for number, (name, events) in enumerate(lanes):
        top = _TALL + number * (_NAME + _LANE + _SPACE)
        parts.append(
            Markup('<text class="axis" x="0" y="{}">{}</text>').format(top + _NAME - 3, name)
        )
        parts.append(_rect("frame", 0, top + _NAME, 100, _LANE))
        for event in events:
            parts += _marks(recording, event, top + _NAME)
    return Markup("").join([*parts, Markup("</svg>")])


def when(moment: datetime) -> str:
    """Return a moment as `Nov 2, 09:05`; the page says that times are UTC."""
    return f"{moment:%b} {moment.day}, {moment:%H:%M}"


def _bars(recording: Recording) -> list[Markup]:
    """Draw a path for each kind: hundreds of bars, stretched to the width."""
    values = recording.figures.utilization
    size = max(1, ceil(len(values) / _MOST_BARS))
    bars = [_bar(values[start : start + size]) for start in range(0, len(values), size)]
    steps_by_kind: dict[str, list[str]] = {}
    x = 0
    for (kind, height), run in groupby(bars):
        width = len(list(run))
        step = f"M{x} {_TALL}v-{height}h{width}v{height}z"
        steps_by_kind.setdefault(kind, []).append(step)
        x += width
    paths = []
    for kind, steps in steps_by_kind.items():
        paths.append(Markup('<path class="{}" d="{}"/>').format(kind, "".join(steps)))
    drawing = Markup(
        '<svg width="100%" height="{0}" viewBox="0 0 {1} {0}" preserveAspectRatio="none">{2}</svg>'
    )
    return [
        _rect("frame", 0, 0, 100, _TALL),
        drawing.format(_TALL, len(bars), Markup("").join(paths)),
    ]


def _bar(values: Sequence[float]) -> tuple[str, int]:
    """Return the kind and the height of the highest reading; coarse, so that a page stays small."""
    readings = [value for value in values if not isnan(value)]
    if not readings:
        return "gap", _TALL
    top = min(100.0, max(readings))
    kind = "idle" if top < IDLE_BELOW_PERCENT else "busy"
    return kind, max(1, round(_TALL * top / 100))


def _marks(recording: Recording, event: Event, top: int) -> list[Markup]:
    """Draw one episode: from when it was found to its end, its stop, and the work that it hit."""
    left = _x(recording, event.found_at)
    right = _x(recording, event.ended_at)
    kind = "told"
    asked = "nobody asked"
    if event.sent_at is not None:
        kind = "asked"
        asked = f"asked {when(event.sent_at)}"
    title = f"{event.ending.value}: found idle {when(event.found_at)}, {asked}"
    marks = [_rect(kind, left, top, right - left, _LANE, title)]
    if event.stop is not None:
        marks += _stop_marks(recording, event.stop, top)
    return marks


def _stop_marks(recording: Recording, stop: Stop, top: int) -> list[Markup]:
    left = _x(recording, stop.at)
    right = _x(recording, stop.until)
    saved = "unpriced" if stop.usd is None else f"{money(stop.usd)} USD"
    title = f"stopped {when(stop.at)} until {when(stop.until)}, {saved}"
    marks = [_rect("stopped", left, top, right - left, _LANE, title)]
    if stop.hit_work:
        kind = "hit soon" if stop.is_hit_soon else "hit"
        cross = Markup(
            '<text class="{}" x="{}%" y="{}">&#215;<title>work resumed {}</title></text>'
        )
        marks.append(cross.format(kind, f"{right:.1f}", top + _LANE - 2, when(stop.until)))
    return marks


def _ticks(recording: Recording, bottom: int) -> list[Markup]:
    """Draw midnights with their dates; a phone shows only every second date."""
    days = ceil((recording.span.end - recording.span.start) / timedelta(days=1))
    step = max(1, ceil(days / _MOST_TICKS))
    midnight = recording.span.start.replace(hour=0, minute=0, second=0, microsecond=0)
    line = Markup('<line class="tick" x1="{0}" x2="{0}" y1="0" y2="{1}"/>')
    text = Markup('<text class="{}" x="{}" y="{}">{}</text>')
    parts = []
    for number, day in enumerate(range(0, days + 1, step)):
        moment = midnight + timedelta(days=day)
        if recording.span.start <= moment < recording.span.end:
            place = _x(recording, moment)
            x = f"{place:.1f}%"
            anchor = _anchor(place)
            is_odd = bool(number % 2) or anchor == "begin"
            kind = f"axis {anchor} odd" if is_odd else f"axis {anchor}"
            parts.append(line.format(x, bottom))
            parts.append(text.format(kind, x, bottom + 13, f"{moment:%b} {moment.day}"))
    return parts


def _anchor(place: float) -> str:
    """Return which part of a date stands at its tick, so that it stays within the picture."""
    if place <= _EDGE:
        return "begin"
    return "mid" if place < 100 - _EDGE else "end"


def _rect(kind: str, x: float, y: int, width: float, height: int, title: str = "") -> Markup:
    """Draw a box; places and widths are in percent, and a narrow box is wide enough to be seen."""
    inner = Markup("<title>{}</title>").format(title) if title else escape("")
    width = min(100.0, max(_NARROWEST, width))
    left = min(x, 100 - width)
    box = Markup('<rect class="{}" x="{}%" y="{}" width="{}%" height="{}">{}</rect>')
    return box.format(kind, f"{left:.1f}", y, f"{width:.1f}", height, inner)


def _x(recording: Recording, moment: datetime) -> float:
    """Return the place of a moment, in percent of the record's length."""
    span = recording.span
    return 100 * min(1.0, max(0.0, (moment - span.start) / (span.end - span.start)))
