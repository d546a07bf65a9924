"""One request over HTTPS, to a channel or to an issuer. No redirects, no retries, no endless body."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import urllib3

HttpError = urllib3.exceptions.HTTPError
"""The other side did not answer. Its text may hold the address."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Status, headers by lower-case name, and the first bytes of the body."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def document(self) -> Mapping[str, Any]:
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


class Https:
    """Sends requests. `SSL_CERT_FILE` names other authorities, as for any program."""

    def __init__(
        self, *, connect_seconds: float = 3.0, read_seconds: float = 10.0, most_bytes: int = 1_048_576
    ) -> None:
        # At DEBUG urllib3 logs the path of every request. That of a webhook is its secret, and one of an
        # issuer may hold a code.
        logging.getLogger("urllib3.connectionpool").setLevel(logging.INFO)
        timeout = urllib3.Timeout(connect=connect_seconds, read=read_seconds)
        self._pool = urllib3.PoolManager(cert_reqs="CERT_REQUIRED", timeout=timeout)
        self._most_bytes = most_bytes

    def send(self, method: str, url: str, body: str | bytes | None, headers: Mapping[str, str]) -> HttpAnswer:
        """Return whatever the other side answers, up to `most_bytes`. Raises: HttpError."""
        plain: dict[str, Any] = {"redirect": False, "retries": False, "preload_content": False}
        answer = self._pool.request(method, url, body=body, headers=dict(headers), **plain)
        try:
            start = answer.read(self._most_bytes)
        finally:
            answer.close()
        return HttpAnswer(answer.status, {name.lower(): said for name, said in answer.headers.items()}, start)


def is_https(url: str) -> bool:
    """Return whether it is a whole https:// address without a user name or spaces."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme == "https" and bool(parts.hostname) and parts.username is None
        return usable and parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:
        return False
