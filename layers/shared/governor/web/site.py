"""The approval site: routes a request to the page of a question, and takes the answers of its
forms. GET and HEAD change nothing.

A POST carries out one answer, in this order: link -> visitor -> token of the form -> decision. Each
refused answer of a known visitor is kept for the audit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from governor.alerts.delivery import DIGEST_PREFIX
from governor.approvals.decide import Decide
from governor.approvals.messages.sentences import refused_text
from governor.approvals.model.approval import Answer, Decision
from governor.approvals.model.terms import Role
from governor.approvals.rules.links import EVERYBODY, LinkSigner
from governor.approvals.rules.terms import BROADCAST, check_role, person_of
from governor.approvals.show_approval import ApprovalView, ShowApproval
from governor.core import errors
from governor.core.units import UtcDatetime
from governor.episode.model.episode import Episode
from governor.episode.ports import Undoer
from governor.policy.model.contacts import Ownership
from governor.web import pages
from governor.web.answers import (
    END_KEEP,
    UNDO,
    keep_until,
    posted,
    start_again,
    status_of,
    ticked_ids,
)
from governor.web.pages import Visitor
from governor.web.responses import HEADERS, Response, bad_link, redirect, refusal
from governor.web.sessions import SESSION_COOKIE, LiveSession, Sessions, clear_cookie

if TYPE_CHECKING:
    from governor.approvals.store.sessions import SignIns

_GONE = (
    "This question no longer exists. Ask the owner of the instance, or the "
    "administrators of GPU Governor: the audit keeps what became of it."
)
_SIGN_OUT = "sign-out"
"""The value of a button that answers no question: it ends the session, so that no copy of its
cookie opens anything."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Header names are in lower case; `query`, `form` and `cookies` hold every name
    once. A short link has only `link`. A link of an earlier release has `approval_id`, and its
    other parts in the query."""

    method: str
    approval_id: str
    query: Mapping[str, str]
    form: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)
    link: str = ""

    @property
    def is_digest(self) -> bool:
        """Return whether the page is about several questions."""
        return self.approval_id.startswith(DIGEST_PREFIX)

    @property
    def address(self) -> str:
        """Return the last part of the link by which the page was opened, which leads back to it."""
        return self.link or f"{quote(self.approval_id, safe='')}?{urlencode(dict(self.query))}"


@dataclass(frozen=True, slots=True)
class SignInGate:
    """A sign-in in front of decisions. `directory` is read only for a person who is signed in."""

    sessions: Sessions
    directory: Callable[[], Ownership]
    sign_in_store: SignIns
    """The stored sessions: a cookie counts only while its session has not ended there."""

    def known(self, cookies: Mapping[str, str], now: UtcDatetime) -> LiveSession | None:
        """Return the session that the browser's cookie names, as it is stored; `None` if nobody has
        signed in with it, or the session has ended. Raises: ConfigurationError if our key cannot be
        used; CloudError."""
        session = self.sessions.read(cookies, now)
        if session is None:
            return None
        stored = self.sign_in_store.session(session.session_id, now)
        if stored is None:
            return None
        return LiveSession(session.session_id, stored)


@dataclass(frozen=True, slots=True)
class ApprovalSite:
    """Answers requests for one page. Without a gate, the link alone says who the visitor is."""

    show: ShowApproval
    decide: Decide
    undoer: Undoer
    signer: LinkSigner
    gate: SignInGate | None = None
    environment: str = ""
    """`prod` of the stack `gpu-governor-prod`."""

    def handle(self, request: Request) -> Response:
        """Return the answer to any request that a client can send: a page with a status. A POST
        carries out the form. Raises: ConfigurationError if our key cannot be used; PolicyError if
        today's policy is needed and cannot be read; CloudError."""
        if request.method not in ("GET", "HEAD", "POST"):
            return refusal(405, "Method not allowed", "This page accepts GET, HEAD and POST.")
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
        """Check the request's link; return the request with the page (`approval_id`) and recipient
        (`r`) that the link stands for. Raises: LinkForged; LinkExpired; ConfigurationError if our
        key cannot be used; CloudError."""
        now = self.show.clock.now()
        if not request.link:
            self.signer.check(request.approval_id, request.query, now)
            return request
        page_id, number = self.signer.check_short(request.link)
        recipient = self._recipient_of(page_id, number)
        is_over = self._is_over(page_id, now)
        if recipient is None or is_over:
            raise errors.LinkExpired("the time of this link is over")
        # Forms are bound to the query of a link. `e`, the end of an earlier release's link, has no
        # meaning here: the stored questions say when a short link ends.
        return replace(request, approval_id=page_id, query={"r": recipient, "e": "1"})

    def _recipient_of(self, page_id: str, number: int) -> str | None:
        """Return the address to which the link with this number was sent, or `BROADCAST` for the
        number of everybody; `None` if no link with this number was sent. Raises: CloudError."""
        number_by_recipient = self.show.delivery_store.numbers(page_id)
        recipient_by_number = {
            number: recipient for recipient, number in number_by_recipient.items()
        }
        default = BROADCAST if number == EVERYBODY else None
        return recipient_by_number.get(number, default)

    def _is_over(self, page_id: str, now: UtcDatetime) -> bool:
        """Return whether the links of all questions of a page, one or those of a digest, have
        ended; false if none is stored. Raises: CloudError."""
        approval_ids: Sequence[str] = (page_id,)
        if page_id.startswith(DIGEST_PREFIX):
            approval_ids = self.show.delivery_store.digest(page_id)
        approvals = [self.show.approval_store.approval(approval_id) for approval_id in approval_ids]
        ends = []
        for approval in approvals:
            if approval is not None:
                ends.append(approval.link_ends)
        return bool(ends) and max(ends) <= now

    def _answer(self, request: Request, visitor: Visitor) -> Response:
        """Carry out the form, and return what to show next. If it is refused, also for a visitor
        who must sign in first, return the page again with the reason and the status of the refusal,
        and record a NotAllowed for the audit. Raises: NotFound if the question is gone;
        ConfigurationError if our key cannot be used; PolicyError if today's policy is needed and
        cannot be read; CloudError."""
        try:
            if visitor.sign_in is not None:
                is_answer = request.form.get("answer") in {*Answer, UNDO, END_KEEP}
                what = "your answer was not recorded" if is_answer else "nothing was done"
                raise errors.NotAllowed(
                    f"{what}: you are not signed in, or your session has ended. Sign in and "
                    "answer again"
                )
            return self._refused_form(request, visitor) or self._carry_out(request, visitor)
        except (errors.InputError, errors.DecisionRefused) as error:
            if isinstance(error, errors.NotAllowed):
                self._record_refused_answer(request, visitor, str(error))
            return self._page(
                request,
                visitor,
                status_of(error),
                problem=str(error),
                refused=request.form.get("answer", ""),
                ticked=ticked_ids(request.form),
            )

    def _record_refused_answer(self, request: Request, visitor: Visitor, why: str) -> None:
        """Record for the audit that the answer in the form was refused, with each question that it
        is for; by the recipient of the link if they must still sign in. An undo and the end of a
        keep count as answers. Record nothing for another button, such as sign-out, and for a digest
        without a ticked question. Raises: NotFound if the question is gone; CloudError."""
        answer = request.form.get("answer", "")
        if answer not in {*Answer, UNDO, END_KEEP}:
            return
        by = f"link:{visitor.recipient}" if visitor.sign_in else visitor.by
        views = self._picked(request) if request.is_digest else [self.show(request.approval_id)]
        for view in views:
            self.decide.approval_store.note_refused(
                view.approval, answer, by, why, self.show.clock.now()
            )

    def _visitor(self, request: Request, recipient: str) -> Visitor:
        """Return who sends the request: without a gate the recipient of the link; with one the
        person who is signed in, or nobody, with the address at which to sign in. Raises:
        ConfigurationError if our key cannot be used; CloudError."""
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
        """Return the page (403) that refuses a form of another site, page or session; `None` if the
        form belongs to this page. Raises: DecisionRefused if the token is not of this page, and the
        form answers a question that is over; ConfigurationError if our key cannot be used;
        CloudError."""
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return refusal(403, "Refused", "The request came from another site.")
        try:
            token = request.form.get("csrf", "")
            self.signer.check_csrf(token, *_form(request, visitor))
        except errors.LinkForged:
            if self._is_late_answer(request):
                # The page that is shown then has no form, and says what became of the instance.
                raise errors.DecisionRefused(
                    "this question is over: your answer came too late"
                ) from None
            return refusal(
                403, "Refused", "The form does not belong to this page. Open the link again."
            )
        return None

    def _is_late_answer(self, request: Request) -> bool:
        """Return whether the form answers a single question that takes no answer any more. Raises:
        CloudError."""
        is_answer = request.form.get("answer") in [*Answer]
        if request.is_digest or not is_answer:
            return False
        view = self.show(request.approval_id)
        return not (view.can_decide or view.takes_hold)

    def _carry_out(self, request: Request, visitor: Visitor) -> Response:
        """Do what the pressed button says (sign out, start again, end the keep, or else answer the
        question, or those ticked on a digest's page), and return where to go. Call it only with a
        form that belongs to this page. Raises: InputError; DecisionRefused; NotFound;
        ConfigurationError if our key cannot be used; PolicyError if today's policy is needed and
        cannot be read; CloudError."""
        button = request.form.get("answer")
        if button == _SIGN_OUT:
            return self._signed_out(request, visitor)
        if request.is_digest:
            return self._decide_several(request, visitor)
        view = self.show(request.approval_id)
        episode = view.episode
        if button == UNDO:
            self._start_again(episode, visitor)
            return redirect(request.address)
        if button == END_KEEP:
            self.decide.end_keep(view, visitor.by, visitor.person, visitor.role)
            return redirect(request.address)
        decided = self.decide(
            request.approval_id,
            _decision(request.form, visitor, self.show.clock.now(), episode.asking.time_zone),
            typed_instance_id=request.form.get("typed_instance_id"),
            losses_accepted=request.form.get("losses") == "accepted",
        )
        note = None if decided.delivered else "decided; the workflow does not have it yet"
        # Redirected, so that a refresh of the result is a GET.
        return redirect(request.address, note=note)

    def _start_again(self, episode: Episode, visitor: Visitor) -> None:
        """Have EC2 start the stopped instance again. Raises: NotAllowed if the visitor may not;
        DecisionRefused if it was not started; Uncertain if that is not known; CloudError or
        PolicyError if today's policy cannot be read."""
        if visitor.role is not Role.APPROVER:
            raise errors.NotAllowed(
                "you are signed in, but not in the group that may start an instance"
            )
        start_again(self.decide, self.undoer, episode, visitor.by, visitor.person, "page")

    def _signed_out(self, request: Request, visitor: Visitor) -> Response:
        """End the stored session, so that no copy of the cookie counts; return to the page, with
        the cookie cleared. Raises: CloudError."""
        if self.gate is not None and visitor.session_id is not None:
            self.gate.sign_in_store.end_session(visitor.session_id, self.show.clock.now())
        return redirect(request.address, cookies=(clear_cookie(SESSION_COOKIE),))

    def _decide_several(self, request: Request, visitor: Visitor) -> Response:
        """Answer every ticked question of a digest; return its page with what became of each. A
        refusal of one is the text of its result, and does not stop the others. A date of a keep is
        in the time zone of the first one. Raises: InputError if none is ticked, or the form holds
        no answer; NotAllowed if the visitor's role may not give it; NotFound if a question is gone;
        ConfigurationError if our key cannot be used; PolicyError if an exemption needs today's
        policy and it cannot be read; CloudError."""
        picked = self._picked(request)
        if not picked:
            raise errors.InputError("select at least one of them")
        decision = _decision(
            request.form, visitor, self.show.clock.now(), picked[0].episode.asking.time_zone
        )
        accepted = request.form.get("losses") == "accepted"
        results = []
        refused = set()
        for view in picked:
            approval_id = view.approval.approval_id
            try:
                decided = self.decide(approval_id, decision, losses_accepted=accepted)
                text = decided.confirmation(decision, view.episode, decision.at)
            except errors.DecisionRefused as error:
                text = refused_text(error)
                refused.add(approval_id)
            results.append((view.episode.instance.name, text))
        return self._page(request, visitor, results=results, ticked=refused)

    def _picked(self, request: Request) -> list[ApprovalView]:
        """Return the questions of the request's digest that its form ticks, in their order; empty
        if it ticks none. Raises: NotFound if the digest is gone; CloudError."""
        picked: list[ApprovalView] = []
        ticked = ticked_ids(request.form)
        for view in self.show.digest(request.approval_id):
            if view.approval.approval_id in ticked:
                picked.append(view)
        return picked

    def _page(
        self,
        request: Request,
        visitor: Visitor,
        status: int = 200,
        *,
        problem: str | None = None,
        refused: str = "",
        results: Sequence[tuple[str, str]] = (),
        ticked: Collection[str] = (),
    ) -> Response:
        """Return the page of the question or the digest, without a body for HEAD. `problem` says
        why the answer `refused` was refused; `results` are the name and the result of each answer
        just given. `ticked` are the ids of the questions that stay ticked in a digest.
        Raises: NotFound; ConfigurationError if our key cannot be used; CloudError."""
        page_id = request.approval_id
        csrf = self.signer.csrf(*_form(request, visitor))
        form = pages.Form(
            visitor, csrf, request.address, problem, self.environment, refused=refused
        )
        if request.is_digest:
            views = self.show.digest(page_id)
            links = [self._neighbor(request, view.approval.approval_id) for view in views]
            body = pages.digest_page(views, links, form, results, ticked)
        else:
            body = pages.approval_page(self.show.record(page_id), form)
        return Response(status, "" if request.method == "HEAD" else body, HEADERS)

    def _neighbor(self, request: Request, approval_id: str) -> str:
        """Return the same recipient's link to a question of the digest, relative to its page; the
        link for everybody if the question was not sent to that recipient. Raises:
        ConfigurationError if our key cannot be used; CloudError."""
        recipient = request.query["r"]
        if not request.link:
            ends_at = datetime.fromtimestamp(int(request.query["e"]), tz=UTC)
            return self.signer.earlier(approval_id, recipient, ends_at)
        number = self.show.delivery_store.numbers(approval_id).get(recipient, EVERYBODY)
        return self.signer.relative(approval_id, number)


def _form(request: Request, visitor: Visitor) -> tuple[str, ...]:
    """Return what the token of a form is bound to: page, recipient and end of its link, and the
    session if somebody is signed in."""
    link = (request.approval_id, visitor.recipient, request.query["e"])
    if not visitor.session_id:
        return link
    return (*link, visitor.session_id)


def _decision(form: Mapping[str, str], visitor: Visitor, now: UtcDatetime, zone: str) -> Decision:
    """Return the answer in a form, as the visitor's; nothing is recorded. A typed date of a keep is
    in this time zone. Raises: InputError without a known answer, or for a keep whose end is missing
    or cannot be read; NotAllowed if the visitor's role may not give it."""
    decision = posted(form, visitor.by, visitor.person, "page", now)
    check_role(visitor.role, decision.answer)
    if decision.answer is not Answer.KEEP:
        return decision
    return replace(decision, keep_until=keep_until(form, zone))
