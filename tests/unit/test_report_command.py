"""`governor report`: the same cents as the mail and the console, for the six weeks of `make up`."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from cli import aws, governor, report, times
from governor.console.formats import as_json
from governor.console.views.savings import savings
from governor.money.report_savings import Books, Night, Period, ReportSavings
from governor.money.rules.cost import month_end, month_start, months
from governor.policy.model.policy import Policy
from governor.table.once import Once
from local.demo.fleet import demo_fleet
from local.demo.past import WEEKS, write_past
from tests.builders import NOW, TARGET
from tests.console_world import ConsoleWorld
from tests.twins import FakeClock, MemoryEventLog, RecordingAnnouncer, StaticPolicies

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
    idle = {one["step"]: Decimal(one["usd"]) for one in page["steps"]}[
        "Not answered, or before the answer"
    ]
    assert -idle == Decimal(str(mail["idle_usd"])) > 100
    net = Decimal(document["net_usd"])
    assert net == Decimal(page["net_usd"]) == Decimal(str(mail["net_usd"])) > 100
    assert abs(net - sum(Decimal(row["x_NetSavedUsd"]) for row in rows)) <= FINEST * len(rows)
    assert [row["x_Episode"] for row in rows] == [one["x_Episode"] for one in page["entries"]]


def sent(world: ConsoleWorld, period: Period) -> Any:
    """The facts of the organization's report of this time."""
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
    )
    books = Books(
        ledger_store=world.state,
        fleet_store=world.state,
        counts_for=timedelta(days=POLICY.ledger.saving_counts_days),
    )
    use_case._send_reports(books, period, POLICY, NOW, Night())
    return announcer.sent[0].facts


@pytest.mark.usefixtures("deployed")
def test_the_table_is_read_by_people(capsys: pytest.CaptureFixture[str]) -> None:
    """The words of the mail, then each question with how it ended; nothing is wider than a
    terminal."""
    lines = printed(capsys).splitlines()

    assert lines[0].startswith("GPU costs of November 2026 so far: $")
    assert any(line.startswith("In cash that is between $") for line in lines)
    heading = next(index for index, line in enumerate(lines) if line.startswith("instance "))
    assert len(lines) > heading + 5
    assert max(len(line) for line in lines[heading:]) <= 110


@pytest.mark.usefixtures("deployed")
def test_the_html_is_a_page_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """As the mail: with bars by day, and no picture that is not there."""
    page = printed(capsys, "--format", "html")

    assert "<html" in page
    assert "Saved by day (UTC), up to $" in page
    assert re.search("[▁▂▃▄▅▆▇█]{10}", page)
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


@pytest.mark.parametrize(
    ("month", "says"), [("2026-13", "write it as 2026-11"), ("2027-01", "has not begun")]
)
@pytest.mark.usefixtures("deployed")
def test_a_month_that_cannot_be_is_said(
    month: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 1 == governor.main(["report", "--month", month])
    assert says in capsys.readouterr().err
