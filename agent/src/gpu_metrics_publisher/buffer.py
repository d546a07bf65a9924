"""Buffers calls in memory, compressed, that CloudWatch has not accepted yet, the newest first.

They are kept for a day at most, and not on disk: the figures of a machine that was restarted since
are of no use. This module must not know why a call was not taken.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import zlib
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Callable

from gpu_metrics_publisher.metrics import Call

_log = logging.getLogger(__name__)

MAX_AGE_SECONDS = 24 * 3600
"""CloudWatch takes figures of two weeks, but shows those older than a day up to two days late. It
refuses older ones, and any more than two hours ahead."""
MAX_BYTES = 7 * 1024 * 1024
"""A day of eight busy GPUs with every metric is about 6 MB."""


@dataclass(eq=False)
class Entry:
    """One call to be sent. `kept_at` is in seconds of a monotonic clock, because the figures' own
    clock may jump."""

    kept_at: float
    datums: int
    packed: bytes
    passed_over: int = 0
    """The rounds in which it was not taken while others were."""

    def call(self) -> Call:
        """Return the call as it was put in."""
        document = json.loads(zlib.decompress(self.packed))
        return Call(document["namespace"], document["datums"])


class Buffer:
    """A bounded store of calls; safe to use from several threads.

    If it is full, or entries are too old, the oldest are dropped and the log says how many.
    """

    def __init__(
        self,
        max_bytes: int = MAX_BYTES,
        max_age_seconds: int = MAX_AGE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_age = max_age_seconds
        self._monotonic = monotonic
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self.lost_datums = 0
        """The datums dropped since the start because of the bounds."""

    def put(self, call: Call) -> None:
        """Keep a call. The oldest calls may be dropped for it."""
        document = {"namespace": call.namespace, "datums": call.datums}
        text = json.dumps(document, separators=(",", ":"))
        now = self._monotonic()
        entry = Entry(now, len(call.datums), zlib.compress(text.encode()))
        lost = 0
        with self._lock:
            self._entries.append(entry)
            self._bytes += len(entry.packed)
            while self._entries and self._is_over_bounds(now):
                oldest = self._entries.popleft()
                self._bytes -= len(oldest.packed)
                lost += oldest.datums
            self.lost_datums += lost
        if lost:
            _log.error(
                "dropped %d datums: CloudWatch has taken nothing for longer than the buffer holds "
                "(%d h or %d bytes)",
                lost,
                self._max_age // 3600,
                self._max_bytes,
            )

    def _is_over_bounds(self, now: float) -> bool:
        is_too_old = self._entries[0].kept_at < now - self._max_age
        return self._bytes > self._max_bytes or is_too_old

    def newest(self, passed: Collection[Entry] = ()) -> Entry | None:
        """Return the entry to send next, or `None` if all are in `passed`.

        It is the newest, because what is measured now matters most.
        """
        with self._lock:
            for entry in reversed(self._entries):
                if entry not in passed:
                    return entry
        return None

    def remove(self, entry: Entry) -> None:
        """Forget an entry. It is no error if it was dropped meanwhile."""
        with self._lock:
            try:
                self._entries.remove(entry)
            except ValueError:
                return  # it was dropped while it was being sent
            self._bytes -= len(entry.packed)

    def __len__(self) -> int:
        with self._lock:
            return len(self._entries)

    @property
    def size_bytes(self) -> int:
        """Return the compressed size of all entries."""
        return self._bytes
