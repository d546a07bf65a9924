"""The ledger of savings, whose entries are never changed, and the meters of the projects' costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from governor.core.instance import Target
from governor.core.units import UtcDatetime, iso
from governor.fleet.model import DayCosts
from governor.fleet.store import replace_day_write
from governor.money.model.ledger import Cash, Ending, LedgerEntry, Statement
from governor.money.rules.cost import Meter, month_of, parse_month
from governor.table.keys import place, target_pk
from governor.table.table import (
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
"""How long an entry can stay open: longer than the policy lets a saving count, so that a later end
would change no sum."""
_END = "#END"
"""The key of an entry's end is the key of the entry followed by this."""
_BILL = "#BILL#"
"""The key of a correction by a bill is the key of the entry followed by this and a time."""


class Ledger(Store):
    """Booked savings, and the costs of projects. A month is `yyyy-mm`. Every method may raise
    CloudError."""

    def open_entries(self, target: Target, instance_id: str) -> list[LedgerEntry]:
        """Return the open entries of an instance, oldest episode first; empty if there are none.

        An entry that ended because another instance took its place stays open until its own
        instance is started or terminated.
        """
        return self._table.read_all(LedgerEntry, target_pk(target), f"OPENLEDGER#{instance_id}#")

    def open_of(self, target: Target) -> list[LedgerEntry]:
        """Return the open entries of all instances of a target; empty if there are none."""
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
        """End an entry by adding its end. Return false if it has ended before.

        `by` is the id of the instance that replaces it; return false, too, if that one has replaced
        another. An entry that was replaced before gets no second end: it only stops counting as
        open.
        """
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
            # The previous release reads this item as one more entry, and must not count it.
            ours=False,
        )
        pk, sk = _ledger_key(entry)
        adding_end = insert((pk, sk + _END), end)
        writes = [_settling_open(entry, end), adding_end]
        if by:
            # An instance replaces only one other.
            replacement_key = (f"EVENT#replaces#{by}#{iso(ended_at)}", "SEEN")
            writes.append(insert(replacement_key, {}, until=now + _REPLACED_KEPT))
        return self._table.try_transaction(*writes)

    def correct(self, entry: LedgerEntry, cash: Cash, source: str, now: UtcDatetime) -> None:
        """Add the cash saving an hour that a bill shows, with its `source`. The last correction
        counts."""
        correction = replace(
            entry,
            cash_low_usd_per_hour=cash.low,
            cash_high_usd_per_hour=cash.high,
            cash_source=source,
            corrected_at=now,
            ours=False,
        )
        pk, sk = _ledger_key(entry)
        self._table.write(insert((pk, f"{sk}{_BILL}{iso(now)}"), correction))

    def entries(self, month: str) -> list[LedgerEntry]:
        """Return the entries booked in a month, oldest first, each with its end and its last
        correction by a bill; empty if there are none."""
        booked: list[Document] = []
        later: list[Document] = []
        for item in self._table.query(f"LEDGER#{month}"):
            if _END in item["sk"] or _BILL in item["sk"]:
                later.append(item)
            else:
                booked.append(item)
        entries = {entry.episode: entry for entry in self._table.records(LedgerEntry, booked)}
        for addition in self._table.records(LedgerEntry, later):
            entry = entries.get(addition.episode)
            if entry is not None:
                changes = (
                    addition.correction_fields if addition.corrected_at else addition.end_fields
                )
                entries[addition.episode] = replace(entry, **changes)
        return list(entries.values())

    def last_statement(self, month: str) -> Statement | None:
        """Return the last statement of a month; `None` if there is none."""
        statements = self._table.read_all(Statement, f"STATEMENT#{month}")
        return statements[-1] if statements else None

    def keep_statement(self, statement: Statement) -> None:
        """Keep this statement beside earlier ones of its month."""
        key = (f"STATEMENT#{statement.month}", iso(statement.as_of))
        self._table.try_write(insert(key, statement))

    def meter(self, target: Target, month: str) -> Meter | None:
        """Return the costs of a target in a month; `None` if nothing was counted."""
        return self._table.read(Meter, _meter_key(target, month))

    def bring_forward(
        self, meter: Meter, seen: Meter | None, days: Iterable[DayCosts] = ()
    ) -> bool:
        """Replace the meter `seen` (`None` if there was none) and the costs of these days, all or
        nothing. Return false if another caller has replaced the meter."""
        is_unchanged = absent()
        if seen is not None:
            is_unchanged = where("counted_until", "=", seen.counted_until)
        key = _meter_key(meter.target, meter.month)
        until = parse_month(meter.month) + _METERS_KEPT
        day_writes = [replace_day_write(day) for day in days]
        return self._table.try_transaction(put(key, meter, is_unchanged, until=until), *day_writes)

    def meters(self, month: str) -> list[Meter]:
        """Return the meters of all targets for a month; empty if nothing was counted."""
        return self._table.read_all(Meter, f"COST#{month}")


def booking(entry: LedgerEntry | None) -> list[Write]:
    """Return the writes that book an entry, open or ended; an empty list if there is no entry."""
    if entry is None:
        return []
    booked = insert(_ledger_key(entry), entry)
    if entry.ended_at is not None:
        return [booked]
    return [booked, insert(_open_key(entry), entry, until=entry.booked_at + _OPEN_KEPT)]


def _settling_open(entry: LedgerEntry, end: LedgerEntry) -> Write:
    """Return the write that settles the open entry: it is deleted, or kept with its end while its
    instance may still be stopped."""
    if not end.may_still_be_stopped:
        return delete(_open_key(entry), present())
    until = entry.booked_at + _OPEN_KEPT
    return put(_open_key(entry), end, present(), until=until)


def _ledger_key(entry: LedgerEntry) -> Key:
    sk = f"{iso(entry.booked_at)}#{entry.episode.execution_name}"
    return f"LEDGER#{month_of(entry.booked_at)}", sk


def _open_key(entry: LedgerEntry) -> Key:
    ref = entry.episode
    return target_pk(ref.target), f"OPENLEDGER#{ref.instance_id}#{ref.execution_name}"


def _meter_key(target: Target, month: str) -> Key:
    return f"COST#{month}", place(target)
