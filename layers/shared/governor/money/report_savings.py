"""Sends the weekly and monthly reports of costs and savings, each night that one is due. Each night
it also checks that the ledger's totals have not changed since the last statement, and keeps a copy
of the month for other tools.

Owners, owners of projects, and the default owner get reports. This module must not change entries
of the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import NamedTuple, Protocol

from governor.alerts.model import UNASSIGNED
from governor.alerts.ports import Announcer
from governor.core.documents import csv_text
from governor.core.errors import GovernorError
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime, money
from governor.fleet.model import DayCosts, FleetPage, FleetRow
from governor.fleet.rules.kept import KeptList, kept_list
from governor.fleet.store import Fleet
from governor.money.messages import report_alert
from governor.money.model.found import FoundWaste
from governor.money.model.ledger import LedgerEntry, Statement
from governor.money.rules.cost import DAY, month_end, month_start, months, parse_month
from governor.money.rules.jobs import COLUMNS as JOB_COLUMNS
from governor.money.rules.jobs import CountedCost, counted_costs
from governor.money.rules.ledger import PROVISIONAL, is_provisional, statement_of
from governor.money.rules.report import COLUMNS, Report, report
from governor.money.store.ledger import Ledger
from governor.policy.model.contacts import Ownership
from governor.policy.model.policy import Policy
from governor.policy.ports import Policies
from governor.policy.rules.owners import owner_named
from governor.table.once import Once


class ReportStore(Protocol):
    """Keeps copies of reports for other tools."""

    def keep(self, name: str, text: str) -> None:
        """Keep a copy in place of an earlier one of this name. Raises: CloudError."""


Found = Callable[[UtcDatetime, Callable[[str, str, str], bool]], FoundWaste]
"""Returns what the last scans found that is not governed: at this time, of what a function of
account, project and owner says is seen. Raises: CloudError."""
_CENT = Decimal("0.01")
_WEEK = "week-"
_LEFT_OUT = timedelta(hours=1)
"""The time of an entry is that at which its writing began. A statement leaves out the last hour, as
some of its entries may not be written yet."""
_LATE = timedelta(days=3)
"""A report that could not be sent for this long after its end is dropped."""
_TOLD_FOR = timedelta(days=40)
"""How long a report is remembered as sent."""


class Period(NamedTuple):
    """From one midnight (UTC) to another; `name` is the same for the same report."""

    name: str
    start: UtcDatetime
    end: UtcDatetime

    @property
    def is_week(self) -> bool:
        """Return whether the period is a week. Only reports of months list what is not governed."""
        return self.name.startswith(_WEEK)


class CostAllocation(NamedTuple):
    """The account, owner and project that an amount is counted for."""

    account: str
    owner: str
    project: str


class ReportFilter(NamedTuple):
    """The amounts that a report counts: those of this account, owner and project. An empty name
    stands for all."""

    account: str = ""
    owner: str = ""
    project: str = ""

    def sees(self, allocation: CostAllocation) -> bool:
        """Return whether the report counts amounts of this account, owner and project."""
        return all(wanted in ("", actual) for wanted, actual in zip(self, allocation, strict=True))

    def sees_resource(self, account: str, project: str, owner: str) -> bool:
        """Return whether the report counts a resource of this account, project and owner."""
        return self.sees(CostAllocation(account, owner, project))


@dataclass(slots=True)
class NightlyResult:
    """Result of one run: names of copied months and sent reports. `problems` are texts about failed
    steps, and about months whose totals have changed."""

    copied: list[str] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def attempt(self, label: str, effect: Callable[[], None]) -> None:
        """Call `effect`. A GovernorError is not raised: it is added to the problems, after the
        `label`."""
        try:
            effect()
        except GovernorError as error:
            self.problems.append(f"{label}: {type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True)
class ReportSavings:
    """The run of one night."""

    clock: Clock
    policies: Policies
    ledger_store: Ledger
    fleet_store: Fleet
    once: Once
    announcer: Announcer
    reports: ReportStore
    hub: Target
    found: Found

    def __call__(self) -> NightlyResult:
        """Close the books of this month, and of the last one while its bill may still change, and
        send the reports that are due. Return what was done; a GovernorError of a step becomes a
        problem of the result."""
        now = self.clock.now()
        result = NightlyResult()
        policy = self.policies.base().policy
        books = Books(
            self.ledger_store,
            self.fleet_store,
            timedelta(days=policy.ledger.saving_counts_days),
            self.found,
        )
        last_month = month_start(month_start(now) - DAY)
        for month in months(last_month, now):
            if is_provisional(month, now):
                close = partial(self._close, books, month, now, result)
                result.attempt(f"the books of {month}", close)
        for period in _due(policy, now):
            send = partial(self._send_reports, books, period, policy, now, result)
            result.attempt(f"reports of {period.name}", send)
        return result

    def _close(self, books: Books, month: str, now: UtcDatetime, result: NightlyResult) -> None:
        """Compare a month (`yyyy-mm`) with its last statement, store a new statement, and store
        copies of the month as CSV for other tools: its savings, and its costs by job.

        Totals that have changed since the last statement become a problem of the result. Raises:
        CloudError.
        """
        start = parse_month(month)
        statement = self.ledger_store.last_statement(month)
        if statement is not None:
            problem = _difference(books, statement, now)
            if problem is not None:
                result.problems.append(problem)
        entries = books.entries(start - books.counts_for, now)
        self.ledger_store.keep_statement(
            statement_of(entries, month, now - _LEFT_OUT, books.counts_for)
        )
        savings = books.report(start, min(now, month_end(start)), now, ReportFilter())
        self.reports.keep(f"savings/month={month}/savings.csv", csv_text(COLUMNS, savings.rows))
        self.reports.keep(f"jobs/month={month}/jobs.csv", csv_text(JOB_COLUMNS, savings.job_rows))
        if now < month_end(start):
            ungoverned = savings.ungoverned
            copy = csv_text(ungoverned.columns, ungoverned.rows)
            self.reports.keep(f"ungoverned/month={month}/ungoverned.csv", copy)
        result.copied.append(month)

    def _send_reports(
        self, books: Books, period: Period, policy: Policy, now: UtcDatetime, result: NightlyResult
    ) -> None:
        """Send the report of a period, once, to each reader who has savings or costs in it; that of
        a project without an owner to the project's owner in the policy, or the default one. Add
        each report that this call has sent to the result. Raises: CloudError."""
        ownership = policy.ownership
        for report_filter in _report_filters(books, period, ownership, now):
            savings = books.report(period.start, period.end, now, report_filter)
            has_waste = savings.ungoverned.wasted > 0 and not period.is_week
            if not savings.lines and not savings.costs.total and not has_waste:
                continue
            owner_name = report_filter.owner or ownership.project_owners.get(
                report_filter.project, ownership.default_owner
            )
            owner = owner_named(owner_name, report_filter.project or UNASSIGNED, ownership)
            is_everything = report_filter == ReportFilter()
            alert = report_alert(
                savings, period.name, self.hub, now, owner, is_everything=is_everything
            )
            send = partial(self.announcer.announce, alert)
            if self.once(alert.dedup_id, send, keep=_TOLD_FOR):
                result.reported.append(alert.dedup_id)


@dataclass(slots=True)
class Books:
    """Entries of the ledger, costs of days, and the pages of the last sweeps. Each month, and all
    pages, are read from the table once and then kept here. `counts_for` is how long the saving of
    an action counts."""

    ledger_store: Ledger
    fleet_store: Fleet
    counts_for: timedelta
    found: Found
    _entries: dict[str, list[LedgerEntry]] = field(default_factory=dict)
    _days: dict[str, Sequence[DayCosts]] = field(default_factory=dict)
    _pages: Sequence[FleetPage] | None = None

    def entries(self, start: UtcDatetime, end: UtcDatetime) -> list[LedgerEntry]:
        """Return the entries booked in the months from that of `start` to that of `end`, both whole
        months, oldest first; empty if there are none. Raises: CloudError."""
        entries: list[LedgerEntry] = []
        for month in months(start, end):
            if month not in self._entries:
                self._entries[month] = self.ledger_store.entries(month)
            entries += self._entries[month]
        return entries

    def counted(
        self, start: UtcDatetime, end: UtcDatetime
    ) -> Iterator[tuple[CostAllocation, CountedCost]]:
        """Yield the costs of the days (UTC) from `start` to before `end`, one amount for each day,
        account, owner, project and job. Raises: CloudError."""
        first_day = start.date()
        # The day of `end` itself does not count if `end` is midnight.
        last_day = (end - timedelta(microseconds=1)).date()
        for month in months(start, end):
            if month not in self._days:
                self._days[month] = self.fleet_store.days(month)
            for costs in self._days[month]:
                if costs.day < first_day or costs.day > last_day:
                    continue
                for key, cost in counted_costs(costs):
                    yield CostAllocation(costs.account, key.owner, key.project), cost

    def kept(self, now: UtcDatetime, report_filter: ReportFilter) -> KeptList:
        """Return the instances that are left alone now, of those that `report_filter` sees. Raises:
        CloudError."""
        if self._pages is None:
            self._pages = self.fleet_store.pages()

        def is_seen(row: FleetRow) -> bool:
            return report_filter.sees(CostAllocation(row.account, row.owner, row.project))

        return kept_list(self._pages, now, is_seen)

    def report(
        self, start: UtcDatetime, end: UtcDatetime, now: UtcDatetime, report_filter: ReportFilter
    ) -> Report:
        """Return the report of the time from `start` to before `end`, with only the amounts that
        `report_filter` sees. Raises: CloudError."""
        entries: list[LedgerEntry] = []
        for entry in self.entries(start - self.counts_for, end):
            if report_filter.sees(_allocation(entry)):
                entries.append(entry)
        counted = [
            cost for allocation, cost in self.counted(start, end) if report_filter.sees(allocation)
        ]
        kept = self.kept(now, report_filter)
        ungoverned = self.found(now, report_filter.sees_resource)
        return report(entries, counted, start, end, now, self.counts_for, kept, ungoverned)


def _allocation(entry: LedgerEntry) -> CostAllocation:
    """Return the account, owner and project for which an entry is counted."""
    return CostAllocation(entry.episode.account, entry.owner, entry.project)


def _report_filters(
    books: Books, period: Period, ownership: Ownership, now: UtcDatetime
) -> Iterator[ReportFilter]:
    """Yield a filter for each report of a period: one for everything; then one for each owner who
    is a contact of the policy, and one for each project that has an owner in the policy, each
    sorted by name.

    Owners and projects without an entry that may count in the period, without costs in it, and in a
    report of a month without waste that is not governed, are left out. Raises: CloudError.
    """
    yield ReportFilter()
    owners: set[str] = set()
    projects: set[str] = set()
    for entry in books.entries(period.start - books.counts_for, period.end):
        owners.add(entry.owner)
        projects.add(entry.project)
    for allocation, _ in books.counted(period.start, period.end):
        owners.add(allocation.owner)
        projects.add(allocation.project)
    if not period.is_week:
        for owner, project in books.found(now, ReportFilter().sees_resource).wasteful:
            owners.add(owner)
            projects.add(project)
    for owner in sorted(owners & ownership.contacts.keys()):
        yield ReportFilter(owner=owner)
    for project in sorted(projects & ownership.project_owners.keys()):
        yield ReportFilter(project=project)


def _due(policy: Policy, now: UtcDatetime) -> Iterator[Period]:
    """Yield the periods whose reports are due: the last week (Monday to Sunday, UTC) and the last
    month, each for three days after its end; and that month once more, for three days, when its
    bill is final. Yield nothing that the policy turns off."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    monday = midnight - DAY * midnight.weekday()
    last_monday = monday - DAY * 7
    if policy.ledger.weekly_report and _is_just_over(monday, now):
        yield Period(f"{_WEEK}{last_monday:%Y-%m-%d}", last_monday, monday)
    if not policy.ledger.monthly_report:
        return
    month = month_start(now)
    last_month = month_start(month - DAY)
    if _is_just_over(month, now):
        yield Period(f"month-{last_month:%Y-%m}", last_month, month)
    if _is_just_over(month + PROVISIONAL, now):
        yield Period(f"final-{last_month:%Y-%m}", last_month, month)


def _is_just_over(end: UtcDatetime, now: UtcDatetime) -> bool:
    """Return whether `end` lies in the last three days, so that the report of the time before it is
    still sent. Return false if it lies in the future."""
    return timedelta(0) <= now - end < _LATE


def _difference(books: Books, statement: Statement, now: UtcDatetime) -> str | None:
    """Return a text on how the entries of a month differ from its last statement; `None` if they do
    not. Only entries written by the time of the statement are compared. Raises: CloudError."""
    counted = timedelta(days=statement.counts_days)
    month = statement.month
    entries = books.entries(parse_month(month) - counted, now)
    restated = statement_of(entries, month, statement.as_of, counted)
    is_same_sum = abs(restated.net_usd - statement.net_usd) < _CENT
    if is_same_sum and restated.entries == statement.entries:
        return None
    return (
        f"the ledger of {month} no longer sums up: at {statement.as_of:%Y-%m-%d %H:%M} UTC it had "
        f"{statement.entries} entries and ${money(statement.net_usd)}; the same entries are now "
        f"{restated.entries} and ${money(restated.net_usd)}. Nothing was changed: see docs/money.md"
    )
