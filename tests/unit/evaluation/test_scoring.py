"""Scores by the rules of the data's README: what a question was worth, caught hours, stops and
holes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import bins
from evaluation.rule import Rule
from evaluation.scoring import Observation, Score, observations, replay, total
from tests.unit.evaluation.builders import BUSY, HOLE, HOUR, IDLE, bins_of, of_text, trace_of

PLAIN = Rule(60)
IS_IDLE, IS_BUSY = bins.IDLE, bins.BUSY
texts = st.text("iiib-", max_size=120).map(lambda text: text.replace("i", "iiii"))


def score_of(*parts: tuple[float, float], rule: Rule = PLAIN) -> Score:
    """Replays parts of so many hours."""
    return replay(trace_of(bins_of(*parts)), rule)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("--", []),
        ("-ib-", [Observation(1, bytes((IS_IDLE, IS_BUSY)))]),
        ("i-b", [Observation(0, bytes((IS_IDLE, IS_IDLE, IS_BUSY)))]),
        ("b--i", [Observation(0, bytes((IS_BUSY, IS_BUSY, IS_BUSY, IS_IDLE)))]),
        ("ib---i", [Observation(0, bytes((IS_IDLE, IS_BUSY))), Observation(5, bytes((IS_IDLE,)))]),
        ("i--", [Observation(0, bytes((IS_IDLE,)))]),
    ],
)
def test_observations_carry_short_holes_and_end_at_long_ones(
    text: str, found: list[Observation]
) -> None:
    """Ten minutes carry the state before; fifteen end it. Holes at either end belong to none."""
    assert found == observations(trace_of(of_text(text)).states())


@pytest.mark.parametrize(
    ("hours_idle", "outcome"),
    [
        (1 + 11 / 12, "wrong"),
        (2, "between"),
        (4 + 11 / 12, "between"),
        (5, "right"),
    ],
)
def test_a_question_is_worth_what_came_after_it(hours_idle: float, outcome: str) -> None:
    """Asked after an hour; work resumes after under 1 h, 1 to 4 h, or from 4 h on."""
    score = score_of((BUSY, 1), (IDLE, hours_idle), (BUSY, 1))
    counts = {name: getattr(score, name) for name in ("right", "between", "wrong", "censored")}

    assert {**dict.fromkeys(counts, 0), outcome: 1} == counts
    assert 1 == score.questions
    assert round((hours_idle - 1) * HOUR) == score.caught_bins


@pytest.mark.parametrize(("left", "right", "censored"), [(4, 1, 0), (4 - 1 / 12, 0, 1), (0, 0, 1)])
@pytest.mark.parametrize(
    "ending", [(), ((HOLE, 1), (BUSY, 1))], ids=["end of the trace", "a long hole"]
)
def test_what_is_cut_off_within_four_hours_is_not_counted(
    left: float, right: int, censored: int, ending: tuple[tuple[float, float], ...]
) -> None:
    """By the end of the trace, or of the observation; its hours are caught all the same."""
    score = score_of((BUSY, 1), (IDLE, 1 + left), *ending)

    assert (right, censored, 0) == (score.right, score.censored, score.between + score.wrong)
    assert right == score.questions
    assert round(left * HOUR) == score.caught_bins


def test_precision_wrong_rate_and_recall_are_shares() -> None:
    """Shares of the questions that count, and of all idle hours; without any, they are 0."""
    score = Score(right=6, between=1, wrong=3, censored=90, caught_bins=30, idle_bins=120)

    assert (0.6, 0.3, 0.25) == (score.precision, score.wrong_rate, score.recall)
    assert (0, 0, 0) == (Score().precision, Score().wrong_rate, Score().recall)


def test_the_interval_of_the_recall_is_wide_for_few_stretches_and_holds_it() -> None:
    """Nothing caught, or all of it, in every stretch says nothing of chance; no idleness says
    nothing."""
    mixed = score_of((IDLE, 6), (BUSY, 1), (IDLE, 0.5), (BUSY, 1), (IDLE, 3), (BUSY, 1))
    low, high = mixed.recall_interval
    many_low, many_high = total([mixed] * 50).recall_interval

    assert low < many_low < mixed.recall < many_high < high
    assert (high - low) / (many_high - many_low) == pytest.approx(50**0.5, rel=0.25)
    assert (0.0, 1.0) == Score().recall_interval


def test_one_question_a_stretch_and_a_full_window_after_it() -> None:
    """Stopped until work resumes; a short burst later, an hour is proved anew."""
    score = score_of(
        (BUSY, 1), (IDLE, 6), (BUSY, 1 / 12), (IDLE, 11 / 12), (BUSY, 1 / 12), (IDLE, 7)
    )

    assert (2, 5 * HOUR + 6 * HOUR) == (score.questions, score.caught_bins)


def test_a_stop_that_the_end_of_an_observation_cuts_off_leaves_a_hole() -> None:
    """Seen again after a long hole, it is asked about when an hour of readings came after it."""
    score = score_of((BUSY, 1), (IDLE, 2), (HOLE, 0.25), (IDLE, 3))

    # The hour that was cut off, and all but the first hour after the hole, a fifth of which may be
    # missing.
    assert 1 * HOUR + 2 * HOUR + 2 == score.caught_bins


def test_windows_refill_after_a_long_hole() -> None:
    """Three quarters of an hour on either side of it are not an hour; a short hole interrupts
    none."""
    long = score_of((BUSY, 1), (IDLE, 0.75), (HOLE, 0.5), (IDLE, 0.75), (BUSY, 1))
    short = score_of((BUSY, 1), (IDLE, 5 / 6), (HOLE, 1 / 6), (IDLE, 5), (BUSY, 1))

    assert (0, 1) == (long.questions + long.censored, short.questions)
    assert 18 == long.idle_bins
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
    """Caught hours are idle ones, and every question comes after an idle hour."""
    score = replay(trace_of(of_text(text)), PLAIN)
    states = [
        state for one in observations(trace_of(of_text(text)).states()) for state in one.states
    ]

    assert states.count(IS_IDLE) == score.idle_bins
    asked = score.questions + score.censored
    # Of each question's hour, a fifth and the time before the trace may be missing.
    assert 0 <= score.caught_bins <= score.idle_bins - asked * (HOUR - 4)


def test_scores_add_up() -> None:
    """A total has every figure of its parts."""
    one = score_of((BUSY, 1), (IDLE, 6), (BUSY, 1))
    two = score_of((BUSY, 1), (IDLE, 1.5), (BUSY, 1))

    assert (one.caught_bins + two.caught_bins) == total([one, two]).caught_bins
    assert Score() == total([])
    assert (1, 1) == (total([one, two]).right, total([one, two]).wrong)
