"""Posts to a channel over HTTPS, and decides from its answer (status, `Retry-After`) whether a
repeat can help.

This module repeats nothing itself: the queue repeats a delivery.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from governor.alerts.templates import first_line_of
from governor.core.errors import ConfigurationError
from governor.core.https import HttpAnswer, HttpError, Https, PrivateAddress, is_https
from governor.core.ports import Clock
from governor.notify.message import Channel, DeliveryError, DeliveryRefused, DeliveryRetryable

JSON = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "gpu-governor"}
LONGEST_WAIT_SECONDS = 43_200
"""The longest time for which SQS hides a message. If a receiver asks for a longer wait, it is tried
again after this one."""
_RETRYABLE_STATUSES = frozenset({408, 425, 429})
"""Statuses, besides 5xx, after which a repeat may help."""


class HttpsChannel(Channel):
    """Posts each message as JSON to one secret address.

    Raises: ConfigurationError if the address is not https.
    """

    def __init__(self, url: str, https: Https, clock: Clock) -> None:
        """Post to this address. Raises: ConfigurationError if it is not https."""
        self._url = https_url(url, self.name)
        self._https = https
        self._clock = clock

    def post(self, body: str, headers: Mapping[str, str] = JSON) -> HttpAnswer:
        """Post the body to the channel's address; return the answer, whose status is 2xx. Raises:
        DeliveryRetryable or DeliveryRefused for any other answer, or if there is none."""
        answer = post(self._https, self._url, body.encode(), headers, self.name)
        if not 200 <= answer.status < 300:
            raise failure(answer, self._clock.now())
        return answer


def post(
    https: Https, url: str, body: bytes, headers: Mapping[str, str], channel: str
) -> HttpAnswer:
    """Post the body and return the answer, whatever its status. `channel` is its name, for errors.

    Raises: DeliveryRetryable if there is no answer; DeliveryRefused if a repeat would get none, as
    with an address in a private network or a certificate that was not accepted.
    """
    try:
        return https.send("POST", url, body, {**JSON, **headers})
    except PrivateAddress:
        raise DeliveryRefused(
            f"the address of the channel {channel} is in a private, loopback or link-local "
            "network, and nothing was sent; if that is intended, set "
            f'"{private_key(channel)}": "true" in the channel secret'
        ) from None
    except HttpError as error:
        reason = _reason_of(error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            # A repeat would meet the same certificate.
            raise DeliveryRefused("its certificate was not accepted; renew it there") from None
        raise DeliveryRetryable(f"it did not answer ({type(reason).__name__})") from None


def _reason_of(error: HttpError) -> Exception:
    """Return the exception that the error wraps as its first argument, or the error itself."""
    if error.args and isinstance(error.args[0], Exception):
        return error.args[0]
    return error


def private_key(channel: str) -> str:
    """Return the key of the channel secret that lets a channel reach private addresses, such as
    `webhook_private`."""
    return f"{channel}_private"


def https_of(channel: str, secret: Mapping[str, str], public: Https, private: Https) -> Https:
    """Return the client for a channel: `public`, unless the secret lets it reach private addresses.

    Raises: ConfigurationError if that setting is neither "true" nor "false".
    """
    key = private_key(channel)
    setting = secret.get(key, "false")
    if setting not in ("true", "false"):
        raise ConfigurationError(f'{key} of the channel secret must be "true" or "false"')
    return private if setting == "true" else public


def https_url(url: str, channel: str) -> str:
    """Return the same address if it is a whole https URL. Raises: ConfigurationError if it is not;
    the text names the channel and never holds the address, which is secret."""
    if not is_https(url):
        raise ConfigurationError(
            f"the address of the channel {channel} must be a whole https:// URL without "
            "user name or spaces"
        )
    return url


def failure(
    answer: HttpAnswer, now: datetime, *, code: str = "", later: bool = False, advice: str = ""
) -> DeliveryError:
    """Return the error to raise for an answer that is no success.

    It is DeliveryRetryable for 408, 425, 429, 5xx, and with `later`, with the wait of
    `Retry-After`. It is DeliveryRefused for any other answer, with `advice`, or with the usual
    advice if that is empty. `code` is the error code in the answer; it becomes part of the text.
    """
    status = answer.status
    text = f"it answered {status} {code}".rstrip()
    if later or status in _RETRYABLE_STATUSES or status >= 500:
        wait_seconds = retry_after_seconds(answer.headers.get("retry-after"), now)
        return DeliveryRetryable(text, wait_seconds)
    if not advice:
        status_or_redirect = "redirect" if 300 <= status < 400 else status
        advice = first_line_of("refused by a channel", status=status_or_redirect)
    return DeliveryRefused(f"{text}: {advice}")


def retry_after_seconds(value: str | None, now: datetime) -> int | None:
    """Return the wait that a `Retry-After` header asks for, from 0 to `LONGEST_WAIT_SECONDS`.

    The header holds seconds or an HTTP date (RFC 9110, 10.2.3), which is UTC if it has no zone.
    Return `None` if there is no such header, or it cannot be read.
    """
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:12]), LONGEST_WAIT_SECONDS)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    # The old form with a zone of -0000 gives a naive datetime; HTTP dates are UTC.
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = round((moment - now).total_seconds())
    return max(0, min(seconds, LONGEST_WAIT_SECONDS))
