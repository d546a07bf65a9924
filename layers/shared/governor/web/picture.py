"""Utilization as inline SVG: one row a GPU, the threshold as a line, gaps drawn as gaps.

Only attributes and classes, no styles and no scripts: the page's Content-Security-Policy allows neither.
"""

from __future__ import annotations

from dataclasses import dataclass

from governor.domain.evidence import Evidence, Series, coverage_percent, mean, peak

_ROW, _LEFT, _WIDTH, _TOP = 46, 64, 560, 18


@dataclass(frozen=True, slots=True)
class GpuRow:
    """One GPU in figures, for the table beside the picture."""

    label: str
    highest: str
    average: str
    measured: str


def rows(evidence: Evidence) -> tuple[GpuRow, ...]:
    """The figures of every GPU."""
    return tuple(
        GpuRow(
            label="all GPUs (the busiest)" if gpu.gpu == "all" else f"GPU {gpu.gpu}",
            highest=_percent(peak(gpu.utilization)),
            average=_percent(mean(gpu.utilization)),
            measured=f"{coverage_percent(gpu.utilization):.0f} %",
        )
        for gpu in evidence.gpus
    )


def svg(evidence: Evidence, threshold_percent: float) -> str:
    """The picture. Holds no text but labels of our own making, so nothing in it needs escaping."""
    height = _TOP + _ROW * max(1, len(evidence.gpus)) + 18
    parts = [
        f'<svg class="picture" viewBox="0 0 {_LEFT + _WIDTH + 8} {height}" role="img" '
        f'aria-labelledby="picture-title"><title id="picture-title">GPU utilization in percent, '
        f"threshold {threshold_percent:g} %</title>"
    ]
    for number, gpu in enumerate(evidence.gpus):
        label = "busiest" if gpu.gpu == "all" else f"GPU {int(gpu.gpu) if gpu.gpu.isdigit() else '?'}"
        parts.append(_row(_TOP + number * _ROW, label, gpu.utilization, threshold_percent))
    base = _TOP + _ROW * max(1, len(evidence.gpus)) + 12
    parts.append(f'<text class="axis" x="{_LEFT}" y="{base}">{evidence.window.start:%H:%M} UTC</text>')
    parts.append(
        f'<text class="axis end" x="{_LEFT + _WIDTH}" y="{base}">{evidence.window.end:%H:%M} UTC</text></svg>'
    )
    return "".join(parts)


def _row(top: int, label: str, series: Series, threshold: float) -> str:
    inner = _ROW - 12
    step = _WIDTH / max(1, len(series))
    bars = []
    for index, value in enumerate(series):
        x = _LEFT + index * step
        if value is None:
            bars.append(_rect("gap", x, top, step - 1, inner))
            continue
        tall = max(1.0, inner * min(100.0, value) / 100)
        kind = "busy" if value >= threshold else "idle"
        bars.append(_rect(kind, x, top + inner - tall, step - 1, tall))
    line = top + inner - inner * threshold / 100
    return (
        f'<text class="axis" x="0" y="{top + inner // 2 + 4}">{label}</text>'
        f"{_rect('frame', _LEFT, top, _WIDTH, inner)}{''.join(bars)}"
        f'<line class="threshold" x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{line:.1f}" y2="{line:.1f}"/>'
    )


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def _percent(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.1f} %"
