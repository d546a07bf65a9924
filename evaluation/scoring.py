"""Replays one trace against one detector and counts what its flags were worth.

The rules are those of the data's README: asked at each bin's end; a flag stops the instance until the first
bin that is not idle; windows refill then and after holes of more than 10 minutes; what is cut off by the end
of an observation less than 4 hours after the flag is censored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

from evaluation.traces import Trace
from governor.domain.detection.detector import Detector
from governor.domain.detection.history import (
    BIN_SECONDS,
    BINS_PER_DAY,
    BINS_PER_HOUR,
    CARRIED_HOLE_BINS,
    Bin,
    BinState,
    History,
)
from governor.domain.policy import Policy

RIGHT_FROM_HOURS = 4
WRONG_BELOW_HOURS = 1
APPROVAL_DELAY_BINS = 30 * 60 // BIN_SECONDS
HOURS_PER_MONTH = 730
LOOKS_BACK_BINS = Policy().survival.history_days * BINS_PER_DAY
"""A detector knows no more of the past than the product reads."""


@dataclass(slots=True)
class Score:
    """Counts over instances; sums of scores are scores. Times are in bins unless the name says otherwise."""

    right: int = 0
    between: int = 0
    wrong: int = 0
    censored: int = 0
    caught_bins: int = 0
    idle_bins: int = 0
    observed_bins: int = 0
    delay_bins: int = 0
    """From the first idle bin to the flag, summed over all flags, the censored ones included."""
    acted: int = 0
    """Flags still idle when somebody approved 30 min later and the recheck looked."""
    acted_wrongly: int = 0
    """Of these, work resumed within an hour of the act."""

    def __add__(self, other: Score) -> Score:
        return Score(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Score)))

    def __sub__(self, other: Score) -> Score:
        return Score(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(Score)))

    @property
    def flags(self) -> int:
        """Flags whose worth is known."""
        return self.right + self.between + self.wrong

    @property
    def precision(self) -> float:
        """Share of the flags after which nothing ran for 4 hours; 0 without flags."""
        return self.right / self.flags if self.flags else 0.0

    @property
    def wrong_rate(self) -> float:
        """Share of the flags after which work resumed within an hour; 0 without flags."""
        return self.wrong / self.flags if self.flags else 0.0

    @property
    def recall(self) -> float:
        """Share of the idle instance-hours that lay between a flag and the next work."""
        return self.caught_bins / self.idle_bins if self.idle_bins else 0.0

    @property
    def mean_delay_hours(self) -> float:
        """Hours from the first idle bin to the flag."""
        asked = self.flags + self.censored
        return self.delay_bins / BINS_PER_HOUR / asked if asked else 0.0

    @property
    def asks_per_month(self) -> float:
        """Flags, the censored ones included, per observed instance-month of 730 hours."""
        return self._per_month(self.flags + self.censored)

    @property
    def wasted_asks_per_month(self) -> float:
        """Flags after which work resumed within 4 hours, per observed instance-month of 730 hours."""
        return self._per_month(self.between + self.wrong)

    def _per_month(self, count: int) -> float:
        months = self.observed_bins / BINS_PER_HOUR / HOURS_PER_MONTH
        return count / months if months else 0.0


@dataclass(frozen=True, slots=True)
class Observation:
    """A stretch without long holes: indices `[start, end)` and each bin's state, short holes carried over."""

    start: int
    states: tuple[BinState, ...]

    @property
    def end(self) -> int:
        return self.start + len(self.states)


def observations(bins: Sequence[Bin]) -> list[Observation]:
    """The stretches between holes of more than 10 minutes. Holes at either end belong to none."""
    found: list[Observation] = []
    current: list[BinState] = []
    hole = 0
    for index, one in enumerate(bins):
        state = one.state
        if state is BinState.UNKNOWN:
            hole += 1
            continue
        if current and hole <= CARRIED_HOLE_BINS:
            current.extend([current[-1]] * hole)
        elif current:
            found.append(Observation(index - hole - len(current), tuple(current)))
            current = []
        hole = 0
        current.append(state)
    if current:
        found.append(Observation(len(bins) - hole - len(current), tuple(current)))
    return found


def replay(trace: Trace, detector: Detector) -> Score:
    """What the detector's flags on one instance are worth."""
    score = Score()
    history = History(trace.first_bin)
    seen = 0
    for one in observations(trace.bins):
        for hole in trace.bins[seen : one.start]:
            history.append(hole)
        seen = one.end
        _replay_observation(trace, one, detector, history, score)
    return score


def _replay_observation(
    trace: Trace, one: Observation, detector: Detector, history: History, score: Score
) -> None:
    idle = [state is BinState.IDLE for state in one.states]
    score.idle_bins += sum(idle)
    score.observed_bins += len(idle)
    is_stopped = False
    for offset, state in enumerate(idle):
        history.append(trace.bins[one.start + offset])
        if is_stopped:
            if state:
                continue
            is_stopped = False
            history.restart_windows()
        if state:
            history.forget_before(history.now_bin - LOOKS_BACK_BINS)
        if not detector.judge(history).is_idle:
            continue
        is_stopped = True
        score.delay_bins += history.idle_bins
        resumed = next((later for later in range(offset + 1, len(idle)) if not idle[later]), None)
        _count(score, (resumed or len(idle)) - offset - 1, has_resumed=resumed is not None)


def _count(score: Score, bins: int, *, has_resumed: bool) -> None:
    """Books one flag after which the instance stayed idle for so many bins, as far as anybody saw."""
    score.caught_bins += bins
    hours = bins / BINS_PER_HOUR
    if hours >= RIGHT_FROM_HOURS:
        score.right += 1
    elif not has_resumed:
        score.censored += 1
    elif hours < WRONG_BELOW_HOURS:
        score.wrong += 1
    else:
        score.between += 1
    if bins >= APPROVAL_DELAY_BINS:
        score.acted += 1
        rest = (bins - APPROVAL_DELAY_BINS) / BINS_PER_HOUR
        score.acted_wrongly += has_resumed and rest < WRONG_BELOW_HOURS


def total(scores: Iterable[Score]) -> Score:
    """The score of all of them together."""
    return sum(scores, start=Score())
