"""The approval site: a request in, a response out. GET and HEAD change nothing; POST decides, once.

Pure of AWS: the handler parses API Gateway's event into a `Request` and serialises the `Response`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from urllib.parse import quote, urlencode

from governor.domain.approval import Answer, Decision
from governor.domain.delivery import DIGEST_PREFIX
from governor.domain.terms import BROADCAST, may_undo
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
from governor.usecases.decide import Decide
from governor.usecases.show_approval import ShowApproval
from governor.usecases.show_digest import ShowDigest
from governor.web import pages

_LONGEST_REASON = 300
_UNDO = "undo"
"""Not an answer to the question: the record's own button."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Header names are in lower case; `query` and `form` hold every field once."""

    method: str
    approval_id: str
    query: Mapping[str, str]
    form: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Response:
    """One response; the body is HTML. `note` is for the log: what an operator should know of it."""

    status: int
    body: str
    headers: Mapping[str, str]
    note: str | None = None


@dataclass(frozen=True, slots=True)
class ApprovalSite:
    """Answers requests for one page."""

    show: ShowApproval
    show_digest: ShowDigest
    decide: Decide
    undoer: Undoer
    signer: LinkSigner
    clock: Clock

    def handle(self, request: Request) -> Response:
        """Never raises for what a client can send; each refusal has its own page and status."""
        if request.method not in ("GET", "HEAD", "POST"):
            return _refusal(405, "Method not allowed", "This page knows GET, HEAD and POST.")
        try:
            recipient = self.signer.check(request.approval_id, request.query, self.clock.now())
        except LinkForged:
            text = "It was not made by this governor, or was altered on its way. Use the link of the message."
            return _refusal(403, "This link is not valid", text)
        except LinkExpired:
            text = "The time to decide is over."
            return _refusal(410, "This link has expired", text)
        try:
            if request.approval_id.startswith(DIGEST_PREFIX):
                return self._digest(request, recipient)
            if request.method == "POST":
                return self._post(request, recipient)
            return self._page(request, recipient, 200)
        except NotFound:
            return _refusal(404, "Not found", "This question does not exist (any more).")

    def _digest(self, request: Request, recipient: str) -> Response:
        """Several questions on one page: each by itself, or all that are ticked at once."""
        if request.method != "POST":
            return self._digest_page(request, recipient, 200)
        refused = self._forged_form(request)
        if refused is not None:
            return refused
        views = {view.approval.approval_id: view for view in self.show_digest(request.approval_id)}
        picked = [approval_id for approval_id in views if request.form.get(f"pick-{approval_id}") == "yes"]
        if not picked:
            return self._digest_page(request, recipient, 400, problem="Tick at least one of them.")
        try:
            decision = _decision(request.form, recipient, self.clock.now())
        except InputError as error:
            return self._digest_page(request, recipient, 400, problem=str(error))
        accepted = request.form.get("losses") == "accepted"
        results = []
        for approval_id in picked:
            name = views[approval_id].episode.instance.name
            try:
                decided = self.decide(approval_id, decision, losses_accepted=accepted)
            except DecisionRefused as error:
                results.append((name, f"not taken: {error}"))
                continue
            text = "noted; a second person must approve, too" if decided.needs_another else "taken"
            results.append((name, text))
        return self._digest_page(request, recipient, 200, results=results)

    def _digest_page(
        self,
        request: Request,
        recipient: str,
        status: int,
        *,
        problem: str | None = None,
        results: Sequence[tuple[str, str]] = (),
    ) -> Response:
        views = self.show_digest(request.approval_id)
        expires_at = datetime.fromtimestamp(int(request.query["e"]), tz=UTC)
        body = pages.digest_page(
            views,
            links=[self.signer.relative(v.approval.approval_id, recipient, expires_at) for v in views],
            csrf=self.signer.csrf(request.approval_id, recipient, expires_at),
            action=_address(request),
            problem=problem,
            results=results,
        )
        return Response(status, "" if request.method == "HEAD" else body, _headers())

    def _forged_form(self, request: Request) -> Response | None:
        """The refusal of a form that is not our page's, or `None`."""
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return _refusal(403, "Refused", "The request came from another site.")
        try:
            self.signer.check_csrf(request.approval_id, request.query, request.form.get("csrf", ""))
        except LinkForged:
            return _refusal(403, "Refused", "The form is not the one of this page. Open the link again.")
        return None

    def _post(self, request: Request, recipient: str) -> Response:
        refused = self._forged_form(request)
        if refused is not None:
            return refused
        if request.form.get("answer") == _UNDO:
            return self._undo(request, recipient)
        try:
            decision = _decision(request.form, recipient, self.clock.now())
        except InputError as error:
            return self._page(request, recipient, 400, problem=str(error))
        try:
            decided = self.decide(
                request.approval_id,
                decision,
                typed_instance_id=request.form.get("typed_instance_id"),
                losses_accepted=request.form.get("losses") == "accepted",
            )
        except NotAllowed as error:
            return self._page(request, recipient, 403, problem=str(error))
        except DecisionRefused as error:
            status = 400 if error.status == "PENDING" else 409
            return self._page(request, recipient, status, problem=str(error))
        # Redirected, so that a refresh of the result is a GET.
        note = None if decided.delivered else "decided, but the workflow has not taken it yet"
        return Response(303, "", {**_headers(), "Location": _address(request)}, note)

    def _undo(self, request: Request, recipient: str) -> Response:
        view = self.show(request.approval_id)
        if not may_undo(view.episode.terms, _person(recipient)):
            text = "This link went to a list, and the policy lets nobody start an instance by it."
            return self._page(request, recipient, 403, problem=text)
        try:
            answer = self.undoer.undo(view.episode.ref, f"link:{recipient}", "page")
        except CloudError as error:
            text = "It could not be started, and nothing was changed. Please try again in a minute."
            return self._page(request, recipient, 503, problem=text, note=f"an undo failed: {error}")
        if not answer.done:
            return self._page(request, recipient, 409, problem=f"Not started: {answer.text}.")
        return Response(303, "", {**_headers(), "Location": _address(request)})

    def _page(
        self,
        request: Request,
        recipient: str,
        status: int,
        *,
        problem: str | None = None,
        note: str | None = None,
    ) -> Response:
        view = self.show(request.approval_id)
        expires_at = datetime.fromtimestamp(int(request.query["e"]), tz=UTC)
        body = pages.approval_page(
            view,
            person=_person(recipient),
            csrf=self.signer.csrf(request.approval_id, recipient, expires_at),
            action=_address(request),
            problem=problem,
        )
        return Response(status, "" if request.method == "HEAD" else body, _headers(), note)


def bad_request(text: str) -> Response:
    """The answer to a request that cannot be read."""
    return _refusal(400, "The request could not be read", f"Open the link of the message again: {text}.")


def _decision(form: Mapping[str, str], recipient: str, now: UtcDatetime) -> Decision:
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
        by=f"link:{recipient}",
        person=_person(recipient),
        channel="page",
        at=now,
        keep_until=_keep_until(form) if answer is Answer.KEEP else None,
        reason=reason or None,
    )


def _keep_until(form: Mapping[str, str]) -> UtcDatetime:
    """The date of one's own choice goes before the offered ones."""
    date, offered = form.get("keep_date", ""), form.get("keep_until", "")
    try:
        if date:
            day = datetime.strptime(date, "%Y-%m-%d").replace(tzinfo=UTC).date()
            return datetime.combine(day, time(9), tzinfo=UTC)
        return parse_iso(offered)
    except ValueError:
        raise InputError("Say until when it shall be kept: a date like 2026-12-01.") from None


def _person(recipient: str) -> str | None:
    return None if recipient == BROADCAST else recipient


def _address(request: Request) -> str:
    """The link itself, relative: the page never leaves the address it was opened by."""
    return f"{quote(request.approval_id, safe='')}?{urlencode(dict(request.query))}"


def _refusal(status: int, title: str, text: str) -> Response:
    return Response(status, pages.refusal_page(title, text), _headers())


def _headers() -> dict[str, str]:
    return {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": (
            f"default-src 'none'; style-src {pages.style_source()}; script-src {pages.script_source()}; "
            "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        ),
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "X-Robots-Tag": "noindex, nofollow",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
        "Strict-Transport-Security": "max-age=63072000",
    }
