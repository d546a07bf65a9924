"""One origin on loopback: the stack's pages at their own paths, under the banner, and the
simulation's pages.

Whoever opens a page without a session that holds gets one, through the console's own doors. A form
without one gets the console's answer. A request for another host is refused: that would be a name
which was rebound to this machine.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import urlencode, urlsplit

from governor.core.errors import GovernorError

_BODY_BYTES = 1_048_576
_NO_ANSWER = (OSError, HTTPException, RuntimeError, ValueError, LookupError, GovernorError)
"""Errors of the stack, or of what the pages beside it read."""
_SECONDS = 60.0
_OF_ONE_HOP = {
    "connection",
    "content-length",
    "date",
    "host",
    "keep-alive",
    "server",
    "transfer-encoding",
}
_HOST_PREFIX = "__Host-"
"""Prefix of cookies for https alone; browsers differ in whether they keep them from loopback."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a browser."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def is_page(self) -> bool:
        """Return whether it is HTML."""
        return any(
            name.lower() == "content-type" and value.startswith("text/html")
            for name, value in self.headers
        )


class Site(Protocol):
    """The site behind the front. `api` is the local API's address."""

    api: str

    def obtain_code(self) -> str:
        """A code that opens one session of the console."""

    def own_page(self, path: str) -> Reply | None:
        """A page of the simulation; `None` where the path is none of its."""

    def dress(self, path: str, page: Reply) -> Reply:
        """A page of the stack, under the banner."""


class Front:
    """A context manager. Its address is known before there is a site to show."""

    def __init__(self) -> None:
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.site: Site | None = None

    @property
    def url(self) -> str:
        """Without a slash at its end."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def is_own(self, host: str) -> bool:
        """Return whether a request is for this server."""
        port = self._server.server_port
        return host in (f"127.0.0.1:{port}", f"localhost:{port}")

    def answer(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Reply:
        """Any request."""
        site = self.site
        if site is None:
            return plain_page(
                503, "Not ready yet", "The simulated cloud is starting. Try again in a minute."
            )
        try:
            if method != "POST" and (own := site.own_page(path)) is not None:
                return own
            reply = ask(site.api, method, path, headers, body)
            is_for_a_person = "text/html" in headers.get("Accept", "")
            is_locked_out = reply.status == HTTPStatus.UNAUTHORIZED and is_for_a_person
            # The console says of a form that it was not carried out.
            if is_locked_out and method != "POST":
                return Reply(303, (("Location", path), *self._new_session(site)), b"")
            return site.dress(path, reply) if reply.is_page else reply
        except _NO_ANSWER as error:
            why = f"The simulated cloud did not answer ({type(error).__name__}). Try again."
            return plain_page(502, "No answer", why)

    def _new_session(self, site: Site) -> Iterable[tuple[str, str]]:
        code, headers = site.obtain_code(), {"Content-Type": "application/x-www-form-urlencoded"}
        for answer in ("show", "open"):
            form = urlencode({"code": code, "answer": answer}).encode()
            entered = ask(site.api, "POST", "/console", headers, form)
            cookies = [(name, value) for name, value in entered.headers if name == "Set-Cookie"]
            headers["Cookie"] = "; ".join(value.partition(";")[0] for _, value in cookies)
        if not cookies:
            raise HTTPException(f"the console's door answered {entered.status}")
        return (*cookies, ("Cache-Control", "no-store"))

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def ask(api: str, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> Reply:
    """The local API's answer. Its cookies get names that a browser keeps without https."""
    parts = urlsplit(api)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=_SECONDS)
    try:
        sent = {name: value for name, value in headers.items() if name.lower() not in _OF_ONE_HOP}
        if "Cookie" in sent:
            pairs = (one.strip() for one in sent["Cookie"].split(";"))
            sent["Cookie"] = "; ".join(_HOST_PREFIX + one for one in pairs)
        connection.request(method, parts.path.rstrip("/") + path, body or None, sent)
        answer = connection.getresponse()
        found = (
            (name, value) for name, value in answer.getheaders() if name.lower() not in _OF_ONE_HOP
        )
        return Reply(answer.status, tuple(map(_kept, found)), answer.read())
    finally:
        connection.close()


def _kept(header: tuple[str, str]) -> tuple[str, str]:
    name, value = header
    if name.lower() != "set-cookie":
        return header
    return "Set-Cookie", value.removeprefix(_HOST_PREFIX).replace("; Secure", "")


def plain_page(status: int, title: str, text: str) -> Reply:
    """A page of the front itself, for when there is nothing to show."""
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title></head><body><main><h1>{escape(title)}</h1><p>{escape(text)}</p>"
        '<p><a href="/">Open the console</a></p></main></body></html>\n'
    )
    kinds = (("Content-Type", "text/html; charset=utf-8"), ("Cache-Control", "no-store"))
    return Reply(status, kinds, page.encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that went away in the middle of an answer is no news."""


def _handler(front: Front) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _SECONDS

        def _pass(self) -> None:
            length = self.headers.get("Content-Length", "0")
            if not front.is_own(self.headers.get("Host", "")) or not self.path.startswith("/"):
                self._send(
                    plain_page(421, "Another address", "This is not the address of this server.")
                )
            elif not (length.isascii() and length.isdigit()) or int(length) > _BODY_BYTES:
                self._send(plain_page(413, "Too long", "The form is too long."))
            else:
                body = self.rfile.read(int(length))
                headers = {name.title(): value for name, value in self.headers.items()}
                self._send(front.answer(self.command, self.path, headers, body))

        do_GET = do_HEAD = do_POST = _pass  # noqa: N815 - the names are the base class's

        def _send(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for name, value in reply.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's
            """Paths hold links that decide: they are not logged."""

    return Handler
