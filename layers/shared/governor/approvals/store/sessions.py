"""Stores sessions of the console, and the codes that open one, by the hash of their secret.

The secrets themselves are never stored.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Literal

from governor.approvals.model.terms import Code, SignIn
from governor.table.table import Key, Readable, Store, absent, present, update, where

_CODES_KEPT = timedelta(days=1)
"""Long enough to tell a person that a code was used, or is too old."""


class SignIns(Store):
    """Sessions and codes. Every method may raise CloudError."""

    def keep_session(self, session_id: str, who: SignIn) -> None:
        """Store a new session until it ends. Raises: ConflictError if the id is in use;
        CloudError."""
        # An update, because functions that face the internet may neither put nor delete. The same
        # holds for codes.
        self._table.write(update(_key("SESSION", session_id), who, absent(), until=who.ends_at))

    def session(self, session_id: str, now: datetime) -> SignIn | None:
        """Return the sign-in of the session; `None` if it is not known, cannot be read, or has
        ended. Raises: CloudError."""
        session = Readable(self._table).read(SignIn, _key("SESSION", session_id))
        if session is None or now >= session.ends_at:
            return None
        return session

    def end_session(self, session_id: str, now: datetime) -> None:
        """End a session now. Without such a session nothing happens. Raises: CloudError."""
        self._table.try_write(update(_key("SESSION", session_id), {"ends_at": now}, present()))

    def keep_code(self, secret: str, code: Code) -> None:
        """Store a new code, by the hash of its `secret`. Raises: ConflictError if its secret is in
        use; CloudError."""
        until = code.ends_at + _CODES_KEPT
        self._table.write(update(_key("CODE", secret), code, absent(), until=until))

    def code(self, secret: str) -> Code | None:
        """Return the code with this secret, also one that was used or has ended; `None` if it is
        not known, or cannot be read. Raises: CloudError."""
        return Readable(self._table).read(Code, _key("CODE", secret))

    def use_code(self, secret: str, now: datetime) -> bool:
        """Use up a code, and return true. Return false, with nothing changed, if it was used
        before, or is not known. Raises: CloudError."""
        is_unused = where("used_at", "=", None)
        return self._table.try_write(update(_key("CODE", secret), {"used_at": now}, is_unused))


def _key(kind: Literal["SESSION", "CODE"], secret: str) -> Key:
    """Return the key of a session or a code, by the hash of its secret."""
    # Both are 256 random bits. Nobody finds one by trying, so a plain hash hides them well enough.
    secret_hash = hashlib.sha256(secret.encode(errors="replace")).hexdigest()
    return f"{kind}#{secret_hash}", kind
