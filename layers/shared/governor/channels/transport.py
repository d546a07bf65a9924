"""A POST to a channel, and what its answer means. No retries: the queue repeats, not this."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from governor.channels.message import Channel, DeliveryError, DeliveryRefused, DeliveryRetryable
from governor.domain.alerts.templates import said
from governor.errors import ConfigurationError
from governor.https import HttpAnswer, HttpError, Https, PrivateAddress, is_https
from governor.ports import Clock

JSON = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "gpu-governor"}
LONGEST_WAIT_SECONDS = 43_200
"""The longest that SQS keeps a message invisible; a receiver that asks for more is asked again
after this."""
_LATER = frozenset({408, 425, 429})


class HttpsChannel(Channel):
    """Posts each message as JSON to one address, a secret. Raises: ConfigurationError if it is not
    https."""

    def __init__(self, url: str, https: Https, clock: Clock) -> None:
        self._url = https_url(url, self.name)
        self._https = https
        self._clock = clock

    def post(self, body: str, headers: Mapping[str, str] = JSON) -> HttpAnswer:
        """Raises: DeliveryError unless it was taken, with 2xx."""
        answer = post(self._https, self._url, body.encode(), headers, self.name)
        if not 200 <= answer.status < 300:
            raise failure(answer, self._clock.now())
        return answer


def post(
    https: Https, url: str, body: bytes, headers: Mapping[str, str], channel: str
) -> HttpAnswer:
    """Return whatever the other side answers. Raises: DeliveryRetryable, DeliveryRefused when it
    does not."""
    try:
        return https.send("POST", url, body, {**JSON, **headers})
    except PrivateAddress:
        raise DeliveryRefused(
            f"the address of the channel {channel} is in a private, loopback or "
            "link-local network, and "
            f'nothing was sent; if that is intended, set "{private_key(channel)}": "true" in the '
            "channel secret"
        ) from None
    except HttpError as error:
        # urllib3 wraps the reason, as its only argument.
        reason = error.args[0] if error.args and isinstance(error.args[0], Exception) else error
        if isinstance(reason, ssl.SSLCertVerificationError):
            # A certificate does not become good by asking again.
            raise DeliveryRefused("its certificate was not accepted; renew it there") from None
        raise DeliveryRetryable(f"it did not answer ({type(reason).__name__})") from None


def private_key(channel: str) -> str:
    """Return the key of the channel secret that lets a channel reach private addresses."""
    return f"{channel}_private"


def https_of(channel: str, secret: Mapping[str, str], public: Https, private: Https) -> Https:
    """Return the way out for a channel: to public addresses alone, unless the secret says
    otherwise.

    Raises: ConfigurationError for anything but "true" and "false".
    """
    key = private_key(channel)
    said = secret.get(key, "false")
    if said not in ("true", "false"):
        raise ConfigurationError(f'{key} of the channel secret must be "true" or "false"')
    return private if said == "true" else public


def https_url(url: str, channel: str) -> str:
    """The address if it may be used. Raises: ConfigurationError, which never holds the address."""
    if not is_https(url):
        raise ConfigurationError(
            f"the address of the channel {channel} must be a whole https:// URL without "
            "user name or spaces"
        )
    return url


def failure(
    answer: HttpAnswer, now: datetime, *, code: str = "", later: bool = False, advice: str = ""
) -> DeliveryError:
    """Return the error for an answer that took nothing: for 408, 425, 429, 5xx and `later` one to
    repeat after the wait of `Retry-After`; else a refusal with the advice. `code` is what it
    said."""
    status = answer.status
    text = f"it answered {status} {code}".rstrip()
    if later or status in _LATER or status >= 500:
        return DeliveryRetryable(text, retry_after_seconds(answer.headers.get("retry-after"), now))
    kind = "redirect" if 300 <= status < 400 else status
    return DeliveryRefused(f"{text}: {advice or said('refused by a channel', {'status': kind})[0]}")


def retry_after_seconds(value: str | None, now: datetime) -> int | None:
    """Return the wait that a `Retry-After` header asks for, in seconds or as an HTTP date (RFC
    9110, 10.2.3): 0 to `LONGEST_WAIT_SECONDS`; `None` for none or one that cannot be read."""
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
