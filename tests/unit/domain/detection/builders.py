"""Histories made by hand: a day's hours of work, or rows of readings, one figure a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from governor.domain.detection.history import BIN_SECONDS, Bin, History

Row = tuple[float | None, ...]
"""What each GPU of one instance showed in one bin."""

HOUR = 3600 // BIN_SECONDS
DAY = 24 * HOUR
IDLE: Row = (1.0,)
BUSY: Row = (80.0,)
HOLE: Row = (None,)


def history_of(rows: Iterable[Row], first_bin: int = 0) -> History:
    """A history of these bins; bin 0 begins at midnight."""
    history = History(first_bin)
    for row in rows:
        history.append(Bin(row))
    return history


def bins_of(*parts: tuple[Row, float]) -> list[Row]:
    """Parts of so many hours each, one after the other."""
    return [row for row, hours in parts for _ in range(round(hours * HOUR))]


def days(count: int, work: Sequence[tuple[float, float]], busy: Row = BUSY, idle: Row = IDLE) -> list[Row]:
    """So many equal days from midnight on, at work between these hours of the day and idle else."""
    day = [busy if any(start <= at / HOUR < end for start, end in work) else idle for at in range(DAY)]
    return day * count
