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
    GpuReadings,
    Series,
    Window,
    gpus_of,
    last_at_or_above,
    peak,
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
    """Since when every GPU has been under the threshold; `at_least` when the day shows no work at all."""

    since: UtcDatetime
    at_least: bool


def idle_span(history: History, below_percent: Percent, launch_time: UtcDatetime) -> IdleSpan | None:
    """Since when the instance has been idle, as far as the history reaches.

    Periods without a reading are passed over: they prove neither work nor idleness. `None` when nothing was
    measured at all.
    """
    values = [gpu.utilization for gpu in history.gpus]
    if all(peak(series) is None for series in values):
        return None
    work = [last for series in values if (last := last_at_or_above(series, below_percent)) is not None]
    if work:
        return IdleSpan(max(history.window.bin_end(max(work)), launch_time), at_least=False)
    start = history.window.start
    return IdleSpan(max(start, launch_time), at_least=launch_time < start)


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
