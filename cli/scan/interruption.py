"""Ends a scan at Ctrl-C within about a second, with what was read, though calls still wait for AWS.

The scan runs in threads of its own, which a call may hold for many seconds: nothing waits for them.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Generic, TypeVar

THREADS = "governor-scan"
"""The beginning of the names of a scan's threads."""
_A_MOMENT_SECONDS = 0.2
_LAST_SECONDS = 1.0
"""How long an interrupted scan may take to put its report together."""
_TO_END_SECONDS = 0.2

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Result]):
    """The result of work that may have been interrupted."""

    result: Result | None
    """`None` if the work was interrupted before it had any."""
    is_interrupted: bool = False


def until_interrupted(work: Callable[[], Result], interrupt: Callable[[], None]) -> Outcome[Result]:
    """Do the work, and return its result. At Ctrl-C call `interrupt`, and return what the work has
    within a second. Raises: what the work raises, unless it was interrupted."""
    future: Future[Result] = Future()

    def run() -> None:
        """Do the work in a thread."""
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is raised again where it is waited for
            future.set_exception(error)

    threading.Thread(target=run, name=THREADS, daemon=True).start()
    try:
        while not future.done():
            # A wait without an end does not notice Ctrl-C on every system.
            wait([future], timeout=_A_MOMENT_SECONDS)
        return Outcome(future.result())
    except KeyboardInterrupt:
        interrupt()
    return Outcome(_last_result(future), is_interrupted=True)


def _last_result(future: Future[Result]) -> Result | None:
    """Return what interrupted work has; `None` if it fails, takes too long, or is interrupted once
    more."""
    try:
        return future.result(timeout=_LAST_SECONDS)
    except (Exception, KeyboardInterrupt):  # noqa: BLE001 - there is no report then, whatever it is
        return None


def leave_if_stuck(status: int) -> None:
    """End the process with this status if a thread of the scan still waits for AWS: Python would
    wait for it, too. Do nothing otherwise."""
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(THREADS)]
    for thread in threads:
        thread.join(_TO_END_SECONDS / len(threads))
    if any(thread.is_alive() for thread in threads):
        leave(status)


def leave(status: int) -> None:
    """End the process at once. What was printed is kept."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
