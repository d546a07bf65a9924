"""The approval site: a request in, a response out. GET and HEAD change nothing; POST decides,
once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from governor import errors
from governor.domain.alerts.alert import DIGEST_PREFIX
from governor.domain.approvals.approval import Answer, Decision
from governor.domain.approvals.links import EVERYBODY, LinkSigner
from governor.domain.approvals.messages import refused_text
from governor.domain.approvals.terms import BROADCAST, Role, check_role, person_of
from governor.domain.policy.contacts import Ownership
from governor.domain.units import UtcDatetime
from governor.ports import Undoer
from governor.usecases.approvals.decide import Decide
from governor.usecases.approvals.show_approval import ApprovalView, ShowApproval
from governor.web import pages
from governor.web.answers import END_KEEP, UNDO, keep_until, posted, start_again, status_of
from governor.web.pages import Visitor
from governor.web.responses import HEADERS, Response, bad_link, redirect, refusal
from governor.web.sessions import SESSION_COOKIE, Known, Sessions, clear_cookie

if TYPE_CHECKING:
    from governor.stores.sessions import SignIns

_GONE = (
    "This question does not exist any more. Ask the owner of the instance, or the "
    "administrators of GPU "
    "Governor: the audit keeps what became of it."
)
_SIGN_OUT = "sign-out"
"""Not an answer to the question: it ends the session, and every copy of its cookie with it."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Header names are in lower case; `query`, `form` and `cookies` hold every name
    once. `link` is all that a link of today has; those of earlier releases have an id, and the rest
    in the query."""

    method: str
    approval_id: str
    query: Mapping[str, str]
    form: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)
    link: str = ""

    @property
    def is_digest(self) -> bool:
        return self.approval_id.startswith(DIGEST_PREFIX)

    @property
    def address(self) -> str:
        """The link itself, relative: the page never leaves the address it was opened by."""
        return self.link or f"{quote(self.approval_id, safe='')}?{urlencode(dict(self.query))}"


@dataclass(frozen=True, slots=True)
class Gate:
    """A sign-in in front of decisions. `directory` is read only for somebody who is signed in."""

    sessions: Sessions
    directory: Callable[[], Ownership]
    sign_ins: SignIns
    """The stored sessions: a cookie counts only while its session has not ended there."""

    def known(self, cookies: Mapping[str, str], now: UtcDatetime) -> Known | None:
        """Return who has signed in in this browser; `None` where nobody has, or the session has
        ended."""
        session = self.sessions.read(cookies, now)
        if session is None:
            return None
        stored = self.sign_ins.session(session.session_id, now)
        if stored is None:
            return None
        return Known(session.session_id, stored)


@dataclass(frozen=True, slots=True)
class ApprovalSite:
    """Answers requests for one page. Without a gate the link alone says who it is."""

    show: ShowApproval
    decide: Decide
    undoer: Undoer
    signer: LinkSigner
    gate: Gate | None = None
    environment: str = ""
    """`prod` of the stack `gpu-governor-prod`."""

    def handle(self, request: Request) -> Response:
        """Never raises for what a client can send; each refusal has its own page and status."""
        if request.method not in ("GET", "HEAD", "POST"):
            return refusal(405, "Method not allowed", "This page knows GET, HEAD and POST.")
        try:
            request = self._opened(request)
        except errors.LinkError as error:
            return bad_link(error)
        recipient = request.query["r"]
        visitor = self._visitor(request, recipient)
        try:
            if request.method == "POST":
                return self._answer(request, visitor)
            return self._page(request, visitor)
        except errors.NotFound:
            return refusal(404, "Not found", _GONE)

    def _opened(self, request: Request) -> Request:
        """Return the request with page and recipient of its link. Raises: LinkForged,
        LinkExpired."""
        now, state = self.show.clock.now(), self.show.state
        if not request.link:
            self.signer.check(request.approval_id, request.query, now)
            return request
        page_id, number = self.signer.check_short(request.link)
        known = {EVERYBODY: BROADCAST} | {one: name for name, one in state.numbers(page_id).items()}
        ids = state.digest(page_id) if page_id.startswith(DIGEST_PREFIX) else (page_id,)
        ends = [one.link_ends for one in map(state.approval, ids) if one is not None]
        if number not in known or (ends and max(ends) <= now):
            raise errors.LinkExpired("the time of this link is over")
        # As an earlier link has it, for what forms are bound to; the record says when this one
        # ends.
        return replace(request, approval_id=page_id, query={"r": known[number], "e": "1"})

    def _answer(self, request: Request, visitor: Visitor) -> Response:
        """Do what the form says, or show the page again with why not."""
        try:
            if visitor.sign_in is not None:
                raise errors.NotAllowed("sign in first: nothing was decided")
            return self._refused_form(request, visitor) or self._posted(request, visitor)
        except (errors.InputError, errors.DecisionRefused) as error:
            if isinstance(error, errors.NotAllowed):
                self._note_refused(request, visitor, str(error))
            return self._page(request, visitor, status_of(error), problem=str(error))

    def _note_refused(self, request: Request, visitor: Visitor, why: str) -> None:
        """Keep for the audit an answer that came to no decision; one that did is kept already."""
        answer = request.form.get("answer", "")
        if answer not in {*Answer, UNDO, END_KEEP}:
            return
        by = f"link:{visitor.recipient}" if visitor.sign_in else visitor.by
        views = self._picked(request) if request.is_digest else [self.show(request.approval_id)]
        for view in views:
            self.decide.state.note_refused(view.approval, answer, by, why, self.show.clock.now())

    def _visitor(self, request: Request, recipient: str) -> Visitor:
        """Return the person of the session where a gate stands, else the recipient of the link."""
        if self.gate is None:
            person = None if recipient == BROADCAST else recipient
            return Visitor(recipient, by=f"link:{recipient}", person=person)
        known = self.gate.known(request.cookies, self.show.clock.now())
        if known is None:
            # Relative to the page, with the link to come back to.
            back = f"/q/{request.link}" if request.link else request.address
            sign_in = f"../sign-in?{urlencode({'return': back})}"
            return Visitor(recipient, by="nobody", person=None, sign_in=sign_in)
        who = known.who
        person = person_of(self.gate.directory(), who.identity, who.email)
        return Visitor(
            recipient, by=who.by, person=person, role=who.role, session_id=known.session_id
        )

    def _refused_form(self, request: Request, visitor: Visitor) -> Response | None:
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return refusal(403, "Refused", "The request came from another site.")
        try:
            token = request.form.get("csrf", "")
            self.signer.check_csrf(token, *_form(request, visitor))
        except errors.LinkForged:
            is_answer = not request.is_digest and request.form.get("answer") in [*Answer]
            view = self.show(request.approval_id) if is_answer else None
            if view is not None and not (view.can_decide or view.takes_hold):
                # Its page has no form any more; it says what became of the instance.
                raise errors.DecisionRefused(
                    "this question is over: your answer came too late"
                ) from None
            return refusal(
                403, "Refused", "The form is not the one of this page. Open the link again."
            )
        return None

    def _posted(self, request: Request, visitor: Visitor) -> Response:
        """Do what the button says. Raises: InputError, DecisionRefused, NotFound."""
        button = request.form.get("answer")
        if button == _SIGN_OUT:
            return self._signed_out(request, visitor)
        if request.is_digest:
            return self._decide_several(request, visitor)
        view = self.show(request.approval_id)
        episode = view.episode
        if button == UNDO:
            if visitor.role is not Role.APPROVER:
                raise errors.NotAllowed(
                    "you are signed in, but not in the group that may start an instance"
                )
            start_again(self.decide, self.undoer, episode, visitor.by, visitor.person, "page")
            return redirect(request.address)
        if button == END_KEEP:
            self.decide.end_keep(view, visitor.by, visitor.person, visitor.role)
            return redirect(request.address)
        decided = self.decide(
            request.approval_id,
            _decision(request.form, visitor, self.show.clock.now(), episode.time_zone),
            typed_instance_id=request.form.get("typed_instance_id"),
            losses_accepted=request.form.get("losses") == "accepted",
        )
        # Redirected, so that a refresh of the result is a GET.
        note = None if decided.delivered else "decided; the workflow does not have it yet"
        return redirect(request.address, note=note)

    def _signed_out(self, request: Request, visitor: Visitor) -> Response:
        """End the stored session, so that no copy of the cookie counts; then forget the cookie."""
        if self.gate is not None and visitor.session_id is not None:
            self.gate.sign_ins.end_session(visitor.session_id, self.show.clock.now())
        return redirect(request.address, cookies=(clear_cookie(SESSION_COOKIE),))

    def _decide_several(self, request: Request, visitor: Visitor) -> Response:
        picked = self._picked(request)
        if not picked:
            raise errors.InputError("tick at least one of them")
        decision = _decision(
            request.form, visitor, self.show.clock.now(), picked[0].episode.time_zone
        )
        accepted = request.form.get("losses") == "accepted"
        results = []
        for view in picked:
            try:
                decided = self.decide(view.approval.approval_id, decision, losses_accepted=accepted)
                text = decided.said(decision, view.episode, decision.at)
            except errors.DecisionRefused as error:
                text = refused_text(error)
            results.append((view.episode.instance.name, text))
        return self._page(request, visitor, results=results)

    def _picked(self, request: Request) -> list[ApprovalView]:
        views = self.show.digest(request.approval_id)
        return [
            one for one in views if request.form.get(f"pick-{one.approval.approval_id}") == "yes"
        ]

    def _page(
        self,
        request: Request,
        visitor: Visitor,
        status: int = 200,
        *,
        problem: str | None = None,
        results: Sequence[tuple[str, str]] = (),
    ) -> Response:
        page_id, csrf = request.approval_id, self.signer.csrf(*_form(request, visitor))
        form = pages.Form(visitor, csrf, request.address, problem, self.environment)
        if request.is_digest:
            views = self.show.digest(page_id)
            links = [self._neighbor(request, view.approval.approval_id) for view in views]
            body = pages.digest_page(views, links, form, results)
        else:
            body = pages.approval_page(self.show(page_id), form)
        return Response(status, "" if request.method == "HEAD" else body, HEADERS)

    def _neighbor(self, request: Request, approval_id: str) -> str:
        recipient = request.query["r"]
        if not request.link:
            ends_at = datetime.fromtimestamp(int(request.query["e"]), tz=UTC)
            return self.signer.earlier(approval_id, recipient, ends_at)
        number = self.show.state.numbers(approval_id).get(recipient, EVERYBODY)
        return self.signer.relative(approval_id, number)


def _form(request: Request, visitor: Visitor) -> tuple[str, ...]:
    """Return what a form is bound to: its page and link, and the session where somebody is signed
    in."""
    link = request.approval_id, visitor.recipient, request.query["e"]
    return (*link, visitor.session_id) if visitor.session_id else link


def _decision(form: Mapping[str, str], visitor: Visitor, now: UtcDatetime, zone: str) -> Decision:
    """Return the answer of a form. Raises: InputError with what to do, NotAllowed."""
    decision = posted(form, visitor.by, visitor.person, "page", now)
    check_role(visitor.role, decision.answer)
    is_keep = decision.answer is Answer.KEEP
    return replace(decision, keep_until=keep_until(form, zone)) if is_keep else decision
