"""Each night: checks that the ledger still sums up to what it did, keeps a copy of the month for
other tools, and reports weeks and months to owners, to owners of projects, and to whoever answers
for everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import NamedTuple

from governor.domain.alerts.alert import UNASSIGNED, Owner
from governor.domain.documents import csv_text
from governor.domain.fleet.rows import DayCosts, Share
from governor.domain.instance import Target
from governor.domain.money.cost import DAY, month_end, month_start, months, parse_month
from governor.domain.money.cost_messages import report_alert
from governor.domain.money.ledger import PROVISIONAL, LedgerEntry, is_provisional, stated
from governor.domain.money.report import COLUMNS, Report, report
from governor.domain.policy.contacts import Ownership
from governor.domain.policy.policy import Policy
from governor.domain.units import UtcDatetime, money
from governor.errors import GovernorError
from governor.ports import Announcer, Clock, Policies, ReportStore
from governor.stores import StateTable
from governor.usecases.once import Once

_CENT = Decimal("0.01")
_WRITING = timedelta(hours=1)
"""An entry says when its writing began; a statement leaves out what may not be written yet."""
_LATE = timedelta(days=3)
"""A report that could not be sent for so long is old news."""
_TOLD_FOR = timedelta(days=40)


class Period(NamedTuple):
    """From one midnight (UTC) to another; `name` is the same for the same report."""

    name: str
    start: UtcDatetime
    end: UtcDatetime


class Whose(NamedTuple):
    account: str
    owner: str
    project: str


class Reader(NamedTuple):
    """Whom a report is about: what it names counts; where it names nothing, all do."""

    account: str = ""
    owner: str = ""
    project: str = ""

    def sees(self, whose: Whose) -> bool:
        return all(wanted in ("", its) for wanted, its in zip(self, whose, strict=True))


@dataclass(slots=True)
class Night:
    """Result of one run. `problems`: what it could not do, and months that no longer sum up."""

    copied: list[str] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def attempt(self, what: str, act: Callable[[], None]) -> None:
        try:
            act()
        except GovernorError as error:
            self.problems.append(f"{what}: {type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True)
class ReportSavings:
    clock: Clock
    policies: Policies
    state: StateTable
    once: Once
    announcer: Announcer
    reports: ReportStore
    hub: Target

    def __call__(self) -> Night:
        now, night = self.clock.now(), Night()
        policy = self.policies.base().policy
        books = Books(self.state, timedelta(days=policy.ledger.saving_counts_days))
        for month in months(month_start(month_start(now) - DAY), now):
            if is_provisional(month, now):
                night.attempt(
                    f"the books of {month}", partial(self._close, books, month, now, night)
                )
        for period in _due(policy, now):
            night.attempt(
                f"reports of {period.name}", partial(self._tell, books, period, policy, now, night)
            )
        return night

    def _close(self, books: Books, month: str, now: UtcDatetime, night: Night) -> None:
        start, before = parse_month(month), self.state.last_statement(month)
        if before is not None:
            counted = timedelta(days=before.counts_days)
            again = stated(books.entries(start - counted, now), month, before.as_of, counted)
            if abs(again.net_usd - before.net_usd) >= _CENT or again.entries != before.entries:
                night.problems.append(
                    f"the ledger of {month} no longer sums up: at "
                    f"{before.as_of:%Y-%m-%d %H:%M} UTC it had "
                    f"{before.entries} entries and ${money(before.net_usd)}; the same "
                    "entries are now "
                    f"{again.entries} and ${money(again.net_usd)}. Nothing was changed: "
                    "see docs/money.md"
                )
        entries = books.entries(start - books.counts_for, now)
        self.state.keep_statement(stated(entries, month, now - _WRITING, books.counts_for))
        found = books.report(start, min(now, month_end(start)), now, Reader())
        self.reports.keep(f"savings/month={month}/savings.csv", csv_text(COLUMNS, found.rows))
        night.copied.append(month)

    def _tell(
        self, books: Books, period: Period, policy: Policy, now: UtcDatetime, night: Night
    ) -> None:
        ownership = policy.ownership
        for reader in _readers(books, period, ownership):
            found = books.report(period.start, period.end, now, reader)
            if found.lines or found.costs.total:
                name = reader.owner or ownership.project_owners.get(
                    reader.project, ownership.default_owner
                )
                owner, is_all = Owner(name, reader.project or UNASSIGNED), reader == Reader()
                alert = report_alert(found, period.name, self.hub, now, owner, is_everything=is_all)
                send = partial(self.announcer.announce, alert)
                if self.once(alert.dedup_id, send, keep=_TOLD_FOR):
                    night.reported.append(alert.dedup_id)


@dataclass(slots=True)
class Books:
    """The ledger and the days, each month of them read once."""

    state: StateTable
    counts_for: timedelta
    _entries: dict[str, list[LedgerEntry]] = field(default_factory=dict)
    _days: dict[str, Sequence[DayCosts]] = field(default_factory=dict)

    def entries(self, start: UtcDatetime, end: UtcDatetime) -> list[LedgerEntry]:
        """Return what was booked in these months, oldest first."""
        found: list[LedgerEntry] = []
        for month in months(start, end):
            if month not in self._entries:
                self._entries[month] = self.state.entries(month)
            found += self._entries[month]
        return found

    def shares(self, start: UtcDatetime, end: UtcDatetime) -> Iterator[tuple[Whose, Share]]:
        """Yield what whose instances cost on the days (UTC) that begin from `start` to before
        `end`."""
        last = (end - timedelta(microseconds=1)).date()
        for month in months(start, end):
            if month not in self._days:
                self._days[month] = self.state.days(month)
            for costs in self._days[month]:
                if start.date() <= costs.day <= last:
                    for (owner, project), share in costs.shares.items():
                        yield Whose(costs.account, owner, project), share

    def report(
        self, start: UtcDatetime, end: UtcDatetime, now: UtcDatetime, reader: Reader
    ) -> Report:
        entries = [
            one for one in self.entries(start - self.counts_for, end) if reader.sees(_whose(one))
        ]
        shares = [share for whose, share in self.shares(start, end) if reader.sees(whose)]
        return report(entries, shares, start, end, now, self.counts_for)


def _whose(entry: LedgerEntry) -> Whose:
    return Whose(entry.episode.account, entry.owner, entry.project)


def _readers(books: Books, period: Period, ownership: Ownership) -> Iterator[Reader]:
    """Yield who answers for everything, and each owner and owner of a project that the policy
    names."""
    yield Reader()
    found = {_whose(one) for one in books.entries(period.start - books.counts_for, period.end)}
    found |= {whose for whose, _ in books.shares(period.start, period.end)}
    for owner in sorted({one.owner for one in found} & ownership.contacts.keys()):
        yield Reader(owner=owner)
    for project in sorted({one.project for one in found} & ownership.project_owners.keys()):
        yield Reader(project=project)


def _due(policy: Policy, now: UtcDatetime) -> Iterator[Period]:
    """Yield the last week (Monday to Sunday, UTC) and month that are over since a few days; a month
    once more when its bill is final."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    monday, first = midnight - DAY * midnight.weekday(), month_start(now)
    last, final = month_start(first - DAY), first + PROVISIONAL
    weekly, monthly = policy.ledger.weekly_report, policy.ledger.monthly_report
    for is_wanted, since, period in (
        (weekly, monday, Period(f"week-{monday - DAY * 7:%Y-%m-%d}", monday - DAY * 7, monday)),
        (monthly, first, Period(f"month-{last:%Y-%m}", last, first)),
        (monthly, final, Period(f"final-{last:%Y-%m}", last, first)),
    ):
        if is_wanted and timedelta(0) <= now - since < _LATE:
            yield period
