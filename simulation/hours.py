"""Finds the hours that may hold idleness, by their highest and lowest readings alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from math import isnan

_EDGE = timedelta(minutes=55)
"""The most of an hour that can be idle when one of its 5-minute periods is not."""


def hours_that_matter(
    high: Sequence[float], low: Sequence[float], busy_from: float, shortest: timedelta
) -> set[int]:
    """Return the hours with a reading that may belong to an idle stretch of at least `shortest`.

    An hour without any work is one. An hour with some can only be the beginning or the end of a
    stretch that goes on in the hour beside it, unless that much fits between two jobs. In an hour
    all of whose readings show work, what was not measured counts as work, too.

    Args:
        high: the hour's highest utilization of the busiest GPU, in percent; NaN where nothing was
            published.
        low: the highest of the GPUs' lowest; at or above `busy_from`, one GPU worked all the time.
        busy_from: utilization in percent from which on a GPU works.
        shortest: the shortest stretch that matters, an hour at most.
    """
    # A NaN is never at or above a limit, so that an hour without a reading can rest, too.
    can_rest = [not value >= busy_from for value in low]
    edge_is_enough = shortest <= _EDGE
    hours = set()
    for hour, peak in enumerate(high):
        if isnan(peak) or not can_rest[hour]:
            continue
        if peak < busy_from or edge_is_enough or _rests_beside(can_rest, hour):
            hours.add(hour)
    return hours


def _rests_beside(can_rest: Sequence[bool], hour: int) -> bool:
    """Return whether the hour before or the hour after can rest."""
    rests_before = hour > 0 and can_rest[hour - 1]
    rests_after = hour + 1 < len(can_rest) and can_rest[hour + 1]
    return rests_before or rests_after
