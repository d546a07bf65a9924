"""The event log: claims, counts of warnings, announced dates and findings that people know.

Claims and counts are sent once: a warning leaves two minutes, and the caller can do without an answer. This
module must not know events.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

from governor.adapters.table.client import (
    TRANSACTION,
    Condition,
    Document,
    Key,
    Store,
    Table,
    Write,
    absent,
    epoch,
    present,
    put,
    update,
    where,
)
from governor.adapters.table.codec import read_item
from governor.adapters.table.keys import target_pk
from governor.domain.events.notice import Notice
from governor.domain.instance import Target
from governor.domain.parts import in_parts
from governor.domain.units import iso
from governor.errors import CloudError, ConflictError
from governor.stores import Burst

_ATTEMPTS = 3
"""Of a count that met another one beginning at the same moment."""
_CANCELLED = "TransactionCanceledException"
_COUNT_KEPT = timedelta(days=1)
_NOTICE_KEPT = timedelta(days=30)
"""After its date, or after the last word about it: twice as long as a dead-letter queue keeps an event."""
_TOLD = "TOLD#"


class EventStore(Store):
    """The port `EventLog`."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._hasty = table.hasty()

    def claim(self, key: str, now: datetime, lease: timedelta) -> bool:
        return self._hasty.holds(_taking(key, now + lease, _is_free(now)))

    def claim_all(self, keys: Sequence[str], now: datetime, lease: timedelta) -> frozenset[str]:
        """Claim a hundred in one transaction; one by one where any of them is not free."""
        claimed: set[str] = set()
        for part in in_parts(keys, TRANSACTION):
            try:
                self._hasty.transact(*(_taking(key, now + lease, _is_free(now)) for key in part))
            except (ConflictError, CloudError) as error:
                # An answer that was lost says nothing about the claims; a refusal says that none was made.
                if isinstance(error, CloudError) and error.code != _CANCELLED:
                    raise
                claimed.update(key for key in part if self.claim(key, now, lease))
            else:
                claimed.update(part)
        return frozenset(claimed)

    def done(self, key: str, now: datetime, keep: timedelta) -> None:
        self._hasty.write(_taking(key, now + keep))

    def done_all(self, keys: Sequence[str], now: datetime, keep: timedelta) -> None:
        self._hasty.write_all([_taking(key, now + keep) for key in keys])

    def count(self, target: Target, name: str, now: datetime, window: timedelta) -> Burst:
        key, over = (target_pk(target), f"BURST#{name}"), epoch(now - window)
        counting = update(key, {}, where("started_at_epoch", ">", over), add={"warnings": 1})
        begun = {
            "started_at_epoch": epoch(now),
            "warnings": 1,
            "expires_at_epoch": epoch(now + window + _COUNT_KEPT),
        }
        beginning = update(key, begun, absent() | where("started_at_epoch", "<=", over))
        for _ in range(_ATTEMPTS):
            # None has begun, or it is over: begin one, unless another caller was faster; then count on its.
            for one in (counting, beginning):
                try:
                    found = self._hasty.write(one)
                except ConflictError:
                    continue
                return Burst(found["warnings"], datetime.fromtimestamp(found["started_at_epoch"], tz=UTC))
        raise ConflictError(f"the count of {name} in {target} kept beginning anew")

    def keep_notice(self, notice: Notice, *, remind: bool) -> bool:
        said = iso(notice.said_at)
        # The same date again, or none: all that is kept stays, and was said now.
        same = present("at") if notice.at is None else where("at", "=", iso(notice.at))
        moving = update(_notice_key(notice), {"said_at": said}, where("said_at", "<=", said) & same)
        # What is over has no `what`: what was said at the same moment does not open it.
        is_open = where("said_at", "=", said) & present("what")
        newer = absent("said_at") | where("said_at", "<", said) | is_open
        return self._table.holds(moving) or self._table.holds(
            put(_notice_key(notice), {**_notice_document(notice), "remind": remind}, newer)
        )

    def drop_notice(self, notice: Notice) -> None:
        newer = absent("said_at") | where("said_at", "<=", iso(notice.said_at))
        self._table.holds(put(_notice_key(notice), _said(notice), newer))

    def notices(self, target: Target) -> list[Notice]:
        place = {"account": target.account, "region": target.region}
        kept = self._table.query(target_pk(target), "NOTICE#")
        return [read_item(Notice, item, **place) for item in kept if item.get("remind")]

    def told(self, target: Target, now: datetime) -> frozenset[str]:
        return frozenset(
            item["sk"].removeprefix(_TOLD)
            for item in self._table.query(target_pk(target), _TOLD)
            if item["expires_at_epoch"] > now.timestamp()
        )

    def keep_told(self, target: Target, keys: Collection[str], until: datetime) -> None:
        document = {"expires_at_epoch": epoch(until)}
        self._table.write_all(
            [put((target_pk(target), f"{_TOLD}{key}"), document) for key in sorted(set(keys))]
        )


def _taking(key: str, until: datetime, condition: Condition | None = None) -> Write:
    return update((f"EVENT#{key}", "SEEN"), {"expires_at_epoch": epoch(until)}, condition)


def _is_free(now: datetime) -> Condition:
    return absent() | where("expires_at_epoch", "<=", epoch(now))


def _notice_key(notice: Notice) -> Key:
    return target_pk(Target(notice.account, notice.region)), f"NOTICE#{notice.key}"


def _notice_document(notice: Notice) -> Document:
    document = {
        "source_id": notice.source_id,
        "what": notice.what,
        "at": None if notice.at is None else iso(notice.at),
        "instance_id": notice.instance_id,
        "reservation_id": notice.reservation_id,
    }
    return {name: value for name, value in document.items() if value is not None} | _said(notice)


def _said(notice: Notice) -> Document:
    ends = max(notice.at or notice.said_at, notice.said_at) + _NOTICE_KEPT
    return {"said_at": iso(notice.said_at), "expires_at_epoch": epoch(ends)}
