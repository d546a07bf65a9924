"""docs/scan.md shows what the command prints, and names every field, finding and status."""

from __future__ import annotations

import re

import pytest

from cli.governor import parser
from cli.scan import INCOMPLETE, NOTHING, WASTE
from cli.scan.table import report_text
from governor.scan.documents import COLUMNS, report_document
from governor.scan.model import Finding, Strength
from governor.scan.registry import KINDS
from scripts.scan_example import PAGE, page_with, report, scan

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_example_is_that_of_the_code() -> None:
    """`make fix` writes it anew."""
    assert TEXT == page_with(report_text(report()))


def test_the_example_is_a_scan_by_every_kind_and_the_same_each_time() -> None:
    """No row of it is written by hand: each has a kind that the command knows."""
    again = scan()
    assert report_text(report()) == report_text(again)
    asked = set(again.calls)
    for kind in KINDS:
        assert kind.is_billed or asked & set(kind.operations), kind.name
    findings = {row.judgment.finding for row in again.rows}
    assert {Finding.IDLE, Finding.UNUSED, Finding.LIKELY_IDLE, Finding.BUSY} <= findings


def test_every_field_is_documented_and_no_other() -> None:
    """Those of the whole report, and those of a row."""
    whole, row = TEXT.split("JSON has these fields", 1)[1].split("The fields of a row are", 1)
    row = row.split("\n## ", 1)[0]
    assert list(report_document(report())) == _first_cells(whole)
    assert sorted(COLUMNS) == sorted(_first_cells(row))


@pytest.mark.parametrize("word", [*Finding, *Strength])
def test_every_finding_and_strength_is_explained(word: str) -> None:
    """A reader of the table looks them up."""
    assert f"| `{word}` |" in TEXT


@pytest.mark.parametrize("finding", Finding)
def test_the_page_says_what_counts_as_waste(finding: Finding) -> None:
    """As the sums do."""
    (line,) = re.findall(rf"^\| `{finding}` \|.*\| (yes|no)", TEXT, re.MULTILINE)
    assert ("yes" == line) is finding.is_waste


def test_every_status_is_named() -> None:
    """A pipeline branches on them."""
    part = TEXT.split("## Exit status", 1)[1].split("\n## ", 1)[0]
    assert {NOTHING, 1, 2, WASTE, INCOMPLETE} == {
        int(one) for one in re.findall(r"^\| (\d)", part, re.M)
    }


def test_every_option_is_named() -> None:
    """The page explains each."""
    options = {
        option
        for action in parser("scan")._subparsers._group_actions[0].choices["scan"]._actions  # type: ignore[union-attr,index]
        for option in action.option_strings
        if option.startswith("--") and option != "--help"
    }
    assert len(options) >= 8
    assert set() == {
        option for option in options if f"`{option}" not in TEXT and f"{option} " not in TEXT
    }


def _first_cells(table: str) -> list[str]:
    """Return the names in the first cells of a table."""
    rows = re.findall(r"^\| (`[^|]+`) \|", table, re.MULTILINE)
    return [name for cell in rows for name in re.findall(r"`(\w+)`", cell)]
