"""What a history remembers: states of bins, stretches of idleness, holes and coverage."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.domain.detection.history import Bin, BinState, Gap
from tests.unit.domain.detection.builders import BUSY, HOLE, IDLE, Row, history_of

STATES = {"i": IDLE, "b": BUSY, "-": HOLE}


def rows(text: str) -> list[Row]:
    """`i` idle, `b` busy, `-` not measured: one letter a bin."""
    return [STATES[letter] for letter in text]


@pytest.mark.parametrize(
    ("readings", "state"),
    [
        ((4.999,), BinState.IDLE),
        ((5.0,), BinState.BUSY),
        ((0.0, 0.0, 90.0), BinState.BUSY),
        ((90.0, None), BinState.BUSY),
        ((0.0, None), BinState.UNKNOWN),
        ((None, None), BinState.UNKNOWN),
        ((), BinState.UNKNOWN),
        ((-1.0,), BinState.UNKNOWN),
        ((0.0, math.nan), BinState.UNKNOWN),
        ((90.0, math.nan), BinState.BUSY),
    ],
)
def test_one_gpu_at_work_makes_a_bin_busy_and_all_must_be_seen_idle(readings: Row, state: BinState) -> None:
    """What measures nothing, as -1 and NaN, is a hole, though it lies under every limit."""
    assert state is Bin(readings).state


@pytest.mark.parametrize(
    ("bins", "idle", "gaps"),
    [
        ("", 0, []),
        ("iii", 3, []),
        ("iib", 0, [Gap(100, 2, True)]),
        ("biibi", 1, [Gap(101, 2, True)]),
        # A short hole carries what was before it, and is no beginning.
        ("ii--i", 5, []),
        ("b--i", 1, []),
        ("ii--b", 0, [Gap(100, 4, True)]),
        # A longer one ends the stretch where it was seen last.
        ("ii---", 0, [Gap(100, 2, False)]),
        ("ii---i", 1, [Gap(100, 2, False)]),
        ("ii----b", 0, [Gap(100, 2, False)]),
        ("bb---ii", 2, []),
    ],
)
def test_stretches_of_idleness(bins: str, idle: int, gaps: list[Gap]) -> None:
    """How long it has been idle now, and what ended earlier stretches."""
    history = history_of(rows(bins), first_bin=100)

    assert (idle, gaps) == (history.idle_bins, history.gaps)
    assert 100 + len(bins) == history.now_bin


@pytest.mark.parametrize(
    ("bins", "window", "covered"),
    [
        ("iiiii", 5, True),
        ("iiiii", 6, False),
        ("i-iii", 5, True),
        ("i--ii", 5, False),
        ("i--iiiiiii", 10, True),
        # A window never reaches over a long hole, nor counts one that has not ended.
        ("iiiiiiiiiii---ii", 5, False),
        ("iiiiiiiiiii---iiiii", 5, True),
        ("iiiiiiiiiiiiiiiiii---", 15, False),
        ("---iiiii", 6, False),
    ],
)
def test_a_window_is_covered_when_enough_of_one_observation_was_measured(
    bins: str, window: int, covered: bool
) -> None:
    """Four of five are 80 %, and the window lies behind the last long hole."""
    assert covered is history_of(rows(bins)).is_covered(window, 0.8)


def test_forty_eight_of_sixty_are_eighty_percent() -> None:
    """No rounding error asks for a bin more."""
    assert history_of(rows("iiii-" * 12)).is_covered(60, 0.8)


def test_windows_refill_after_a_stop() -> None:
    """The bin in which work resumed is the first of the new window; the stretches before are remembered."""
    history = history_of(rows("iiiiib"))
    history.restart_windows()
    assert not history.is_covered(2, 0.8)

    history.append(Bin(IDLE))
    assert history.is_covered(2, 0.8)
    assert not history.is_covered(3, 0.8)
    assert [Gap(0, 5, True)] == history.gaps


@given(st.lists(st.tuples(st.sampled_from("ib-"), st.integers(1, 9)), max_size=12))
def test_a_run_is_as_many_bins_alike(runs: list[tuple[str, int]]) -> None:
    """Whatever was before it: a long hole ends the observation where its third bin lies."""
    by_run = history_of(())
    for letter, times in runs:
        by_run.append(Bin(STATES[letter]), times)
    by_bin = history_of(rows("".join(letter * times for letter, times in runs)))

    assert vars(by_bin) == vars(by_run)


@given(st.text("ib-", max_size=80))
def test_stretches_lie_apart_and_hold_no_work(text: str) -> None:
    """In order, each begun by idleness; and the newest bin's own state."""
    history = history_of(rows(text))

    assert (bool(text) and text[-1] != "-") or not history.is_measured_now
    ends = [(gap.start, gap.start + gap.bins) for gap in history.gaps]
    assert all(end <= start for (_, end), (start, _) in pairwise(ends))
    assert all("b" not in text[start:end] and text[start] == "i" for start, end in ends)
    assert "b" not in text[len(text) - history.idle_bins :]
