"""One view in all its forms: HTML, JSON, CSV, HEAD, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from governor.console.app import Console
from governor.console.page import Page, Table, ViewRequest
from governor.console.views.addresses import name_in, project_href
from governor.core.errors import InputError, NotFound
from governor.core.instance import Target
from governor.core.parsing import parse
from governor.fleet.model import FleetPage
from governor.policy.document import parse_policy
from governor.web.requests import HttpRequest
from governor.wiring.console import VIEWS as REAL
from tests.console_world import ConsoleWorld, make_row
from tests.unit.console import entrance
from tests.unit.console.entrance import NOW, Entrance

POLICY = parse_policy("console: {scopes: {all: {groups: [ops], everything: true}}}").base().policy
READER: Any = SimpleNamespace(
    pages=(FleetPage("1", "us-east-1", NOW - timedelta(minutes=2), "ask"),),
    targets=(Target("1", "us-east-1"), Target("1", "eu-west-1")),
    environment="gpu-governor",
    policy=POLICY,
    table=SimpleNamespace(unread=[], read_ahead=lambda _: None),
    approval_store=SimpleNamespace(answered=lambda _: set()),
)
TABLE = Table("fleet", ("name", "usd"), (("a", Decimal("-1.5")), ("=HYPERLINK()", None)))


def view(ask: ViewRequest) -> Page:
    if ask.query.get("bad"):
        raise InputError("say which month")
    if ask.query.get("id") not in (None, "i-1"):
        raise NotFound("no")
    values = {"text": "hi"}
    return Page("Fleet <all>", "refused.html", values, {"rows": [{"usd": Decimal("1")}]}, (TABLE,))


VIEWS = {"/": view, "/fleet": view, "/instances/<id>": view}


def ask(address: str, method: str = "GET", *, known: bool = True, **more: Any) -> dict[str, Any]:
    at = Entrance(issuer=more.pop("issuer", "https://issuer"))
    groups = more.pop("groups", ("ops",))
    cookies = at.session("oidc:1", "ada@example.com", groups=groups) if known else {}
    console = Console(lambda: READER, at.doors, VIEWS)
    return entrance.ask(console, address, method, cookies=cookies, **more)


@pytest.mark.parametrize("path", ["/", "/fleet", "/instances/i-1"])
def test_a_page_is_closed_and_names_who_reads_it(path: str) -> None:
    found = ask(path)
    assert found["statusCode"] == 200
    assert found["headers"]["Cache-Control"] == "no-store"
    assert found["headers"]["Vary"] == "Accept, Cookie"
    assert "script-src 'self'" not in found["headers"]["Content-Security-Policy"]
    assert "default-src 'none'" in found["headers"]["Content-Security-Policy"]
    assert "Fleet &lt;all&gt;" in found["body"]
    assert "last sweep 2\u00a0min ago" in found["body"]
    assert "1 of 2 targets not read" in found["body"]
    assert "ada@example.com" in found["body"]


def test_json_is_the_document_alone() -> None:
    found = ask("/fleet", headers={"accept": "application/json"})
    assert found["headers"]["Content-Type"] == "application/json"
    assert json.loads(found["body"]) == {"is_incomplete": False, "rows": [{"usd": "1"}]}


@pytest.mark.parametrize("path", ["/overview.csv", "/fleet.csv", "/instances/i-1.csv"])
def test_every_table_is_csv_too(path: str) -> None:
    found = ask(path)
    assert found["headers"]["Content-Type"] == "text/csv; charset=utf-8"
    assert found["headers"]["Cache-Control"] == "no-store"
    assert found["body"] == "name,usd\r\na,-1.5\r\n'=HYPERLINK(),\r\n"
    assert ask(f"{path}?table=others")["statusCode"] == 404


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_is_a_formula(start: str) -> None:
    table = replace(TABLE, rows=((f"{start}1", 1), (f"{start}cmd", -1)))
    first, second = table.csv.split("\r\n", 1)[1].removesuffix("\r\n").rsplit("\r\n", 1)
    assert first.lstrip('"').startswith("'")
    assert second.lstrip('"').startswith("'")
    assert second.endswith(",-1")


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("x;=1+1", "x;'=1+1"),
        ("x; \u3000@a|-b", "x;  '@a|'-b"),
        ("x,\t+1", "x,\t'+1"),
        ("x\n=1", "x\n'=1"),
        ("\uff1d1", "'=1"),
        ("\uff1b\uff1d1", ";'=1"),
        (" =1", " '=1"),
        ("\u00a0=1", " '=1"),
        ("\u3000\n=1", " \n'=1"),
        ("\ufeff=1", "'=1"),
        ("x;\u200b=1", "x;'=1"),
        ("\uff11 x; y-2 = 3", "\uff11 x; y-2 = 3"),
    ],
)
def test_no_part_of_a_cell_is_a_formula(text: str, cell: str) -> None:
    """However a spreadsheet separates, trims and reads it. What begins no formula stays as it
    is."""
    table = replace(TABLE, columns=("name",), rows=((text,),))
    assert [["name"], [cell]] == list(csv.reader(io.StringIO(table.csv, newline="")))


def test_head_is_the_page_without_its_body() -> None:
    found = ask("/fleet", "HEAD")
    assert (found["statusCode"], found["body"]) == (200, "")


@pytest.mark.parametrize(
    ("address", "method", "status"),
    [
        ("/nowhere", "GET", 404),
        ("/instances/i-2", "GET", 404),
        ("/instances/i-2.csv", "GET", 404),
        ("/fleet", "POST", 405),
        ("/fleet", "DELETE", 405),
        ("/fleet?bad=1", "GET", 400),
    ],
)
def test_a_refusal_is_a_page_of_its_own(address: str, method: str, status: int) -> None:
    found = ask(address, method)
    assert found["statusCode"] == status
    if found["headers"]["Content-Type"] != "application/json":
        assert "Nothing was changed." in found["body"]
        assert '<a href="/">Overview</a>' in found["body"]
    assert found["headers"]["Cache-Control"] == "no-store"


def test_who_is_not_known_is_sent_to_the_sign_in_and_back() -> None:
    found = ask("/fleet?owner=a%26b", known=False)
    assert found["statusCode"] == 303
    assert found["headers"]["Location"] == "/sign-in?return=%2Ffleet%3Fowner%3Da%2526b"
    assert ask("/fleet.csv", known=False)["statusCode"] == 401
    assert ask("/fleet", known=False, headers={"accept": "application/json"})["statusCode"] == 401


@pytest.mark.parametrize("name", ["a%20b", "a%2Fb", "100%25", "%F0%9F%98%80", "plain", "a+b"])
def test_a_sign_in_returns_to_the_same_address(name: str) -> None:
    """A path is encoded already, and not once more."""
    found = ask(f"/instances/{name}", known=False)
    assert f"/instances/{name}" == unquote(found["headers"]["Location"].partition("return=")[2])


@given(
    name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=256).map(str.strip)
)
@example(name="a/b")
@example(name="50% of ~2F?#+&;")
@example(name="..")
@example(name="x.csv")
@example(name="\u0645\u0634\u0631\u0648\u0639 \U0001f600")
def test_the_address_of_a_project_survives_being_decoded(name: str) -> None:
    """API Gateway hands over paths decoded; a proxy before it may do so too. Its table adds
    `.csv`."""
    address = project_href(name)

    assert address == quote(address, safe="/") == unquote(address)
    assert name == name_in(address.removeprefix("/projects/"))
    assert not address.endswith((".csv", "/.."))


def shown(address: str, project: str) -> tuple[int, str]:
    """Ask for a page by the path that API Gateway hands over, where there are `project` and `x`."""
    world = ConsoleWorld(POLICY)
    world.keep(make_row(1, project=project, owner="o"), make_row(2, project="x", owner="o"))
    at = Entrance(world.table)
    console, cookies = Console(lambda: world.reader, at.doors, REAL), at.session(groups=("ops",))
    event = {"rawPath": address, "requestContext": {"http": {"method": "GET"}}}
    found = entrance.ask(console, parse(HttpRequest, event).path, cookies=cookies)
    return found["statusCode"], found["headers"]["Content-Type"].partition(";")[0]


@pytest.mark.parametrize(
    "name", ["x.csv", "a/b", "50% a~2Fb?", "..", "\u0645\u0634\u0631 \U0001f600"]
)
@pytest.mark.parametrize("sent", [str, unquote], ids=["encoded", "decoded"])
def test_a_project_of_any_name_has_a_page_and_a_table(
    name: str, sent: Callable[[str], str]
) -> None:
    assert (200, "text/html") == shown(sent(project_href(name)), name)
    assert (200, "text/csv") == shown(sent(f"{project_href(name)}.csv"), name)
    assert 404 == shown(sent(project_href(name)), "another")[0]


@pytest.mark.parametrize("address", ["/projects/a%20b", "/projects/a b"])
def test_an_address_that_somebody_typed_leads_to_the_project(address: str) -> None:
    assert (200, "text/html") == shown(address, "a b")
    assert (200, "text/csv") == shown(f"{address}.csv", "a b")


def test_without_an_issuer_the_page_says_how_to_get_in() -> None:
    found = ask("/fleet", known=False, issuer="")
    assert (found["statusCode"], "governor open" in found["body"]) == (401, True)


def test_who_is_in_no_scope_sees_nothing() -> None:
    found = ask("/fleet", groups=())
    assert (found["statusCode"], "target" in found["body"]) == (403, False)
