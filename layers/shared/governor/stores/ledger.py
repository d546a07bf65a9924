"""The ledger of savings, whose entries nothing changes, and the meters of what projects cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from governor.domain.fleet.rows import DayCosts
from governor.domain.instance import Target
from governor.domain.money.cost import Meter, month_of, parse_month
from governor.domain.money.ledger import Cash, Ending, LedgerEntry, Statement
from governor.domain.units import UtcDatetime, iso
from governor.stores.fleet import keeping
from governor.stores.keys import place, target_pk
from governor.stores.table import (
    Document,
    Key,
    Store,
    Write,
    absent,
    delete,
    insert,
    present,
    put,
    where,
)

_METERS_KEPT = timedelta(days=400)
_REPLACED_KEPT = timedelta(days=30)
_OPEN_KEPT = timedelta(days=400)
"""Longer than the policy lets a saving count: its end then changes no sum."""
_END = "#END"
_BILL = "#BILL#"
"""After the key of an entry: that of its end, and those of corrections by bills, with their
time."""


class Ledger(Store):
    """Booked savings, and what projects cost. A month is `yyyy-mm`."""

    def open_entries(self, target: Target, instance_id: str) -> list[LedgerEntry]:
        """Return the entries that are booked and not settled, oldest episode first; and those of
        instances that others replace, until they are started or terminated."""
        return self._table.read_all(LedgerEntry, target_pk(target), f"OPENLEDGER#{instance_id}#")

    def open_of(self, target: Target) -> list[LedgerEntry]:
        """Return those of a target."""
        return self._table.read_all(LedgerEntry, target_pk(target), "OPENLEDGER#")

    def settle_entry(
        self,
        entry: LedgerEntry,
        ended_at: UtcDatetime,
        why: Ending,
        now: UtcDatetime,
        *,
        by: str = "",
    ) -> bool:
        """End a ledger entry once, by one more; true when this call did. `by` replaces it, and only
        it. What ended so is not changed: only that it stays away is forgotten."""
        if entry.ended is not None:
            self._table.write(delete(_open_key(entry)))
            return False
        end = replace(
            entry,
            ended_at=ended_at,
            ended=why,
            false_stop=why is Ending.UNDONE,
            settled_at=now,
            replaced_by=by,
            # The release before reads it as one more entry, and must not count it.
            ours=False,
        )
        pk, sk = _ledger_key(entry)
        writes = [
            put(_open_key(entry), end, present(), until=entry.booked_at + _OPEN_KEPT)
            if end.is_away
            else delete(_open_key(entry), present()),
            insert((pk, sk + _END), end),
        ]
        if by:
            once = f"EVENT#replaces#{by}#{iso(ended_at)}", "SEEN"
            writes.append(insert(once, {}, until=now + _REPLACED_KEPT))
        return self._table.wins(*writes)

    def correct(self, entry: LedgerEntry, cash: Cash, source: str, now: UtcDatetime) -> None:
        """Add what a bill has shown an hour of it to save in cash. The last correction counts."""
        changed = replace(entry, cash_low_usd_per_hour=cash.low, cash_high_usd_per_hour=cash.high)
        pk, sk = _ledger_key(entry)
        found = replace(changed, cash_source=source, corrected_at=now, ours=False)
        self._table.write(insert((pk, f"{sk}{_BILL}{iso(now)}"), found))

    def entries(self, month: str) -> list[LedgerEntry]:
        """Return what was booked in a month, each with its end, and as the last bill corrected
        it."""
        items: tuple[list[Document], list[Document]] = [], []
        for item in self._table.query(f"LEDGER#{month}"):
            items[_END in item["sk"] or _BILL in item["sk"]].append(item)
        booked, later = (self._table.records(LedgerEntry, some) for some in items)
        found = {one.episode: one for one in booked}
        for one in later:
            if (entry := found.get(one.episode)) is not None:
                found[one.episode] = replace(
                    entry, **(one.correction if one.corrected_at else one.end)
                )
        return list(found.values())

    def last_statement(self, month: str) -> Statement | None:
        found = self._table.read_all(Statement, f"STATEMENT#{month}")
        return found[-1] if found else None

    def keep_statement(self, one: Statement) -> None:
        """Keep what the ledger says now, beside what it said before."""
        self._table.holds(insert((f"STATEMENT#{one.month}", iso(one.as_of)), one))

    def meter(self, target: Target, month: str) -> Meter | None:
        """Return what a target has cost in a month; `None` when nothing was counted."""
        return self._table.read(Meter, _meter_key(target, month))

    def bring_forward(
        self, meter: Meter, seen: Meter | None, days: Iterable[DayCosts] = ()
    ) -> bool:
        """Put the meter in place of the one `seen`, with the days; false when another caller was
        faster."""
        unchanged = absent() if seen is None else where("counted_until", "=", seen.counted_until)
        until = parse_month(meter.month) + _METERS_KEPT
        forward = put(_meter_key(meter.target, meter.month), meter, unchanged, until=until)
        return self._table.wins(forward, *map(keeping, days))

    def meters(self, month: str) -> list[Meter]:
        return self._table.read_all(Meter, f"COST#{month}")


def booking(entry: LedgerEntry) -> list[Write]:
    kept = insert(_ledger_key(entry), entry)
    if entry.ended_at is not None:
        return [kept]
    return [kept, insert(_open_key(entry), entry, until=entry.booked_at + _OPEN_KEPT)]


def _ledger_key(entry: LedgerEntry) -> Key:
    return (
        f"LEDGER#{month_of(entry.booked_at)}",
        f"{iso(entry.booked_at)}#{entry.episode.execution_name}",
    )


def _open_key(entry: LedgerEntry) -> Key:
    ref = entry.episode
    return target_pk(ref.target), f"OPENLEDGER#{ref.instance_id}#{ref.execution_name}"


def _meter_key(target: Target, month: str) -> Key:
    return f"COST#{month}", place(target)
