"""The event log: claims, counts of warnings, announced dates, and findings that people know.

Claims and counts are sent once, with a short timeout: a warning leaves two minutes, and the caller
can do without an answer.
"""

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
"""How often a count is tried if another one begins at the same moment."""
_CANCELLED = "TransactionCanceledException"
_COUNT_KEPT = timedelta(days=1)
_NOTICE_KEPT = timedelta(days=30)
"""After its date, or after the last event about it. A dead-letter queue keeps an event for half as
long."""
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
        """Claim the work that `key` names; return false if another caller has claimed it. The claim
        lapses after `lease` unless the work is `done`."""
        return self._hasty.holds(_taking(key, now + lease, is_over(now)))

    def claim_all(self, keys: Sequence[str], now: datetime, lease: timedelta) -> frozenset[str]:
        """Claim the work that different `keys` name; return those that this caller shall do."""
        claimed: set[str] = set()
        for part in in_parts(keys, TRANSACTION):
            try:
                self._hasty.transact(*(_taking(key, now + lease, is_over(now)) for key in part))
            except (ConflictError, CloudError) as error:
                # A refusal says that no claim was made; a lost answer says nothing about them.
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
        """Count one more of `name`, and return its place. A new count begins when the first of the
        last one is older than `window`. Raises: ConflictError."""
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
                    item = self._hasty.write(write)
                except ConflictError:
                    continue
                started_at = datetime.fromtimestamp(item["started_at_epoch"], tz=UTC)
                return Burst(item["warnings"], started_at)
        raise ConflictError(f"the count of {name} in {target} kept beginning anew")

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

    def told(self, target: Target, now: datetime) -> frozenset[str]:
        """Return everything of the target that `keep_told` has kept and whose time is not over."""
        items = self._table.query(target_pk(target), _TOLD)
        return frozenset(
            item["sk"].removeprefix(_TOLD)
            for item in items
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
