"""Calls that CloudWatch has not taken yet: compressed, in memory, bounded, the newest first.

Memory and not disk: the bound is a day, and figures of a machine that was restarted since tell nobody
anything. This module must not know why a call was not taken.
"""

from __future__ import annotations

import json
import logging
import threading
import zlib
from collections import deque
from dataclasses import dataclass

from gpu_metrics_publisher.metrics import Call

_log = logging.getLogger(__name__)

MAX_AGE_SECONDS = 24 * 3600
"""CloudWatch takes two weeks, but shows what is older than a day up to two days late."""
MAX_BYTES = 7 * 1024 * 1024
"""A day of eight busy GPUs with every metric is about 6 MB."""


@dataclass(frozen=True)
class Entry:
    """One call under way, with the time of its interval in seconds since 1970."""

    since: int
    datums: int
    packed: bytes

    def call(self) -> Call:
        """The call as it was put in."""
        document = json.loads(zlib.decompress(self.packed))
        return Call(document["namespace"], document["datums"])


class Buffer:
    """A bounded store of calls; safe to use from several threads.

    When full, or when entries grow too old, the oldest go, and the log says how much was lost.
    """

    def __init__(self, max_bytes: int = MAX_BYTES, max_age_seconds: int = MAX_AGE_SECONDS) -> None:
        self._max_bytes = max_bytes
        self._max_age = max_age_seconds
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self.lost_datums = 0
        """How many datums were dropped for the bound since the start."""

    def put(self, call: Call, since: int) -> None:
        """Keeps a call of the interval that began at `since`; may drop the oldest."""
        text = json.dumps({"namespace": call.namespace, "datums": call.datums}, separators=(",", ":"))
        entry = Entry(since, len(call.datums), zlib.compress(text.encode()))
        lost = 0
        with self._lock:
            self._entries.append(entry)
            self._bytes += len(entry.packed)
            while self._bytes > self._max_bytes or self._entries[0].since < since - self._max_age:
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

    def newest(self) -> Entry | None:
        """The entry to send next: what is measured now matters most. `None` when there is none."""
        with self._lock:
            return self._entries[-1] if self._entries else None

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
        """What the entries hold, compressed."""
        return self._bytes
