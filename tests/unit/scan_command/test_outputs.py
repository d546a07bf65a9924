"""The report in each format: the same rows, the same sum, and nothing that a name can break."""

from __future__ import annotations

import argparse
import csv
import errno
import io
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from cli.errors import CommandError
from cli.scan import exit_status
from cli.scan.outputs import print_report, write_files
from cli.scan.page import page_html
from cli.scan.table import report_text
from cli.scan.tags import tag_commands
from governor.policy.model.policy import Policy
from governor.scan.documents import COLUMNS, report_document, rows_csv
from governor.scan.model import Finding, Judgment, Report, Strength, Unread
from governor.scan.rules import groups_of, refusals_of
from governor.scan.words import refusal_text
from governor.verdict.model import IdleParts
from tests.unit.scan.cloud_twin import CloudTwin, Refused
from tests.unit.scan.kinds import KindTwin, resource
from tests.unit.scan.reports import ACCOUNTS, REGIONS, fleet, report, row
from tests.unit.scan_command.conftest import Run

IDLE = Judgment(Finding.IDLE, Strength.STRONG, "No GPU worked.")
LIKELY = Judgment(Finding.LIKELY_IDLE, Strength.WEAK, "The CPU did nothing.")
UNMEASURED = Judgment(Finding.NOT_MEASURED, Strength.NONE, "Nothing was measured.")
BUSY = Judgment(Finding.BUSY, Strength.STRONG, "A GPU worked.")
PARTLY_IDLE = Judgment(Finding.PARTLY_IDLE, Strength.STRONG, "1 of 8 GPUs worked.")
ODD_NAMES = (
    '=HYPERLINK("http://evil")',
    "+1, with a comma",
    "-2\nand a line",
    "@cmd",
    "\ttab",
    "<script>alert(1)</script>",
    "🚀 train {{ 7*7 }} \u202e reversed",
    "é" * 300,
)


def rows_of_csv(text: str) -> list[Mapping[str, str]]:
    """Return the rows of a CSV."""
    return list(csv.DictReader(io.StringIO(text)))


class Amounts(HTMLParser):
    """The amounts of wasted rows in a page, its sums, and whatever it would load or run."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[Decimal] = []
        self.sums: list[Decimal] = []
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.text = ""
        self._is_wasted_row = self._is_sum = self._is_amount = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag == "tr":
            self._is_wasted_row = given.get("class") in ("strong", "weak")
        self._is_sum = self._is_sum or tag == "tfoot"
        self._is_amount = given.get("class") == "usd"

    def handle_endtag(self, tag: str) -> None:
        self._is_sum = self._is_sum and tag != "tfoot"
        self._is_amount = False

    def handle_data(self, data: str) -> None:
        self.text += data
        if not self._is_amount or data == "unknown":
            return
        if self._is_sum:
            self.sums.append(Decimal(data.replace(",", "")))
        elif self._is_wasted_row:
            self.rows.append(Decimal(data.replace(",", "")))


def amounts_of_table(text: str) -> tuple[list[Decimal], Decimal]:
    """Return the amounts of the wasted rows of a table, and its sum."""
    found = re.findall(r"^ *([\d,.]+)  (idle|likely idle|unused|wasted) ", text, re.MULTILINE)
    rows = [Decimal(usd.replace(",", "")) for usd, finding in found if finding != "wasted"]
    (total,) = [Decimal(usd.replace(",", "")) for usd, finding in found if finding == "wasted"]
    return rows, total


def test_prepaid_capacity_says_so_in_every_format() -> None:
    """An instance in a block costs nothing more, and EC2 does not show what a block did cost. No
    amount says either; fields of programs keep their types."""
    block = row(1, Judgment(Finding.UNUSED, Strength.STRONG, "2 free."), None, is_prepaid=True)
    inside = row(2, IDLE, "0", owner="grace", is_prepaid=True)
    whole = report([row(3, IDLE, "1"), block, inside])

    text = report_text(whole)
    assert re.search(r"^ +prepaid  unused  ", text, re.MULTILINE)
    assert re.search(r"^ +prepaid  idle  ", text, re.MULTILINE)
    assert "The sum leaves out 2 prepaid resources: ending them saves nothing." in text
    assert "not known" not in text
    page = page_html(whole)
    assert 2 == page.count('<td class="usd">prepaid</td>\n')
    # The group of `grace`, and that of the account of her instance.
    assert 2 == page.count('<td class="usd">1 of 1</td><td class="usd">prepaid</td>')
    document = json.loads(json.dumps(report_document(whole), default=str))
    (first, *prepaid) = document["rows"]
    assert not first["is_prepaid"]
    assert [True, True] == [one["is_prepaid"] for one in prepaid]
    assert {None, "0"} == {one["usd_per_hour"] for one in prepaid}
    assert 0 == document["unpriced_waste"]
    assert 0 == exit_status(whole, Decimal("730"))
    assert ["False", "True", "True"] == [one["is_prepaid"] for one in rows_of_csv(rows_csv(whole))]


def test_prepaid_waste_alone_names_no_amount() -> None:
    """Neither in the headline, nor in the sums of its group."""
    whole = report([row(2, IDLE, "0", is_prepaid=True), row(4, BUSY)])
    assert "1 of 2 resources in 2 accounts and 3 Regions is wasted." in report_text(whole)


@pytest.mark.parametrize("size", [2, 17, 300])
def test_the_sum_is_that_of_the_rows_in_every_format(size: int) -> None:
    """To the cent, with prices that have fractions of one."""
    third = [
        row(number, IDLE if number % 2 else LIKELY, "0.333333", what="g4dn.xlarge")
        for number in range(size)
    ]
    whole = report([*third, row(size, BUSY), row(size + 1, UNMEASURED), row(size + 2, IDLE, None)])
    total = whole.waste_usd_per_month
    assert Decimal("243.33") * size == total

    document = json.loads(json.dumps(report_document(whole), default=str))
    assert total == Decimal(document["waste_usd_per_month"])
    assert total == sum(Decimal(one["waste_usd_per_month"]) for one in document["rows"])
    wasted = [
        one for one in rows_of_csv(rows_csv(whole)) if one["finding"] in ("idle", "likely idle")
    ]
    assert total == sum(Decimal(one["usd_per_month"] or 0) for one in wasted)
    assert total == sum(Decimal(one["waste_usd_per_month"]) for one in rows_of_csv(rows_csv(whole)))
    page = Amounts(page_html(whole))
    assert total == sum(page.rows)
    assert {total} == set(page.sums)
    rows, shown = amounts_of_table(report_text(whole))
    assert total == shown
    if size < 20:
        assert total == sum(rows)


def test_groups_add_up_to_the_sum() -> None:
    """By account, owner and kind."""
    whole = fleet(40)
    for name_of in (lambda one: one.owner or "", lambda one: one.resource.target.account):
        groups = groups_of(whole.rows, name_of)
        assert whole.waste_usd_per_month == sum(group.waste_usd_per_month for group in groups)
        assert len(whole.rows) == sum(group.rows for group in groups)


@pytest.mark.parametrize("size", [0, 3, 30, 300])
def test_the_table_is_eighty_columns_wide(size: int) -> None:
    """But for commands, which must stay whole; and never longer than some screens."""
    text = report_text(fleet(size))
    for line in text.splitlines():
        assert line.startswith("    aws ") or cell_len(line) <= 80
    assert len(text.splitlines()) < 110


@pytest.mark.parametrize("finding", Finding)
def test_every_finding_fits_into_the_table(finding: Finding) -> None:
    """The longest one, too: every column begins in the same place."""
    judgment = Judgment(finding, Strength.STRONG, "")
    lines = report_text(report([row(1, judgment, "12345.678", name="x" * 99)])).splitlines()
    heading = next(line for line in lines if "USD A MONTH" in line)
    (shown,) = (line for line in lines if "…" in line and f"  {finding}  " in line)
    assert cell_len(shown) <= 80
    assert heading.index("PROOF") == shown.index("strong")


@pytest.mark.parametrize("name", ["abandoned-training-run", "abandoned-training-run-of-summer"])
def test_a_name_is_whole_and_so_is_its_type(name: str) -> None:
    """An owner for whom the first line has no room is on the second."""
    lines = report_text(report([row(1, IDLE, name=name)])).splitlines()
    at = next(index for index, line in enumerate(lines) if name in line and "strong" in line)
    below = lines[at + 1]
    assert "g5.12xlarge, 4 x A10G, 210987654321/eu-west-1" in below
    assert "…" not in lines[at] + below
    owner = row(1, IDLE).owner or "no owner"
    assert owner in lines[at] + below
    assert (owner in lines[at]) == (len(f"{name}, {owner}") <= 43)


def test_a_long_type_leaves_the_region_and_the_owner_whole() -> None:
    """The place goes to a line of its own where the second line has no room for it."""
    what = "reserved capacity of training plan llm-2026, 4 x ml.p5.48xlarge, 32 x H100"
    lines = report_text(report([row(1, IDLE, what=what, owner="the-vision-team")])).splitlines()
    at = next(index for index, line in enumerate(lines) if "strong" in line)
    below = [line for line in lines[at + 1 : at + 4] if line.startswith(" " * 14)]

    assert f"{what}, 210987654321/eu-west-1" in " ".join(" ".join(below).split())
    assert any("210987654321/eu-west-1" in line for line in below)
    assert max(map(len, below)) <= 80
    assert "…" not in "".join(below)


def test_an_owner_of_any_length_takes_one_line() -> None:
    lines = report_text(report([row(1, IDLE, owner="x" * 250)])).splitlines()
    owners = [line for line in lines if "xxx" in line]

    assert 1 == len(owners)
    assert owners[0].endswith("…")
    assert any("210987654321/eu-west-1" in line for line in lines)


def test_the_first_line_is_the_sum_and_the_most_expensive_waste_follows() -> None:
    """A reader of one line knows enough."""
    whole = report(
        [row(1, BUSY, "99"), row(2, IDLE, "55.04"), row(3, LIKELY, "5"), row(4, IDLE, "9")]
    )
    lines = report_text(whole).splitlines()
    assert "$50,399 a month is wasted by 3 of 4 resources in 2 accounts and 3 Regions." == lines[0]
    assert "The evidence for $3,650 of the waste is weak: ask before you act." == lines[1].strip()
    findings = re.findall(r"^ *[\d,.]+  ([a-z ]+?)  ", "\n".join(lines), re.MULTILINE)
    assert ["idle", "idle", "likely idle", "wasted", "busy"] == findings


def test_groups_that_are_not_shown_have_no_price() -> None:
    """It is that of instances with rows of their own, and no sum has it."""
    keeps = Judgment(Finding.KEEPS_RUNNING, Strength.NONE, "Its minimum size is 1.")
    text = report_text(report([row(number, keeps) for number in range(7)]))
    assert "and 2 more: 2 keeps running." in text


def test_a_long_list_is_cut_with_its_count_and_where_the_rest_is() -> None:
    """Nothing is left out without a word."""
    whole = fleet(300)
    text = " ".join(report_text(whole).split())
    wasted = sum(one.judgment.finding.is_waste for one in whole.rows)
    assert f"and {wasted - 20} more: " in text
    assert f"and {300 - wasted - 5} more: " in text
    assert "`--csv FILE`" in text


def test_a_cut_list_names_no_amount_where_none_is_known() -> None:
    """A sum of zero would read as if the rest were free."""
    rows = [row(number, BUSY, "9") for number in range(5)]
    rows += [row(number, BUSY, None) for number in range(5, 8)]
    text = " ".join(report_text(report(rows)).split())
    assert "and 3 more: 3 busy. `--csv" in text


def test_a_wasted_resource_without_a_price_is_named_beside_the_sum() -> None:
    """Unknown is never zero."""
    text = report_text(report([row(1, IDLE, None)]))
    assert "unknown  idle" in text
    assert "The sum leaves out 1 wasted resource whose price is not known." in text


def test_a_partly_idle_instance_says_how_many_gpus_are_idle() -> None:
    """In each format; one without a number, as in a scan of an earlier release, says only that."""
    counted = replace(PARTLY_IDLE, idle_parts=IdleParts(7, 8, "GPU"))
    whole = report([row(1, counted, "9"), row(2, PARTLY_IDLE, "1")])

    first, second = re.findall(r"partly idle +strong .*\n(.*)", report_text(whole))
    assert first.startswith(f"{'':14}7 of 8 GPUs idle: ")
    assert "GPUs idle" not in second
    assert all(cell_len(line) <= 80 for line in report_text(whole).splitlines())
    page = page_html(whole)
    assert 1 == page.count(">partly idle: <wbr>7 of 8 <wbr>GPUs<")
    assert 1 == page.count(">partly idle<")
    names = ("finding", "idle_parts", "all_parts", "part_name")
    assert [("partly idle", "7", "8", "GPU"), ("partly idle", "", "", "")] == [
        tuple(one[name] for name in names) for one in rows_of_csv(rows_csv(whole))
    ]
    document = json.loads(json.dumps(report_document(whole), default=str))
    assert [("partly idle", 7, 8, "GPU"), ("partly idle", None, None, None)] == [
        tuple(one[name] for name in names) for one in document["rows"]
    ]


def test_a_governed_resource_is_marked() -> None:
    """In each format."""
    whole = report([row(1, IDLE, is_governed=True), row(2, IDLE)])
    assert 1 == len(re.findall(r"  strong  \* ", report_text(whole)))
    assert 1 == page_html(whole).count(", governed")
    assert ["False", "True"] == sorted(one["is_governed"] for one in rows_of_csv(rows_csv(whole)))


@pytest.mark.parametrize("name", ODD_NAMES)
def test_no_name_breaks_a_format(name: str) -> None:
    """Neither a formula nor a line of its own, neither markup nor a script."""
    whole = report([row(1, IDLE, name=name, owner=name), row(2, IDLE, creator=name)])
    text = report_text(whole)
    assert all(line.startswith("    aws ") or cell_len(line) <= 80 for line in text.splitlines())
    assert len(report_text(report([row(1, IDLE), row(2, IDLE)])).splitlines()) + 10 >= len(
        text.splitlines()
    )
    for cells in csv.reader(io.StringIO(rows_csv(whole))):
        assert len(COLUMNS) == len(cells)
        assert [] == [cell for cell in cells if cell.lstrip()[:1] in ("=", "+", "-", "@")]
    page = Amounts(page_html(whole))
    assert "script" not in page.tags
    assert name.split()[0] in page.text
    document = json.loads(json.dumps(report_document(whole), default=str))
    assert name in [one["name"] for one in document["rows"]]


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    """One file, for light and dark, for paper."""
    html = page_html(fleet(30))
    page = Amounts(html)
    assert [] == page.addresses
    assert set() == page.tags & {"script", "link", "img", "iframe", "form"}
    assert "url(" not in html
    assert "default-src 'none'" in html
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html


def test_a_long_id_is_broken_on_a_phone() -> None:
    """The ARN of a provisioned throughput is wider than the screen."""
    phone = page_html(fleet(1)).partition("@media (max-width: 45rem)")[2].partition("@media")[0]
    assert ".id { white-space: normal; overflow-wrap: anywhere; }" in phone


def test_an_incomplete_report_says_so_in_every_format() -> None:
    """On the table and the page before the first row."""
    line = Unread(f"{ACCOUNTS[0]}/us-east-1", "Studio apps", "sagemaker:ListApps", "no right", True)
    whole = report([row(1, IDLE)], [line])
    for text in (report_text(whole), page_html(whole)):
        flat = " ".join(text.split())
        assert flat.index("The report is incomplete") < flat.index("notebook-1")
        assert "missing permission sagemaker:ListApps" in flat
    document = report_document(whole)
    assert (False, "sagemaker:ListApps") == (
        document["is_complete"],
        document["not_read"][0]["operation"],
    )


def test_one_missing_right_in_many_places_is_one_entry() -> None:
    """AWS words each refusal with its own Region."""
    unread = [
        Unread(f"{account}/{region}", topic, operation, f"not on {account}:{region}", True)
        for account in ACCOUNTS
        for region in REGIONS
        for topic, operation in (("apps", "sagemaker:ListApps"), ("hosts", "ec2:DescribeHosts"))
    ]
    (refusal,) = refusals_of(unread)
    assert ("apps", "hosts") == refusal.topics
    assert 6 == len(refusal.places)
    elsewhere = Unread("310987654321", "the whole account", "sts:AssumeRole", "no trust", True)
    assert 2 == len(refusals_of([*unread, elsewhere]))


def test_the_scan_names_its_own_calls_and_cost() -> None:
    """Nobody should learn it from a bill."""
    assert "10 calls, all of them reads, for which AWS bills about $0.0123" in report_text(fleet(3))
    assert "which AWS does not bill" in report_text(report([], usd_spent=Decimal()))


def test_json_has_the_documented_fields() -> None:
    """Programs read them: one that is renamed or gone breaks them."""
    document = report_document(fleet(3))
    expected = {
        "scanned_at", "is_complete", "waste_usd_per_month", "weak_waste_usd_per_month",
        "unpriced_waste", "rows", "not_read", "places", "calls", "scan_usd",
    }  # fmt: skip
    assert expected == set(document)
    assert list(COLUMNS) == list(document["rows"][0])


def test_the_commands_that_tag_are_grouped_by_place_and_quoted() -> None:
    """A hundred instances a command at most; those that are governed are left out."""
    rows = [row(6 * number, IDLE) for number in range(101)]
    rows += [row(1, BUSY), row(3, IDLE, is_governed=True)]
    lines = tag_commands(report(rows), Policy().selector)
    comments = [line for line in lines if line.startswith("#")]
    commands = [shlex.split(line) for line in lines if not line.startswith("#")]
    assert [f"# in account {ACCOUNTS[0]}:"] * 2 + [f"# in account {ACCOUNTS[1]}:"] == comments
    assert [100, 1, 1] == [len([word for word in one if word.startswith("i-")]) for one in commands]
    assert ["aws", "ec2", "create-tags", "--region", REGIONS[0], "--resources"] == commands[0][:6]
    assert ["--tags", "Key=Purpose,Value=GPU-Workload"] == commands[0][-2:]


def test_nothing_to_tag_is_a_comment() -> None:
    """A script of it does nothing."""
    (line,) = tag_commands(report([row(1, IDLE, is_governed=True)]), Policy().selector)
    assert line.startswith("# ")


@pytest.mark.parametrize(
    ("usd", "is_complete", "fail_over", "status"),
    [
        ("0", True, None, 0),
        ("10", True, None, 0),
        ("10", False, None, 4),
        ("0", False, None, 4),
        ("10", True, Decimal(7299), 3),
        ("10", True, Decimal(7300), 0),
        ("10", False, Decimal(7299), 3),
        ("10", False, Decimal(7300), 4),
    ],
)
def test_the_exit_status(usd: str, is_complete: bool, fail_over: Any, status: int) -> None:
    """A partial report never ends with 0; waste at the limit is not above it."""
    unread = [] if is_complete else [Unread("x", "y", "", "z")]
    assert status == exit_status(report([row(1, IDLE, usd)], unread), fail_over)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--role", "Audit"), "--role and --units go together"),
        (("--units", "r-abcd"), "--role and --units go together"),
        (("--fail-over", "much"), "'much' is not an amount in USD"),
        (("--fail-over", "-1"), "expected one argument|'-1' is not an amount"),
        (("--fail-over", "nan"), "'nan' is not an amount in USD"),
        (("--json", "--csv", "-"), "--json and --csv - do not go together"),
        (("--tag", "--json"), "--json and --tag do not go together"),
        (("--html", "-"), "--html needs the name of a file"),
    ],
)
def test_a_wrong_command_line_ends_with_status_2(
    cloud: CloudTwin, run: Run, words: tuple[str, ...], problem: str
) -> None:
    """Before anything is asked."""
    ended = run((), *words)
    assert (2, []) == (ended.status, cloud.calls)
    assert re.search(problem, ended.err)


def test_files_and_table_come_together(cloud: CloudTwin, run: Run, tmp_path: Path) -> None:
    """The files hold all rows."""
    kind = KindTwin([resource(name="n")], {"r-1": IDLE})
    table, page = tmp_path / "all.csv", tmp_path / "all.html"
    ended = run((kind,), "--csv", str(table), "--html", str(page), "--fail-over", "1000")
    assert 3 == ended.status
    assert ended.out.startswith("$1,460 a month is wasted by 2 of 2 resources")
    assert 2 == len(rows_of_csv(table.read_text(encoding="utf-8")))
    assert "<!doctype html>" in page.read_text(encoding="utf-8")
    assert [f"written: {table}", f"written: {page}"] == ended.err.splitlines()


def test_csv_on_standard_output_is_nothing_but_csv(cloud: CloudTwin, run: Run) -> None:
    """Standard error has the headline, and the list of what was not read."""

    def refuse(_: object) -> Any:
        raise Refused("AccessDenied")

    cloud.answers["ec2:DescribeRegions"] = refuse
    ended = run((), "--csv", "-")
    assert 4 == ended.status
    assert ",".join(COLUMNS) == ended.out.strip()
    assert "missing permission ec2:DescribeRegions" in ended.err


def test_a_file_that_cannot_be_written_is_refused_before_the_scan(
    cloud: CloudTwin, run: Run, tmp_path: Path
) -> None:
    """A scan of an organization takes too long to lose."""
    for option, place in (("--csv", tmp_path), ("--html", tmp_path / "none" / "x.html")):
        ended = run((), option, str(place))
        assert (1, []) == (ended.status, cloud.calls)
        assert str(place) in ended.err


def test_a_disk_that_is_full_loses_only_the_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, run: Run
) -> None:
    """The table is printed first."""

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    ended = run((KindTwin([resource()], {"r-1": IDLE}),), "--csv", str(tmp_path / "x.csv"))
    assert 1 == ended.status
    assert "a month is wasted" in ended.out
    assert "No space left on device" in ended.err


def test_ten_thousand_rows_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    """The table stays short."""
    whole: Report = fleet(10_000)
    assert len(report_text(whole).splitlines()) < 110
    assert 10_000 == len(rows_of_csv(rows_csv(whole)))
    assert len(page_html(whole)) < 15_000_000
    arguments = argparse.Namespace(json=True, csv=None, html=None, tag=False)
    print_report(whole, arguments)
    write_files(whole, arguments)
    assert 10_000 == len(json.loads(capsys.readouterr().out)["rows"])


def test_waste_without_a_price_never_passes_a_limit() -> None:
    """Nobody knows that the sum is not above it."""
    assert 4 == exit_status(report([row(1, IDLE, None)]), Decimal(100))
    assert 0 == exit_status(report([row(1, IDLE, None)]), None)
    assert 0 == exit_status(report([row(1, BUSY, None)]), Decimal(100))


def test_a_report_without_rows_and_places_claims_nothing() -> None:
    """An account that was not read may be full of accelerators."""
    line = Unread(ACCOUNTS[0], "the whole account", "ec2:DescribeRegions", "no", True)
    for unread in ([line], [line, line]):
        text = report_text(report([], unread))
        assert text.startswith("No accelerators were found in the parts that could be read.")
        assert "nothing that one left behind" not in text
    assert "nor anything that they left behind" in " ".join(report_text(report([])).split())


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_unicode_gets_the_report(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name with an emoji is no reason for a traceback."""
    output = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr("sys.stdout", output)
    for chosen in ({}, {"csv": "-"}):
        options = {"json": False, "csv": None, "tag": False, **chosen}
        print_report(report([row(1, IDLE, name="🚀")]), argparse.Namespace(**options))
    output.flush()


def test_a_full_disk_behind_the_output_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a pipeline that keeps the report."""

    class Full(io.StringIO):
        """A file on a full disk."""

        def write(self, _: str, /) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sys.stdout", Full())
    options = argparse.Namespace(json=True, csv=None, tag=False)
    with pytest.raises(CommandError, match="the report could not be written: No space left"):
        print_report(report([row(1, IDLE)]), options)


def test_remainders_of_unknown_origin_are_a_sum_of_their_own() -> None:
    """A FinOps engineer trusts the first line: nothing is in it that may be somebody else's."""
    unattached = Judgment(Finding.UNATTACHED, Strength.WEAK, "It may be left by a GPU host.")
    found = report([row(0, IDLE, "1"), row(1, unattached, "10"), row(2, unattached, "5")])
    assert Decimal(730) == found.waste_usd_per_month
    assert Decimal() == found.weak_waste_usd_per_month
    text = " ".join(report_text(found).split())
    assert "$730 a month is wasted by 1 of 3 resources" in text
    assert (
        "2 volumes and addresses ($10,950 a month) may be left over from GPU hosts. The sum leaves "
        "them out." in text
    )
    assert 0 == exit_status(found, Decimal(1_000))


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ("", "AWS's answer has another form than documented (KeyError('Endpoints'))"),
        ("ec2:DescribeVolumes", "a record has another form than documented, and is left out (x)"),
        ("ec2:DescribeVolumes", "Rate exceeded"),
    ],
)
def test_a_line_of_what_is_not_read_has_one_colon(operation: str, reason: str) -> None:
    """Two make it a riddle which part says what."""
    (refusal,) = refusals_of([Unread("123456789012/us-east-1", "volumes", operation, reason)])
    text = refusal_text(refusal)
    assert 1 == text.count(": "), text
    assert "::" not in text


@pytest.mark.parametrize("role", ["x;y", "*", "a b", "", "n" * 65, "team/", "a/*/b", "é", "x\n"])
def test_a_name_that_no_role_can_have_is_refused(cloud: CloudTwin, run: Run, role: str) -> None:
    """Before it stands in a policy that somebody attaches, or any call is made."""
    for words in (["--print-policy"], ["--units", "r-ab12"]):
        ended = run((), *words, f"--role={role}")
        assert (2, "") == (ended.status, ended.out)
        assert "is no name of a role" in ended.err
    assert [] == cloud.calls


@pytest.mark.parametrize("role", ["Audit", "team/Audit", "a.b@c-d_e+f=g,h", "n" * 64])
def test_any_name_of_a_role_is_taken(run: Run, role: str) -> None:
    """IAM allows a path before it."""
    ended = run((), "--print-policy", "--role", role)
    assert 0 == ended.status
    assert f"role/{role}" in ended.out
