"""Notes on standard error: in lines of the width of a terminal, and whole in a pipe."""

from __future__ import annotations

import io

import pytest

from cli import governor
from cli.errors import CommandError
from cli.notes import print_note

LONG = "no question that is open is about 'x'. " * 5


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Show standard error on a terminal of 80 columns. pytest replaces it before each test."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = Screen()
    monkeypatch.setattr("sys.stderr", shown)
    return shown


def test_a_note_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = on_a_terminal(monkeypatch)
    print_note(f"{LONG.strip()}\n  3f2a  notebook-7")

    lines = screen.getvalue().splitlines()
    assert 80 >= max(map(len, lines))
    assert LONG.split() == " ".join(lines[:-1]).split()
    assert "  3f2a  notebook-7" == lines[-1]


def test_a_note_is_whole_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    print_note(LONG)
    assert f"{LONG}\n" == capsys.readouterr().err


def test_an_error_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = on_a_terminal(monkeypatch)

    def refuse(*_: object) -> None:
        raise CommandError(LONG)

    monkeypatch.setattr(governor, "check_first", refuse)
    assert 1 == governor.main(["status"])
    assert 80 >= max(map(len, screen.getvalue().splitlines()))
    assert screen.getvalue().startswith("governor: no question")


def test_a_wrong_line_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = on_a_terminal(monkeypatch)
    with pytest.raises(SystemExit) as ended:
        governor.main(["simulate", "--days", "900"])
    assert 2 == ended.value.code
    assert 80 >= max(map(len, screen.getvalue().splitlines()))
    assert "governor simulate: error: argument --days:" in screen.getvalue()
