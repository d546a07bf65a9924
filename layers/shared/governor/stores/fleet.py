"""The console's read models: a page of rows per target, and costs per target and day (UTC), by each
sweep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from governor.domain.fleet.rows import DayCosts, FleetPage, FleetRow, Share
from governor.domain.instance import Target
from governor.errors import CloudError
from governor.stores.keys import place
from governor.stores.table import (
    DAMAGED,
    Document,
    Key,
    Store,
    Write,
    absent,
    packed,
    put,
    unpacked,
    where,
)

_FLEET = "FLEET"
_MOST_SHARES = 100
"""Owners and projects of a day, where all do not fit: each name may have 256 characters."""
OTHERS = ("others", "others")
_PAGES_KEPT = timedelta(days=7)
_DAYS_KEPT = timedelta(days=400)


class Fleet(Store):
    """Pages and days. A month is `yyyy-mm`."""

    def pages(self, among: Collection[Target] | None = None) -> tuple[FleetPage, ...]:
        """Return the pages of all targets, or of those `among` them, by account and Region: one
        query."""
        found = self._pages("")
        return tuple(page for page in found if among is None or page.target in among)

    def page(self, target: Target) -> FleetPage | None:
        return next(self._pages(f"{place(target)}#"), None)

    def keep_page(self, page: FleetPage) -> bool:
        """Replace the page of a target, as a whole; false when that of a later sweep is there."""
        head = self._table.document(replace(page, rows=()))
        not_later = absent() | where("swept_at", "<=", head["swept_at"])
        # What is left of a longer page lies behind the end of the packed rows, and expires.
        writes = [
            put(
                (_FLEET, f"{place(page.target)}#{number:03d}"),
                {**head, "rows": rows},
                None if number else not_later,
                until=page.swept_at + _PAGES_KEPT,
            )
            for number, rows in enumerate(
                packed([[self._table.document(row) for row in page.rows]])
            )
        ]
        # Nearly every page is one item, whose write costs half as much outside of a transaction.
        return self._table.holds(*writes) if len(writes) == 1 else self._table.wins(*writes)

    def days_of(self, target: Target, days: Sequence[date]) -> list[DayCosts]:
        """Return what it cost on these days, read at once; nothing where nobody counted, or it is
        damaged."""
        items = self._table.get_all([_day_key(target, day) for day in days])
        found = {one.day: one for item in items if (one := self._day(item))}
        return [found.get(day) or DayCosts(day, target.account, target.region) for day in days]

    def days(self, month: str, since: date = date.min) -> tuple[DayCosts, ...]:
        """Return the days of all targets in a month, by account, Region and day: one query."""
        items = (
            one for one in self._table.query(f"DAYS#{month}") if str(one.get("day")) >= f"{since}"
        )
        return tuple(found for item in items if (found := self._day(item)))

    def _day(self, item: Document) -> DayCosts | None:
        try:
            [lines] = unpacked([item["shares"]])
            shares = {(owner, project): Share(*map(Decimal, usd)) for owner, project, *usd in lines}
            return DayCosts(
                date.fromisoformat(item["day"]), item["account"], item["region"], shares
            )
        except DAMAGED:
            self._table.leave_out(f"{item['pk']} / {item['sk']}")
            return None

    def _pages(self, prefix: str) -> Iterator[FleetPage]:
        by_target: dict[str, list[Document]] = defaultdict(list)
        for item in self._table.query(_FLEET, prefix):
            by_target[item["sk"].rpartition("#")[0]].append(item)
        for name, items in by_target.items():
            try:
                [page] = self._table.records(FleetPage, [{**items[0], "rows": []}])
            except (CloudError, ValueError):
                self._table.leave_out(f"the page of {name}")
                continue
            try:
                [documents] = unpacked(item["rows"] for item in items)
                yield replace(page, rows=tuple(self._table.records(FleetRow, documents)))
            except (CloudError, *DAMAGED):
                # Also where it was replaced between two parts of the query.
                self._table.leave_out(f"the rows of {name}")
                yield replace(page, problem="What the last sweep saw could not be read. Try again.")


def keeping(costs: DayCosts) -> Write:
    """Return the write that replaces the costs of a day, beside that of their meter. Of too many
    owners for an item, which whoever tags can bring about, the most expensive ones are kept and the
    others summed up."""
    target, day = Target(costs.account, costs.region), costs.day
    parts = packed([_lines(costs.shares)])
    if len(parts) > 1:
        named = {whose: share for whose, share in costs.shares.items() if whose != OTHERS}
        by_cost = sorted(named.items(), key=lambda one: one[1].total, reverse=True)
        others = (share for _, share in by_cost[_MOST_SHARES:])
        rest = sum(others, costs.shares.get(OTHERS, Share()))
        parts = packed([_lines({**dict(by_cost[:_MOST_SHARES]), OTHERS: rest})])
    document = {
        "account": costs.account,
        "region": costs.region,
        "day": f"{day}",
        "shares": parts[0],
    }
    until = datetime(day.year, day.month, day.day, tzinfo=UTC) + _DAYS_KEPT
    return put(_day_key(target, day), document, until=until)


def _lines(shares: Mapping[tuple[str, str], Share]) -> list[list[str]]:
    return [
        [*whose, *map(str, (one.used, one.idle, one.kept, one.unmeasured))]
        for whose, one in shares.items()
    ]


def _day_key(target: Target, day: date) -> Key:
    return f"DAYS#{day:%Y-%m}", f"{place(target)}#{day:%d}"
