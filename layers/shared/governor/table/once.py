"""Makes work idempotent: acts once for an event that may come twice, and runs several calls
although one may fail.

If a claim cannot be written, this module must act all the same: twice is better than never.
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
"""Threads for calls that are begun together."""

LEASE = timedelta(seconds=30)
"""How long a claim stands before its action is noted as done. Shorter than a queue (40 seconds) and
Lambda (a minute) wait before they repeat an event."""
_KEPT = timedelta(days=1)
"""How long a done action is remembered. EventBridge repeats an event for a day at most. Source:
EventBridge user guide, retry policy."""


@dataclass(frozen=True, slots=True)
class Once:
    """Claims a key, acts, and notes that the action is done. If the action fails, a repeated event
    tries it again once the claim has run out."""

    clock: Clock
    claim_store: Claims

    def __call__(self, key: str, act: Callable[[], None], *, keep: timedelta = _KEPT) -> bool:
        """Act unless another call did or does so under this key. Return whether this call acted. If
        the key could not be claimed, act all the same.

        The key stays taken for the time `keep` after the action. Raises: the errors of `act`;
        CloudError, after acting, if the key could not be claimed or noted as done.
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
        """Call `act` once with all keys for which no other call acted, and return the result of
        each of these keys; empty if there are none. A key given twice counts once.

        A result is the error, or `None` if the action was done. If the keys could not be claimed,
        `act` is called with all of them. If they could not be claimed or noted as done, the
        CloudError is the result of each key whose action was done: they count as failed.
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
        """Note that the actions of these keys are done; without keys nothing is written. Return the
        CloudError if that failed, else `None`."""
        if not keys:
            return None
        try:
            self.claim_store.done_all(keys, self.clock.now(), _KEPT)
        except CloudError as error:
            return error
        return None


def run_all(steps: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run every step, even if one before it fails, and return their results in order.

    Raises: the first error, with the others as its notes, if a step failed.
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
    """Return the first of the errors, with the texts of the others added to it as notes. `failed`
    must not be empty."""
    first, *later = failed
    for error in later:
        first.add_note(f"also: {error}")
    return first


def begin(
    calls: Mapping[Key, Callable[[], Result]], operation: str
) -> Callable[[float], dict[Key, Result | CloudError]]:
    """Begin calls that do not depend on each other, and return a function that waits for them.

    That function takes the most seconds to wait, and returns by key the result of each call, or its
    CloudError. A call that takes longer continues, but its result is lost: an `Unavailable` with
    the name of the `operation` stands for it. That function raises any other error of a call. Call
    it only once.
    """
    pool = ThreadPoolExecutor(_AT_ONCE)
    futures = {key: pool.submit(_result, call) for key, call in calls.items()}

    def results(seconds: float) -> dict[Key, Result | CloudError]:
        """Wait up to these seconds for the calls, and return by key the result of each, its
        CloudError, or an `Unavailable` if it is not done by then. Calls not begun are canceled."""
        wait(futures.values(), timeout=seconds)
        pool.shutdown(wait=False, cancel_futures=True)
        result_by_key: dict[Key, Result | CloudError] = {}
        for key, future in futures.items():
            if future.done() and not future.cancelled():
                result_by_key[key] = future.result()
            else:
                result_by_key[key] = timeout_error(operation, f"{seconds:.3g} s")
        return result_by_key

    return results


def timeout_error(operation: str, limit: str) -> Unavailable:
    """Return the error of an operation that took longer than `limit`, a text like `5 s`. The
    operation is named as in `ec2:DescribeInstances`."""
    return Unavailable(f"{operation} took more than {limit}", operation=operation)


def _result(call: Callable[[], Result]) -> Result | CloudError:
    """Return the call's result, or the CloudError that it raised. Any other error is raised."""
    try:
        return call()
    except CloudError as error:
        return error
