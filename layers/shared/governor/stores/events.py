"""The event log: claims, counts of warnings, announced dates and findings that people know. Claims
and counts are sent once: a warning leaves two minutes, and the caller can do without an answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from governor.domain.events.notice import Notice
from governor.domain.instance import Target
from governor.domain.units import UtcDatetime, in_parts, iso
from governor.errors import CloudError, ConflictError
from governor.stores.keys import target_pk
from governor.stores.table import (
    TRANSACTION,
    Condition,
    Document,
    Key,
    Store,
    Table,
    Write,
    absent,
    epoch,
    is_over,
    present,
    put,
    update,
    where,
)

_ATTEMPTS = 3
"""Attempts of a count that met another one beginning at the same moment."""
_CANCELLED = "TransactionCanceledException"
_COUNT_KEPT = timedelta(days=1)
_NOTICE_KEPT = timedelta(days=30)
"""After its date, or after the last word about it: twice as long as a dead-letter queue keeps an
event."""
_TOLD = "TOLD#"


@dataclass(frozen=True, slots=True)
class Burst:
    """The place of a warning among those of its zone: `number` counts from 1 since `started_at`."""

    number: int
    started_at: UtcDatetime


class EventLog(Store):
    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._hasty = table.hasty()

    def claim(self, key: str, now: datetime, lease: timedelta) -> bool:
        """Return whether this caller shall do what `key` names. It lapses after `lease` unless
        `done`."""
        return self._hasty.holds(_taking(key, now + lease, is_over(now)))

    def claim_all(self, keys: Sequence[str], now: datetime, lease: timedelta) -> frozenset[str]:
        """As `claim`, of many different keys: those that this caller shall do."""
        claimed: set[str] = set()
        for part in in_parts(keys, TRANSACTION):
            try:
                self._hasty.transact(*(_taking(key, now + lease, is_over(now)) for key in part))
            except (ConflictError, CloudError) as error:
                # An answer that was lost says nothing about the claims; a refusal says that none
                # was made.
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
        """Count one more of `name`; a count begins anew `window` after its first. Raises:
        ConflictError."""
        key, over = (target_pk(target), f"BURST#{name}"), epoch(now - window)
        counting = update(
            key, {}, where("started_at_epoch", ">", over), add={"warnings": 1}, returns_item=True
        )
        begun = {"started_at_epoch": epoch(now), "warnings": 1}
        is_first = absent() | where("started_at_epoch", "<=", over)
        beginning = update(
            key, begun, is_first, until=now + window + _COUNT_KEPT, returns_item=True
        )
        for _ in range(_ATTEMPTS):
            # None has begun, or it is over: begin one, unless another caller was faster; then count
            # on its.
            for one in (counting, beginning):
                try:
                    found = self._hasty.write(one)
                except ConflictError:
                    continue
                return Burst(
                    found["warnings"], datetime.fromtimestamp(found["started_at_epoch"], tz=UTC)
                )
        raise ConflictError(f"the count of {name} in {target} kept beginning anew")

    def keep_notice(self, notice: Notice, *, remind: bool) -> bool:
        """Keep an announced date; false, and nothing changes, when something newer is known about
        it.

        A new date of the same thing replaces the old one. The same date again, or none, leaves the
        one that is kept, and whether to remind of it. Only a newer word opens what was dropped.
        """
        said, at = iso(notice.said_at), notice.at and iso(notice.at)
        # The same date again, or none: all that is kept stays, and was said now.
        same = where("at", "=", at) if at else present("at")
        moving = update(_notice_key(notice), {"said_at": said}, where("said_at", "<=", said) & same)
        # What is over has no `what`: what was said at the same moment does not open it.
        is_open = where("said_at", "=", said) & present("what")
        newer = absent("said_at") | where("said_at", "<", said) | is_open
        names = ("source_id", "what", "instance_id", "reservation_id")
        document: Document = {name: getattr(notice, name) for name in names} | {
            "at": at,
            "remind": remind,
        }
        known = {name: value for name, value in document.items() if value is not None}
        return self._table.holds(moving) or self._table.holds(_saying(notice, known, newer))

    def drop_notice(self, notice: Notice) -> None:
        """Keep for a while that it is over; unless something newer is known."""
        newer = absent("said_at") | where("said_at", "<=", iso(notice.said_at))
        self._table.holds(_saying(notice, {}, newer))

    def notices(self, target: Target) -> list[Notice]:
        place = {"account": target.account, "region": target.region}
        kept = self._table.query(target_pk(target), "NOTICE#")
        return list(
            self._table.records(Notice, ({**item, **place} for item in kept if item.get("remind")))
        )

    def told(self, target: Target, now: datetime) -> frozenset[str]:
        """Return everything of the target that `keep_told` has kept and whose time is not over."""
        return frozenset(
            item["sk"].removeprefix(_TOLD)
            for item in self._table.query(target_pk(target), _TOLD)
            if item["expires_at_epoch"] > now.timestamp()
        )

    def keep_told(self, target: Target, keys: Collection[str], until: datetime) -> None:
        """Keep that people know what the keys name; a later call sets another end."""
        pk = target_pk(target)
        self._table.write_all(
            [put((pk, f"{_TOLD}{key}"), {}, until=until) for key in sorted(set(keys))]
        )


def _taking(key: str, until: datetime, condition: Condition | None = None) -> Write:
    return update((f"EVENT#{key}", "SEEN"), {}, condition, until=until)


def _notice_key(notice: Notice) -> Key:
    return target_pk(Target(notice.account, notice.region)), f"NOTICE#{notice.key}"


def _saying(notice: Notice, known: Document, condition: Condition) -> Write:
    ends = max(notice.at or notice.said_at, notice.said_at) + _NOTICE_KEPT
    return put(
        _notice_key(notice), {**known, "said_at": iso(notice.said_at)}, condition, until=ends
    )
