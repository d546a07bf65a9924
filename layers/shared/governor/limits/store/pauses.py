"""Stores the pause of everything: one item that every destructive step reads, the log of who
paused, and the messages about it that are still to be sent.

Each is in a partition of its own, so that IAM can say who writes it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from governor.core.units import as_utc
from governor.limits.model.pause import Pause, PauseEvent, PauseMessage
from governor.table.table import (
    Document,
    Key,
    Readable,
    Store,
    Table,
    Write,
    absent,
    check,
    update,
    where,
)

PAUSE: Key = ("PAUSE#all", "PAUSE")
_LOG = "PAUSE#log"
"""For the audit alone: who paused, and who ended it."""
_LOGGED_FOR = timedelta(days=400)
_MESSAGES = "PAUSE#messages"
MESSAGES_KEPT = timedelta(days=30)
"""So long a message about a pause is tried again."""


class Pauses(Store):
    """The pause of everything. Every method may raise CloudError."""

    def pause(self) -> Pause | None:
        """Return the pause that stands; `None` if nothing is paused. Raises: CloudError, also if
        the pause cannot be read."""
        return standing_pause(self._table)

    def begin_pause(self, pause: Pause) -> bool:
        """Pause everything, log it, and store the message about it, all or nothing; return true.
        Return false, with nothing changed, if everything is paused already. Raises: CloudError."""
        entry = {"what": "paused", "by": pause.by, "reason": pause.reason}
        begun = update(PAUSE, {"pause": pause}, absent("pause"))
        message = PauseMessage(PauseEvent.BEGUN, pause, pause.by, pause.at)
        return self._table.try_transaction(begun, _logged(pause.at, entry), _to_send(message))

    def end_pause(self, pause: Pause, by: str, at: datetime) -> None:
        """End this pause, and none that began since; log it, and store the message about it, all or
        nothing. Raises: ConflictError if this pause no longer stands; CloudError."""
        entry = {"what": "pause ended", "by": by, "paused_at": pause.at, "paused_by": pause.by}
        ended = update(PAUSE, {}, where("pause.at", "=", pause.at), remove=["pause"])
        message = PauseMessage(PauseEvent.ENDED, pause, by, as_utc(at))
        self._table.transact(ended, _logged(at, entry), _to_send(message))

    def unsent_pause_messages(self) -> list[PauseMessage]:
        """Return the messages about pauses that were not sent yet, the oldest first; empty if there
        are none. Messages that cannot be read are left out. Raises: CloudError."""
        items = self._table.query(_MESSAGES)
        unsent: list[Document] = []
        for item in items:
            is_unsent = "message" in item and "sent_at" not in item
            if is_unsent:
                unsent.append(item["message"])
        return list(Readable(self._table).records(PauseMessage, unsent))

    def note_pause_message_sent(self, message: PauseMessage, at: datetime) -> None:
        """Note that people were sent this message. Raises: CloudError."""
        self._table.write(update(_message_key(message), {"sent_at": at}, until=at + MESSAGES_KEPT))


def standing_pause(table: Table) -> Pause | None:
    """Return the pause that stands; `None` if nothing is paused. Raises: CloudError, also if the
    pause cannot be read, so that nothing acts meanwhile."""
    item = table.get(PAUSE) or {}
    stored = [item["pause"]] if "pause" in item else []
    return next(table.records(Pause, stored), None)


def not_paused() -> Write:
    """Return a check for a transaction, which lets the whole transaction fail while everything is
    paused."""
    return check(PAUSE, absent("pause"))


def _to_send(message: PauseMessage) -> Write:
    """Return the write that stores a message, so that a sweep can send it if nobody else does."""
    return update(_message_key(message), {"message": message}, until=message.at + MESSAGES_KEPT)


def _message_key(message: PauseMessage) -> Key:
    """Return the key of a message: its partition, then its time and event, as in
    `2026-11-27T09:00:00+00:00#paused`. So the oldest message comes first."""
    return _MESSAGES, f"{as_utc(message.at).isoformat()}#{message.event}"


def _logged(at: datetime, entry: Document) -> Write:
    """Return the write that adds an entry to the log of pauses. `entry["what"]` names the event.
    The write fails if the log has an entry of that event at this time."""
    key = _LOG, f"{as_utc(at).isoformat()}#{entry['what']}"
    return update(key, entry, absent(), until=at + _LOGGED_FOR)
