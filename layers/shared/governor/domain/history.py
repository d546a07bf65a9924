"""The day before an episode: coarser than the evidence, for people to look at and never to judge by.

Frozen when the episode opens, beside the evidence and outside of its hash. This module must not know how it
is read or drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from governor.domain.evidence import GpuReadings, Series, Window, is_reading
from governor.domain.units import Percent, UtcDatetime, iso, parse_iso

LENGTH = timedelta(hours=24)
SHORTEST_PERIOD = timedelta(minutes=5)
"""288 bins, which is more than a phone's screen can tell apart."""


@dataclass(frozen=True, slots=True)
class History:
    """Maxima per period over a day: each GPU's utilization in percent, and memory and power of the fullest.

    `memory_percent` is of the GPU's memory, `power_percent` of its board's limit; empty where the type's
    figures are not known.
    """

    window: Window
    gpus: tuple[GpuReadings, ...]
    memory_percent: Series = ()
    power_percent: Series = ()


@dataclass(frozen=True, slots=True)
class IdleSpan:
    """Since when every GPU has been under the threshold; `at_least` when the day shows no work at all."""

    since: UtcDatetime
    at_least: bool


def idle_span(history: History, below_percent: Percent, launch_time: UtcDatetime) -> IdleSpan | None:
    """Since when the instance has been idle, as far as the history reaches.

    Periods without a reading are passed over: they prove neither work nor idleness. `None` when nothing was
    measured at all.
    """
    start = max(history.window.start, launch_time)
    measured = False
    last_work = -1
    for gpu in history.gpus:
        for index, value in enumerate(gpu.utilization):
            if value is None or not is_reading(value):
                continue
            measured = True
            if value >= below_percent:
                last_work = max(last_work, index)
    if not measured:
        return None
    if last_work >= 0:
        return IdleSpan(max(history.window.bin_end(last_work), launch_time), at_least=False)
    return IdleSpan(start, at_least=launch_time < history.window.start)


def history_document(history: History) -> dict[str, Any]:
    """Plain JSON data; the inverse is `history_from_document`."""
    return {
        "start": iso(history.window.start),
        "end": iso(history.window.end),
        "period_seconds": int(history.window.period.total_seconds()),
        "gpus": [{"gpu": gpu.gpu, "utilization": list(gpu.utilization)} for gpu in history.gpus],
        "memory_percent": list(history.memory_percent),
        "power_percent": list(history.power_percent),
    }


def history_from_document(document: Mapping[str, Any]) -> History:
    """The history that `history_document` wrote.

    Raises:
        KeyError, ValueError: the document was not written by `history_document`.
    """
    return History(
        window=Window(
            start=parse_iso(document["start"]),
            end=parse_iso(document["end"]),
            period=timedelta(seconds=int(document["period_seconds"])),
        ),
        gpus=tuple(GpuReadings(str(g["gpu"]), tuple(g["utilization"])) for g in document["gpus"]),
        memory_percent=tuple(document["memory_percent"]),
        power_percent=tuple(document["power_percent"]),
    )
