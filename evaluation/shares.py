"""Bounds of a share that was counted: exact binomial bounds (Clopper-Pearson)."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, lgamma, log, log1p

_STEPS = 50
"""How often [0, 1] is halved: to more digits than a float has."""


def upper_bound(count: int, of: int, confidence: float) -> float:
    """Return the one-sided upper bound of a share, 0 to 1; 1 if nothing was counted.

    Args:
        count: how many were counted, out of `of`.
        confidence: 0.9 for a bound that the true share exceeds one time in ten.
    """
    if count >= of:
        return 1.0
    return _falling_below(lambda share: _at_most(count, of, share), 1 - confidence)


def interval(count: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the two-sided interval of a share, 0 to 1. What is counted must be independent."""
    one_sided = (1 + confidence) / 2
    low = 1 - upper_bound(of - count, of, one_sided)
    high = upper_bound(count, of, one_sided)
    return low, high


def _at_most(count: int, of: int, share: float) -> float:
    """Return the chance of `count` or fewer out of `of`."""
    return sum(_chance(number, of, share) for number in range(count + 1))


def _chance(count: int, of: int, share: float) -> float:
    """Return the chance of exactly `count` out of `of`, by logarithms: the numbers are large."""
    ways = lgamma(of + 1) - lgamma(count + 1) - lgamma(of - count + 1)
    return exp(ways + count * log(share) + (of - count) * log1p(-share))


def _falling_below(figure: Callable[[float], float], limit: float) -> float:
    """Return the share from which on a falling figure is below a limit."""
    low = 0.0
    high = 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if figure(middle) > limit:
            low = middle
        else:
            high = middle
    return high
