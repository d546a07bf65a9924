"""Measurements: aligned series over one window, with holes kept as holes: `None`, and never filled.
This module knows how to summarize readings, not what they mean."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from governor.domain.units import BytesPerSecond, Percent, UtcDatetime, as_utc, iso

Series = tuple[float | None, ...]
"""One value a period, oldest first; `None` where nothing was published."""
Dimensions = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Window:
    """A half-open span of whole periods, `[start, end)`, aligned to the period as CloudWatch
    aligns."""

    start: UtcDatetime
    end: UtcDatetime
    period: timedelta

    @property
    def length(self) -> timedelta:
        return self.end - self.start

    @property
    def bins(self) -> int:
        return int(self.length / self.period)

    def bin_end(self, index: int) -> UtcDatetime:
        return self.start + self.period * (index + 1)


def window_before(now: datetime, length: timedelta, period: timedelta, lag: timedelta) -> Window:
    """The last whole periods that end at least `lag` before `now`: a half-filled one would look
    idle."""
    step = int(period.total_seconds())
    last = int((as_utc(now) - lag).timestamp()) // step * step
    end = datetime.fromtimestamp(last, tz=as_utc(now).tzinfo)
    bins = max(1, int(length / period))
    return Window(start=end - period * bins, end=end, period=period)


class MetricSource(StrEnum):
    AGGREGATE = "aggregate"
    """The agent's `InstanceId` aggregate: per period the busiest GPU."""
    PER_GPU = "per-gpu"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class GpuReadings:
    """Utilization of one GPU (`gpu` is its index), or of the busiest one (`gpu` is `all`), in
    percent."""

    gpu: str
    utilization: Series


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything a verdict rests on, frozen with the episode and hashed. Maxima are over the
    window; `None`: nothing was published, or nobody asked (`read`). `read_problem`: an answer was
    cut short."""

    window: Window
    source: MetricSource
    gpus: tuple[GpuReadings, ...] = ()
    aggregate: Series = ()
    """The `InstanceId` aggregate where GPUs were read one by one, too: its activity counts, its
    quiet not."""
    gpus_expected: int | None = None
    gpus_reporting: int | None = None
    memory_used_percent: Percent | None = None
    power_percent_of_limit: Percent | None = None
    cpu_percent: Percent | None = None
    network_bytes_per_second: BytesPerSecond | None = None
    agentless_power_percent: Percent | None = None
    measured_percent: Mapping[str, Percent] = field(default_factory=dict)
    """For `power`, `cpu`, `network`, `memory`: the share of its window's periods that hold a
    reading."""
    read: frozenset[str] = frozenset()
    read_problem: str | None = None
    last_active: Mapping[str, UtcDatetime] = field(default_factory=dict)
    """For `power`, `cpu`, `network`, `memory`: the end of the maximum's period; for `work` of the
    last."""
    work: str | None = None
    """The metric by which a job has said that it works: namespace and name."""
    samples: Series = ()
    """Samples in each period of an aggregate of several GPUs, which tells a GPU's hole."""
    memory_newest_percent: Percent | None = None
    """The most memory any GPU holds in the newest minutes; `None` where one of them was not
    measured."""
    last_measured: Mapping[str, UtcDatetime] = field(default_factory=dict)
    """For `power`, `cpu`, `network`, `memory`: the end of the newest period that holds a
    reading."""
    longest_hole_minutes: Mapping[str, float] = field(default_factory=dict)
    """For the same figures: the longest time without a reading."""
    bound_utilization_percent: Percent | None = None
    """The most that the instance published of itself, in the namespace that no other may publish
    into."""


def is_gpu(dimensions: Dimensions) -> bool:
    return any(name == "index" for name, _ in dimensions)


def gpu_label(dimensions: Dimensions) -> str:
    return dict(dimensions).get("index", "all")


def by_index(label: str) -> tuple[int, str]:
    return (int(label), "") if label.isdigit() else (-1, label)


def merged(left: Sequence[float | None] | None, right: Sequence[float | None]) -> Series:
    """Return the highest reading of each period; holes are `None` or NaN. One GPU can be published
    under two dimension sets. Written for speed: it runs for every reading of every GPU."""
    if left is None:
        return tuple(right)
    return tuple(
        [
            a if b is None or b != b or (a is not None and a >= b) else b
            for a, b in zip(left, right, strict=True)
        ]
    )


def is_reading(value: float | None) -> bool:
    """Return whether a value measures anything: some publishers write -1 or NaN where the driver
    says N/A."""
    return value is not None and value >= 0


def readings(series: Series) -> list[float]:
    # `is_reading` in one pass: a call for every value is half of what a judgement costs.
    return [value for value in series if value is not None and value >= 0]


def peak(series: Series) -> float | None:
    return max(readings(series), default=None)


def mean(series: Series) -> float | None:
    values = readings(series)
    return sum(values) / len(values) if values else None


def coverage_percent(series: Series) -> Percent:
    return 100.0 * len(readings(series)) / len(series) if series else 0.0


def last_at_or_above(series: Series, threshold: float) -> int | None:
    for index in range(len(series) - 1, -1, -1):
        value = series[index]
        if value is not None and value >= threshold:
            return index
    return None


END_BIN = timedelta(minutes=5)
"""Ends are looked at in bins of this length, however short the period is."""
END = 2 * END_BIN
"""The newest part of a window, in which each bin must be measured."""
LONGEST_HOLE = timedelta(minutes=15)
"""More time than this without a reading ends a proof of idleness."""


def newest_bins(series: Series, window: Window, length: timedelta) -> list[Series] | None:
    """Return the bins of five minutes (of a period, where that is longer) that cover the newest
    part, newest first; `None` where the window is too short. A series shorter than the window has
    its holes at the end."""
    size = max(END_BIN, window.period)
    step, count, whole = size // window.period, max(1, -(-length // size)), padded(series, window)
    end = len(whole)
    if end < step * count:
        return None
    return [whole[end - step * (back + 1) : end - step * back] for back in range(count)]


def padded(series: Series, window: Window) -> Series:
    """The series in the length of its window: what it lacks are holes at its end."""
    return (*series, *(None,) * (window.bins - len(series)))


def newest_peak(series: Series, window: Window, length: timedelta) -> float | None:
    """The largest reading in the newest part of the window; `None` unless every bin of it was
    measured."""
    peaks = [peak(one) for one in newest_bins(series, window, length) or ((),)]
    return None if None in peaks else max(value for value in peaks if value is not None)


def last_reading_end(series: Series, window: Window) -> UtcDatetime:
    """The end of the newest period with a reading; the start of the window where there is none."""
    last = last_at_or_above(series[: window.bins], 0.0)
    return window.start if last is None else window.bin_end(last)


def holes(series: Series, window: Window) -> Iterator[tuple[timedelta, UtcDatetime]]:
    """The times without a reading, newest last: how long each is and when it ends."""
    length = 0
    for index, value in enumerate((*padded(series, window), 0.0)):
        if value is None or not value >= 0:
            length += 1
        elif length:
            yield window.period * length, window.start + window.period * index
            length = 0


def unmeasured_until(gpus: Sequence[GpuReadings], window: Window) -> UtcDatetime | None:
    """Return the end of the newest stretch that is too long for a proof and in which some GPU was
    never measured: nothing before it is known. A hole of one GPU and the next hole of another are
    one."""
    if all(len(gpu.utilization) == window.bins == len(readings(gpu.utilization)) for gpu in gpus):
        return None
    found = holes(measured_together(gpus, window), window)
    return latest(*(end for length, end in found if length > LONGEST_HOLE))


def measured_together(gpus: Sequence[GpuReadings], window: Window) -> Series:
    """A series with readings where every GPU has one, and holes elsewhere."""
    rows = zip(*(padded(gpu.utilization, window) for gpu in gpus), strict=True)
    return tuple([0.0 if all(map(is_reading, row)) else None for row in rows])


def busiest(gpus: Sequence[GpuReadings], window: Window, below: Percent) -> Series:
    """The busiest GPU of each period; a hole unless one was at work in it or all of them were
    measured."""
    rows = zip(*(padded(gpu.utilization, window) for gpu in gpus), strict=True)
    return tuple([busiest_of(row, below) for row in rows])


def busiest_of(values: Sequence[float | None], below: Percent) -> float | None:
    known = [value for value in values if value is not None and is_reading(value)]
    highest = max(known, default=0.0)
    return highest if highest >= below or len(known) == len(values) else None


def latest(*moments: UtcDatetime | None) -> UtcDatetime | None:
    return max((one for one in moments if one is not None), default=None)


def longest_hole(series: Series, window: Window) -> timedelta:
    return max((length for length, _ in holes(series, window)), default=timedelta(0))


def gpu_rows(evidence: Evidence) -> tuple[tuple[str, str, str, str], ...]:
    """Return each GPU for the table beside the picture: name, highest, average, share measured."""

    def percent(value: float | None) -> str:
        return "not measured" if value is None else f"{value:.1f}%"

    return tuple(
        (
            "all GPUs (the busiest)" if gpu.gpu == "all" else f"GPU {gpu.gpu}",
            percent(peak(gpu.utilization)),
            percent(mean(gpu.utilization)),
            f"{coverage_percent(gpu.utilization):.0f}%",
        )
        for gpu in evidence.gpus
    )


_LATER = (
    *("work", "samples", "memory_newest_percent", "last_measured"),
    *("longest_hole_minutes", "bound_utilization_percent"),
)
"""Left out where they are empty: evidence that was frozen before these fields existed keeps its
hash."""


def evidence_document(evidence: Evidence) -> dict[str, Any]:
    """Plain JSON data that holds all of the evidence to the last digit: this form is hashed and
    stored."""
    values = {one.name: getattr(evidence, one.name) for one in fields(evidence)}
    return {
        name: plain(value)
        for name, value in values.items()
        if name not in _LATER or value not in (None, (), {})
    }


def plain(value: Any) -> Any:
    match value:
        case Window():
            seconds = int(value.period.total_seconds())
            return {"start": iso(value.start), "end": iso(value.end), "period_seconds": seconds}
        case GpuReadings():
            return {"gpu": value.gpu, "utilization": list(value.utilization)}
        case datetime():
            return iso(value)
        case tuple():
            return [plain(one) for one in value]
        case frozenset():
            return sorted(value)
        case Mapping():
            return {key: plain(one) for key, one in sorted(value.items())}
        case _:
            return value


def evidence_hash(evidence: Evidence) -> str:
    text = json.dumps(evidence_document(evidence), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
