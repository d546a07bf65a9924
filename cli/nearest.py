"""Guess which word somebody meant."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


def nearest(word: str, known: Sequence[str]) -> str:
    """Return the question after an unknown word; an empty text if no known word is near it.

    A known word of the same letters goes before all others: swapped letters are the most frequent
    slip, and `us-esat-1` has as much in common with `us-west-1` as with `us-east-1`.
    """
    letters = sorted(word)
    matches = [name for name in known if sorted(name) == letters]
    matches += get_close_matches(word, known, n=1)
    return f"; did you mean {matches[0]}?" if matches else ""
