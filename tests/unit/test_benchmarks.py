"""What the benchmarks time is what they say: each small one runs once, so that a new rule cannot empty it."""

from __future__ import annotations

import pytest

from benchmarks import judge


@pytest.mark.parametrize("idle_share", [0.0, 0.5, 1.0])
def test_as_many_are_judged_idle_as_are_timed(idle_share: float) -> None:
    """It raises where others are; what is timed is then another rule's work."""
    assert judge.measure(idle_share, instances=20) > 0
