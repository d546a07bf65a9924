"""One instance's past as inline SVG: utilization on top, below it a lane a policy.

Only attributes and classes, no styles and no scripts; what others wrote (names of policies) is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from math import ceil, isnan

from markupsafe import Markup, escape

from evaluation.bins import IDLE_BELOW_PERCENT
from governor.domain.units import iso, money
from simulation.outcome import Event
from simulation.recording import Recording

_LEFT, _WIDTH, _RIGHT = 150, 760, 10
_TALL, _LANE, _SPACE, _FOOT = 46, 14, 6, 20
_MOST_BARS = 380
"""More than that a screen cannot tell apart."""
_MOST_TICKS = 15
_LONGEST_LABEL = 22


def timeline(recording: Recording, lanes: Sequence[tuple[str, Sequence[Event]]]) -> Markup:
    """The picture of one instance, with a lane for each policy by its name."""
    bottom = _TALL + (_LANE + _SPACE) * len(lanes) + _SPACE
    parts = [
        Markup('<svg viewBox="0 0 {} {}" role="img"><title>{}</title>').format(
            _LEFT + _WIDTH + _RIGHT,
            bottom + _FOOT,
            f"Utilization of {recording.instance.name}, and what each policy would have done",
        ),
        _label("utilization, %", _TALL / 2 + 4),
        *_bars(recording),
    ]
    for number, (name, events) in enumerate(lanes):
        top = _TALL + _SPACE + number * (_LANE + _SPACE)
        parts.append(_label(name, top + _LANE - 3))
        parts.append(_rect("frame", _LEFT, top, _WIDTH, _LANE))
        parts += [mark for event in events for mark in _marks(recording, event, top)]
    parts += _ticks(recording, bottom)
    return Markup("").join([*parts, Markup("</svg>")])


def _bars(recording: Recording) -> list[Markup]:
    values = recording.figures.utilization
    size = max(1, ceil(len(values) / _MOST_BARS))
    step = _WIDTH * size / max(1, len(values))
    bars = [_bar(values[start : start + size]) for start in range(0, len(values), size)]
    parts = [_rect("frame", _LEFT, 0, _WIDTH, _TALL)]
    index = 0
    while index < len(bars):
        end = index
        while end < len(bars) and bars[end] == bars[index]:
            end += 1
        kind, height = bars[index]
        parts.append(_rect(kind, _LEFT + index * step, _TALL - height, step * (end - index), height))
        index = end
    return parts


def _bar(values: Sequence[float]) -> tuple[str, float]:
    """Kind and height of the highest of these readings; coarse, so that a page stays small."""
    known = [value for value in values if not isnan(value)]
    if not known:
        return "gap", float(_TALL)
    top = min(100.0, max(known))
    height = max(1.0, float(round(_TALL * top / 100)))
    return ("idle" if top < IDLE_BELOW_PERCENT else "busy"), height


def _marks(recording: Recording, event: Event, top: float) -> list[Markup]:
    found, ended = (_x(recording, moment) for moment in (event.found_at, event.ended_at))
    marks = [
        _rect(
            "asked" if event.sent_at is not None else "told",
            found,
            top,
            max(2.0, ended - found),
            _LANE,
            f"{event.ending.value}: found idle {iso(event.found_at)}, "
            + (f"asked {iso(event.sent_at)}" if event.sent_at is not None else "nobody asked"),
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
                max(2.0, until - start),
                _LANE,
                f"stopped {iso(stop.at)} until {iso(stop.until)}, {saved}",
            )
        )
        if stop.hit_work:
            kind = "hit soon" if stop.is_hit_soon else "hit"
            marks.append(
                Markup('<text class="{}" x="{}" y="{}">&#215;<title>work resumed {}</title></text>').format(
                    kind, f"{until:.1f}", f"{top + _LANE - 2:.0f}", iso(stop.until)
                )
            )
    return marks


def _ticks(recording: Recording, bottom: float) -> list[Markup]:
    days = ceil((recording.span.end - recording.span.start) / timedelta(days=1))
    step = max(1, ceil(days / _MOST_TICKS))
    midnight = recording.span.start.replace(hour=0, minute=0, second=0, microsecond=0)
    parts = []
    for day in range(0, days + 1, step):
        moment = midnight + timedelta(days=day)
        if recording.span.start <= moment < recording.span.end:
            x = f"{_x(recording, moment):.1f}"
            parts.append(Markup('<line class="tick" x1="{0}" x2="{0}" y1="0" y2="{1}"/>').format(x, bottom))
            parts.append(
                Markup('<text class="axis" x="{}" y="{}">{}</text>').format(x, bottom + 14, f"{moment:%m-%d}")
            )
    return parts


def _label(text: str, y: float) -> Markup:
    short = text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"
    return Markup('<text class="axis" x="0" y="{}">{}</text>').format(f"{y:.0f}", short)


def _rect(kind: str, x: float, y: float, width: float, height: float, title: str = "") -> Markup:
    inner = Markup("<title>{}</title>").format(title) if title else escape("")
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}">{}</rect>').format(
        kind, f"{x:.1f}", f"{y:.0f}", f"{width:.1f}", f"{height:.0f}", inner
    )


def _x(recording: Recording, moment: datetime) -> float:
    span = recording.span
    share = (moment - span.start) / (span.end - span.start)
    return _LEFT + _WIDTH * min(1.0, max(0.0, share))
