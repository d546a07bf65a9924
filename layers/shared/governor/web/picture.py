"""What was measured as inline SVG: a row a series, the threshold as a line, gaps drawn as gaps.

Only attributes and classes, no styles and no scripts: the page's Content-Security-Policy allows neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from governor.domain.evidence import (
    Evidence,
    GpuReadings,
    Series,
    Window,
    is_reading,
)
from governor.domain.history import History

_LEFT, _WIDTH, _TOP, _FOOT, _SPACE = 64, 560, 6, 18, 8
_TALL_ROW, _SHORT_ROW, _FEW = 34, 18, 2
"""Eight GPUs must fit a phone's screen; one or two may take their room."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One series with its line; `None` draws none."""

    label: str
    series: Series
    threshold: float | None


def window_svg(evidence: Evidence, threshold_percent: float) -> str:
    """Utilization over the window that was judged."""
    title = f"GPU utilization in percent over the window, threshold {threshold_percent:g} %"
    return _svg("window", title, evidence.window, _gpu_rows(evidence.gpus, threshold_percent), None)


def day_svg(history: History, threshold_percent: float, judged: Window) -> str:
    """The day before: utilization of every GPU, memory and power beneath, the judged window marked."""
    title = (
        f"GPU utilization in percent over the last 24 hours, threshold {threshold_percent:g} %; "
        "beneath it GPU memory used and power drawn, in percent of what the GPU has"
    )
    below = [
        _Row(label, series, None)
        for label, series in (("memory", history.memory_percent), ("power", history.power_percent))
        if series
    ]
    return _svg("day", title, history.window, [*_gpu_rows(history.gpus, threshold_percent), *below], judged)


def _gpu_rows(gpus: Sequence[GpuReadings], threshold: float) -> list[_Row]:
    return [_Row(_label(gpu.gpu), gpu.utilization, threshold) for gpu in gpus]


def _label(gpu: str) -> str:
    """A label of our own making: what a publisher wrote into a dimension never gets into the picture."""
    return "busiest" if gpu == "all" else f"GPU {int(gpu) if gpu.isdecimal() else '?'}"


def _svg(name: str, title: str, window: Window, drawn: Sequence[_Row], judged: Window | None) -> str:
    """The picture. Every text in it is of our own making, so nothing needs escaping."""
    row = _TALL_ROW if len(drawn) <= _FEW else _SHORT_ROW
    bottom = _TOP + (row + _SPACE) * max(1, len(drawn))
    parts = [
        f'<svg class="picture" viewBox="0 0 {_LEFT + _WIDTH + 8} {bottom + _FOOT}" role="img" '
        f'aria-labelledby="picture-{name}"><title id="picture-{name}">{title}</title>'
    ]
    if judged is not None:
        start, end = (_x(window, edge) for edge in (judged.start, judged.end))
        parts.append(_rect("judged", start, 0, end - start, bottom))
    for number, item in enumerate(drawn):
        parts.append(_bars(_TOP + number * (row + _SPACE), row, item))
    parts += _times(window, bottom + 12)
    return "".join(parts) + "</svg>"


def _times(window: Window, y: float) -> list[str]:
    middle = window.start + (window.end - window.start) / 2
    return [
        f'<text class="axis" x="{_LEFT}" y="{y}">{window.start:%H:%M} UTC</text>',
        f'<text class="axis middle" x="{_LEFT + _WIDTH / 2}" y="{y}">{middle:%H:%M}</text>',
        f'<text class="axis end" x="{_LEFT + _WIDTH}" y="{y}">{window.end:%H:%M} UTC</text>',
    ]


def _x(window: Window, moment: datetime) -> float:
    share = (moment - window.start) / (window.end - window.start)
    return _LEFT + _WIDTH * float(min(1.0, max(0.0, share)))


def _bars(top: float, tall: float, row: _Row) -> str:
    step = _WIDTH / max(1, len(row.series))
    space = 1.0 if step > 4 else 0.0
    bars = []
    index = 0
    while index < len(row.series):
        kind, height, run = _run(row, index, tall)
        width = step * run - space
        bars.append(_rect(kind, _LEFT + index * step, top + tall - height, width, height))
        index += run
    line = ""
    if row.threshold is not None:
        y = top + tall - tall * row.threshold / 100
        line = f'<line class="threshold" x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
    label = f'<text class="axis" x="0" y="{top + tall / 2 + 4:.0f}">{row.label}</text>'
    return f"{label}{_rect('frame', _LEFT, top, _WIDTH, tall)}{''.join(bars)}{line}"


def _run(row: _Row, index: int, tall: float) -> tuple[str, float, int]:
    """The bar that begins here: its kind, height and how many periods look the same."""
    first = _bar(row, row.series[index], tall)
    run = 1
    while index + run < len(row.series) and _bar(row, row.series[index + run], tall) == first:
        run += 1
    return (*first, run)


def _bar(row: _Row, value: float | None, tall: float) -> tuple[str, float]:
    if value is None or not is_reading(value):
        return "gap", tall
    height = round(max(1.0, tall * min(100.0, value) / 100), 1)
    if row.threshold is None:
        return "level", height
    return ("busy" if value >= row.threshold else "idle"), height


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'
