"""Commits since the convention began say in their subject what they do, in one form."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIRST = "5cd4e0861eae9d7f87d8ebec96b8769c1da1df33"
"""The last commit before the convention. A shallow clone, or an archive, may not have it."""
LONGEST = 72
_SUBJECT = re.compile(
    r"(feat|fix|perf|refactor|docs|test|build|ci|chore|style)(\([a-z0-9-]+\))?!?: \S.*"
)


def _git(*arguments: str) -> str | None:
    """Return what git prints; `None` where it fails, as it does without a repository."""
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def _is_well_formed(subject: str) -> bool:
    return len(subject) <= LONGEST and _SUBJECT.fullmatch(subject) is not None


def test_the_subject_of_each_new_commit_is_in_conventional_form() -> None:
    """At most 72 characters; merges and reverts that git names itself are left out."""
    subjects = _git("log", "--no-merges", "--format=%s", f"{FIRST}..HEAD")
    if subjects is None:
        pytest.skip("the history is not here: a shallow clone or an archive")

    assert [] == [line for line in subjects.splitlines() if not _is_well_formed(line)]


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("fix(approvals): keep the exemption reason with its owner", True),
        ("feat: scan accounts before anything is deployed", True),
        ("refactor(wiring)!: name every constructor", True),
        ("Keep the reason of an exemption with those whose it was", False),
        ("fix(approvals):", False),
        (f"docs: {'x' * 67}", False),
    ],
)
def test_a_subject_says_its_type_and_fits(subject: str, expected: bool) -> None:
    """The form, and the length."""
    assert expected is _is_well_formed(subject)
