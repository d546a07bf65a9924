"""Tables of commands: plain in a pipe, drawn on a terminal, and whole in both."""

from __future__ import annotations

import io
import re
import subprocess
import sys

import pytest

from cli.tables import Column, command_lines, table_text, wrapped

COLUMNS = (Column("ID"), Column("USD", is_number=True), Column("NAME", wraps=True))
ROWS = (("i-0123456789abcdef0", "5.67", "notebook"), ("i-1", "136.00", "train of the vision team"))
STYLES = re.compile(r"\x1b\[[0-9;]*m")
DRAWN = re.compile(r"[^\x00-\x7f]")


class Screen(io.StringIO):
    """Standard output that somebody looks at."""

    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, width: int, *rows: tuple[str, ...]) -> str:
    """Return the table as a terminal of this width gets it."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout", Screen())
    return table_text(COLUMNS, rows or ROWS)


def test_a_pipe_gets_plain_text() -> None:
    """Two spaces between columns, no styles and no lines, so that grep, cut and awk can read it."""
    assert [
        "ID                      USD  NAME",
        "i-0123456789abcdef0    5.67  notebook",
        "i-1                  136.00  train of the vision team",
    ] == table_text(COLUMNS, ROWS).splitlines()


def test_a_pipe_stays_plain_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """These variables force styles on libraries, and a width of another terminal."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "20")

    assert "i-0123456789abcdef0    5.67  notebook" == table_text(COLUMNS, ROWS).splitlines()[1]


def test_a_terminal_gets_styles(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = on_a_terminal(monkeypatch, 100)

    assert STYLES.search(shown)
    assert DRAWN.search(shown)
    assert "train of the vision team" in shown


def test_a_narrow_terminal_wraps_names_and_no_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """An id on two lines could not be copied; nothing is cut off."""
    shown = STYLES.sub("", on_a_terminal(monkeypatch, 42))

    assert "i-0123456789abcdef0" in shown
    assert "train of the vision team" not in shown
    for word in ("train", "of", "the", "vision", "team"):
        assert word in shown
    assert max(map(len, shown.splitlines())) <= 42
    assert "i-0123456789abcdef0" in on_a_terminal(monkeypatch, 10)


@pytest.mark.parametrize("width", [0, 100])
def test_text_of_others_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """A name is no markup of rich, and moves no cursor."""
    row = ("i-1", "1", "[bold]a[/bold] :smile: \x1b[2J\x07\rb")
    shown = on_a_terminal(monkeypatch, width, row) if width else table_text(COLUMNS, [row])

    assert "[bold]a[/bold] :smile:" in shown
    assert "\x1b[2J" not in shown
    assert not {"\x07", "\r"} & set(shown)


def test_a_long_cell_is_clipped_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that reads a pipe gets all of it."""
    columns, rows = [Column(longest=4)], [["abcdefgh"]]
    assert "abcdefgh" == table_text(columns, rows)

    monkeypatch.setattr("sys.stdout", Screen())
    assert "abc…" == table_text(columns, rows)


def test_a_word_in_quotes_stays_on_its_line() -> None:
    """A newline within quotes would be part of the word."""
    lines = command_lines("aws tag --name 'a name of it' --value 1", "  ", 24)

    assert ["  aws tag \\", "    --name 'a name of it' \\", "    --value 1"] == lines


def test_an_option_stays_beside_its_values() -> None:
    """A command breaks only before an option, even if a line is then wider than the terminal."""
    ids = "i-0123456789abcdef0 i-0123456789abcdef1"
    lines = command_lines(f"aws ec2 stop-instances --instance-ids {ids} --hibernate", "  ", 40)

    expected = ["  aws ec2 stop-instances \\", f"    --instance-ids {ids} \\", "    --hibernate"]
    assert expected == lines


@pytest.mark.parametrize(
    "whole",
    [
        "(arn:aws:kms:us-east-1:123456789012:key/01234567-89ab-cdef-0123-456789abcdef);",
        "https://api.example.com/console",
        "`governor report --ungoverned --json`.",
    ],
)
def test_what_people_copy_stays_whole(whole: str) -> None:
    """An ARN, a link or a command is on a line of its own, even if it is wider than the line."""
    lines = wrapped(f"  the key of it {whole} and more", 24)

    assert ["  the key of it", f"    {whole}", "    and more"] == lines


def test_a_lone_backtick_in_a_name_begins_no_command() -> None:
    assert ["a `b c", "  d"] == wrapped("a `b c d", 7)


def test_lines_are_measured_in_cells() -> None:
    """An emoji takes two columns, and a word may be longer than a line."""
    assert ["  it is 🔥🔥", "    🔥"] == wrapped("  it is 🔥🔥 🔥", 12)
    assert ["  abc", "defgh"] == wrapped("  abcdefgh", 5)
    assert [""] == wrapped("", 5)


def test_help_needs_no_rich() -> None:
    """It is imported when something is drawn: help has to be fast."""
    program = (
        "import sys\n"
        "from cli import approvals, governor, report, simulate, status\n"
        "try:\n    governor.main(['--help'])\nexcept SystemExit:\n    pass\n"
        "sys.exit('rich' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)

    assert 0 == done.returncode, done.stderr
