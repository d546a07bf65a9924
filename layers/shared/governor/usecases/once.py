"""Does something once for an event that may come twice, and does it all the same when the log is away.

This module must not know what is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from governor.errors import CloudError
from governor.ports import Clock, EventLog

_LEASE = timedelta(seconds=30)
"""Shorter than the minute after which Lambda repeats an event that failed: the repetition finds it free."""
_KEPT = timedelta(days=1)
"""EventBridge repeats an event for a day at most. Source: EventBridge user guide, retry policy."""


@dataclass(frozen=True, slots=True)
class Once:
    """Claims, acts, notes. What fails stays undone, and a repeated event does it."""

    clock: Clock
    log: EventLog

    def __call__(self, key: str, act: Callable[[], None], *, keep: timedelta = _KEPT) -> bool:
        """Acts unless it was done or is being done; true when this call did.

        Raises:
            CloudError: the log could not be reached (after acting: twice is better than never), or as `act`.
        """
        unclaimed: CloudError | None = None
        try:
            if not self.log.claim(key, self.clock.now(), _LEASE):
                return False
        except CloudError as error:
            unclaimed = error
        act()
        if unclaimed is not None:
            raise unclaimed
        self.log.done(key, self.clock.now(), keep)
        return True


def run_all(steps: Sequence[Callable[[], object]]) -> None:
    """Runs every step, whatever becomes of those before it.

    Raises:
        Exception: the first failure, with the others as its notes.
    """
    failed: list[Exception] = []
    for step in steps:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - raised below, after the others had their turn
            failed.append(error)
    if failed:
        for other in failed[1:]:
            failed[0].add_note(f"also: {other}")
        raise failed[0]
