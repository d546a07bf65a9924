"""Counts warnings, such as Spot interruptions, that come at once in a zone or group.

The client sends each write once, with a short timeout: a warning leaves two minutes, and the caller
can do without a count.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from governor.core.errors import ConflictError
from governor.core.instance import Target
from governor.core.units import UtcDatetime
from governor.table.keys import target_pk
from governor.table.table import ShortTimeoutStore, absent, epoch, update, where

_ATTEMPTS = 3
"""How often a count is tried if another one begins at the same moment."""
_COUNT_KEPT = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Burst:
    """The place of a warning among those of its zone: `number` counts from 1 since `started_at`."""

    number: int
    started_at: UtcDatetime


class Bursts(ShortTimeoutStore):
    """Counts of warnings, by target and name."""

    def count_one_more(self, target: Target, name: str, now: datetime, window: timedelta) -> Burst:
        """Count one more warning under `name`, as `interruption#us-east-1a`, and return its place.
        A new count begins if the standing one began longer than `window` ago.

        Raises: CloudError; ConflictError if other callers kept beginning counts.
        """
        key = (target_pk(target), f"BURST#{name}")
        window_start = epoch(now - window)
        is_open = where("started_at_epoch", ">", window_start)
        count_one_more = update(key, {}, is_open, add={"warnings": 1}, returns_item=True)
        is_over_or_absent = absent() | where("started_at_epoch", "<=", window_start)
        begin = update(
            key,
            {"started_at_epoch": epoch(now), "warnings": 1},
            is_over_or_absent,
            until=now + window + _COUNT_KEPT,
            returns_item=True,
        )
        for _ in range(_ATTEMPTS):
            # If no count is open, begin one. If another caller begins it first, add to theirs.
            for write in (count_one_more, begin):
                try:
                    item = self._short_timeout.write(write)
                except ConflictError:
                    continue
                started_at = datetime.fromtimestamp(item["started_at_epoch"], tz=UTC)
                return Burst(item["warnings"], started_at)
        raise ConflictError(f"the count of {name} in {target} kept beginning anew")
