"""Computes what each action in the ledger saved, and the savings of a month, in Decimal USD: at
list prices, in cash and conservatively.

A saving is computed in three ways: at list prices; in cash, as the least and the most by which the
bill can have fallen; and conservatively, as if people had done the same on their next working
morning. An unknown price is never booked as zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

from governor.core.instance import Instance, Lifecycle
from governor.core.units import Usd, UsdPerHour, UtcDatetime
from governor.episode.model.episode import Episode, Outcome
from governor.episode.model.plan import Price
from governor.money.model.ledger import Cash, LedgerEntry, Saved, Statement
from governor.money.rules.cost import DAY, PREPAID, cost_between, month_end, parse_month
from governor.policy.rules.schedule import next_morning

ENDED_WITHOUT_ACTION = (
    Outcome.KEPT,
    Outcome.EXEMPTED,
    Outcome.EXPIRED,
    Outcome.OBSERVED,
    Outcome.TOLD,
)
"""Outcomes after which the instance kept running idle, because of an answer, the mode or no
answer."""
_LEAST_BILLED = timedelta(seconds=60)
"""The least time that AWS bills for a start."""
_BY_THE_HOUR = "SUSE Linux"
"""The platform of which each hour that has begun is billed in full. Source: AWS knowledge center,
How am I charged for my EC2 instances."""
PROVISIONAL = timedelta(days=14)
"""How long after the end of a month its bill may change."""


def cash_of(instance: Instance, price: Price, *, is_committed: bool) -> Cash | None:
    """Return the least and the most by which one hour less of the instance lowers the bill; `None`
    if its price is not known.

    Both are zero for capacity that is paid for anyway. If `is_committed`, a Savings Plan or a
    Reserved Instance may pay for the instance. It is charged whether it is used or not, so the
    least is zero then.
    """
    if price.usd_per_hour is None:
        return None
    if instance.lifecycle in PREPAID or instance.host_id or instance.capacity_reservation_id:
        return Cash(Decimal(0), Decimal(0))
    if instance.lifecycle is Lifecycle.SPOT or not is_committed:
        return Cash(price.usd_per_hour, price.usd_per_hour)
    return Cash(Decimal(0), price.usd_per_hour)


def billed_until(instance: Instance, stopped_at: UtcDatetime) -> UtcDatetime:
    """Return until when AWS bills a run that ended at `stopped_at`: at least 60 seconds from its
    start, and whole hours for SUSE Linux."""
    least = instance.launch_time + _LEAST_BILLED
    if instance.platform.startswith(_BY_THE_HOUR):
        # Rounded up: an hour that has begun is billed in full.
        hours = -((instance.launch_time - stopped_at) // timedelta(hours=1))
        least = instance.launch_time + timedelta(hours=max(1, hours))
    return max(stopped_at, least)


def working_morning(episode: Episode, after: UtcDatetime) -> UtcDatetime:
    """Return when a working day of the people who were asked next begins after `after`, in UTC.
    That may be later on the same day."""
    working_hours = (
        episode.asking.time_zone,
        episode.asking.working_days,
        episode.asking.working_from,
    )
    # Two days back, because the day of a change to summer time has 23 hours.
    morning = next_morning(after - 2 * DAY, *working_hours)
    while morning <= after:
        morning = next_morning(morning, *working_hours)
    return morning


def is_provisional(month: str, now: UtcDatetime) -> bool:
    """Return whether the bill of this month (`yyyy-mm`) may still change: until the 15th of the
    next month."""
    return now < month_end(parse_month(month)) + PROVISIONAL


def saved_in(
    entry: LedgerEntry, start: datetime, end: datetime, counts_for: timedelta
) -> Usd | None:
    """Return the net USD that the entry saved between `start` and `end`, at most for `counts_for`
    after its booking.

    Return 0 for a false stop, or if the saving lies outside of that time; `None` if the price is
    not known.
    """
    if entry.saved_usd_per_hour is None:
        return None
    if entry.false_stop:
        return Decimal(0)
    return cost_between(entry.saved_usd_per_hour, *entry.saving_span(start, end, counts_for))


def is_false_stop(entry: LedgerEntry, restarted_at: datetime, within: timedelta) -> bool:
    """Return whether the entry is a stop, and the instance was started again `within` this time
    after its booking: the stop was wrong then. An entry that continues a saving after a start that
    fell back is never one: the entry that this start ended says whether the stop was false."""
    if entry.is_continuation:
        return False
    return entry.outcome is Outcome.STOPPED and restarted_at - entry.booked_at <= within


def stops_booked_by(entries: Sequence[LedgerEntry], at: UtcDatetime) -> list[LedgerEntry]:
    """Return the stops among these entries that were booked at `at` or earlier, without
    terminations: their savings end if the instance is started or terminated then. Empty if there
    are none."""
    stops: list[LedgerEntry] = []
    for entry in entries:
        if entry.booked_at <= at and entry.outcome is Outcome.STOPPED:
            stops.append(entry)
    return stops


def statement_of(
    entries: Iterable[LedgerEntry], month: str, as_of: UtcDatetime, counts_for: timedelta
) -> Statement:
    """Return the statement of a month (`yyyy-mm`): its net saving and its number of entries, from
    the `entries` as they were stored at `as_of`. Entries booked before the month count while their
    savings do."""
    start = parse_month(month)
    known_entries = []
    for entry in entries:
        written_at = entry.recorded_at or entry.booked_at
        if entry.booked_at >= start - counts_for and written_at <= as_of:
            known_entries.append(_known_at(entry, as_of))
    saved = sum_saved(known_entries, start, min(as_of, month_end(start)), counts_for)
    return Statement(month, as_of, counts_for // DAY, saved.net_usd, len(known_entries))


def _known_at(entry: LedgerEntry, at: UtcDatetime) -> LedgerEntry:
    """Return the entry as it was stored at `at`: open if its end was written later. Corrections by
    a bill stay."""
    end_written_at = entry.settled_at or entry.ended_at
    if end_written_at is None or end_written_at <= at:
        return entry
    return replace(entry, ended_at=None, false_stop=False, ended=None)


def sum_saved(
    entries: Iterable[LedgerEntry], start: UtcDatetime, end: UtcDatetime, counts_for: timedelta
) -> Saved:
    """Return what GPU Governor's own actions have saved from `start` to before `end`; zero if there
    are none. Entries of other people's actions do not count.

    `actions` counts the entries booked within this time, and `unpriced` those of them whose price
    is not known, which save no amount. `false_stops` counts the false stops that ended within it.
    Each entry saves for `counts_for` at most. A continuation saves, too, but is no new action.
    """
    ours = [entry for entry in entries if entry.ours]
    actions = [entry for entry in ours if not entry.is_continuation]
    booked = [entry for entry in actions if start <= entry.booked_at < end]
    return replace(
        _sum_amounts(ours, start, end, counts_for),
        actions=len(booked),
        false_stops=sum(_is_false_stop_of(entry, start, end) for entry in ours),
        unpriced=sum(not _is_priced(entry) for entry in booked),
    )


def _is_false_stop_of(entry: LedgerEntry, start: datetime, end: datetime) -> bool:
    """Return whether the entry is a false stop that ended from `start` to before `end`."""
    if not entry.false_stop or entry.ended_at is None:
        return False
    return start <= entry.ended_at < end


def _is_priced(entry: LedgerEntry) -> bool:
    """Return whether the price of the instance was known, so that the saving is an amount."""
    return entry.cost_before_usd_per_hour is not None and entry.saved_usd_per_hour is not None


def _sum_amounts(
    entries: Iterable[LedgerEntry], start: UtcDatetime, end: UtcDatetime, counts_for: timedelta
) -> Saved:
    """Return the amounts that these entries save from `start` to before `end`, without those whose
    price is not known; all zero if there are none. A false stop adds to the avoided and the undone
    cost alone. The counts in the result, such as `actions`, stay zero."""
    avoided = Decimal(0)
    undone = Decimal(0)
    storage = Decimal(0)
    cash_low = Decimal(0)
    cash_high = Decimal(0)
    by_morning = Decimal(0)
    for entry in entries:
        cost_per_hour = entry.cost_before_usd_per_hour
        saved_per_hour = entry.saved_usd_per_hour
        if cost_per_hour is None or saved_per_hour is None:
            continue
        saves_from, saves_until = entry.saving_span(start, end, counts_for)
        cost = cost_between(cost_per_hour, saves_from, saves_until)
        avoided += cost
        if entry.false_stop:
            undone += cost
            continue
        storage += cost - cost_between(saved_per_hour, saves_from, saves_until)
        cash = _cash_bounds(entry, saved_per_hour)
        cash_low += cost_between(cash.low, saves_from, saves_until)
        cash_high += cost_between(cash.high, saves_from, saves_until)
        morning = entry.morning or saves_from
        by_morning += cost_between(saved_per_hour, saves_from, min(saves_until, morning))
    return Saved(
        avoided_usd=avoided,
        undone_usd=undone,
        storage_usd=storage,
        cash_low_usd=cash_low,
        cash_high_usd=cash_high,
        by_morning_usd=by_morning,
    )


def _cash_bounds(entry: LedgerEntry, saved_per_hour: UsdPerHour) -> Cash:
    """Return the least and the most cash that an hour saves, as the entry records them. A missing
    least is zero; a missing most is the saving at list prices (`saved_per_hour`)."""
    low = entry.cash_low_usd_per_hour
    if low is None:
        low = Decimal(0)
    high = entry.cash_high_usd_per_hour
    if high is None:
        high = saved_per_hour
    return Cash(low, high)


def net_by_day(
    entries: Iterable[LedgerEntry], days: Sequence[date], now: UtcDatetime, counts_for: timedelta
) -> list[Usd]:
    """Return the net saving of each of these days (UTC, consecutive, at least one), up to now.

    Entries that are not ours or have no price save nothing. `counts_for` is how long an action's
    saving counts.
    """
    net_usd = [Decimal(0)] * len(days)
    first_midnight = datetime.combine(days[0], time(), tzinfo=UTC)
    end = min(now, first_midnight + DAY * len(days))
    for entry in entries:
        if not entry.ours or entry.saved_usd_per_hour is None:
            continue
        saves_from, saves_until = entry.saving_span(first_midnight, end, counts_for)
        first_day = max(0, (saves_from - first_midnight) // DAY)
        day_after = min(len(days), (saves_until - first_midnight) // DAY + 1)
        for number in range(first_day, day_after):
            midnight = first_midnight + DAY * number
            saved = saved_in(entry, midnight, min(now, midnight + DAY), counts_for)
            net_usd[number] += saved or Decimal(0)
    return net_usd
