"""The page Ungoverned: the list of the daily scan, and only what the caller may see of it."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from io import StringIO
from typing import Any, cast

import pytest

from governor.approvals.model.terms import Scope
from governor.console import formats
from governor.console import parts as parts_of_answers
from governor.console.parts import document_part
from governor.console.views.ungoverned import ungoverned
from governor.core.documents import csv_text
from governor.core.errors import AccessDenied, InputError
from governor.core.instance import Target
from governor.policy.model.contacts import Ownership
from governor.scan.documents import COLUMNS
from governor.scan.model import Finding, Judgment, Resource, Row, Strength, Unread
from governor.scan.snapshot import snapshot
from governor.scan.store import Scans
from governor.scan.unread import refused_scan
from governor.verdict.model import IdleParts
from tests.builders import NOW
from tests.console_world import TARGETS, ConsoleWorld, caller, html, without_argument_marks

HERE, THERE = TARGETS
LAMBDA_LIMIT = 6 * 1024 * 1024
"""Bytes of an answer. Source: Lambda quotas, invocation payload (request and response)."""
UNUSED = Judgment(Finding.UNUSED, Strength.STRONG, "0 invocations in 14 days")
LIKELY = Judgment(Finding.LIKELY_IDLE, Strength.WEAK, "CPU under 2%")
UNKNOWN = Judgment(Finding.NOT_MEASURED, Strength.NONE, "activity is not measured")
BUSY = Judgment(Finding.BUSY, Strength.STRONG, "the busiest GPU was at 97%")
PARTLY_IDLE = Judgment(Finding.PARTLY_IDLE, Strength.STRONG, "1 of 8 GPUs works")


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
    """Both targets were scanned, and all that a permission is missing for is named."""
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
    text = without_argument_marks(html(ungoverned, stored(), path="/ungoverned"))

    assert "$19,776 a month is wasted by 2 of 4 resources that are not governed" in text
    assert text.index("vector-db") < text.index("chat-poc") < text.index("busy-one")
    assert "&lt;b&gt;vector-db&lt;/b&gt;" in text
    assert "Strong evidence: 0 invocations in 14 days" in text
    assert "No evidence: activity is not measured" in text
    assert "aws sagemaker delete-endpoint --endpoint-name chat-poc" in text
    assert "Scanned 5 h ago or later" in text
    assert "The evidence for $14,600 of the waste is weak" in text
    assert "30 calls, all of them reads, for which AWS bills about $0.02" in text
    # Rounded as on every page.
    assert [">$14,600<", ">$5,176<"] == re.findall(r">\$[\d,.]+<", text)[:2]


def test_prepaid_capacity_is_no_zero() -> None:
    """Also in the sums of its group, and whether EC2 shows its price or not."""
    world = ConsoleWorld()
    idle = Judgment(Finding.IDLE, Strength.STRONG, "No GPU worked")
    scanned(world, HERE, found("in-a-block", idle, "0", is_prepaid=True))
    scanned(world, THERE, found("block", UNUSED, None, THERE, is_prepaid=True))
    text = html(ungoverned, world, path="/ungoverned")

    assert "$" not in text.partition("<tbody>")[2].partition("</tbody>")[0]
    assert 2 == text.count('<td class="number">prepaid</td><td><i class="pill')
    # By kind, by owner, and by each of the two accounts.
    assert 4 == text.count('<td class="number">prepaid</td></tr>')
    assert "2 of 2 resources that are not governed" in text
    assert "leaves out 2 prepaid resources" in text
    document: Any = ungoverned(world.asked()).document
    assert [True, True] == [row["is_prepaid"] for row in document["rows"]]


def test_what_could_not_be_read_is_said_with_the_missing_right() -> None:
    """And with what gives it."""
    text = html(ungoverned, stored(), path="/ungoverned")
    assert "The report is incomplete" in text
    assert "missing permission bedrock:ListProvisionedModelThroughputs" in text
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
    last = "last read at Tue 04:02 UTC, since then refused: missing"
    assert last in text
    assert "Not scanned for two days" not in text

    page = ungoverned(world.asked())
    document: Any = page.document
    (line,) = [line for line in document["not_read"] if line["operation"]]
    assert NOW - timedelta(hours=80) == line["last_read_at"]
    (_, lines) = page.tables
    assert NOW - timedelta(hours=80) in [values[-1] for values in lines.rows]


def test_a_partly_idle_instance_says_how_many_gpus_are_idle() -> None:
    """The number is stored with the judgment. A scan of an earlier release has none."""
    world = ConsoleWorld()
    counted = replace(PARTLY_IDLE, idle_parts=IdleParts(7, 8, "GPU"))
    scanned(world, HERE, found("search", counted, "9"), found("chat", PARTLY_IDLE, "1"))
    page = ungoverned(world.asked())
    document: Any = page.document

    text = html(ungoverned, world, path="/ungoverned")
    assert 1 == text.count(">partly idle: <wbr>7 of 8 <wbr>GPUs<")
    assert 1 == text.count(">partly idle<")
    assert [7, None] == [row["idle_parts"] for row in document["rows"]]


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
    assert "Nothing has been scanned yet" in text
    assert "bin/governor scan" in text
    assert "it has not been scanned yet" not in text
    assert "incomplete" not in text
    some = caller(Scope(projects=frozenset({"vision"})))
    assert "console.scopes" in html(ungoverned, world, some, path="/ungoverned")


def test_a_scan_without_any_find_says_so() -> None:
    """It is no empty page."""
    world = ConsoleWorld()
    for target in TARGETS:
        scanned(world, target)
    text = html(ungoverned, world, path="/ungoverned")
    expected = (
        "Everything in 2 accounts and 2 Regions that costs money for accelerators is governed"
    )
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


def test_a_thousand_rows_come_in_pages() -> None:
    """The CSV and JSON have all of them."""
    world = ConsoleWorld()
    scanned(world, HERE, *(found(f"endpoint-{one}", UNUSED, "1") for one in range(1_000)))
    page = ungoverned(world.asked(page="10"))
    document: Any = page.document
    lines: Any = page.values["lines"]
    assert (100, 1_000) == (len(lines), len(document["rows"]))
    assert "Page 10 of 10" in html(ungoverned, world, page="10", path="/ungoverned")
    with pytest.raises(InputError):
        ungoverned(world.asked(page="11"))


def test_every_page_leads_to_it() -> None:
    """It is one of the pages in the header."""
    assert 'href="/ungoverned" aria-current="page"' in html(
        ungoverned, ConsoleWorld(), path="/ungoverned"
    )


def many(count: int, *, name: str = "endpoint") -> ConsoleWorld:
    """Half of so many rows in each of two places, of 30 owners, with long names."""
    world = ConsoleWorld()
    for target in (HERE, THERE):
        rows = [
            found(f"{name}-{number:05}-{'x' * 40}", UNUSED, "7.09", target)
            for number in range(count // 2)
        ]
        owned = [replace(row, owner=f"team-{number % 30}") for number, row in enumerate(rows)]
        scanned(world, target, *owned)
    return world


def test_long_lists_come_in_parts_that_lambda_can_answer() -> None:
    """As JSON and as CSV; together the parts are all rows, and each says how many there are."""
    world = many(2_000, name="y" * 900)
    page = ungoverned(world.asked())
    ids: list[str] = []
    parts = 1
    number = 0
    while number < parts:
        number += 1
        document: Any = document_part(page, str(number))
        answer = formats.as_json(200, {"is_incomplete": False, **document})
        assert len(json.dumps(answer.body)) < LAMBDA_LIMIT
        parts = document["parts"]
        assert number == document["part"]
        assert Decimal("10351400.00") == document["waste_usd_per_month"]
        ids += [f"{row['region']} {row['id']}" for row in document["rows"]]
    assert parts > 1
    assert 2_000 == len(ids) == len(set(ids))

    answers = [formats.as_csv(page, "", "1", is_whole=True)]
    assert 'filename="ungoverned-part-1-of-2.csv"' in answers[0].headers["Content-Disposition"]
    answers.append(formats.as_csv(page, "", "2", is_whole=True))
    lines = [line for answer in answers for line in csv.DictReader(StringIO(answer.body))]
    assert 2_000 == len(lines)
    assert all(len(json.dumps(answer.body)) < LAMBDA_LIMIT for answer in answers)

    text = html(ungoverned, world, path="/ungoverned")
    assert len(json.dumps(text)) < LAMBDA_LIMIT
    assert 'CSV</a> in 2 parts: the others are <a href="/ungoverned.csv?part=2">2</a>' in text


def test_the_parts_of_a_long_list_are_counted_by_few_measurements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each view of the page counts them. One measurement for each row took a second."""
    measured: list[int] = []

    def measuring(columns: Sequence[str], rows: Sequence[Any]) -> str:
        measured.append(len(rows))
        return csv_text(columns, rows)

    monkeypatch.setattr(parts_of_answers, "csv_text", measuring)
    page = ungoverned(many(2_000, name="y" * 900).asked())
    document_part(page, "")
    assert [] == measured
    count = cast(Callable[[], int], page.values["count_csv_parts"])
    assert 2 == count()
    assert len(measured) < 100
    assert 2_000 == sum(measured)


def test_the_page_says_from_when_its_commands_are() -> None:
    """A command that ends something may be a day old."""
    text = html(ungoverned, stored(), path="/ungoverned")
    assert re.search("Scanned [^,]* ago", text)
    assert "look at a resource before you run its command" in text


def test_names_of_emoji_and_quotes_fit_into_an_answer_too() -> None:
    """They are the longest in JSON, where each is twelve letters, of which Lambda escapes two."""
    page = ungoverned(many(1_000, name='\N{ROCKET}"' * 180).asked())
    document: Any = document_part(page, "")
    assert document["parts"] > 1
    for number in range(1, document["parts"] + 1):
        part = document_part(page, str(number))
        assert len(json.dumps(formats.as_json(200, part).body)) < LAMBDA_LIMIT


@pytest.mark.parametrize("part", ["0", "2", "-1", "one", "1e3", "\N{SUPERSCRIPT TWO}", "9" * 20])
def test_a_part_that_there_is_not_is_refused(part: str) -> None:
    """With what it can be."""
    page = ungoverned(stored().asked())
    with pytest.raises(InputError, match="part must be a number from 1 to 1"):
        document_part(page, part)
    with pytest.raises(InputError, match="part must be a number from 1 to 1"):
        formats.as_csv(page, "", part, is_whole=True)


def test_thousands_of_reasons_fit_into_the_page_and_its_json() -> None:
    """The page shows fifty, says how many more there are, and links their table."""
    world = ConsoleWorld()
    unread = [Unread(str(HERE), f"topic {n}", "x:Y", f"{n} {'w' * 900}") for n in range(300)]
    scanned(world, HERE, unread=unread)
    scanned(world, THERE)
    text = html(ungoverned, world, path="/ungoverned")
    assert text.count("<li>topic") == 50
    assert 'And 250 more reasons: <a href="/ungoverned.csv?table=not-read">CSV</a>' in text


def test_sums_by_owner_add_up_although_ten_are_shown() -> None:
    """The eleventh line stands for the others."""
    text = html(ungoverned, many(60), path="/ungoverned")
    by_owner = text[text.index("Waste by owner") :]
    assert "<bdi>and 20 more</bdi>" in by_owner[: by_owner.index("</section>")]
    amounts = re.findall(
        r'<td class="number">\$([\d,]+)</td>', by_owner[: by_owner.index("</section>")]
    )
    assert 11 == len(amounts)
    assert 310_542 == pytest.approx(sum(int(a.replace(",", "")) for a in amounts), abs=11)
