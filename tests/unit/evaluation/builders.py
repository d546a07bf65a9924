"""Traces made by hand: parts of so many hours, or a letter a bin."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import nan

from evaluation.bins import BINS_PER_HOUR
from evaluation.traces import Trace

HOUR = BINS_PER_HOUR
IDLE, BUSY, HOLE = 1.0, 80.0, nan


def trace_of(*gpus: Sequence[float], memory: Sequence[Sequence[float]] = ()) -> Trace:
    """One instance with these GPUs, a figure a bin."""
    return Trace(
        "made-up",
        "one",
        0,
        tuple(array("d", one) for one in gpus),
        tuple(array("d", one) for one in memory),
    )


def bins_of(*parts: tuple[float, float]) -> list[float]:
    """Parts of so many hours each, one after the other."""
    return [value for value, hours in parts for _ in range(round(hours * HOUR))]


def of_text(text: str) -> list[float]:
    """`i` idle, `b` busy, `-` not measured: one letter a bin."""
    return [{"i": IDLE, "b": BUSY, "-": HOLE}[letter] for letter in text]
