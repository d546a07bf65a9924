"""Guess which word somebody meant."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


def nearest(word: str, known: Sequence[str]) -> str:
    """Return the question after an unknown word; an empty text if no known word is near it."""
    matches = get_close_matches(word, known, n=1)
    return f"; did you mean {matches[0]}?" if matches else ""
