"""Sessions: who asks, and whether a form is theirs. They are stored, so that they can be ended
here."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from governor.console import formats
from governor.console.page import Caller
from governor.domain.approvals.terms import Role, SignedIn, contacts_of, grants_of, person_of
from governor.domain.policy.policy import Policy
from governor.domain.units import UtcDatetime
from governor.errors import LinkForged, NotAllowed
from governor.usecases.approvals.open_console import SESSION, OpenConsole
from governor.web.responses import Response, redirect
from governor.web.sessions import SESSION_COOKIE, Known, Session, Sessions, clear_cookie, set_cookie

_CODE_COOKIE = "__Host-governor-code"
"""Cookie of the browser that was shown whose session a code opens. No form of another site sends it
along."""


@dataclass(frozen=True, slots=True)
class Doors:
    """Lets people in and out. `enter` refuses all codes where an issuer is."""

    cookies: Sessions
    enter: OpenConsole

    @property
    def has_issuer(self) -> bool:
        return bool(self.enter.issuer)

    def known(self, cookies: Mapping[str, str], now: UtcDatetime) -> Known | None:
        session = self.cookies.read(cookies, now)
        if session is None:
            return None
        stored = self.enter.state.session(session.session_id, now)
        if stored is None:
            return None
        return Known(session.session_id, stored)

    def leave(self, session_id: str, now: UtcDatetime) -> Response:
        self.enter.state.end_session(session_id, now)
        page = formats.html(200, "refused.html", title="Signed out", text="This session has ended.")
        return replace(page, cookies=(clear_cookie(SESSION_COOKIE),))

    def take_code(
        self, form: Mapping[str, str], cookies: Mapping[str, str], now: UtcDatetime
    ) -> Response:
        """Name whose session it will be, so that nobody enters as somebody else unseen; then begin
        it."""
        secret = form.get("code", "")
        named = hashlib.sha256(secret.encode(errors="replace")).hexdigest()
        try:
            if form.get("answer") != "open" or cookies.get(_CODE_COOKIE) != named:
                arn = self.enter.caller(secret)
                page = formats.html(
                    200, "enter.html", title="Open the console", code=secret, arn=arn
                )
                return replace(
                    page, cookies=(set_cookie(_CODE_COOKIE, named, timedelta(minutes=1)),)
                )
            session_id, who = self.enter.enter(secret)
        except NotAllowed as error:
            text = f"{error} Run `governor open` again."
            return formats.html(403, "refused.html", title="This code opens nothing", text=text)
        if (before := self.cookies.read(cookies, now)) is not None:
            self.enter.state.end_session(before.session_id, now)
        session = Session(session_id, SignedIn(who.identity, None, Role.VIEWER))
        return redirect("/", cookies=(self.cookies.cookie(session, now, SESSION),))

    def token(self, page: str, caller: Caller) -> str:
        """Return what a form to this page must send back: of this session, and of no other page."""
        return self.cookies.signer.csrf(*_form(page, caller))

    def check(self, page: str, caller: Caller, token: str) -> None:
        """Raises: NotAllowed."""
        try:
            self.cookies.signer.check_csrf(token, *_form(page, caller))
        except LinkForged:
            raise NotAllowed(
                "The form is not one of this page and session. Open the page again."
            ) from None


def _form(page: str, caller: Caller) -> tuple[str, ...]:
    return f"console:{page}", caller.by, str(int(caller.ends_at.timestamp())), caller.session_id


def caller_of(policy: Policy, known: Known) -> Caller:
    """Return what the policy makes of a session now: a group or a contact that goes, goes at
    once."""
    who, people = known.who, policy.ownership
    zones = [one.time_zone for one in contacts_of(people, who).values()]
    return Caller(
        by=who.by,
        person=person_of(people, who.identity, who.email),
        grants=grants_of(policy, who),
        signed_in_at=who.at,
        session_id=known.session_id,
        ends_at=who.ends_at,
        zone=next(iter(zones), "UTC"),
    )
