"""Stores announced dates: maintenance of instances, and the ends of reservations.

It records only; `events.notify_dates` notifies owners.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from governor.core.instance import Target
from governor.core.units import iso, without_none
from governor.events.model.notice import Notice
from governor.table.keys import target_pk
from governor.table.table import (
    Condition,
    Document,
    Key,
    Store,
    Write,
    absent,
    present,
    put,
    update,
    where,
)

_NOTICE_KEPT = timedelta(days=30)
"""How long a notice is kept after its date, or after the last event about it. A dead-letter queue
keeps an event for half as long."""
_OLDER_PREFIX = "AWS schedules: "
"""Earlier releases stored this before each change that AWS Health announced."""


class Notices(Store):
    """The newest notice about each announced event, by target."""

    def keep_notice(self, notice: Notice, *, remind: bool) -> bool:
        """Store an announced date, and return true. Return false, with nothing changed, if AWS has
        sent a newer message about the same event, or a message of this moment has dropped it.

        Another date replaces the stored one. The same date again, or no date, leaves the stored
        date and `remind` as they are. With `remind`, the sweep reminds people. Raises: CloudError.
        """
        said_at = iso(notice.said_at)
        date_text = _date_text(notice)
        # The same date again, or none: only the time of the message changes.
        is_same_date = present("at") if date_text is None else where("at", "=", date_text)
        is_not_newer = where("said_at", "<=", said_at)
        say_again = update(_notice_key(notice), {"said_at": said_at}, is_not_newer & is_same_date)
        if self._table.try_write(say_again):
            return True

        # A dropped notice has no `what`: a message of the same moment does not open it again.
        is_open = where("said_at", "=", said_at) & present("what")
        is_older = absent("said_at") | where("said_at", "<", said_at) | is_open
        document = _notice_document(notice, remind=remind)
        return self._table.try_write(_write_notice(notice, document, is_older))

    def drop_notice(self, notice: Notice) -> None:
        """Record that the date was dropped. Do nothing if AWS has sent a newer message. Raises:
        CloudError."""
        is_not_newer = absent("said_at") | where("said_at", "<=", iso(notice.said_at))
        self._table.try_write(_write_notice(notice, {}, is_not_newer))

    def notices(self, target: Target) -> list[Notice]:
        """Return the announced dates of the target for which a reminder is wanted; empty if there
        are none. Raises: CloudError."""
        target_fields = {"account": target.account, "region": target.region}
        items = self._table.query(target_pk(target), "NOTICE#")
        documents = [{**item, **target_fields} for item in items if item.get("remind")]
        notices = []
        for notice in self._table.records(Notice, documents):
            notices.append(replace(notice, what=notice.what.removeprefix(_OLDER_PREFIX)))
        return notices


def _notice_key(notice: Notice) -> Key:
    """Return the key of the item that holds the newest notice about the same event."""
    return target_pk(Target(notice.account, notice.region)), f"NOTICE#{notice.key}"


def _date_text(notice: Notice) -> str | None:
    """Return the date as it is stored; `None` if AWS names none."""
    return None if notice.at is None else iso(notice.at)


def _notice_document(notice: Notice, *, remind: bool) -> Document:
    """Return the stored fields of a notice, without the fields that are not known."""
    fields = {
        "source_id": notice.source_id,
        "what": notice.what,
        "instance_id": notice.instance_id,
        "reservation_id": notice.reservation_id,
        "at": _date_text(notice),
        "remind": remind,
    }
    return without_none(fields)


def _write_notice(notice: Notice, document: Document, condition: Condition) -> Write:
    """Return the write that replaces the stored notice about the same event by `document` and the
    time of AWS's message, if `condition` holds. An empty `document` records that the date was
    dropped."""
    last_moment = max(notice.at or notice.said_at, notice.said_at)
    return put(
        _notice_key(notice),
        {**document, "said_at": iso(notice.said_at)},
        condition,
        until=last_moment + _NOTICE_KEPT,
    )
