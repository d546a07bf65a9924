"""A person with a browser, reduced to HTTP."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from local.engine.cloud import ANSWER_SECONDS


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
        with _OPENER.open(Request(url, data=data, method=method), timeout=ANSWER_SECONDS) as answer:
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
    status, page = request(url)
    if 200 != status:
        raise AssertionError(f"the page did not open: {status}: {page}")
    return request(url, "POST", {**hidden_fields(page), "answer": answer, **fields})


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's answer; `location` is empty where it sent nobody anywhere."""

    status: int
    body: str
    location: str


@dataclass
class Browser:
    """Keeps the cookies of one site, and trusts one more certificate. It follows no redirect by
    itself."""

    trust: Path
    cookies: dict[str, str] = field(default_factory=dict)

    def get(self, url: str) -> Answer:
        """Opens an address."""
        return self._ask(Request(url))

    def post(self, url: str, fields: Mapping[str, str]) -> Answer:
        """Sends a form."""
        return self._ask(Request(url, data=urlencode(fields).encode(), method="POST"))

    def press(self, url: str, answer: str, **fields: str) -> Answer:
        """Opens the page and presses a button."""
        return self.post(url, {**hidden_fields(self.get(url).body), "answer": answer, **fields})

    def _ask(self, asked: Request) -> Answer:
        if self.cookies:
            asked.add_header(
                "Cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items())
            )
        context = ssl.create_default_context(cafile=str(self.trust))
        opener = build_opener(_NoRedirect, HTTPSHandler(context=context))
        try:
            answer = opener.open(asked, timeout=ANSWER_SECONDS)
        except HTTPError as error:
            answer = error
        with answer:
            for cookie in answer.headers.get_all("Set-Cookie", ()):
                self.keep(cookie)
            location = answer.headers.get("Location", "")
            return Answer(answer.status, answer.read().decode(), location)

    def keep(self, cookie: str) -> None:
        """As a header `Set-Cookie` says."""
        name, _, value = cookie.partition(";")[0].partition("=")
        if "Max-Age=0" in cookie:
            self.cookies.pop(name, None)
        else:
            self.cookies[name] = value
