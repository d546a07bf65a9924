"""The Savings page of a month: the net figure with the steps that lead to it, by day, by group, and
every entry of the ledger that counts in the month.

Everything is computed by the ledger's own report; this page only arranges it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from itertools import accumulate

from governor.console.page import Page, Table, ViewRequest
from governor.console.views import addresses, charts, figures
from governor.core.units import UtcDatetime
from governor.money.model.ledger import LedgerEntry
from governor.money.rules import jobs
from governor.money.rules.cost import DAY, month_end, month_of, month_start
from governor.money.rules.ledger import PROVISIONAL, net_by_day
from governor.money.rules.report import COLUMNS, GROUPS, Report, report
from governor.scan.for_reports import found_waste

_ROWS = 100
"""Entries of the ledger on one page."""
_GROUPS_SHOWN = 10
"""The most groups of each kind that the page shows, the largest first."""
_MOMENT = timedelta(microseconds=1)


def savings(request: ViewRequest) -> Page:
    """Return the page of the savings in the month that the query names, or in this month if it
    names none. Raises: InputError for a month or a page that cannot be; CloudError."""
    start = addresses.month_in(request)
    now = request.now
    counts_for = request.counts_for
    end = min(now, month_end(start))
    month_before = month_start(start - DAY)
    entries = figures.ledger_in(request, month_before, end)
    days = figures.days_between(start.date(), (month_end(start) - DAY).date())
    costs = [cost for _, cost in figures.counted(request, days[0], days[-1])]
    kept = figures.kept(request)
    found = found_waste(figures.found_by_scans(request))
    month_report = report(entries, costs, start, end, now, counts_for, kept, found)
    table = Table("savings", COLUMNS, month_report.rows)
    this_month = {"month": f"{start:%Y-%m}"}
    month_name = f"{start:%B %Y}"
    shown, pages = addresses.paged(request, "/savings", this_month, month_report.lines, _ROWS)
    final_at = None
    if month_report.provisional:
        final_at = month_end(start) + PROVISIONAL
    next_month = end if end < now else None
    largest_groups = {name: month_report.by(name)[:_GROUPS_SHOWN] for name in GROUPS}
    name_by_id = {row.instance_id: row.name for row, _ in request.governed}
    return Page(
        title=f"Savings in {month_name}",
        template="savings.html",
        values={
            "saved": month_report.saved,
            "month": month_name,
            "is_now": month_of(now) == month_of(start),
            "final_at": final_at,
            "steps": _steps(month_report),
            "chart": _sums_chart(request, start, entries, days),
            "groups": largest_groups,
            "booked": shown,
            "counts_for": counts_for,
            "kept": kept,
            "found": found,
            "pages": pages,
            "count": len(month_report.lines),
            "names": name_by_id,
            "earlier": month_before,
            "later": next_month,
            "csv": addresses.with_query("/savings.csv", this_month),
        },
        document={"month": f"{start:%Y-%m}", **month_report.document},
        long_lists=("entries",),
        tables=(
            table,
            Table("jobs", jobs.COLUMNS, month_report.job_rows),
            Table("ungoverned", found.columns, found.rows),
        ),
    )


def _sums_chart(
    request: ViewRequest,
    start: UtcDatetime,
    entries: Sequence[LedgerEntry],
    days: Sequence[date],
) -> charts.Chart:
    """Return the chart of the net saving from `start`, the beginning of a month, to each of its
    `days` that has begun, and of the month before to the same days. `entries` are those of the
    ledger that count in the two months."""
    first_day = start.date()
    end = min(request.now, month_end(start))
    # `end` may be the first moment of the next month, whose day does not count.
    last_day = (end - _MOMENT).date()
    days_so_far = figures.days_between(first_day, last_day)
    saved_so_far = net_by_day(entries, days_so_far, end, request.counts_for)

    month_before = month_start(start - DAY)
    days_before = figures.days_between(month_before.date(), first_day - DAY)
    saved_before = net_by_day(entries, days_before, start, request.counts_for)
    # The month before may have more days than this one.
    sums_before = list(accumulate(saved_before))[: len(days)]

    sums = [("month-before", sums_before), ("this-month", list(accumulate(saved_so_far)))]
    return charts.lines(days, sums)


def _steps(month_report: Report) -> list[tuple[object, ...]]:
    """Return each step of the report with the bar that a waterfall draws for it; the bar of the
    first step takes the whole width."""
    whole = month_report.steps[0].usd
    steps: list[tuple[object, ...]] = []
    for step in month_report.steps:
        bar = charts.bar(step.kind, step.start, step.end, whole)
        steps.append((*step, bar))
    return steps
