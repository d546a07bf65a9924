"""Each night: the ledger sums up to what it did, its copy lies where tools find it, reports are
sent once."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from governor.alerts.model import AlertKind
from governor.core.errors import CloudError
from governor.core.instance import Target
from governor.fleet.model import DayCosts, Share
from governor.fleet.store import Fleet, replace_day_write
from governor.money.model.ledger import Ending, LedgerEntry
from governor.money.report_savings import ReportSavings
from governor.money.rules.ledger import sum_saved
from governor.money.store.ledger import booking
from governor.policy.model.contacts import Contact, Ownership
from governor.policy.model.policy import Policy
from governor.scan.for_reports import FoundByScans
from governor.scan.snapshot import snapshot
from governor.scan.store import Scans
from governor.table.once import Once
from tests.builders import TARGET, make_entry
from tests.twins import (
    FakeClock,
    MemoryEventLog,
    MemoryStateTable,
    RecordingAnnouncer,
    StaticPolicies,
)
from tests.unit.console.test_ungoverned import BUSY, UNUSED, found

MONDAY = datetime(2026, 11, 23, 2, 20, tzinfo=UTC)
COUNTS_FOR = timedelta(days=30)


class Bucket:
    """Keeps what is newest, or refuses it."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self.refuses = False

    def keep(self, name: str, text: str) -> None:
        """As the port says."""
        if self.refuses:
            raise CloudError("no", operation="s3:PutObject", code="AccessDenied")
        self.kept[name] = text


class World:
    """A ledger, and the use case over it."""

    def __init__(self, **settings: bool) -> None:
        self.clock, self.state, self.bucket = FakeClock(MONDAY), MemoryStateTable(), Bucket()
        self.announcer, self.log = RecordingAnnouncer(), MemoryEventLog()
        policy = Policy()
        contacts = {
            name: Contact(emails=(f"{name}@example.com",)) for name in ("ml-team", "lead", "finops")
        }
        ownership = replace(
            policy.ownership,
            contacts=contacts,
            project_owners={"vision": "lead"},
            default_owner="finops",
            default_contacts=("finops",),
        )
        ledger = replace(policy.ledger, **settings)
        self.policies = StaticPolicies(replace(policy, ownership=ownership, ledger=ledger))
        once = Once(self.clock, self.log)
        self.report = ReportSavings(
            self.clock,
            self.policies,
            ledger_store=self.state,
            fleet_store=self.state,
            once=once,
            announcer=self.announcer,
            reports=self.bucket,
            hub=TARGET,
            found=FoundByScans(Scans(self.state._table), Fleet(self.state._table), [TARGET]),
        )

    def book(self, *entries: LedgerEntry) -> None:
        """As the close of an episode does."""
        for one in entries:
            self.state._table.transact(*booking(one))

    def spend(self, day: date, owner: str, project: str, **usd: str) -> None:
        """As a sweep does."""
        share = Share(**{name: Decimal(amount) for name, amount in usd.items()})
        costs = DayCosts(day, TARGET.account, TARGET.region, {(owner, project): share})
        self.state._table.transact(replace_day_write(costs))

    @property
    def sent(self) -> list[tuple[str, str]]:
        """Owner and project of each report, in order."""
        assert {AlertKind.SAVINGS_REPORT} >= {one.kind for one in self.announcer.sent}
        return [(one.owner, one.project) for one in self.announcer.sent]


def stopped(number: int = 1, **changes: object) -> LedgerEntry:
    """On the Wednesday before, at noon."""
    at = datetime(2026, 11, 18, 12, tzinfo=UTC)
    return make_entry(number, **{"booked_at": at, "recorded_at": at, **changes})


def test_a_copy_lies_where_tools_find_it() -> None:
    """One file a month that is not final; its rows add up to the figure of the page."""
    world = World()
    world.book(stopped(1), stopped(2, owner="research"))
    night = world.report()

    assert (["2026-11"], []) == (night.copied, night.problems)
    assert {
        "savings/month=2026-11/savings.csv",
        "jobs/month=2026-11/jobs.csv",
        "ungoverned/month=2026-11/ungoverned.csv",
    } == world.bucket.kept.keys()
    text = world.bucket.kept["savings/month=2026-11/savings.csv"]
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    saved = sum_saved(
        world.state.entries("2026-11"), datetime(2026, 11, 1, tzinfo=UTC), MONDAY, COUNTS_FOR
    )
    assert saved.net_usd == sum(Decimal(row["x_NetSavedUsd"]) for row in rows)


def test_a_month_is_copied_until_its_bill_is_final() -> None:
    """The 14th is the last day; then it stays as it is."""
    world = World(monthly_report=False, weekly_report=False)
    world.clock.moment = datetime(2026, 12, 14, 2, 20, tzinfo=UTC)
    assert ["2026-11", "2026-12"] == world.report().copied
    world.clock.moment = datetime(2026, 12, 15, 2, 20, tzinfo=UTC)
    assert ["2026-12"] == world.report().copied


def test_what_happens_since_is_no_drift() -> None:
    """New entries, and ends that are written later for a time before."""
    world = World()
    world.book(stopped(1), stopped(2))
    assert [] == world.report().problems
    world.clock.moment = MONDAY + timedelta(days=1)
    world.book(stopped(3, recorded_at=MONDAY + timedelta(hours=5)))
    first = world.state.entries("2026-11")[0]
    ended = first.booked_at + timedelta(minutes=10)
    assert world.state.settle_entry(first, ended, Ending.UNDONE, MONDAY + timedelta(hours=6))

    assert [] == world.report().problems


@pytest.mark.parametrize("days", [5, 60])
def test_a_policy_that_counts_for_other_days_is_no_drift(days: int) -> None:
    """A statement is computed anew as it was made then."""
    world = World()
    world.book(*(stopped(n, booked_at=MONDAY - timedelta(days=12 * n)) for n in range(1, 6)))
    assert [] == world.report().problems
    world.clock.moment = MONDAY + timedelta(days=1)
    ledger = replace(world.policies.policy.ledger, saving_counts_days=days)
    world.policies.policy = replace(world.policies.policy, ledger=ledger)

    assert [] == world.report().problems


@pytest.mark.parametrize("change", ["lost", "raised"])
def test_a_ledger_that_was_changed_is_said(change: str) -> None:
    """With both figures; the copy is made all the same."""
    world = World()
    world.book(stopped(1), stopped(2))
    world.report()
    table = world.state._table
    [item, _] = table.query("LEDGER#2026-11")
    key = item["pk"], item["sk"]
    if change == "lost":
        del table.items[key]  # type: ignore[attr-defined]
    else:
        table.items[key]["saved_usd_per_hour"] = "99"  # type: ignore[attr-defined]
    world.clock.moment = MONDAY + timedelta(days=1)
    night = world.report()

    [problem] = night.problems
    assert problem.startswith(
        "the ledger of 2026-11 no longer sums up: at 2026-11-23 01:20 UTC it had 2 entries"
    )
    assert ["2026-11"] == night.copied


def test_a_week_is_reported_once_to_everybody_whom_it_is_about() -> None:
    """The default contacts, each owner, and each owner of a project that the policy names."""
    world = World()
    world.book(stopped(1), stopped(2, owner="somebody", project="other"))
    first, second = world.report(), world.report()

    assert [("finops", "unassigned"), ("ml-team", "unassigned"), ("lead", "vision")] == world.sent
    assert (3, 0) == (len(first.reported), len(second.reported))


def test_a_report_says_what_the_page_says() -> None:
    """List value, cash, the conservative figure, what is idle; by project, owner and account."""
    world = World()
    world.spend(date(2026, 11, 18), "ml-team", "vision", used="100", idle="30.4", kept="7")
    world.spend(date(2026, 11, 15), "ml-team", "vision", used="9999")  # the week before
    world.book(stopped(1, false_stop=False))
    world.report()

    everything = world.announcer.sent[0]
    assert "GPU costs, November 16 to November 22: $612 saved, $30 idle" == everything.subject
    text = "\n".join(everything.lines)
    assert (
        "All governed instances cost $137 (November 16 to November 22). Net savings are $612 at "
        "list prices." in text
    )
    assert (
        "In cash, the savings are between $0.00 and $612, because a Savings Plan or a "
        "reservation may have been paid for anyway." in text
    )
    assert "Their idle time cost $7.00." in text
    assert "Saved by project: vision $612." in text
    assert "No figure includes data transfer, licenses or tax." in text
    by_day = [Decimal(one) for one in everything.facts["saved_by_day"]]  # type: ignore[attr-defined]
    assert (7, Decimal("5.67") * 12) == (len(by_day), by_day[2])
    assert abs(sum(by_day) - Decimal(str(everything.facts["net_usd"]))) <= 7 * Decimal("0.000001")


@pytest.mark.parametrize(
    ("at", "names"),
    [
        ("2026-11-24", ["week-2026-11-16"]),
        ("2026-11-26", []),
        ("2026-12-01", ["week-2026-11-23", "month-2026-11"]),
        ("2026-12-04", []),
        ("2026-12-15", ["week-2026-12-07", "final-2026-11"]),
        ("2027-01-01", ["month-2026-12"]),
    ],
)
def test_reports_come_just_after_their_time(at: str, names: list[str]) -> None:
    """A run that was missed is made up for within days; what is older is old news."""
    world = World()
    for month in (11, 12):
        for day in (20, 27, 10):
            world.spend(date(2026, month, day), "x", "y", used="1")
    world.clock.moment = datetime.fromisoformat(at).replace(hour=2, minute=20, tzinfo=UTC)
    world.report()

    found = [
        one.dedup_id.removeprefix("report-").rpartition("-")[0] for one in world.announcer.sent
    ]
    assert names == found


def test_nothing_is_reported_where_there_is_nothing_or_nobody_wants_it() -> None:
    """An empty week is no news."""
    empty, unwanted = World(), World(weekly_report=False)
    unwanted.book(stopped())
    assert ([], []) == (empty.report().reported, unwanted.report().reported)


@pytest.mark.parametrize("usd", ["7.09", None])
def test_owners_and_projects_with_nothing_but_ungoverned_waste_get_a_month_s_report(
    usd: str | None,
) -> None:
    """Also if its price is not known. Weeks do not list it, and what works is no news."""
    world = World()
    waste = found("chat-poc", UNUSED, usd, TARGET, tags={"Owner": "ml-team", "Project": "vision"})
    busy = found("busy-one", BUSY, "7", TARGET, tags={"Owner": "research"})
    rows = (replace(waste, owner="ml-team"), replace(busy, owner="research"))
    world.clock.moment = datetime(2026, 12, 1, 2, 20, tzinfo=UTC)
    scan = snapshot(TARGET, rows, (), Ownership(), world.clock.moment)
    Scans(world.state._table).keep(scan)
    world.report()

    assert [("finops", "unassigned"), ("ml-team", "unassigned"), ("lead", "vision")] == world.sent
    assert all("month-2026-11" in one.dedup_id for one in world.announcer.sent)
    assert all("chat-poc" in "\n".join(one.lines) for one in world.announcer.sent)


def test_what_fails_holds_up_nothing_else() -> None:
    """The statement is kept and reports are sent; the copy is tried again tomorrow."""
    world = World()
    world.book(stopped())
    world.bucket.refuses = True
    night = world.report()

    assert ["the books of 2026-11: CloudError: no"] == night.problems
    assert 3 == len(night.reported)
    assert world.state.last_statement("2026-11") is not None


def test_costs_of_every_account_and_region_are_in_it() -> None:
    """The organization's report adds them up."""
    world = World()
    for region in ("us-east-1", "eu-west-1"):
        target = Target(TARGET.account, region)
        share = {("ml-team", "vision"): Share(used=Decimal(50))}
        world.state._table.transact(
            replace_day_write(DayCosts(date(2026, 11, 18), target.account, region, share))
        )
    world.report()

    assert "cost $100 (November 16 to" in world.announcer.sent[0].lines[0]
