"""Acts once for an event that may come twice, and runs several calls although one may fail.

This module must not keep an act from happening because the log cannot be written: twice is better
than never.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from governor.core.errors import CloudError, Unavailable
from governor.core.ports import Clock
from governor.table.claims import Claims

Key = TypeVar("Key")
Result = TypeVar("Result")
_AT_ONCE = 16

LEASE = timedelta(seconds=30)
"""Shorter than the wait of a queue (40 seconds) and of Lambda (a minute) before they repeat an
event."""
_KEPT = timedelta(days=1)
"""EventBridge repeats an event for a day at most. Source: EventBridge user guide, retry policy."""


@dataclass(frozen=True, slots=True)
class Once:
    """Claims a key, acts, and notes that it is done. If it fails, a repeated event does it."""

    clock: Clock
    claim_store: Claims

    def __call__(self, key: str, act: Callable[[], None], *, keep: timedelta = _KEPT) -> bool:
        """Act unless it was done or is being done, and return whether this call did.

        Raises: as `act`; CloudError, after acting, if the key could not be claimed.
        """
        unclaimed: CloudError | None = None
        try:
            if not self.claim_store.claim(key, self.clock.now(), LEASE):
                return False
        except CloudError as error:
            unclaimed = error
        act()
        if unclaimed is not None:
            raise unclaimed
        self.claim_store.done(key, self.clock.now(), keep)
        return True

    def of_many(
        self, keys: Sequence[str], act: Callable[[Sequence[str]], Mapping[str, CloudError | None]]
    ) -> dict[str, CloudError | None]:
        """Act once for all keys that nobody has acted for, and return the result of each.

        The result is as `act` returns it: why it failed, or `None`. If a key could not be claimed
        or noted, it counts as failed, although it was done.
        """
        distinct_keys = tuple(dict.fromkeys(keys))
        free_keys: Sequence[str] = distinct_keys
        log_error: CloudError | None = None
        try:
            claimed = self.claim_store.claim_all(distinct_keys, self.clock.now(), LEASE)
            free_keys = [key for key in distinct_keys if key in claimed]
        except CloudError as error:
            log_error = error
        results = dict(act(free_keys)) if free_keys else {}
        done_keys = [key for key, failure in results.items() if failure is None]
        if log_error is None:
            log_error = self._note_done(done_keys)
        if log_error is not None:
            results |= dict.fromkeys(done_keys, log_error)
        return results

    def _note_done(self, keys: Sequence[str]) -> CloudError | None:
        """Note that these are done. Return why that failed, or `None`."""
        if not keys:
            return None
        try:
            self.claim_store.done_all(keys, self.clock.now(), _KEPT)
        except CloudError as error:
            return error
        return None


def run_all(steps: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run every step, even if one before it fails, and return their results.

    Raises: the first error, with the others as its notes.
    """
    results: list[Result] = []
    errors: list[Exception] = []
    for step in steps:
        try:
            results.append(step())
        except Exception as error:  # noqa: BLE001 - raised below, after the others had their turn
            errors.append(error)
    if errors:
        raise joined(errors)
    return results


def joined(failed: Sequence[Exception]) -> Exception:
    """Return the first error, with the others as its notes."""
    first, *later = failed
    for error in later:
        first.add_note(f"also: {error}")
    return first


def begin(
    calls: Mapping[Key, Callable[[], Result]], operation: str
) -> Callable[[float], dict[Key, Result | CloudError]]:
    """Begin calls that do not depend on each other, and return a function that waits for them.

    It waits at most as many seconds as it is given, and returns the result of each call, or its
    error. A call that takes longer continues unseen; its error names `operation`.
    """
    pool = ThreadPoolExecutor(_AT_ONCE)
    futures = {key: pool.submit(_result, call) for key, call in calls.items()}

    def results(seconds: float) -> dict[Key, Result | CloudError]:
        wait(futures.values(), timeout=seconds)
        pool.shutdown(wait=False, cancel_futures=True)
        result_by_key: dict[Key, Result | CloudError] = {}
        for key, future in futures.items():
            if future.done() and not future.cancelled():
                result_by_key[key] = future.result()
            else:
                result_by_key[key] = too_late(operation, f"{seconds:.3g} s")
        return result_by_key

    return results


def too_late(operation: str, limit: str) -> Unavailable:
    """Return the error of an operation that took longer than `limit`."""
    return Unavailable(f"{operation} took more than {limit}", operation=operation)


def _result(call: Callable[[], Result]) -> Result | CloudError:
    """Return the call's result, or the error that it raised."""
    try:
        return call()
    except CloudError as error:
        return error
