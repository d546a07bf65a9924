"""Reads trace files: rows of samples or of execution intervals, one row at a time, into bins of 5 minutes.

A file's family follows from its columns, so any file of the same columns can be scored. Rows are never kept:
an instance is a few arrays, one figure a bin.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from governor.domain.detection.history import BIN_SECONDS, Bin
from governor.domain.evidence import is_reading

SAMPLE_COLUMNS = {"instance_id", "gpu_index", "timestamp_s", "utilization_gpu"}
EVENT_COLUMNS = {"instance_id", "n_gpus", "start_s", "end_s", "kind"}
GPU_KINDS = ("gpu", "ambiguous")
"""Intervals that count as GPU work: what cannot be told apart (3 min or less) is taken as work."""
KINDS = (*GPU_KINDS, "cpu")


class TraceError(Exception):
    """A trace file or directory cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One instance as it was measured: consecutive bins from number `first_bin` on, holes kept as holes."""

    family: str
    instance: str
    first_bin: int
    bins: tuple[Bin, ...]

    @property
    def machine(self) -> str:
        """What must not stand on both sides of a cross-validation: a notebook's owner, else the instance."""
        return self.instance.rsplit("-", 1)[0] if self.family == "notebooks" else self.instance


def read_directory(directory: Path) -> Iterator[Trace]:
    """All instances of all trace files of a directory, file by file in the order of names; or of one file.

    Raises:
        TraceError: there is no such directory, no trace file in it, or a file is unusable.
    """
    if directory.is_file():
        yield from read_file(directory)
        return
    files = sorted(path for path in directory.glob("*.csv*") if path.suffix in (".csv", ".gz"))
    if not files:
        raise TraceError(
            f"no trace files (*.csv, *.csv.gz) in {directory}: name their directory, make evaluate TRACES=dir"
        )
    for path in files:
        yield from read_file(path)


def read_file(path: Path) -> Iterator[Trace]:
    """All instances of one file, in the order of names.

    Raises:
        TraceError: the columns are of no known family, a row is cut short or holds no number where one
            belongs, or the compressed file is damaged.
    """
    opener = gzip.open if path.suffix == ".gz" else Path.open
    try:
        with opener(path, "rt", newline="") as file:
            yield from _read(path.name, file)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TraceError(f"{path.name} is damaged: {error}") from error


def _read(name: str, file: TextIO) -> Iterator[Trace]:
    rows = csv.DictReader(file)
    try:
        columns = set(rows.fieldnames or ())
        if columns >= EVENT_COLUMNS:
            yield from _from_events(_whole(rows))
        elif columns >= SAMPLE_COLUMNS:
            family = "serving" if "memory_used_mib" in columns else "lab"
            yield from _from_samples(family, _whole(rows))
        else:
            raise TraceError(
                f"{name}: columns {', '.join(sorted(columns)) or 'none'} are neither samples "
                f"({', '.join(sorted(SAMPLE_COLUMNS))}) nor intervals ({', '.join(sorted(EVENT_COLUMNS))})"
            )
    except (ValueError, csv.Error) as error:
        raise TraceError(f"{name}, line {rows.line_num}: {error}") from error


def _whole(rows: csv.DictReader[str]) -> Iterator[dict[str, str]]:
    """The rows; one that was cut short must not pass for one without a measurement."""
    for row in rows:
        if None in row or None in row.values():
            raise ValueError(f"not as many values as there are columns ({len(rows.fieldnames or ())})")
        yield row


@dataclass(slots=True)
class _Means:
    """Means of a GPU's samples by bin, as sums and counts from `first` on."""

    first: int
    sums: array[float] = field(default_factory=lambda: array("d"))
    counts: array[int] = field(default_factory=lambda: array("H"))

    def add(self, number: int, value: float) -> None:
        if number < self.first:
            self.sums = array("d", bytes(8 * (self.first - number))) + self.sums
            self.counts = array("H", bytes(2 * (self.first - number))) + self.counts
            self.first = number
        missing = number - self.first + 1 - len(self.sums)
        if missing > 0:
            self.sums.frombytes(bytes(8 * missing))
            self.counts.frombytes(bytes(2 * missing))
        self.sums[number - self.first] += value
        self.counts[number - self.first] += 1

    def at(self, number: int) -> float | None:
        index = number - self.first
        if not 0 <= index < len(self.counts) or not self.counts[index]:
            return None
        return self.sums[index] / self.counts[index]


@dataclass(slots=True)
class _Samples:
    gpus: dict[str, _Means] = field(default_factory=dict)
    first_second: int | None = None
    last_second: int = 0


def _from_samples(family: str, rows: Iterator[Mapping[str, str]]) -> Iterator[Trace]:
    instances: dict[str, _Samples] = {}
    for row in rows:
        one = instances.setdefault(row["instance_id"], _Samples())
        second = int(row["timestamp_s"])
        number = second // BIN_SECONDS
        gpu = row["gpu_index"]
        utilization = float(row["utilization_gpu"] or "nan")
        if not is_reading(utilization):
            # Polled, and nothing measured. A GPU that never is exists all the same: nobody saw it idle.
            one.gpus.setdefault(gpu, _Means(number))
            continue
        _add(one.gpus, gpu, number, utilization)
        one.first_second = second if one.first_second is None else min(one.first_second, second)
        one.last_second = max(one.last_second, second)
    for name in sorted(instances):
        if instances[name].first_second is not None:
            yield _trace_of_samples(family, name, instances[name])


def _add(means: dict[str, _Means], gpu: str, number: int, value: float) -> None:
    if gpu not in means:
        means[gpu] = _Means(number)
    means[gpu].add(number, value)


def _trace_of_samples(family: str, name: str, samples: _Samples) -> Trace:
    assert samples.first_second is not None
    first = samples.first_second // BIN_SECONDS
    # A sample stands for the minute that it begins; a bin that was cut short by the end says too little.
    end = (samples.last_second + 60) // BIN_SECONDS
    order = sorted(samples.gpus)
    bins = tuple(Bin(tuple(samples.gpus[gpu].at(number) for gpu in order)) for number in range(first, end))
    return Trace(family, name, first, bins)


def _from_events(rows: Iterator[Mapping[str, str]]) -> Iterator[Trace]:
    instances: dict[str, list[tuple[int, int, bool]]] = {}
    for row in rows:
        start, end, kind = int(row["start_s"]), int(row["end_s"]), row["kind"]
        if end < start:
            raise ValueError(f"an interval that starts at {start} cannot end at {end}")
        if kind not in KINDS:
            # Taken for anything else, unknown work would pass for idleness.
            raise ValueError(f"kind is {kind}: it must be {', '.join(KINDS[:-1])} or {KINDS[-1]}")
        instances.setdefault(row["instance_id"], []).append((start, end, kind in GPU_KINDS))
    for name in sorted(instances):
        yield _trace_of_events(name, instances[name])


def _trace_of_events(name: str, intervals: list[tuple[int, int, bool]]) -> Trace:
    """Occupancy in percent as the utilization of the one GPU that stands for all.

    The session is observed from its first interval's start to its last one's end, whatever their kind.
    """
    first = min(start for start, _, _ in intervals) // BIN_SECONDS
    end = max(stop for _, stop, _ in intervals) // BIN_SECONDS
    occupied = [0] * max(0, end - first)
    for start, stop, on_gpu in intervals:
        if not on_gpu:
            continue
        for number in range(start // BIN_SECONDS, min(end, -(-stop // BIN_SECONDS))):
            inside = min(stop, (number + 1) * BIN_SECONDS) - max(start, number * BIN_SECONDS)
            occupied[number - first] += inside
    bins = tuple(Bin((100.0 * min(seconds, BIN_SECONDS) / BIN_SECONDS,)) for seconds in occupied)
    return Trace("notebooks", name, first, bins)
