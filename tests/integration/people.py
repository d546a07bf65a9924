"""A person with a browser, reduced to HTTP."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *args: object, **kwargs: object) -> None:
        """The status of the POST itself is what tests look at."""


class _Fields(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        # Every box on the page has to be ticked; a person who reads does that, too.
        if tag == "input" and values.get("type") in ("hidden", "checkbox"):
            self.found[str(values["name"])] = values.get("value") or ""


_OPENER = build_opener(_NoRedirect)


def request(url: str, method: str = "GET", fields: dict[str, str] | None = None) -> tuple[int, str]:
    """Status and body."""
    data = urlencode(fields).encode() if fields is not None else None
    try:
        with _OPENER.open(Request(url, data=data, method=method), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def hidden_fields(page: str) -> dict[str, str]:
    """The hidden fields of a page, and its boxes as ticked."""
    parser = _Fields()
    parser.feed(page)
    return parser.found


def decide(url: str, answer: str, **fields: str) -> tuple[int, str]:
    """Opens the page and presses a button."""
    _, page = request(url)
    return request(url, "POST", {**hidden_fields(page), "answer": answer, **fields})
