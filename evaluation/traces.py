"""Reads trace files: rows of samples or of execution intervals, one row at a time, into bins of 5
minutes.

A bin holds the highest of its readings, which is what the product reads. The columns of a file tell
its family, so any file of the same columns can be scored. Rows of one instance belong together
whatever files they are in (a file a day, a file a GPU). Rows are never kept: an instance is a few
arrays, one figure for each bin of the days on which it was measured.
"""

from __future__ import annotations

import csv
import gzip
import sys
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from math import isfinite
from operator import itemgetter
from pathlib import Path
from typing import TextIO

from evaluation.bins import (
    BIN_SECONDS,
    BINS_PER_DAY,
    BUSY,
    IDLE,
    IDLE_BELOW_PERCENT,
    UNKNOWN,
    all_of,
    any_of,
    holes,
    measured,
    reaching,
)
from governor.core.units import printable

SAMPLE_COLUMNS = {"instance_id", "gpu_index", "timestamp_s", "utilization_gpu"}
EVENT_COLUMNS = {"instance_id", "n_gpus", "start_s", "end_s", "kind"}
GPU_KINDS = ("gpu", "ambiguous")
"""Intervals that count as GPU work; ambiguous ones (3 min or less) count, too."""
KINDS = (*GPU_KINDS, "cpu")
SUFFIXES = (".csv", ".csv.gz")
NOTEBOOKS = "notebooks"
"""The family of intervals; others are of samples."""

LONGEST_HOLE_DAYS = 63
"""A longer hole is shortened by whole weeks. It ends an observation either way, the hours of the
day and the days of the week stay what they were, and no policy looks further back."""
LONGEST_SESSION_DAYS = 366
"""A session counts as observed between its intervals, so a time that is wrong by years would be
idleness."""
LAST_SECOND = 10**11
"""Beyond it (the year 5138) a time is not in seconds."""
FINER_UNITS = {"milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
"""Finer units of such a time."""

_SAMPLE_CELLS = ("instance_id", "gpu_index", "timestamp_s", "utilization_gpu")
_MAXIMUM = "utilization_gpu_max"
"""The highest poll of a row's minute, where the file has it beside the mean."""
_MEMORY = "memory_used_pct"
"""Percent of the GPU's memory. Amounts in MiB say nothing without the GPU's size."""
_EVENT_CELLS = ("instance_id", "start_s", "end_s", "kind")
_MINUTE = 60
_GZIP_MAGIC = b"\x1f\x8b"
_DAYS_PER_WEEK = 7
_LONGEST_LIST = 60
_MOST_FOLDERS = 3
"""How many subdirectories an error names."""


class TraceError(Exception):
    """A trace file or directory cannot be used; the message says why and what to do."""


class NotATraceError(TraceError):
    """The file is none of this project's: its columns are others, or it is no text at all."""


class BadRowError(TraceError):
    """A row of a trace of this family holds what cannot be; the message names file, line and
    column."""

    def __init__(self, message: str, family: str) -> None:
        super().__init__(message)
        self.family = family


@dataclass(frozen=True, slots=True)
class Trace:
    """One instance as it was measured: consecutive bins from number `first_bin` on, holes kept as
    holes."""

    family: str
    instance: str
    first_bin: int
    gpus: tuple[array[float], ...]
    """Highest utilization in percent of each GPU, a figure a bin."""
    memory: tuple[array[float], ...] = ()
    """Highest share in percent of each GPU's memory that was held; NaN where it was not
    measured."""

    @property
    def length(self) -> int:
        """Return how many bins it has."""
        return len(self.gpus[0]) if self.gpus else 0

    def states(self) -> bytes:
        """Return busy where any GPU works, idle where every GPU is measured and does not, else
        unknown."""
        busy = any_of([reaching(values, IDLE_BELOW_PERCENT) for values in self.gpus], self.length)
        is_known = all_of([measured(values) for values in self.gpus], self.length)
        states = bytearray(self.length)
        for index, (works, known) in enumerate(zip(busy, is_known, strict=True)):
            if works:
                states[index] = BUSY
            else:
                states[index] = IDLE if known else UNKNOWN
        return bytes(states)


def _say(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)


def read_directory(directory: Path, warn: Callable[[str], None] = _say) -> list[Trace]:
    """Return all instances of the trace files of a directory, or of one file, by family and name.

    An instance that occurs in a file with a bad row is left out, its rows of other files too:
    without one of its GPUs, or without some of its work, it would look idle.

    Args:
        directory: subdirectories are not read.
        warn: gets files that are no traces, bad rows and what is left out for them, and holes that
            were shortened.

    Raises:
        TraceError: there is no such directory, no trace file in it, nothing is left that can be
            used, or a compressed file is damaged: nobody knows which instances its rest held.
    """
    if directory.is_file():
        return read_file(directory, warn)
    return _read(_trace_files(directory), warn)


def read_file(path: Path, warn: Callable[[str], None] = _say) -> list[Trace]:
    """Return all instances of one file by name.

    Raises:
        TraceError: the columns are of no known family, a row is cut short or holds no number where
            one belongs, or the compressed file is damaged.
    """
    return _read([path], warn)


def _read(files: Sequence[Path], warn: Callable[[str], None]) -> list[Trace]:
    """Return all instances of these files. Raises: TraceError if none can be read."""
    read = _Read()
    not_traces: list[str] = []
    names_by_problem: dict[str, set[str]] = {}
    for path in files:
        try:
            _add_file(path, read)
        except NotATraceError as error:
            not_traces.append(str(error))
        except BadRowError as error:
            names = _instances(path)
            names_by_problem[str(error)] = names
            read.left_out |= {(error.family, name) for name in names}
    warnings = [f"left out: {problem}" for problem in not_traces]
    for problem, names in names_by_problem.items():
        warnings.append(
            f"left out, with all their rows in any file, for one that cannot be read ({problem}): "
            f"{', '.join(map(printable, sorted(names)))}"
        )
    traces = read.traces(warnings.append)
    has_only_bad_rows = bool(names_by_problem) and not traces
    if len(not_traces) == len(files) or has_only_bad_rows:
        raise TraceError("; ".join([*not_traces, *names_by_problem]))
    for warning in warnings:
        warn(warning)
    return traces


def _trace_files(directory: Path) -> list[Path]:
    """Return the trace files of a directory, by name. Raises: TraceError if there are none."""
    if not directory.is_dir():
        raise TraceError(f"no trace files: {directory} is neither a file nor a directory")
    inside = sorted(directory.iterdir())
    files = [path for path in inside if _is_trace_file(path)]
    if files:
        return files
    raise TraceError(_no_files_text(directory, inside))


def _is_trace_file(path: Path) -> bool:
    return path.name.lower().endswith(SUFFIXES) and path.is_file()


def _no_files_text(directory: Path, inside: Sequence[Path]) -> str:
    """Return that a directory holds no trace file, and what to name instead."""
    patterns = ", ".join(f"*{suffix}" for suffix in SUFFIXES)
    reason = f"no trace files ({patterns}) in {directory}"
    folders = [path.name for path in inside if path.is_dir()]
    if not folders or len(folders) < len(inside):
        return f"{reason}: name a trace file, or a directory that holds some"
    named = ", ".join(folders[:_MOST_FOLDERS])
    ellipsis = ", ..." if len(folders) > _MOST_FOLDERS else ""
    return f"{reason}, which holds subdirectories only ({named}{ellipsis}): name one of them"


def _add_file(path: Path, read: _Read) -> None:
    with _opened(path) as file:
        _add_rows(path.name, file, read)


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    opener = gzip.open if path.name.lower().endswith(".gz") else Path.open
    try:
        # Spreadsheets put a byte order mark before the first column's name; names may be in any
        # encoding.
        with opener(path, "rt", newline="", encoding="utf-8-sig", errors="replace") as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        # A file that does not begin as a compressed one is none. Of any other, rows may have been
        # read.
        with path.open("rb") as raw:
            kind = TraceError if raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC else NotATraceError
        raise kind(f"{path.name} is damaged: {error}") from error


def _add_rows(name: str, file: TextIO, read: _Read) -> None:
    rows = csv.reader(file)
    try:
        columns = next(rows, [])
    except (ValueError, csv.Error) as error:
        raise NotATraceError(f"{name}, line {rows.line_num}: {error}") from error
    family = _family(columns)
    if family is None:
        raise NotATraceError(
            f"{name}: columns {_listed(columns)} are neither samples "
            f"({', '.join(sorted(SAMPLE_COLUMNS))}) nor intervals "
            f"({', '.join(sorted(EVENT_COLUMNS))})"
        )
    try:
        if family == NOTEBOOKS:
            wanted = [columns.index(column) for column in _EVENT_CELLS]
            read.add_intervals(map(itemgetter(*wanted), _whole(rows, len(columns))))
        else:
            read.add_samples(family, columns, _whole(rows, len(columns)))
    except (ValueError, csv.Error) as error:
        raise BadRowError(
            f"{name}, line {rows.line_num}: {printable(str(error))}", family
        ) from error


def _family(columns: Sequence[str]) -> str | None:
    """Return the family that has such columns; `None` if none has."""
    if set(columns) >= EVENT_COLUMNS:
        return NOTEBOOKS
    if set(columns) >= SAMPLE_COLUMNS:
        return "serving" if "memory_used_mib" in columns else "lab"
    return None


def _instances(path: Path) -> set[str]:
    """Return the instances that a trace file names. It is read line by line: a quote that is never
    closed must not hide the rest."""
    with _opened(path) as file:
        name_at = next(csv.reader(file)).index("instance_id")
        names = set()
        for line in file:
            try:
                cells = next(csv.reader([line]), [])
            except csv.Error:
                cells = line.split(",")
            if len(cells) > name_at:
                names.add(cells[name_at])
    return names


def _listed(columns: Iterable[str]) -> str:
    """Return the first columns as text. A file may hold anything, and a terminal must not read it
    as commands."""
    text = ", ".join(sorted(columns)) or "none"
    plain = "".join(letter if letter.isprintable() else "?" for letter in text)
    if len(plain) <= _LONGEST_LIST:
        return plain
    return f"{plain[:_LONGEST_LIST]}..."


def _whole(rows: Iterable[Sequence[str]], columns: int) -> Iterator[Sequence[str]]:
    """Yield rows with a value for each column. A row that was cut short must not look like a
    missing measurement. Raises: ValueError."""
    for row in rows:
        if len(row) == columns:
            yield row
        elif row:
            raise ValueError(f"not as many values as there are columns ({columns})")


def _number(column: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{column}: {text!r} is no number") from None


def _second(column: str, text: str) -> int:
    """Return a time in seconds; some files write `1773089760.0`. Raises: ValueError."""
    try:
        second = int(text)
    except ValueError:
        value = _number(column, text)
        second = int(value) if isfinite(value) else -1
    if not 0 <= second < LAST_SECOND:
        raise ValueError(
            f"{column}: {text} is no time in seconds since the trace's start or "
            f"1970{_finer_unit(second)}"
        )
    return second


def _finer_unit(time: int) -> str:
    """Return the finer unit that a time may be in, as the end of an error; empty if there is
    none."""
    for unit, factor in FINER_UNITS.items():
        if 0 < time < LAST_SECOND * factor:
            return f"; {unit}?"
    return ""


@dataclass(slots=True)
class _Highest:
    """The highest reading of each bin, for the days that have any."""

    days: dict[int, array[float]] = field(default_factory=dict)

    def add(self, number: int, value: float) -> None:
        """Take one reading of the bin with this number."""
        day, index = divmod(number, BINS_PER_DAY)
        values = self.days.get(day)
        if values is None:
            values = holes(BINS_PER_DAY)
            self.days[day] = values
        # In this order, because every comparison with the NaN of a hole is false.
        if not values[index] >= value:
            values[index] = value

    def on(self, day: int) -> array[float]:
        """Return the figures of that day."""
        return self.days.get(day) or holes(BINS_PER_DAY)


@dataclass(slots=True)
class _Samples:
    gpus: dict[str, _Highest] = field(default_factory=dict)
    memory: dict[str, _Highest] = field(default_factory=dict)
    first_second: int | None = None
    last_second: int = 0

    def memory_in(self, order: Sequence[str]) -> list[_Highest]:
        """Return the memory of GPUs in this order; nothing if none was measured."""
        memory = [self.memory[gpu] for gpu in order]
        return memory if any(highest.days for highest in memory) else []

    def extend_to(self, second: int) -> None:
        """Let the measured time hold this second."""
        if self.first_second is None or second < self.first_second:
            self.first_second = second
        self.last_second = max(self.last_second, second)


@dataclass(slots=True)
class _Session:
    first_second: int
    last_second: int
    work: list[tuple[int, int]] = field(default_factory=list)
    """Starts and ends of the intervals with GPU work."""


@dataclass(slots=True)
class _Read:
    """The records of each instance, from all files."""

    samples: dict[tuple[str, str], _Samples] = field(default_factory=dict)
    """By family and instance."""
    sessions: dict[str, _Session] = field(default_factory=dict)
    left_out: set[tuple[str, str]] = field(default_factory=set)
    """Family and name of each instance with a row that cannot be read."""

    def add_samples(
        self, family: str, columns: Sequence[str], rows: Iterable[Sequence[str]]
    ) -> None:
        """Take rows of a file with these columns."""
        name_at, gpu_at, time_at, mean_at = [columns.index(column) for column in _SAMPLE_CELLS]
        highest_at = columns.index(_MAXIMUM) if _MAXIMUM in columns else mean_at
        memory_at = columns.index(_MEMORY) if _MEMORY in columns else None
        for row in rows:
            key = (family, row[name_at])
            samples = self.samples.get(key)
            if samples is None:
                samples = _Samples()
                self.samples[key] = samples
            second = _second("timestamp_s", row[time_at])
            number = second // BIN_SECONDS
            # A GPU that was polled and never measured exists all the same: nobody saw it idle.
            gpu = row[gpu_at]
            readings = samples.gpus.get(gpu)
            if readings is None:
                readings = _Highest()
                samples.gpus[gpu] = readings
                samples.memory[gpu] = _Highest()
            utilization = _number("utilization_gpu", row[mean_at] or "nan")
            if highest_at != mean_at and row[highest_at]:
                highest = _number(_MAXIMUM, row[highest_at])
                if highest >= 0 and not utilization >= highest:
                    utilization = highest
            if memory_at is not None and row[memory_at]:
                memory = _number(_MEMORY, row[memory_at])
                if memory >= 0:
                    samples.memory[gpu].add(number, memory)
            if utilization >= 0:
                readings.add(number, utilization)
                samples.extend_to(second)

    def add_intervals(self, rows: Iterable[tuple[str, str, str, str]]) -> None:
        """Take rows of instance, start, end and kind. Raises: ValueError."""
        for name, begin, stop, kind in rows:
            start = _second("start_s", begin)
            end = _second("end_s", stop)
            if end < start:
                raise ValueError(f"end_s: an interval that starts at {start} cannot end at {end}")
            if kind not in KINDS:
                # Taken for anything else, unknown work would pass for idleness.
                raise ValueError(f"kind: {kind!r} must be {', '.join(KINDS[:-1])} or {KINDS[-1]}")
            session = self.sessions.setdefault(name, _Session(start, end))
            session.first_second = min(session.first_second, start)
            session.last_second = max(session.last_second, end)
            if session.last_second - session.first_second > LONGEST_SESSION_DAYS * 86_400:
                raise ValueError(
                    f"start_s, end_s: {name} would last from {session.first_second} to "
                    f"{session.last_second}, more than {LONGEST_SESSION_DAYS} days: mend the "
                    "time that is wrong, or give its parts other names"
                )
            if kind in GPU_KINDS:
                session.work.append((start, end))

    def traces(self, warn: Callable[[str], None]) -> list[Trace]:
        """Return all instances with a measurement that are not left out, by family and name."""
        traces = []
        for name, session in self.sessions.items():
            if (NOTEBOOKS, name) not in self.left_out:
                traces.append(_trace_of_session(name, session))
        for (family, name), samples in self.samples.items():
            if samples.first_second is None or (family, name) in self.left_out:
                continue
            traces.append(_trace_of_samples(family, name, samples, samples.first_second, warn))
        return sorted(traces, key=lambda trace: (trace.family, trace.instance))


def _trace_of_samples(
    family: str, name: str, samples: _Samples, first_second: int, warn: Callable[[str], None]
) -> Trace:
    first = first_second // BIN_SECONDS
    # A sample stands for the minute that it begins; a bin that the end cut short shows too little.
    end = (samples.last_second + _MINUTE) // BIN_SECONDS
    order = sorted(samples.gpus)
    series = [samples.gpus[gpu] for gpu in order]
    memory = samples.memory_in(order)
    days = sorted(set().union(*(highest.days for highest in series)))
    columns: list[array[float]] = [array("d") for _ in (*series, *memory)]
    pieces: list[list[int]] = [[]]
    moved = [0]
    for before, day in pairwise([days[0] - 1, *days]):
        empty = day - before - 1
        left_out = _weeks_left_out(empty)
        if left_out:
            warn(
                f"{family} {name}: nothing measured from {_date(before + 1)} to "
                f"{_date(day)}, of which {left_out} days are left out; do the timestamps hold "
                "what they should?"
            )
            pieces.append([])
            moved.append(moved[-1] + left_out)
        pieces[-1].append(day)
        for column, highest in zip(columns, (*series, *memory), strict=True):
            column.extend(holes((empty - left_out) * BINS_PER_DAY))
            column.extend(highest.on(day))
    # The longest part keeps its dates.
    kept = max(range(len(pieces)), key=lambda index: (len(pieces[index]), index))
    lead = first - days[0] * BINS_PER_DAY
    behind = (days[-1] + 1) * BINS_PER_DAY - end
    cut = [column[lead : max(lead, len(column) - behind)] for column in columns]
    return Trace(
        family,
        name,
        first + moved[kept] * BINS_PER_DAY,
        tuple(cut[: len(series)]),
        tuple(cut[len(series) :]),
    )


def _weeks_left_out(empty_days: int) -> int:
    """Return how many of these days are left out, in whole weeks."""
    return max(0, empty_days - LONGEST_HOLE_DAYS) // _DAYS_PER_WEEK * _DAYS_PER_WEEK


def _date(day: int) -> str:
    return f"{datetime.fromtimestamp(day * 86_400, tz=UTC):%Y-%m-%d}"


def _trace_of_session(name: str, session: _Session) -> Trace:
    """Return the session with one GPU that stands for all: its utilization is the occupancy, in
    percent, of a bin's busiest minute.

    The session is observed from its first interval's start to its last one's end, whatever their
    kind.
    """
    first = session.first_second // BIN_SECONDS
    end = session.last_second // BIN_SECONDS
    seconds_by_minute: dict[int, int] = {}
    for start, stop in session.work:
        for minute in range(start // _MINUTE, -(-stop // _MINUTE)):
            inside = min(stop, (minute + 1) * _MINUTE) - max(start, minute * _MINUTE)
            seconds_by_minute[minute] = min(_MINUTE, seconds_by_minute.get(minute, 0) + inside)
    values = array("d", bytes(8 * max(0, end - first)))
    for minute, seconds in seconds_by_minute.items():
        index = minute * _MINUTE // BIN_SECONDS - first
        if index < len(values):
            values[index] = max(values[index], 100.0 * seconds / _MINUTE)
    return Trace(NOTEBOOKS, name, first, (values,))
