"""The index by symptom: what it tells a reader to type is understood, and each command is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cli import governor, preflight

ROOT = Path(__file__).parents[2]
_, _, PAGE = (ROOT / "docs/runbook.md").read_text(encoding="utf-8").partition("\n## Symptoms\n")
LINES = sorted(set(re.findall(r"`(governor [^`]+)`", PAGE)))
ROWS = [
    row
    for row in re.findall(r"^\| (.*) \|$", PAGE, re.MULTILINE)
    if not row.startswith(("symptom", "-"))
]


@pytest.mark.parametrize("line", LINES)
def test_each_command_is_understood(line: str) -> None:
    """With its options; nothing is run."""
    given = governor.parsed(shlex.split(line)[1:])
    for name in getattr(given, "only", None) or ():
        assert name in {one.name for one in preflight.CHECKS}


def test_each_symptom_has_a_command_and_a_section() -> None:
    """One row, one answer."""
    assert 30 < len(ROWS)
    assert [] == [
        row for row in ROWS if not re.fullmatch(r"[^|]+ \| [^|]*`[^|]+ \| \[[^\]]+\]\([^)]+\)", row)
    ]


def test_each_command_of_the_command_line_helps_with_something() -> None:
    """Each says when it is needed."""
    assert [] == [name for name in governor.COMMANDS if f"governor {name}" not in PAGE]
