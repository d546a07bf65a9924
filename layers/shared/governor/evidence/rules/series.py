"""Time series of a metric: peaks, means, coverage and holes over a window, and the hash of the
evidence.

A period without a reading is a hole: it stays `None` and is never filled. This module summarizes
readings; it does not judge them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any

from governor.core.units import END_BIN, Percent, UtcDatetime, as_utc, iso, not_none
from governor.evidence.model import Evidence, GpuReadings, Series, Window

Dimensions = tuple[tuple[str, str], ...]


def window_before(now: datetime, length: timedelta, period: timedelta, lag: timedelta) -> Window:
    """Return the window of this length, at least one period, that ends at least `lag` before `now`.

    It has whole periods alone, because one that is filled in part would look idle.
    """
    step = int(period.total_seconds())
    last = int((as_utc(now) - lag).timestamp()) // step * step
    end = datetime.fromtimestamp(last, tz=as_utc(now).tzinfo)
    bins = max(1, int(length / period))
    return Window(start=end - period * bins, end=end, period=period)


_INDEX_NAMES = ("index", "gpu", "gpuid", "gpudevice", "neuroncore", "device")
"""Dimensions that hold the index of a GPU or NeuronCore, in small letters. Publishers in this
order: the CloudWatch agent, DCGM's exporter, EC2, Container Insights twice, DCGM's exporter
again."""
_UUID_NAMES = ("uuid", "gpuuuid")
"""Dimensions that hold the UUID of a GPU, in small letters."""
_DEVICE = re.compile(r"(?:nvidia|gpu|core)?(\d+)")
"""An index alone, or within the name of a device or core, such as `nvidia0`."""


def is_gpu(dimensions: Dimensions, own_dimension: str = "") -> bool:
    """Return whether these are the dimensions of one GPU, and not of an aggregate: they have an
    index or a UUID; if the policy names an `own_dimension`, they have that."""
    return gpu_label(dimensions, own_dimension) != "all"


def has_gpu(sets: Iterable[Dimensions], own_dimension: str = "") -> bool:
    """Return whether one of the dimension sets is that of one GPU, as `is_gpu` says."""
    return any(is_gpu(dimensions, own_dimension) for dimensions in sets)


def whole_instance(instance_id: str) -> Dimensions:
    """Return the dimension set of a whole instance: `InstanceId` alone."""
    return (("InstanceId", instance_id),)


def gpu_label(dimensions: Dimensions, own_dimension: str = "") -> str:
    """Return the index of the GPU, such as `0`; its UUID if only that is known; `all` for an
    aggregate. If a policy names an `own_dimension`, return the value of that, or `all`: a series
    without it is of no device, because it would stand for one that is silent."""
    if own_dimension:
        return dict(dimensions).get(own_dimension, "all")
    # The names of one instance's metrics hardly ever differ, so this comes first.
    for name, value in dimensions:
        if name == "index":
            return value
    return _gpu_index(dimensions) or gpu_uuid(dimensions) or "all"


def _gpu_index(dimensions: Dimensions) -> str | None:
    """Return the index of the GPU; `None` if no dimension holds one."""
    value_by_name = {name.lower(): value for name, value in dimensions}
    for name in _INDEX_NAMES:
        value = value_by_name.get(name)
        match = None if value is None else _DEVICE.fullmatch(value)
        if match is not None:
            return match[1]
    return None


def gpu_uuid(dimensions: Dimensions) -> str | None:
    """Return the UUID of the GPU; `None` if no dimension holds one."""
    for name, value in dimensions:
        if name.lower() in _UUID_NAMES:
            return value
    return None


def by_index(label: str) -> tuple[int, str]:
    """Return a key that sorts labels of GPUs: indexes by number, after anything else."""
    if label.isdigit():
        return (int(label), "")
    return (-1, label)


def merged(left: Sequence[float | None] | None, right: Sequence[float | None]) -> Series:
    """Return the higher of two readings in each period, or the one that is there; holes are `None`
    or NaN. Return the `right` series if `left` is `None`. Raises: ValueError for series of unequal
    length.

    One GPU can be published under two dimension sets, whose series are merged so.
    """
    if left is None:
        return tuple(right)
    # One comprehension, for speed: it runs for every reading of every GPU. Only NaN differs from
    # itself.
    return tuple(
        [
            old if new is None or new != new or (old is not None and old >= new) else new
            for old, new in zip(left, right, strict=True)
        ]
    )


def is_reading(value: float | None) -> bool:
    """Return whether a value is a reading: some publishers write -1 or NaN if the driver says
    N/A."""
    return value is not None and value >= 0


def readings(series: Series) -> list[float]:
    """Return the readings of a series, which are values of 0 or more; empty if there are none."""
    # `is_reading` in one pass: a call for every value takes half of the time of a judgment.
    return [value for value in series if value is not None and value >= 0]


def peak(series: Series) -> float | None:
    """Return the highest reading; `None` if there is none."""
    return max(readings(series), default=None)


def mean(series: Series) -> float | None:
    """Return the mean of the readings; `None` if there is none."""
    values = readings(series)
    if not values:
        return None
    return sum(values) / len(values)


def coverage_percent(series: Series) -> Percent:
    """Return the share of the periods that have a reading; 0 for an empty series."""
    if not series:
        return 0.0
    return 100.0 * len(readings(series)) / len(series)


def last_at_or_above(series: Series, threshold: float) -> int | None:
    """Return the index of the newest value that is not below the threshold; `None` if there is
    none."""
    for index in range(len(series) - 1, -1, -1):
        value = series[index]
        if value is not None and value >= threshold:
            return index
    return None


END = 2 * END_BIN
"""The newest part of a window, in which each bin must be measured."""


LONGEST_HOLE = timedelta(minutes=15)
"""More time than this without a reading ends a proof of idleness."""


def newest_bins(series: Series, window: Window, length: timedelta) -> list[Series] | None:
    """Return the bins that cover the newest `length` of the window, newest first.

    A bin has five minutes, or a period if that is longer. Return `None` if the window is shorter
    than `length`. A series that is shorter than the window counts as having holes at its end.
    """
    bin_length = max(END_BIN, window.period)
    periods_per_bin = bin_length // window.period
    # Floor division of the negative length rounds up.
    number_of_bins = max(1, -(-length // bin_length))
    values = padded(series, window)
    if len(values) < periods_per_bin * number_of_bins:
        return None
    bins: list[Series] = []
    end = len(values)
    for _ in range(number_of_bins):
        start = end - periods_per_bin
        bins.append(values[start:end])
        end = start
    return bins


def padded(series: Series, window: Window) -> Series:
    """Return the series in the length of its window, with holes for values missing at its end."""
    return (*series, *(None,) * (window.bins - len(series)))


def newest_peak(series: Series, window: Window, length: timedelta) -> float | None:
    """Return the highest reading in the newest `length` of the window; `None` if the window is
    shorter, or if a bin of it has no reading."""
    bins = newest_bins(series, window, length)
    if bins is None:
        return None
    peaks: list[float] = []
    for values in bins:
        bin_peak = peak(values)
        if bin_peak is None:
            return None
        peaks.append(bin_peak)
    return max(peaks)


def last_reading_end(series: Series, window: Window) -> UtcDatetime:
    """Return the end of the newest period with a reading; the start of the window if there is
    none."""
    last = last_at_or_above(series[: window.bins], 0.0)
    if last is None:
        return window.start
    return window.bin_end(last)


def holes(series: Series, window: Window) -> Iterator[tuple[timedelta, UtcDatetime]]:
    """Yield the length and the end of each time without a reading, newest last."""
    periods = 0
    # A reading after the end of the window ends a hole that lasts until then.
    for index, value in enumerate((*padded(series, window), 0.0)):
        # `not value >= 0`, because NaN is no reading.
        if value is None or not value >= 0:
            periods += 1
        elif periods:
            yield window.period * periods, window.start + window.period * index
            periods = 0


def unmeasured_until(gpus: Sequence[GpuReadings], window: Window) -> UtcDatetime | None:
    """Return the end of the newest hole that is too long for a proof of idleness: a time in which
    some GPU was not measured. Nothing is known of the time before that end.

    Consecutive holes of different GPUs count as one. Return `None` if there is no such hole.
    """
    # Most instances have no hole at all.
    if all(len(gpu.utilization) == window.bins == len(readings(gpu.utilization)) for gpu in gpus):
        return None
    newest_end: UtcDatetime | None = None
    for length, end in holes(measured_together(gpus, window), window):
        if length > LONGEST_HOLE:
            newest_end = end
    return newest_end


def measured_together(gpus: Sequence[GpuReadings], window: Window) -> Series:
    """Return a series with the reading 0 in the periods in which every GPU has a reading, and holes
    in the others; empty if there are no GPUs."""
    rows = zip(*(padded(gpu.utilization, window) for gpu in gpus), strict=True)
    return tuple([0.0 if all(map(is_reading, row)) else None for row in rows])


def busiest(gpus: Sequence[GpuReadings], window: Window, below: Percent) -> Series:
    """Return the utilization of the busiest GPU in each period; empty if there are no GPUs.

    A period is a hole unless a GPU was not `below` this threshold in it, or all GPUs were measured.
    """
    rows = zip(*(padded(gpu.utilization, window) for gpu in gpus), strict=True)
    return tuple([busiest_of(row, below) for row in rows])


def busiest_of(values: Sequence[float | None], below: Percent) -> float | None:
    """Return the highest of the GPUs' values in one period; `None` if it proves nothing.

    A value under `below` proves nothing while another GPU was not measured.
    """
    known = [value for value in values if value is not None and is_reading(value)]
    highest = max(known, default=0.0)
    if highest < below and len(known) < len(values):
        return None
    return highest


def latest(*moments: UtcDatetime | None) -> UtcDatetime | None:
    """Return the latest of the moments that are known; `None` if none is."""
    return max(not_none(moments), default=None)


def longest_hole(series: Series, window: Window) -> timedelta:
    """Return the longest time without a reading: zero if no reading is missing, the whole window
    if the series is empty."""
    return max((length for length, _ in holes(series, window)), default=timedelta(0))


def gpu_rows(evidence: Evidence, part_word: str) -> tuple[tuple[str, str, str, str], ...]:
    """Return a row for each GPU of the table beside the picture: its name, its highest and average
    utilization, and the share that was measured. `part_word` is what a GPU of this instance is
    called, such as `NeuronCore`. Return an empty tuple without GPUs."""
    rows = []
    for gpu in evidence.gpus:
        row = (
            f"all {part_word}s (the busiest)" if gpu.gpu == "all" else f"{part_word} {gpu.gpu}",
            _percent_text(peak(gpu.utilization)),
            _percent_text(mean(gpu.utilization)),
            f"{coverage_percent(gpu.utilization):.0f}%",
        )
        rows.append(row)
    return tuple(rows)


def _percent_text(percent: Percent | None) -> str:
    """Return the percentage as people read it; `not measured` for `None`."""
    return "not measured" if percent is None else f"{percent:.1f}%"


_ALWAYS_WRITTEN = frozenset(
    {
        "window",
        "source",
        "gpus",
        "aggregate",
        "gpus_expected",
        "gpus_reporting",
        "memory_used_percent",
        "power_percent_of_limit",
        "cpu_percent",
        "network_bytes_per_second",
        "agentless_power_percent",
        "measured_percent",
        "read",
        "read_problem",
        "last_active",
    }
)
"""The fields of the first release. Later fields are left out while they are empty, so evidence that
was stored before a field existed keeps its hash."""


def evidence_document(evidence: Evidence) -> dict[str, Any]:
    """Return the whole evidence as plain JSON data, to the last digit, without empty fields that
    are not in `_ALWAYS_WRITTEN`. This form is hashed and stored."""
    document: dict[str, Any] = {}
    for evidence_field in fields(evidence):
        name = evidence_field.name
        value = getattr(evidence, name)
        is_empty = value in (None, (), {})
        if is_empty and name not in _ALWAYS_WRITTEN:
            continue
        document[name] = plain(value)
    return document


def plain(value: Any) -> Any:
    """Return a part of the evidence as plain JSON data: a window as its start, end and period, a
    time as ISO 8601, a set sorted, a mapping by sorted keys. Anything unknown stays as it is."""
    match value:
        case Window():
            seconds = int(value.period.total_seconds())
            return {"start": iso(value.start), "end": iso(value.end), "period_seconds": seconds}
        case GpuReadings():
            return {"gpu": value.gpu, "utilization": list(value.utilization)}
        case datetime():
            return iso(value)
        case tuple():
            return [plain(member) for member in value]
        case frozenset():
            return sorted(value)
        case Mapping():
            return {key: plain(member) for key, member in sorted(value.items())}
        case _:
            return value


def evidence_hash(evidence: Evidence) -> str:
    """Return the hash that binds an approval to its evidence."""
    text = json.dumps(evidence_document(evidence), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
