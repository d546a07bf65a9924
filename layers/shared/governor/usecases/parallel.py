"""Does independent things at the same time, and waits for none of them longer than it can."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from governor.errors import CloudError, Unavailable

Key = TypeVar("Key")
Result = TypeVar("Result")
_AT_ONCE = 16


def begin(
    calls: Mapping[Key, Callable[[], Result]], operation: str
) -> Callable[[float], dict[Key, Result | CloudError]]:
    """Begin calls of which none depends on another; what is returned waits for them, so many seconds at most.

    It gives the result of each call by its key, or the error why there is none. A call that takes longer,
    though it be the only one, counts as failed and goes on where nobody looks: the caller has other things to
    save. `operation` is for the error of such a call.
    """
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
    """What counts as failed because it took longer than `limit`."""
    return Unavailable(f"{operation} took more than {limit}", operation=operation)


def _result(call: Callable[[], Result]) -> Result | CloudError:
    try:
        return call()
    except CloudError as error:
        return error
