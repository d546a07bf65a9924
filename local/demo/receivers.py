"""One server on loopback in place of Slack, Teams, PagerDuty and a receiver of signed webhooks.

Channels speak HTTPS to it and must trust `certificate` (`SSL_CERT_FILE`); tokens, signatures and
documents are checked as strictly as the real services do. What came in can be looked at over plain
HTTP at `inbox_url` (a page, and `inbox.json`). It must not know how the product renders.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import shutil
import ssl
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

from local.demo.certificate import make_certificate
from local.demo.inbox import inbox_page
from local.demo.receiver_checks import (
    PAGERDUTY_BYTES,
    TEAMS_BYTES,
    nodes,
    pagerduty_problems,
    slack_problems,
    teams_problems,
    webhook_problems,
)

_BODY_BYTES = 1_048_576
_SECONDS = 300.0
_JSON = {"Content-Type": "application/json"}
_SIGNATURE = re.compile(r"t=([0-9]{1,12})((?:,v1=[0-9a-f]{64})+)")
CHANNELS = ("slack", "slack_webhook", "teams", "pagerduty", "webhook")


@dataclass(frozen=True, slots=True)
class Received:
    """One request: which channel and operation, what was answered and why, and its document.

    Secrets are not in `payload`: headers are not kept, and a routing key is left out.
    """

    channel: str
    operation: str
    at: str
    status: int
    problem: str
    payload: Any


@dataclass(frozen=True, slots=True)
class Pressed:
    """A request as Slack sends it to the app when somebody presses a button."""

    body: bytes
    timestamp: str
    signature: str


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


def _json(status: int, document: object, problem: str = "") -> _Reply:
    return _Reply(status, json.dumps(document).encode(), _JSON, problem)


class Receivers:
    """Use as a context manager. Tokens and secrets are made anew each time. Safe to use from
    threads."""

    def __init__(self) -> None:
        self.slack_token = f"xoxb-{secrets.token_hex(12)}"
        self.slack_signing_secret = secrets.token_hex(16)
        self.slack_channel = "C0LOCAL0001"
        self.pagerduty_key = secrets.token_hex(16)
        self.webhook_secret = secrets.token_hex(32)
        self.certificate = Path()
        self._slack_path = f"/services/T0LOCAL/B0LOCAL/{secrets.token_hex(12)}"
        self._teams_path = (
            f"/workflows/{secrets.token_hex(16)}/invoke?sig={secrets.token_urlsafe(24)}"
        )
        self._lock = threading.RLock()
        self._received: list[Received] = []
        self._planned: dict[str, list[tuple[int, str | None, str]]] = {}
        self._messages: dict[str, dict[str, Any]] = {}
        self._incidents: dict[str, str] = {}
        self._deliveries: set[str] = set()
        self._links: list[str] = []
        self._folder: Path | None = None
        self._servers: list[ThreadingHTTPServer] = []

    # life

    def start(self) -> Self:
        """Makes a certificate and listens on two free loopback ports."""
        self._folder = Path(tempfile.mkdtemp(prefix="gpu-governor-receivers-"))
        self.certificate, key = make_certificate(self._folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        for tls in (context, None):
            self._servers.append(_Server(self, tls))
        for server in self._servers:
            threading.Thread(
                target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
            ).start()
        return self

    def stop(self) -> None:
        """Ends both servers and removes the certificate. Safe to repeat."""
        while self._servers:
            server = self._servers.pop()
            server.shutdown()
            server.server_close()
        if self._folder is not None:
            shutil.rmtree(self._folder)
            self._folder = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # addresses

    @property
    def url(self) -> str:
        """Return where the channels go."""
        return f"https://127.0.0.1:{self._servers[0].server_port}"

    @property
    def inbox_url(self) -> str:
        """Return where a person looks; plain HTTP, as no browser knows the certificate."""
        return f"http://127.0.0.1:{self._servers[1].server_port}/"

    def short_link(self, url: str) -> str:
        """An address that fits a line and leads to this one; for terminals, whose lines are
        short."""
        with self._lock:
            self._links.append(url)
            return f"{self.inbox_url}{len(self._links)}"

    def linked(self, path: str) -> str | None:
        """Return where a short link leads; `None` for any other path."""
        number = path.removeprefix("/")
        with self._lock:
            known = number.isascii() and number.isdigit() and 1 <= int(number) <= len(self._links)
            return self._links[int(number) - 1] if known else None

    @property
    def slack_api_url(self) -> str:
        """In place of https://slack.com/api/."""
        return f"{self.url}/api/"

    @property
    def slack_webhook_url(self) -> str:
        """An incoming webhook."""
        return self.url + self._slack_path

    @property
    def teams_url(self) -> str:
        """A workflow's address, with its signature."""
        return self.url + self._teams_path

    @property
    def pagerduty_url(self) -> str:
        """In place of the Events API."""
        return f"{self.url}/v2/enqueue"

    @property
    def webhook_url(self) -> str:
        """A receiver that checks signatures."""
        return f"{self.url}/hook"

    # control

    def fail(
        self,
        channel: str,
        status: int,
        *,
        times: int = 1,
        retry_after: str | None = None,
        about: str = "",
    ) -> None:
        """The next requests of a channel are answered with this status. 3xx redirects to the inbox.

        With `about` only requests whose body holds that text.

        Raises:
            ValueError: there is no such channel.
        """
        if channel not in CHANNELS:
            raise ValueError(
                f"the receivers have no channel {channel}: name one of {', '.join(CHANNELS)}"
            )
        with self._lock:
            self._planned.setdefault(channel, []).extend([(status, retry_after, about)] * times)

    def received(self, channel: str | None = None) -> tuple[Received, ...]:
        """All requests in order, refused ones too."""
        with self._lock:
            return tuple(one for one in self._received if channel in (None, one.channel))

    def slack_message(self, thread: str) -> dict[str, Any] | None:
        """How a message looks now. `thread` is `<channel id>:<time stamp>`."""
        with self._lock:
            return self._messages.get(thread)

    def delete_slack_message(self, thread: str) -> None:
        """As a person would."""
        with self._lock:
            del self._messages[thread]

    def incidents(self) -> dict[str, str]:
        """PagerDuty: `triggered` or `resolved`, by deduplication key."""
        with self._lock:
            return dict(self._incidents)

    def document(self) -> dict[str, Any]:
        """Everything, as `inbox.json` shows it."""
        with self._lock:
            return {
                "received": [asdict(one) for one in self._received],
                "slack_messages": dict(self._messages),
                "pagerduty_incidents": dict(self._incidents),
            }

    def press(
        self, thread: str, action_id: str, *, user: str = "U0LOCAL", reason: str = ""
    ) -> Pressed:
        """Presses a button of a message as it looks now.

        Raises:
            LookupError: there is no such message or button.
        """
        with self._lock:
            blocks = self._messages[thread]["blocks"]
        found = nodes(blocks)
        button = next(
            (
                node
                for node in found
                if node.get("action_id") == action_id and node["type"] == "button"
            ),
            None,
        )
        if button is None:
            raise LookupError(f"the message has no button {action_id}")
        channel, stamp = thread.split(":")
        inputs = [block for block in blocks if block["type"] == "input"]
        values = {
            block["block_id"]: {block["element"]["action_id"]: {"value": reason or None}}
            for block in inputs
        }
        payload = {
            "type": "block_actions",
            "user": {"id": user, "username": user.lower(), "team_id": "T0LOCAL"},
            "team": {"id": "T0LOCAL", "domain": "local"},
            "container": {"type": "message", "message_ts": stamp, "channel_id": channel},
            "state": {"values": values},
            "actions": [
                {key: button[key] for key in ("action_id", "type", "value") if key in button}
            ],
        }
        body = urlencode({"payload": json.dumps(payload)}).encode()
        now = str(int(datetime.now(UTC).timestamp()))
        base = f"v0:{now}:".encode() + body
        mac = hmac.new(self.slack_signing_secret.encode(), base, hashlib.sha256).hexdigest()
        return Pressed(body, now, f"v0={mac}")

    # requests

    def answer(self, path: str, headers: Mapping[str, str], body: bytes) -> _Reply:
        """Return what the service behind a path says to a POST; keeps the request."""
        channel, operation = self._place(path)
        with self._lock:
            planned = self._planned.get(channel, [])
            due = next((one for one in planned if one[2].encode() in body), None)
            if due is not None:
                planned.remove(due)
                reply = self._planned_reply(channel, due[0], due[1])
            else:
                reply = self._reply(channel, operation, headers, body)
            at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            payload = _payload(body)
            if isinstance(payload, dict):
                payload.pop("routing_key", None)
            self._received.append(
                Received(channel, operation, at, reply.status, reply.problem, payload)
            )
        return reply

    def _reply(
        self, channel: str, operation: str, headers: Mapping[str, str], body: bytes
    ) -> _Reply:
        match channel:
            case "slack":
                return self._slack(operation, headers, body)
            case "slack_webhook":
                return _slack_webhook(headers, body)
            case "teams":
                return _teams(headers, body)
            case "pagerduty":
                return self._pagerduty(body)
            case "webhook":
                return self._webhook(headers, body)
            case _:
                return _Reply(404, b"no_service", problem="nobody lives here")

    def _place(self, path: str) -> tuple[str, str]:
        known = {
            "/api/chat.postMessage": ("slack", "chat.postMessage"),
            "/api/chat.update": ("slack", "chat.update"),
            "/api/chat.postEphemeral": ("slack", "chat.postEphemeral"),
            self._slack_path: ("slack_webhook", "post"),
            self._teams_path: ("teams", "post"),
            "/v2/enqueue": ("pagerduty", "enqueue"),
            "/hook": ("webhook", "post"),
        }
        return known.get(path, ("nobody", "unknown"))

    def _planned_reply(self, channel: str, status: int, retry_after: str | None) -> _Reply:
        headers = {} if retry_after is None else {"Retry-After": retry_after}
        if 300 <= status < 400:
            headers["Location"] = self.inbox_url
        body = b""
        if channel == "slack" and status >= 400:
            known = {
                401: "invalid_auth",
                403: "invalid_auth",
                429: "ratelimited",
                503: "service_unavailable",
            }
            code = known.get(status, "internal_error")
            body = json.dumps({"ok": False, "error": code}).encode()
        return _Reply(status, body, headers, "planned")

    def _slack(self, operation: str, headers: Mapping[str, str], body: bytes) -> _Reply:
        given = headers.get("authorization", "")
        if not given:
            return _slack_no("not_authed")
        if not hmac.compare_digest(given.encode(), f"Bearer {self.slack_token}".encode()):
            return _slack_no("invalid_auth")
        if not headers.get("content-type", "").startswith("application/json"):
            return _slack_no("invalid_post_type")
        payload = _payload(body)
        if not isinstance(payload, dict):
            return _slack_no("invalid_json")
        channel = payload.get("channel")
        if channel != self.slack_channel:
            return _slack_no("channel_not_found")
        if operation == "chat.postEphemeral":
            if not payload.get("text") or not str(payload.get("user", "")).startswith("U"):
                return _slack_no("user_not_in_channel")
            return _json(
                200, {"ok": True, "message_ts": f"{int(datetime.now(UTC).timestamp())}.000001"}
            )
        problem = _content_problem(payload)
        if problem:
            return _slack_no(*problem)
        return (
            self._slack_post(payload)
            if operation == "chat.postMessage"
            else self._slack_update(payload)
        )

    def _slack_post(self, payload: dict[str, Any]) -> _Reply:
        parent = payload.get("thread_ts")
        if parent is not None and f"{self.slack_channel}:{parent}" not in self._messages:
            return _slack_no("thread_not_found")
        stamp = f"{int(datetime.now(UTC).timestamp())}.{len(self._received):06d}"
        self._messages[f"{self.slack_channel}:{stamp}"] = payload
        return _json(
            200, {"ok": True, "channel": self.slack_channel, "ts": stamp, "message": payload}
        )

    def _slack_update(self, payload: dict[str, Any]) -> _Reply:
        thread = f"{self.slack_channel}:{payload.get('ts')}"
        if thread not in self._messages:
            return _slack_no("message_not_found")
        self._messages[thread] = payload
        stamp = payload["ts"]
        return _json(
            200, {"ok": True, "channel": self.slack_channel, "ts": stamp, "text": payload["text"]}
        )

    def _pagerduty(self, body: bytes) -> _Reply:
        if len(body) > PAGERDUTY_BYTES:
            return _json(413, {"status": "event too large"}, "larger than 512 KB")
        event = _payload(body)
        problems = pagerduty_problems(event)
        if not problems and not hmac.compare_digest(event["routing_key"], self.pagerduty_key):
            problems = ["'routing_key' belongs to no integration"]
        if problems:
            invalid = {
                "status": "invalid event",
                "message": "Event object is invalid",
                "errors": problems,
            }
            return _json(400, invalid, "; ".join(problems))
        key = event.get("dedup_key") or secrets.token_hex(16)
        if event["event_action"] == "trigger":
            self._incidents[key] = "triggered"
        elif key in self._incidents:
            self._incidents[key] = "resolved"
        return _json(202, {"status": "success", "message": "Event processed", "dedup_key": key})

    def _webhook(self, headers: Mapping[str, str], body: bytes) -> _Reply:
        if not _is_signed(self.webhook_secret, headers.get("gpugovernor-signature", ""), body):
            return _json(401, {"error": "not signed with the secret"}, "not signed with the secret")
        document = _payload(body)
        problems = webhook_problems(document)
        delivery = headers.get("gpugovernor-delivery", "")
        if not problems and document["delivery"] != delivery:
            problems = ["GpuGovernor-Delivery is not the document's delivery"]
        if problems:
            return _json(422, {"errors": problems}, "; ".join(problems))
        again = delivery in self._deliveries
        self._deliveries.add(delivery)
        return _json(200, {"again": again}, "known already" if again else "")


def _slack_webhook(headers: Mapping[str, str], body: bytes) -> _Reply:
    payload = _payload(body)
    is_json = headers.get("content-type", "").startswith("application/json")
    if not isinstance(payload, dict) or not is_json:
        return _Reply(400, b"invalid_payload", problem="invalid_payload")
    problem = _content_problem(payload)
    if problem:
        return _Reply(400, problem[0].encode(), problem=": ".join(problem))
    return _Reply(200, b"ok")


def _teams(headers: Mapping[str, str], body: bytes) -> _Reply:
    if len(body) > TEAMS_BYTES:
        return _json(413, {"error": {"code": "RequestEntityTooLarge"}}, "larger than 28 KB")
    problems = teams_problems(_payload(body))
    if not headers.get("content-type", "").startswith("application/json"):
        problems.append("content type: application/json is expected")
    if problems:
        return _json(
            400, {"error": {"code": "InvalidRequest", "details": problems}}, "; ".join(problems)
        )
    return _Reply(202)


def _is_signed(secret: str, header: str, body: bytes) -> bool:
    """As docs of the webhook say, written anew."""
    found = _SIGNATURE.fullmatch(header)
    if found is None or abs(datetime.now(UTC).timestamp() - int(found[1])) > 300:
        return False
    mac = hmac.new(secret.encode(), f"{found[1]}.".encode() + body, hashlib.sha256).hexdigest()
    return mac in found[2].split(",v1=")


def _payload(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _content_problem(payload: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Slack's code and details, or `None`."""
    text = payload.get("text")
    if not isinstance(text, str) or not text:
        return ("no_text",)
    if len(text) > 40_000:
        return ("msg_too_long",)
    problems = slack_problems(payload["blocks"]) if "blocks" in payload else []
    return ("invalid_blocks", "; ".join(problems)) if problems else None


def _slack_no(code: str, details: str = "") -> _Reply:
    """Slack says no with status 200."""
    document = {
        "ok": False,
        "error": code,
        "response_metadata": {"messages": [details] if details else []},
    }
    return _json(200, document, f"{code}: {details}" if details else code)


class _Server(ThreadingHTTPServer):
    """With TLS it takes what channels send, without it shows the inbox."""

    daemon_threads = True

    def __init__(self, receivers: Receivers, tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), _Deliveries if tls else _Inbox)
        self.receivers = receivers
        if tls is not None:
            # The handshake is the handler's, in its thread: a client that stalls keeps nobody else
            # waiting.
            self.socket = tls.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that does not trust the certificate, or went away, is no news."""
        del request, client_address


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _SECONDS
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Paths are secrets."""

    def reply(self, reply: _Reply) -> None:
        """Sends it."""
        self.send_response(reply.status)
        for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)


class _Deliveries(_Handler):
    def do_POST(self) -> None:
        """One delivery."""
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > _BODY_BYTES:
            self.close_connection = True
            self.reply(_Reply(411 if not length.isdigit() else 413))
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.reply(self.server.receivers.answer(self.path, headers, self.rfile.read(int(length))))


class _Inbox(_Handler):
    def do_GET(self) -> None:
        """The page, or its data, or where a short link leads."""
        if url := self.server.receivers.linked(self.path):
            self.reply(_Reply(302, headers={"Location": url, "Referrer-Policy": "no-referrer"}))
            return
        document = self.server.receivers.document()
        if self.path == "/inbox.json":
            self.reply(_json(200, document))
        elif self.path == "/":
            page = inbox_page(document).encode()
            self.reply(_Reply(200, page, {"Content-Type": "text/html; charset=utf-8"}))
        else:
            self.reply(_Reply(404))
