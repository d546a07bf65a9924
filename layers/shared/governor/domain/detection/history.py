"""What is known of one instance up to a moment: its utilization in bins, and the stretches they form.

A history only ever grows at its end, so an answer given from it can never rest on what came later. Holes
stay holes: a short one carries the state before it, a longer one ends the observation, and windows refill.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import repeat

from governor.domain.units import Percent

BIN_SECONDS = 300
"""Length of a bin: the period at which CloudWatch keeps 63 days, and the mission's evaluation period."""

BINS_PER_HOUR = 3600 // BIN_SECONDS
BINS_PER_DAY = 24 * BINS_PER_HOUR

IDLE_BELOW_PERCENT: Percent = 5.0
"""A GPU's bin counts as idle when its mean utilization lies under this: the mission's idle rule."""

CARRIED_HOLE_BINS = 2
"""A hole of at most this many bins (10 min) carries the state before; a longer one ends the observation."""


class BinState(StrEnum):
    """What the readings of one bin say about the whole instance."""

    IDLE = "idle"
    BUSY = "busy"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Bin:
    """Readings of one bin, one figure a GPU; `None` where nothing was measured.

    A figure below 0 or NaN is none: some publishers write it where the driver says N/A.
    """

    utilization: tuple[Percent | None, ...]
    state: BinState = field(init=False, compare=False, repr=False)
    """Busy when any GPU is, idle when every GPU is; unknown when neither can be said."""

    def __post_init__(self) -> None:
        # Asked for again and again, so it is found out once.
        object.__setattr__(self, "state", _state(self.utilization))


def _state(utilization: tuple[Percent | None, ...]) -> BinState:
    if any(value is not None and value >= IDLE_BELOW_PERCENT for value in utilization):
        return BinState.BUSY
    # In this order NaN compares as no reading, which it is.
    if utilization and all(value is not None and value >= 0 for value in utilization):
        return BinState.IDLE
    return BinState.UNKNOWN


@dataclass(frozen=True, slots=True)
class Gap:
    """A finished stretch of idleness. `ended_by_work` is false when it was merely lost from sight."""

    start: int
    """Number of its first bin since the Unix epoch (or the start of the trace)."""
    bins: int
    ended_by_work: bool

    @property
    def end(self) -> int:
        """Number of the first bin after it."""
        return self.start + self.bins


def _cut(gap: Gap, start: int) -> Gap:
    return gap if gap.start >= start else Gap(start, gap.end - start, gap.ended_by_work)


class History:
    """One instance's bins, oldest first, and the stretches of idleness in them. Grows at its end only.

    Args:
        first_bin: number of the first bin, that is its start in seconds divided by `BIN_SECONDS`. It fixes
            the time of day and of week.
    """

    def __init__(self, first_bin: int) -> None:
        self.first_bin = first_bin
        self.bins: list[Bin] = []
        self.gaps: list[Gap] = []
        self.observation_start = 0
        """Index of the first bin that a window may hold: since the last long hole, launch or resumption."""
        self._idle_start: int | None = None
        self._work_end: int | None = None
        self._hole = 0
        self._observed_before = array("l", [0])
        self._is_in_sight = False
        self._begin = 0
        self._begin_measured = 0
        """From `_begin` up to here nothing was measured, as far as anybody looked."""

    def append(self, new: Bin, times: int = 1) -> None:
        """Takes the next bin, or so many alike: a run costs as much as one of them."""
        index = len(self.bins)
        self.bins += repeat(new, times)
        state, observed = new.state, self._observed_before[-1]
        if state is BinState.UNKNOWN:
            self._observed_before.extend(repeat(observed, times))
            room = CARRIED_HOLE_BINS - self._hole
            self._hole += times
            if 0 <= room < times:
                self._lose_sight(index + room)
            return
        self._observed_before.extend(range(observed + 1, observed + times + 1))
        if not self._is_in_sight:
            self._is_in_sight = True
            self.observation_start = index
        self._hole = 0
        if state is BinState.BUSY:
            self._end_gap(index, ended_by_work=True)
            self._work_end = index + times
        elif self._idle_start is None:
            self._idle_start = index

    def forget_before(self, number: int) -> None:
        """As if it had begun with the bin of this number: what came before it is no longer known."""
        start = min(number - self.first_bin, len(self.bins))
        if start <= self._begin:
            return
        self._begin = start
        # A hole of years is passed over once, not with every step into it.
        first, end = max(start, self._begin_measured), len(self.bins)
        while first < end and self.bins[first].state is BinState.UNKNOWN:
            first += 1
        self._begin_measured = first
        self._is_in_sight = self._is_in_sight and first < end
        self.observation_start = max(self.observation_start, first)
        if self._idle_start is not None:
            self._idle_start = max(self._idle_start, first) if self._is_in_sight else None
        known = self.first_bin + first
        self.gaps = [_cut(gap, known) for gap in self.gaps if gap.end > known]

    def restart_windows(self) -> None:
        """Windows begin at the newest bin: the instance was stopped before it and works again."""
        self.observation_start = len(self.bins) - 1

    @property
    def idle_bins(self) -> int:
        """How long every GPU has been idle up to now, in bins; 0 when one works or nothing is in sight."""
        return 0 if self._idle_start is None else len(self.bins) - self._idle_start

    @property
    def rest_start(self) -> int | None:
        """Number of the first bin in which it may have been idle without a break up to now: the one after the
        last work that was seen. `None` when no work is known of."""
        if self._work_end is None or self._work_end <= self._begin:
            return None
        return self.first_bin + self._work_end

    @property
    def is_measured_now(self) -> bool:
        """Whether the newest bin holds a measured state."""
        return bool(self.bins) and self._hole == 0

    @property
    def now_bin(self) -> int:
        """Number of the bin that begins now."""
        return self.first_bin + len(self.bins)

    def is_covered(self, bins: int, minimum_coverage: float) -> bool:
        """Whether the last `bins` bins lie in one observation and enough of them were measured.

        Args:
            bins: length of the window in bins.
            minimum_coverage: share of the window, 0 to 1.
        """
        end = len(self.bins)
        start = end - bins
        if start < self.observation_start or not self._is_in_sight:
            return False
        # The margin keeps 0.8 of 60 from needing 49 by a rounding error.
        return self._observed_before[end] - self._observed_before[start] >= minimum_coverage * bins - 1e-9

    def _lose_sight(self, index: int) -> None:
        self._end_gap(index - CARRIED_HOLE_BINS, ended_by_work=False)
        self._is_in_sight = False

    def _end_gap(self, end: int, *, ended_by_work: bool) -> None:
        if self._idle_start is None:
            return
        self.gaps.append(Gap(self.first_bin + self._idle_start, end - self._idle_start, ended_by_work))
        self._idle_start = None
