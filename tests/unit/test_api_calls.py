"""The command line's calls: each way in which an answer stays away is said, and what is unsure
then."""

from __future__ import annotations

import io
import json
from email.message import Message
from http.client import IncompleteRead
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError, URLError

import pytest
from botocore.credentials import Credentials

from cli import api
from cli.api import Api
from cli.errors import CommandError

Document = dict[str, str]
UNSURE = "look before you ask again"
SESSION: Any = SimpleNamespace(
    get_credentials=lambda: Credentials("a", "b"), region_name="us-east-1"
)


def said(
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    answer: Exception | bytes | Document,
    status: int = 503,
) -> str:
    """Return what a person reads when the API answers so."""

    def urlopen(*_: Any, **__: Any) -> io.BytesIO:
        if isinstance(answer, dict):
            raise HTTPError(
                "https://x", status, "", Message(), io.BytesIO(json.dumps(answer).encode())
            )
        if isinstance(answer, Exception):
            raise answer
        return io.BytesIO(answer)

    monkeypatch.setattr(api, "urlopen", urlopen)
    with pytest.raises(CommandError) as found:
        Api("https://api.example.com/", SESSION).call(method, "/api/approvals/1", {})
    return str(found.value)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (TimeoutError("timed out"), "gave no answer within 60 s"),
        (ConnectionResetError("reset by peer"), "broke off its answer: reset by peer"),
        (IncompleteRead(b""), "broke off its answer: IncompleteRead"),
        (b"<html>", "did not answer in JSON"),
        ({"message": "Service Unavailable"}, "the API answered 503 (Service Unavailable)"),
    ],
    ids=["slow", "reset", "cut", "a page", "503"],
)
def test_a_request_that_was_sent_may_have_been_taken(
    monkeypatch: pytest.MonkeyPatch, answer: Exception | bytes | Document, text: str
) -> None:
    """A mere retry could stop what somebody has restarted since."""
    found = said(monkeypatch, "POST", answer)
    assert (True, True) == (text in found, UNSURE in found), found
    assert UNSURE not in said(monkeypatch, "GET", answer)


@pytest.mark.parametrize(
    ("reason", "text"),
    [(TimeoutError("timed out"), "reached: timed out"), ("no such host", "no such host")],
)
def test_a_request_that_never_left_changed_nothing(
    monkeypatch: pytest.MonkeyPatch, reason: str | OSError, text: str
) -> None:
    found = said(monkeypatch, "POST", URLError(reason))
    assert (True, False) == (text in found, UNSURE in found), found


@pytest.mark.parametrize(
    ("status", "document", "text"),
    [
        (409, {"error": "somebody has decided already"}, "somebody has decided already"),
        (429, {"message": "Too Many Requests"}, "the API answered 429 (Too Many Requests)"),
        (403, {"message": "Forbidden"}, "your identity needs execute-api:Invoke"),
        (
            403,
            {"message": "The security token included in the request is expired"},
            "is expired: sign in again, or pass another --profile",
        ),
        (403, {"error": "not yours"}, "not yours"),
        (
            404,
            {"message": "Not Found"},
            "https://x knows no such call (404): is its stack older than this",
        ),
        (404, {"error": "there is no such question"}, "there is no such question"),
    ],
)
def test_a_refusal_changed_nothing(
    monkeypatch: pytest.MonkeyPatch, status: int, document: Document, text: str
) -> None:
    found = said(monkeypatch, "POST", document, status)
    assert (True, False) == (text in found, UNSURE in found), found
