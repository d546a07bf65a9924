"""One origin on loopback for the stack's pages: every request goes to the local HTTP API under its prefix.

A visit of `/` without a session gets a code as `governor open` does. It must not know any page.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.client import HTTPConnection
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from governor.web.sessions import SESSION_COOKIE

_BODY_BYTES = 1_048_576
_SECONDS = 60.0
_OF_ONE_HOP = {"connection", "content-length", "date", "host", "keep-alive", "server", "transfer-encoding"}


class Front:
    """A context manager. `api` is the local API's address, `obtain_code` gives a path with a code."""

    def __init__(self, api: str, obtain_code: Callable[[], str]) -> None:
        parts = urlsplit(api)
        self.host, self.port, self.prefix = parts.hostname or "", parts.port or 80, parts.path.rstrip("/")
        self.obtain_code = obtain_code
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/"

    def is_own(self, host: str) -> bool:
        """Another host is a name that was rebound to this machine."""
        port = self._server.server_port
        return host in (f"127.0.0.1:{port}", f"localhost:{port}")

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(front: Front) -> type[BaseHTTPRequestHandler]:  # noqa: C901 - methods of one class
    class Handler(BaseHTTPRequestHandler):
        timeout = _SECONDS

        def _pass(self) -> None:
            if not self._is_allowed():
                return
            if self.command == "GET" and self.path == "/" and not self._has_session():
                self._answer(303, [("Location", front.obtain_code()), ("Cache-Control", "no-store")], b"")
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            connection = HTTPConnection(front.host, front.port, timeout=_SECONDS)
            try:
                headers = {n: v for n, v in self.headers.items() if n.lower() not in _OF_ONE_HOP}
                connection.request(self.command, front.prefix + self.path, body or None, headers)
                answer = connection.getresponse()
                self._answer(answer.status, answer.getheaders(), answer.read())
            finally:
                connection.close()

        do_GET = do_HEAD = do_POST = _pass  # noqa: N815 - the names are the base class's

        def _is_allowed(self) -> bool:
            length = self.headers.get("Content-Length", "0")
            if not front.is_own(self.headers.get("Host", "")) or not self.path.startswith("/"):
                self._answer(421, [], b"this is not the address of this server\n")
            elif not (length.isascii() and length.isdigit()) or int(length) > _BODY_BYTES:
                self._answer(413, [], b"too long\n")
            else:
                return True
            self.close_connection = True
            return False

        def _has_session(self) -> bool:
            try:
                return SESSION_COOKIE in SimpleCookie(self.headers.get("Cookie", ""))
            except CookieError:
                return False

        def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers:
                if name.lower() not in _OF_ONE_HOP:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's
            """Paths hold links that decide: they are not logged."""

    return Handler
