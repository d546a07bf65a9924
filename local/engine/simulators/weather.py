"""Bad weather between functions and AWS: a share of all their calls is throttled, refused, or gets
no answer.

Only the processes of functions go through here, on their way to the engine's front door: whoever
looks at the cloud sees it as it is. Which call is struck, and how, follows from a seed, the
operation, and how often it has been called.

A time-out is a connection that is cut at once: waiting for it would teach a client nothing more. Of
those requests half never arrive, and half arrive a moment later, when the client has long given up.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

KINDS = ("throttled", "error", "lost answer", "never arrived", "arrived late")
_WEIGHTS = (4, 4, 4, 2, 2)
_CODES: dict[str, tuple[str, int, str]] = {
    "autoscaling": ("Throttling", 400, "InternalFailure"),
    "dynamodb": ("ThrottlingException", 400, "InternalServerError"),
    "ec2": ("RequestLimitExceeded", 503, "InternalError"),
    "events": ("ThrottlingException", 400, "InternalException"),
    "kms": ("ThrottlingException", 400, "KMSInternalException"),
    "lambda": ("TooManyRequestsException", 429, "ServiceException"),
    "logs": ("ThrottlingException", 400, "ServiceUnavailableException"),
    "monitoring": ("ThrottlingException", 400, "InternalServiceFault"),
    "pricing": ("ThrottlingException", 400, "InternalErrorException"),
    "s3": ("SlowDown", 503, "InternalError"),
    "secretsmanager": ("ThrottlingException", 400, "InternalServiceError"),
    "ses": ("TooManyRequestsException", 429, "InternalServiceErrorException"),
    "sns": ("Throttling", 400, "InternalError"),
    "sqs": ("RequestThrottled", 400, "InternalFailure"),
    "ssm": ("ThrottlingException", 400, "InternalServerError"),
    "states": ("ThrottlingException", 400, "InternalFailure"),
    "sts": ("Throttling", 400, "InternalFailure"),
}
"""By the name that a request is signed for: how the service says slow down, and how that it failed
inside.

Sources: the services' API references, "Common errors" and the errors of their operations.
"""
_UNKNOWN = ("ThrottlingException", 400, "InternalFailure")
_OF_QUERIES = "<ErrorResponse>{}</ErrorResponse>"
_XML = {
    "autoscaling": _OF_QUERIES,
    "ec2": "<Response><Errors>{}</Errors></Response>",
    "s3": "{}",
    "sns": _OF_QUERIES,
    "sts": _OF_QUERIES,
}
"""Envelopes of errors by services that answer in XML; the others answer in JSON."""
_SCOPE = re.compile(r"Credential=[^/]+/\d{8}/[^/]+/([^/]+)/aws4_request")
_BETWEEN_TWO = frozenset({"connection", "content-length", "keep-alive", "transfer-encoding"})
_LATE_SECONDS = 1.0


@dataclass
class Weather:
    """The present weather. `struck` counts its faults, by operation and kind."""

    seed: int = 0
    share: float = 0.0
    calls: Counter[str] = field(default_factory=Counter)
    struck: Counter[tuple[str, str]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def change(self, seed: int, share: float) -> None:
        """Another weather from now on; counts begin anew with another seed."""
        with self._lock:
            if seed != self.seed:
                self.calls.clear()
                self.struck.clear()
            self.seed, self.share = seed, share

    def strike(self, operation: str) -> tuple[str, float]:
        """Return what happens to the next call of an operation, if anything, and a number from 0 to
        1 to go by."""
        with self._lock:
            self.calls[operation] += 1
            chance = random.Random(f"{self.seed} {operation} {self.calls[operation]}")  # noqa: S311 - no secret
            if chance.random() >= self.share:
                return "", 0.0
            kind = chance.choices(KINDS, _WEIGHTS)[0]
            self.struck[operation, kind] += 1
            return kind, chance.random()

    def counts(self) -> dict[str, Any]:
        """All calls so far, and what struck them: a list of operation, kind and number."""
        with self._lock:
            struck = [
                [operation, kind, count] for (operation, kind), count in sorted(self.struck.items())
            ]
            return {"calls": self.calls.total(), "struck": struck}


def serve(weather: Weather, front_door: int) -> int:
    """Stands before the engine's port on loopback; returns the port to go through."""
    handler = type("Handler", (_Handler,), {"weather": weather, "front_door": front_door})
    server = _Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True, name="weather").start()
    return int(server.server_address[1])


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever went away in the middle has its reasons."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    weather: ClassVar[Weather]
    front_door: ClassVar[int]

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Nothing is logged."""

    def handle_expect_100(self) -> bool:
        """Sends `100 Continue` at once, as AWS does. The base class leaves it in the buffer, and
        AWS's client waits a whole second before it sends a body without it."""
        goes_on = super().handle_expect_100()
        self.wfile.flush()
        return goes_on

    def _any(self) -> None:
        if self.headers.get("Transfer-Encoding"):
            raise NotImplementedError("a request in chunks")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        service, action = operation_of(self.command, self.path, self.headers, body)
        kind, chance = self.weather.strike(f"{service}:{action}")
        match kind:
            case "throttled" | "error":
                self._refuse(service, kind, chance)
            case "lost answer":
                self._forward(body)
                self._cut()
            case "never arrived":
                self._cut()
            case "arrived late":
                seconds = chance * _LATE_SECONDS
                threading.Thread(target=self._late, args=(seconds, body), daemon=True).start()
                self._cut()
            case _:
                self._answer(*self._forward(body))

    def do_DELETE(self) -> None:
        self._any()

    def do_GET(self) -> None:
        self._any()

    def do_HEAD(self) -> None:
        self._any()

    def do_POST(self) -> None:
        self._any()

    def do_PUT(self) -> None:
        self._any()

    def _late(self, seconds: float, body: bytes) -> None:
        time.sleep(seconds)
        self._forward(body)

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.front_door)
        try:
            connection.putrequest(
                self.command, self.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in self.headers.items():
                # The host stays the one that was signed.
                if name.lower() not in (*_BETWEEN_TWO, "expect"):
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _BETWEEN_TWO:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def _refuse(self, service: str, kind: str, chance: float) -> None:
        slow_down, status, inside = _CODES.get(service, _UNKNOWN)
        code, status = (slow_down, status) if kind == "throttled" else (inside, 500)
        if kind == "error" and chance < 0.5:
            # A load balancer before the service knows none of its codes.
            return self._answer(
                503, [("Content-Type", "text/html")], b"<html>Service Unavailable</html>"
            )
        return self._answer(status, *error_answer(service, code))

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


def operation_of(
    method: str, path: str, headers: Mapping[str, str], body: bytes
) -> tuple[str, str]:
    """The service that a request is signed for, and its operation; of a REST service, method and
    path."""
    signed = _SCOPE.search(headers.get("Authorization") or "")
    service = signed[1] if signed else "unsigned"
    if target := headers.get("X-Amz-Target"):
        return service, target.rpartition(".")[2]
    if service in _XML and service != "s3":
        return service, dict(parse_qsl(body.decode(errors="replace"))).get("Action", "")
    return service, f"{method} {'/'.join(path.partition('?')[0].split('/')[:4])}"


def error_answer(service: str, code: str) -> tuple[list[tuple[str, str]], bytes]:
    """Headers and body of an error, as the protocol of the service has them."""
    message = "simulated weather"
    if service in _XML:
        text = f"<Error><Code>{escape(code)}</Code><Message>{message}</Message></Error>"
        return [("Content-Type", "text/xml")], _XML[service].format(text).encode()
    headers = [("Content-Type", "application/x-amz-json-1.1"), ("x-amzn-ErrorType", code)]
    return headers, json.dumps({"__type": code, "message": message}).encode()
