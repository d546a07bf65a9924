"""Does something once for an event that may come twice, and does it all the same when the log is away."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from governor.errors import CloudError
from governor.ports import Clock
from governor.stores import EventLog

Result = TypeVar("Result")

LEASE = timedelta(seconds=30)
"""Shorter than the 40 seconds after which a queue, and the minute after which Lambda, repeats an event that
failed: the repetition finds it free."""
_KEPT = timedelta(days=1)
"""EventBridge repeats an event for a day at most. Source: EventBridge user guide, retry policy."""


@dataclass(frozen=True, slots=True)
class Once:
    """Claims, acts, notes. What fails stays undone, and a repeated event does it."""

    clock: Clock
    log: EventLog

    def __call__(self, key: str, act: Callable[[], None], *, keep: timedelta = _KEPT) -> bool:
        """Acts unless it was done or is being done; true when this call did.

        Raises: CloudError where the log is away (after acting: twice is better than never), or as `act`.
        """
        unclaimed: CloudError | None = None
        try:
            if not self.log.claim(key, self.clock.now(), LEASE):
                return False
        except CloudError as error:
            unclaimed = error
        act()
        if unclaimed is not None:
            raise unclaimed
        self.log.done(key, self.clock.now(), keep)
        return True

    def of_many(
        self, keys: Sequence[str], act: Callable[[Sequence[str]], Mapping[str, CloudError | None]]
    ) -> dict[str, CloudError | None]:
        """Acts for all keys at once that nobody has acted for, and says what became of each of them.

        `act` gets these keys and says for each why it failed, or `None`. What is returned is the same, but
        for what could not be claimed or noted: that failed too, although it was done.
        """
        distinct, unclaimed = tuple(dict.fromkeys(keys)), None
        free: Sequence[str] = distinct
        try:
            claimed = self.log.claim_all(distinct, self.clock.now(), LEASE)
            free = [key for key in distinct if key in claimed]
        except CloudError as error:
            unclaimed = error
        results = dict(act(free)) if free else {}
        done = [key for key, failed in results.items() if failed is None]
        if unclaimed is None and done:
            try:
                self.log.done_all(done, self.clock.now(), _KEPT)
            except CloudError as error:
                unclaimed = error
        if unclaimed is not None:
            results |= dict.fromkeys(done, unclaimed)
        return results


def run_all(steps: Sequence[Callable[[], Result]]) -> list[Result]:
    """Runs every step, whatever becomes of those before it. Raises: as `joined` returns."""
    results: list[Result] = []
    failed: list[Exception] = []
    for step in steps:
        try:
            results.append(step())
        except Exception as error:  # noqa: BLE001 - raised below, after the others had their turn
            failed.append(error)
    if failed:
        raise joined(failed)
    return results


def joined(failed: Sequence[Exception]) -> Exception:
    """The first failure, with the others as its notes."""
    for other in failed[1:]:
        failed[0].add_note(f"also: {other}")
    return failed[0]
