"""Cookies of a request: each name once, or not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from governor.core.parsing import parse
from governor.web.requests import HttpRequest
from governor.web.responses import Response, redirect, to_lambda
from tests.unit.template.machines import ROOT


def event(**changes: Any) -> dict[str, Any]:
    """A request as API Gateway sends it."""
    found: dict[str, Any] = json.loads((ROOT / "events" / "sign_in" / "callback.json").read_text())
    return {**found, **changes}


@pytest.mark.parametrize(
    ("sent", "path"),
    [
        ("/projects/a%20b", "/projects/a%20b"),
        ("/projects/a%2Fb", "/projects/a%2Fb"),
        ("/projects/a b", "/projects/a%20b"),
        ("/projects/\U0001f600?#", "/projects/%F0%9F%98%80%3F%23"),
        ("/fleet.csv", "/fleet.csv"),
    ],
)
def test_a_path_is_encoded_once(sent: str, path: str) -> None:
    """API Gateway may leave it as the browser sent it, or decode it."""
    assert path == parse(HttpRequest, event(rawPath=sent)).path


@pytest.mark.parametrize(
    ("cookies", "header", "found"),
    [
        (["a=1", "b=2=3"], "", {"a": "1", "b": "2=3"}),
        ([], "a=1; b=2", {"a": "1", "b": "2"}),
        (["a=1"], "a=1", {"a": "1"}),
        (["a=1", "a=2", "b=3"], "", {"b": "3"}),
        (["a=1"], "a=2", {}),
        (["nonsense", "", "=x", "a="], "", {"": "x", "a": ""}),
        (["a=1; b=2"], "", {"a": "1", "b": "2"}),
    ],
)
def test_a_cookie_that_comes_twice_is_nobody_s(
    cookies: list[str], header: str, found: dict[str, str]
) -> None:
    """From API Gateway's own field, or from a header where something stands between."""
    headers = {"Cookie": header} if header else {}

    assert found == parse(HttpRequest, event(cookies=cookies, headers=headers)).cookie_values()


def test_cookies_go_out_in_a_field_of_their_own() -> None:
    """One header may stand once only; two cookies need two."""
    answer = to_lambda(
        redirect("https://api.example.com/", cookies=("a=1; Path=/", "b=; Max-Age=0"))
    )

    assert ["a=1; Path=/", "b=; Max-Age=0"] == answer["cookies"]
    assert "cookies" not in to_lambda(redirect("https://api.example.com/"))


def test_times_do_not_break_in_pages_and_stay_as_they_are_in_data() -> None:
    """A program that reads JSON or CSV gets plain spaces."""
    page = Response(200, "<p>Fri 12:02 UTC</p>", {"Content-Type": "text/html; charset=utf-8"})
    data = Response(200, '"Fri 12:02 UTC"', {"Content-Type": "application/json"})

    assert "<p>Fri\u00a012:02\u00a0UTC</p>" == to_lambda(page)["body"]
    assert data.body == to_lambda(data)["body"]
