"""How sure a share is that was counted: exact binomial bounds (Clopper-Pearson)."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, lgamma, log, log1p

_STEPS = 50
"""Halvings of [0, 1]: more digits than a float has."""


def upper_bound(count: int, of: int, confidence: float) -> float:
    """Return the one-sided upper bound of a share, 0 to 1: with nothing counted, 1.

    Args:
        count: how many were counted, out of `of`.
        confidence: 0.9 for a bound that the true share exceeds one time in ten.
    """
    if count >= of:
        return 1.0
    return _falling_below(lambda share: _at_most(count, of, share), 1 - confidence)


def interval(count: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the two-sided interval of a share, 0 to 1. The counted are taken as independent."""
    each = (1 + confidence) / 2
    return 1 - upper_bound(of - count, of, each), upper_bound(count, of, each)


def _at_most(count: int, of: int, share: float) -> float:
    """Return the chance of `count` or fewer out of `of`."""
    ways = lgamma(of + 1)
    return sum(
        exp(ways - lgamma(k + 1) - lgamma(of - k + 1) + k * log(share) + (of - k) * log1p(-share))
        for k in range(count + 1)
    )


def _falling_below(figure: Callable[[float], float], limit: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if figure(middle) > limit:
            low = middle
        else:
            high = middle
    return high
