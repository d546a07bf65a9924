"""Seals what a browser keeps for us: HMAC-SHA256 with the keys of approval links, in a context of its own."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from governor.adapters.links import is_signed, mac

_LONGEST = 4096
"""Browsers keep no longer cookie (RFC 6265, 6.1)."""


class HmacSealer:
    """The port `Sealer`. `keys` gives the key document, as for `HmacLinkSigner`."""

    def __init__(self, keys: Callable[[], Mapping[str, str]]) -> None:
        self._keys = keys

    def seal(self, purpose: Sequence[str], values: Mapping[str, str], expires_at: datetime) -> str:
        document = self._keys()
        key_id = document.get("current", "")
        content = json.dumps([int(expires_at.timestamp()), dict(values)], separators=(",", ":"))
        payload = base64.urlsafe_b64encode(content.encode()).rstrip(b"=").decode()
        return f"{key_id}.{payload}.{mac(document, key_id, 'seal', key_id, payload, *purpose)}"

    def unseal(self, purpose: Sequence[str], sealed: str, now: datetime) -> Mapping[str, str] | None:
        """Nothing of it is read before the seal is found to be right."""
        key_id, _, rest = sealed.partition(".")
        payload, _, seal = rest.partition(".")
        document = self._keys()
        if not sealed.isascii() or len(sealed) > _LONGEST:
            return None
        if not is_signed(document, key_id, seal, "seal", key_id, payload, *purpose):
            return None
        expires, values = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return dict(values) if now.timestamp() < expires else None
