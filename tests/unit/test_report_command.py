"""`governor report`: the same cents as the mail and the console, for the six weeks of `make up`."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from cli import aws, governor, report, times
from governor.alerts.model import Alert, words_of
from governor.console.formats import as_json
from governor.console.views.kept import kept
from governor.console.views.project import project
from governor.console.views.savings import savings
from governor.console.views.ungoverned import ungoverned
from governor.fleet.model import FleetPage
from governor.fleet.rules.kept import kept_list
from governor.fleet.store import Fleet
from governor.money.report_savings import Books, NightlyResult, Period, ReportSavings
from governor.money.rules.cost import month_end, month_start, months
from governor.policy.model.policy import Policy
from governor.scan.for_reports import FoundByScans
from governor.scan.store import Scans
from governor.table.once import Once
from local.demo.fleet import demo_fleet
from local.demo.past import WEEKS, write_past
from tests.builders import NOW, TARGET
from tests.console_world import ConsoleWorld, make_row
from tests.twins import FakeClock, MemoryEventLog, RecordingAnnouncer, StaticPolicies
from tests.unit.console.test_ungoverned import BUSY, LIKELY, UNUSED, found, scanned

POLICY = Policy()
FINEST = Decimal("0.000001")
"""To what amounts are rounded when they leave."""
MONTHS = months(NOW - WEEKS, NOW)


@pytest.fixture(scope="module")
def world() -> ConsoleWorld:
    """The table of `make up`, by a fleet of the demo."""
    made = ConsoleWorld()
    fleet = {f"i-{number:017x}": member for number, member in enumerate(demo_fleet())}
    write_past(made.table, TARGET, fleet, NOW, "owner@example.com")
    return made


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch, world: ConsoleWorld) -> None:
    """A stack whose state table is that one."""
    hub = f"arn:aws:cloudformation:us-east-1:{TARGET.account}:stack/gpu-governor/1"
    outputs = [{"OutputKey": "StateTableName", "OutputValue": "state"}]
    stacks = SimpleNamespace(
        describe_stacks=lambda **_: {"Stacks": [{"StackId": hub, "Outputs": outputs}]}
    )
    monkeypatch.setattr(aws, "session", lambda *_: SimpleNamespace(client=lambda _: stacks))
    monkeypatch.setattr(times, "now", lambda: NOW)
    monkeypatch.setattr(report, "deployed", lambda *_: "")
    monkeypatch.setattr(report, "DynamoTable", lambda *_: world.table)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what the command prints."""
    assert 0 == governor.main(["report", *arguments])
    return capsys.readouterr().out


@pytest.mark.parametrize("month", MONTHS)
@pytest.mark.usefixtures("deployed")
def test_command_mail_and_page_say_the_same_cents(
    month: str, world: ConsoleWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    """Net, cash, conservative and idle; and the rows of the file and the page add up to them."""
    document = json.loads(printed(capsys, "--month", month, "--json"))
    page: Any = json.loads(as_json(200, savings(world.asked(None, month=month)).document).body)
    rows = list(
        csv.DictReader(
            io.StringIO(printed(capsys, "--month", month, "--format", "csv"), newline="")
        )
    )
    start = (
        month_start(NOW)
        if month == MONTHS[-1]
        else month_start(month_start(NOW) - timedelta(days=1))
    )
    mail = sent(world, Period(f"month-{month}", start, min(NOW, month_end(start))))

    amounts = {
        name: Decimal(document["saved"][name]) for name in ("cash_low_usd", "by_morning_usd")
    }
    assert amounts == {name: Decimal(page["saved"][name]) for name in amounts}
    assert amounts == {name: Decimal(str(mail[name])) for name in amounts}
    idle = {one["step"]: Decimal(one["usd"]) for one in page["steps"]}["While nobody had answered"]
    assert -idle == Decimal(str(mail["idle_usd"])) > 100
    net = Decimal(document["net_usd"])
    assert net == Decimal(page["net_usd"]) == Decimal(str(mail["net_usd"])) > 100
    assert abs(net - sum(Decimal(row["x_NetSavedUsd"]) for row in rows)) <= FINEST * len(rows)
    assert [row["x_Episode"] for row in rows] == [one["x_Episode"] for one in page["entries"]]


FINE_PRICE = Decimal("1.00600049")
"""Two months at this price would not add up if each were rounded when it leaves."""
KEPT_ROWS = (
    make_row(
        1,
        kept_because="manager",
        kept_by="Amazon EKS",
        verdict="managed-elsewhere",
        usd_per_hour=FINE_PRICE,
    ),
    make_row(
        2,
        kept_because="session",
        stays_until=NOW + timedelta(hours=1),
        owner="research",
        usd_per_hour=FINE_PRICE,
    ),
    make_row(3, kept_because="exemption", verdict="exempt", usd_per_hour=Decimal("21.95764999")),
    make_row(4, kept_because="keep", verdict="snoozed", stays_until=NOW + timedelta(days=3)),
    make_row(5, kept_because="unanswered", usd_per_hour=None),
    make_row(6, kept_because="unanswered", stays_until=NOW - timedelta(minutes=1)),
    make_row(7),
    make_row(8, kept_because="a reason of a later release"),
)


def store_kept(world: ConsoleWorld) -> None:
    """Store these rows as the page of a sweep that ended now."""
    page = FleetPage(TARGET.account, TARGET.region, NOW, "ask", None, KEPT_ROWS)
    assert world.state.keep_page(page)


@pytest.mark.usefixtures("deployed")
def test_what_is_kept_is_the_same_in_every_format(
    world: ConsoleWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    """Page, JSON, CSV, mail and command line: the same rows, whose cents add up to every sum."""
    store_kept(world)
    page = kept(world.asked())
    document: Any = json.loads(as_json(200, page.document).body)
    by_table = {table.name: list(csv.DictReader(io.StringIO(table.csv))) for table in page.tables}
    savings_page: Any = json.loads(as_json(200, savings(world.asked()).document).body)
    printed_kept = json.loads(printed(capsys, "--kept", "--json"))
    printed_report = json.loads(printed(capsys, "--json"))
    printed_csv = printed(capsys, "--kept", "--format", "csv")
    start = month_start(NOW)
    alert = alert_sent(world, Period(f"month-{MONTHS[-1]}", start, NOW))

    assert document == printed_kept == printed_report["kept"] == savings_page["kept"]
    rows = list(csv.DictReader(io.StringIO(printed_csv, newline="")))
    assert rows == by_table["kept"]
    assert [3, 1, 2, 4, 8, 5] == [int(row["instance_id"][2:]) for row in rows]
    amounts = {row["instance_id"]: Decimal(row["usd_per_month"] or 0) for row in rows}
    assert sum(amounts.values()) == Decimal(document["usd_per_month"]) > 100
    for measured, name in (("idle", "idle"), ("not measured", "not_measured")):
        of_kind = [amounts[row["instance_id"]] for row in rows if row["measured"] == measured]
        total = Decimal(document[f"{name}_usd_per_month"])
        assert sum(of_kind) == total == Decimal(str(alert.facts[f"stays_{name}_usd_per_month"]))
        sums = [one for one in by_table["reasons"] if one["measured"] == measured]
        assert sum(Decimal(one["usd_per_month"]) for one in sums) == total
    assert 1 == document["unpriced"]
    mail = "\n".join(alert.lines)
    assert "exempt by an answer: 1 instance, $16,029 a month, not measured" in mail
    assert "1 instance of unknown price is not included in either amount." in mail
    table = printed(capsys, "--kept")
    assert all(row["name"] in table for row in rows)
    assert f"{Decimal(document['idle_usd_per_month']):,.2f} a month is idle" in table


@pytest.mark.usefixtures("deployed")
def test_what_is_not_governed_is_the_same_in_every_format(
    world: ConsoleWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    """Page, JSON, CSV, mail and command line: the same rows, whose cents add up to every sum; and
    no other figure of the report changes by them."""
    before = json.loads(printed(capsys, "--json"))
    rows = [
        found("chat-poc", UNUSED, "7.0911"),
        found("=vector", LIKELY, "20.0077"),
        found("busy-one", BUSY, "70"),
    ]
    scanned(world, TARGET, *rows)
    page = ungoverned(world.asked())
    document: Any = json.loads(as_json(200, page.document).body)
    savings_page = savings(world.asked())
    of_savings: Any = json.loads(as_json(200, savings_page.document).body)["ungoverned"]
    list_printed = json.loads(printed(capsys, "--ungoverned", "--json"))
    after = json.loads(printed(capsys, "--json"))
    printed_csv = printed(capsys, "--ungoverned", "--format", "csv")
    alert = alert_sent(world, Period(f"month-{MONTHS[-1]}", month_start(NOW), NOW))

    total = Decimal("19782.12")
    assert [Decimal("14605.62"), Decimal("5176.50"), Decimal()] == [
        Decimal(row["waste_usd_per_month"]) for row in list_printed["rows"]
    ]
    assert total == sum(Decimal(row["waste_usd_per_month"]) for row in list_printed["rows"])
    for sums in (document, of_savings, list_printed, after["ungoverned"]):
        assert total == Decimal(sums["waste_usd_per_month"])
    assert total == Decimal(str(alert.facts["ungoverned_waste_usd_per_month"]))
    assert document["rows"] == list_printed["rows"]
    by_table = {table.name: table.csv for table in (*page.tables, *savings_page.tables)}
    assert printed_csv == by_table["ungoverned"]
    assert {**before, "ungoverned": None} == {**after, "ungoverned": None}

    mail = "\n".join(alert.lines)
    assert (
        "Cost by job in project vision ($"
        in mail.partition("Not governed, and not included above:")[0]
    )
    (section,) = words_of(alert).sections
    assert "Not governed, and not included above" == section.heading
    assert "$19,782 a month is wasted by 2 of 3 resources that are not governed" in mail
    assert "chat-poc (ml.g5.12xlarge, 4 x A10G) in 123456789012/us-east-1: $5,177 a month" in mail
    assert "$19,782 a month" in printed(capsys)
    assert "chat-poc" in printed(capsys, "--ungoverned")


@pytest.mark.usefixtures("deployed")
def test_waste_without_a_known_price_is_listed_last_and_no_sum_hides_it(
    world: ConsoleWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    """A commitment of Bedrock has no list price: the table names it, and the sums leave it out."""
    rows = [found("units", LIKELY, None), found("chat", UNUSED, "1"), found("new", BUSY, None)]
    scanned(world, TARGET, *rows)
    table = printed(capsys, "--ungoverned")
    document = json.loads(printed(capsys, "--ungoverned", "--json"))
    alert = alert_sent(world, Period(f"month-{MONTHS[-1]}", month_start(NOW), NOW))

    assert table.index("730.00  unused") < table.index("price unknown  likely idle")
    assert "units" in table
    assert "new" not in table
    assert (1, "730.00") == (document["unpriced_waste"], document["waste_usd_per_month"])
    for text in (table, "\n".join(alert.lines)):
        assert "The sum leaves out 1 wasted resource whose price is not known." in text


@pytest.mark.usefixtures("deployed")
def test_prepaid_waste_is_no_zero_in_list_and_message(
    world: ConsoleWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    """An instance in a Capacity Block, and the unused part of a block."""
    block = found("block", UNUSED, None, is_prepaid=True)
    scanned(world, TARGET, found("inside", UNUSED, "0", is_prepaid=True), block)
    table = printed(capsys, "--ungoverned")
    alert = alert_sent(world, Period(f"month-{MONTHS[-1]}", month_start(NOW), NOW))

    assert 2 == table.count("prepaid  unused")
    assert "0.00" not in table
    mail = "\n".join(alert.lines)
    assert "block (ml.g5.12xlarge, 4 x A10G) in 123456789012/us-east-1: prepaid, unused" in mail
    for text in (table, mail):
        assert "The sum leaves out 2 prepaid resources: ending them saves nothing." in text


@pytest.mark.usefixtures("deployed")
def test_the_list_of_what_is_not_governed_is_about_now_and_alone() -> None:
    """A month, a mail's HTML, and the other list are refused."""
    for more in (["--month", "2026-11"], ["--format", "html"], ["--kept"]):
        assert 1 == governor.main(["report", "--ungoverned", *more])


def test_a_weekly_report_has_no_part_about_what_is_not_governed(world: ConsoleWorld) -> None:
    """Once a month is enough for what nobody is asked about."""
    scanned(world, TARGET, found("chat-poc", UNUSED, "7.0911"))
    alert = alert_sent(world, Period("week-2026-11-16", NOW - timedelta(days=7), NOW))
    assert "chat-poc" not in "\n".join(alert.lines)


@pytest.mark.usefixtures("deployed")
def test_what_is_kept_is_about_now(world: ConsoleWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """So a month, or a mail's HTML, is refused; an owner's list has the owner's rows alone."""
    store_kept(world)
    assert ["research"] == [
        row["owner"]
        for row in json.loads(printed(capsys, "--kept", "--json", "--owner", "research"))[
            "instances"
        ]
    ]
    for extra in (["--month", MONTHS[0]], ["--format", "html"], ["--own-cost"]):
        assert 0 != governor.main(["report", "--kept", *extra])
        assert "--kept" in capsys.readouterr().err


def test_a_page_of_an_old_sweep_says_nothing_about_now() -> None:
    """Its target left the policy, or nobody has swept it for a day."""
    old = FleetPage("1", "us-east-1", NOW - timedelta(hours=25), "ask", None, KEPT_ROWS)
    fresh = replace(old, swept_at=NOW - timedelta(hours=23))

    assert 0 == len(kept_list([old], NOW, lambda _: True).instances)
    assert 6 == len(kept_list([fresh], NOW, lambda _: True).instances)


def sent(world: ConsoleWorld, period: Period) -> Any:
    """The facts of the organization's report of this time."""
    return alert_sent(world, period).facts


def alert_sent(world: ConsoleWorld, period: Period) -> Alert:
    """The organization's report of this time."""
    clock, announcer = FakeClock(NOW), RecordingAnnouncer()
    policies, once = StaticPolicies(POLICY), Once(clock, MemoryEventLog())
    use_case = ReportSavings(
        clock,
        policies,
        ledger_store=world.state,
        fleet_store=world.state,
        once=once,
        announcer=announcer,
        reports=SimpleNamespace(keep=lambda *_: None),
        hub=TARGET,
        found=FoundByScans(Scans(world.table), Fleet(world.table), [TARGET]),
    )
    books = Books(
        ledger_store=world.state,
        fleet_store=world.state,
        counts_for=timedelta(days=POLICY.ledger.saving_counts_days),
        found=use_case.found,
    )
    use_case._send_reports(books, period, POLICY, NOW, NightlyResult())
    return announcer.sent[0]


@pytest.mark.usefixtures("deployed")
def test_the_table_is_read_by_people(capsys: pytest.CaptureFixture[str]) -> None:
    """The words of the mail, then each question with how it ended; nothing is wider than a
    terminal."""
    lines = printed(capsys).splitlines()

    assert lines[0].startswith("GPU costs, November 2026 so far: $")
    assert any(line.startswith("In cash, the savings are between $") for line in lines)
    heading = next(index for index, line in enumerate(lines) if line.startswith("instance "))
    assert len(lines) > heading + 5
    assert max(len(line) for line in lines[heading:]) <= 110


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch, deployed: None) -> ConsoleWorld:
    """A stack that has counted and scanned nothing."""
    world = ConsoleWorld()
    monkeypatch.setattr(report, "DynamoTable", lambda *_: world.table)
    return world


@pytest.mark.usefixtures("empty")
def test_an_empty_month_says_what_would_fill_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a figure, and without itself as the next command."""
    text = printed(capsys)

    assert text.startswith("There is nothing to report for November 2026: no cost was counted")
    assert "the running instances with the tag Purpose=GPU-Workload" in text
    assert "governor doctor" in text
    assert "$" not in text
    assert "governor report" not in text
    assert "leave out --month" in printed(capsys, "--month", "2026-10")
    assert "Without --account, --owner and --project" in printed(capsys, "--owner", "ada")


def test_an_empty_month_names_the_lists_that_have_something(
    empty: ConsoleWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both are about now, so an earlier month names neither."""
    store_kept(empty)
    scanned(empty, TARGET, found("chat-poc", UNUSED, "7.0911"))

    text = printed(capsys)
    assert "`governor report --ungoverned`" in text
    assert "`governor report --kept`" in text
    assert "--kept" not in printed(capsys, "--month", "2026-10")


@pytest.mark.usefixtures("deployed")
def test_a_report_does_not_name_itself_as_the_next_command(
    world: ConsoleWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    """The mail does: its reader is elsewhere."""
    assert "governor report\n" not in printed(capsys)
    mail = alert_sent(world, Period(f"month-{MONTHS[-1]}", month_start(NOW), NOW))
    assert any(line.endswith("governor report") for line in mail.lines)


@pytest.mark.usefixtures("empty")
def test_before_the_first_scan_the_list_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    """And when the first one comes. JSON says which places were not read."""
    text = printed(capsys, "--ungoverned")
    document = json.loads(printed(capsys, "--ungoverned", "--json"))

    assert text.startswith("Nothing has been scanned yet.\n")
    assert "The first scan comes within a day, at 01:10 UTC." in text
    assert "`governor scan`" in text
    assert 1 == text.count("scanned")
    assert "incomplete" not in text
    assert not document["is_complete"]
    assert document["not_read"]


def test_a_report_before_the_first_scan_says_so_once() -> None:
    world = ConsoleWorld()
    write_past(world.table, TARGET, {"i-1": demo_fleet()[0]}, NOW, "owner@example.com")
    alert = alert_sent(world, Period(f"month-{MONTHS[-1]}", month_start(NOW), NOW))
    section = "\n".join(alert.lines).partition("Not governed")[2]

    assert 1 == section.count("scanned")
    assert "Not read" not in section


@pytest.mark.usefixtures("empty")
def test_an_empty_list_of_what_is_kept_fits_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    text = printed(capsys, "--kept")

    assert text.startswith("No instance is left alone because of an answer")
    assert 80 >= max(map(len, text.splitlines()))


@pytest.mark.usefixtures("deployed")
def test_the_html_is_a_page_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """As the mail: with bars by day, and no picture that is not there."""
    page = printed(capsys, "--format", "html")

    assert "<html" in page
    assert "Saved by day (UTC), up to $" in page
    assert page.count('class="bar"') >= 10
    assert "<img" not in page


@pytest.mark.usefixtures("deployed")
def test_a_part_is_a_part(world: ConsoleWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """Owners add up to everything, an unknown account has nothing."""
    whole = json.loads(printed(capsys, "--json"))
    owners = [one["owner"] for one in whole["by_owner"]]
    parts = [json.loads(printed(capsys, "--json", "--owner", one)) for one in owners]
    none = json.loads(printed(capsys, "--json", "--account", "999999999999"))

    total = sum(Decimal(one["net_usd"]) for one in parts)
    assert abs(Decimal(whole["net_usd"]) - total) <= FINEST * len(parts)
    assert ("0", []) == (none["net_usd"], none["entries"])


@pytest.mark.usefixtures("deployed")
def test_the_cost_by_job_is_the_same_in_every_format(
    world: ConsoleWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    """The demo shows the jobs of one project; command, report and the page of the project have the
    same cents, which add up to what it spent."""
    listed = json.loads(printed(capsys, "--jobs", "--json"))
    text = printed(capsys, "--jobs", "--format", "csv")
    whole = json.loads(printed(capsys, "--json"))
    page: Any = json.loads(as_json(200, project(world.asked(None, name="vision")).document).body)

    [vision] = [one for one in listed["projects"] if one["project"] == "vision"]
    assert whole["projects"] == listed["projects"]
    assert page["jobs"] == vision["jobs"]
    assert ["segment-finetune", "resnet-pretrain", "nightly-eval", "no job named"] == [
        job["job"] for job in vision["jobs"]
    ]
    total = sum(Decimal(job["usd"]) for job in vision["jobs"])
    assert Decimal(vision["usd"]) == total == round(Decimal(page["spent_usd"]), 2)
    assert page["idle_usd"] != "0"
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [job["usd"] for job in vision["jobs"]] == [
        row["x_CostUsd"] for row in rows if row["x_Project"] == "vision"
    ]
    table = printed(capsys, "--jobs")
    assert "(no job named)" in table
    assert max(len(line) for line in table.splitlines()) <= 110


@pytest.mark.parametrize(
    "extra", [["--kept"], ["--ungoverned"], ["--own-cost"], ["--format", "html"]]
)
@pytest.mark.usefixtures("deployed")
def test_the_list_of_jobs_goes_with_no_other_list(
    extra: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A mail's HTML has the jobs of the largest projects already."""
    assert 0 != governor.main(["report", "--jobs", *extra])
    assert "--jobs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("month", "says"), [("2026-13", "write it as 2026-11"), ("2027-01", "has not begun")]
)
@pytest.mark.usefixtures("deployed")
def test_a_month_that_cannot_be_is_said(
    month: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 1 == governor.main(["report", "--month", month])
    assert says in capsys.readouterr().err
