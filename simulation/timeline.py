"""One instance's past as inline SVG: utilization on top, below it a lane a policy.

Only attributes and classes, no styles and no scripts; what others wrote (names of policies) is
escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from math import ceil, isnan

from markupsafe import Markup, escape

from evaluation.bins import IDLE_BELOW_PERCENT
from governor.domain.units import money
from simulation.outcome import Event
from simulation.recording import Recording

_TALL, _NAME, _LANE, _SPACE, _FOOT = 46, 15, 14, 4, 18
_MOST_BARS = 380
"""More than that a screen cannot tell apart."""
_MOST_TICKS = 15
_NARROWEST = 0.4
"""Percent of the width: thinner marks could not be seen."""


def timeline(recording: Recording, lanes: Sequence[tuple[str, Sequence[Event]]]) -> Markup:
    """The picture of one instance, with a lane for each policy under its name.

    As wide as the screen: places are in percent of it, and text keeps its size.
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
        parts += [mark for event in events for mark in _marks(recording, event, top + _NAME)]
    return Markup("").join([*parts, Markup("</svg>")])


def when(moment: datetime) -> str:
    """`Nov 2, 09:05`; the page says that times are UTC."""
    return f"{moment:%b} {moment.day}, {moment:%H:%M}"


def _bars(recording: Recording) -> list[Markup]:
    """A path for each kind: a drawing of hundreds of bars that is stretched to the width."""
    values = recording.figures.utilization
    size = max(1, ceil(len(values) / _MOST_BARS))
    bars = [_bar(values[start : start + size]) for start in range(0, len(values), size)]
    paths: dict[str, list[str]] = {}
    index = 0
    while index < len(bars):
        end = index
        while end < len(bars) and bars[end] == bars[index]:
            end += 1
        kind, height = bars[index]
        paths.setdefault(kind, []).append(f"M{index} {_TALL}v-{height}h{end - index}v{height}z")
        index = end
    drawn = Markup("").join(
        Markup('<path class="{}" d="{}"/>').format(kind, "".join(found))
        for kind, found in paths.items()
    )
    return [
        _rect("frame", 0, 0, 100, _TALL),
        Markup(
            '<svg width="100%" height="{0}" viewBox="0 0 {1} {0}" '
            'preserveAspectRatio="none">{2}</svg>'
        ).format(_TALL, len(bars), drawn),
    ]


def _bar(values: Sequence[float]) -> tuple[str, int]:
    """Kind and height of the highest of these readings; coarse, so that a page stays small."""
    known = [value for value in values if not isnan(value)]
    if not known:
        return "gap", _TALL
    top = min(100.0, max(known))
    height = max(1, round(_TALL * top / 100))
    return ("idle" if top < IDLE_BELOW_PERCENT else "busy"), height


def _marks(recording: Recording, event: Event, top: int) -> list[Markup]:
    found, ended = (_x(recording, moment) for moment in (event.found_at, event.ended_at))
    marks = [
        _rect(
            "asked" if event.sent_at is not None else "told",
            found,
            top,
            ended - found,
            _LANE,
            f"{event.ending.value}: found idle {when(event.found_at)}, "
            + (f"asked {when(event.sent_at)}" if event.sent_at is not None else "nobody asked"),
        )
    ]
    stop = event.stop
    if stop is not None:
        start, until = _x(recording, stop.at), _x(recording, stop.until)
        saved = "unpriced" if stop.usd is None else f"{money(stop.usd)} USD"
        marks.append(
            _rect(
                "stopped",
                start,
                top,
                until - start,
                _LANE,
                f"stopped {when(stop.at)} until {when(stop.until)}, {saved}",
            )
        )
        if stop.hit_work:
            kind = "hit soon" if stop.is_hit_soon else "hit"
            marks.append(
                Markup(
                    '<text class="{}" x="{}%" y="{}">&#215;<title>work resumed {}</title></text>'
                ).format(kind, f"{until:.1f}", top + _LANE - 2, when(stop.until))
            )
    return marks


def _ticks(recording: Recording, bottom: int) -> list[Markup]:
    """Midnights. On a phone every second one has its date."""
    days = ceil((recording.span.end - recording.span.start) / timedelta(days=1))
    step = max(1, ceil(days / _MOST_TICKS))
    midnight = recording.span.start.replace(hour=0, minute=0, second=0, microsecond=0)
    parts = []
    for number, day in enumerate(range(0, days + 1, step)):
        moment = midnight + timedelta(days=day)
        if recording.span.start <= moment < recording.span.end:
            place = _x(recording, moment)
            x, kind = f"{place:.1f}%", "mid" if 3 < place < 97 else "end" if place > 3 else "begin"
            kind = f"axis {kind} odd" if number % 2 or kind == "begin" else f"axis {kind}"
            parts.append(
                Markup('<line class="tick" x1="{0}" x2="{0}" y1="0" y2="{1}"/>').format(x, bottom)
            )
            parts.append(
                Markup('<text class="{}" x="{}" y="{}">{}</text>').format(
                    kind, x, bottom + 13, f"{moment:%b} {moment.day}"
                )
            )
    return parts


def _rect(kind: str, x: float, y: int, width: float, height: int, title: str = "") -> Markup:
    """Places and widths in percent; what is narrow is drawn as wide as can be seen."""
    inner = Markup("<title>{}</title>").format(title) if title else escape("")
    width = min(100.0, max(_NARROWEST, width))
    return Markup('<rect class="{}" x="{}%" y="{}" width="{}%" height="{}">{}</rect>').format(
        kind, f"{min(x, 100 - width):.1f}", y, f"{width:.1f}", height, inner
    )


def _x(recording: Recording, moment: datetime) -> float:
    """Percent of the record's length."""
    span = recording.span
    return 100 * min(1.0, max(0.0, (moment - span.start) / (span.end - span.start)))
