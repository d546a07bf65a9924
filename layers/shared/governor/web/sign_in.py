"""Sign-in at the OIDC issuer, and the way back to the page that the person came from.

The data of a sign-in is sealed in a cookie of the browser that began it. The person never comes
back to a page of another site.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, quote, unquote, urlencode

from governor.approvals.model.terms import SignedIn, SignIn
from governor.approvals.rules.terms import groups_of, signed_in
from governor.approvals.store.sessions import SignIns
from governor.core import errors
from governor.core.ports import Clock
from governor.core.units import UtcDatetime
from governor.web.ports import IdentityProvider
from governor.web.responses import Response, bad_link, redirect, refusal
from governor.web.sessions import SESSION_LASTS, Session, Sessions, clear_cookie, set_cookie

SIGN_IN_COOKIE = "__Host-governor-sign-in"
SIGN_IN_MAY_TAKE = timedelta(minutes=10)
"""From the redirect to the issuer until the person is back."""
_PURPOSE = ("sign-in",)
_RANDOM_BYTES = 32
_LATEST_SECOND = 2**32
"""The latest time, in seconds since 1970. A later value may not fit into a date."""
_LONGEST_LINK = 1500
"""The longest link to come back to, in characters. The cookie that holds it must fit into 4,096
bytes."""
_PATH = re.compile(r"/(?![/\\])[\w/.~%?&=+:@,-]*", re.ASCII)
"""A path of the console. It is put after our own address, so that it leads nowhere else."""
_CODE = re.compile(r"[\x20-\x7e]{1,2048}")
_ERROR = re.compile(r"[a-z_]{1,40}")
"""An error code of RFC 6749, 4.1.2.1, or of OpenID Connect. No other text of the issuer is
shown."""


@dataclass(frozen=True, slots=True)
class SignInSite:
    """Answers `GET /sign-in` and `GET /sign-in/callback`. `groups_claim` and `approver_group`
    decide who is an approver: see `signed_in`. `base_url` is the API's address, without a slash at
    the end."""

    provider: IdentityProvider
    sessions: Sessions
    groups_claim: str
    approver_group: str
    base_url: str
    clock: Clock
    sign_in_store: SignIns

    @property
    def _callback(self) -> str:
        """Return the address to which the issuer sends the browser back."""
        return f"{self.base_url}/sign-in/callback"

    def begin(self, query: Mapping[str, str]) -> Response:
        """Return the redirect of the browser to the issuer, with a cookie that seals the sign-in;
        with `fresh=1`, the person must prove again who they are. If the issuer fails, return a page
        that says what to do. Raises: ConfigurationError if our key cannot be used.

        `return` in the query is the place to come back to: a link of ours, as the page gives it, or
        the path of a console page. Without a valid `return`, answer with the bad-link page.
        """
        link = query.get("return", "")
        now = self.clock.now()
        try:
            place = self._place_of(link, now)
        except errors.LinkError as error:
            return bad_link(error)
        if len(link) > _LONGEST_LINK:
            # The cookie must hold the link.
            return _refused("The link is too long to come back to after a sign-in.", 400)
        state = secrets.token_urlsafe(_RANDOM_BYTES)
        nonce = secrets.token_urlsafe(_RANDOM_BYTES)
        verifier = secrets.token_urlsafe(_RANDOM_BYTES)
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
        begun = {"state": state, "nonce": nonce, "verifier": verifier, **place}
        sealed = self.sessions.signer.seal(_PURPOSE, begun, now + SIGN_IN_MAY_TAKE)
        return redirect(address, cookies=(set_cookie(SIGN_IN_COOKIE, sealed, SIGN_IN_MAY_TAKE),))

    def _place_of(self, link: str, now: UtcDatetime) -> Mapping[str, str]:
        """Check the place to come back to; return it as `_back` reads it: `path` for a page of the
        console, `id` and `query` for a link of an earlier release. Raises: LinkForged for anything
        but our own, an empty text too; LinkExpired if the time of the link is over;
        ConfigurationError if our key cannot be used."""
        if _PATH.fullmatch(link) is not None:
            return {"path": link}
        path, _, fields = link.partition("?")
        approval_id = unquote(path)
        self.sessions.signer.check(
            approval_id, dict(parse_qsl(fields, keep_blank_values=True)), now
        )
        return {"id": approval_id, "query": fields}

    def finish(self, query: Mapping[str, str], cookies: Mapping[str, str]) -> Response:
        """Exchange the issuer's code for who the person is, store a session, and end the browser's
        session before it. Return the redirect to the place that the person came from, with the
        session's cookie.

        Return a page that says what to do if this browser began no such sign-in within ten minutes,
        the issuer gave no code or is not available, it was not proven who the person is, or the
        table failed; none of these is raised. Raises: ConfigurationError if our key cannot be used.
        """
        now = self.clock.now()
        begun = self.sessions.signer.unseal(_PURPOSE, cookies.get(SIGN_IN_COOKIE, ""), now)
        # Compared as bytes, because compare_digest refuses text that is not ASCII.
        state = query.get("state", "").encode(errors="replace")
        if begun is None or not hmac.compare_digest(begun["state"].encode(), state):
            return _refused(
                "This sign-in was not the latest one begun in this browser, or took "
                "longer than ten minutes. Open the link in the message again."
            )
        spent = (clear_cookie(SIGN_IN_COOKIE),)
        code = query.get("code", "")
        if _CODE.fullmatch(code) is None:
            return _refused_by_issuer(query.get("error", ""), spent)
        try:
            claims = self.provider.redeem(
                code=code,
                nonce=begun["nonce"],
                verifier=begun["verifier"],
                redirect_uri=self._callback,
            )
            who = signed_in(claims, self.groups_claim, self.approver_group)
        except errors.SignInRefused as error:
            text = (
                f"Your identity could not be verified: {error}. Open the link of the message "
                "to try again."
            )
            return _refused(text, note=f"a sign-in was refused: {error}", cookies=spent)
        except (errors.IssuerUnavailable, errors.ConfigurationError, errors.CloudError) as error:
            return _unavailable(error, spent)
        session = Session(secrets.token_urlsafe(_RANDOM_BYTES), who)
        stored = self._stored_session(who, claims, now)
        earlier_session = self.sessions.read(cookies, now)
        try:
            if earlier_session is not None:
                self.sign_in_store.end_session(earlier_session.session_id, now)
            self.sign_in_store.keep_session(session.session_id, stored)
        except (errors.CloudError, errors.ConflictError) as error:
            # A conflict is a repeat that met its own write: its session id is random.
            return _unavailable(error, spent)
        return redirect(self._back(begun), cookies=(self.sessions.cookie(session, now), *spent))

    def _stored_session(
        self, who: SignedIn, claims: Mapping[str, object], now: UtcDatetime
    ) -> SignIn:
        """Return the session of a person with these claims, as it will be stored; nothing is stored
        yet. Its time is when the person last proved to the issuer who they are."""
        return SignIn(
            identity=who.identity,
            by=who.by,
            # The issuer's clock may be ahead of ours.
            at=min(now, _proven_at(claims)),
            ends_at=now + SESSION_LASTS,
            email=who.email,
            groups=groups_of(claims, self.groups_claim),
            role=who.role,
        )

    def _back(self, begun: Mapping[str, str]) -> str:
        """Return the address of the page that the person came from. `begun` was checked when the
        sign-in began, and sealed since: its path leads to no other host."""
        if "path" in begun:
            return f"{self.base_url}{begun['path']}"
        # Built from the checked fields, so that nothing else gets into the address.
        fields = urlencode(parse_qsl(begun["query"], keep_blank_values=True))
        return f"{self.base_url}/approvals/{quote(begun['id'], safe='')}?{fields}"


def _proven_at(claims: Mapping[str, object]) -> UtcDatetime:
    """Return when the person last proved to the issuer who they are (the claim `auth_time`); 1970
    if the issuer does not say."""
    auth_time = claims.get("auth_time")
    if not isinstance(auth_time, int) or auth_time <= 0:
        return datetime.fromtimestamp(0, UTC)
    return datetime.fromtimestamp(min(auth_time, _LATEST_SECOND), UTC)


def _refused_by_issuer(error_code: str, spent: tuple[str, ...]) -> Response:
    """Return the page for a sign-in that the issuer refused, with its error code if that has the
    form of one. `spent` are the cookies to clear."""
    why = f" It says {error_code}." if _ERROR.fullmatch(error_code) else ""
    text = f"The issuer did not let you in.{why} Open the link in the message to try again."
    return _refused(text, cookies=spent)


def _refused(
    text: str, status: int = 403, *, note: str | None = None, cookies: tuple[str, ...] = ()
) -> Response:
    """Return the page for a sign-in that failed, with this text. `note` is for the log, `None` for
    none; `cookies` are whole values of `Set-Cookie`."""
    return refusal(status, "Not signed in", text, note=note, cookies=cookies)


def _unavailable(error: errors.GovernorError, cookies: tuple[str, ...] = ()) -> Response:
    """Return the page (503) for a sign-in that cannot work now, because the issuer, the settings or
    the table do not let it. The `error` goes to the log alone; `cookies` are whole values of
    `Set-Cookie`."""
    # The status raises the alarm for errors of the page; the note in the log says what to do.
    text = "The sign-in does not work right now. Open the link in the message again in a minute."
    return _refused(text, 503, note=f"a sign-in failed: {error}", cookies=cookies)
