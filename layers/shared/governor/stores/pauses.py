"""The pause of everything: one item that every destructive step reads, and the log of who paused.

It is in a partition of its own, so that IAM can say who writes it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from governor.domain.sweep.pause import Pause
from governor.domain.units import as_utc
from governor.stores.table import Document, Key, Store, Write, absent, check, update, where

PAUSE: Key = ("PAUSE#all", "PAUSE")
_LOG = "PAUSE#log"
"""For the audit alone: who paused, and who ended it."""
_LOGGED_FOR = timedelta(days=400)


class Pauses(Store):
    def pause(self) -> Pause | None:
        """Return the pause that stands. Raises: CloudError where it cannot be read."""
        item = self._table.get(PAUSE) or {}
        stored = [item["pause"]] if "pause" in item else []
        return next(self._table.records(Pause, stored), None)

    def begin_pause(self, pause: Pause) -> bool:
        """Pause everything; false where it is paused already."""
        entry = {"what": "paused", "by": pause.by, "reason": pause.reason}
        begun = update(PAUSE, {"pause": pause}, absent("pause"))
        return self._table.wins(begun, _logged(pause.at, entry))

    def end_pause(self, pause: Pause, by: str, at: datetime) -> None:
        """End this pause, and none that began since. Raises: ConflictError."""
        entry = {"what": "pause ended", "by": by, "paused_at": pause.at, "paused_by": pause.by}
        ended = update(PAUSE, {}, where("pause.at", "=", pause.at), remove=["pause"])
        self._table.transact(ended, _logged(at, entry))


def not_paused() -> Write:
    """Let a transaction fail while everything is paused."""
    return check(PAUSE, absent("pause"))


def _logged(at: datetime, entry: Document) -> Write:
    key = _LOG, f"{as_utc(at).isoformat()}#{entry['what']}"
    return update(key, entry, absent(), until=at + _LOGGED_FOR)
