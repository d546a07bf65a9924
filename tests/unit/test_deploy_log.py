"""`make deploy` shows a summary of the change set; the rest is in a log file."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts.deploy_log import Shown, run_logged, why_failed

QUESTION = "Deploy this changeset? [y/N]: "
RULE = "-" * 97


def table(rows: Sequence[tuple[str, str, str, str]], titles: tuple[str, ...]) -> str:
    """Return a table as SAM CLI draws it: four columns of 24, with long cells on several lines."""
    lines = [RULE, "".join(f"{title:<25}" for title in titles), RULE]
    for row in rows:
        pieces = [textwrap.wrap(cell, 22) for cell in row]
        for number in range(max(map(len, pieces))):
            cells = [piece[number] if number < len(piece) else "" for piece in pieces]
            lines.append("".join(f"{cell:<25}" for cell in cells))
    return "\n".join([*lines, RULE, "", ""])


def change_set(*rows: tuple[str, str, str, str]) -> str:
    titles = ("Operation", "LogicalResourceId", "ResourceType", "Replacement")
    return f"CloudFormation stack changeset\n{table(rows, titles)}"


def events(*rows: tuple[str, str, str, str]) -> str:
    titles = ("ResourceStatus", "ResourceType", "LogicalResourceId", "ResourceStatusReason")
    heading = "CloudFormation events from stack operations (refresh every 5.0 seconds)"
    return f"{heading}\n{table(rows, titles)}"


FUNCTION = "AWS::Lambda::Function"
MACHINE = "AWS::StepFunctions::StateMachine"
CHANGES = [
    *[("+ Add", f"Function{number}", FUNCTION, "N/A") for number in range(40)],
    ("+ Add", "RemediationStateMachineOfTheStack", MACHINE, "N/A"),
    *[("* Modify", f"Changed{number}", FUNCTION, "False") for number in range(2)],
    ("* Modify", "StateTable", "AWS::DynamoDB::Table", "True"),
    ("* Modify", "Permission", "AWS::Lambda::Permission", "Conditional"),
    *[("- Delete", f"OldAlarm{number}", "AWS::CloudWatch::Alarm", "N/A") for number in range(9)],
]
OUTPUT = (
    "Uploading to 1234  100 / 100  (100.00%)\n"
    f"{change_set(*CHANGES)}\n"
    "Changeset created successfully. arn:aws:cloudformation:us-east-1:123456789012:changeSet/a/b\n"
    "\n\nPreviewing CloudFormation changeset before deployment\n=====\n"
    f"{QUESTION}"
    f"{events(('CREATE_COMPLETE', 'AWS::DynamoDB::Table', 'StateTable', '-'))}"
)
SUMMARY = """\
Change set of 54 resources, in full in the log:
  delete       AWS::CloudWatch::Alarm: OldAlarm0, OldAlarm1, OldAlarm2,
               OldAlarm3, OldAlarm4, OldAlarm5, OldAlarm6, OldAlarm7, OldAlarm8
  replace      AWS::DynamoDB::Table: StateTable
  may replace  AWS::Lambda::Permission: Permission
  change       AWS::Lambda::Function: Changed0, Changed1
  add          AWS::Lambda::Function: Function0, Function1, Function2 and 37
               more
  add          AWS::StepFunctions::StateMachine:
               RemediationStateMachineOfTheStack
"""
FAKE = """
import sys
print("Uploading 1"); print(sys.argv[1])
print("Deploy this changeset? [y/N]: ", end=""); sys.stdout.flush()
answer = input()
for number in range(2000): print("CREATE_IN_PROGRESS", number)
print(sys.argv[2]); sys.exit(int(answer != "y"))
"""
REASON = "Resource handler returned message: it exists already, so choose another name for it."


def shown(output: str, size: int = 10_000) -> str:
    """Return what is shown of an output that comes in pieces of this size."""
    picked = Shown()
    parts = [output[start : start + size] for start in range(0, len(output), size)]
    return "".join(map(picked.feed, parts))


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_summary_and_the_question_are_shown_as_they_come(size: int) -> None:
    """In whatever pieces: the question must be there before it is answered. Everything that is
    deleted or may be replaced is named, and of the rest a few of each type."""
    text = shown(OUTPUT, size)

    assert f"{SUMMARY}\n{QUESTION}" == text
    assert 80 >= max(map(len, text.splitlines()))


def test_a_change_set_of_outputs_alone_says_so() -> None:
    assert "The change set changes no resource.\n\n" == shown(change_set(("-", "-", "-", "-")))


def test_a_deploy_without_changes_says_so() -> None:
    said = "No changes to deploy. Stack gpu-governor is up to date\n"
    assert said == shown(f"Uploading\n\n{said}")


@pytest.mark.parametrize(("answer", "status"), [("y", 0), ("n", 1)])
def test_a_deploy_says_little_and_logs_all(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    answer: str,
    status: int,
) -> None:
    """A failure is named on the terminal, too, with its whole reason."""
    log = tmp_path / "build" / "deploy.log"
    given = tmp_path / "answer"
    given.write_text(f"{answer}\n")
    changes = change_set(("+ Add", "StateTable", "AWS::DynamoDB::Table", "N/A"))
    failed = events(("CREATE_FAILED", "AWS::DynamoDB::Table", "StateTable", REASON))
    command = [sys.executable, "-c", FAKE, changes, failed]
    with given.open() as file:
        before = os.dup(0)
        os.dup2(file.fileno(), 0)
        try:
            found = run_logged(command, dict(os.environ), log)
        finally:
            os.dup2(before, 0)
            os.close(before)
    said = capfd.readouterr()

    assert status == found
    assert "  add          AWS::DynamoDB::Table: StateTable\n" in said.out
    assert len(said.out.splitlines()) < 10
    assert ("CREATE_FAILED StateTable (AWS::DynamoDB::Table):" in said.err) == bool(status)
    assert 80 >= max(map(len, said.err.splitlines()), default=0)
    assert "CREATE_IN_PROGRESS 1999" in log.read_text()


def test_a_deploy_may_leave_its_change_set_to_the_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "build" / "deploy.log"
    command = [sys.executable, "-c", "import sys; print(sys.argv[1])", change_set(*CHANGES)]

    assert 0 == run_logged(command, dict(os.environ), log, shows_change_set=False)
    assert "" == capfd.readouterr().out
    assert "Function39" in log.read_text()


def test_a_failure_is_one_sentence_each() -> None:
    """Not a cell of a table, whose words are cut."""
    rows = [
        ("CREATE_IN_PROGRESS", "AWS::DynamoDB::Table", "StateTable", "-"),
        ("CREATE_FAILED", MACHINE, "RemediationStateMachineOfTheStack", "No such role"),
        ("CREATE_FAILED", "AWS::SNS::Topic", "AlertTopic", "Not created"),
    ]
    assert [
        "CREATE_FAILED RemediationStateMachineOfTheStack",
        "  (AWS::StepFunctions::StateMachine): No such role",
        "CREATE_FAILED AlertTopic (AWS::SNS::Topic): Not created",
    ] == why_failed(events(*rows))


def test_a_failure_without_a_resource_shows_the_last_lines() -> None:
    text = "\n".join(f"line {number}" for number in range(50))
    assert [f"line {number}" for number in range(35, 50)] == why_failed(text)


def test_a_command_that_is_missing_has_the_status_of_shells(tmp_path: Path) -> None:
    assert 127 == run_logged([str(tmp_path / "sam")], {}, tmp_path / "log")
