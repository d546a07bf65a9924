"""Seals what a browser keeps for us: HMAC-SHA256 with the keys of approval links, in a context of its own."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from governor.adapters.links import KEY_ID, mac, signing_key

_LONGEST = 4096
"""Browsers keep no longer cookie (RFC 6265, 6.1)."""


class HmacSealer:
    """The port `Sealer`. `keys` gives the key document, as for `HmacLinkSigner`."""

    def __init__(self, keys: Callable[[], Mapping[str, str]]) -> None:
        self._keys = keys

    def seal(self, purpose: Sequence[str], values: Mapping[str, str], expires_at: datetime) -> str:
        """As the port says."""
        document = self._keys()
        key_id = document.get("current", "")
        content = json.dumps([int(expires_at.timestamp()), dict(values)], separators=(",", ":"))
        payload = base64.urlsafe_b64encode(content.encode()).rstrip(b"=").decode()
        return f"{key_id}.{payload}.{mac(signing_key(document, key_id), 'seal', key_id, payload, *purpose)}"

    def unseal(self, purpose: Sequence[str], sealed: str, now: datetime) -> Mapping[str, str] | None:
        """As the port says. Nothing of it is read before the seal is found to be right."""
        key_id, _, rest = sealed.partition(".")
        payload, _, seal = rest.partition(".")
        document = self._keys()
        if not sealed.isascii() or len(sealed) > _LONGEST:
            return None
        if KEY_ID.fullmatch(key_id) is None or key_id not in document:
            return None
        wanted = mac(signing_key(document, key_id), "seal", key_id, payload, *purpose)
        # Bytes, because compare_digest refuses text that is not ASCII.
        if not hmac.compare_digest(wanted.encode(), seal.encode()):
            return None
        expires, values = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return dict(values) if now.timestamp() < expires else None
