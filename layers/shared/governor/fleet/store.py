"""The console's read models, written by each sweep: a page of rows for each target, and the costs
of each target and day (UTC)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from governor.core.errors import CloudError
from governor.core.instance import Target
from governor.fleet.model import DayCosts, FleetPage, FleetRow, Share
from governor.table.keys import place
from governor.table.table import (
    DAMAGED,
    Document,
    Key,
    Store,
    Write,
    absent,
    packed,
    put,
    unpacked_one,
    where,
)

_FLEET = "FLEET"
_MOST_SHARES = 100
"""Pairs of owner and project kept for a day if not all fit: each name may have 256 characters."""
OTHERS = ("others", "others")
"""The owner and project that stand for all the others."""
_PAGES_KEPT = timedelta(days=7)
_DAYS_KEPT = timedelta(days=400)


class Fleet(Store):
    """Pages and days. A month is `yyyy-mm`. Every method may raise CloudError."""

    def pages(self, among: Collection[Target] | None = None) -> tuple[FleetPage, ...]:
        """Return the pages of all targets, or only those of the targets `among`, sorted by account
        and Region, by one query. Empty if no sweep has stored a page; damaged pages are left out.
        Raises: CloudError."""
        pages = self._pages("")
        if among is None:
            return tuple(pages)
        return tuple(page for page in pages if page.target in among)

    def page(self, target: Target) -> FleetPage | None:
        """Return the page of a target; `None` if no sweep has stored one, or it is damaged. Raises:
        CloudError."""
        return next(self._pages(f"{place(target)}#"), None)

    def keep_page(self, page: FleetPage) -> bool:
        """Replace the whole page of a target, and return true. Return false, with nothing changed,
        if a later sweep has stored its page. Raises: CloudError."""
        head = self._table.document(replace(page, rows=()))
        is_not_later = absent() | where("swept_at", "<=", head["swept_at"])
        rows = [self._table.document(row) for row in page.rows]
        # Items of a longer earlier page may remain after these. Readers stop at the end of the
        # packed rows, and the rest expires.
        writes: list[Write] = []
        for number, part in enumerate(packed([rows])):
            key = (_FLEET, f"{place(page.target)}#{number:03d}")
            condition = is_not_later if number == 0 else None
            until = page.swept_at + _PAGES_KEPT
            writes.append(put(key, {**head, "rows": part}, condition, until=until))
        if len(writes) == 1:
            # Nearly every page is one item, whose write costs half as much outside a transaction.
            return self._table.try_write(writes[0])
        return self._table.try_transaction(*writes)

    def days_of(self, target: Target, days: Sequence[date]) -> list[DayCosts]:
        """Return the costs of a target on each of these days, in order, by one read. A day without
        a stored item, or with a damaged one, has no shares. Raises: CloudError."""
        items = self._table.get_all([_day_key(target, day) for day in days])
        costs_by_day: dict[date, DayCosts] = {}
        for item in items:
            costs = self._day(item)
            if costs is not None:
                costs_by_day[costs.day] = costs
        return [
            costs_by_day.get(day) or DayCosts(day, target.account, target.region) for day in days
        ]

    def days(self, month: str, since: date = date.min) -> tuple[DayCosts, ...]:
        """Return the costs of all targets in a month, such as `2026-11`, from the day `since` on,
        sorted by account, Region and day, by one query; empty if there are none. Damaged items are
        left out. Raises: CloudError."""
        days: list[DayCosts] = []
        for item in self._table.query(f"DAYS#{month}"):
            if str(item.get("day")) < f"{since}":
                continue
            costs = self._day(item)
            if costs is not None:
                days.append(costs)
        return tuple(days)

    def _day(self, item: Document) -> DayCosts | None:
        """Return the costs of a stored day; `None` if the item is damaged, which is logged."""
        try:
            shares: dict[_Payer, Share] = {}
            for owner, project, *amounts in unpacked_one([item["shares"]]):
                # The amounts are in the order of the fields of `Share`.
                shares[owner, project] = Share(*map(Decimal, amounts))
            day = date.fromisoformat(item["day"])
            return DayCosts(day, item["account"], item["region"], shares)
        except DAMAGED:
            self._table.log_left_out(f"{item['pk']} / {item['sk']}")
            return None

    def _pages(self, prefix: str) -> Iterator[FleetPage]:
        """Yield the page of each target whose key begins with `prefix`, without rows and with a
        `problem` if its rows cannot be read. A page whose other fields cannot be read is left out.
        Raises: CloudError."""
        by_target: dict[str, list[Document]] = defaultdict(list)
        for item in self._table.query(_FLEET, prefix):
            by_target[item["sk"].rpartition("#")[0]].append(item)
        for name, items in by_target.items():
            try:
                [page] = self._table.records(FleetPage, [{**items[0], "rows": []}])
            except (CloudError, ValueError):
                self._table.log_left_out(f"the page of {name}")
                continue
            try:
                documents = unpacked_one(item["rows"] for item in items)
                yield replace(page, rows=tuple(self._table.records(FleetRow, documents)))
            except (CloudError, *DAMAGED):
                # Also if a sweep replaces the page between two parts of the query.
                self._table.log_left_out(f"the rows of {name}")
                yield replace(page, problem="What the last sweep saw could not be read. Try again.")


def replace_day_write(costs: DayCosts) -> Write:
    """Return the write that replaces the costs of a day. It belongs into the transaction that
    writes the meter.

    Anybody who may tag can add owners and projects, until they no longer fit into an item. Then the
    most expensive shares are kept, and the rest is summed up as `OTHERS`.
    """
    target = Target(costs.account, costs.region)
    day = costs.day
    parts = packed([_lines(costs.shares)])
    if len(parts) > 1:
        parts = packed([_lines(_most_expensive(costs.shares))])
    document = {
        "account": costs.account,
        "region": costs.region,
        "day": f"{day}",
        "shares": parts[0],
    }
    until = datetime(day.year, day.month, day.day, tzinfo=UTC) + _DAYS_KEPT
    return put(_day_key(target, day), document, until=until)


_Payer = tuple[str, str]
"""An owner and a project."""


def _most_expensive(shares: Mapping[_Payer, Share]) -> dict[_Payer, Share]:
    """Return the most expensive shares, and the sum of all others under `OTHERS`."""
    named = [payer for payer in shares if payer != OTHERS]
    by_cost = sorted(named, key=lambda payer: shares[payer].total, reverse=True)
    rest = shares.get(OTHERS, Share())
    for payer in by_cost[_MOST_SHARES:]:
        rest = rest + shares[payer]
    kept = {payer: shares[payer] for payer in by_cost[:_MOST_SHARES]}
    return {**kept, OTHERS: rest}


def _lines(shares: Mapping[_Payer, Share]) -> list[list[str]]:
    """Return a line for each owner and project with its amounts as text, ready to be packed."""
    return [
        [
            owner,
            project,
            str(share.used),
            str(share.idle),
            str(share.kept),
            str(share.unmeasured),
        ]
        for (owner, project), share in shares.items()
    ]


def _day_key(target: Target, day: date) -> Key:
    """Return the key of the costs of a target on a day: `DAYS#2026-11`, `<account>#<region>#27`."""
    return f"DAYS#{day:%Y-%m}", f"{place(target)}#{day:%d}"
