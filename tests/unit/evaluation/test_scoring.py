"""Scores by the rules of the data's README: what a flag was worth, caught hours, re-arming and holes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.scoring import Observation, Score, observations, replay, total
from evaluation.traces import Trace
from governor.domain.detection.detector import Answer, Detector
from governor.domain.detection.history import Bin, BinState, History
from governor.domain.detection.survival import SurvivalDetector
from governor.domain.detection.threshold import ThresholdDetector
from tests.unit.domain.detection.builders import BUSY, HOLE, HOUR, IDLE, Row, bins_of, history_of

PLAIN = ThresholdDetector(60)
IS_IDLE, IS_BUSY = BinState.IDLE, BinState.BUSY
texts = st.text("iiib-", max_size=120).map(lambda text: text.replace("i", "iiii"))


def trace_of(rows: list[Row]) -> Trace:
    """One instance of these bins."""
    return Trace("made-up", "one", 0, tuple(Bin(row) for row in rows))


def of_text(text: str) -> list[Row]:
    """`i` idle, `b` busy, `-` not measured: one letter a bin."""
    return [{"i": IDLE, "b": BUSY, "-": HOLE}[letter] for letter in text]


def score_of(*parts: tuple[Row, float], detector: Detector = PLAIN) -> Score:
    """Replays parts of so many hours."""
    return replay(trace_of(bins_of(*parts)), detector)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("--", []),
        ("-ib-", [Observation(1, (IS_IDLE, IS_BUSY))]),
        ("i-b", [Observation(0, (IS_IDLE, IS_IDLE, IS_BUSY))]),
        ("b--i", [Observation(0, (IS_BUSY, IS_BUSY, IS_BUSY, IS_IDLE))]),
        ("ib---i", [Observation(0, (IS_IDLE, IS_BUSY)), Observation(5, (IS_IDLE,))]),
        ("i--", [Observation(0, (IS_IDLE,))]),
    ],
)
def test_observations_carry_short_holes_and_end_at_long_ones(text: str, found: list[Observation]) -> None:
    """Ten minutes carry the state before; fifteen end it. Holes at either end belong to none."""
    assert found == observations(trace_of(of_text(text)).bins)


@pytest.mark.parametrize(
    ("hours_idle", "outcome"),
    [
        (1 + 11 / 12, "wrong"),
        (2, "between"),
        (4 + 11 / 12, "between"),
        (5, "right"),
    ],
)
def test_a_flag_is_worth_what_came_after_it(hours_idle: float, outcome: str) -> None:
    """Flagged after an hour; work resumes after under 1 h, 1 to 4 h, or from 4 h on."""
    score = score_of((BUSY, 1), (IDLE, hours_idle), (BUSY, 1))
    counts = {name: getattr(score, name) for name in ("right", "between", "wrong", "censored")}

    assert {**dict.fromkeys(counts, 0), outcome: 1} == counts
    assert 1 == score.flags
    assert round((hours_idle - 1) * HOUR) == score.caught_bins


@pytest.mark.parametrize(("left", "right", "censored"), [(4, 1, 0), (4 - 1 / 12, 0, 1), (0, 0, 1)])
@pytest.mark.parametrize("ending", [(), ((HOLE, 1), (BUSY, 1))], ids=["end of the trace", "a long hole"])
def test_what_is_cut_off_within_four_hours_is_not_counted(
    left: float, right: int, censored: int, ending: tuple[tuple[Row, float], ...]
) -> None:
    """By the end of the trace, or of the observation; its hours are caught all the same."""
    score = score_of((BUSY, 1), (IDLE, 1 + left), *ending)

    assert (right, censored, 0) == (score.right, score.censored, score.between + score.wrong)
    assert right == score.flags
    assert round(left * HOUR) == score.caught_bins


def test_precision_wrong_rate_and_recall_are_shares() -> None:
    """Of the flags that count, and of all idle hours; no flags and no idleness are nothing, not an error."""
    score = Score(right=6, between=1, wrong=3, censored=90, caught_bins=30, idle_bins=120)

    assert (0.6, 0.3, 0.25) == (score.precision, score.wrong_rate, score.recall)
    assert (0, 0, 0, 0) == (Score().precision, Score().wrong_rate, Score().recall, Score().asks_per_month)


def test_asks_are_per_observed_instance_month() -> None:
    """A month has 730 hours; a flag is wasted when work came within 4; delay is from idle to flag."""
    score = Score(right=1, between=2, wrong=1, censored=1, observed_bins=365 * HOUR, delay_bins=10 * HOUR)

    assert (10, 6, 2) == (score.asks_per_month, score.wasted_asks_per_month, score.mean_delay_hours)
    assert 1 == score_of((BUSY, 1), (IDLE, 3)).mean_delay_hours


def test_one_flag_a_stretch_and_a_full_window_after_it() -> None:
    """Stopped until work resumes; a short burst later, an hour is proved anew."""
    score = score_of((BUSY, 1), (IDLE, 6), (BUSY, 1 / 12), (IDLE, 11 / 12), (BUSY, 1 / 12), (IDLE, 7))

    assert (2, 5 * HOUR + 6 * HOUR) == (score.flags, score.caught_bins)


class MeanOfTheLastHour:
    """Forgives a busy bin, so that only a refilled window keeps it from flagging at once."""

    name = "mean"

    def judge(self, history: History) -> Answer:
        """Idle when an hour is covered and at least half of it idle."""
        window = [one.state for one in history.bins[-HOUR:]]
        return Answer(history.is_covered(HOUR, 0.8) and window.count(IS_IDLE) >= HOUR / 2, "")


def test_windows_refill_after_resumption_for_every_detector() -> None:
    """The bin in which work resumes is the window's first: the next flag comes an hour later."""
    score = score_of((IDLE, 6), (BUSY, 1 / 12), (IDLE, 6), detector=MeanOfTheLastHour())

    # 5 hours after the first flag; 1 bin of work and 11 more fill the second window.
    assert 5 * HOUR + 5 * HOUR + 1 == score.caught_bins


def test_windows_refill_after_a_long_hole() -> None:
    """Fifty minutes on either side of it are not an hour; a short hole does not interrupt one."""
    long = score_of((BUSY, 1), (IDLE, 5 / 6), (HOLE, 0.25), (IDLE, 5 / 6), (BUSY, 1))
    short = score_of((BUSY, 1), (IDLE, 5 / 6), (HOLE, 1 / 6), (IDLE, 5), (BUSY, 1))

    assert (0, 1) == (long.flags + long.censored, short.flags)
    assert 20 == long.idle_bins
    assert 6 * HOUR == short.idle_bins  # the short hole carries idleness


@pytest.mark.parametrize(
    ("rest", "acted", "wrongly"),
    [(5 / 12, 0, 0), (0.5, 1, 1), (1 + 5 / 12, 1, 1), (1.5, 1, 0)],
)
def test_approved_after_half_an_hour_and_rechecked(rest: float, acted: int, wrongly: int) -> None:
    """Work within 30 minutes is seen by the recheck; within an hour of the act it was hit."""
    score = score_of((BUSY, 1), (IDLE, 1 + rest), (BUSY, 1))

    assert (acted, wrongly) == (score.acted, score.acted_wrongly)


def test_what_nobody_saw_end_was_not_acted_on_wrongly() -> None:
    """Censored: idle when the act came, and nothing is known after."""
    score = score_of((BUSY, 1), (IDLE, 2))

    assert (1, 0) == (score.acted, score.acted_wrongly)


@given(texts)
def test_the_hours_of_a_replay_add_up(text: str) -> None:
    """Caught hours are idle ones; idle and busy ones are all that was observed; every flag is one of four."""
    score = replay(trace_of(of_text(text)), PLAIN)
    states = [state for one in observations(trace_of(of_text(text)).bins) for state in one.states]

    assert (states.count(IS_IDLE), len(states)) == (score.idle_bins, score.observed_bins)
    assert 0 <= score.caught_bins <= score.idle_bins
    assert score.delay_bins >= HOUR * (score.flags + score.censored)


@given(texts)
def test_a_history_sees_the_stretches_that_are_scored(text: str) -> None:
    """What the detector is told of idleness is what the README's states say, at every moment in sight."""
    bins = trace_of(of_text(text)).bins
    carried = {
        one.start + offset: state for one in observations(bins) for offset, state in enumerate(one.states)
    }
    for index, state in carried.items():
        if bins[index].state is BinState.UNKNOWN:
            continue
        idle = history_of(of_text(text)[: index + 1]).idle_bins
        assert (state is IS_IDLE) == (idle > 0)
        assert all(carried.get(index - back) is IS_IDLE for back in range(idle))


class Watcher:
    """Remembers what it was shown at each moment, and answers like another detector."""

    name = "watcher"

    def __init__(self, detector: Detector) -> None:
        self.detector = detector
        self.seen: list[tuple[Bin, ...]] = []

    def judge(self, history: History) -> Answer:
        """Takes a copy, so that nothing can be slipped in afterwards."""
        self.seen.append(tuple(history.bins))
        return self.detector.judge(history)


@pytest.mark.parametrize("detector", [PLAIN, SurvivalDetector()], ids=lambda one: one.name)
@given(text=texts, cut=st.integers(0, 400))
def test_a_replay_never_shows_the_future(detector: Detector, text: str, cut: int) -> None:
    """Each question comes with a beginning of the trace, and another ending changes none before it."""
    trace = trace_of(of_text(text))
    whole, other = Watcher(detector), Watcher(detector)
    replay(trace, whole)
    turned = [one if index < cut else Bin(BUSY) for index, one in enumerate(trace.bins)]
    replay(replace(trace, bins=tuple(turned)), other)

    assert all(seen == trace.bins[: len(seen)] for seen in whole.seen)
    before = [seen for seen in whole.seen if len(seen) <= cut]
    assert before == other.seen[: len(before)]


def test_scores_add_up_and_come_apart() -> None:
    """A total less a part is the rest, in every figure."""
    one = score_of((BUSY, 1), (IDLE, 6), (BUSY, 1))
    two = score_of((BUSY, 1), (IDLE, 1.5), (BUSY, 1))

    assert one == total([one, two]) - two
    assert Score() == total([])
    assert (1, 1) == (total([one, two]).right, total([one, two]).wrong)
