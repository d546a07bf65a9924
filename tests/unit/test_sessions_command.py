"""An operator sees who is signed in to the console, and ends a session: it counts at once, and is
audited."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from moto import mock_aws

from cli import governor, sessions
from governor.approvals.model.terms import SignIn
from governor.approvals.store.sessions import SignIns
from governor.aws.clients import Clients
from governor.aws.dynamodb import DynamoTable

NOW = datetime.now(tz=UTC).replace(microsecond=0)


@pytest.fixture
def signed_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[SignIns]:
    """A state table with Ada's two sessions, Bob's, and one that is over."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr(sessions, "described", lambda *_: ({"StateTableName": "state"}, {}))
    with mock_aws():
        boto3.client("dynamodb").create_table(
            TableName="state",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")
            ],
        )
        stored = SignIns(DynamoTable(Clients(), "state"))
        for name, person, hours in (
            ("a", "ada", 8),
            ("b", "ada", 1),
            ("c", "bob", 8),
            ("d", "eve", -1),
        ):
            email = f"{person}@example.com"
            who = SignIn(
                f"oidc:{person}", f"oidc:{email}", NOW, NOW + timedelta(hours=hours), email
            )
            stored.keep_session(name, who)
        yield stored


def hold(stored: SignIns) -> str:
    """Which of them the console takes."""
    return "".join(name for name in "abcd" if stored.session(name, datetime.now(tz=UTC)))


@pytest.mark.parametrize("who", ["Ada@example.com", "oidc:ada", "oidc:ada@example.com"])
def test_the_sessions_of_one_person_end_at_once(
    signed_in: SignIns, capsys: pytest.CaptureFixture[str], who: str
) -> None:
    assert "abc" == hold(signed_in)
    assert 0 == governor.main(["sessions", "end", who])
    assert "c" == hold(signed_in)
    assert 2 == capsys.readouterr().out.count("ended: oidc:ada@example.com")
    found = list(DynamoTable(Clients(), "state").query("ENDED#sessions"))
    assert [("session ended", "oidc:ada")] * 2 == [(one["what"], one["identity"]) for one in found]
    assert all(one["by"].startswith("aws:arn:") for one in found)


def test_all_of_them_end(signed_in: SignIns, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == governor.main(["sessions", "end", "--all"])
    assert "" == hold(signed_in)
    assert (1, 0) == (
        governor.main(["sessions", "end", "--all"]),
        governor.main(["sessions", "list"]),
    )
    assert 2 == capsys.readouterr().out.count("nobody is signed in")


def test_nobody_else_is_signed_out(signed_in: SignIns, capsys: pytest.CaptureFixture[str]) -> None:
    """A part of a name ends nothing, and what is over is not listed."""
    assert 1 == governor.main(["sessions", "end", "ada"])
    assert 0 == governor.main(["sessions", "list"])
    lines = capsys.readouterr().out.splitlines()
    assert ["ada has no session: see list", 2, 1, 0] == [
        lines[0],
        *(sum(name in line for line in lines[1:]) for name in ("ada", "bob", "eve")),
    ]
    assert "abc" == hold(signed_in)
    with pytest.raises(SystemExit):
        governor.main(["sessions", "end"])


def test_the_end_of_a_session_is_said_as_json(
    signed_in: SignIns, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 0 == governor.main(["sessions", "end", "oidc:bob", "--json"])
    assert ["oidc:bob@example.com"] == [
        one["who"] for one in json.loads(capsys.readouterr().out)["ended"]
    ]
    assert "ab" == hold(signed_in)


def test_the_latest_sign_in_is_listed_first(
    signed_in: SignIns, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of one moment are listed by person."""
    later = NOW + timedelta(seconds=1)
    email = "zoe@example.com"
    zoe = SignIn("oidc:zoe", f"oidc:{email}", later, later + timedelta(hours=1), email)
    signed_in.keep_session("e", zoe)

    assert 0 == governor.main(["sessions", "list", "--json"])
    people = [session["who"] for session in json.loads(capsys.readouterr().out)]
    assert [f"oidc:{name}@example.com" for name in ("zoe", "ada", "ada", "bob")] == people
