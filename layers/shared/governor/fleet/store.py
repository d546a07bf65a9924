"""Stores what the console reads: the rows that each sweep has written for its target, and the costs
of each target and day (UTC)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from governor.core.errors import CloudError
from governor.core.instance import Target
from governor.fleet.model import (
    AMOUNTS,
    OTHER_JOBS,
    DayCosts,
    FleetPage,
    FleetRow,
    JobKey,
    Payer,
    Share,
)
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
MOST_JOBS = 100
"""Jobs of a project that a target's day names, the most expensive first. The others are summed up
for each owner as `OTHER_JOBS`."""
_JOBS_BYTES = 40_000
"""Bytes of a day's packed jobs, with what was counted before jobs were. With its packed shares and
its keys an item stays under 400 KB."""
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
        filled_days = []
        for day in days:
            filled_days.append(
                costs_by_day.get(day) or DayCosts(day, target.account, target.region)
            )
        return filled_days

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
            shares: dict[Payer, Share] = {}
            for owner, project, *amounts in unpacked_one([item["shares"]]):
                shares[owner, project] = _share_of(amounts)
            day = date.fromisoformat(item["day"])
            return DayCosts(
                day=day,
                account=item["account"],
                region=item["region"],
                shares=shares,
                jobs=self._jobs(item, list(shares)),
                before_jobs=self._before_jobs(item, list(shares)),
            )
        except DAMAGED:
            self._table.log_left_out(f"{item['pk']} / {item['sk']}")
            return None

    def _jobs(self, item: Document, payers: Sequence[Payer]) -> dict[JobKey, Share] | None:
        """Return the costs of the jobs of a stored day, whose owners and projects are `payers` in
        the order in which they are stored.

        Return `None` if an earlier release stored the day, and if its jobs are damaged, which is
        logged: then all of its costs belong to no job.
        """
        stored = item.get("jobs")
        if stored is None:
            return None
        try:
            jobs: dict[JobKey, Share] = {}
            for number, job, *amounts in unpacked_one([stored]):
                owner, project = payers[number]
                jobs[JobKey(owner, project, job)] = _share_of(amounts)
        except (*DAMAGED, IndexError):
            self._table.log_left_out(f"the jobs of {item['pk']} / {item['sk']}")
            return None
        return jobs

    def _before_jobs(self, item: Document, payers: Sequence[Payer]) -> dict[Payer, Share]:
        """Return what was counted on a stored day before jobs were, by owner and project; these are
        `payers` in the order in which they are stored.

        Return an empty mapping if there is nothing, and if it is damaged, which is logged.
        """
        stored = item.get("before_jobs")
        if stored is None:
            return {}
        try:
            before_jobs: dict[Payer, Share] = {}
            for number, *amounts in unpacked_one([stored]):
                before_jobs[payers[number]] = _share_of(amounts)
        except (*DAMAGED, IndexError):
            name = f"{item['pk']} / {item['sk']}"
            self._table.log_left_out(f"what was counted before jobs in {name}")
            return {}
        return before_jobs

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

    Anybody who may tag can add owners, projects and jobs, until they no longer fit into an item.
    Then the most expensive are kept. The other owners are summed up as `OTHERS`, and the other jobs
    as `OTHER_JOBS`; no cost is lost.
    """
    target = Target(costs.account, costs.region)
    day = costs.day
    shares = packed([_lines(costs.shares)])
    jobs = _packed_jobs(costs)
    before_jobs = _packed_before_jobs(costs)
    if len(shares) > 1 or len(jobs) + len(before_jobs) > _JOBS_BYTES:
        costs = _with_fewer_payers(costs)
        shares = packed([_lines(costs.shares)])
        jobs = _packed_jobs(costs)
        before_jobs = _packed_before_jobs(costs)
    document = {
        "account": costs.account,
        "region": costs.region,
        "day": f"{day}",
        "shares": shares[0],
    }
    if costs.jobs is not None:
        document["jobs"] = jobs
    if costs.before_jobs:
        document["before_jobs"] = before_jobs
    until = datetime(day.year, day.month, day.day, tzinfo=UTC) + _DAYS_KEPT
    return put(_day_key(target, day), document, until=until)


def _packed_jobs(costs: DayCosts) -> bytes:
    """Return the jobs of a day, packed: as many of them by name as fit into `_JOBS_BYTES`. The
    result is longer if even one sum for each owner and project does not fit."""
    most = MOST_JOBS
    while True:
        lines = _job_lines(_most_expensive_jobs(costs.jobs or {}, most), costs.shares)
        jobs = b"".join(packed([lines]))
        if len(jobs) <= _JOBS_BYTES or not most:
            return jobs
        most //= 2


def _packed_before_jobs(costs: DayCosts) -> bytes:
    """Return what was counted on a day before jobs were, packed: a line for each owner and project,
    with their place in the shares of the day and their amounts."""
    places = {payer: number for number, payer in enumerate(costs.shares)}
    lines = [[places[payer], *_amounts(share)] for payer, share in costs.before_jobs.items()]
    return b"".join(packed([lines]))


def _with_fewer_payers(costs: DayCosts) -> DayCosts:
    """Return the day with its most expensive owners and projects, and the sum of all others under
    `OTHERS`. The jobs of those others become `OTHER_JOBS` of it. What was counted before jobs were
    stays apart."""
    shares = _most_expensive(costs.shares)
    if costs.jobs is None:
        return replace(costs, shares=shares)
    jobs: dict[JobKey, Share] = {}
    for key, share in costs.jobs.items():
        kept_key = key if key.payer in shares else JobKey(*OTHERS, OTHER_JOBS)
        jobs[kept_key] = jobs.get(kept_key, Share()) + share
    before_jobs: dict[Payer, Share] = {}
    for payer, share in costs.before_jobs.items():
        kept_payer = payer if payer in shares else OTHERS
        before_jobs[kept_payer] = before_jobs.get(kept_payer, Share()) + share
    return replace(costs, shares=shares, jobs=jobs, before_jobs=before_jobs)


def _most_expensive(shares: Mapping[Payer, Share]) -> dict[Payer, Share]:
    """Return the most expensive shares, and the sum of all others under `OTHERS`."""
    named = [payer for payer in shares if payer != OTHERS]
    by_cost = sorted(named, key=lambda payer: shares[payer].total, reverse=True)
    rest = shares.get(OTHERS, Share())
    for payer in by_cost[_MOST_SHARES:]:
        rest = rest + shares[payer]
    kept = {payer: shares[payer] for payer in by_cost[:_MOST_SHARES]}
    return {**kept, OTHERS: rest}


def _most_expensive_jobs(jobs: Mapping[JobKey, Share], most: int) -> dict[JobKey, Share]:
    """Return the most expensive jobs of each project, at most `most` of them, and the sum of all
    others of each owner and project as `OTHER_JOBS`."""
    by_cost = sorted(jobs, key=lambda key: jobs[key].total, reverse=True)
    kept: dict[JobKey, Share] = {}
    named_by_project: dict[str, int] = defaultdict(int)
    for key in by_cost:
        kept_key = key
        if key.job == OTHER_JOBS or named_by_project[key.project] >= most:
            kept_key = key._replace(job=OTHER_JOBS)
        else:
            named_by_project[key.project] += 1
        kept[kept_key] = kept.get(kept_key, Share()) + jobs[key]
    return kept


def _lines(shares: Mapping[Payer, Share]) -> list[list[str]]:
    """Return a line for each owner and project with its amounts as text, ready to be packed."""
    return [[owner, project, *_amounts(share)] for (owner, project), share in shares.items()]


def _job_lines(jobs: Mapping[JobKey, Share], payers: Iterable[Payer]) -> list[list[object]]:
    """Return a line for each job, ready to be packed: the place of its owner and project in
    `payers`, its name, and its amounts as text."""
    places = {payer: number for number, payer in enumerate(payers)}
    return [[places[key.payer], key.job, *_amounts(share)] for key, share in jobs.items()]


def _amounts(share: Share) -> list[str]:
    """Return the amounts of a share as text, in the order of its fields."""
    return [str(amount) for amount in AMOUNTS(share)]


def _share_of(amounts: Iterable[str]) -> Share:
    """Return the share of these amounts, which `_amounts` has written."""
    return Share(*map(Decimal, amounts))


def _day_key(target: Target, day: date) -> Key:
    """Return the key of the costs of a target on a day: `DAYS#2026-11`, `<account>#<region>#27`."""
    return f"DAYS#{day:%Y-%m}", f"{place(target)}#{day:%d}"
