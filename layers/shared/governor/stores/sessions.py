"""Sessions of the console, and the codes that open one, by the hash of the secret."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Literal

from governor.domain.approvals.terms import Code, SignIn
from governor.stores.table import Key, Readable, Store, absent, present, update, where

_CODES_KEPT = timedelta(days=1)
"""Long enough to say of a code that it was used, or is too old."""


class SignIns(Store):
    def keep_session(self, session_id: str, who: SignIn) -> None:
        # An update, because what faces the internet may neither put nor delete; so for codes.
        self._table.write(update(_key("SESSION", session_id), who, absent(), until=who.ends_at))

    def session(self, session_id: str, now: datetime) -> SignIn | None:
        """Return a session that was neither ended nor is over."""
        found = Readable(self._table).read(SignIn, _key("SESSION", session_id))
        return found if found is not None and now < found.ends_at else None

    def end_session(self, session_id: str, now: datetime) -> None:
        self._table.holds(update(_key("SESSION", session_id), {"ends_at": now}, present()))

    def keep_code(self, secret: str, code: Code) -> None:
        self._table.write(
            update(_key("CODE", secret), code, absent(), until=code.ends_at + _CODES_KEPT)
        )

    def code(self, secret: str) -> Code | None:
        return Readable(self._table).read(Code, _key("CODE", secret))

    def use_code(self, secret: str, now: datetime) -> bool:
        return self._table.holds(
            update(_key("CODE", secret), {"used_at": now}, where("used_at", "=", None))
        )


def _key(kind: Literal["SESSION", "CODE"], secret: str) -> Key:
    # Both are 256 random bits: nobody finds one by trying, so a plain hash hides them well enough.
    return f"{kind}#{hashlib.sha256(secret.encode(errors='replace')).hexdigest()}", kind
