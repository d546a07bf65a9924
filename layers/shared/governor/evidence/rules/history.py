"""The utilization of the day before an episode, which messages and pages show as a chart.

No verdict may rest on it, so the hash of the evidence does not cover it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any

from governor.core.units import Percent, UtcDatetime
from governor.evidence.model import GpuReadings, Series, Window
from governor.evidence.rules import series as evidence

LENGTH = timedelta(hours=24)
SHORTEST_PERIOD = timedelta(minutes=5)
"""It makes 288 bins, more than can be told apart on a phone's screen."""


@dataclass(frozen=True, slots=True)
class History:
    """Maxima per period over a day, in percent."""

    window: Window
    gpus: tuple[GpuReadings, ...]
    memory_percent: Series = ()
    """Memory of the fullest GPU; empty if the type's memory is not known."""
    power_percent: Series = ()
    """Power of the GPU closest to its board's limit; empty if the type's limit is not known."""


@dataclass(frozen=True, slots=True)
class IdleSpan:
    """The time in which every GPU has been under the threshold, up to the end of the history."""

    since: UtcDatetime
    at_least: bool
    """True if the idle time may have begun before `since`, at a time that was not measured."""


def idle_span(
    history: History, below_percent: Percent, launch_time: UtcDatetime
) -> IdleSpan | None:
    """Return since when the instance has been idle without a break; `None` if the newest periods
    were not measured, or nothing was. If it worked until the end, that is the end.

    Times of up to `LONGEST_HOLE` without a reading are part of the idle time. Nothing is known of
    the time before a longer one.
    """
    window = history.window
    periods_before_launch = max(0, (launch_time - window.start) // window.period)
    since_launch = replace(window, start=window.start + window.period * periods_before_launch)
    gpus = [GpuReadings(gpu.gpu, gpu.utilization[periods_before_launch:]) for gpu in history.gpus]
    worked_until = _last_work(gpus, since_launch, below_percent)
    unknown_until = evidence.unmeasured_until(gpus, since_launch)
    if unknown_until is not None and (worked_until is None or unknown_until > worked_until):
        if unknown_until == since_launch.end:
            return None
        return IdleSpan(unknown_until, at_least=True)
    if worked_until is not None:
        return IdleSpan(max(worked_until, launch_time), at_least=False)
    if evidence.peak(evidence.measured_together(gpus, since_launch)) is None:
        return None
    # It was idle in all of the history.
    return IdleSpan(max(window.start, launch_time), at_least=launch_time < window.start)


def _last_work(
    gpus: Sequence[GpuReadings], window: Window, below_percent: Percent
) -> UtcDatetime | None:
    """Return the end of the newest period in which a GPU worked; `None` if there is none."""
    newest_end: UtcDatetime | None = None
    for gpu in gpus:
        index = evidence.last_at_or_above(gpu.utilization, below_percent)
        if index is not None:
            newest_end = evidence.latest(newest_end, window.bin_end(index))
    return newest_end


def measured_time(history: History, since: UtcDatetime) -> timedelta:
    """Return how much of the time from `since` to the end of the history was measured on every GPU;
    zero if nothing was."""
    window = history.window
    measured = timedelta(0)
    for index, reading in enumerate(evidence.measured_together(history.gpus, window)):
        part = min(window.period, window.bin_end(index) - since)
        if reading is not None and part > timedelta(0):
            measured += part
    return measured


def history_document(history: History) -> dict[str, Any]:
    """Return the history as JSON data, with the fields of its window first."""
    document = {part.name: evidence.plain(getattr(history, part.name)) for part in fields(history)}
    return {**document.pop("window"), **document}
