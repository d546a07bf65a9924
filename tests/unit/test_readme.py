"""Nothing in the README is untrue: each command is run by a test, and each figure is computed."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest

from cli import governor
from governor.core.catalog import list_price
from tests.unit.test_docs import _anchors

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINE, VERSIONS = "integration/test_command_line.py", "integration/test_policy_versions.py"
RUN_BY = {
    "make up": "integration/test_up.py::test_whoever_opens_the_url_is_in_and_may_answer",
    "make cloud": (
        "integration/test_up.py::test_make_cloud_gives_the_reader_an_account_until_it_is_ended"
    ),
    "make deploy": "unit/test_deploy.py::test_make_hands_every_variable_on",
    "make check": "unit/test_run_tests.py::",
    "make env-project": "unit/test_environment.py::",
    "make docs": "unit/test_docs_site.py::test_no_page_loads_anything_from_elsewhere",
    "governor advice": "unit/test_advice_command.py::test_the_weeks_of_an_account_become_advice",
    "governor approvals list": f"{LINE}::test_a_question_is_listed_shown_and_approved",
    "governor doctor": f"{LINE}::test_doctor_says_that_the_deploy_worked",
    "governor freezes": "unit/test_approval_commands.py::",
    "governor health": "integration/test_health.py::test_the_command_line_shows_it_as_it_is_now",
    "governor mode ask": f"{VERSIONS}::test_one_command_leads_from_the_parameters_to_ask_and_back",
    "governor open": "integration/test_console.py::test_a_code_leads_in_and_an_answer_is_on_record",
    "governor pause --all": "unit/test_pause_command.py::test_one_call_pauses",
    "governor resume --all": "unit/test_pause_command.py::test_resume_ends_the_pause_that_is_named",
    "governor policy check FILE": "unit/test_policy_commands.py::test_every_example_is_a_policy",
    "governor policy put FILE": (
        f"{VERSIONS}::test_a_risky_version_waits_until_another_person_accepts_it"
    ),
    "governor preflight": f"{LINE}::test_preflight_refutes_only_what_is_unlike_aws",
    "governor simulate": "unit/simulation/test_command.py::",
    "governor scan": "unit/scan_command/test_outputs.py::test_files_and_table_come_together",
    "uvx --from git+URL governor scan": (
        "integration/test_package.py::test_a_scan_needs_nothing_but_its_source"
    ),
    "governor status": f"{LINE}::test_the_status_is_one_screen",
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
    """In us-east-1, as the shipped catalogue has it."""
    named = re.search(r"A forgotten `([\w.]+)` costs \$([\d,]+) a day", README)
    assert named is not None
    price = list_price(named[1])
    assert price is not None
    assert round(price * 24) == Decimal(named[2].replace(",", ""))


def test_the_pictures_come_first() -> None:
    """Then four commands; the everyday ones and the first week follow."""
    places = [
        README.index(one)
        for one in ("images/question-phone.png", "```sh", "## Everyday", "## The first")
    ]
    assert sorted(places) == places
    assert 4 == len(README.split("```sh\n")[1].split("```")[0].strip().splitlines())
    assert {"everyday-commands", "the-first-week", "documentation"} <= _anchors(ROOT / "README.md")
