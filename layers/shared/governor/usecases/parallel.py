"""Does independent things at the same time, and waits for none of them longer than it can.

This module must not know what is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from governor.errors import CloudError, Unavailable

Key = TypeVar("Key")
Result = TypeVar("Result")
_AT_ONCE = 16


def at_once(
    calls: Mapping[Key, Callable[[], Result]], seconds: float, operation: str
) -> dict[Key, Result | CloudError]:
    """The result of each call by its key, or the error why there is none.

    A call that takes longer than `seconds` counts as failed, and goes on where nobody looks: the caller has
    other things to save. One call alone is made here and may take its time: it holds up no other.

    Args:
        calls: none of them may depend on another.
        seconds: for all of them together.
        operation: `service:Operation`, for the error of a call that took too long.
    """
    if len(calls) == 1:
        return {key: _result(call) for key, call in calls.items()}
    pool = ThreadPoolExecutor(_AT_ONCE)
    futures = {key: pool.submit(_result, call) for key, call in calls.items()}
    wait(futures.values(), timeout=seconds)
    pool.shutdown(wait=False, cancel_futures=True)
    late = Unavailable(f"{operation} took more than {seconds:g} s", operation=operation)
    return {
        key: future.result() if future.done() and not future.cancelled() else late
        for key, future in futures.items()
    }


def _result(call: Callable[[], Result]) -> Result | CloudError:
    try:
        return call()
    except CloudError as error:
        return error
