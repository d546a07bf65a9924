"""Calls that CloudWatch has not accepted yet: compressed, in memory, bounded, the newest first.

Memory and not disk: the bound is a day, and figures of a machine that was restarted since tell
nobody anything. This module must not know why a call was not taken.
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
"""CloudWatch takes two weeks, but shows what is older than a day up to two days late. What it finds
too old, or more than two hours ahead, it refuses itself."""
MAX_BYTES = 7 * 1024 * 1024
"""A day of eight busy GPUs with every metric is about 6 MB."""


@dataclass(eq=False)
class Entry:
    """One call under way. `kept_at` is in seconds of a clock that nobody sets; the figures' own may
    jump."""

    kept_at: float
    datums: int
    packed: bytes
    passed_over: int = 0
    """How often it was not taken while others were."""

    def call(self) -> Call:
        """The call as it was put in."""
        document = json.loads(zlib.decompress(self.packed))
        return Call(document["namespace"], document["datums"])


class Buffer:
    """A bounded store of calls; safe to use from several threads.

    When full, or when entries grow too old, the oldest go, and the log says how much was lost.
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
        """How many datums were dropped for the bound since the start."""

    def put(self, call: Call) -> None:
        """Keeps a call; may drop the oldest."""
        text = json.dumps(
            {"namespace": call.namespace, "datums": call.datums}, separators=(",", ":")
        )
        now = self._monotonic()
        entry = Entry(now, len(call.datums), zlib.compress(text.encode()))
        lost = 0
        with self._lock:
            self._entries.append(entry)
            self._bytes += len(entry.packed)
            while self._bytes > self._max_bytes or self._entries[0].kept_at < now - self._max_age:
                oldest = self._entries.popleft()
                self._bytes -= len(oldest.packed)
                lost += oldest.datums
                if not self._entries:
                    break
            self.lost_datums += lost
        if lost:
            _log.error(
                "dropped %d datums: CloudWatch has taken nothing for longer than the buffer holds "
                "(%d h or %d bytes)",
                lost,
                self._max_age // 3600,
                self._max_bytes,
            )

    def newest(self, passed: Collection[Entry] = ()) -> Entry | None:
        """The entry to send next: what is measured now matters most. `None` when all are in
        `passed`."""
        with self._lock:
            return next((entry for entry in reversed(self._entries) if entry not in passed), None)

    def remove(self, entry: Entry) -> None:
        """Forgets an entry; harmless when it was dropped meanwhile."""
        with self._lock:
            try:
                self._entries.remove(entry)
            except ValueError:
                return  # dropped for the bound while it was on its way
            self._bytes -= len(entry.packed)

    def __len__(self) -> int:
        with self._lock:
            return len(self._entries)

    @property
    def size_bytes(self) -> int:
        """Return what the entries hold, compressed."""
        return self._bytes
