"""The day before an episode: coarser than the evidence, for people to look at and never to judge by.

Frozen when the episode opens, beside the evidence and outside of its hash. This module must not know how it
is read or drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from governor.domain.evidence import (
    LONGEST_HOLE,
    GpuReadings,
    Series,
    Window,
    gpus_of,
    is_reading,
    plain,
    window_of,
)
from governor.domain.units import Percent, UtcDatetime

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
    """Since when every GPU has been under the threshold; `at_least` when what came before was not seen."""

    since: UtcDatetime
    at_least: bool


def idle_span(history: History, below_percent: Percent, launch_time: UtcDatetime) -> IdleSpan | None:
    """Since when the instance has been idle without a break, as far as it was measured.

    A hole of up to `LONGEST_HOLE` is part of it; what lies before a longer one is not known. `None` when
    the newest periods were not measured.
    """
    window, seen_from = history.window, None
    hole = timedelta()
    for index in reversed(range(window.bins)):
        start, end = window.bin_end(index) - window.period, window.bin_end(index)
        if end <= launch_time:
            break
        values = [gpu.utilization[index] for gpu in history.gpus]
        readings = [value for value in values if value is not None and is_reading(value)]
        if any(value >= below_percent for value in readings):
            return IdleSpan(max(end, launch_time), at_least=False)
        if readings and len(readings) == len(values):
            hole, seen_from = timedelta(), start
            continue
        hole += end - max(start, launch_time)
        if hole > LONGEST_HOLE:
            return None if seen_from is None else IdleSpan(seen_from, at_least=True)
    if seen_from is None:
        return None
    return IdleSpan(max(window.start, launch_time), at_least=launch_time < window.start)


def history_document(history: History) -> dict[str, Any]:
    """Plain JSON data; the inverse is `history_from_document`."""
    return {
        **plain(history.window),
        "gpus": plain(history.gpus),
        "memory_percent": list(history.memory_percent),
        "power_percent": list(history.power_percent),
    }


def history_from_document(document: Mapping[str, Any]) -> History:
    """The history that `history_document` wrote.

    Raises:
        KeyError, ValueError: the document was not written by `history_document`.
    """
    return History(
        window=window_of(document),
        gpus=gpus_of(document["gpus"]),
        memory_percent=tuple(document["memory_percent"]),
        power_percent=tuple(document["power_percent"]),
    )
