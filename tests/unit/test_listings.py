"""Every command that lists something fits 80 columns, whatever the names in it are.

A new command is found by its parser: it needs a listing here, or a reason why it lists nothing.
"""

from __future__ import annotations

import argparse
import io
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cli import approvals, freezes, governor, policy_versions, sessions, spot, tables
from cli.output import Output
from governor.approvals.model.terms import SignIn

LONG = "name-" * 50
ACCOUNT = "123456789012"
REGION = "ap-southeast-1"
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
STYLES = re.compile(r"\x1b\[[0-9;]*m")


def question(number: int) -> dict[str, Any]:
    return {
        "id": f"{number:x}" + "0" * 31,
        "instance_id": f"i-{number:017x}",
        "instance_name": LONG,
        "instance_type": "p6-b300.48xlarge",
        "account": ACCOUNT,
        "region": REGION,
        "usd_per_day": "12345.678",
        "action": "terminate",
        "expires_at": "2026-11-20T13:00:00Z",
        "can_hold_late": True,
        "owner": LONG,
    }


class Api:
    """Answers with as long names as there are."""

    def call(self, _: str, path: str) -> dict[str, Any]:
        if path == "/api/freezes":
            return {
                "freezes": [
                    {"what": f"owner {LONG}", "why": LONG, "since": "2026-11-20T12:00:00Z"}
                ],
                "caps": [{"what": f"OWNER#{LONG}", "used": 100, "most": 500}],
                "waiting": [question(1), question(2)],
            }
        return {"questions": [question(1), question(2)]}


def list_questions() -> None:
    api: Any = Api()
    approvals._list(api, argparse.Namespace(json=False))


def list_freezes() -> None:
    api: Any = Api()
    freezes._freezes(api, argparse.Namespace(json=False))


def list_sessions() -> None:
    person = SignIn(f"oidc:{LONG}", f"oidc:{LONG}", NOW, NOW + timedelta(hours=8), LONG)
    sessions._print([sessions._Session(("SESSION#a", "x"), person)], as_json=False)


def list_versions() -> None:
    rows = [("3sL4kqtJlcpX", "2026-11-20T12:00:00Z", "not in force", LONG)]
    tables.print_table(policy_versions._COLUMNS, rows)


def list_zones() -> None:
    zone = spot._Zone(f"{REGION}-lax-1a", REGION, "98.3200", 100, 10)
    spot._print("p5.48xlarge", "Linux/UNIX", [REGION], [zone], [])
    spot._print("p5.48xlarge", "Linux/UNIX", [REGION] * 9, [], [])


def say_lines() -> None:
    """All commands that print through `Output`."""
    with Output(argparse.Namespace(json=False)) as out:
        out.say("  " + "a sentence that goes on and on, " * 9)


LISTINGS: Mapping[str, Callable[[], None]] = {
    "approvals list": list_questions,
    "freezes": list_freezes,
    "sessions list": list_sessions,
    "policy history": list_versions,
    "spot": list_zones,
    "policy explain": say_lines,
    "uninstall": say_lines,
    "reconcile": say_lines,
    "restore": say_lines,
}
TESTED_ELSEWHERE = {
    "scan": "tests/unit/scan_command/test_table.py",
    "simulate": "a table of figures, beside tests/unit/simulation",
    "report": "columns with a longest cell each, which wrap",
    "status": "sentences that wrap",
    "doctor": "sentences that wrap",
    "health": "sentences, one an instance",
    "preflight": "sentences that wrap",
    "advice": "sentences, and commands to copy",
}
LIST_NOTHING = {
    *("approvals show", "approvals approve", "approvals keep", "approvals exempt"),
    *("approvals hold", "approvals end-keep", "open", "pause", "resume", "sessions end", "mode"),
    *("policy check", "policy schema", "policy get", "policy diff", "policy put"),
    *("policy rollback", "policy accept", "env-vars"),
}
"""They answer about one thing, or print a document for a program."""


def lines_of_commands() -> Iterator[str]:
    """Return every command and subcommand that can be run."""

    def below(parser: argparse.ArgumentParser) -> Iterator[str]:
        found = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
        if not found:
            yield parser.prog.removeprefix("governor ")
        for action in found:
            for one in action.choices.values():
                yield from below(one)

    for name in governor.COMMANDS:
        (areas,) = [
            one
            for one in governor.parser(name)._actions
            if isinstance(one, argparse._SubParsersAction)
        ]
        yield from below(areas.choices[name])


def test_every_command_is_measured_or_lists_nothing() -> None:
    """The lists here have no command that is gone, either."""
    known = {*LISTINGS, *TESTED_ELSEWHERE, *LIST_NOTHING}
    assert known == set(lines_of_commands())
    assert len(known) == len(LISTINGS) + len(TESTED_ELSEWHERE) + len(LIST_NOTHING)


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def printed(
    name: str, monkeypatch: pytest.MonkeyPatch, screen: io.StringIO, **environment: str
) -> str:
    monkeypatch.setattr("cli.times.now", lambda: NOW)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr("sys.stdout", screen)
    LISTINGS[name]()
    return screen.getvalue()


@pytest.mark.parametrize("name", LISTINGS)
def test_a_listing_fits_a_terminal_of_80_columns(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = printed(name, monkeypatch, Screen())
    lines = STYLES.sub("", text).splitlines()

    assert lines
    # One word of 250 characters has no place to break, outside a table.
    assert [] == [line for line in lines if len(line) > 80 and LONG not in line]


@pytest.mark.parametrize("name", ["approvals list", "sessions list", "policy history", "spot"])
def test_a_table_fits_80_columns_in_a_pipe(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row a line, with no style."""
    text = printed(name, monkeypatch, io.StringIO(), FORCE_COLOR="1")
    rows = [line for line in text.splitlines() if not line.startswith("no Spot price")]

    assert [] == [line for line in rows if len(line) > 80]
    assert not STYLES.search(text)


@pytest.mark.parametrize(("value", "is_colored"), [("", True), ("1", False)])
def test_a_terminal_has_colors_unless_it_was_asked_to_have_none(
    monkeypatch: pytest.MonkeyPatch, value: str, is_colored: bool
) -> None:
    """By NO_COLOR (no-color.org): an empty value asks for nothing."""
    text = printed("approvals list", monkeypatch, Screen(), NO_COLOR=value)

    assert is_colored == bool(STYLES.search(text))
    assert is_colored == ("\x1b[1;31mterminate" in text)


def test_an_empty_answer_of_spot_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed("spot", monkeypatch, io.StringIO())

    assert "no Spot price of p5.48xlarge: EC2 names none for Linux/UNIX in ap-southeast-1" in text
    assert "name other Regions with --region" in text


@pytest.mark.parametrize("width", [80, 200])
def test_a_wide_terminal_has_what_a_narrow_one_leaves_out(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    text = printed("approvals list", monkeypatch, Screen(), COLUMNS=str(width))

    assert (width == 200) == ("INSTANCE" in text)
