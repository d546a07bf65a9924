"""Guesses of what somebody meant."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


def nearest(word: str, known: Sequence[str]) -> str:
    """The question after a word that is not known; nothing where no known one is near it."""
    found = get_close_matches(word, known, n=1)
    return f"; did you mean {found[0]}?" if found else ""
