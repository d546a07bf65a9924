"""The front server of `make up`: passes what a browser sends, and answers to no other host."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from governor.web.sessions import SESSION_COOKIE
from local.front import Front


class _Api(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.send_response(302)
        self.send_header("Location", "/fleet")
        self.send_header("Set-Cookie", "a=1; Secure; Path=/")
        self.send_header("Set-Cookie", "b=2; Secure; Path=/")
        said = f"{self.command} {self.path} {self.headers.get('Cookie')} {body.decode()}".encode()
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_GET = do_POST  # noqa: N815 - the names are the base class's

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's
        pass


@pytest.fixture
def front(socket_enabled: None) -> Iterator[Front]:
    api = ThreadingHTTPServer(("127.0.0.1", 0), _Api)
    threading.Thread(target=api.serve_forever, daemon=True).start()
    with Front(f"http://127.0.0.1:{api.server_port}/prefix/$default", lambda: "/console#code") as server:
        yield server
    api.shutdown()
    api.server_close()


def _ask(
    front: Front, method: str, path: str, body: str | None = None, **headers: str
) -> tuple[HTTPResponse, str]:
    connection = HTTPConnection(front.url.split("/")[2], timeout=10)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer, answer.read().decode()
    finally:
        connection.close()


def test_method_query_cookies_and_body_pass_and_so_do_location_and_cookies_back(front: Front) -> None:
    answer, said = _ask(front, "POST", "/q/1?a=b%20c", "answer=approve", Cookie="k=v")
    assert said == "POST /prefix/$default/q/1?a=b%20c k=v answer=approve"
    assert (answer.status, answer.getheader("Location")) == (302, "/fleet")
    assert answer.headers.get_all("Set-Cookie") == ["a=1; Secure; Path=/", "b=2; Secure; Path=/"]


def test_a_visit_without_a_session_gets_a_fresh_code(front: Front) -> None:
    answer, _ = _ask(front, "GET", "/")
    assert (answer.status, answer.getheader("Location")) == (303, "/console#code")


def test_a_visit_with_a_session_goes_to_the_api(front: Front) -> None:
    _, said = _ask(front, "GET", "/", Cookie=f"{SESSION_COOKIE}=x")
    assert said.startswith("GET /prefix/$default/ ")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example"])
def test_another_host_is_refused_and_gets_no_code(front: Front, host: str) -> None:
    answer, _ = _ask(front, "GET", "/", Host=host)
    assert (answer.status, answer.getheader("Location")) == (421, None)
