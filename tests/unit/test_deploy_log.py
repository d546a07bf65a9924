"""`make deploy` shows a summary and the change set; the rest is in a log file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from scripts.deploy_log import Shown, run_logged, why_failed

OUTPUT = """\
Uploading to 1234  100 / 100  (100.00%)
CloudFormation stack changeset
-----
Operation  LogicalResourceId
+ Add      StateTable
Deploy this changeset? [y/N]: {question}
CloudFormation events from stack operations (refresh every 5.0 seconds)
CREATE_IN_PROGRESS  StateTable
CREATE_COMPLETE     StateTable
"""
FAKE = """
import sys
print("Uploading 1"); print("CloudFormation stack changeset"); print("+ Add  StateTable")
print("Deploy this changeset? [y/N]: ", end=""); sys.stdout.flush()
answer = input()
print("CloudFormation events from stack operations")
for number in range(2000): print("CREATE_IN_PROGRESS", number)
print("CREATE_FAILED  StateTable  it exists"); sys.exit(int(answer != "y"))
"""


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_the_change_set_and_its_question_are_shown_as_they_come(size: int) -> None:
    """In whatever pieces: the question must be there before it is answered."""
    shown = Shown()
    parts = [OUTPUT[start : start + size] for start in range(0, len(OUTPUT), size)]
    text = "".join(map(shown.feed, parts))

    # In small pieces, the beginning of a line that ends the change set may be seen.
    assert "+ Add      StateTable\n" in text
    assert "Deploy this changeset? [y/N]: " in text
    assert "Uploading" not in text
    assert "CREATE_COMPLETE" not in text


@pytest.mark.parametrize(("answer", "status"), [("y", 0), ("n", 1)])
def test_a_deploy_says_little_and_logs_all(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    answer: str,
    status: int,
) -> None:
    """A failure is named on the terminal, too."""
    log = tmp_path / "build" / "deploy.log"
    given = tmp_path / "answer"
    given.write_text(f"{answer}\n")
    with given.open() as file:
        before = os.dup(0)
        os.dup2(file.fileno(), 0)
        try:
            found = run_logged([sys.executable, "-c", FAKE], dict(os.environ), log)
        finally:
            os.dup2(before, 0)
            os.close(before)
    said = capfd.readouterr()

    assert status == found
    assert "+ Add  StateTable\n" in said.out
    assert len(said.out.splitlines()) < 10
    assert ("CREATE_FAILED  StateTable  it exists" in said.err) == bool(status)
    assert "CREATE_IN_PROGRESS 1999" in log.read_text()


def test_a_failure_without_a_resource_shows_the_last_lines() -> None:
    text = "\n".join(f"line {number}" for number in range(50))
    assert [f"line {number}" for number in range(35, 50)] == why_failed(text)


def test_a_command_that_is_missing_has_the_status_of_shells(tmp_path: Path) -> None:
    assert 127 == run_logged([str(tmp_path / "sam")], {}, tmp_path / "log")
