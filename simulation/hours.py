"""Which hours could hold idleness, told from their highest and lowest readings alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from math import isnan

_EDGE_MINUTES = 55
"""The most of an hour that can be idle when one of its 5-minute periods is not."""


def hours_that_matter(
    high: Sequence[float], low: Sequence[float], busy_from: float, shortest: timedelta
) -> set[int]:
    """Hours that an idle stretch of at least `shortest` could touch, and the hours beside them.

    In an hour all of whose readings show work, what was not measured counts as work, too.

    Args:
        high: the hour's highest utilization of the busiest GPU, in percent; NaN where nothing was published.
        low: the highest of the GPUs' lowest; at or above `busy_from`, one GPU worked all the time.
        busy_from: utilization in percent from which on a GPU works.
        shortest: of the stretches looked for.
    """
    minutes = shortest / timedelta(minutes=1)
    count = len(high)
    whole = [isnan(value) or value < busy_from for value in high]
    edge = [not whole[hour] and not low[hour] >= busy_from for hour in range(count)]
    before = _reach(whole, edge)
    after = _reach(whole[::-1], edge[::-1])[::-1]
    found: set[int] = set()
    for hour in range(count):
        left = before[hour - 1] if hour else 0
        right = after[hour + 1] if hour + 1 < count else 0
        if whole[hour]:
            longest = left + 60 + right
        elif edge[hour]:
            longest = _EDGE_MINUTES + max(left, right)
        else:
            continue
        # An hour without readings holds none at 5 minutes, either.
        if longest >= minutes and not isnan(high[hour]):
            found.add(hour)
    return {beside for hour in found for beside in (hour - 1, hour, hour + 1) if 0 <= beside < count}


def _reach(whole: Sequence[bool], edge: Sequence[bool]) -> list[int]:
    """By hour: how many minutes that end with it could be idle."""
    reach: list[int] = []
    for is_whole, is_edge in zip(whole, edge, strict=True):
        if is_whole:
            reach.append((reach[-1] if reach else 0) + 60)
        else:
            reach.append(_EDGE_MINUTES if is_edge else 0)
    return reach
