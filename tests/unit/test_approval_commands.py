"""`governor approvals` as a person in a terminal reads it."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from cli.approvals import _approve, _keep, _list, _show
from cli.errors import CommandError
from cli.freezes import _freezes
from cli.open import _open


@pytest.fixture(autouse=True)
def _at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment hours ago stays so, however long the suite takes."""
    monkeypatch.setattr("cli.times.now", lambda: NOW)


QUESTION = {
    "id": "a" * 32,
    "instance_id": "i-0123456789abcdef0",
    "instance_type": "p4d.24xlarge",
    "account": "123456789012",
    "region": "us-east-1",
    "usd_per_day": "786.4872",
    "action": "stop",
    "expires_at": "2026-11-20T13:00:00Z",
    "instance_name": "train-a",
    "owner": "alice",
}


class FakeApi:
    """Answers with these questions, and with a policy in this mode, or with this document."""

    def __init__(self, *questions: dict[str, Any], mode: str = "ask", document: str = "") -> None:
        self.questions = questions
        self.document = document or f"mode: {mode}"
        self.calls: list[tuple[str, str]] = []

    def call(self, method: str, path: str, document: object = None) -> dict[str, Any]:
        """As the API."""
        self.calls.append((method, path))
        assert (method == "POST") == (document is not None)
        if path == "/api/policy":
            return {"document": self.document}
        if path == "/api/approvals":
            return {"questions": list(self.questions)}
        return {**ASKED, **APPROVED, "id": path.rpartition("/")[2], "needs_another": False}


def listed(capsys: pytest.CaptureFixture[str], *questions: dict[str, Any]) -> list[str]:
    """The lines of the list."""
    api: Any = FakeApi(*questions)
    _list(api, argparse.Namespace(json=False))
    return capsys.readouterr().out.splitlines()


def test_the_name_comes_first_and_the_owner_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """With as much of the id as tells it apart: that is enough to answer."""
    head, line = listed(capsys, QUESTION)

    assert ["NAME", "ACTION", "USD", "A", "DAY", "ENDS", "OWNER", "ID"] == head.split()[:8]
    assert line.startswith("train-a  stop")
    assert "  in 5 h  alice  aaaaaaaa" in line


def test_a_list_of_long_names_is_whole_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """A terminal of 80 columns gets it cut, as tests/unit/test_listings.py measures."""
    long = {
        **QUESTION,
        "instance_name": "n" * 255,
        "owner": "o" * 255,
        "action": "terminate",
        "usd_per_day": "12345.678",
        "can_hold_late": True,
        "instance_type": "x" * 255,
        "region": "y" * 255,
    }
    lines = listed(capsys, QUESTION, {**long, "id": "b" * 32})

    assert lines[2].startswith("n" * 255)
    assert "n  terminate  12,345.68  EC2 was asked  o" in lines[2]
    assert lines[2].endswith(f"{'o' * 255}  bbbbbbbb")


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("observe", "mode observe asks nobody (`governor mode ask` changes that)"),
        (
            "ask",
            "people are asked once an instance has been idle for as long as its policy says, "
            "1 h 30 min to 3 h;",
        ),
        ("banana", "`governor status` says when the last sweep was"),
    ],
)
def test_an_empty_list_says_why(capsys: pytest.CaptureFixture[str], mode: str, said: str) -> None:
    api: Any = FakeApi(mode=mode)
    _list(api, argparse.Namespace(json=False))

    out = capsys.readouterr().out
    assert out.startswith("no question waits for an answer")
    assert said in out


_OVERRIDE = """
overrides:
  - name: notebooks
    match: {tags: {Team: research}}
    set: {%s}
"""


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (
            "mode: observe" + _OVERRIDE % "mode: ask",
            "an instance has been idle for as long as its policy says, 1 h 30 min to 3 h;",
        ),
        (
            "mode: ask\napproval: {ask_after_minutes: 60, ask_after_released_minutes: 60}",
            "people are asked once an instance has been idle for 1 h; `governor status`",
        ),
        (
            "mode: ask" + _OVERRIDE % "approval: {ask_after_minutes: 360}",
            "for as long as its policy says, 1 h 30 min to 6 h;",
        ),
        (
            "mode: observe" + _OVERRIDE % "approval: {ask_after_minutes: 360}",
            "mode observe asks nobody",
        ),
        (
            "mode: auto\nmetrics: {publishers_are_trusted: true}",
            "mode auto asks nobody before it acts",
        ),
    ],
)
def test_an_empty_list_counts_overrides_too(
    capsys: pytest.CaptureFixture[str], document: str, said: str
) -> None:
    """An override may ask where the base only observes, and wait longer."""
    api: Any = FakeApi(document=document)
    _list(api, argparse.Namespace(json=False))

    assert said in " ".join(capsys.readouterr().out.split())


def answered(text: str, *questions: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the calls of a yes to the question that is named so."""
    api = FakeApi(*questions)
    arguments = argparse.Namespace(id=text, json=True, instance_id=None, accept_losses=False)
    a_fake: Any = api
    _approve(a_fake, arguments)
    return api.calls


OTHER = {**QUESTION, "id": "b" * 32, "instance_id": "i-0fedcba9876543210", "account": "2" * 12}


def test_a_name_alone_approves_nothing() -> None:
    """The instance that a person means may have no open question, and another has its name."""
    api: Any = FakeApi(QUESTION)
    arguments = argparse.Namespace(
        id="train-a", json=True, instance_id="i-0fedcba9876543210", accept_losses=True
    )
    with pytest.raises(CommandError, match="so an approval needs an ID"):
        _approve(api, arguments)
    arguments.instance_id = None
    with pytest.raises(CommandError, match=f"approvals approve {QUESTION['instance_id']}`"):
        _approve(api, arguments)
    assert {("GET", "/api/approvals")} == set(api.calls)

    arguments.instance_id = QUESTION["instance_id"]
    _approve(api, arguments)
    assert ("POST", f"/api/approvals/{QUESTION['id']}") == api.calls[-1]


@pytest.mark.parametrize("text", ["bbbbbbbb", "bbbb", "i-0fedcba9876543210"])
def test_a_question_is_named_by_its_instance_or_by_a_part_of_its_id(text: str) -> None:
    calls = answered(text, QUESTION, {**OTHER, "instance_name": "train-b"})

    assert [("GET", "/api/approvals"), ("POST", f"/api/approvals/{'b' * 32}")] == calls


def test_a_whole_id_needs_no_list() -> None:
    """Questions that are over are in no list."""
    assert [("POST", f"/api/approvals/{'c' * 32}")] == answered("c" * 32)


def test_a_name_of_two_questions_answers_none(capsys: pytest.CaptureFixture[str]) -> None:
    """The refusal names both, with what tells them apart."""
    with pytest.raises(CommandError) as refused:
        answered("train-a", QUESTION, OTHER)

    assert str(refused.value).splitlines() == [
        "'train-a' fits 2 questions. Name one by its ID:",
        "  aaaaaaaa  train-a (i-0123456789abcdef0) in 123456789012/us-east-1",
        "  bbbbbbbb  train-a (i-0fedcba9876543210) in 222222222222/us-east-1",
    ]
    assert "" == capsys.readouterr().out


def test_a_name_of_no_question_is_guessed() -> None:
    with pytest.raises(CommandError, match=r"about 'tran-a'; did you mean train-a\? `governor"):
        answered("tran-a", QUESTION)
    with pytest.raises(CommandError, match=r"about 'xyz'\. `governor"):
        answered("xyz", QUESTION)


def test_the_first_characters_of_a_name_are_enough_to_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """To answer they are not, not even no: another instance may be meant."""
    api: Any = FakeApi(QUESTION, {**OTHER, "instance_name": "train-b"})
    run = {"json": True, "instance_id": None, "accept_losses": False, "until": None}
    with pytest.raises(CommandError, match="'train' fits 2 questions"):
        _show(api, argparse.Namespace(id="train", **run))
    api = FakeApi(QUESTION)
    _show(api, argparse.Namespace(id="train", **run))
    assert ("GET", f"/api/approvals/{QUESTION['id']}") == api.calls[-1]
    capsys.readouterr()
    for answer in (_approve, _keep):
        api = FakeApi(QUESTION)
        with pytest.raises(CommandError, match="is about 'train'; did you mean train-a"):
            answer(api, argparse.Namespace(id="train", **run))
        assert [("GET", "/api/approvals")] == api.calls


def test_a_name_commands_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Names are whatever somebody chose."""
    lines = listed(capsys, {**QUESTION, "instance_name": "\x1b[2J\x07train"})

    assert lines[1].startswith("[2J train  stop")


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (
            {
                "freezes": [
                    {"what": "everything", "why": "12 turned", "since": "2026-11-20T12:00:00Z"}
                ],
                "caps": [
                    {"what": "ORGANIZATION", "used": 3, "most": 50},
                    {"what": "OWNER#ml", "used": 3, "most": 5},
                ],
                "waiting": [QUESTION],
            },
            [
                "everything is frozen since Fri Nov 20, 12:00 UTC: 12 turned",
                "  find the cause, then end it: breaker.lift_freezes_before (docs/policy.md)",
                "stops and terminations that began in the last 60 minutes:",
                "all accounts  3 of 50",
                "owner ml      3 of 5",
                "steps that wait, and continue once that has ended:",
                "NAME     INSTANCE             PLACE                   ID",
                "train-a  i-0123456789abcdef0  123456789012/us-east-1  aaaaaaaa",
            ],
        ),
        (
            {
                "pause": {"since": "2026-11-20T12:00:00+00:00"},
                "freezes": [
                    {
                        "what": "everything",
                        "why": "paused by ada: x",
                        "since": "2026-11-20T12:00:00+00:00",
                    },
                    {"what": "everything", "why": "paused by nobody: y", "since": None},
                ],
                "caps": [],
                "waiting": [],
            },
            [
                "everything is paused since Fri Nov 20, 12:00 UTC: paused by ada: x",
                "everything is frozen: paused by nobody: y",
                "  end the pause: governor resume --all",
                "  find the cause, then end it: breaker.lift_freezes_before (docs/policy.md)",
                "stops and terminations that began in the last 60 minutes:",
            ],
        ),
        (
            {
                "freezes": [],
                "caps": [{"what": "ORGANIZATION", "used": 0, "most": 50}],
                "waiting": [],
            },
            [
                "nothing is frozen: no pause, and no unusual share of the fleet turned idle",
                "stops and terminations that began in the last 60 minutes:",
                "all accounts  0 of 50",
            ],
        ),
    ],
)
def test_freezes_caps_and_waiting_steps_are_one_look(
    capsys: pytest.CaptureFixture[str], found: dict[str, Any], lines: list[str]
) -> None:
    """For people on call: what holds actions back, and what to do about it."""

    class Brakes:
        """The API."""

        def call(self, method: str, path: str) -> dict[str, Any]:
            """As the API."""
            assert ("GET", "/api/freezes") == (method, path)
            return found

    api: Any = Brakes()
    _freezes(api, argparse.Namespace(json=False))
    assert lines == capsys.readouterr().out.splitlines()


def test_the_console_is_opened_by_an_address_that_works_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the browser; where there is none, or on demand, it is printed."""
    url = "https://api.example.com/console#code"
    opened = mock.Mock(return_value=True)
    api: Any = SimpleNamespace(call=lambda *_: {"url": url})
    monkeypatch.setattr("webbrowser.open", opened)

    _open(api, argparse.Namespace(json=False, print=False))
    opened.assert_called_once_with(url)
    assert url not in capsys.readouterr().out
    _open(api, argparse.Namespace(json=False, print=True))
    assert capsys.readouterr().out.endswith(f"it works once:\n{url}\n")


ASKED: dict[str, Any] = {
    **QUESTION,
    "owner": "ml",
    "reason": "Idle for 3 h.",
    "cost": [],
    "plan": ["The plan: stop the instance; then snapshot it.", "It loses everything in RAM."],
    "status": "PENDING",
    "can_decide": True,
    "held": None,
    "first_yes_by": None,
    "decided_by": None,
    "decided_at": None,
    "decision": None,
    "void_reason": None,
    "outcome": None,
    "outcome_reason": None,
}
NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)
HOURS_AGO = f"{NOW - timedelta(hours=2, seconds=9):%Y-%m-%dT%H:%M:%SZ}"
IN_HOURS = f"{NOW + timedelta(hours=5, seconds=50):%Y-%m-%dT%H:%M:%SZ}"
APPROVED = {
    "status": "APPROVED",
    "decided_by": "alice",
    "decided_at": HOURS_AGO,
    "decision": "approve",
}


def approved(
    capsys: pytest.CaptureFixture[str],
    posted: dict[str, Any] | None,
    stored: dict[str, Any] | None = None,
) -> str:
    """Return what is said after an approval that the API answers so; none: it refuses."""

    def call(method: str, _: str, document: object = None) -> dict[str, Any]:
        if method == "POST" and posted is None:
            raise CommandError("already decided by alice: approved")
        found = posted if method == "POST" else stored
        if found is None:
            raise CommandError("AWS refused the call")
        return {**ASKED, "expires_at": IN_HOURS, **found}

    api: Any = SimpleNamespace(call=call)
    arguments = argparse.Namespace(id="a" * 32, json=False, instance_id=None, accept_losses=False)
    _approve(api, arguments)
    return capsys.readouterr().out


def test_an_approval_says_what_happens_next(capsys: pytest.CaptureFixture[str]) -> None:
    """The steps of the plan, that idleness is checked again, and how to hold it."""
    said = approved(capsys, {**APPROVED, "needs_another": False})

    assert (
        "  next: the instance is checked again. If its GPUs are busy again, nothing happens. "
        in said
    )
    assert "Otherwise: stop the instance; then snapshot it.\n" in said
    assert f"governor approvals hold {'a' * 32}" in said


def test_a_repeat_after_ec2_was_asked_offers_no_hold(capsys: pytest.CaptureFixture[str]) -> None:
    """A hold would be refused; nor is the instance checked again."""
    said = approved(capsys, {**APPROVED, "needs_another": False, "can_hold": False})

    assert (
        f"  next: EC2 was already asked. To see the result: governor approvals show {'a' * 32}"
        in said
    )
    assert "approvals hold" not in said
    assert "checked again" not in said


def test_a_list_says_when_questions_end_as_people_read_times(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """How far off; what can be held has no end. `show` has the time by the clock."""
    found = listed(
        capsys, QUESTION, {**QUESTION, "can_hold": True}, {**QUESTION, "can_hold_late": True}
    )
    assert ("  in 5 h  " in found[1], "  can be held  " in found[2]) == (True, True)
    assert "  EC2 was asked  " in found[3]
    assert "2026-11-20T" not in "".join(found)


@pytest.mark.parametrize(
    ("action", "end"), [("stop", "in 5 h, then stopped"), ("terminate", "in 5 h, then terminated")]
)
def test_a_list_says_what_follows_if_nobody_answers(
    capsys: pytest.CaptureFixture[str], action: str, end: str
) -> None:
    """Only of questions that act on silence."""
    found = listed(capsys, QUESTION, {**QUESTION, "action": action, "acts_on_silence": True})

    assert "then" not in found[1]
    assert f"  {end}  " in found[2]


def test_a_plan_that_follows_from_silence_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """In the words of the page; "not answered" left open whether anything follows."""
    soon = {**QUESTION, "can_hold": True, "acts_soon": True}
    found = listed(capsys, soon, {**soon, "action": "terminate"})
    assert ("  stopped soon  " in found[1], "  begins soon  " in found[2]) == (True, True)

    silence = "Nobody answered in time. GPU Governor stops it within minutes."
    said = shown(
        capsys,
        {
            **soon,
            "status": "EXPIRED",
            "can_decide": False,
            "void_reason": "nobody answered in time",
            "silence": silence,
        },
    )
    assert f"  {silence} ID {'a' * 32}\n" in said
    assert "not answered" not in said
    assert "nothing more can be decided" not in said


def test_the_record_of_a_stop_says_that_it_was_started_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It still said that the instance is stopped. A stack of an earlier release does not know."""
    stopped = {"can_decide": False, "outcome": "stopped", "outcome_reason": "approved by alice"}
    after = "It was stopped Mon 21:39, started again Tue 08:00 UTC."

    assert "  stopped: approved by alice" in shown(capsys, stopped)
    said = shown(capsys, {**stopped, "after_stop": after})
    assert f"  {after}\n" in said
    assert "stopped: " not in said


def shown(capsys: pytest.CaptureFixture[str], question: dict[str, Any]) -> str:
    """Return what `approvals show` prints of this question."""
    found = {**ASKED, "expires_at": IN_HOURS, **question}
    api: Any = SimpleNamespace(call=lambda *_: found)
    _show(api, argparse.Namespace(id="a" * 32, json=False))
    return capsys.readouterr().out


def test_the_first_of_two_approvals_says_who_is_awaited(capsys: pytest.CaptureFixture[str]) -> None:
    """And until when; nothing as if it were decided."""
    for acts, silence in (
        (False, "nothing happens"),
        (True, "the plan is carried out"),
        (None, "the policy says what happens (approval.on_expiry)"),
    ):
        answer = {"first_yes_by": "alice", "needs_another": True}
        said = approved(capsys, answer if acts is None else {**answer, "acts_on_silence": acts})

        assert "  open: it ends in 5 h (" in said
        assert f"); if nobody answers, {silence}; ID " in said
        assert (
            f"  next: a second person must approve, too. Otherwise, {silence}. It ends in 5 h ("
            in said
        )
        assert "checked again" not in said


def test_the_consequence_of_silence_is_that_of_the_messages(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With its own time and zone. A stack of the previous release has no such sentence."""
    silence = "If nobody answers, GPU Governor stops it after Sat 04:02 Berlin (03:02 UTC)."

    assert f"  open: {silence} ID " in approved(
        capsys, {"first_yes_by": "alice", "needs_another": True, "silence": silence}
    )


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"status": "VOID", "void_reason": "worked until 2026-11-20T07:30:00Z"},
            "  canceled: worked until Fri 07:30 UTC\n",
        ),
        (
            {"outcome": "kept", "outcome_reason": "kept by oidc:ann@example.com: ask slack:ops"},
            "  kept: kept by ann@example.com (signed in): ask slack:ops\n",
        ),
    ],
)
def test_the_reason_of_an_end_has_no_raw_times_and_identities(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    line: str,
) -> None:
    """As on the page of the record. A repeated answer prints the record."""
    monkeypatch.setattr("cli.times.now", lambda: NOW)

    assert line in approved(capsys, {**APPROVED, **changes})


def test_a_repeat_says_who_decided_and_when(capsys: pytest.CaptureFixture[str]) -> None:
    """One's own is answered with the record; another's is refused, with both in the refusal."""
    assert "  Approved by alice, 2 h ago (" in approved(
        capsys, {**APPROVED, "needs_another": False}
    )
    with pytest.raises(
        CommandError, match=r"already decided by alice: approved\. Approved by alice, 2 h ago"
    ):
        approved(capsys, None, APPROVED)
    with pytest.raises(CommandError, match=r"already decided by alice: approved$"):
        approved(capsys, None, None)


def test_a_record_is_in_plain_words(capsys: pytest.CaptureFixture[str]) -> None:
    """People by their names, times by the clock of this machine; the ARN and UTC are in the
    JSON."""
    root = "aws:arn:aws:iam::123456789012:root"
    kept = {"status": "KEPT", "decided_by": root, "decided_at": HOURS_AGO, "decision": "keep"}
    said = approved(capsys, {**kept, "kept_until": IN_HOURS})
    assert "  Kept by root (AWS identity), 2 h ago (" in said
    assert "; the keep ends in 5 h (" in said
    assert "T" not in said.partition("Kept by root")[2].partition("\n")[0].replace("UTC", "")
    assert "  Approved by a@b.example (mail link); a second person must" in approved(
        capsys, {"first_yes_by": "link:a@b.example", "needs_another": True}
    )
