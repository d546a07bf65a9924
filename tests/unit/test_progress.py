"""Progress of commands: after two seconds, on a terminal, and nothing of it is left."""

from __future__ import annotations

import io
import time

import pytest

from cli.progress import Progress


class Terminal(io.StringIO):
    """Standard error that somebody looks at, or that goes into a file."""

    def __init__(self, *, is_terminal: bool = True) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def await_text(screen: Terminal, text: str) -> None:
    """The timer is a thread of its own."""
    end = time.monotonic() + 300
    while text not in screen.getvalue():
        assert time.monotonic() < end, screen.getvalue()
        time.sleep(0.001)


def test_what_takes_long_is_said_and_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with Progress("reading", after_seconds=0) as progress:
        await_text(screen, "\rreading …")
        progress.show("reading eu-west-1")
        with Progress("waiting", after_seconds=0):
            progress.show("on")
    assert (
        "\rreading …\rreading eu-west-1 …\ron …               \r                   \r"
        == screen.getvalue()
    )
    with Progress("again", after_seconds=0):
        await_text(screen, "\ragain …")


@pytest.mark.parametrize(("is_terminal", "after"), [(False, 0.0), (True, 3600.0)])
def test_nothing_is_said_to_a_file_or_at_once(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, after: float
) -> None:
    screen = Terminal(is_terminal=is_terminal)
    monkeypatch.setattr("sys.stderr", screen)
    with Progress("reading", after_seconds=after) as progress:
        progress.show("more")
        time.sleep(0.02)
    assert "" == screen.getvalue()
