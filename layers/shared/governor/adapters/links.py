"""Signs approval links and checks them: HMAC-SHA256 with a rotating key, one canonical form accepted."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from urllib.parse import quote, urlencode

from governor.errors import ConfigurationError, LinkExpired, LinkForged

_VERSION = 1
_SHORTEST_KEY = 32
_FIELDS = frozenset({"k", "r", "e", "s"})
_EPOCH = re.compile(r"[1-9][0-9]{0,11}")
_KEY_ID = re.compile(r"k[0-9]{1,9}")
"""Names of keys; `current` and `next` only point to one."""
_FORGED = "this link was not made by this governor, or was altered"


class HmacLinkSigner:
    """The port `LinkSigner`.

    `keys` gives the key document: `current` names the key that signs; every key in it is accepted.
    `base_url` is needed only where links are made.
    """

    def __init__(self, keys: Callable[[], Mapping[str, str]], base_url: str | None) -> None:
        self._keys = keys
        self._base_url = base_url

    def link(self, approval_id: str, recipient: str, expires_at: datetime) -> str:
        if not self._base_url:
            raise ConfigurationError("APPROVAL_BASE_URL is missing: set it in template.yaml")
        return f"{self._base_url}/approvals/{self.relative(approval_id, recipient, expires_at)}"

    def relative(self, approval_id: str, recipient: str, expires_at: datetime) -> str:
        key_id, epoch, signature = self._sign("link", approval_id, recipient, expires_at)
        query = urlencode({"k": key_id, "r": recipient, "e": epoch, "s": signature})
        return f"{quote(approval_id, safe='')}?{query}"

    def check(self, approval_id: str, fields: Mapping[str, str], now: datetime) -> str:
        """The expiry is looked at only when the signature is right."""
        self._signed(approval_id, fields, "link", fields.get("s", ""))
        if int(fields["e"]) <= now.timestamp():
            raise LinkExpired("the time of this link is over")
        return fields["r"]

    def csrf(self, approval_id: str, recipient: str, expires_at: datetime, session: str = "") -> str:
        key_id, _, signature = self._sign("csrf", approval_id, recipient, expires_at, *_bound(session))
        return f"{key_id}.{signature}"

    def check_csrf(self, approval_id: str, fields: Mapping[str, str], token: str, session: str = "") -> None:
        key_id, _, signature = token.partition(".")
        self._signed(approval_id, {**fields, "k": key_id}, "csrf", signature, *_bound(session))

    def _sign(
        self, context: str, approval_id: str, recipient: str, expires_at: datetime, *more: str
    ) -> tuple[str, str, str]:
        """The key's name, the end in whole seconds since 1970, and the signature."""
        document = self._keys()
        key_id, epoch = document.get("current", ""), str(int(expires_at.timestamp()))
        return key_id, epoch, mac(document, key_id, context, approval_id, key_id, recipient, epoch, *more)

    def _signed(
        self, approval_id: str, fields: Mapping[str, str], context: str, signature: str, *more: str
    ) -> None:
        """Raises LinkForged unless the signature belongs to exactly these fields."""
        if set(fields) != _FIELDS or _EPOCH.fullmatch(fields["e"]) is None:
            raise LinkForged(_FORGED)
        key_id = fields["k"]
        parts = (approval_id, key_id, fields["r"], fields["e"], *more)
        if not is_signed(self._keys(), key_id, signature, context, *parts):
            raise LinkForged(_FORGED)


def _bound(session: str) -> tuple[str, ...]:
    """A form of somebody who is signed in belongs to that session, too."""
    return (session,) if session else ()


def is_signed(document: Mapping[str, str], key_id: str, signature: str, context: str, *parts: str) -> bool:
    """Return whether a key of the document has signed exactly these parts. Raises: as `mac`."""
    if _KEY_ID.fullmatch(key_id) is None or key_id not in document:
        return False
    # Bytes, because compare_digest refuses text that is not ASCII.
    return hmac.compare_digest(mac(document, key_id, context, *parts).encode(), signature.encode())


def mac(document: Mapping[str, str], key_id: str, context: str, *parts: str) -> str:
    """Return the signature by a key of the document: base64url without padding.

    JSON keeps the parts apart, whatever they hold. Raises: ConfigurationError for a key that is no key.
    """
    key = document.get(key_id, "").encode() if _KEY_ID.fullmatch(key_id) else b""
    if len(key) < _SHORTEST_KEY:
        raise ConfigurationError("the secret of the approval links names no current key of 32 bytes or more")
    message = json.dumps([_VERSION, context, *parts], ensure_ascii=True, separators=(",", ":"))
    digest = hmac.new(key, message.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
