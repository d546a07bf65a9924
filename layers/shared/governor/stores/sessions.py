"""Sessions of the console, and the codes that open one. Each is found by the hash of its secret alone."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from governor.domain.approvals.scope import Code, SignIn
from governor.stores.table import Document, Key, Store, Write, absent, present, update, where

_CODES_KEPT = timedelta(days=1)
"""Long enough to say of a code that it was used, or is too old."""


class SignIns(Store):
    def keep_session(self, session_id: str, who: SignIn) -> None:
        self._table.write(_new(_session(session_id), self._table.document(who), who.ends_at))

    def session(self, session_id: str, now: datetime) -> SignIn | None:
        """Return a session that was neither ended nor is over."""
        found = self._table.read(SignIn, _session(session_id))
        return found if found is not None and now < found.ends_at else None

    def end_session(self, session_id: str, now: datetime) -> None:
        self._table.holds(update(_session(session_id), {"ends_at": now}, present()))

    def keep_code(self, secret: str, code: Code) -> None:
        self._table.write(_new(_code(secret), self._table.document(code), code.ends_at + _CODES_KEPT))

    def code(self, secret: str) -> Code | None:
        return self._table.read(Code, _code(secret))

    def use_code(self, secret: str, now: datetime) -> bool:
        """Return whether this call was the first to use it."""
        return self._table.holds(update(_code(secret), {"used_at": now}, where("used_at", "=", None)))


def _new(key: Key, document: Document, until: datetime) -> Write:
    # An update, because what faces the internet may neither put nor delete.
    return update(key, document, absent(), until=until)


def _session(session_id: str) -> Key:
    return f"SESSION#{_hash(session_id)}", "SESSION"


def _code(secret: str) -> Key:
    return f"CODE#{_hash(secret)}", "CODE"


def _hash(secret: str) -> str:
    # Both are 256 random bits: nobody finds one by trying, so a plain hash hides them well enough.
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
