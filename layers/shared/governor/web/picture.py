"""Draws measurements as inline SVG: a row a series, the threshold as a line, gaps drawn as gaps.

Only attributes and classes, no styles and no scripts: the page's Content-Security-Policy allows neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

from markupsafe import Markup

from governor.domain.episode.episode import Episode
from governor.domain.evidence import GpuReadings, Series, Window, is_reading

_LEFT, _WIDTH, _TOP, _FOOT, _SPACE = 84, 540, 6, 28, 8
_TALL_ROW, _SHORT_ROW, _FEW = 34, 18, 2
"""Eight GPUs must fit a phone's screen; one or two may take their room."""


_Row = tuple[str, Series, float | None]
"""A series with its label and its threshold; `None` draws no line."""


def utilization_svg(episode: Episode) -> Markup:
    """Draw the 24 hours before, with memory and power beneath and the judged window marked.

    Where they could not be read, only that window.
    """
    threshold, evidence, history = episode.idle_below_percent, episode.evidence, episode.history
    title = f"GPU utilization in percent over the {{}}, threshold {threshold:g}%"
    if history is None:
        title = title.format("window that was judged")
        return _svg(title, evidence.window, _gpu_rows(evidence.gpus, threshold), None)
    rows = _gpu_rows(history.gpus, threshold)
    for label, series in (("memory", history.memory_percent), ("power", history.power_percent)):
        if series:
            rows.append((label, series, None))
    beneath = "; beneath it GPU memory used and power drawn, in percent of what the GPU has"
    return _svg(f"{title.format('last 24 hours')}{beneath}", history.window, rows, evidence.window)


def _gpu_rows(gpus: Sequence[GpuReadings], threshold: float) -> list[_Row]:
    return [(_label(gpu.gpu), gpu.utilization, threshold) for gpu in gpus]


def _label(gpu: str) -> str:
    """A label of our own making: what a publisher wrote into a dimension never gets into the picture."""
    return "busiest" if gpu == "all" else f"GPU {int(gpu) if gpu.isdecimal() else '?'}"


def _svg(title: str, window: Window, drawn: Sequence[_Row], judged: Window | None) -> Markup:
    """Return the picture. Every text in it is of our own making, so nothing needs escaping."""
    row = _TALL_ROW if len(drawn) <= _FEW else _SHORT_ROW
    bottom = _TOP + (row + _SPACE) * max(1, len(drawn))
    parts = [
        f'<svg class="picture" viewBox="0 0 {_LEFT + _WIDTH + 8} {bottom + _FOOT}" role="img" '
        f'aria-labelledby="picture"><title id="picture">{title}</title>'
    ]
    if judged is not None:
        start, end = (_x(window, edge) for edge in (judged.start, judged.end))
        parts.append(_rect("judged", start, 0, end - start, bottom))
    for number, item in enumerate(drawn):
        parts.append(_bars(_TOP + number * (row + _SPACE), row, item))
    y, middle = bottom + 18, window.start + (window.end - window.start) / 2
    parts += [
        f'<text class="axis" x="{_LEFT}" y="{y}">{window.start:%a %H:%M} UTC</text>',
        f'<text class="axis middle" x="{_LEFT + _WIDTH / 2}" y="{y}">{middle:%H:%M}</text>',
        f'<text class="axis end" x="{_LEFT + _WIDTH}" y="{y}">{window.end:%a %H:%M} UTC</text></svg>',
    ]
    return Markup("".join(parts))  # noqa: S704 - built of numbers and our own words


def _x(window: Window, moment: datetime) -> float:
    share = (moment - window.start) / (window.end - window.start)
    return _LEFT + _WIDTH * float(min(1.0, max(0.0, share)))


def _bars(top: float, tall: float, row: _Row) -> str:
    name, series, threshold = row
    step = _WIDTH / max(1, len(series))
    space = 1.0 if step > 4 else 0.0
    drawn, x = [], float(_LEFT)
    # Periods that look the same are one bar.
    for (kind, height), run in groupby(_bar(value, tall, threshold) for value in series):
        width = step * len(list(run))
        drawn.append(_rect(kind, x, top + tall - height, width - space, height))
        x += width
    line = ""
    if threshold is not None:
        y = top + tall - tall * threshold / 100
        line = f'<line class="threshold" x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
    label = f'<text class="axis" x="0" y="{top + tall / 2 + 4:.0f}">{name}</text>'
    return f"{label}{_rect('frame', _LEFT, top, _WIDTH, tall)}{''.join(drawn)}{line}"


def _bar(value: float | None, tall: float, threshold: float | None) -> tuple[str, float]:
    if value is None or not is_reading(value):
        return "gap", tall
    height = round(max(1.0, tall * min(100.0, value) / 100), 1)
    if threshold is None:
        return "level", height
    return ("busy" if value >= threshold else "idle"), height


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'
