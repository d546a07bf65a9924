"""`governor mode`, `governor policy get|diff|put|history|rollback`: what they store, and what they
leave."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from cli import aws, mode, policy_versions
from cli.errors import CommandError
from cli.governor import main
from cli.mode import with_mode
from cli.status import Line
from tests.unit.aws.fakes import client_error

PARAMETER = """mode: observe
selector: {tag_key: Purpose, tag_value: "GPU-Workload"}
# whom we ask
ownership:
  default_contacts: [ops]
  contacts: {ops: {emails: [alice@example.com, bob@example.com]}}  # both on call
"""
ALICE = "arn:aws:iam::123456789012:user/alice"


class Stack:
    """A stack's API and bucket; what is stored is in force at once, unless `waits`."""

    def __init__(self) -> None:
        self.versions: list[tuple[str, str]] = []
        self.in_force: str | None = None
        self.waits = False
        self.parameter = PARAMETER
        self.subscribers: dict[str, Any] | None = {"confirmed": 1}

    def client(self, name: str) -> Any:
        """S3 and STS."""
        assert name in ("s3", "sts")
        return self

    def call(self, method: str, path: str) -> dict[str, Any]:
        """The API."""
        assert ("GET", "/api/policy") == (method, path)
        return {"in_force": self.in_force, "document": self.document}

    @property
    def document(self) -> str:
        """The text in force."""
        return self.parameter if self.in_force is None else self.versions[int(self.in_force)][0]

    def get_caller_identity(self) -> dict[str, str]:
        """STS."""
        return {"Arn": ALICE}

    def put_object(self, *, Body: bytes, Metadata: dict[str, str], **_: object) -> dict[str, str]:
        """S3."""
        self.versions.append((Body.decode(), Metadata["author"]))
        version = str(len(self.versions) - 1)
        self.in_force = self.in_force if self.waits else version
        return {"VersionId": version}

    def get_object(self, *, VersionId: str, **_: object) -> dict[str, Any]:
        """S3."""
        if int(VersionId) >= len(self.versions):
            raise client_error("NoSuchVersion")
        return {"Body": io.BytesIO(self.versions[int(VersionId)][0].encode())}

    def list_object_versions(self, *, MaxKeys: int, **_: object) -> dict[str, Any]:
        """S3, newest first."""
        began = datetime(2026, 11, 1, tzinfo=UTC)
        every = [
            {
                "VersionId": str(n),
                "IsLatest": n == len(self.versions) - 1,
                "LastModified": began + timedelta(n),
            }
            for n in range(len(self.versions))
        ]
        return {"Versions": every[::-1][:MaxKeys]}

    def head_object(self, *, VersionId: str, **_: object) -> dict[str, Any]:
        """S3."""
        return {"Metadata": {"author": self.versions[int(VersionId)][1]}}


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Stack:
    """A stack without a stored policy."""
    found = Stack()
    described = {"PolicyBucketName": "bucket"}, {"SelectorTagValue": "GPU-Workload"}
    monkeypatch.setattr(aws, "session", lambda: found)
    monkeypatch.setattr(policy_versions, "described", lambda *_: described)
    monkeypatch.setattr(policy_versions, "_api", lambda *_: found)
    for module in (mode, policy_versions):
        monkeypatch.setattr(module, "deployed", lambda *_: found.document)
    monkeypatch.setattr(
        mode, "read", lambda *_: {"subscribers": Line("1 confirmed", found.subscribers)}
    )
    return found


def said(capsys: pytest.CaptureFixture[str], *line: str, status: int = 0) -> str:
    """Return what a command prints."""
    assert status == main(list(line))
    printed = capsys.readouterr()
    return printed.out + printed.err


def test_the_first_document_comes_from_the_parameters(
    stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its mode is changed, its comments stay, and who did it is kept with it."""
    assert "observe\n" == said(capsys, "mode")
    out = said(capsys, "mode", "ask")

    assert [(PARAMETER.replace("observe", "ask"), ALICE)] == stack.versions
    assert "-mode: observe\n+mode: ask\n" in out
    assert "policy.yaml: ok, version" in out
    assert "risky: mode\n" in out
    assert "stored as version 0" in out
    assert "ask\n" == said(capsys, "mode")


@pytest.mark.parametrize("known", [{"confirmed": 1, "unreached": ["ml"]}, {"confirmed": 1}, None])
def test_contacts_that_nothing_reaches_are_named_before_they_are_asked(
    known: dict[str, Any] | None, stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    """A warning, where it can be read; on the way back nobody is asked."""
    stack.subscribers = known
    is_warned = bool(known and "unreached" in known)

    assert is_warned == ("warning: questions will fail" in said(capsys, "mode", "ask"))
    assert "warning: questions" not in said(capsys, "mode", "observe")


def test_a_dry_run_stores_nothing(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    """It shows and checks."""
    assert "+mode: ask\n" in said(capsys, "mode", "ask", "--dry-run")
    assert [] == stack.versions


def test_the_mode_that_is_in_force_is_not_stored_again(
    stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    """People would get a message about nothing."""
    assert "already; nothing was stored" in said(capsys, "mode", "observe")
    assert [] == stack.versions


def test_a_mode_that_the_policy_does_not_bear_is_refused(
    stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    """`auto` needs more than a word."""
    assert "error: base: mode:" in said(capsys, "mode", "auto", status=1)
    assert [] == stack.versions


def test_overrides_that_go_their_own_way_are_named(
    stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    """`observe` would otherwise seem to have stopped everything."""
    stack.parameter = PARAMETER.replace("observe", "ask") + (
        "overrides: [{name: lab, match: {tags: {Team: lab}}, set: {mode: ask}}]\n"
    )
    assert "override lab: its instances are in mode ask" in said(capsys, "mode", "observe")


def test_a_budget_that_asks_is_named_unless_the_mode_stops_it(
    stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    """In `observe`, nobody is asked because of a budget."""
    stack.parameter = PARAMETER + "budget: {act: ask}\n"
    named = "budget.act is ask"
    assert [True, False] == [named in said(capsys, "mode", mode) for mode in ("ask", "observe")]


def test_a_version_that_waits_is_named_before_its_place_is_taken(
    stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the newest version can come into force."""
    said(capsys, "mode", "ask")
    stack.waits = True
    stack.put_object(Body=b"mode: ask\n", Metadata={"author": "arn:bob"})
    assert "version 1 of arn:bob is not in force, and this takes its place" in said(
        capsys, "mode", "observe"
    )


def test_a_policy_that_is_refused_now_can_still_be_set_to_observe(
    stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    """A release took it that asked for less."""
    stack.parameter = PARAMETER.replace("observe", "auto")
    assert "the policy in force is refused" in said(capsys, "mode", status=1)
    assert "-mode: auto\n+mode: observe\n" in said(capsys, "mode", "observe")
    assert PARAMETER == stack.versions[0][0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mode: observe # why\nx: 1\n", "mode: ask # why\nx: 1\n"),
        ("# top\n\nx: 1\n'mode':   \"observe\"\n", "# top\n\nx: 1\n'mode':   ask\n"),
        ("# top\nx: 1\n", "# top\nmode: ask\nx: 1\n"),
        ("---\nx: 1\n", "---\nmode: ask\nx: 1\n"),
        ("{x: 1}", "{mode: ask, x: 1}"),
        ("{mode: auto, x: 1}", "{mode: ask, x: 1}"),
        ("", "mode: ask\n"),
        ("# nothing\n", "mode: ask\n# nothing\n"),
        ("x: {mode: auto}\r\nmode: auto\r\n", "x: {mode: auto}\r\nmode: ask\r\n"),
    ],
)
def test_the_mode_changes_and_nothing_else(text: str, expected: str) -> None:
    """However it is written."""
    assert expected == with_mode(text, "ask")


@pytest.mark.parametrize(
    "text",
    [
        "x: &m auto\nmode: *m\n",
        "mode: &m auto\nx: *m\n",
        "mode: |-\n  auto\nx: 1\n",
        "- 1\n",
        "a: [",
        "x",
    ],
)
def test_what_a_small_change_could_break_is_left_to_people(text: str) -> None:
    """Aliases, blocks of text, and what is no policy."""
    with pytest.raises(CommandError, match="governor policy put"):
        with_mode(text, "ask")


def test_an_earlier_version_becomes_the_newest(
    stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a version of its own: nothing is deleted, and history says who did what."""
    said(capsys, "mode", "ask")
    said(capsys, "mode", "observe")
    out = said(capsys, "policy", "rollback", "0")

    assert "-mode: observe\n+mode: ask\n" in out
    assert [PARAMETER.replace("observe", "ask"), PARAMETER] * 2 == [
        text for text, _ in stack.versions
    ] + [PARAMETER]
    _, *lines = said(capsys, "policy", "history").splitlines()
    assert ["2", "1", "0"] == [line.split()[0] for line in lines]
    assert "in force" in lines[0]
    assert all(line.endswith(ALICE) for line in lines)
    assert "nothing was stored" in said(capsys, "policy", "rollback", "0")
    assert 3 == len(stack.versions)


def test_an_earlier_version_that_is_refused_now_is_not_stored(
    stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor one that is not there."""
    stack.put_object(Body=b"mode: banana\n", Metadata={"author": ALICE})
    stack.put_object(Body=PARAMETER.encode(), Metadata={"author": ALICE})
    assert "0:1: error: base: mode" in said(capsys, "policy", "rollback", "0", status=1)
    for command in ("rollback", "get"):
        assert [
            "governor: there is no version '9' of the policy. The newest are:",
            "  1  stored 2026-11-02 00:00 UTC",
            "  0  stored 2026-11-01 00:00 UTC",
            "`governor policy history` says who stored them.",
        ] == said(capsys, "policy", command, "9", status=1).splitlines()
    assert 2 == len(stack.versions)


def test_a_version_of_none_and_one_that_may_not_be_read(
    stack: Stack, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "policy: none was stored yet" in said(capsys, "policy", "rollback", "0", status=1)
    refused = mock.Mock(side_effect=client_error("AccessDenied"))
    monkeypatch.setattr(stack, "get_object", refused)
    out = said(capsys, "policy", "rollback", "0", status=1)
    assert "version 0 could not be read" in out
    assert out.endswith(": see `governor policy history`\n")


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}\n"])
def test_a_document_without_settings_is_stored_on_demand_alone(
    text: str, stack: Stack, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It would remove every contact; what it would remove is named."""
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    out = said(capsys, "policy", "put", str(file), status=1)
    assert "has no settings. It would remove those in force: mode, selector, ownership. " in out
    assert "pass --empty" in out
    stack.parameter = "mode: banana\n"
    assert "all of a document that is refused" in said(capsys, "policy", "put", str(file), status=1)
    assert [] == stack.versions

    said(capsys, "policy", "put", str(file), "--empty")
    said(capsys, "policy", "put", str(file))
    assert [text, text] == [one for one, _ in stack.versions]


def test_a_document_is_compared_before_it_is_stored(
    stack: Stack, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With what is risky in it, and whether two people are needed."""
    stack.parameter = PARAMETER + "two_people_for_policy: true\n"
    file = tmp_path / "policy.yaml"
    file.write_text(
        stack.parameter.replace("observe", "ask") + "caps: {account_actions_per_hour: 9}\n"
    )
    out = said(capsys, "policy", "diff", str(file))
    assert "+mode: ask" in out
    assert "risky: mode" in out
    assert "two people must have written or accepted it" in out

    file.write_text("mode: banana\n")
    assert "error: base: mode" in said(capsys, "policy", "diff", str(file), status=1)
    file.write_text(stack.parameter)
    assert "no difference to the document in force" in said(capsys, "policy", "diff", str(file))
    assert [] == stack.versions


def test_get_is_show(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    """The document in force, or a version; by the name of earlier releases, too."""
    for name in ("get", "show"):
        assert PARAMETER == said(capsys, "policy", name)
    said(capsys, "mode", "ask")
    assert PARAMETER.replace("observe", "ask") == said(capsys, "policy", "get", "0")


def test_with_json_a_command_prints_one_document(
    stack: Stack, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """And none of the lines for people: a script reads the same facts."""

    def document(*line: str, status: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(said(capsys, *line, "--json", status=status))
        return found

    file = tmp_path / "policy.yaml"
    file.write_text(PARAMETER.replace("observe", "ask") + "idle: {window_minutes: 120}\n")
    assert {"mode": "observe"} == document("mode")
    changed = document("mode", "ask")
    assert ("ask", "0", ["mode"], True) == tuple(
        changed[one] for one in ("mode", "stored", "risky", "usable")
    )
    assert "+mode: ask" in changed["diff"]
    assert {"stored": None} == document("policy", "rollback", "0")
    compared = document("policy", "diff", str(file))
    assert ("ask", True) == (compared["mode"], "stored" not in compared)
    assert "1" == document("policy", "put", str(file))["stored"]
    assert stack.document == document("policy", "get")["document"]
    assert ["1", "0"] == [
        one["version"] for one in json.loads(said(capsys, "policy", "history", "--json"))
    ]
    file.write_text("idle: {window_minute: 60}\n")
    checked = document("policy", "check", str(file), status=1)
    (problem,) = checked["problems"]
    assert (False, "error", 1, "idle.window_minute") == (
        checked["usable"],
        *(problem[one] for one in ("severity", "line", "path")),
    )
    assert problem["reason"].endswith("did you mean window_minutes?")


def test_an_override_that_people_must_accept_is_named_as_such(
    stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command reads no acceptances: it says what the mode depends on."""
    stack.parameter = PARAMETER.replace("observe", "ask") + (
        "metrics: {publishers_are_trusted: true}\n"
        "overrides: [{name: lab, match: {tags: {Team: lab}}, set: {mode: auto, plan: "
        "{action: terminate}}, "
        "approved_by: [alice@example.com, bob@example.com]}]\n"
    )
    until = "mode auto, or in ask until everybody in approved_by has accepted it"
    assert f"override lab: its instances are in {until}" in said(capsys, "mode", "observe")
