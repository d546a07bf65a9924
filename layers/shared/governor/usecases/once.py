"""Does something once for an event that may come twice, and does it all the same when the log is
away; does several things whatever becomes of each, and at the same time without waiting longer than
it can."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from governor.errors import CloudError, Unavailable
from governor.ports import Clock
from governor.stores import EventLog

Key = TypeVar("Key")
Result = TypeVar("Result")
_AT_ONCE = 16

LEASE = timedelta(seconds=30)
"""Shorter than what a queue (40 seconds) and Lambda (a minute) wait before they repeat an event."""
_KEPT = timedelta(days=1)
"""EventBridge repeats an event for a day at most. Source: EventBridge user guide, retry policy."""


@dataclass(frozen=True, slots=True)
class Once:
    """Claims, acts, notes. What fails stays undone, and a repeated event does it."""

    clock: Clock
    log: EventLog

    def __call__(self, key: str, act: Callable[[], None], *, keep: timedelta = _KEPT) -> bool:
        """Act unless it was done or is being done; true when this call did. Raises: CloudError
        where the log is away (after acting: twice is better than never), or as `act`."""
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
        """Act once for all keys that nobody has acted for; return what became of each, as `act`
        does: why it failed, or `None`. What could not be claimed or noted failed too, although it
        was done."""
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
    for other in failed[1:]:
        failed[0].add_note(f"also: {other}")
    return failed[0]


def begin(
    calls: Mapping[Key, Callable[[], Result]], operation: str
) -> Callable[[float], dict[Key, Result | CloudError]]:
    """Begin calls of which none depends on another. What is returned waits so many seconds at most,
    and gives each one's result, or the error, which names `operation`. One that takes longer goes
    on unseen."""
    pool = ThreadPoolExecutor(_AT_ONCE)
    futures = {key: pool.submit(_result, call) for key, call in calls.items()}

    def results(seconds: float) -> dict[Key, Result | CloudError]:
        wait(futures.values(), timeout=seconds)
        pool.shutdown(wait=False, cancel_futures=True)
        return {
            key: future.result()
            if future.done() and not future.cancelled()
            else too_late(operation, f"{seconds:.3g} s")
            for key, future in futures.items()
        }

    return results


def too_late(operation: str, limit: str) -> Unavailable:
    """Return what counts as failed because it took longer than `limit`."""
    return Unavailable(f"{operation} took more than {limit}", operation=operation)


def _result(call: Callable[[], Result]) -> Result | CloudError:
    try:
        return call()
    except CloudError as error:
        return error
