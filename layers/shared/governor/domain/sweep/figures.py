"""Evidence in a few figures for people: a row a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from governor.domain.evidence import Evidence, coverage_percent, mean, peak


@dataclass(frozen=True, slots=True)
class GpuRow:
    """One GPU in figures, for the table beside the picture."""

    label: str
    highest: str
    average: str
    measured: str


def gpu_rows(evidence: Evidence) -> tuple[GpuRow, ...]:
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


def _percent(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.1f} %"
