"""Nothing in the README is untrue: each command is run by a test, and each figure is computed."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest

from cli import governor
from governor.core.catalog import list_price

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BENCHMARKS = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
VERSIONS = "integration/test_policy_versions.py"
MOST_WORDS = 450
RUN_BY = {
    "make up": "integration/test_up.py::test_whoever_opens_the_url_is_in_and_may_answer",
    "make deploy": "unit/test_deploy.py::test_make_hands_every_variable_on",
    "make check": "unit/test_run_tests.py::",
    "make check-all": "unit/test_run_tests.py::",
    "make docs": "unit/test_docs_site.py::test_no_page_loads_anything_from_elsewhere",
    "governor mode ask": f"{VERSIONS}::test_one_command_leads_from_the_parameters_to_ask_and_back",
    "uvx --from git+<URL> governor scan": (
        "integration/test_package.py::test_a_scan_needs_nothing_but_its_source"
    ),
}
"""Each command of the README, and a test that runs it."""


def commands() -> set[str]:
    """Return what a reader is told to type, less paths and comments."""
    fenced = re.findall(r"^((?:make|bin/governor|uvx) [^#\n]*)", README, re.MULTILINE)
    inline = re.findall(r"`((?:make|governor|bin/governor) [a-zA-Z][^`]*)`", README)
    return {one.strip().removeprefix("bin/") for one in (*fenced, *inline)}


def test_every_command_is_run_by_a_test() -> None:
    """And no test is named for one that the README has no more."""
    assert set(RUN_BY) == commands()


@pytest.mark.parametrize("command", sorted(RUN_BY))
def test_the_test_of_a_command_is_there(command: str) -> None:
    file, _, test = RUN_BY[command].partition("::")
    text = (ROOT / "tests" / file).read_text(encoding="utf-8")
    assert f"def {test}(" in text or (test == "" and "def test_" in text)


@pytest.mark.parametrize("command", sorted(one for one in RUN_BY if one.startswith("governor ")))
def test_a_command_is_one_of_the_command_lines(command: str) -> None:
    assert command.split()[1] in governor.COMMANDS


def test_what_a_forgotten_instance_costs_a_day_is_its_list_price() -> None:
    """In us-east-1, as the shipped catalog has it."""
    named = re.search(r"A forgotten `([\w.]+)` costs \$([\d,]+) a day", README)
    assert named is not None
    price = list_price(named[1])
    assert price is not None
    assert round(price * 24) == Decimal(named[2].replace(",", ""))


def test_the_pictures_come_first() -> None:
    """The comparison, three commands and the pages follow."""
    titles = ("## Why not", "## Start", "## Documentation")
    places = [README.index(one) for one in ("images/question-phone.png", *titles)]

    assert sorted(places) == places
    assert 3 == len(README.split("```sh\n")[1].split("```")[0].strip().splitlines())


def test_it_is_short_and_leads_to_eight_pages() -> None:
    """The pages themselves say the rest."""
    pages = re.findall(r"^- \[[^\]]+\]\((docs/[\w-]+\.md)\)", README, re.MULTILINE)

    assert MOST_WORDS >= len(README.split())
    assert 8 == len(set(pages))


def test_it_says_what_the_checks_need() -> None:
    """A stranger who runs `.ci/run` has it installed before."""
    _, _, said = README.partition("`.ci/run`")
    needed = ("Python", "git", "make", "package index", "Chromium")

    assert [] == [name for name in needed if name not in said]


def _row(title: str) -> list[str]:
    """Return the figures of a row of the comparison: ours, Custodian's, the plain Lambda's."""
    found = re.search(rf"^\| {title} \| (.*) \|$", README, re.MULTILINE)
    assert found is not None
    return found[1].split(" | ")


def test_the_comparison_is_what_was_measured() -> None:
    """At 2,000 instances, and on the verdicts of forty."""
    _, _, beside_others = BENCHMARKS.partition("## Compared with Cloud Custodian")
    _, _, of_2000 = beside_others.partition("| 2,000 |")
    seconds = re.findall(r"\| [\d.]+ / ([\d.]+) s \| [\d.]+ / ", of_2000)[:3]
    usd = re.findall(r"\| ([\d.]+) \|$", of_2000, re.MULTILINE)[:3]
    _, _, verdicts = beside_others.partition("### Verdicts")
    rows = re.findall(
        r"^\| (?:GPU Governor|Cloud Custodian|plain Lambda) \| (\d+)[^|]* \| (\d+)",
        verdicts,
        re.MULTILINE,
    )

    assert "judged twenty hard cases" in verdicts
    assert "and twenty ordinary instances" in verdicts
    assert [wrong for wrong, _ in rows] == _row(r"instances wrongly marked idle \(of 40\)")
    assert [missed for _, missed in rows] == _row(r"idle instances missed \(of the same 40\)")
    assert seconds == _row("seconds to check 2,000 instances once")
    assert [f"${Decimal(one):.0f}" for one in usd] == _row(
        "monthly cost of checking 2,000 instances every 5 minutes, without fixed costs"
    )
