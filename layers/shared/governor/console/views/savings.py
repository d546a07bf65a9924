"""Savings of a month: the net figure with the steps that lead to it, by day, by whom, and every entry."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from itertools import accumulate

from governor.console.page import Asked, Page, Table
from governor.console.views import charts, figures
from governor.domain.fleet.rows import Share
from governor.domain.money.cost import (
    DAY,
    LedgerEntry,
    Saved,
    month_end,
    month_of,
    month_start,
    net_by_day,
    saved_in,
    sum_saved,
)
from governor.domain.units import Usd, UtcDatetime

_ROWS, _NAMED, _MOMENT = 100, 10, timedelta(microseconds=1)
_GROUPS: Mapping[str, Callable[[LedgerEntry], str]] = {
    "owner": lambda entry: entry.owner,
    "project": lambda entry: entry.project,
    "type": lambda entry: entry.instance_type,
    "account": lambda entry: entry.episode.account,
}
_COLUMNS = (
    *("SubAccountId", "RegionId", "ResourceId", "ChargePeriodStart", "ChargePeriodEnd"),
    "ResourceName",
    *("x_Outcome", "x_InstanceType", "x_Owner", "x_Project", "x_PriceSource", "x_BookedAt", "x_EndedAt"),
    *("x_FalseStop", "x_Ours", "x_CostBeforePerHourUsd", "x_CostAfterPerHourUsd", "x_NetSavedUsd"),
    "x_Episode",
)
"""Dimensions as FOCUS 1.2 names them; measures and facts that it does not know begin with `x_`."""
Booked = tuple[LedgerEntry, Usd | None]
"""An action, and what it has saved in the month; `None` where the price is not known."""


def savings(ask: Asked) -> Page:
    """Raises: InputError for a month or a page that cannot be."""
    start, now, counts_for = figures.month_in(ask), ask.now, ask.counts_for
    end, before = min(now, month_end(start)), month_start(start - DAY)
    entries = figures.ledger_in(ask, before, end)
    saved = sum_saved(entries, start, end, counts_for)
    days = figures.days_between(start.date(), (month_end(start) - DAY).date())
    costs = figures.total([share for *_, share in figures.shares(ask, days[0], days[-1])])
    booked = _in_month(entries, start, end, counts_for)
    table = Table("savings", _COLUMNS, tuple(_cells(one, start, end, counts_for) for one in booked))
    groups = {name: _grouped(booked, key) for name, key in _GROUPS.items()}
    steps = _steps(saved, costs)
    this, month = {"month": f"{start:%Y-%m}"}, f"{start:%B %Y}"
    shown, pages = figures.paged(ask, "/savings", this, booked, _ROWS)
    so_far = net_by_day(entries, figures.days_between(days[0], (end - _MOMENT).date()), end, counts_for)
    earlier = net_by_day(entries, figures.days_between(before.date(), days[0] - DAY), start, counts_for)
    sums = [
        ("month-before", list(accumulate(earlier))[: len(days)]),
        ("this-month", list(accumulate(so_far))),
    ]
    return Page(
        title=f"Savings in {month}",
        template="savings.html",
        values={
            "saved": saved,
            "month": month,
            "is_now": month_of(now) == month_of(start),
            "steps": [(*one, charts.bar(one[2], one[3], one[4], steps[0][1])) for one in steps],
            "chart": charts.lines(days, sums),
            "groups": {name: group[:_NAMED] for name, group in groups.items()},
            "booked": shown,
            "pages": pages,
            "count": len(booked),
            "names": {row.instance_id: row.name for row, _ in ask.seen},
            "earlier": figures.with_query("/savings", {"month": f"{before:%Y-%m}"}),
            "later": f"{end:%Y-%m}" if end < now else "",
            "csv": figures.with_query("/savings.csv", this),
        },
        document={
            "month": f"{start:%Y-%m}",
            "net_usd": saved.net_usd,
            "saved": saved,
            "steps": [{"step": text, "usd": amount} for text, amount, *_ in steps],
            **{
                f"by_{name}": [{name: who, "net_usd": amount} for who, amount, _ in group]
                for name, group in groups.items()
            },
            "entries": table.documents,
        },
        tables=(table,),
    )


def _in_month(
    entries: Iterable[LedgerEntry], start: UtcDatetime, end: UtcDatetime, counts_for: timedelta
) -> list[Booked]:
    counting = [
        (one, saved_in(one, start, end, counts_for) if one.ours else Decimal(0))
        for one in entries
        if one.booked_at < end and min(one.ended_at or end, one.booked_at + counts_for) >= start
    ]
    return sorted(counting, key=lambda one: one[0].booked_at, reverse=True)


def _grouped(booked: Sequence[Booked], key: Callable[[LedgerEntry], str]) -> list[tuple[str, Usd, int]]:
    """Return name, net saving and number of actions, the highest saving first."""
    sums: dict[str, list[Usd]] = defaultdict(list)
    for entry, saved in booked:
        sums[key(entry)].append(saved or Decimal(0))
    found = ((name, sum(amounts, Decimal(0)), len(amounts)) for name, amounts in sums.items())
    return sorted(found, key=lambda one: (-one[1], one[0]))


def _steps(saved: Saved, costs: Share) -> list[tuple[str, Usd, str, Usd, Usd]]:
    """Return the waterfall: words, amount, class of the bar, and between which two amounts it is drawn."""
    found = costs.idle + costs.kept + saved.avoided_usd
    steps = [("Idle cost found", found, "idle", Decimal(0), found)]
    level = found
    for text, amount, kind in (
        ("Kept by choice", costs.kept, "kept"),
        ("Not answered, or before the answer", costs.idle, "idle"),
        ("Undone", saved.undone_usd, "not-measured"),
        ("Storage of what was stopped", saved.storage_usd, "not-measured"),
    ):
        steps.append((text, -amount, kind, level - amount, level))
        level -= amount
    return [*steps, ("Net saving", saved.net_usd, "net", Decimal(0), max(saved.net_usd, Decimal(0)))]


def _cells(one: Booked, start: UtcDatetime, end: UtcDatetime, counts_for: timedelta) -> tuple[object, ...]:
    entry, saved = one
    ref, until = entry.episode, min(end, entry.ended_at or end, entry.booked_at + counts_for)
    return (
        *(ref.account, ref.region, ref.instance_id, max(start, entry.booked_at), until, entry.resource_name),
        *(entry.outcome.value, entry.instance_type, entry.owner, entry.project, entry.price_source),
        *(entry.booked_at, entry.ended_at, entry.false_stop, entry.ours),
        *(entry.cost_before_usd_per_hour, entry.cost_after_usd_per_hour, saved, ref.execution_name),
    )
