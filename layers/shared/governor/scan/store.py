"""The last scan of each account and Region, in the partition `SCAN`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from governor.core.errors import CloudError
from governor.scan.model import ScannedRow, Snapshot
from governor.table.keys import place
from governor.table.table import (
    DAMAGED,
    Document,
    Store,
    absent,
    packed,
    put,
    unpacked,
    where,
)

_SCAN = "SCAN"
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

    def snapshots(self) -> tuple[Snapshot, ...]:
        """Return the snapshots of all places, sorted by account and Region, by one query; empty
        if nothing was scanned. Damaged ones are left out, and logged. Raises: CloudError."""
        items_by_place: dict[str, list[Document]] = defaultdict(list)
        for item in self._table.query(_SCAN):
            items_by_place[item["sk"].rpartition("#")[0]].append(item)
        return tuple(self._snapshots(items_by_place))

    def _snapshots(self, items_by_place: dict[str, list[Document]]) -> Iterator[Snapshot]:
        """Yield the snapshot in the items of each place, but for those that cannot be read."""
        for name, items in items_by_place.items():
            try:
                [head] = self._table.records(Snapshot, [{**items[0], "rows": []}])
                lines = self._lines(items)
                rows = tuple(self._table.records(ScannedRow, lines))
            except (CloudError, *DAMAGED):
                # Also if a scan replaces the snapshot between two parts of the query.
                self._table.log_left_out(f"the scan of {name}")
                continue
            yield replace(head, rows=rows)

    def _lines(self, items: list[Document]) -> Iterator[Document]:
        """Yield the packed rows, up to their end. Raises: one of `DAMAGED`."""
        yield from unpacked(item["rows"] for item in items)
