"""The Overview: what is idle now, what waits for an answer, what was saved, and what cannot be
judged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import date

from governor.console.page import Asked, Page, Table
from governor.console.views import charts, figures
from governor.console.views.freezes import pause_values
from governor.domain.fleet.rows import Share
from governor.domain.money.cost import DAY, month_start
from governor.domain.money.ledger import LedgerEntry, net_by_day, sum_saved
from governor.domain.sweep.verdict import Family
from governor.domain.units import Usd

_DAYS, _LISTED = 30, 10
_KINDS = ("used", "idle", "kept", "not measured", "avoided")
"""From the bottom of a bar to its top: what was spent, and what was not."""


def overview(ask: Asked) -> Page:
    seen, counts_for, now = ask.seen, ask.counts_for, ask.now
    idle = figures.by_price(one for one in seen if figures.family_of(one[0]) is Family.IDLE)
    asked = figures.questions(ask)
    rates = {
        "fleet": figures.rate(seen),
        "idle": figures.rate(idle),
        "questions": figures.rate(asked),
        "cannot_be_judged": figures.rate(
            [one for one in seen if figures.family_of(one[0]) is Family.UNKNOWN]
        ),
    }
    this = month_start(now)
    last = month_start(this - DAY)
    entries = figures.ledger_in(ask, min(last, now - DAY * _DAYS), now)
    saved = sum_saved(entries, this, now, counts_for)
    # In as much of the month before, or every month would begin with a loss.
    before = sum_saved(entries, last, min(this, last + (now - this)), counts_for)
    days = _days(ask, entries)
    named = ("day", *(f"{one.replace(' ', '_')}_usd" for one in _KINDS))
    table = Table("days", named, tuple((day, *amounts) for day, amounts in days))
    return Page(
        title="Overview",
        template="overview.html",
        values={
            **rates,
            **pause_values(ask),
            "has_pages": bool(ask.reader.pages),
            "saved": saved,
            "before": before,
            "last_month": last,
            "problems": list(figures.problems(ask)),
            "chart": charts.stacked(days, _KINDS)
            if any(map(any, (one for _, one in days)))
            else None,
            "days": days,
            "kinds": _KINDS,
            "open": figures.lines(ask, asked[:_LISTED]),
            "oldest": min((row.asked_at for row, _ in asked if row.asked_at), default=None),
            "next_end": min((row.expires_at for row, _ in asked if row.expires_at), default=None),
            "lines": figures.lines(ask, idle[:_LISTED]),
        },
        document={
            **rates,
            "saved_this_month": saved,
            "net_saved_this_month_usd": saved.net_usd,
            "days": table.documents,
        },
        tables=(table, figures.table("questions", asked), figures.table("idle", idle)),
    )


def _days(ask: Asked, entries: Sequence[LedgerEntry]) -> list[tuple[date, tuple[Usd, ...]]]:
    """Return what was spent and avoided on each of the last days (UTC), in the order of
    `_KINDS`."""
    days = figures.days_between(ask.now.date() - DAY * (_DAYS - 1), ask.now.date())
    spent: dict[date, list[Share]] = defaultdict(list)
    for day, _, share in figures.shares(ask, days[0], days[-1]):
        spent[day].append(share)
    avoided = net_by_day(entries, days, ask.now, ask.counts_for)
    sums = (figures.total(spent[day]) for day in days)
    return [
        (day, (one.used, one.idle, one.kept, one.unmeasured, net))
        for day, one, net in zip(days, sums, avoided, strict=True)
    ]
