"""The ledger of savings, and the meters of what projects cost."""

from __future__ import annotations

from datetime import datetime, timedelta

from governor.adapters.table.client import (
    Key,
    Store,
    Write,
    absent,
    delete,
    epoch,
    insert,
    present,
    put,
    update,
    where,
)
from governor.adapters.table.codec import moment, read_item, written
from governor.adapters.table.keys import target_pk
from governor.domain.instance import Target
from governor.domain.money.cost import Meter, month_of, parse_month
from governor.domain.money.ledger import LedgerEntry
from governor.domain.units import iso

_METERS_KEPT = timedelta(days=400)


class LedgerStore(Store):
    """The port `Ledger`."""

    def open_entries(self, target: Target, instance_id: str) -> list[LedgerEntry]:
        items = self._table.query(target_pk(target), f"OPENLEDGER#{instance_id}#")
        return [read_item(LedgerEntry, item) for item in items]

    def settle_entry(self, entry: LedgerEntry, ended_at: datetime, *, false_stop: bool) -> bool:
        ended = {"ended_at": moment(ended_at), "false_stop": false_stop}
        return self._table.wins(
            delete(_open_key(entry), present()), update(_ledger_key(entry), ended, present())
        )

    def entries(self, month: str) -> list[LedgerEntry]:
        return [read_item(LedgerEntry, item) for item in self._table.query(f"LEDGER#{month}")]

    def meter(self, target: Target, month: str) -> Meter | None:
        item = self._table.get(_meter_key(target, month))
        return read_item(Meter, item) if item else None

    def bring_forward(self, meter: Meter, seen: Meter | None) -> bool:
        expiry = {"expires_at_epoch": epoch(parse_month(meter.month) + _METERS_KEPT)}
        unchanged = absent() if seen is None else where("counted_until", "=", moment(seen.counted_until))
        key = _meter_key(meter.target, meter.month)
        return self._table.wins(put(key, {**written(meter), **expiry}, unchanged))

    def meters(self, month: str) -> list[Meter]:
        return [read_item(Meter, item) for item in self._table.query(f"COST#{month}")]


def booking(entry: LedgerEntry) -> list[Write]:
    """The writes that book an entry once."""
    booked = [insert(_ledger_key(entry), written(entry))]
    if entry.ended_at is None:
        booked.append(insert(_open_key(entry), written(entry)))
    return booked


def _ledger_key(entry: LedgerEntry) -> Key:
    return f"LEDGER#{month_of(entry.booked_at)}", f"{iso(entry.booked_at)}#{entry.episode.execution_name}"


def _open_key(entry: LedgerEntry) -> Key:
    ref = entry.episode
    return target_pk(ref.target), f"OPENLEDGER#{ref.instance_id}#{ref.execution_name}"


def _meter_key(target: Target, month: str) -> Key:
    return f"COST#{month}", f"{target.account}#{target.region}"
