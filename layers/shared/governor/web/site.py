"""The approval site: a request in, a response out. GET and HEAD change nothing; POST decides, once.

Pure of AWS: the handler parses API Gateway's event into a `Request` and serialises the `Response`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

from governor.domain.alerts.delivery import DIGEST_PREFIX
from governor.domain.approvals.approval import Answer, Decision
from governor.domain.approvals.identity import Role, check_role, person_of
from governor.domain.approvals.terms import BROADCAST, may_undo
from governor.domain.policy.contacts import Ownership
from governor.domain.units import UtcDatetime, parse_iso
from governor.errors import (
    CloudError,
    DecisionRefused,
    InputError,
    LinkExpired,
    LinkForged,
    NotAllowed,
    NotFound,
)
from governor.ports import Clock, LinkSigner, Undoer
from governor.usecases.approvals.decide import Decide
from governor.usecases.approvals.show_approval import ShowApproval
from governor.usecases.approvals.show_digest import ShowDigest
from governor.web import pages
from governor.web.pages import Visitor
from governor.web.responses import Response, headers, redirect, refusal
from governor.web.sessions import SESSION_COOKIE, Sessions, clear_cookie

_LONGEST_REASON = 300
_SIGN_IN_FIRST = "Sign in first: nothing was decided."
_UNDO = "undo"
"""Not an answer to the question: the record's own button."""
_SIGN_OUT = "sign-out"
"""Nor is this: it ends the session in this browser."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Header names are in lower case; `query`, `form` and `cookies` hold every name once."""

    method: str
    approval_id: str
    query: Mapping[str, str]
    form: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Gate:
    """A sign-in in front of decisions. `directory` is read only for somebody who is signed in."""

    sessions: Sessions
    directory: Callable[[], Ownership]


@dataclass(frozen=True, slots=True)
class ApprovalSite:
    """Answers requests for one page. Without a gate the link alone says who it is."""

    show: ShowApproval
    show_digest: ShowDigest
    decide: Decide
    undoer: Undoer
    signer: LinkSigner
    clock: Clock
    gate: Gate | None = None

    def handle(self, request: Request) -> Response:
        """Never raises for what a client can send; each refusal has its own page and status."""
        if request.method not in ("GET", "HEAD", "POST"):
            return refusal(405, "Method not allowed", "This page knows GET, HEAD and POST.")
        try:
            recipient = self.signer.check(request.approval_id, request.query, self.clock.now())
        except LinkForged:
            text = "It was not made by this governor, or was altered on its way. Use the link of the message."
            return refusal(403, "This link is not valid", text)
        except LinkExpired:
            text = "The time to decide is over."
            return refusal(410, "This link has expired", text)
        visitor = self._visitor(request, recipient)
        is_digest = request.approval_id.startswith(DIGEST_PREFIX)
        page = self._digest_page if is_digest else self._page
        try:
            if request.method != "POST":
                return page(request, visitor, 200)
            if visitor.sign_in is not None:
                return page(request, visitor, 403, problem=_SIGN_IN_FIRST)
            return self._refused_form(request, visitor) or (
                self._decide_several(request, visitor) if is_digest else self._decide_one(request, visitor)
            )
        except NotFound:
            return refusal(404, "Not found", "This question does not exist (any more).")

    def _visitor(self, request: Request, recipient: str) -> Visitor:
        """Return the person of the session where a gate stands, else the recipient of the link."""
        if self.gate is None:
            person = None if recipient == BROADCAST else recipient
            return Visitor(recipient, by=f"link:{recipient}", person=person)
        session = self.gate.sessions.read(request.cookies, self.clock.now())
        if session is None:
            return Visitor(recipient, by="nobody", person=None, sign_in=_sign_in_address(request))
        who = session.who
        known_as = person_of(self.gate.directory(), who)
        return Visitor(recipient, by=who.by, person=known_as, role=who.role, session_id=session.session_id)

    def _decide_several(self, request: Request, visitor: Visitor) -> Response:
        """Answer all questions of a digest that are ticked, each by itself."""
        if request.form.get("answer") == _SIGN_OUT:
            return _signed_out(request)
        views = {view.approval.approval_id: view for view in self.show_digest(request.approval_id)}
        picked = [approval_id for approval_id in views if request.form.get(f"pick-{approval_id}") == "yes"]
        if not picked:
            return self._digest_page(request, visitor, 400, problem="Tick at least one of them.")
        try:
            zone = next(iter(views.values())).episode.time_zone
            decision = _decision(request.form, visitor, self.clock.now(), zone)
            check_role(visitor.role, decision.answer, "PENDING")
        except InputError as error:
            return self._digest_page(request, visitor, 400, problem=str(error))
        except NotAllowed as error:
            return self._digest_page(request, visitor, 403, problem=str(error))
        accepted = request.form.get("losses") == "accepted"
        results = []
        for approval_id in picked:
            name = views[approval_id].episode.instance.name
            try:
                decided = self.decide(approval_id, decision, losses_accepted=accepted)
            except DecisionRefused as error:
                results.append((name, f"not recorded: {error}"))
                continue
            text = "noted; a second person must approve, too" if decided.needs_another else "recorded"
            results.append((name, text))
        return self._digest_page(request, visitor, 200, results=results)

    def _digest_page(
        self,
        request: Request,
        visitor: Visitor,
        status: int,
        *,
        problem: str | None = None,
        results: Sequence[tuple[str, str]] = (),
    ) -> Response:
        views = self.show_digest(request.approval_id)
        expires_at = datetime.fromtimestamp(int(request.query["e"]), tz=UTC)
        body = pages.digest_page(
            views,
            links=[
                self.signer.relative(v.approval.approval_id, visitor.recipient, expires_at) for v in views
            ],
            visitor=visitor,
            csrf=self._csrf(request, visitor, expires_at),
            action=_address(request),
            problem=problem,
            results=results,
        )
        return Response(status, "" if request.method == "HEAD" else body, headers())

    def _csrf(self, request: Request, visitor: Visitor, expires_at: UtcDatetime) -> str:
        return self.signer.csrf(request.approval_id, visitor.recipient, expires_at, visitor.session_id)

    def _refused_form(self, request: Request, visitor: Visitor) -> Response | None:
        """The refusal of a form that is not our page's, or `None`."""
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return refusal(403, "Refused", "The request came from another site.")
        try:
            token = request.form.get("csrf", "")
            self.signer.check_csrf(request.approval_id, request.query, token, visitor.session_id)
        except LinkForged:
            return refusal(403, "Refused", "The form is not the one of this page. Open the link again.")
        return None

    def _decide_one(self, request: Request, visitor: Visitor) -> Response:
        if request.form.get("answer") == _SIGN_OUT:
            return _signed_out(request)
        if request.form.get("answer") == _UNDO:
            return self._undo(request, visitor)
        try:
            zone = self.show(request.approval_id).episode.time_zone
            decision = _decision(request.form, visitor, self.clock.now(), zone)
        except InputError as error:
            return self._page(request, visitor, 400, problem=str(error))
        try:
            check_role(visitor.role, decision.answer, "PENDING")
            decided = self.decide(
                request.approval_id,
                decision,
                typed_instance_id=request.form.get("typed_instance_id"),
                losses_accepted=request.form.get("losses") == "accepted",
            )
        except NotAllowed as error:
            return self._page(request, visitor, 403, problem=str(error))
        except DecisionRefused as error:
            status = 400 if error.status == "PENDING" else 409
            return self._page(request, visitor, status, problem=str(error))
        # Redirected, so that a refresh of the result is a GET.
        note = None if decided.delivered else "decided; the workflow does not have it yet"
        return redirect(_address(request), note=note)

    def _undo(self, request: Request, visitor: Visitor) -> Response:
        view = self.show(request.approval_id)
        if visitor.role is not Role.APPROVER:
            text = "You are signed in, but not in the group that may start an instance."
            return self._page(request, visitor, 403, problem=text)
        if not may_undo(view.episode.terms, visitor.person):
            text = "This link went to a list, and the policy lets nobody start an instance by it."
            return self._page(request, visitor, 403, problem=text)
        try:
            answer = self.undoer.undo(view.episode.ref, visitor.by, "page")
        except CloudError as error:
            text = (
                "Whether it was started is not certain. Open this page again in a minute, and press once "
                "more if not."
            )
            return self._page(request, visitor, 503, problem=text, note=f"an undo failed: {error}")
        if not answer.done:
            return self._page(request, visitor, 409, problem=f"Not started: {answer.text}.")
        return redirect(_address(request))

    def _page(
        self,
        request: Request,
        visitor: Visitor,
        status: int,
        *,
        problem: str | None = None,
        note: str | None = None,
    ) -> Response:
        view = self.show(request.approval_id)
        expires_at = datetime.fromtimestamp(int(request.query["e"]), tz=UTC)
        body = pages.approval_page(
            view,
            visitor=visitor,
            csrf=self._csrf(request, visitor, expires_at),
            action=_address(request),
            problem=problem,
        )
        return Response(status, "" if request.method == "HEAD" else body, headers(), note)


def _decision(form: Mapping[str, str], visitor: Visitor, now: UtcDatetime, zone: str) -> Decision:
    """Raises InputError with what to do."""
    try:
        answer = Answer(form.get("answer", ""))
    except ValueError:
        raise InputError("Choose one of the buttons: stop or terminate, keep, exempt.") from None
    reason = form.get("reason", "").strip()
    if len(reason) > _LONGEST_REASON:
        raise InputError(f"The reason is longer than {_LONGEST_REASON} characters.")
    return Decision(
        answer=answer,
        by=visitor.by,
        person=visitor.person,
        channel="page",
        at=now,
        keep_until=_keep_until(form, zone) if answer is Answer.KEEP else None,
        reason=reason or None,
    )


def _keep_until(form: Mapping[str, str], zone: str) -> UtcDatetime:
    """The date of one's own choice, at nine of that time zone, goes before the offered ones."""
    date, offered = form.get("keep_date", ""), form.get("keep_until", "")
    try:
        if date:
            day = datetime.strptime(date, "%Y-%m-%d").replace(tzinfo=UTC).date()
            return datetime.combine(day, time(9), tzinfo=ZoneInfo(zone)).astimezone(UTC)
        return parse_iso(offered)
    except (ValueError, OverflowError):  # the first and the last day of the calendar have no UTC elsewhere
        raise InputError("Say until when it shall be kept: a date like 2026-12-01.") from None


def _signed_out(request: Request) -> Response:
    return redirect(_address(request), cookies=(clear_cookie(SESSION_COOKIE),))


def _sign_in_address(request: Request) -> str:
    """Relative to the page, with the link to come back to."""
    return f"../sign-in?{urlencode({'return': _address(request)})}"


def _address(request: Request) -> str:
    """The link itself, relative: the page never leaves the address it was opened by."""
    return f"{quote(request.approval_id, safe='')}?{urlencode(dict(request.query))}"
