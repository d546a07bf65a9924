"""One POST over HTTPS and what its answer means. No redirects, no retries: the queue repeats, not this.

This module must not know what is sent.
"""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol
from urllib.parse import urlsplit

import urllib3

from governor.channels.errors import DeliveryRefused, DeliveryRetryable
from governor.errors import ConfigurationError
from governor.ports import Clock

JSON = {"Content-Type": "application/json"}
_CONNECT_SECONDS, _READ_SECONDS = 3.0, 10.0
_BODY_BYTES = 1_048_576
"""Slack repeats the whole message in its answer; what is longer than that is not read to its end."""
LONGEST_WAIT_SECONDS = 43_200
"""The longest that SQS keeps a message invisible; a receiver that asks for more is asked again after this."""
_LATER = frozenset({408, 425, 429})
_WHAT_TO_DO = {
    400: "it does not understand the message; look whether the address belongs to this kind of channel",
    401: "it does not accept the credentials; store the present ones in the channel's secret",
    403: "it does not accept the credentials; store the present ones in the channel's secret",
    404: "it does not know the address; make a new one and store it in the channel's secret",
    410: "the address was withdrawn; make a new one and store it in the channel's secret",
    413: "the message is too large for it",
}


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Status, headers by lower-case name, and the first bytes of the body."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Transport(Protocol):
    """Sends one POST."""

    def post(self, channel: str, url: str, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        """Whatever the other side answered. Raises: DeliveryRetryable when it did not answer."""
        ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address of a channel, and the transport to it.

    Raises:
        ConfigurationError: the address is not https.
    """

    channel: str
    url: str = field(repr=False)
    transport: Transport
    clock: Clock

    def __post_init__(self) -> None:
        https_url(self.url, self.channel)

    def post(self, document: object, headers: Mapping[str, str] = JSON) -> HttpAnswer:
        """Send the document as JSON. Raises: DeliveryError unless it was taken."""
        answer = self.transport.post(self.channel, self.url, json.dumps(document).encode(), headers)
        check_answer(self.channel, answer, self.clock.now())
        return answer


class HttpsTransport:
    """The port `Transport` with urllib3. `SSL_CERT_FILE` names other authorities, as for any program."""

    def __init__(self) -> None:
        # At DEBUG urllib3 logs the path of every request, and the path of a webhook is its secret.
        logging.getLogger("urllib3.connectionpool").setLevel(logging.INFO)
        timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS)
        self._pool = urllib3.PoolManager(cert_reqs="CERT_REQUIRED", timeout=timeout)

    def post(self, channel: str, url: str, body: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        """As the port says."""
        try:
            answer = self._pool.request(
                "POST",
                url,
                body=body,
                headers=dict(headers),
                redirect=False,
                retries=False,
                preload_content=False,
            )
            try:
                start = answer.read(_BODY_BYTES)
            finally:
                answer.close()
        except urllib3.exceptions.HTTPError as error:
            raise unanswered(channel, error) from None
        names = {name.lower(): value for name, value in answer.headers.items()}
        return HttpAnswer(answer.status, names, start)


def unanswered(channel: str, error: Exception) -> DeliveryRetryable | DeliveryRefused:
    """Return the error for no answer; a certificate does not become good by asking again."""
    # urllib3 wraps the reason, as its only argument.
    reason = error.args[0] if error.args and isinstance(error.args[0], Exception) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return DeliveryRefused("its certificate was not accepted; renew it there", channel=channel)
    return DeliveryRetryable(f"it did not answer ({type(reason).__name__})", channel=channel)


def https_url(url: str, channel: str) -> str:
    """The address if it may be used.

    Raises:
        ConfigurationError: not https, without a host, or with a user name in it. Never holds the address.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme == "https" and bool(parts.hostname) and parts.username is None
        usable = usable and parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:
        usable = False
    if not usable:
        raise ConfigurationError(
            f"the address of the channel {channel} must be a whole https:// URL without user name or spaces"
        )
    return url


def check_answer(channel: str, answer: HttpAnswer, now: datetime) -> None:
    """Returns for 2xx.

    Raises:
        DeliveryRetryable: 408, 425, 429 and 5xx, with what `Retry-After` says.
        DeliveryRefused: everything else, redirects included.
    """
    status = answer.status
    if 200 <= status < 300:
        return
    if status in _LATER or status >= 500:
        wait = retry_after_seconds(answer.headers.get("retry-after"), now)
        raise DeliveryRetryable(f"it answered {status}", channel=channel, retry_after_seconds=wait)
    if 300 <= status < 400:
        raise DeliveryRefused(
            f"it answered {status}: redirects are not followed, store the final address", channel=channel
        )
    advice = _WHAT_TO_DO.get(status, "look into the settings of the channel")
    raise DeliveryRefused(f"it answered {status}: {advice}", channel=channel)


def retry_after_seconds(value: str | None, now: datetime) -> int | None:
    """Return the wait that a `Retry-After` header asks for, as seconds or as an HTTP date (RFC 9110, 10.2.3).

    At least 0, at most `LONGEST_WAIT_SECONDS`; `None` for none or one that cannot be read.
    """
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:12]), LONGEST_WAIT_SECONDS)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    # The old form with a zone of -0000 gives a naive datetime; HTTP dates are UTC.
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0, min(round((aware - now).total_seconds()), LONGEST_WAIT_SECONDS))
