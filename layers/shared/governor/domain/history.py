"""The day before an episode: for people to look at, never to judge by, so outside of the evidence's
hash."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any

from governor.domain import evidence
from governor.domain.evidence import GpuReadings, Series, Window
from governor.domain.units import Percent, UtcDatetime

LENGTH = timedelta(hours=24)
SHORTEST_PERIOD = timedelta(minutes=5)
"""288 bins, which is more than a phone's screen can tell apart."""


@dataclass(frozen=True, slots=True)
class History:
    """Maxima per period over a day: each GPU's utilization, and of the fullest its memory (of the
    GPU's) and power (of its board's limit), in percent; empty where the type's figures are not
    known."""

    window: Window
    gpus: tuple[GpuReadings, ...]
    memory_percent: Series = ()
    power_percent: Series = ()


@dataclass(frozen=True, slots=True)
class IdleSpan:
    """Since when every GPU has been under the threshold; `at_least` when what came before was not
    seen."""

    since: UtcDatetime
    at_least: bool


def idle_span(
    history: History, below_percent: Percent, launch_time: UtcDatetime
) -> IdleSpan | None:
    """Return since when the instance has been idle without a break; `None` when the newest periods
    were not measured. A hole of up to `LONGEST_HOLE` is part of it; what lies before a longer one
    is not known."""
    window = history.window
    before = max(0, (launch_time - window.start) // window.period)
    run = replace(window, start=window.start + window.period * before)
    gpus = [GpuReadings(gpu.gpu, gpu.utilization[before:]) for gpu in history.gpus]
    worked = [evidence.last_at_or_above(gpu.utilization, below_percent) for gpu in gpus]
    idle_from = evidence.latest(*(run.bin_end(index) for index in worked if index is not None))
    unknown_until = evidence.unmeasured_until(gpus, run)
    if unknown_until is not None and (idle_from is None or unknown_until > idle_from):
        return None if unknown_until == run.end else IdleSpan(unknown_until, at_least=True)
    if idle_from is not None:
        return IdleSpan(max(idle_from, launch_time), at_least=False)
    if evidence.peak(evidence.measured_together(gpus, run)) is None:
        return None
    return IdleSpan(max(window.start, launch_time), at_least=launch_time < window.start)


def measured_time(history: History, since: UtcDatetime) -> timedelta:
    """How much of the time from `since` to the end of the history every GPU has readings of."""
    window = history.window
    together = evidence.measured_together(history.gpus, window)
    ends = [window.bin_end(index) for index, seen in enumerate(together) if seen is not None]
    parts = (min(window.period, end - since) for end in ends)
    return sum((part for part in parts if part > timedelta(0)), timedelta(0))


def history_document(history: History) -> dict[str, Any]:
    document = {one.name: evidence.plain(getattr(history, one.name)) for one in fields(history)}
    return {**document.pop("window"), **document}
