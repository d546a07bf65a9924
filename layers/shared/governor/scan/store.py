"""Stores the last scan of each account and Region, in the partition `SCAN`.

Beside it stands the last refusal, if AWS refused the whole place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from governor.core.errors import CloudError
from governor.scan.model import EVERYTHING, RefusedScan, ScannedRow, Snapshot
from governor.table.keys import place
from governor.table.table import (
    DAMAGED,
    Document,
    Key,
    Record,
    Store,
    absent,
    packed,
    put,
    unpacked,
    where,
)

_SCAN = "SCAN"
_HEAD = "000"
_REFUSED = "refused"
"""The end of the key of a refusal. It sorts after the parts of the snapshot, where a release that
does not know refusals reads no more."""
_KEPT = timedelta(days=40)
"""A place that is scanned no more is shown as late, and then forgotten."""


class Scans(Store):
    """Snapshots of scans. Every method may raise CloudError."""

    def keep(self, snapshot: Snapshot) -> bool:
        """Replace the whole snapshot of a place, and return true. Return false, with nothing
        changed, if a later scan has stored its own. Raises: CloudError."""
        head = self._table.document(replace(snapshot, rows=()))
        is_not_later = absent() | where("scanned_at", "<=", head["scanned_at"])
        until = snapshot.scanned_at + _KEPT
        lines = (self._table.document(row) for row in snapshot.rows)
        writes = []
        # Items of a longer earlier snapshot may remain after these. Readers stop at the end of
        # the packed rows, and the rest expires.
        for number, part in enumerate(packed(lines)):
            key = (_SCAN, f"{place(snapshot.target)}#{number:03d}")
            condition = is_not_later if number == 0 else None
            writes.append(put(key, {**head, "rows": part}, condition, until=until))
        if len(writes) == 1:
            return self._table.try_write(writes[0])
        return self._table.try_transaction(*writes)

    def is_known(self, refused: RefusedScan) -> bool:
        """Return whether the place was already refused for the same cause since its last good scan.

        A damaged refusal counts as none: the caller replaces it. A damaged snapshot counts as none,
        too, because it stays until a good scan: otherwise the place would be news each day. Both
        are logged. Raises: CloudError.
        """
        refusal_item = self._table.get(_key(refused, _REFUSED))
        earlier = self._readable(RefusedScan, refusal_item, f"the refusal of {refused.target}")
        if earlier is None or earlier.cause != refused.cause:
            return False
        head_item = self._table.get(_key(refused, _HEAD))
        if head_item is None:
            return True
        head_alone = {**head_item, "rows": []}
        last = self._readable(Snapshot, head_alone, f"the scan of {refused.target}")
        return last is None or last.scanned_at < earlier.at

    def _readable(self, kind: type[Record], item: Document | None, name: str) -> Record | None:
        """Return the record in the item; `None` without an item, or if it is damaged, which is
        logged by this name."""
        if item is None:
            return None
        try:
            [record] = self._table.records(kind, [item])
        except (CloudError, *DAMAGED):
            self._table.log_left_out(name)
            return None
        return record

    def keep_refusal(self, refused: RefusedScan) -> None:
        """Keep the refusal in place of an earlier one. The snapshot stays. Raises: CloudError."""
        document = self._table.document(refused)
        self._table.write(put(_key(refused, _REFUSED), document, until=refused.at + _KEPT))

    def snapshots(self) -> tuple[Snapshot, ...]:
        """Return the snapshots of all places, sorted by account and Region, by one query; empty
        if nothing was scanned. Damaged ones are left out, and logged. Raises: CloudError.

        A place that was refused since has a line of what could not be read that says so.
        """
        items_by_place: dict[str, list[Document]] = defaultdict(list)
        refused_by_place: dict[str, Document] = {}
        for item in self._table.query(_SCAN):
            name, _, part = item["sk"].rpartition("#")
            if part == _REFUSED:
                refused_by_place[name] = item
            else:
                items_by_place[name].append(item)
        snapshot_by_place = dict(self._snapshots(items_by_place))
        for name, refused in self._refusals(refused_by_place):
            snapshot_by_place[name] = _with_refusal(snapshot_by_place.get(name), refused)
        return tuple(snapshot_by_place[name] for name in sorted(snapshot_by_place))

    def _snapshots(
        self, items_by_place: dict[str, list[Document]]
    ) -> Iterator[tuple[str, Snapshot]]:
        """Yield the place and the snapshot in its items, but for those that cannot be read."""
        for name, items in items_by_place.items():
            try:
                [head] = self._table.records(Snapshot, [{**items[0], "rows": []}])
                lines = self._lines(items)
                rows = tuple(self._table.records(ScannedRow, lines))
            except (CloudError, *DAMAGED):
                # Also if a scan replaces the snapshot between two parts of the query.
                self._table.log_left_out(f"the scan of {name}")
                continue
            yield name, replace(head, rows=rows)

    def _refusals(self, item_by_place: dict[str, Document]) -> Iterator[tuple[str, RefusedScan]]:
        """Yield the place and its refusal, but for those that cannot be read."""
        for name, item in item_by_place.items():
            refused = self._readable(RefusedScan, item, f"the refusal of {name}")
            if refused is not None:
                yield name, refused

    def _lines(self, items: list[Document]) -> Iterator[Document]:
        """Yield the packed rows, up to their end. Raises: one of `DAMAGED`."""
        yield from unpacked(item["rows"] for item in items)


def _key(refused: RefusedScan, part: str) -> Key:
    """Return the key of a part of what is kept about the place of a refusal."""
    return (_SCAN, f"{place(refused.target)}#{part}")


def _with_refusal(last: Snapshot | None, refused: RefusedScan) -> Snapshot:
    """Return the last snapshot with a line about the refusal, unless it is newer. Return an empty
    one with that line if nothing was ever read there."""
    if last is None or _is_empty_of_refused(last):
        return Snapshot(refused.account, refused.region, refused.at, unread=(refused.line,))
    if last.scanned_at >= refused.at:
        return last
    line = replace(refused.line, last_read_at=last.scanned_at)
    return replace(last, unread=(*last.unread, line))


def _is_empty_of_refused(snapshot: Snapshot) -> bool:
    """Return whether an earlier release kept this snapshot of a place that was refused."""
    return any(line.topic == EVERYTHING for line in snapshot.unread)
