"""The page of the command line says every command and option, and a test runs every command."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from cli import governor
from scripts.command_reference import PAGE, with_commands

TESTS = Path(__file__).parents[1]
TEXT = PAGE.read_text(encoding="utf-8")
LINE, VERSIONS = "integration/test_command_line.py", "integration/test_policy_versions.py"
RUN_BY = {
    "advice": "unit/test_advice_command.py::test_the_weeks_of_an_account_become_advice",
    "approvals": f"{LINE}::test_a_question_is_listed_shown_and_approved",
    "doctor": f"{LINE}::test_doctor_says_that_the_deploy_worked",
    "env-vars": "unit/test_env_vars.py::test_it_only_reads",
    "freezes": "unit/test_approval_commands.py::",
    "health": "integration/test_health.py::test_the_command_line_shows_it_as_it_is_now",
    "mode": f"{VERSIONS}::test_one_command_leads_from_the_parameters_to_ask_and_back",
    "open": "integration/test_console.py::test_a_code_leads_in_and_an_answer_is_on_record",
    "pause": "unit/test_pause_command.py::test_one_call_pauses",
    "policy": f"{VERSIONS}::test_a_risky_version_waits_until_another_person_accepts_it",
    "preflight": f"{LINE}::test_preflight_refutes_nothing_on_the_local_cloud",
    "reconcile": "unit/test_reconcile_command.py::test_people_read_it_a_line_an_action",
    "report": "unit/test_report_command.py::test_command_mail_and_page_say_the_same_cents",
    "restore": (
        "integration/test_restore.py::test_the_named_role_restores_and_another_learns_its_name"
    ),
    "resume": "unit/test_pause_command.py::test_resume_ends_the_pause_that_is_named",
    "scan": "unit/scan_command/test_outputs.py::test_files_and_table_come_together",
    "sessions": "unit/test_sessions_command.py::test_the_sessions_of_one_person_end_at_once",
    "simulate": "unit/simulation/test_command.py::",
    "spot": (
        "unit/test_spot_command.py::test_zones_come_cheapest_first_with_the_score_of_their_region"
    ),
    "status": f"{LINE}::test_the_status_is_one_screen",
    "uninstall": ("integration/test_uninstall.py::test_from_a_deployed_stack_to_an_empty_account"),
}
"""Each command, and a test that runs it."""


def test_the_page_is_that_of_the_commands() -> None:
    """`make fix` writes it."""
    assert with_commands(TEXT) == TEXT


@pytest.mark.parametrize("name", governor.COMMANDS)
def test_every_command_has_a_section_with_each_of_its_options(name: str) -> None:
    """Those of its own commands, too."""
    _, _, after = TEXT.partition(f"\n#### governor {name}\n")
    section, _, _ = after.partition("\n#")

    assert governor.COMMANDS[name].example in section
    for option in _options(governor.parser(name), name):
        assert f"`{option}" in section, option


def _options(parser: argparse.ArgumentParser, command: str) -> set[str]:
    """Return the long options of a command, and of the commands below it."""
    found: set[str] = set()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                if parser.prog != "governor" or name == command:
                    found |= _options(below, command)
        elif parser.prog != "governor":
            found |= {option for option in action.option_strings if option.startswith("--")}
    return found - {"--help"}


def test_the_check_sees_options_below_a_command() -> None:
    """As those of `governor approvals keep`."""
    assert {"--until", "--reason"} <= _options(governor.parser("approvals"), "approvals")


def test_a_page_without_the_section_is_refused() -> None:
    """Nothing would be generated."""
    with pytest.raises(ValueError, match="no section '## Commands'"):
        with_commands("# The command line\n")


def test_every_command_is_run_by_a_test() -> None:
    """A new command comes with one."""
    assert set(governor.COMMANDS) == set(RUN_BY)


@pytest.mark.parametrize("command", RUN_BY)
def test_the_test_of_a_command_is_there(command: str) -> None:
    """Under its name, or in its file."""
    file, _, name = RUN_BY[command].partition("::")
    text = (TESTS / file).read_text(encoding="utf-8")

    assert f"def {name}(" in text or (name == "" and "def test_" in text)
