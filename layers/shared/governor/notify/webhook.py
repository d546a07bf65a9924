"""Posts messages to a webhook: signed JSON to any HTTPS address.

`examples/webhook/verify.py` shows how a receiver verifies the signature.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

from governor.alerts.model import Section
from governor.core.errors import ConfigurationError
from governor.core.https import Https
from governor.core.ports import Clock
from governor.core.units import iso, without
from governor.notify.message import Delivered, Message
from governor.notify.transport import HttpsChannel

SIGNATURE_HEADER = "GpuGovernor-Signature"
DELIVERY_HEADER = "GpuGovernor-Delivery"
_SHORTEST_SECRET_BYTES = 32
_ONLY_FOR_TEXT = ("is_everywhere", "is_terminated", "is_prepaid", "was_priced")
"""Facts that only choose the words of a message."""


class WebhookChannel(HttpsChannel):
    """Posts messages, signed with each of the `secrets` (two while they are being exchanged).

    Raises: ConfigurationError if the address is not https, there is no secret, or one is shorter
    than 32 bytes.
    """

    name = "webhook"

    def __init__(self, url: str, secrets: Sequence[str], https: Https, clock: Clock) -> None:
        """Post to this address, signed with each of the secrets. Raises: ConfigurationError if the
        address is not https, there is no secret, or one is shorter than 32 bytes."""
        super().__init__(url, https, clock)
        self._secrets = tuple(_long_enough(secret) for secret in secrets)
        if not self._secrets:
            raise ConfigurationError("the channel webhook has no secret to sign with: store one")

    def send(self, message: Message) -> Delivered:
        """Post the message. The delivery id is the same if the same message is sent again. Raises:
        DeliveryRetryable, DeliveryRefused."""
        body = json.dumps(webhook_document(message), separators=(",", ":"))
        signature = sign_webhook(self._secrets, body.encode(), self._clock.now())
        self.post(body, {DELIVERY_HEADER: message.delivery_key, SIGNATURE_HEADER: signature})
        return Delivered(message.delivery_key)


def webhook_document(message: Message) -> dict[str, object]:
    """Return the message as the JSON object that a receiver gets.

    A release may add fields. If it changes the meaning of one, it raises `version`. The price is
    decimal text; it, evidence and link are `None` if the message has none.
    """
    usd_per_day = message.facts.usd_per_day
    price: str | None = None
    if usd_per_day is not None:
        price = format(usd_per_day, "f")
    evidence: dict[str, object] | None = None
    if message.evidence is not None:
        evidence = asdict(message.evidence)
    # Other facts say these to machines.
    about = without(asdict(message.facts), _ONLY_FOR_TEXT)
    return {
        "version": 1,
        "delivery": message.delivery_key,
        "kind": message.kind.value,
        "severity": message.severity.value,
        "title": message.title,
        "at": iso(message.at),
        "episode": message.episode,
        "stage": message.stage,
        "is_outcome": message.is_outcome,
        **about,
        "usd_per_day": price,
        "happens": message.happens,
        "lead": list(message.lead),
        "acts": message.acts,
        "sections": _sections(message.sections),
        "details": _sections(message.details),
        "why": message.why,
        "facts": dict(message.data),
        "evidence": evidence,
        "link": message.link,
    }


def _sections(sections: Sequence[Section]) -> list[dict[str, object]]:
    """Return the headings with their lines, as the contract of the document names them."""
    return [{"heading": one.heading, "lines": list(one.lines)} for one in sections]


def sign_webhook(secrets: Sequence[str], body: bytes, at: datetime) -> str:
    """Return the value of the signature header for this body: `t=<epoch seconds>,v1=<hex>`, with
    one `v1` for each secret."""
    epoch = str(int(at.timestamp()))
    signatures = [f"v1={_mac(secret, epoch, body)}" for secret in secrets]
    return ",".join([f"t={epoch}", *signatures])


def _mac(secret: str, epoch: str, body: bytes) -> str:
    """Return the HMAC-SHA256 of time and body, in hex."""
    return hmac.new(secret.encode(), epoch.encode() + b"." + body, hashlib.sha256).hexdigest()


def _long_enough(secret: str) -> str:
    """Return the same secret if it has 32 bytes or more. Raises: ConfigurationError if not."""
    if len(secret.encode()) < _SHORTEST_SECRET_BYTES:
        raise ConfigurationError("a secret of the channel webhook must have 32 bytes or more")
    return secret
