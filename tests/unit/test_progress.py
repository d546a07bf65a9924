"""Progress of commands: on a terminal only, on standard error only, and late enough."""

from __future__ import annotations

import io
import sys
import time

import pytest

from cli.progress import Counter, Progress


class Terminal(io.StringIO):
    """Standard error that somebody looks at, or that goes into a file."""

    def __init__(self, *, is_terminal: bool = True) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def watched(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool = True) -> Terminal:
    """Return what stands in for standard error from now on."""
    screen = Terminal(is_terminal=is_terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stderr", screen)
    return screen


def await_text(screen: Terminal, text: str) -> None:
    """The timer is a thread of its own."""
    end = time.monotonic() + 300
    while text not in screen.getvalue():
        assert time.monotonic() < end, screen.getvalue()
        time.sleep(0.001)


def test_a_slow_command_says_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the outer one of two shows, with the newest text; the line is erased at the end."""
    screen = watched(monkeypatch)
    with Progress("reading [bold]", after_seconds=0) as progress:
        await_text(screen, "reading [bold] …")
        progress.show("reading eu-west-1")
        await_text(screen, "reading eu-west-1 …")
        with Progress("waiting", after_seconds=0):
            progress.show("on")
            await_text(screen, "on …")
    erase_line = "\x1b[2K"
    show_cursor = "\x1b[?25h"
    _, _, end = screen.getvalue().rpartition("on …")
    assert "waiting" not in screen.getvalue()
    assert erase_line in end
    assert show_cursor in end
    with Progress("again", after_seconds=0):
        await_text(screen, "again …")


def test_standard_output_goes_where_it_should(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line that is printed meanwhile may be read by another program."""
    screen = watched(monkeypatch)
    with Progress("reading", after_seconds=0):
        await_text(screen, "reading …")
        sys.stdout.write('{"a": 1}\n')
    with Counter() as counter:
        counter.show("us-east-1", 1, 2)
        sys.stdout.write('{"b": 2}\n')

    assert '{"a": 1}\n{"b": 2}\n' == capsys.readouterr().out


@pytest.mark.parametrize(("is_terminal", "after"), [(False, 0.0), (True, 3600.0)])
def test_nothing_is_said_to_a_file_or_at_once(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, after: float
) -> None:
    screen = watched(monkeypatch, is_terminal=is_terminal)
    with Progress("reading", after_seconds=after) as progress:
        progress.show("more")
        time.sleep(0.02)
    assert "" == screen.getvalue()


def test_a_counted_read_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar stays when the read is over, and the next read has its own."""
    screen = watched(monkeypatch)
    with Counter("waits") as counter:
        counter.show("[us-east-1]", 0, 3)
        counter.show("[us-east-1]", 3, 3)
        counter.show("eu-west-1", 1, 1)

    assert "[us-east-1]:" in screen.getvalue()
    assert "3/3" in screen.getvalue()
    assert "waits" in screen.getvalue()
    assert "eu-west-1:" in screen.getvalue()


def test_an_interrupted_bar_gives_the_cursor_back(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = watched(monkeypatch)
    with Counter() as counter:
        counter.show("us-east-1", 1, 3)
        shown_cursors = screen.getvalue().count("\x1b[?25h")

    assert 0 == shown_cursors
    assert "\x1b[?25h" in screen.getvalue()


def test_a_file_gets_one_line_for_a_counted_read(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = watched(monkeypatch, is_terminal=False)
    with Counter() as counter:
        counter.show("nothing", 0, 0)
        for done in range(4):
            counter.show("us-east-1", done, 3)

    assert "us-east-1: 3 calls\n" == screen.getvalue()
