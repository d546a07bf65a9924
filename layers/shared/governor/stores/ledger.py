"""The ledger of savings, and the meters of what projects cost."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from governor.domain.fleet.rows import DayCosts
from governor.domain.instance import Target
from governor.domain.money.cost import LedgerEntry, Meter, month_of, parse_month
from governor.domain.units import iso
from governor.stores.fleet import keeping
from governor.stores.keys import place, target_pk
from governor.stores.table import Key, Store, Write, absent, delete, insert, present, put, update, where

_METERS_KEPT = timedelta(days=400)


class Ledger(Store):
    """Booked savings, and what projects cost. A month is `yyyy-mm`."""

    def open_entries(self, target: Target, instance_id: str) -> list[LedgerEntry]:
        """Return the entries that are booked and not settled, oldest episode first."""
        return self._table.read_all(LedgerEntry, target_pk(target), f"OPENLEDGER#{instance_id}#")

    def settle_entry(self, entry: LedgerEntry, ended_at: datetime, *, false_stop: bool) -> bool:
        """End a ledger entry once; true when this call did."""
        ended = {"ended_at": ended_at, "false_stop": false_stop}
        return self._table.wins(
            delete(_open_key(entry), present()), update(_ledger_key(entry), ended, present())
        )

    def entries(self, month: str) -> list[LedgerEntry]:
        return self._table.read_all(LedgerEntry, f"LEDGER#{month}")

    def meter(self, target: Target, month: str) -> Meter | None:
        """Return what a target has cost in a month; `None` when nothing was counted."""
        return self._table.read(Meter, _meter_key(target, month))

    def bring_forward(self, meter: Meter, seen: Meter | None, days: Iterable[DayCosts] = ()) -> bool:
        """Put the meter in place of the one `seen`, with the days; false when another caller was faster."""
        unchanged = absent() if seen is None else where("counted_until", "=", seen.counted_until)
        until = parse_month(meter.month) + _METERS_KEPT
        forward = put(_meter_key(meter.target, meter.month), meter, unchanged, until=until)
        return self._table.wins(forward, *map(keeping, days))

    def meters(self, month: str) -> list[Meter]:
        return self._table.read_all(Meter, f"COST#{month}")


def booking(entry: LedgerEntry) -> list[Write]:
    open_too = [insert(_open_key(entry), entry)] if entry.ended_at is None else []
    return [insert(_ledger_key(entry), entry), *open_too]


def _ledger_key(entry: LedgerEntry) -> Key:
    return f"LEDGER#{month_of(entry.booked_at)}", f"{iso(entry.booked_at)}#{entry.episode.execution_name}"


def _open_key(entry: LedgerEntry) -> Key:
    ref = entry.episode
    return target_pk(ref.target), f"OPENLEDGER#{ref.instance_id}#{ref.execution_name}"


def _meter_key(target: Target, month: str) -> Key:
    return f"COST#{month}", place(target)
