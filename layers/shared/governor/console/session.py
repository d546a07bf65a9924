"""Checks the sessions of the console: who the caller is, and whether a form belongs to their
session.

Sessions are stored, so that they can be ended here. `rules/terms.py` of the approvals decides what
a caller may see.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from governor.approvals.model.terms import Role, SignedIn
from governor.approvals.open_console import CODE_SESSION_LASTS, OpenConsole
from governor.approvals.rules.terms import contacts_of, grants_of, person_of
from governor.console import formats
from governor.console.page import Caller
from governor.core.errors import LinkForged, NotAllowed
from governor.core.units import UtcDatetime
from governor.policy.model.policy import Policy
from governor.web.responses import Response, redirect
from governor.web.sessions import (
    SESSION_COOKIE,
    LiveSession,
    Session,
    Sessions,
    clear_cookie,
    set_cookie,
)

_CODE_COOKIE = "__Host-governor-code"
"""Cookie with the hash of a code. It is set when the browser is shown whose session the code opens.
A form on another site does not send it."""


@dataclass(frozen=True, slots=True)
class ConsoleSessions:
    """Signs people in by a code of `governor open`, knows them by their cookie, and signs them out.
    `console` refuses all codes if people sign in with an issuer."""

    sessions: Sessions
    console: OpenConsole

    @property
    def has_issuer(self) -> bool:
        """Return whether people sign in with an OpenID Connect issuer, and not by codes."""
        return bool(self.console.issuer)

    def known(self, cookies: Mapping[str, str], now: UtcDatetime) -> LiveSession | None:
        """Return the session that the cookie names, as it is stored; `None` if there is no valid
        cookie, or the session has ended. Raises: ConfigurationError if our key cannot be used;
        CloudError."""
        session = self.sessions.read(cookies, now)
        if session is None:
            return None
        stored = self.console.sign_in_store.session(session.session_id, now)
        if stored is None:
            return None
        return LiveSession(session.session_id, stored)

    def leave(self, session_id: str, now: UtcDatetime) -> Response:
        """End the stored session; return the page that says so and clears the cookie. Raises:
        CloudError."""
        self.console.sign_in_store.end_session(session_id, now)
        page = formats.html(
            200,
            "refused.html",
            title="Signed out",
            text="This session has ended.",
            signed_out=True,
        )
        return replace(page, cookies=(clear_cookie(SESSION_COOKIE),))

    def take_code(
        self, form: Mapping[str, str], cookies: Mapping[str, str], now: UtcDatetime
    ) -> Response:
        """Return the page that says whose session the code opens, so that nobody enters as somebody
        else unaware. If the form confirms that page, begin the session instead, and end the
        browser's session before it. A code that opens nothing is answered with 403. Raises:
        ConfigurationError if our key cannot be used; ConflictError if the session seems to be
        stored already; CloudError."""
        secret = form.get("code", "")
        secret_hash = hashlib.sha256(secret.encode(errors="replace")).hexdigest()
        was_shown = cookies.get(_CODE_COOKIE) == secret_hash
        is_confirmed = form.get("answer") == "open" and was_shown
        try:
            if not is_confirmed:
                return self._show_owner(secret, secret_hash)
            session_id, who = self.console.open_session(secret)
        except NotAllowed as error:
            text = f"{error} Run `governor open` again."
            return formats.html(403, "refused.html", title="This code opens nothing", text=text)
        earlier_session = self.sessions.read(cookies, now)
        if earlier_session is not None:
            self.console.sign_in_store.end_session(earlier_session.session_id, now)
        session = Session(session_id, SignedIn(who.identity, email=None, role=Role.VIEWER))
        return redirect("/", cookies=(self.sessions.cookie(session, now, CODE_SESSION_LASTS),))

    def _show_owner(self, secret: str, secret_hash: str) -> Response:
        """Return the page that says whose session a code opens, with a cookie by which the browser
        proves for a minute that it was shown. Raises: NotAllowed if the code opens nothing;
        CloudError."""
        arn = self.console.caller(secret)
        page = formats.html(200, "enter.html", title="Open the console", code=secret, arn=arn)
        cookie = set_cookie(_CODE_COOKIE, secret_hash, timedelta(minutes=1))
        return replace(page, cookies=(cookie,))

    def token(self, page: str, caller: Caller) -> str:
        """Return the token that a form of this page (its path) must send back. It is valid for this
        page and the caller's session only. Raises: ConfigurationError without a key to sign
        with."""
        return self.sessions.signer.csrf(*_form_binding(page, caller))

    def check_form(self, page: str, caller: Caller, token: str) -> None:
        """Require that a form's token is the one of this page (its path) and of the caller's
        session. Raises: NotAllowed if it is not; ConfigurationError if our key cannot be used."""
        try:
            self.sessions.signer.check_csrf(token, *_form_binding(page, caller))
        except LinkForged:
            raise NotAllowed(
                "The form is not one of this page and session. Open the page again."
            ) from None


def _form_binding(page: str, caller: Caller) -> tuple[str, ...]:
    """Return what the token of a form is bound to: the page (its path), the person, and the end and
    id of their session."""
    ends_at = str(int(caller.ends_at.timestamp()))
    return f"console:{page}", caller.by, ends_at, caller.session_id


def caller_of(policy: Policy, known: LiveSession) -> Caller:
    """Return the person of a session, with the permissions that the policy grants them now. A
    group or contact that the policy has dropped no longer counts; without any, `grants` is
    empty."""
    who = known.who
    contacts = contacts_of(policy.ownership, who)
    time_zones = [contact.time_zone for contact in contacts.values()]
    return Caller(
        by=who.by,
        person=person_of(policy.ownership, who.identity, who.email),
        grants=grants_of(policy, who),
        signed_in_at=who.at,
        session_id=known.session_id,
        ends_at=who.ends_at,
        zone=next(iter(time_zones), "UTC"),
    )
