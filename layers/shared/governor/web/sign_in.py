"""Signing in: to the issuer, and back to the page that one came from, of a link or of the console.
What belongs to one sign-in is sealed in a cookie of the browser that began it."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, quote, unquote, urlencode

from governor import errors
from governor.domain.approvals.terms import SignIn, groups_of, signed_in
from governor.domain.units import UtcDatetime
from governor.ports import Clock, IdentityProvider
from governor.stores.sessions import SignIns
from governor.web.responses import Response, bad_link, redirect, refusal
from governor.web.sessions import LIFE as SESSION_LIFE
from governor.web.sessions import Session, Sessions, clear_cookie, set_cookie

SIGN_IN_COOKIE = "__Host-governor-sign-in"
LIFE = timedelta(minutes=10)
_PURPOSE = ("sign-in",)
_RANDOM_BYTES = 32
_LATEST = 2**32
"""Seconds; above it may be no time at all."""
_LONGEST_LINK = 1500
"""The cookie that holds it must fit into 4,096 bytes."""
_PATH = re.compile(r"/(?![/\\])[\w/.~%?&=+:@,-]*", re.ASCII)
"""Path of the console. It is put behind our own address, so that it leads nowhere else."""
_CODE = re.compile(r"[\x20-\x7e]{1,2048}")
_ERROR = re.compile(r"[a-z_]{1,40}")
"""The error codes of RFC 6749, 4.1.2.1, and of OpenID Connect are such; nothing else is shown."""


@dataclass(frozen=True, slots=True)
class SignInSite:
    """Answers `GET /sign-in` and `GET /sign-in/callback`. `groups_claim` and `approver_group` make
    somebody an approver: see `signed_in`. `base_url` is the API's, without a slash at the end."""

    provider: IdentityProvider
    sessions: Sessions
    groups_claim: str
    approver_group: str
    base_url: str
    clock: Clock
    sign_ins: SignIns

    @property
    def _callback(self) -> str:
        return f"{self.base_url}/sign-in/callback"

    def begin(self, query: Mapping[str, str]) -> Response:
        """Send the browser to the issuer; with `fresh` to prove anew who it is. `return` must be a
        link of ours, as the page gives it, or the path of a page of the console."""
        link = query.get("return", "")
        is_path = _PATH.fullmatch(link) is not None
        approval_id, _, fields = link.partition("?")
        approval_id = unquote(approval_id)
        now = self.clock.now()
        try:
            if not is_path:
                self.sessions.signer.check(
                    approval_id, dict(parse_qsl(fields, keep_blank_values=True)), now
                )
        except errors.LinkError as error:
            return bad_link(error)
        if len(link) > _LONGEST_LINK:
            return _refused("The link is too long to come back to after a sign-in.", 400)
        state, nonce, verifier = (secrets.token_urlsafe(_RANDOM_BYTES) for _ in range(3))
        try:
            address = self.provider.authorization_url(
                state=state,
                nonce=nonce,
                verifier=verifier,
                redirect_uri=self._callback,
                fresh=query.get("fresh") == "1",
            )
        except (errors.IssuerUnavailable, errors.ConfigurationError) as error:
            return _unavailable(error)
        place = {"path": link} if is_path else {"id": approval_id, "query": fields}
        kept = {"state": state, "nonce": nonce, "verifier": verifier, **place}
        cookie = set_cookie(
            SIGN_IN_COOKIE, self.sessions.signer.seal(_PURPOSE, kept, now + LIFE), LIFE
        )
        return redirect(address, cookies=(cookie,))

    def finish(self, query: Mapping[str, str], cookies: Mapping[str, str]) -> Response:
        now = self.clock.now()
        kept = self.sessions.signer.unseal(_PURPOSE, cookies.get(SIGN_IN_COOKIE, ""), now)
        # Compared as bytes, because compare_digest refuses text that is not ASCII.
        state = query.get("state", "").encode(errors="replace")
        if kept is None or not hmac.compare_digest(kept["state"].encode(), state):
            return _refused(
                "This sign-in was not the latest one begun in this browser, or took "
                "longer than ten minutes. "
                "Open the link of the message again."
            )
        spent = (clear_cookie(SIGN_IN_COOKIE),)
        code = query.get("code", "")
        if _CODE.fullmatch(code) is None:
            said = query.get("error", "")
            why = f" It says {said}." if _ERROR.fullmatch(said) else ""
            text = f"The issuer did not let you in.{why} Open the link of the message to try again."
            return _refused(text, cookies=spent)
        try:
            claims = self.provider.redeem(
                code=code,
                nonce=kept["nonce"],
                verifier=kept["verifier"],
                redirect_uri=self._callback,
            )
            who = signed_in(claims, self.groups_claim, self.approver_group)
        except errors.SignInRefused as error:
            text = (
                f"It was not proven who you are: {error}. Open the link of the message "
                "to try again."
            )
            return _refused(text, note=f"a sign-in was refused: {error}", cookies=spent)
        except (errors.IssuerUnavailable, errors.ConfigurationError, errors.CloudError) as error:
            return _unavailable(error, spent)
        session = Session(secrets.token_urlsafe(_RANDOM_BYTES), who)
        at, before = min(now, _proven_at(claims)), self.sessions.read(cookies, now)
        groups = groups_of(claims, self.groups_claim)
        stored = SignIn(who.identity, who.by, at, now + SESSION_LIFE, who.email, groups, who.role)
        try:
            if before is not None:
                self.sign_ins.end_session(before.session_id, now)
            self.sign_ins.keep_session(session.session_id, stored)
        except errors.CloudError as error:
            return _unavailable(error, spent)
        return redirect(self._back(kept), cookies=(self.sessions.cookie(session, now), *spent))

    def _back(self, kept: Mapping[str, str]) -> str:
        if "path" in kept:
            return f"{self.base_url}{kept['path']}"
        # Written anew from the fields that were checked: nothing that is no field gets into the
        # address.
        fields = urlencode(parse_qsl(kept["query"], keep_blank_values=True))
        return f"{self.base_url}/approvals/{quote(kept['id'], safe='')}?{fields}"


def _proven_at(claims: Mapping[str, object]) -> UtcDatetime:
    """Return when somebody last proved to the issuer who they are; long ago where it does not
    say."""
    said = claims.get("auth_time")
    return datetime.fromtimestamp(
        min(said, _LATEST) if isinstance(said, int) and said > 0 else 0, UTC
    )


def _refused(
    text: str, status: int = 403, *, note: str | None = None, cookies: tuple[str, ...] = ()
) -> Response:
    return refusal(status, "Not signed in", text, note=note, cookies=cookies)


def _unavailable(error: errors.GovernorError, cookies: tuple[str, ...] = ()) -> Response:
    # The status raises the alarm of the page's errors; the note says what to do.
    text = (
        "The sign-in does not work at this moment. Open the link of the message again in a minute."
    )
    return _refused(text, 503, note=f"a sign-in failed: {error}", cookies=cookies)
