"""Each promise of `docs/trust.md` names what proves it, and each invariant is named there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from governor.policy.document import parse_policy
from tests.soak import invariants
from tests.soak.parts import ROOT
from tests.soak.promises import PROMISES
from tests.soak.rules import DEFAULTS, Rules

assert invariants
PAGE = ROOT / "docs" / "trust.md"
BY_TESTS_ALONE = "tests only"
HEADINGS = "| mode | promise | tests | in the soak |"
_NAME = re.compile(r"`(\w+)`")


def _rows() -> list[list[str]]:
    """Return the cells of the tables of promises, one table for each subject."""
    text = PAGE.read_text(encoding="utf-8")
    chapter = text.partition("## What is promised")[2].partition("\n## ")[0]
    lines = [line for line in chapter.splitlines() if line.startswith("| ")]
    return [line.strip("|").split(" | ") for line in lines if line != HEADINGS]


ROWS = _rows()


@cache
def _tests() -> str:
    return "\n".join(
        path.read_text(encoding="utf-8") for path in Path(ROOT / "tests").rglob("test_*.py")
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1].strip()[:60])
def test_each_promise_names_a_test_and_an_invariant(row: list[str]) -> None:
    """Or it says that no run can show it, and its tests do."""
    how = (
        "a row of docs/trust.md is: mode, promise, `test_...`, `an_invariant` of "
        "tests/soak/invariants.py or "
        f" endings.py; where no run can show it, write '{BY_TESTS_ALONE}'"
    )
    assert len(row) == 4, how
    tests, proven = _NAME.findall(row[2]), _NAME.findall(row[3])

    assert tests, how
    assert [] == [name for name in tests if f"def {name}(" not in _tests()]
    assert [] == [name for name in proven if name not in PROMISES], how
    assert proven or row[3].strip() == BY_TESTS_ALONE, how


def test_each_invariant_is_named_by_a_promise() -> None:
    """One that nobody promised would not be missed."""
    named = {name for row in ROWS for name in _NAME.findall(row[-1])}

    assert set() == PROMISES.keys() - named, (
        "add it to the last column of the table in docs/trust.md"
    )


@pytest.mark.parametrize("path", DEFAULTS)
def test_the_soak_reads_the_policys_defaults_as_the_product_does(path: str) -> None:
    """It reads the document by itself, or a mistake there would hide one here."""
    found: object = parse_policy("").base().policy
    for name in path.split("."):
        found = getattr(found, name)

    assert found == DEFAULTS[path]


def test_an_override_counts_for_the_tags_that_it_names() -> None:
    """The last one that names a setting wins."""
    text = """
mode: ask
overrides:
  - {name: a, match: {tags: {Kind: auto}}, set: {mode: auto, approval: {notice_minutes: 5}}}
  - {name: b, match: {tags: {Kind: auto}}, set: {mode: observe}}
"""

    assert Rules(text, {}).get("mode") == "ask"
    assert Rules(text, {"Kind": "auto"}).get("mode") == "observe"
    assert Rules(text, {"Kind": "auto"}).get("approval.notice_minutes") == 5
