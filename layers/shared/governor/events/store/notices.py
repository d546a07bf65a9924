"""Announced dates: maintenance of instances, and the ends of reservations."""

from __future__ import annotations

from datetime import timedelta

from governor.core.instance import Target
from governor.core.units import iso
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
"""After its date, or after the last event about it. A dead-letter queue keeps an event for half as
long."""


class Notices(Store):
    def keep_notice(self, notice: Notice, *, remind: bool) -> bool:
        """Keep an announced date; return false, and change nothing, if something newer is known
        about it.

        A new date of the same thing replaces the old one. The same date again, or none, leaves the
        date that is kept, and whether to remind of it. Only a newer event opens a dropped notice.
        """
        said_at = iso(notice.said_at)
        at = notice.at and iso(notice.at)
        # The same date again, or none: everything that is kept stays, and counts as said now.
        is_same_date = where("at", "=", at) if at else present("at")
        is_not_newer = where("said_at", "<=", said_at)
        say_again = update(_notice_key(notice), {"said_at": said_at}, is_not_newer & is_same_date)
        if self._table.holds(say_again):
            return True

        # A dropped notice has no `what`: an event of the same moment does not open it.
        is_open = where("said_at", "=", said_at) & present("what")
        is_older = absent("said_at") | where("said_at", "<", said_at) | is_open
        return self._table.holds(_saying(notice, _notice_document(notice, remind), is_older))

    def drop_notice(self, notice: Notice) -> None:
        """Keep for a while that it is over, unless something newer is known."""
        is_not_newer = absent("said_at") | where("said_at", "<=", iso(notice.said_at))
        self._table.holds(_saying(notice, {}, is_not_newer))

    def notices(self, target: Target) -> list[Notice]:
        """Return the announced dates of the target that are to be reminded of."""
        target_fields = {"account": target.account, "region": target.region}
        items = self._table.query(target_pk(target), "NOTICE#")
        documents = ({**item, **target_fields} for item in items if item.get("remind"))
        return list(self._table.records(Notice, documents))


def _notice_key(notice: Notice) -> Key:
    return target_pk(Target(notice.account, notice.region)), f"NOTICE#{notice.key}"


def _notice_document(notice: Notice, remind: bool) -> Document:
    """Return what is stored of a notice, without the fields that are not known."""
    fields = {
        "source_id": notice.source_id,
        "what": notice.what,
        "instance_id": notice.instance_id,
        "reservation_id": notice.reservation_id,
        "at": notice.at and iso(notice.at),
        "remind": remind,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _saying(notice: Notice, document: Document, condition: Condition) -> Write:
    last_moment = max(notice.at or notice.said_at, notice.said_at)
    return put(
        _notice_key(notice),
        {**document, "said_at": iso(notice.said_at)},
        condition,
        until=last_moment + _NOTICE_KEPT,
    )
