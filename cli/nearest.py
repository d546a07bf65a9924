"""Suggests the nearest known word for a misspelled one."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

_MOST_NAMED = 2
"""The most words that one question names."""


def nearest(word: str, known: Sequence[str]) -> str:
    """Return the question after an unknown word; an empty text if no known word is near it.

    The most frequent slips go before all others, because they fit two words at times: swapped
    letters (`us-esat-1` has as much in common with `us-west-1` as with `us-east-1`), then one
    letter too few or too many. `us-est-1` may be `us-east-1` or `us-west-1`, so both are named.
    """
    letters = sorted(word)
    matches = [name for name in known if sorted(name) == letters][:1]
    if not matches:
        matches = [name for name in known if _differs_by_a_letter(word, name)]
    if not 0 < len(matches) <= _MOST_NAMED:
        matches = get_close_matches(word, matches or known, n=1)
    return f"; did you mean {' or '.join(matches)}?" if matches else ""


def _differs_by_a_letter(word: str, name: str) -> bool:
    """Return whether one of the two is the other without one of its letters."""
    shorter, longer = sorted((word, name), key=len)
    if len(longer) != len(shorter) + 1:
        return False
    return any(longer[:at] + longer[at + 1 :] == shorter for at in range(len(longer)))
