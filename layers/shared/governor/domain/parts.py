"""Cuts what is too long for one call or one message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def in_parts(items: Sequence[Item], most: int) -> Iterator[Sequence[Item]]:
    """All items in their order, in parts of `most` and a last one of what is left; none of no items."""
    for start in range(0, len(items), most):
        yield items[start : start + most]
