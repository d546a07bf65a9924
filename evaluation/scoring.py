"""Replays one trace under the product's rule and counts what its questions were worth.

Scored as the data's README says, with one difference: a bin is the highest of its readings, as the
product reads it, for the rule and for the work that follows. The rule is asked at each bin's end.
Its yes stops the instance until the first bin that is not idle, and the stop leaves a hole in what
the rule sees later. What the end of an observation cuts off less than 4 hours after the question is
censored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from math import sqrt

from evaluation.bins import BIN_SECONDS, BINS_PER_HOUR, BUSY, CARRIED_HOLE_BINS, IDLE, UNKNOWN
from evaluation.rule import Rule, Seen
from evaluation.traces import Trace

RIGHT_FROM_HOURS = 4
WRONG_BELOW_HOURS = 1
APPROVAL_DELAY_BINS = 30 * 60 // BIN_SECONDS
_HALF_WIDTH = 1.959964
"""Half the width of a 95 % interval, in standard deviations."""


@dataclass(slots=True)
class Score:
    """Counts over instances; sums of scores are scores. Times are in bins."""

    right: int = 0
    between: int = 0
    wrong: int = 0
    censored: int = 0
    caught_bins: int = 0
    idle_bins: int = 0
    acted: int = 0
    """Questions whose instance was still idle when somebody approved 30 min later."""
    acted_wrongly: int = 0
    """Stops among these whose work resumed within an hour."""
    squares: int = 0
    """Sum of the squared idle bins of each stretch; with the next two, how sure the recall is."""
    products: int = 0
    """Sum of the products of each stretch's idle and caught bins."""
    caught_squares: int = 0

    def __add__(self, other: Score) -> Score:
        return Score(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Score)))

    @property
    def questions(self) -> int:
        """Questions whose worth is known."""
        return self.right + self.between + self.wrong

    @property
    def precision(self) -> float:
        """Share of the questions after which nothing ran for 4 hours; 0 without questions."""
        return self.right / self.questions if self.questions else 0.0

    @property
    def wrong_rate(self) -> float:
        """Share of the questions after which work resumed within an hour; 0 without questions."""
        return self.wrong / self.questions if self.questions else 0.0

    @property
    def recall(self) -> float:
        """Share of the idle instance-hours that lay between a question and the next work."""
        return self.caught_bins / self.idle_bins if self.idle_bins else 0.0

    @property
    def recall_interval(self) -> tuple[float, float]:
        """95 % interval of a ratio of two sums over the idle stretches, taken as independent."""
        if not self.idle_bins:
            return 0.0, 1.0
        recall = self.recall
        variance = self.caught_squares - 2 * recall * self.products + recall * recall * self.squares
        half = _HALF_WIDTH * sqrt(max(0.0, variance)) / self.idle_bins
        return max(0.0, recall - half), min(1.0, recall + half)


@dataclass(frozen=True, slots=True)
class Observation:
    """A stretch without long holes: bins `[start, end)` and their states, short holes carried
    over."""

    start: int
    states: bytes

    @property
    def end(self) -> int:
        """Index of the first bin after it."""
        return self.start + len(self.states)


def observations(states: Sequence[int]) -> list[Observation]:
    """Return the stretches between holes of more than 10 minutes. Holes at either end belong to
    none."""
    found: list[Observation] = []
    current = bytearray()
    hole = 0
    for index, state in enumerate(states):
        if state == UNKNOWN:
            hole += 1
            continue
        if current and hole <= CARRIED_HOLE_BINS:
            current += bytes((current[-1],)) * hole
        elif current:
            found.append(Observation(index - hole - len(current), bytes(current)))
            current.clear()
        hole = 0
        current.append(state)
    if current:
        found.append(Observation(len(states) - hole - len(current), bytes(current)))
    return found


def replay(trace: Trace, rule: Rule) -> Score:
    """Return what the rule's questions about one instance are worth."""
    score = Score()
    seen = Seen(trace)
    for one in observations(trace.states()):
        _replay_observation(one, rule, seen, score)
    return score


def _replay_observation(one: Observation, rule: Rule, seen: Seen, score: Score) -> None:
    at = one.states.find(IDLE)
    while at >= 0:
        end = one.states.find(BUSY, at)
        has_resumed = end >= 0
        end = end if has_resumed else len(one.states)
        asked = next(
            (index for index in range(at, end) if seen.asks(rule, one.start + index)), None
        )
        caught = 0 if asked is None else end - asked - 1
        _count_stretch(score, end - at, caught)
        if asked is not None:
            _count_question(score, caught, has_resumed=has_resumed)
            seen.stop(one.start + asked + 1, one.start + end)
        at = one.states.find(IDLE, end)


def _count_stretch(score: Score, idle: int, caught: int) -> None:
    score.idle_bins += idle
    score.caught_bins += caught
    score.squares += idle * idle
    score.products += idle * caught
    score.caught_squares += caught * caught


def _count_question(score: Score, bins: int, *, has_resumed: bool) -> None:
    """Count one question after which the instance stayed idle for so many bins, as far as anybody
    saw."""
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
    """Return the score of all of them together."""
    return sum(scores, start=Score())
