"""Replays one trace under the product's rule and counts how many of its questions were right.

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
    """Sum of the squared idle bins of each stretch; with the next two, it bounds the recall."""
    products: int = 0
    """Sum of the products of each stretch's idle and caught bins."""
    caught_squares: int = 0

    def __add__(self, score: Score) -> Score:
        names = [field.name for field in fields(Score)]
        return Score(*(getattr(self, name) + getattr(score, name) for name in names))

    @property
    def questions(self) -> int:
        """Return the number of questions that are known to be right or wrong."""
        return self.right + self.between + self.wrong

    @property
    def precision(self) -> float:
        """Return the share of questions after which nothing ran for 4 hours; 0 without any."""
        return self.right / self.questions if self.questions else 0.0

    @property
    def wrong_rate(self) -> float:
        """Return the share of questions after which work resumed within an hour; 0 without any."""
        return self.wrong / self.questions if self.questions else 0.0

    @property
    def recall(self) -> float:
        """Return the share of idle hours that lay between a question and the next work."""
        return self.caught_bins / self.idle_bins if self.idle_bins else 0.0

    @property
    def recall_interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the recall, a ratio of sums over independent stretches."""
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
        """Return the index of the first bin after it."""
        return self.start + len(self.states)


def observations(states: Sequence[int]) -> list[Observation]:
    """Return the stretches between holes of more than 10 minutes, without holes at either end."""
    stretches: list[Observation] = []
    current = bytearray()
    hole = 0
    for index, state in enumerate(states):
        if state == UNKNOWN:
            hole += 1
            continue
        if current and hole <= CARRIED_HOLE_BINS:
            current += bytes((current[-1],)) * hole
        elif current:
            stretches.append(Observation(index - hole - len(current), bytes(current)))
            current.clear()
        hole = 0
        current.append(state)
    if current:
        stretches.append(Observation(len(states) - hole - len(current), bytes(current)))
    return stretches


def replay(trace: Trace, rule: Rule) -> Score:
    """Return how many of the rule's questions about one instance were right."""
    score = Score()
    seen = Seen(trace)
    for observation in observations(trace.states()):
        _replay_observation(observation, rule, seen, score)
    return score


def _replay_observation(observation: Observation, rule: Rule, seen: Seen, score: Score) -> None:
    states = observation.states
    start = states.find(IDLE)
    while start >= 0:
        end = states.find(BUSY, start)
        has_resumed = end >= 0
        if not has_resumed:
            end = len(states)
        asked = _first_question(rule, seen, observation.start + start, observation.start + end)
        caught = 0
        if asked is not None:
            caught = observation.start + end - asked - 1
            _count_question(score, caught, has_resumed=has_resumed)
            seen.stop(asked + 1, observation.start + end)
        _count_stretch(score, end - start, caught)
        start = states.find(IDLE, end)


def _first_question(rule: Rule, seen: Seen, start: int, end: int) -> int | None:
    """Return the first bin of a stretch at whose end the rule asks; `None` if it never does."""
    for index in range(start, end):
        if seen.asks(rule, index):
            return index
    return None


def _count_stretch(score: Score, idle: int, caught: int) -> None:
    score.idle_bins += idle
    score.caught_bins += caught
    score.squares += idle * idle
    score.products += idle * caught
    score.caught_squares += caught * caught


def _count_question(score: Score, bins: int, *, has_resumed: bool) -> None:
    """Count one question after which the instance stayed idle for so many bins, as far as the trace
    shows."""
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
