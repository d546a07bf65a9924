"""Bins of 5 minutes, in which traces are kept and back-tests count time. A hole is NaN."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from math import nan

BIN_SECONDS = 300
"""CloudWatch keeps readings of this period for 63 days, and the sweep runs as often."""
BINS_PER_HOUR = 3600 // BIN_SECONDS
BINS_PER_DAY = 24 * BINS_PER_HOUR

IDLE_BELOW_PERCENT = 5.0
"""A GPU's bin is idle when its highest utilization lies under this: the policy's default."""
CARRIED_HOLE_BINS = 2
"""A hole of at most 10 minutes carries the state before it; a longer one ends an observation."""

UNKNOWN, IDLE, BUSY = range(3)
"""States of a bin."""


def holes(bins: int) -> array[float]:
    """Return a series in which nothing was measured."""
    return array("d", (nan,)) * bins


def measured(values: Iterable[float]) -> bytes:
    """Return 1 for every bin with a reading. NaN and figures below 0 measure nothing."""
    return bytes([value >= 0 for value in values])


def reaching(values: Iterable[float], limit: float) -> bytes:
    """Return 1 for every bin with a reading at or above the limit."""
    return bytes([value >= limit for value in values])


def above(values: Iterable[float], limit: float) -> bytes:
    """Return 1 for every bin with a reading above the limit."""
    return bytes([value > limit for value in values])


def lasting(flags: bytes, bins: int) -> bytes:
    """Return the flags, each set for so many bins from its own on."""
    lasting_flags = bytearray(len(flags))
    bins_left = 0
    for index, flag in enumerate(flags):
        if flag:
            bins_left = bins
        if bins_left:
            lasting_flags[index] = 1
            bins_left -= 1
    return bytes(lasting_flags)


def any_of(flags: Sequence[bytes], bins: int) -> bytes:
    """Return 1 for every bin in which one of the flags is set."""
    union = 0
    for series in flags:
        union |= int.from_bytes(series)
    return union.to_bytes(bins)


def all_of(flags: Sequence[bytes], bins: int) -> bytes:
    """Return 1 for every bin in which all flags are set; without flags, nowhere."""
    if not flags:
        return bytes(bins)
    intersection = int.from_bytes(flags[0])
    for series in flags[1:]:
        intersection &= int.from_bytes(series)
    return intersection.to_bytes(bins)


def without(flags: bytes, excluded: bytes) -> bytes:
    """Return the flags that are not set in the excluded ones."""
    return (int.from_bytes(flags) & ~int.from_bytes(excluded)).to_bytes(len(flags))
