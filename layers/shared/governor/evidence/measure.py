"""Turns the metric series that were read into evidence: maxima, coverage, and the time of the last
work.

A missing reading stays missing; this module must not judge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median_low

from governor.core.units import not_none
from governor.evidence.model import Evidence, GpuReadings, MetricSource, Series, Window
from governor.evidence.pending import Pending
from governor.evidence.rules import series as evidence
from governor.evidence.rules.figures import (
    FIGURES,
    WORK,
    Publisher,
    implausible_reading,
    is_published_by,
)
from governor.policy.model.acting import RELEASED_FOR
from governor.policy.model.judging import Metrics


@dataclass(slots=True)
class _Measured:
    """The measurements of one instance by figure, as `Evidence` names them."""

    values: dict[str, float | None]
    """By the field of `Evidence`; `None` where nothing was measured."""
    measured_percent: dict[str, float] = field(default_factory=dict)
    last_active: dict[str, datetime] = field(default_factory=dict)
    last_measured: dict[str, datetime] = field(default_factory=dict)
    longest_hole_minutes: dict[str, float] = field(default_factory=dict)


class Measurement:
    """Turns the series that were read into evidence: the figures of instances that are read over
    the same windows."""

    def __init__(self, names: Metrics, window: Window, ec2_window: Window) -> None:
        """Set the policy's names of metrics, the window of the agent's figures, and the window of
        EC2's own figures, whose periods are longer."""
        self._names = names
        self._window = window
        self._ec2_window = ec2_window

    def evidence(self, pending: Pending) -> Evidence:
        """Return what was read so far, in the form that is judged; without GPUs and aggregate if
        the utilization has no source."""
        gpus: list[GpuReadings] = []
        aggregate: Series = ()
        if pending.source is not MetricSource.NONE:
            labels = sorted(pending.readings, key=evidence.by_index)
            gpus = [GpuReadings(label, pending.readings[label]) for label in labels]
            aggregate = pending.aggregated
        measured = _Measured({figure.field: None for figure in FIGURES.values()})
        for figure in FIGURES:
            self._measure(pending, figure, measured)
        working_job = self._measure_jobs(pending, measured)
        return Evidence(
            window=self._window,
            source=pending.source,
            gpus=tuple(gpus),
            aggregate=aggregate,
            gpus_expected=pending.expected,
            gpus_reporting=self._gpus_reporting(pending),
            measured_percent=measured.measured_percent,
            read=pending.figures_read,
            read_problem=pending.problem,
            last_active=measured.last_active,
            work=working_job,
            samples=pending.series("samples") or (),
            memory_newest_percent=self._memory_newest(pending),
            last_measured=measured.last_measured,
            longest_hole_minutes=measured.longest_hole_minutes,
            **measured.values,
        )

    def _measure(self, pending: Pending, figure: str, measured: _Measured) -> None:
        """Add one figure to `measured`: its maximum, when that was, and how much of the window has
        a reading. Add nothing if nothing was read of the figure, and no maximum if no value read is
        a reading."""
        highest = pending.series(figure)
        if highest is None:
            return
        window = self._window_of(figure)
        # Every GPU and both directions of the network: one alone says nothing about the others.
        parts = pending.parts(figure) or [highest]
        if FIGURES[figure].confirms_utilization:
            implausible = implausible_reading(figure, pending.shape)
            parts = [_plausible(part, implausible) for part in parts]
        measured.measured_percent[figure] = round(min(map(evidence.coverage_percent, parts)), 3)
        reading_ends = [evidence.last_reading_end(part, window) for part in parts]
        longest_holes = [evidence.longest_hole(part, window) for part in parts]
        measured.last_measured[figure] = min(reading_ends)
        measured.longest_hole_minutes[figure] = max(longest_holes) / timedelta(minutes=1)
        peak = evidence.peak(highest)
        if peak is None:
            return
        factor = pending.factor(figure, window.period) or 1.0
        measured.values[FIGURES[figure].field] = round(peak * factor, 3)
        peak_index = evidence.last_at_or_above(highest, peak) or 0
        measured.last_active[figure] = window.bin_end(peak_index)

    def _measure_jobs(self, pending: Pending, measured: _Measured) -> str | None:
        """Add to `measured` when a job last worked. Return the metric of the job that worked last,
        such as `MLTraining Throughput`; `None` if no job worked in the window."""
        working_job = None
        for name, series in pending.jobs:
            last_index = _last_nonzero(series)
            if last_index is None:
                continue
            worked_at = self._window.bin_end(last_index)
            if worked_at > measured.last_active.get(WORK, self._window.start):
                measured.last_active[WORK] = worked_at
                working_job = name
        return working_job

    def _window_of(self, figure: str) -> Window:
        """Return the window over which a figure is read: EC2's own figures have a window of their
        own, as their periods are longer."""
        if is_published_by(figure, Publisher.EC2, Publisher.EC2_GPU):
            return self._ec2_window
        return self._window

    def percent(self, pending: Pending) -> dict[str, Series]:
        """Return `power` and `memory` in percent, each the highest of all GPUs in each period. A
        value that measures nothing is a hole; a figure that was not read is missing."""
        percent: dict[str, Series] = {}
        for figure in ("power", "memory"):
            series = pending.series(figure)
            if series is not None:
                factor = pending.factor(figure, self._window.period) or 1.0
                percent[figure] = _scaled(series, factor)
        return percent

    def _memory_newest(self, pending: Pending) -> float | None:
        """Return the most that any GPU holds in the newest minutes (`RELEASED_FOR`), in percent of
        its memory; `None` where one of the GPUs was not measured, memory was not read, or only an
        aggregate of several GPUs was."""
        if "memory" not in pending.figures:
            return None
        # The aggregate of several GPUs continues when one of them falls silent.
        if "all" in pending.readings and pending.expected != 1:
            return None
        peaks: list[float] = []
        for series in pending.parts("memory"):
            peak = evidence.newest_peak(series, self._window, RELEASED_FOR)
            if peak is None:
                return None
            peaks.append(peak)
        if not peaks:
            return None
        factor = pending.factor("memory", self._window.period) or 1.0
        return round(max(peaks) * factor, 3)

    def _gpus_reporting(self, pending: Pending) -> int | None:
        """Return how many GPUs publish utilization, counted by series or by the samples of an
        aggregate; 1 for an aggregate of a type with one GPU. Return `None` if nothing was read, or
        the aggregate has no samples."""
        if pending.source is MetricSource.PER_GPU:
            return pending.count_reporting()
        if pending.source is not MetricSource.AGGREGATE:
            return None
        if pending.expected == 1:
            return 1
        samples = pending.series("samples") or ()
        counts = not_none(samples)
        if not counts:
            return None
        per_gpu = self._window.period.total_seconds() / self._names.collection_interval_seconds
        # The middle period: where the agent drifts, one period catches a collection more and
        # another one less. The fullest would then count a GPU that is hidden, the emptiest would
        # miss one that is not.
        return round(median_low(counts) / per_gpu)


def _last_nonzero(series: Series) -> int | None:
    """Return the newest period whose reading is neither zero nor missing; `None` if there is
    none."""
    for index in range(len(series) - 1, -1, -1):
        value = series[index]
        if value and not math.isnan(value):
            return index
    return None


def _plausible(series: Series, implausible: float) -> Series:
    """Return the readings of power, with holes for those up to `implausible`: they are too low for
    a GPU that runs, and do not count as measured."""
    plausible: list[float | None] = []
    for value in series:
        is_plausible = value is not None and value > implausible
        plausible.append(value if is_plausible else None)
    return tuple(plausible)


def _scaled(series: Series, factor: float) -> Series:
    """Return the readings times the factor; a value that measures nothing is a hole."""
    scaled: list[float | None] = []
    for value in series:
        if value is not None and value >= 0:
            scaled.append(round(value * factor, 1))
        else:
            scaled.append(None)
    return tuple(scaled)
