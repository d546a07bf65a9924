"""A small OpenID Connect provider: as strict as a real one, with people of a test's choice.

`Issuer` answers requests by itself; `OidcServer` puts it on loopback over HTTPS. Codes are good
once and for a minute, PKCE is required, redirect URIs are compared letter by letter. It must not
know the product.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
import shutil
import ssl
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, unquote_plus, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from local.demo.certificate import make_certificate

_CODE_SECONDS = 600
_TOKEN_SECONDS = 300
_BODY_BYTES = 65_536
_SECONDS = 300.0
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who has an account; `claims` go into the ID token beside those that every token
    has."""

    subject: str
    claims: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """Status, body and headers."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Grant:
    """The grant behind a code."""

    redirect_uri: str
    challenge: str
    nonce: str
    person: Person
    until: float


class Issuer:
    """The provider's answers. Safe to use from threads.

    `client_secret` empty: a public client. `person` is who signs in next; `None`: somebody who says
    no. `meddle` are claims (`None` removes one) that the next tokens hold whatever is right;
    `algorithm` signs them; `key` is replaced by `rotate`.
    """

    def __init__(self, url: str, redirect_uri: str, *, client_secret: str = "") -> None:
        self.url = url
        self.redirect_uri = redirect_uri
        self.client_id = "gpu-governor"
        self.client_secret = client_secret
        self.person: Person | None = Person("u-1")
        self.meddle: dict[str, object] = {}
        self.algorithm = "RS256"
        self.refused: list[str] = []
        self._lock = threading.Lock()
        self._grants: dict[str, _Grant] = {}
        self._spent: set[str] = set()
        self.rotate()

    def rotate(self) -> None:
        """New keys; the old ones are published no more."""
        self._rsa = self.new_rsa_key()
        self._ec = ec.generate_private_key(ec.SECP256R1())
        self._key_id = secrets.token_hex(4)

    def new_rsa_key(self) -> rsa.RSAPrivateKey:
        """Return a key that no token was signed by yet."""
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def document(self) -> dict[str, Any]:
        """The discovery document."""
        methods = ["client_secret_basic"] if self.client_secret else ["none"]
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256", "ES256"],
            "scopes_supported": ["openid", "email", "groups"],
            "token_endpoint_auth_methods_supported": methods,
            "code_challenge_methods_supported": ["S256"],
        }

    def keys(self) -> dict[str, Any]:
        """The published keys."""
        found = []
        for algorithm, jwk in (
            ("RS256", RSAAlgorithm.to_jwk(self._rsa.public_key(), as_dict=True)),
            ("ES256", ECAlgorithm.to_jwk(self._ec.public_key(), as_dict=True)),
        ):
            found.append(
                {**jwk, "kid": f"{algorithm}-{self._key_id}", "alg": algorithm, "use": "sig"}
            )
        return {"keys": found}

    def get(self, path: str, query: Mapping[str, str]) -> Reply:
        """Discovery, keys, and the page where people sign in: here they are through at once."""
        if path == "/.well-known/openid-configuration":
            return _json(200, self.document())
        if path == "/keys":
            return _json(200, self.keys())
        if path == "/authorize":
            return self._authorize(query)
        return Reply(404)

    def _authorize(self, query: Mapping[str, str]) -> Reply:
        if (
            query.get("client_id") != self.client_id
            or query.get("redirect_uri") != self.redirect_uri
        ):
            # Never redirected to an address that is not registered.
            return self._no("unknown client or redirect_uri")
        wrong = [
            name
            for name, right in {
                "response_type": query.get("response_type") == "code",
                "scope": "openid" in query.get("scope", "").split(),
                "code_challenge_method": query.get("code_challenge_method") == "S256",
                "code_challenge": _CHALLENGE.fullmatch(query.get("code_challenge", "")) is not None,
                "state": len(query.get("state", "")) >= 22,
                "nonce": len(query.get("nonce", "")) >= 22,
            }.items()
            if not right
        ]
        if wrong or self.person is None:
            self.refused.extend(wrong)
            return self._back({"error": "invalid_request" if wrong else "access_denied"}, query)
        code = secrets.token_urlsafe(24)
        grant = _Grant(
            query["redirect_uri"],
            query["code_challenge"],
            query["nonce"],
            self.person,
            time.monotonic() + _CODE_SECONDS,
        )
        with self._lock:
            self._grants[code] = grant
        return self._back({"code": code}, query)

    def _back(self, fields: Mapping[str, str], query: Mapping[str, str]) -> Reply:
        answer = urlencode({**fields, "state": query.get("state", "")})
        return Reply(302, headers={"Location": f"{self.redirect_uri}?{answer}"})

    def post(self, path: str, headers: Mapping[str, str], form: Mapping[str, str]) -> Reply:
        """The token endpoint. Header names are in lower case."""
        if path != "/token":
            return Reply(404)
        if not headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            return self._error("invalid_request")
        if not self._is_client(headers, form):
            return self._error("invalid_client", 401)
        if form.get("grant_type") != "authorization_code":
            return self._error("unsupported_grant_type")
        with self._lock:
            code = form.get("code", "")
            grant = None if code in self._spent else self._grants.get(code)
            # Spent by the first try, whatever comes of it.
            self._spent.add(code)
        verifier = form.get("code_verifier", "")
        if (
            grant is None
            or time.monotonic() > grant.until
            or form.get("redirect_uri") != grant.redirect_uri
            or _VERIFIER.fullmatch(verifier) is None
            or _challenge(verifier) != grant.challenge
        ):
            return self._error("invalid_grant")
        token = {
            "access_token": secrets.token_hex(16),
            "token_type": "Bearer",
            "expires_in": _TOKEN_SECONDS,
        }
        return _json(200, {**token, "id_token": self.token(grant.person, grant.nonce)})

    def token(self, person: Person, nonce: str) -> str:
        """An ID token, with what `meddle` says."""
        now = int(time.time())
        right: dict[str, object] = {
            "iss": self.url,
            "aud": self.client_id,
            "sub": person.subject,
            "iat": now,
            "exp": now + _TOKEN_SECONDS,
            "nonce": nonce,
            "auth_time": now,
            **person.claims,
        }
        claims = {
            name: value for name, value in {**right, **self.meddle}.items() if value is not None
        }
        key: Any = {"RS256": self._rsa, "ES256": self._ec}.get(self.algorithm)
        if self.algorithm == "HS256":
            key = "s" * 64
        return jwt.encode(
            claims,
            key,
            algorithm=self.algorithm,
            headers={"kid": f"{self.algorithm}-{self._key_id}"},
        )

    def _is_client(self, headers: Mapping[str, str], form: Mapping[str, str]) -> bool:
        if not self.client_secret:
            return form.get("client_id") == self.client_id and "authorization" not in headers
        kind, _, value = headers.get("authorization", "").partition(" ")
        try:
            name, _, secret = base64.b64decode(value, validate=True).decode().partition(":")
        except ValueError:
            return False
        given = kind, unquote_plus(name), unquote_plus(secret)
        return given == ("Basic", self.client_id, self.client_secret)

    def _error(self, code: str, status: int = 400) -> Reply:
        self.refused.append(code)
        return _json(status, {"error": code})

    def _no(self, why: str) -> Reply:
        self.refused.append(why)
        return Reply(400, why.encode(), {"Content-Type": "text/plain"})


class OidcServer:
    """An issuer on loopback. Use as a context manager; clients must trust `certificate`."""

    def __init__(self) -> None:
        self.certificate = Path()
        self.issuer = Issuer("", "")
        self._folder: Path | None = None
        self._server: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="gpu-governor-oidc-"))
        self.certificate, key = make_certificate(self._folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        server = self._server = _Server(self.issuer)
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.issuer.url = f"https://127.0.0.1:{server.server_port}"
        threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        if self._folder is not None:
            shutil.rmtree(self._folder)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, issuer: Issuer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.issuer = issuer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that does not trust the certificate, or went away, is no news."""
        del request, client_address


class _Handler(BaseHTTPRequestHandler):
    timeout = _SECONDS
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Addresses hold codes."""

    def do_GET(self) -> None:
        """Discovery, keys, sign-in."""
        parts = urlsplit(self.path)
        self._reply(self.server.issuer.get(parts.path, dict(parse_qsl(parts.query))))

    def do_POST(self) -> None:
        """The token endpoint."""
        length = min(int(self.headers.get("Content-Length", "0")), _BODY_BYTES)
        form = dict(parse_qsl(self.rfile.read(length).decode()))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._reply(self.server.issuer.post(urlsplit(self.path).path, headers, form))

    def _reply(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in {**reply.headers, "Content-Length": str(len(reply.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)


def _challenge(verifier: str) -> str:
    """RFC 7636, 4.2."""
    return (
        base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    )


def _json(status: int, document: object) -> Reply:
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
    return Reply(status, json.dumps(document).encode(), headers)
