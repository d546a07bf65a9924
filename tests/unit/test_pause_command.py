"""`governor pause --all` and `governor resume --all`, as a person in a terminal uses them."""

from __future__ import annotations

from typing import Any

import pytest

from cli import governor
from tests.unit.test_approval_commands import QUESTION

SINCE = "2026-11-20T12:00:00+00:00"
PAUSE = {"since": SINCE, "by": "aws:arn:aws:iam::1:user/ada", "reason": "a drill"}


class FakeApi:
    """Keeps what was asked of it."""

    def __init__(self, pause: dict[str, Any] | None = None, *waiting: dict[str, Any]) -> None:
        self.pause, self.waiting = pause, list(waiting)
        self.asked: list[tuple[str, str, dict[str, Any] | None]] = []

    def call(
        self, method: str, path: str, document: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """As the API."""
        self.asked.append((method, path, document))
        if path == "/api/freezes":
            return {"pause": self.pause, "freezes": [], "caps": [], "waiting": self.waiting}
        return PAUSE


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    found = FakeApi(PAUSE, QUESTION)
    monkeypatch.setattr("cli.pause.api_of", lambda _: found)
    return found


def test_one_call_pauses(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == governor.main(["pause", "--all", "--reason", "a drill"])

    assert [("POST", "/api/pause", {"reason": "a drill"})] == api.asked
    said = capsys.readouterr().out
    assert (
        "Everything is paused. ada (AWS identity) began the pause at Fri Nov 20, 12:00 "
        "UTC: a drill." in said
    )
    assert "governor resume --all" in said


def test_resume_shows_what_goes_on_and_changes_nothing(
    api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 1 == governor.main(["resume", "--all"])

    said = capsys.readouterr().err
    assert [("GET", "/api/freezes", None)] == api.asked
    assert "train-a (i-0123456789abcdef0, 123456789012/us-east-1): stop" in said
    assert f"governor resume --all --since {SINCE}" in said


def test_resume_ends_the_pause_that_is_named(
    api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 0 == governor.main(["resume", "--all", "--since", SINCE])

    assert ("POST", "/api/resume", {"since": SINCE}) == api.asked[-1]
    assert "The pause has ended." in capsys.readouterr().out


def test_there_may_be_nothing_to_resume(api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.pause = None
    assert 1 == governor.main(["resume", "--all"])
    assert "nothing is paused" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_neither_does_anything_without_all(command: str) -> None:
    with pytest.raises(SystemExit):
        governor.main([command])
