"""Ports of all rooms: the time, and calls at the same time.

A port is a Protocol that says what use cases need from outside. Adapters and in-memory twins fulfil
it; each room has its own beside the use cases that ask for them.
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

    def now(self) -> UtcDatetime: ...


class Spread(Protocol):
    """Calls a function with each item, several at a time. The answers are in the order of the
    items."""

    def __call__(
        self, function: Callable[[Item], Answer], items: Sequence[Item], /
    ) -> Iterable[Answer]: ...
