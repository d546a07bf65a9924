"""Stores the ledger of savings, whose entries are never changed, and the meters of the projects'
costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from governor.core.episode_ref import EpisodeRef
from governor.core.instance import Target
from governor.core.units import UtcDatetime, iso
from governor.episode.model.episode import Outcome
from governor.episode.model.start_try import StartTry
from governor.fleet.model import DayCosts
from governor.fleet.store import replace_day_write
from governor.money.model.ledger import Cash, Ending, LedgerEntry, Statement
from governor.money.rules.cost import Meter, month_of, months, parse_month
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
_GOES_ON = f"{_BILL}goes-on"
"""The key of an entry that goes on with the saving of a stop ends with this.

The previous release takes such an item, and the end of it, for a correction by a bill with the same
figures. So it counts the stop until the start that fell back: less than was saved, never more.
"""


class Ledger(Store):
    """Booked savings, and the costs of projects. A month is `yyyy-mm`. Every method may raise
    CloudError."""

    def open_entries(self, target: Target, instance_id: str) -> list[LedgerEntry]:
        """Return the open entries of an instance; empty if there are none.

        An entry that ended because another instance took its place stays open until its own
        instance is started or terminated. Raises: CloudError.
        """
        return self._table.read_all(LedgerEntry, target_pk(target), f"OPENLEDGER#{instance_id}#")

    def open_of(self, target: Target) -> list[LedgerEntry]:
        """Return the open entries of all instances of a target; empty if there are none.

        An entry that ended because another instance took its place stays open until its own
        instance is started or terminated. Raises: CloudError.
        """
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
        """Store that the saving of an entry ended at `ended_at`, and return true. `by` is the id of
        the instance that replaces its instance; empty if none does.

        Return false, and add no end, if the entry has ended before, or `by` has replaced another
        instance. If `entry` itself says that it has ended, it is deleted from the open ones.
        Raises: CloudError.
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
        adding_end = insert((pk, sk + _END), _stored(end))
        writes = [_settling_open(entry, end), adding_end]
        if by:
            # This write fails, and with it all, if the instance has replaced another one.
            replacement_key = (f"EVENT#replaces#{by}#{iso(ended_at)}", "SEEN")
            writes.append(insert(replacement_key, {}, until=now + _REPLACED_KEPT))
        return self._table.try_transaction(*writes)

    def correct(self, entry: LedgerEntry, cash: Cash, source: str, now: UtcDatetime) -> None:
        """Store the cash saving an hour that a bill shows for an entry, beside the entry. `source`
        names the bill. The last correction counts. Raises: ConflictError if one of the same second
        exists; CloudError."""
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
        """Return the entries booked in a month (`yyyy-mm`), oldest first, each with its end and its
        last correction by a bill; empty if there are none. Raises: CloudError, also if an entry is
        damaged."""
        return self._with_ends_and_corrections(self._table.query(f"LEDGER#{month}"))

    def newest_of(
        self,
        ref: EpisodeRef,
        first_booked_at: UtcDatetime,
        started_at: UtcDatetime,
        now: UtcDatetime,
    ) -> LedgerEntry | None:
        """Return the entry of this episode that was booked last, with its end and its last
        correction by a bill; `None` if there is none. The first one was booked at
        `first_booked_at`, and the instance was started last at `started_at`.

        After a start that fell back, an episode has a further entry. Later entries are looked for
        only if an earlier start ended the saving of the first one. Raises: CloudError.
        """
        first = self._first_of(ref, first_booked_at)
        if first is None or first.ended_at is None or first.ended_at >= started_at:
            return first
        for month in reversed(months(first.ended_at, now)):
            items = self._table.query(f"LEDGER#{month}", after=iso(first.ended_at))
            entries = self._with_ends_and_corrections(_items_of(ref, items))
            if entries:
                return entries[-1]
        return first

    def end_of_stop(
        self,
        ref: EpisodeRef,
        stopped_at: UtcDatetime,
        now: UtcDatetime,
        *,
        fell_back: StartTry | None = None,
    ) -> LedgerEntry | None:
        """Return the entry of this episode's stop, which was booked at `stopped_at`, if its
        instance was started or terminated since; `None` if it was not, or there is no entry.

        `fell_back` is the last try to start it, if the instance ran and is stopped again since. An
        entry that ended with that try has a stop that goes on. Raises: CloudError.
        """
        # The first entry is enough, unless a further one may go on with its saving.
        looks_from = stopped_at if fell_back is None else now
        newest = self.newest_of(ref, stopped_at, looks_from, now)
        if newest is None or newest.ended_at is None:
            return None
        if fell_back is not None and fell_back.explains_start(newest.ended_at):
            return None
        if newest.ended is not Ending.REPLACED:
            return newest
        open_entries = self.open_entries(ref.target, ref.instance_id)
        is_still_stopped = any(entry.episode == ref for entry in open_entries)
        return None if is_still_stopped else newest

    def _first_of(self, ref: EpisodeRef, booked_at: UtcDatetime) -> LedgerEntry | None:
        """Return the first entry of this episode, which was booked at `booked_at`, with its end and
        its last correction by a bill; `None` if there is none. Raises: CloudError."""
        pk, sk = _key_at(ref, booked_at)
        items = self._table.query(pk, sk)
        # The name of another episode of the instance may begin with that of this one.
        entries = self._with_ends_and_corrections(_items_of(ref, items))
        return entries[0] if entries else None

    def _with_ends_and_corrections(self, items: Iterable[Document]) -> list[LedgerEntry]:
        """Return the entries among these items of one month, in their order, each with its end and
        its last correction by a bill; empty if there are none. Raises: CloudError, also if an entry
        is damaged."""
        booked: list[Document] = []
        ends: list[Document] = []
        corrections: list[Document] = []
        for item in items:
            if _is_end(item):
                ends.append(item)
            elif _is_correction(item):
                corrections.append(item)
            else:
                booked.append(item)
        entries: dict[Key, LedgerEntry] = {}
        for entry in self._table.records(LedgerEntry, booked):
            # Only a correction itself has this time, and the stored form of `_stored`.
            entries[_name_of(entry)] = replace(entry, corrected_at=None)
        for end in self._table.records(LedgerEntry, ends):
            _change(entries, end, end.end_fields)
        for correction in self._table.records(LedgerEntry, corrections):
            _change(entries, correction, correction.correction_fields)
        return list(entries.values())

    def book(self, entry: LedgerEntry) -> bool:
        """Store an entry, and return true. Return false, with nothing changed, if it is stored, or
        another entry of its episode is open. Raises: CloudError."""
        return self._table.try_transaction(*booking(entry))

    def terminated(self, month: str) -> list[LedgerEntry]:
        """Return the entries booked in a month (`yyyy-mm`) whose instance is terminated, oldest
        first; empty if there are none. Of an instance that was stopped first, the stored end of the
        stop is returned. Raises: CloudError."""
        items: list[Document] = []
        for item in self._table.query(f"LEDGER#{month}"):
            is_termination = item.get("outcome") == Outcome.TERMINATED
            is_ended_by_one = item.get("ended") == Ending.TERMINATED
            if (is_termination or is_ended_by_one) and not _is_correction(item):
                items.append(item)
        entries = {_ledger_key(entry): entry for entry in self._table.records(LedgerEntry, items)}
        return list(entries.values())

    def ends_of(self, stops: Mapping[EpisodeRef, UtcDatetime]) -> dict[EpisodeRef, LedgerEntry]:
        """Return those of these stops whose instance was started or terminated since, each with its
        end, by one read; empty if there are none. `stops` has the booking of each by its episode.

        A stop whose place another instance had taken counts as started then: its later end is not
        stored. Raises: CloudError.
        """
        wanted_keys: list[Key] = []
        for ref, booked_at in stops.items():
            pk, sk = _key_at(ref, booked_at)
            # A stop has ended under the first key, a saving that goes on under the second.
            wanted_keys.append((pk, sk + _END))
            wanted_keys.append((pk, sk + _GOES_ON + _END))
            wanted_keys.append(_open_key_of(ref))
        items = self._table.get_all(wanted_keys)
        stored_ends = [item for item in items if _END in item["sk"]]
        open_names = {item["sk"] for item in items if _END not in item["sk"]}
        ends: dict[EpisodeRef, LedgerEntry] = {}
        for end in self._table.records(LedgerEntry, stored_ends):
            _, open_name = _open_key_of(end.episode)
            if open_name in open_names:
                continue
            is_replaced = end.ended is Ending.REPLACED
            started = replace(end, ended=Ending.STARTED, ended_at=None)
            ends[end.episode] = started if is_replaced else end
        return ends

    def last_statement(self, month: str) -> Statement | None:
        """Return the newest statement of a month (`yyyy-mm`); `None` if there is none. Raises:
        CloudError."""
        statements = self._table.read_all(Statement, f"STATEMENT#{month}")
        if not statements:
            return None
        return statements[-1]

    def keep_statement(self, statement: Statement) -> None:
        """Store this statement beside earlier ones of its month. Nothing is stored if one of the
        same second exists. Raises: CloudError."""
        key = (f"STATEMENT#{statement.month}", iso(statement.as_of))
        self._table.try_write(insert(key, statement))

    def meter(self, target: Target, month: str) -> Meter | None:
        """Return the meter of a target for a month (`yyyy-mm`); `None` if nothing was counted.
        Raises: CloudError."""
        return self._table.read(Meter, _meter_key(target, month))

    def bring_forward(
        self, meter: Meter, seen: Meter | None, days: Iterable[DayCosts] = ()
    ) -> bool:
        """Store this meter in place of the one that was `seen` (`None` if there was none), and the
        costs of these days, all or nothing; return true.

        Return false, with nothing stored, if another caller has replaced the meter. Raises:
        CloudError.
        """
        is_unchanged = absent()
        if seen is not None:
            is_unchanged = where("counted_until", "=", seen.counted_until)
        key = _meter_key(meter.target, meter.month)
        until = parse_month(meter.month) + _METERS_KEPT
        day_writes = [replace_day_write(day) for day in days]
        return self._table.try_transaction(put(key, meter, is_unchanged, until=until), *day_writes)

    def meters(self, month: str) -> list[Meter]:
        """Return the meters of all targets for a month (`yyyy-mm`); empty if nothing was
        counted. Raises: CloudError."""
        return self._table.read_all(Meter, f"COST#{month}")


def booking(entry: LedgerEntry | None) -> list[Write]:
    """Return the writes that book an entry, for a transaction; an empty list if `entry` is `None`.
    An entry that has not ended is also written among the open ones."""
    if entry is None:
        return []
    booked = insert(_ledger_key(entry), _stored(entry))
    if entry.ended_at is not None:
        return [booked]
    return [booked, insert(_open_key(entry), entry, until=entry.booked_at + _OPEN_KEPT)]


def _settling_open(entry: LedgerEntry, end: LedgerEntry) -> Write:
    """Return the write that takes an entry from the open ones: it is deleted, or replaced by `end`,
    the same entry with its end, while its instance may still be stopped.

    The write fails if the entry is not among the open ones: another call has ended it.
    """
    if not end.may_still_be_stopped:
        return delete(_open_key(entry), present())
    until = entry.booked_at + _OPEN_KEPT
    return put(_open_key(entry), end, present(), until=until)


def _stored(entry: LedgerEntry) -> LedgerEntry:
    """Return the entry, or the end of one, as the ledger stores it: one that goes on with a saving
    has the time of a correction, by which the previous release takes it for one."""
    if not entry.is_continuation:
        return entry
    return replace(entry, corrected_at=entry.recorded_at or entry.booked_at)


def _items_of(ref: EpisodeRef, items: Iterable[Document]) -> list[Document]:
    """Return those of these items of a month that belong to this episode; empty if there are
    none."""
    found = []
    for item in items:
        _, execution_name, *_ = item["sk"].split("#")
        if execution_name == ref.execution_name:
            found.append(item)
    return found


def _is_end(item: Document) -> bool:
    """Return whether an item of a month is the end of an entry."""
    name: str = item["sk"]
    return name.endswith(_END)


def _is_correction(item: Document) -> bool:
    """Return whether an item of a month is the correction of an entry by a bill."""
    name: str = item["sk"]
    return _BILL in name.replace(_GOES_ON, "")


def _change(
    entries: dict[Key, LedgerEntry], addition: LedgerEntry, changes: Mapping[str, Any]
) -> None:
    """Change the entry to which an addition belongs; do nothing if it is not among `entries`."""
    name = _name_of(addition)
    if name in entries:
        entries[name] = replace(entries[name], **changes)


def _name_of(entry: LedgerEntry) -> Key:
    """Return the key under which a month that was read keeps an entry. It is the same for its end
    and its corrections, by whichever release they were written."""
    return _key_at(entry.episode, entry.booked_at)


def _ledger_key(entry: LedgerEntry) -> Key:
    """Return the key of an entry in the ledger: `LEDGER#2026-11` by its month, then the ISO time of
    its booking, a `#` and the execution name of its episode. That of an entry which goes on with a
    saving ends with `#BILL#goes-on`."""
    pk, sk = _key_at(entry.episode, entry.booked_at)
    return (pk, sk + _GOES_ON) if entry.is_continuation else (pk, sk)


def _key_at(ref: EpisodeRef, booked_at: UtcDatetime) -> Key:
    """Return the key of the entry of this episode that was booked at `booked_at`."""
    return f"LEDGER#{month_of(booked_at)}", f"{iso(booked_at)}#{ref.execution_name}"


def _open_key(entry: LedgerEntry) -> Key:
    """Return the key of the copy of an entry that is kept while the entry is open: `TARGET#<place>`
    and `OPENLEDGER#<instance id>#<execution name>`."""
    return _open_key_of(entry.episode)


def _open_key_of(ref: EpisodeRef) -> Key:
    """Return the key of the copy of an open entry of this episode."""
    return target_pk(ref.target), f"OPENLEDGER#{ref.instance_id}#{ref.execution_name}"


def _meter_key(target: Target, month: str) -> Key:
    """Return the key of the meter of a target for a month (`yyyy-mm`): `COST#<month>`, and account
    and Region as `123456789012#us-east-1`."""
    return f"COST#{month}", place(target)
