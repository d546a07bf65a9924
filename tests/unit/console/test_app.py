"""One view in all its forms: HTML, JSON, CSV, HEAD, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from governor.console.app import Console, Doors, Request
from governor.console.formats import csv_text
from governor.console.page import Caller, Page, Table
from governor.domain.approvals.scope import Grant, Rank, Scope
from governor.errors import InputError, NotFound

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
ADA = Caller("oidc:ada@example.com", "ada@example.com", (Grant(Rank.VIEWER, Scope(True)),), NOW, "s", NOW)
READER: Any = SimpleNamespace(
    pages=(SimpleNamespace(account="1", swept_at=NOW - timedelta(minutes=2), problem=None, rows=()),),
    environment="gpu-governor",
    policy=SimpleNamespace(mode=SimpleNamespace(value="ask")),
)
TABLE = Table("fleet", ("name", "usd"), (("a", Decimal("-1.5")), ("=HYPERLINK()", None)))


def view(reader: Any, caller: Caller, query: Any, now: datetime) -> Page:
    if query.get("bad"):
        raise InputError("say which month")
    if query.get("id") not in (None, "i-1"):
        raise NotFound("no")
    return Page("Fleet <all>", "refused.html", {"text": "hi"}, {"rows": [{"usd": Decimal("1")}]}, (TABLE,))


def console(caller: Caller | None = ADA, *, sign_in: bool = True) -> Console:
    doors = Doors(lambda *_: caller, sign_in)
    clock: Any = SimpleNamespace(now=lambda: NOW)
    return Console(lambda: READER, doors, clock, {"/": view, "/fleet": view, "/instances/<id>": view})


def ask(
    path: str, method: str = "GET", *, caller: Caller | None = ADA, sign_in: bool = True, **more: Any
) -> dict[str, Any]:
    request = Request(method, path, more.get("query", {}), {}, more.get("headers", {}), {})
    event = {
        "rawPath": path,
        "requestContext": {"stage": "$default", "http": {"method": method, "path": path}},
        "headers": {},
    }
    return console(caller, sign_in=sign_in).handle(event, None, request)


@pytest.mark.parametrize("path", ["/", "/fleet", "/instances/i-1"])
def test_a_page_is_closed_and_names_who_reads_it(path: str) -> None:
    found = ask(path)
    assert found["statusCode"] == 200
    assert found["headers"]["Cache-Control"] == "no-store"
    assert found["headers"]["Vary"] == "Accept, Cookie"
    assert "script-src 'self'" not in found["headers"]["Content-Security-Policy"]
    assert "default-src 'none'" in found["headers"]["Content-Security-Policy"]
    assert "Fleet &lt;all&gt;" in found["body"]
    assert "last sweep 2 min ago" in found["body"]
    assert "ada@example.com" in found["body"]


def test_json_is_the_document_alone() -> None:
    found = ask("/fleet", headers={"accept": "application/json"})
    assert found["headers"]["Content-Type"] == "application/json"
    assert json.loads(found["body"]) == {"rows": [{"usd": "1"}]}


@pytest.mark.parametrize("path", ["/overview.csv", "/fleet.csv", "/instances/i-1.csv"])
def test_every_table_is_csv_too(path: str) -> None:
    found = ask(path)
    assert found["headers"]["Content-Type"] == "text/csv; charset=utf-8"
    assert found["headers"]["Cache-Control"] == "no-store"
    assert found["body"] == "name,usd\r\na,-1.5\r\n'=HYPERLINK(),\r\n"
    assert ask(path, query={"table": "others"})["statusCode"] == 404


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_is_a_formula(start: str) -> None:
    table = replace(TABLE, rows=((f"{start}1", 1), (f"{start}cmd", -1)))
    first, second = csv_text(table).split("\r\n", 1)[1].removesuffix("\r\n").rsplit("\r\n", 1)
    assert first.lstrip('"').startswith("'")
    assert second.lstrip('"').startswith("'")
    assert second.endswith(",-1")


def test_head_is_the_page_without_its_body() -> None:
    found = ask("/fleet", "HEAD")
    assert (found["statusCode"], found["body"]) == (200, "")


@pytest.mark.parametrize(
    ("path", "method", "query", "status"),
    [
        ("/nowhere", "GET", {}, 404),
        ("/instances/i-2", "GET", {}, 404),
        ("/instances/i-2.csv", "GET", {}, 404),
        ("/fleet", "POST", {}, 405),
        ("/fleet", "DELETE", {}, 405),
        ("/fleet", "GET", {"bad": "1"}, 400),
    ],
)
def test_a_refusal_is_a_page_of_its_own(path: str, method: str, query: Any, status: int) -> None:
    found = ask(path, method, query=query)
    assert found["statusCode"] == status
    assert "Nothing was changed." in found["body"] or found["headers"]["Content-Type"] == "application/json"
    assert found["headers"]["Cache-Control"] == "no-store"


def test_who_is_not_known_is_sent_to_the_sign_in_and_back() -> None:
    found = ask("/fleet", caller=None, query={"owner": "a&b"})
    assert found["statusCode"] == 303
    assert found["headers"]["Location"] == "/sign-in?return=%2Ffleet%3Fowner%3Da%2526b"
    assert ask("/fleet.csv", caller=None)["statusCode"] == 401


def test_without_an_issuer_the_page_says_how_to_get_in() -> None:
    found = ask("/fleet", caller=None, sign_in=False)
    assert (found["statusCode"], "governor open" in found["body"]) == (401, True)


def test_who_is_in_no_scope_sees_nothing() -> None:
    found = ask("/fleet", caller=replace(ADA, grants=()))
    assert (found["statusCode"], "targets" in found["body"]) == (403, False)
