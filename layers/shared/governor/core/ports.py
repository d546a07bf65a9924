"""Ports that every room uses: the clock, and parallel calls.

A port is a Protocol that says what use cases need from outside. Adapters, and doubles in tests,
fulfill it. A room's other ports are in its own `ports.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    # For types alone: a function loads only the modules that it uses.
    from governor.core.units import UtcDatetime


Item = TypeVar("Item")


Answer = TypeVar("Answer")


class Clock(Protocol):
    """The time in UTC, with its time zone."""

    def now(self) -> UtcDatetime:
        """Return the current time."""


class Spread(Protocol):
    """Calls a function with each item, several at a time. The answers are in the order of the
    items."""

    def __call__(
        self, function: Callable[[Item], Answer], items: Sequence[Item], /
    ) -> Iterable[Answer]:
        """Return the function's answer to each item, in the order of the items; empty without
        items. Raises: an error of the function."""
        ...
