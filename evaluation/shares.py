"""Bounds of a share that was counted: exact binomial bounds (Clopper-Pearson)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
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
    """Return the chance of `count` or fewer out of `of`, by logarithms: the numbers are large."""
    log_share = log(share)
    log_rest = log1p(-share)
    return sum(
        exp(ways + number * log_share + (of - number) * log_rest)
        for number, ways in enumerate(_log_ways(count, of))
    )


@lru_cache(maxsize=16)
def _log_ways(count: int, of: int) -> tuple[float, ...]:
    """Return the logarithm of the number of ways to choose each number up to `count` out of `of`.
    Kept, because each step of a search for a bound needs it."""
    return tuple(
        lgamma(of + 1) - lgamma(number + 1) - lgamma(of - number + 1) for number in range(count + 1)
    )


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
