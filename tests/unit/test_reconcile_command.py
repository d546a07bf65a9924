"""`governor reconcile`: exports as AWS shapes them, against the ledger."""

from __future__ import annotations

import csv
import gzip
import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli import aws, governor, reconcile, times
from governor.money.model.ledger import Ending, LedgerEntry
from governor.money.rules.cost import month_end
from governor.money.rules.ledger import sum_saved
from governor.money.store.ledger import booking
from tests.builders import NOW, make_entry
from tests.twins import MemoryStateTable

HOUR = timedelta(hours=1)
STOP = NOW.replace(minute=0, second=0, microsecond=0) - timedelta(days=3)
ENTRY = make_entry(booked_at=STOP, storage_usd_per_hour=Decimal("0.03"))
ID = ENTRY.episode.instance_id


def focus(start: Any, usd: str, **more: str) -> dict[str, str]:
    """One hour of the instance, as FOCUS_1_2_AWS has it."""
    return {
        "ResourceId": f"arn:aws:ec2:us-east-1:123456789012:instance/{ID}",
        "ChargePeriodStart": f"{start:%Y-%m-%dT%H:%M:%S.000Z}",
        "ChargePeriodEnd": f"{start + HOUR:%Y-%m-%dT%H:%M:%S.000Z}",
        "ChargeCategory": "Usage",
        "EffectiveCost": usd,
        "BilledCost": "999",
        "ConsumedQuantity": "1",
        "ConsumedUnit": "Hrs",
        "BillingCurrency": "USD",
        "CommitmentDiscountId": "",
        "x_UsageType": "BoxUsage:g5.12xlarge",
        **more,
    }


def cur(start: Any, usd: str, kind: str = "Usage", **more: str) -> dict[str, str]:
    """The same as CUR 2.0 has it."""
    return {
        "line_item_resource_id": ID,
        "line_item_usage_start_date": f"{start:%Y-%m-%d %H:%M:%S}",
        "line_item_usage_end_date": f"{start + HOUR:%Y-%m-%d %H:%M:%S}",
        "line_item_line_item_type": kind,
        "line_item_operation": "RunInstances",
        "line_item_usage_type": "BoxUsage:g5.12xlarge",
        "line_item_usage_amount": "1",
        "line_item_unblended_cost": usd if kind == "Usage" else "0",
        "line_item_blended_cost": "999",
        "savings_plan_savings_plan_effective_cost": usd
        if kind == "SavingsPlanCoveredUsage"
        else "",
        "reservation_effective_cost": usd if kind == "DiscountedUsage" else "",
        "line_item_currency_code": "USD",
        **more,
    }


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> MemoryStateTable:
    """A deployed stack whose ledger has one stop of three days ago."""
    made = MemoryStateTable()
    made._table.transact(*booking(ENTRY))
    described = {"StackId": "arn:aws:cloudformation:us-east-1:123456789012:stack/x/1"}
    outputs = [{"OutputKey": "StateTableName", "OutputValue": "state"}]
    client = SimpleNamespace(
        describe_stacks=lambda **_: {"Stacks": [{**described, "Outputs": outputs}]}
    )
    monkeypatch.setattr(aws, "session", lambda *_: SimpleNamespace(client=lambda _: client))
    monkeypatch.setattr(times, "now", lambda: NOW)
    monkeypatch.setattr(reconcile, "Ledger", lambda _: made)
    return made


def export(folder: Path, *rows: dict[str, str], name: str = "bill.csv") -> str:
    """The rows as a file."""
    path = folder / name
    opener: Any = gzip.open if name.endswith(".gz") else open
    with opener(path, "wt", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    """Exit status and document."""
    code = governor.main(["reconcile", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("make", [focus, cur])
def test_an_hour_costs_what_the_bill_says_amortized(
    make: Any, state: MemoryStateTable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Less what storage costs more; never blended, never what was billed up front."""
    rows = [make(STOP - HOUR * back, "4.00") for back in (1, 2, 3)]
    code, document = said(capsys, export(tmp_path, *rows))

    [one] = document["entries"]
    assert (0, "3.97", "3.97") == (
        code,
        one["cash_low_usd_per_hour"],
        one["cash_high_usd_per_hour"],
    )
    assert (1, 1, 0) == (document["actions"], document["in_the_bill"], document["corrected"])


def test_a_saving_that_goes_on_is_a_row_of_its_own_and_no_further_action(
    state: MemoryStateTable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a start that fell back, one stop has two entries. Each gets the figures of the bill."""
    goes_on_from = STOP + HOUR * 3
    assert state.settle_entry(ENTRY, STOP + HOUR * 2, Ending.STARTED, NOW)
    state.book(replace(ENTRY, booked_at=goes_on_from, first_booked_at=STOP))
    bill = export(tmp_path, focus(STOP - HOUR, "4.00"), focus(goes_on_from + HOUR, "4.00"))
    code, document = said(capsys, bill, "--store")

    assert (1, 1) == (document["actions"], document["in_the_bill"])
    assert (1, ["0", "1"]) == (code, [row["ran_on_hours"] for row in document["entries"]])
    assert [None, STOP] == [entry.first_booked_at for entry in state.entries("2026-11")]
    assert ["bill.csv"] * 2 == [entry.cash_source for entry in state.entries("2026-11")]

    governor.main(["reconcile", bill])
    assert "it saves again since " in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "committed",
    [
        focus(STOP - HOUR, "2.00", CommitmentDiscountId="sp-1"),
        cur(STOP - HOUR, "2.00", "SavingsPlanCoveredUsage"),
        cur(STOP - HOUR, "2.00", "DiscountedUsage"),
    ],
    ids=["focus", "savings plan", "reserved instance"],
)
def test_what_a_commitment_paid_may_be_no_cash(
    committed: dict[str, str],
    state: MemoryStateTable,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Half of the hours at 4, half at 2 by a commitment: between 2 and 3 an hour, less storage."""
    make = focus if "ResourceId" in committed else cur
    _, document = said(capsys, export(tmp_path, make(STOP - HOUR * 2, "4.00"), committed))

    [one] = document["entries"]
    assert ("1.97", "2.97") == (one["cash_low_usd_per_hour"], one["cash_high_usd_per_hour"])


def test_corrections_are_entries(
    state: MemoryStateTable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Entry and end stay as they are, the last correction counts, and the net at list prices
    stays."""
    assert state.settle_entry(ENTRY, STOP + HOUR * 20, Ending.STARTED, NOW)
    before = list(state._table.query("LEDGER#2026-11"))
    net = total(state).net_usd
    for usd in ("9.00", "4.00"):
        times_later = export(tmp_path, focus(STOP - HOUR, usd))
        code, document = said(capsys, times_later, "--store")
        times.now = lambda: NOW + HOUR  # type: ignore[assignment]
        assert (0, 1) == (code, document["corrected"])

    assert before == [
        one for one in state._table.query("LEDGER#2026-11") if "#BILL#" not in one["sk"]
    ]
    [entry] = state.entries("2026-11")
    assert ("bill.csv", Ending.STARTED, True) == (entry.cash_source, entry.ended, entry.ours)
    assert (net, Decimal("3.97") * 20, Decimal("3.97") * 20) == (
        total(state).net_usd,
        total(state).cash_low_usd,
        total(state).cash_high_usd,
    )


def total(state: MemoryStateTable) -> Any:
    """Return the month's total."""
    entries: list[LedgerEntry] = state.entries("2026-11")
    return sum_saved(entries, STOP - timedelta(days=10), NOW, timedelta(days=30))


def test_what_ran_on_is_said(
    state: MemoryStateTable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 1: the ledger counts hours that were billed. That of the stop itself is none of
    them."""
    rows = [focus(STOP + HOUR * number, "4.00") for number in (-1, 0, 5, 6)]
    code, document = said(capsys, export(tmp_path, *rows))

    assert (1, "2") == (code, document["entries"][0]["ran_on_hours"])


def test_what_ran_on_into_the_next_month_is_said(
    state: MemoryStateTable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the next month's file alone, which has no hour before the stop and says nothing of what it
    cost."""
    december = month_end(STOP)
    _, document = said(
        capsys, export(tmp_path, focus(december + HOUR, "4.00", ResourceId="i-other"))
    )
    assert [] == document["entries"]

    code, document = said(capsys, export(tmp_path, focus(december + HOUR, "4.00")), "--store")
    [one] = document["entries"]
    assert (1, "1", 0) == (code, one["ran_on_hours"], document["corrected"])


def test_lines_of_other_things_are_not_hours(
    state: MemoryStateTable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Volumes, traffic, taxes, credits; other currencies are counted and left out."""
    hour = STOP - HOUR
    rows = [
        focus(hour, "7", ResourceId="vol-1"),
        focus(hour, "7", ConsumedUnit="GB"),
        focus(hour, "7", x_UsageType="EBSOptimized:g3.4xlarge"),
        focus(hour, "7", ChargeCategory="Tax"),
        focus(hour, "7", BillingCurrency="EUR"),
    ]
    code, document = said(capsys, export(tmp_path, *rows, name="bill.csv.gz"))
    assert (0, 1, 0) == (code, document["left_out"], document["actions"])

    rows = [
        cur(hour, "7", "Fee"),
        cur(hour, "7", line_item_operation="EBS:SnapshotCopy"),
        cur(hour, "7", line_item_usage_type="DataTransfer-Out-Bytes"),
        cur(hour, "5", line_item_usage_type="SpotUsage:g5.12xlarge"),
    ]
    _, document = said(capsys, export(tmp_path, *rows))
    assert "4.97" == document["entries"][0]["cash_low_usd_per_hour"]


def rows(*found: dict[str, str]) -> str:
    """Return them as CSV."""
    return "\n".join([",".join(found[0]), *(",".join(one.values()) for one in found)])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b\n1,2\n", "is neither a FOCUS nor a CUR 2.0 export as CSV: it lacks"),
        ("", "is neither"),
        (rows(focus(STOP, "x")), "line 2: 'x' is no amount"),
        (rows(focus(STOP, "1"), focus(STOP, "NaN")), "line 3: 'NaN' is no amount"),
        (
            rows(focus(STOP, "1", ChargePeriodStart="soon")),
            "line 2: Invalid isoformat string: 'soon'",
        ),
        (rows(focus(STOP, "1")) + "\ni-1,2026", "line 3: it is cut short"),
        (rows(cur(STOP, "1")) + "\ni-1,2026", "line 3: it is cut short"),
        (
            rows(
                {
                    name: value
                    for name, value in cur(STOP, "1", "SavingsPlanCoveredUsage").items()
                    if "sav" not in name
                }
            ),
            "line 2: the export lacks the column savings_plan_savings_plan_effective_cost",
        ),
        ("\xff\xfe", "is neither"),
    ],
)
@pytest.mark.usefixtures("state")
def test_a_file_that_is_no_export_is_said(
    text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is guessed from other columns."""
    path = tmp_path / "bill.csv"
    path.write_text(text)
    assert 1 == governor.main(["reconcile", str(path)])
    assert says in capsys.readouterr().err
    assert 1 == governor.main(["reconcile", str(tmp_path / "none.csv")])
    assert "could not be read" in capsys.readouterr().err


@pytest.mark.usefixtures("state")
def test_people_read_it_a_line_an_action(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the net at list beside what the bill has."""
    rows = [focus(STOP - HOUR, "4.00"), focus(STOP - HOUR * 2, "2.00", CommitmentDiscountId="sp-1")]
    assert 0 == governor.main(["reconcile", export(tmp_path, *rows)])

    out = capsys.readouterr().out
    assert "The bill has 1 of 1 action of its months in the ledger." in out
    assert (
        "net at list $5.6700 an hour, in the bill $1.9700 to $2.9700: a commitment paid for some"
        in out
    )
