"""The product's idle rule, made fast for months of bins.

The same rule as the sweep's: `tests/unit/evaluation/test_rule.py` holds the two together on random
series.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from evaluation.bins import BIN_SECONDS, IDLE_BELOW_PERCENT, all_of, any_of, measured, reaching
from evaluation.traces import Trace

MINIMUM_COVERAGE_PERCENT = 80
LONGEST_HOLE_BINS = 15 * 60 // BIN_SECONDS
FRESH_BINS = 2
"""The newest bins, which must hold a reading of every GPU."""
MEMORY_BELOW_PERCENT = 10.0
MEMORY_BINS = 15 * 60 // BIN_SECONDS


@dataclass(frozen=True, slots=True)
class Rule:
    """Ask after so many idle minutes; sooner once every GPU has released its memory, if that is
    set.

    Raises:
        ValueError: a window is no whole number of 5-minute bins.
    """

    window_minutes: int
    released_minutes: int | None = None

    def __post_init__(self) -> None:
        for minutes in (self.window_minutes, self.released_minutes or self.window_minutes):
            if minutes <= 0 or minutes * 60 % BIN_SECONDS:
                raise ValueError(f"a window of {minutes} min is no whole number of 5-minute bins")

    @property
    def name(self) -> str:
        """Return the rule in a few words, as tables show it."""
        if self.released_minutes is None:
            return f"{self.window_minutes} min"
        return f"{self.window_minutes} min, {self.released_minutes} once released"


class Seen:
    """One instance as the product can see it: a stop leaves a hole."""

    def __init__(self, trace: Trace) -> None:
        busy = [reaching(values, IDLE_BELOW_PERCENT) for values in trace.gpus]
        self.busy = any_of(busy, trace.length)
        # GPUs are mostly polled together, so that many masks are equal: each is checked once.
        masks = {measured(values) for values in trace.gpus}
        self.masks = [bytearray(mask) for mask in masks]
        self.together = bytearray(all_of(list(masks), trace.length))
        self.released = all_of([_released(values) for values in trace.memory], trace.length)

    def stop(self, start: int, end: int) -> None:
        """Leave out what was measured in these bins: the instance was off."""
        for mask in (*self.masks, self.together):
            mask[start:end] = bytes(max(0, end - start))

    def asks(self, rule: Rule, index: int) -> bool:
        """Return whether the rule asks at the end of the bin with this index."""
        released = rule.released_minutes
        if released is not None and self._is_released(index) and self._is_idle(index, released):
            return True
        return self._is_idle(index, rule.window_minutes)

    def _is_released(self, index: int) -> bool:
        end = index + 1
        start = end - MEMORY_BINS
        return start >= 0 and self.released.count(1, start, end) == MEMORY_BINS

    def _is_idle(self, index: int, minutes: int) -> bool:
        bins = minutes * 60 // BIN_SECONDS
        end = index + 1
        start = end - bins
        early = max(0, -start)
        start = max(0, start)
        # Nothing is known from before the first bin: that is a hole, too.
        if early > LONGEST_HOLE_BINS or self.busy.find(1, start, end) >= 0:
            return False
        if self.together.count(1, max(0, end - FRESH_BINS), end) != FRESH_BINS:
            return False
        if (bytes(early) + self.together[start:end]).find(_TOO_LONG) >= 0:
            return False
        needed = ceil(bins * MINIMUM_COVERAGE_PERCENT / 100)
        return all(mask.count(1, start, end) >= needed for mask in self.masks)


_TOO_LONG = bytes(LONGEST_HOLE_BINS + 1)


def _released(memory: Sequence[float]) -> bytes:
    return bytes([0 <= value < MEMORY_BELOW_PERCENT for value in memory])
