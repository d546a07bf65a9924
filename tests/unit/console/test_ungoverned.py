"""The page Ungoverned: the list of the daily scan, and only what the caller may see of it."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest

from governor.approvals.model.terms import Scope
from governor.console import formats
from governor.console.views.ungoverned import ungoverned
from governor.core.errors import AccessDenied, InputError
from governor.core.instance import Target
from governor.policy.model.contacts import Ownership
from governor.scan.documents import COLUMNS
from governor.scan.model import Finding, Judgment, Resource, Row, Strength, Unread
from governor.scan.snapshot import snapshot
from governor.scan.store import Scans
from governor.scan.unread import refused_scan
from tests.builders import NOW
from tests.console_world import TARGETS, ConsoleWorld, caller, html

HERE, THERE = TARGETS
UNUSED = Judgment(Finding.UNUSED, Strength.STRONG, "0 invocations in 14 days")
LIKELY = Judgment(Finding.LIKELY_IDLE, Strength.WEAK, "CPU under 2%")
UNKNOWN = Judgment(Finding.NOT_MEASURED, Strength.NONE, "activity is not measured")
BUSY = Judgment(Finding.BUSY, Strength.STRONG, "the busiest GPU was at 97%")


def found(
    name: str, judgment: Judgment, usd: str | None, target: Target = HERE, **changes: Any
) -> Row:
    """One row of a scan; `changes` are those of the resource."""
    facts = {"tags": {"Owner": "ada@example.com", "Project": "vision"}, **changes}
    resource = Resource(target, name, "ml.g5.12xlarge, 4 x A10G", name=name, **facts)
    command = f"aws sagemaker delete-endpoint --endpoint-name {name}"
    price = None if usd is None else Decimal(usd)
    return Row("sagemaker-endpoint", resource, judgment, price, command, "ada@example.com")


def scanned(world: ConsoleWorld, target: Target, *rows: Row, **changes: Any) -> None:
    """Store a scan of this target."""
    hours = changes.pop("hours_ago", 3)
    unread: Sequence[Unread] = changes.pop("unread", ())
    kept = snapshot(target, rows, unread, Ownership(), NOW - timedelta(hours=hours))
    assert Scans(world.table).keep(replace(kept, **changes))


def stored() -> ConsoleWorld:
    """Both targets were scanned, and all that a right is missing for is named."""
    world = ConsoleWorld()
    scanned(
        world,
        HERE,
        found("chat-poc", UNUSED, "7.09"),
        found("busy-one", BUSY, "70"),
        found("notebook", UNKNOWN, "0.7364"),
        calls=30,
        usd_spent=Decimal("0.0184"),
    )
    line = Unread(str(THERE), "Bedrock", "bedrock:ListProvisionedModelThroughputs", "no", True)
    llm = {"Project": "llm"}
    waste = found("<b>vector-db</b>", LIKELY, "20", THERE, tags=llm)
    scanned(world, THERE, waste, hours_ago=5, unread=(line,))
    return world


def test_the_most_expensive_waste_comes_first_with_evidence_command_and_age() -> None:
    """The list is over all places; names cannot become markup."""
    text = html(ungoverned, stored(), path="/ungoverned")

    assert "$19,776 a month is wasted by 2 of 4 resources that are not governed" in text
    assert text.index("vector-db") < text.index("chat-poc") < text.index("busy-one")
    assert "&lt;b&gt;vector-db&lt;/b&gt;" in text
    assert "Strong evidence: 0 invocations in 14 days" in text
    assert "No evidence: activity is not measured" in text
    assert "aws sagemaker delete-endpoint --endpoint-name chat-poc" in text
    assert "Scanned 5 h ago or later" in text
    assert "$14,600 of it is likely, by weak evidence" in text
    assert "30 calls, all of them reads, for which AWS bills about $0.02" in text


def test_what_could_not_be_read_is_said_with_the_missing_right() -> None:
    """And with what gives it."""
    text = html(ungoverned, stored(), path="/ungoverned")
    assert "The report is incomplete" in text
    assert "missing right bedrock:ListProvisionedModelThroughputs" in text
    assert "stacks/member.yaml" in text


def test_a_refused_place_shows_its_last_rows_and_when_they_were_read() -> None:
    """In the page, the JSON and the CSV; the sums still have its waste."""
    world = ConsoleWorld()
    scanned(world, HERE, found("chat-poc", UNUSED, "7.09"), hours_ago=80)
    denied = AccessDenied("no", operation="sts:AssumeRole", code="AccessDenied", words="no")
    Scans(world.table).keep_refusal(refused_scan(HERE, denied, NOW - timedelta(hours=8)))
    text = html(ungoverned, world, path="/ungoverned")
    assert "chat-poc" in text
    assert "$5,176 a month is wasted" in text
    last = "last read at Tue Nov 17, 04:02 UTC, since then refused: missing"
    assert last in text
    assert "Not scanned for two days" not in text

    page = ungoverned(world.asked())
    document: Any = page.document
    (line,) = [line for line in document["not_read"] if line["operation"]]
    assert NOW - timedelta(hours=80) == line["last_read_at"]
    (_, lines) = page.tables
    assert NOW - timedelta(hours=80) in [values[-1] for values in lines.rows]


def test_json_and_csv_have_all_rows_and_sums_that_equal_them() -> None:
    """In the columns of `governor scan`."""
    page = ungoverned(stored().asked())
    document: Any = page.document
    listed = list(csv.DictReader(StringIO(formats.as_csv(page, "", is_whole=True).body)))

    amounts = [row["waste_usd_per_month"] for row in document["rows"]]
    assert sum(amounts) == document["waste_usd_per_month"] == Decimal("19775.70")
    assert sum(Decimal(row["waste_usd_per_month"]) for row in listed) == Decimal("19775.70")
    assert list(COLUMNS) == list(listed[0])
    assert 4 == len(listed) == len(document["rows"])
    assert [str(THERE)] == [line["place"] for line in document["not_read"]]
    not_read = formats.as_csv(page, "not-read", is_whole=True).body
    assert "bedrock:ListProvisionedModelThroughputs" in not_read


def test_a_formula_in_a_name_is_no_formula_in_the_csv() -> None:
    """Anybody may name an endpoint."""
    world = ConsoleWorld()
    scanned(world, HERE, found("=HYPERLINK(1)", UNUSED, "1"))
    body = formats.as_csv(ungoverned(world.asked()), "", is_whole=True).body
    assert "'=HYPERLINK(1)" in body


def test_a_caller_sees_their_own_scope_alone() -> None:
    """In rows and sums, and nothing of what could not be read in accounts of others."""
    who = caller(Scope(projects=frozenset({"vision"})))
    document: Any = ungoverned(stored().asked(who)).document

    assert {"chat-poc", "busy-one", "notebook"} == {row["name"] for row in document["rows"]}
    assert Decimal("5175.70") == document["waste_usd_per_month"]
    assert [] == document["not_read"]
    assert "vector-db" not in html(ungoverned, stored(), who, path="/ungoverned")


def test_before_the_first_scan_the_page_says_what_to_do() -> None:
    """Also to somebody with a part of the fleet, in other words."""
    world = ConsoleWorld()
    text = html(ungoverned, world, path="/ungoverned")
    assert "Nothing was scanned yet" in text
    assert "bin/governor scan" in text
    assert "it was not scanned yet" in text
    some = caller(Scope(projects=frozenset({"vision"})))
    assert "console.scopes" in html(ungoverned, world, some, path="/ungoverned")


def test_a_scan_without_any_find_says_so() -> None:
    """It is no empty page."""
    world = ConsoleWorld()
    for target in TARGETS:
        scanned(world, target)
    text = html(ungoverned, world, path="/ungoverned")
    expected = "Nothing in 2 accounts and 2 Regions costs money for accelerators without being"
    assert expected in text
    assert 'href="/fleet"' in text


def test_old_scans_and_rows_that_are_left_out_are_named() -> None:
    """Nobody takes last week's list for today's."""
    world = stored()
    scanned(
        world,
        HERE,
        found("chat-poc", UNUSED, "7.09"),
        hours_ago=2,
        left_out=7,
        left_out_waste_usd_per_month=Decimal(70),
    )
    world.table.items["SCAN", f"{THERE.account}#{THERE.region}#000"]["scanned_at"] = (
        NOW - timedelta(days=3)
    ).isoformat()
    text = html(ungoverned, world, path="/ungoverned")
    assert f"Not scanned for two days: {THERE}" in text
    assert "7 more resources with $70 of waste a month are in no list" in text


def test_five_thousand_rows_come_in_pages() -> None:
    """The CSV and JSON have all of them."""
    world = ConsoleWorld()
    scanned(world, HERE, *(found(f"endpoint-{one}", UNUSED, "1") for one in range(5_000)))
    page = ungoverned(world.asked(page="50"))
    document: Any = page.document
    lines: Any = page.values["lines"]
    assert (100, 5_000) == (len(lines), len(document["rows"]))
    assert "Page 50 of 50" in html(ungoverned, world, page="50", path="/ungoverned")
    with pytest.raises(InputError):
        ungoverned(world.asked(page="51"))


def test_every_page_leads_to_it() -> None:
    """It is one of the pages in the header."""
    assert 'href="/ungoverned" aria-current="page"' in html(
        ungoverned, ConsoleWorld(), path="/ungoverned"
    )
