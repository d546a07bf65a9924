"""`make test` fails when any of its halves does, and shows what both have said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scripts import run_tests

ROOT = Path(__file__).parents[2]


def program(text: str, status: int) -> list[str]:
    """Prints a text and ends with a status."""
    return [sys.executable, "-c", f"print({text!r}); raise SystemExit({status})"]


@pytest.mark.parametrize(("shown", "kept"), [(0, 0), (1, 0), (0, 1), (1, 2)])
def test_a_half_that_fails_is_a_suite_that_fails(
    shown: int, kept: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whichever it is."""
    status = run_tests.side_by_side(program("cloud", shown), program("rules", kept))
    assert bool(shown or kept) == bool(status)
    assert "cloud\nrules\n" == capfd.readouterr().out


def test_what_the_suite_leaves_out_is_what_the_halves_leave_out(pytestconfig: pytest.Config) -> None:
    """And nothing else: together they are what pytest runs by itself."""
    assert f"-m '{run_tests.WHOLE}'" in (ROOT / "pyproject.toml").read_text()
    assert pytestconfig.getini("testpaths") == ["tests", "agent/tests"]
