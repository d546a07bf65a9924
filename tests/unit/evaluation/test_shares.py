"""Exact bounds of a share, against figures from textbooks and from their own definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.shares import _at_most, interval, upper_bound


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [
        (0, 10, 0.0, 0.3085),
        (10, 10, 0.6915, 1.0),
        (2, 20, 0.0123, 0.3170),
        (81, 263, 0.2528, 0.3676),
    ],
)
def test_the_interval_is_that_of_clopper_and_pearson(
    count: int, of: int, low: float, high: float
) -> None:
    """Known figures at 95%."""
    assert (low, high) == pytest.approx(interval(count, of), abs=1e-4)


def test_forty_five_questions_are_the_fewest_that_can_bound_a_share_by_five_percent() -> None:
    """Without a wrong one, at 90% confidence."""
    assert upper_bound(0, 44, 0.9) > 0.05 > upper_bound(0, 45, 0.9)
    assert upper_bound(0, 45, 0.9) == pytest.approx(1 - 0.1 ** (1 / 45))


def test_nothing_counted_says_nothing() -> None:
    """The share may be anything."""
    assert (0.0, 1.0) == pytest.approx(interval(0, 0))


@given(of=st.integers(1, 400), data=st.data(), confidence=st.sampled_from([0.8, 0.9, 0.95, 0.975]))
def test_a_bound_is_where_so_few_become_unlikely(
    of: int, data: st.DataObject, confidence: float
) -> None:
    """The definition itself, and the bound lies above what was counted."""
    count = data.draw(st.integers(0, of - 1))
    bound = upper_bound(count, of, confidence)

    assert count / of < bound < 1
    assert 1 - confidence == pytest.approx(_at_most(count, of, bound), abs=1e-6)
