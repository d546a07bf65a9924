"""What booked actions have saved in a time, summed up: by step of the waterfall, and by day."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

from governor.domain.money.cost import LedgerEntry, cost_between, month_end, month_of, month_start, saved_in
from governor.domain.units import Usd, UtcDatetime

DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Saved:
    """The net saving of a time: what was avoided, less what was undone, less storage. `unpriced` counts
    actions whose price is not known: they are in no amount."""

    avoided_usd: Usd = Decimal(0)
    """What the instances would have cost, had they run on."""
    undone_usd: Usd = Decimal(0)
    """That part of it which false stops avoided: nobody wanted it."""
    storage_usd: Usd = Decimal(0)
    """What volumes and snapshots of the other instances cost meanwhile."""
    actions: int = 0
    false_stops: int = 0
    unpriced: int = 0

    @property
    def net_usd(self) -> Usd:
        return self.avoided_usd - self.undone_usd - self.storage_usd


def months(first: datetime, last: datetime) -> list[str]:
    """The months from one moment to another, as `yyyy-mm`."""
    found, at = [], month_start(first)
    while at <= last:
        found.append(month_of(at))
        at = month_end(at)
    return found


def sum_saved(
    entries: Iterable[LedgerEntry], start: UtcDatetime, end: UtcDatetime, counts_for: timedelta
) -> Saved:
    avoided = undone = storage = Decimal(0)
    actions = false_stops = unpriced = 0
    for entry in entries:
        if not entry.ours:
            continue
        actions += start <= entry.booked_at < end
        false_stops += entry.false_stop and entry.ended_at is not None and start <= entry.ended_at < end
        before = entry.cost_before_usd_per_hour
        saved = saved_in(entry, start, end, counts_for)
        if before is None or saved is None:
            unpriced += start <= entry.booked_at < end
            continue
        over = min(end, entry.ended_at or end, entry.booked_at + counts_for)
        whole = cost_between(before, max(start, entry.booked_at), over)
        avoided += whole
        if entry.false_stop:
            undone += whole
        else:
            storage += whole - saved
    return Saved(avoided, undone, storage, actions, false_stops, unpriced)


def net_by_day(
    entries: Iterable[LedgerEntry], days: Sequence[date], now: UtcDatetime, counts_for: timedelta
) -> list[Usd]:
    """The net saving of each of these days (UTC, one after another), up to now."""
    found = [Decimal(0)] * len(days)
    first = datetime.combine(days[0], time(), tzinfo=UTC)
    for entry in entries:
        if not entry.ours or entry.saved_usd_per_hour is None:
            continue
        start = max(first, entry.booked_at)
        end = min(now, entry.ended_at or now, entry.booked_at + counts_for, first + DAY * len(days))
        for number in range(max(0, (start - first) // DAY), min(len(days), (end - first) // DAY + 1)):
            begin = first + DAY * number
            found[number] += saved_in(entry, begin, min(now, begin + DAY), counts_for) or Decimal(0)
    return found
