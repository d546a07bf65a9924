"""The front of `make up`: passes what a browser sends, lets people in, and answers no other
host."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from governor.core.errors import Unavailable
from local.demo.site.front import Front, Reply


class _Api(BaseHTTPRequestHandler):
    """Says what it was asked; lets in whoever sends the code, and only those to `/kept`."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        cookie = self.headers.get("Cookie") or ""
        is_locked = self.path.endswith("/kept") and "__Host-session=good" not in cookie
        said = f"<body>{self.command} {self.path} {cookie} {body}".encode()
        self.send_response(401 if is_locked else 303 if "/console" in self.path else 200)
        self.send_header(
            "Content-Type", "text/plain" if "csv" in self.path else "text/html; charset=utf-8"
        )
        if self.path.endswith("/console") and body == "code=secret&answer=show":
            self.send_header(
                "Set-Cookie", "__Host-code=named; Path=/; Secure; HttpOnly; SameSite=Lax"
            )
        is_named = "__Host-code=named" in cookie
        if self.path.endswith("/console") and body == "code=secret&answer=open" and is_named:
            self.send_header(
                "Set-Cookie", "__Host-session=good; Path=/; Secure; HttpOnly; SameSite=Lax"
            )
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_GET = do_POST  # noqa: N815 - the names are the base class's

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's
        pass


@dataclass
class _Site:
    api: str
    codes: list[str] = field(default_factory=lambda: ["secret"])

    def obtain_code(self) -> str:
        if not self.codes:
            raise RuntimeError("no more codes")
        return self.codes[0]

    def own_page(self, path: str) -> Reply | None:
        return Reply(200, (), b"its own") if path.startswith("/simulated") else None

    def dress(self, path: str, page: Reply) -> Reply:
        return Reply(page.status, page.headers, f"dressed {path} ".encode() + page.body)


@pytest.fixture
def front(socket_enabled: None) -> Iterator[Front]:
    with Front() as server:
        yield server


@pytest.fixture
def site(front: Front) -> Iterator[_Site]:
    api = ThreadingHTTPServer(("127.0.0.1", 0), _Api)
    threading.Thread(target=api.serve_forever, args=(0.05,), daemon=True).start()
    site = _Site(f"http://127.0.0.1:{api.server_port}/prefix/$default")
    front.site = site
    yield site
    api.shutdown()
    api.server_close()


def _ask(
    front: Front, method: str, path: str, body: str | None = None, **headers: str
) -> tuple[HTTPResponse, str]:
    connection = HTTPConnection(front.url.split("/")[2], timeout=300)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer, answer.read().decode()
    finally:
        connection.close()


def test_method_query_cookies_and_body_pass(front: Front, site: _Site) -> None:
    """Cookies by the names that the console knows; pages are dressed, data are not."""
    answer, said = _ask(front, "POST", "/q/1?a=b%20c", "answer=approve", Cookie="k=v; l=w")
    assert (
        200,
        "dressed /q/1?a=b%20c <body>POST /prefix/$default/q/1?a=b%20c __Host-k=v; "
        "__Host-l=w answer=approve",
    ) == (
        answer.status,
        said,
    )
    assert "<body>GET" == _ask(front, "GET", "/fleet.csv")[1][:9]


def test_who_has_no_session_that_holds_gets_one_and_the_page(front: Front, site: _Site) -> None:
    """By the console's own doors, with a cookie that browsers keep without https."""
    for cookie in ("", "session=old"):
        answer, _ = _ask(front, "GET", "/kept", Cookie=cookie, Accept="text/html")
        assert (303, "/kept") == (answer.status, answer.getheader("Location"))
        assert "session=good; Path=/; HttpOnly; SameSite=Lax" == answer.getheader("Set-Cookie")
    answer, said = _ask(front, "GET", "/kept", Cookie="session=good", Accept="text/html")
    assert (200, True) == (answer.status, said.startswith("dressed"))


def test_a_form_without_a_session_gets_the_answer_of_the_console(front: Front, site: _Site) -> None:
    """A redirect to the page would hide that the answer was not recorded."""
    answer, said = _ask(front, "POST", "/kept", "answer=keep", Accept="text/html")

    assert (401, None) == (answer.status, answer.getheader("Set-Cookie"))
    assert said.startswith("dressed /kept <body>POST")


def test_names_of_headers_may_be_in_lower_case(front: Front, site: _Site) -> None:
    """As some clients send them."""
    assert 303 == _ask(front, "GET", "/kept", accept="text/html")[0].status
    assert 200 == _ask(front, "GET", "/kept", cookie="session=good", accept="text/html")[0].status


def test_programs_get_no_session_unasked(front: Front, site: _Site) -> None:
    """They are told, as the console tells them."""
    assert 401 == _ask(front, "GET", "/kept", Accept="application/json")[0].status


def test_a_code_that_opens_nothing_ends_in_a_plain_page(front: Front, site: _Site) -> None:
    """Not in a circle of redirects; as does a door that gives no code."""
    for codes in (["wrong"], []):
        site.codes = codes
        answer, said = _ask(front, "GET", "/kept", Accept="text/html")
        assert (502, True) == (answer.status, "did not answer" in said)


def test_an_engine_that_has_gone_is_a_plain_page(front: Front, site: _Site) -> None:
    """With what to do, and before there is a site, too; as is a table that cannot be read."""

    def broken(path: str) -> Reply | None:
        raise Unavailable(path, operation="read")

    site.api = "http://127.0.0.1:1/x"
    assert (502, True) == ((gone := _ask(front, "GET", "/"))[0].status, "Try again" in gone[1])
    site.own_page = broken  # type: ignore[method-assign]
    assert 502 == _ask(front, "GET", "/")[0].status
    front.site = None
    assert (503, True) == ((early := _ask(front, "GET", "/"))[0].status, "is starting" in early[1])


def test_pages_of_its_own_are_read_only(front: Front, site: _Site) -> None:
    """Posts go to the stack."""
    assert "its own" == _ask(front, "GET", "/simulated/mail")[1]
    assert "POST" in _ask(front, "POST", "/simulated/mail", "a=b")[1]


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example"]
)
def test_another_host_is_refused_and_gets_no_session(front: Front, site: _Site, host: str) -> None:
    """A name that was rebound to this machine reads nothing."""
    answer, said = _ask(front, "GET", "/kept", Host=host, Accept="text/html")
    assert (421, None) == (answer.status, answer.getheader("Set-Cookie"))
    assert "prefix" not in said


def test_no_path_leads_to_another_host(front: Front, site: _Site) -> None:
    """Where the session is renewed, the browser is sent back to its path."""
    host = front.url.split("/")[2]
    answer, _ = _ask(front, "GET", "//evil.example/kept", Accept="text/html", Host=host)
    assert "/evil.example/kept" == answer.getheader("Location")
    answer, _ = _ask(front, "GET", "http://evil.example/kept", Accept="text/html", Host=host)
    assert (421, None) == (answer.status, answer.getheader("Location"))


def test_a_form_that_is_too_long_is_refused(front: Front, site: _Site) -> None:
    """Before it is read."""
    assert 413 == _ask(front, "POST", "/q/1", None, **{"Content-Length": "1048577"})[0].status
