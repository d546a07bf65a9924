"""Signs approval links and CSRF tokens and checks their signatures, and seals values that a browser
stores.

Each use has a context of its own under HMAC-SHA256, so that no signature passes for another use.
This module must not store a key or a link.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import string
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from urllib.parse import quote, urlencode

from governor.core.errors import ConfigurationError, LinkExpired, LinkForged

EVERYBODY = 0
"""The recipient's number in links that go to a topic, a list or a chat."""
_VERSION = 1
_SHORTEST_KEY = 32
_FIELDS = frozenset({"k", "r", "e", "s"})
_EPOCH = re.compile(r"[1-9][0-9]{0,11}")
_SHORT = re.compile(
    r"(?P<page>[A-Za-z0-9_-]{1,40})\.(?P<number>0|[1-9][0-9]{0,3}|[A-Za-z])"
    r"\.(?P<mac>[A-Za-z0-9_-]{22})"
)
_MAC_LETTERS = 22
"""132 bits of the signature: mail programs do not break an address of at most 60 characters."""
_ONE_LETTER = "0123456789" + string.ascii_letters
"""The signs of the recipients' numbers 0 to 61, one each, to keep links short."""
_KEY_ID = re.compile(r"k[0-9]{1,9}")
"""Names of keys; `current` and `next` only point to one."""
_LONGEST_COOKIE = 4096
"""Browsers keep no longer cookie (RFC 6265, 6.1)."""
_FORGED = "GPU Governor did not make this link, or it was changed"


class LinkSigner:
    """Signs and checks approval links; seals values that a browser keeps.

    In the document of `keys`, `current` names the key that signs; every key is accepted. `base_url`
    is needed to make links.
    """

    def __init__(self, keys: Callable[[], Mapping[str, str]], base_url: str | None) -> None:
        """Use the keys that `keys` returns at each call. `base_url` is `None` where no links are
        made."""
        self._keys = keys
        self._base_url = base_url

    def link(self, page_id: str, number: int) -> str:
        """Return the URL of a page, for the recipient with this number, as in
        `https://<host>/q/<page id>.<number>.<signature>`. Raises: ConfigurationError without a base
        URL or a current key."""
        if not self._base_url:
            raise ConfigurationError("APPROVAL_BASE_URL is missing: set it in template.yaml")
        return f"{self._base_url}/q/{self.relative(page_id, number)}"

    def page(self, *path: str) -> str | None:
        """Return the URL of a page of the console, which is behind a sign-in; `None` if there is no
        base URL. `path` are the parts of its path: `https://<host>/questions/<id>` for `questions`
        and an id."""
        if not self._base_url:
            return None
        quoted_path = "/".join(quote(part, safe="") for part in path)
        return f"{self._base_url}/{quoted_path}"

    def relative(self, page_id: str, number: int) -> str:
        """Return the last part of the URL of a page, by which its neighbors link to it: `<page
        id>.<number>.<signature>`. Raises: ConfigurationError without a current key."""
        document = self._keys()
        recipient = str(number)
        if number < len(_ONE_LETTER):
            recipient = _ONE_LETTER[number]
        signature = _short_mac(document, document.get("current", ""), page_id, recipient)
        return f"{page_id}.{recipient}.{signature}"

    def earlier(self, approval_id: str, recipient: str, expires_at: datetime) -> str:
        """Return the last part of the URL in the form of earlier releases, for a page that was
        opened by such a link: `<id>?k=...&r=...&e=...&s=...`. Raises: ConfigurationError without a
        current key."""
        epoch = str(int(expires_at.timestamp()))
        key_id, signature = self._sign("link", approval_id, recipient, epoch)
        query = urlencode({"k": key_id, "r": recipient, "e": epoch, "s": signature})
        return f"{quote(approval_id, safe='')}?{query}"

    def check_short(self, link: str) -> tuple[str, int]:
        """Return the page id and the recipient's number that a link names, once its signature is
        found to be ours. `link` is its last part, as `relative` makes it. The record of the page
        says when the link ends (`Approval.link_ends`).

        Raises: LinkForged if no key of ours has signed it; ConfigurationError if a key is unusable.
        """
        document = self._keys()
        match = _SHORT.fullmatch(link)
        if match is None:
            raise LinkForged(_FORGED)
        page_id = match["page"]
        recipient = match["number"]
        for key_id in document:
            if _KEY_ID.fullmatch(key_id) is None:
                continue
            signature = _short_mac(document, key_id, page_id, recipient)
            if hmac.compare_digest(signature.encode(), match["mac"].encode()):
                return page_id, _recipient_number(recipient)
        raise LinkForged(_FORGED)

    def check(self, approval_id: str, fields: Mapping[str, str], now: datetime) -> str:
        """Return the recipient named in a link of an earlier release, once its signature is found
        to be ours and its time is not over. `fields` are those of its query: `k`, `r`, `e` and `s`.

        Raises: LinkForged if no key of ours has signed exactly these fields; LinkExpired if the
        time of the link is over; ConfigurationError if the key is unusable.
        """
        if set(fields) != _FIELDS or _EPOCH.fullmatch(fields["e"]) is None:
            raise LinkForged(_FORGED)
        self._check(fields["s"], "link", approval_id, fields["k"], fields["r"], fields["e"])
        if int(fields["e"]) <= now.timestamp():
            raise LinkExpired("the time of this link is over")
        return fields["r"]

    def csrf(self, page_id: str, *whose: str) -> str:
        """Return the value that a form of this page must send back. `whose` are texts that name the
        person or the link, and the session; the value counts for these alone. Raises:
        ConfigurationError without a current key."""
        return ".".join(self._sign("csrf", page_id, *whose))

    def check_csrf(self, token: str, page_id: str, *whose: str) -> None:
        """Require the CSRF token of a form: the value that `csrf` made for the same page and the
        same `whose`. Raises: LinkForged for any other value; ConfigurationError if the key is
        unusable."""
        key_id, _, signature = token.partition(".")
        self._check(signature, "csrf", page_id, key_id, *whose)

    def _sign(self, context: str, page_id: str, *parts: str) -> tuple[str, str]:
        """Return the id of the current key, and its signature of these parts. Raises:
        ConfigurationError without a current key."""
        document = self._keys()
        key_id = document.get("current", "")
        return key_id, _mac(document, key_id, context, page_id, key_id, *parts)

    def _check(self, signature: str, context: str, page_id: str, key_id: str, *parts: str) -> None:
        """Require that the key `key_id` has signed exactly these parts. Raises: LinkForged if not;
        ConfigurationError if the key is unusable."""
        if not _is_signed(self._keys(), key_id, signature, context, page_id, key_id, *parts):
            raise LinkForged(_FORGED)

    def seal(self, purpose: Sequence[str], values: Mapping[str, str], expires_at: datetime) -> str:
        """Return the values as a signed text for a cookie, of ASCII letters, digits, `-`, `_`, `.`.
        The values can be read by anybody who has the text.

        `purpose` are the parts that `unseal` must name, too. Raises: ConfigurationError without a
        current key.
        """
        document = self._keys()
        key_id = document.get("current", "")
        content = json.dumps([int(expires_at.timestamp()), dict(values)], separators=(",", ":"))
        payload = base64.urlsafe_b64encode(content.encode()).rstrip(b"=").decode()
        signature = _mac(document, key_id, "seal", key_id, payload, *purpose)
        return f"{key_id}.{payload}.{signature}"

    def unseal(
        self, purpose: Sequence[str], sealed: str, now: datetime
    ) -> Mapping[str, str] | None:
        """Return the values of a text that `seal` made; `None` if it was changed or sealed for
        another purpose, or its time is over. Raises: ConfigurationError if the key is unusable."""
        key_id, _, payload_and_signature = sealed.partition(".")
        payload, _, signature = payload_and_signature.partition(".")
        document = self._keys()
        if not sealed.isascii() or len(sealed) > _LONGEST_COOKIE:
            return None
        if not _is_signed(document, key_id, signature, "seal", key_id, payload, *purpose):
            return None
        padding = "=" * (-len(payload) % 4)
        expires, values = json.loads(base64.urlsafe_b64decode(payload + padding))
        if now.timestamp() >= expires:
            return None
        return dict(values)


def _recipient_number(recipient: str) -> int:
    """Return the recipient's number, which a short link writes in digits or, from 10 on, as one
    letter: `a` is 10, and `Z` is 61. Call it only for a link whose signature is ours. Raises:
    ValueError for another text."""
    if recipient.isdigit():
        return int(recipient)
    return _ONE_LETTER.index(recipient)


def _is_signed(
    document: Mapping[str, str], key_id: str, signature: str, context: str, *parts: str
) -> bool:
    """Return whether the key `key_id` of the document has signed exactly these parts; false also if
    the document has no such key. Raises: ConfigurationError if that key is too short."""
    if _KEY_ID.fullmatch(key_id) is None or key_id not in document:
        return False
    expected = _mac(document, key_id, context, *parts)
    # Bytes, because compare_digest refuses text that is not ASCII.
    return hmac.compare_digest(expected.encode(), signature.encode())


def _short_mac(document: Mapping[str, str], key_id: str, page_id: str, recipient: str) -> str:
    """Return the shortened signature of a link to this page for this recipient, as the link writes
    it. Raises: ConfigurationError if the document has no key of this id, or a short one."""
    return _mac(document, key_id, "short link", page_id, recipient)[:_MAC_LETTERS]


def _mac(document: Mapping[str, str], key_id: str, context: str, *parts: str) -> str:
    """Return the signature, base64url without padding.

    Raises: ConfigurationError if the document has no key of this id, or a short one.
    """
    key = b""
    if _KEY_ID.fullmatch(key_id):
        key = document.get(key_id, "").encode()
    if len(key) < _SHORTEST_KEY:
        raise ConfigurationError(
            "the secret of the approval links names no current key of 32 bytes or more"
        )
    message = json.dumps([_VERSION, context, *parts], ensure_ascii=True, separators=(",", ":"))
    signature = hmac.new(key, message.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
