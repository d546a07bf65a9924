"""Works through a batch of queued alerts: one that fails or is left never holds up the others.

This module must not know SQS.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from governor.channels.dispatch import Dispatch, Dispatched
from governor.channels.transport import LONGEST_WAIT_SECONDS
from governor.domain.alert import Alert
from governor.domain.delivery import Queued

_log = logging.getLogger(__name__)
_FIRST_WAIT_SECONDS, _LONGEST_BACKOFF_SECONDS = 15, 900


class Queue(Protocol):
    """The queue that the messages came from."""

    def hide(self, receipt: str, seconds: int) -> None:
        """Hands the message out again after so many seconds. Raises: CloudError."""
        ...


@dataclass(frozen=True, slots=True)
class Worker:
    """`parse` reads a body and raises InputError; `seen` counts what was done, for metrics."""

    dispatch: Dispatch
    queue: Queue
    parse: Callable[[str], Alert]
    seen: Callable[[Dispatched], None]

    def __call__(self, batch: Sequence[Queued]) -> list[str]:
        """Ids of the messages that must stay in the queue."""
        return [one.message_id for one in batch if not self._is_done(one)]

    def _is_done(self, one: Queued) -> bool:
        try:
            done = self.dispatch(self.parse(one.body))
            self.seen(done)
        except Exception:  # noqa: BLE001 - logged, and the queue repeats it
            # Whatever it is, it is this message's: the queue repeats it, and keeps it in the end.
            _log.exception("a message was not delivered")
            self._hide(one, None)
            return False
        if done.left:
            self._hide(one, done.retry_after_seconds)
        return not done.left

    def _hide(self, one: Queued, wanted: int | None) -> None:
        backoff = min(_LONGEST_BACKOFF_SECONDS, _FIRST_WAIT_SECONDS * 2 ** min(one.receives - 1, 10))
        try:
            self.queue.hide(one.receipt, min(LONGEST_WAIT_SECONDS, max(wanted or 0, backoff)))
        except Exception:  # noqa: BLE001 - logged
            # It then comes back after the queue's own visibility time-out.
            _log.exception("a message could not be hidden")
