"""A history that forgets is the history that began later."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from governor.domain.detection.history import Bin, History

STATES = st.lists(st.sampled_from([None, 0.0, 90.0]), max_size=40)
HOLE = [None]


class Counting(list[Bin]):
    """Counts how often a bin is looked at."""

    looks = 0

    def __getitem__(self, index: Any) -> Any:
        self.looks += 1
        return super().__getitem__(index)


def history_of(values: list[float | None], first_bin: int) -> History:
    """One GPU's."""
    history = History(first_bin)
    for value in values:
        history.append(Bin((value,)))
    return history


def known(history: History) -> tuple[object, ...]:
    """All that a detector can ask it."""
    covered = [history.is_covered(bins, 0.5) for bins in range(1, 20)]
    return history.idle_bins, history.is_measured_now, history.now_bin, history.gaps, covered


@given(STATES, STATES, st.integers(0, 50), st.integers(0, 50))
@example([0.0, *HOLE, 0.0, 90.0], [], 1, 1)
@example([0.0, 0.0, *HOLE * 3, 0.0], [0.0], 3, 3)
def test_what_is_forgotten_is_as_if_it_had_never_been(
    before: list[float | None], after: list[float | None], first: int, second: int
) -> None:
    """Forgetting in steps while it grows, or all at once by beginning later."""
    history = history_of(before, 1000)
    first = min(first, len(before))
    history.forget_before(1000 + first)
    for value in after:
        history.append(Bin((value,)))
    last = max(first, min(second, len(before) + len(after)))
    history.forget_before(1000 + last)

    later = history_of([*before, *after][last:], 1000 + last)
    # A window of which nothing was seen yet says the same whether or not it is empty.
    if later.bins:
        assert known(later) == known(history)


def test_a_long_hole_is_passed_over_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with every step that forgets into it: years of bins would be looked at thousands of times."""
    steps = 1_000
    history = History(0)
    history.append(Bin((0.0,)))
    history.append(Bin((None,)), times=5 * steps)
    history.append(Bin((0.0,)), times=2 * steps)
    bins = Counting(history.bins)
    monkeypatch.setattr(history, "bins", bins)
    for first in range(1, steps):
        history.forget_before(first)

    assert (2 * steps, 5 * steps + 1) == (history.idle_bins, history.observation_start)
    assert bins.looks < 7 * steps
