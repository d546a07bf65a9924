"""Savings of a month: the net figure with the steps that lead to it, by day, by whom, and every
entry."""

from __future__ import annotations

from datetime import timedelta
from itertools import accumulate

from governor.console.page import Asked, Page, Table
from governor.console.views import charts, figures
from governor.domain.money.cost import DAY, month_end, month_of, month_start
from governor.domain.money.ledger import net_by_day
from governor.domain.money.report import COLUMNS, GROUPS, report

_ROWS, _NAMED, _MOMENT = 100, 10, timedelta(microseconds=1)


def savings(ask: Asked) -> Page:
    """Raises: InputError for a month or a page that cannot be."""
    start, now, counts_for = figures.month_in(ask), ask.now, ask.counts_for
    end, before = min(now, month_end(start)), month_start(start - DAY)
    entries = figures.ledger_in(ask, before, end)
    days = figures.days_between(start.date(), (month_end(start) - DAY).date())
    costs = figures.total([share for *_, share in figures.shares(ask, days[0], days[-1])])
    found = report(entries, [costs], start, end, now, counts_for)
    table = Table("savings", COLUMNS, found.rows)
    this, month = {"month": f"{start:%Y-%m}"}, f"{start:%B %Y}"
    shown, pages = figures.paged(ask, "/savings", this, found.lines, _ROWS)
    so_far = net_by_day(
        entries, figures.days_between(days[0], (end - _MOMENT).date()), end, counts_for
    )
    earlier = net_by_day(
        entries, figures.days_between(before.date(), days[0] - DAY), start, counts_for
    )
    sums = [
        ("month-before", list(accumulate(earlier))[: len(days)]),
        ("this-month", list(accumulate(so_far))),
    ]
    scale = found.steps[0].usd
    return Page(
        title=f"Savings in {month}",
        template="savings.html",
        values={
            "saved": found.saved,
            "month": month,
            "is_now": month_of(now) == month_of(start),
            "final_at": month_end(start) + DAY * 14 if found.provisional else None,
            "steps": [
                (*one, charts.bar(one.kind, one.start, one.end, scale)) for one in found.steps
            ],
            "chart": charts.lines(days, sums),
            "groups": {name: found.by(name)[:_NAMED] for name in GROUPS},
            "booked": shown,
            "counts_for": counts_for,
            "pages": pages,
            "count": len(found.lines),
            "names": {row.instance_id: row.name for row, _ in ask.seen},
            "earlier": before,
            "later": end if end < now else None,
            "csv": figures.with_query("/savings.csv", this),
        },
        document={"month": f"{start:%Y-%m}", **found.document},
        tables=(table,),
    )
