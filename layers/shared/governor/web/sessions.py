"""Sessions of people after their sign-in to the console or a page: a sealed cookie, and how long it
lasts.

The cookie alone opens nothing. Every page and form also reads the stored session, which can be
ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from governor.approvals.model.terms import Role, SignedIn, SignIn
from governor.approvals.rules.links import LinkSigner
from governor.core.units import UtcDatetime

SESSION_COOKIE = "__Host-governor-session"
SESSION_LASTS = timedelta(hours=8)
"""How long somebody who signed in at an issuer stays signed in: one working day."""


@dataclass(frozen=True, slots=True)
class Session:
    """A person who has signed in. `session_id` is random; forms are bound to it."""

    session_id: str
    who: SignedIn


class LiveSession(NamedTuple):
    """A person whose cookie is valid and whose stored session has not ended."""

    session_id: str
    who: SignIn


@dataclass(frozen=True, slots=True)
class Sessions:
    """Writes and reads the cookie of a session. If the `scope` (issuer, client, group) changes, all
    cookies become invalid."""

    signer: LinkSigner
    scope: tuple[str, ...]

    def cookie(self, session: Session, now: UtcDatetime, life: timedelta = SESSION_LASTS) -> str:
        """Return the value of `Set-Cookie` that gives the browser the sealed session for this time.
        It stores nothing. Raises: ConfigurationError without a key to seal with."""
        values = {
            "id": session.session_id,
            "sub": session.who.subject,
            "email": session.who.email or "",
            "role": session.who.role.value,
        }
        sealed = self.signer.seal(("session", *self.scope), values, now + life)
        return set_cookie(SESSION_COOKIE, sealed, life)

    def read(self, cookies: Mapping[str, str], now: UtcDatetime) -> Session | None:
        """Return the session in the cookie; `None` if there is no valid cookie of ours, or its time
        is over. The stored session may have ended since: it must be read, too. Raises:
        ConfigurationError if the key is unusable."""
        sealed = cookies.get(SESSION_COOKIE)
        if not sealed:
            return None
        values = self.signer.unseal(("session", *self.scope), sealed, now)
        if values is None:
            return None
        who = SignedIn(values["sub"], values["email"] or None, Role(values["role"]))
        return Session(values["id"], who)


def set_cookie(name: str, value: str, life: timedelta) -> str:
    """Return the value of `Set-Cookie` for a cookie that only this host gets, over https, out of
    reach of scripts. Nothing else is done. It is Lax and not Strict: people come from a mail, or
    back from the issuer, and must still be known."""
    return (
        f"{name}={value}; Path=/; Max-Age={int(life.total_seconds())}; Secure; "
        "HttpOnly; SameSite=Lax"
    )


def clear_cookie(name: str) -> str:
    """Return the value of `Set-Cookie` that deletes a cookie."""
    return set_cookie(name, "", timedelta(0))
