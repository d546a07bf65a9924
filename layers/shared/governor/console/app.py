"""The console's routes: which view or form answers which request. GET and HEAD change nothing.

Routing is Powertools' event handler (decision 0008); this is the one module beside handlers that
knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from aws_lambda_powertools.event_handler import Response as Routed

from governor.console import formats
from governor.console.page import Caller, Page, Reader, ViewRequest
from governor.console.parts import document_part
from governor.console.session import ConsoleSessions, caller_of
from governor.console.views import addresses, figures
from governor.core.errors import DecisionRefused, InputError, NotFound, SignInTooOld
from governor.core.units import people, plural, sentence
from governor.web.answers import status_of
from governor.web.responses import HEADERS, Response, redirect

View = Callable[[ViewRequest], Page]
Post = Callable[[ViewRequest], Page | Response | str]
"""Carries out a form of the caller's own session; returns a page, or the path to go to."""
Answer = Callable[["Request", Mapping[str, str]], Response]
"""Answers a request, given the parameters of its path."""
_CSV = ".csv"
_NOT_READ_AFTER = timedelta(minutes=30)
"""A target that no sweep has read for this long counts as not read."""
_REFUSALS = {
    400: "That did not work",
    403: "Not allowed",
    409: "It has changed since",
    503: "Not certain",
}
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True, slots=True)
class Request:
    """One request: the path encoded, names of headers in lower case, and every other name once."""

    method: str
    path: str
    query: Mapping[str, str]
    form: Mapping[str, str]
    headers: Mapping[str, str]
    cookies: Mapping[str, str]

    @property
    def wants_json(self) -> bool:
        """Return whether the client asks for JSON and not for HTML."""
        accepted = self.headers.get("accept", "")
        return "application/json" in accepted and "text/html" not in accepted

    @property
    def wants_csv(self) -> bool:
        """Return whether the path asks for a table as CSV."""
        return self.path.endswith(_CSV)

    @property
    def is_from_elsewhere(self) -> bool:
        """Return whether a page of another site made the browser send this request."""
        return self.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")

    @property
    def address(self) -> str:
        """Return the path of the request with its query, such as `/fleet?sort=price`, to come back
        to after a sign-in."""
        if not self.query:
            return self.path
        fields = [f"{quote(name)}={quote(value)}" for name, value in self.query.items()]
        return f"{self.path}?{'&'.join(fields)}"


class Console:
    """Answers requests of the console. One request at a time, as Lambda sends them."""

    def __init__(
        self,
        reader: Callable[[], Reader],
        sessions: ConsoleSessions,
        views: Mapping[str, View],
        posts: Mapping[str, Post] = MappingProxyType({}),
    ) -> None:
        """Register the routes of all pages and forms.

        `reader` reads the policy in force and makes the stores of one request; `sessions` lets
        people in and out. `views` are the pages, and `posts` what their forms do, both by route;
        they get path parameters as fields of the query.
        """
        self._reader = reader
        self._sessions = sessions
        self._now = sessions.console.clock.now
        self._request: Request | None = None
        self._routes = APIGatewayHttpResolver()
        self._routes.not_found(lambda _: self._routed(_missing))
        self._add_pages(views, {**posts, "/sign-out": self._sign_out})
        self._add("/console", {"GET": _enter_page, "POST": self._take_code})

    def _add_pages(self, views: Mapping[str, View], posts: Mapping[str, Post]) -> None:
        """Register a route for each page and its form, and one for the CSV of each page whose path
        has no parameter: `/fleet.csv`, and `/overview.csv` for `/`."""
        answers_by_rule: dict[str, dict[str, Answer]] = {}
        for rule, view in views.items():
            show = partial(self._show_view, view)
            answers_by_rule[rule] = {"GET": partial(self._answer_caller, show)}
        for rule, post in posts.items():
            answers = answers_by_rule.setdefault(rule, {})
            carry_out = partial(self._carry_out_form, post)
            answers["POST"] = partial(self._answer_caller, carry_out)
        for rule, answers in answers_by_rule.items():
            self._add(rule, answers)
            has_parameters = "<" in rule
            if rule in views and not has_parameters:
                page = rule if rule != "/" else "/overview"
                self._add(f"{page}{_CSV}", {"GET": answers["GET"]})

    def handle(self, event: dict[str, Any], context: Any, request: Request) -> dict[str, Any]:
        """Return the answer to an event of API Gateway, in the form that API Gateway takes.
        `request` is the same event, read. Raises: ConfigurationError if our key cannot be used;
        CloudError."""
        self._request = request
        answered: dict[str, Any] = self._routes.resolve({**event, "rawPath": request.path}, context)
        return answered

    def _add(self, rule: str, answers: Mapping[str, Answer]) -> None:
        """Register a route (`/projects/<name>`) with an answer for each method. HEAD is answered as
        GET, and any other method with 405."""

        def answer(request: Request, parameters: Mapping[str, str]) -> Response:
            """Return the answer for the method of the request: 403 for a form of another site, 405
            for a method that the page does not know. Raises: what that method's answer raises."""
            if request.method == "POST" and request.is_from_elsewhere:
                return failed(request, 403, "Refused", "The request came from another site.")
            method = "GET" if request.method == "HEAD" else request.method
            answer_method = answers.get(method, _method_not_allowed)
            return answer_method(request, parameters)

        register = self._routes.route(rule, _METHODS)
        register(lambda **parameters: self._routed(answer, parameters))

    def _routed(
        self, answer: Answer, parameters: Mapping[str, str] = MappingProxyType({})
    ) -> Routed[str]:
        """Answer the request that `handle` was called with, given the encoded parameters of its
        path. `answer` gets them decoded, and without `.csv` if the request is for CSV. Return its
        answer as Powertools takes it, for HEAD without a body. Raises: what `answer` raises, such
        as CloudError."""
        request = self._request
        assert request is not None
        suffix = _CSV if request.wants_csv else ""
        names = {
            parameter: addresses.name_in(part.removesuffix(suffix))
            for parameter, part in parameters.items()
        }
        response = answer(request, names)
        headers = dict(response.headers)
        if response.cookies:
            # There is one at most: the session begins or ends, or a code is named.
            [headers["Set-Cookie"]] = response.cookies
        content_type = headers.pop("Content-Type")
        body = "" if request.method == "HEAD" else response.sent
        return Routed(response.status, content_type, body, headers)

    def _answer_caller(
        self,
        answer: Callable[[Request, ViewRequest], Response],
        request: Request,
        parameters: Mapping[str, str],
    ) -> Response:
        """Return the answer for a caller who has signed in and whom the policy grants something;
        for any other, the way to sign in or the reason why not. NotFound, InputError and
        DecisionRefused of the `answer` become pages. Raises: ConfigurationError if our key cannot
        be used; CloudError."""
        now = self._now()
        known = self._sessions.known(request.cookies, now)
        if known is None:
            return self._not_signed_in(request)
        reader = self._reader()
        caller = caller_of(reader.policy, known)
        if not caller.grants:
            return self._without_grants(request, caller)
        try:
            fields = _fields_of(request, parameters)
            return answer(request, ViewRequest(reader, caller, fields, now, request.wants_csv))
        except NotFound:
            return _missing(request)
        except (InputError, DecisionRefused) as error:
            return self._refusal(request, error)

    def _without_grants(self, request: Request, caller: Caller) -> Response:
        """Return the answer (403) for a caller to whom the policy grants nothing, with a link to
        sign in again if an issuer is set up."""
        who = people(caller.by)
        text = (
            f"The policy names {who} nowhere. Ask your platform team to add you to console.scopes."
        )
        sign_in_again = self._sign_in("/", is_fresh=True)
        return failed(request, 403, "Nothing is shared with you", text, sign_in_again)

    def _refusal(self, request: Request, error: InputError | DecisionRefused) -> Response:
        """Return the page or document for a request that a view or form refused, with a link to
        sign in again if that helps."""
        status = status_of(error)
        sign_in_again = ""
        if isinstance(error, SignInTooOld):
            sign_in_again = self._sign_in(request.path, is_fresh=True)
        return failed(request, status, _REFUSALS[status], sentence(str(error)), sign_in_again)

    def _show_view(self, view: View, request: Request, view_request: ViewRequest) -> Response:
        """Return the view's page as HTML, JSON or CSV, whichever the client asks for. Raises:
        NotFound for a table that the page lacks; InputError for a part that it lacks;
        ConfigurationError if our key cannot be used; CloudError; what the view raises."""
        # Reads at once what the page would read record by record.
        figures.questions(view_request)
        page = view(view_request)
        part = request.query.get("part", "")
        if request.wants_csv:
            table_name = request.query.get("table", "")
            is_whole = not view_request.is_incomplete
            return formats.as_csv(page, table_name, part, is_whole=is_whole)
        if request.wants_json:
            document = document_part(page, part)
            return formats.as_json(200, {"is_incomplete": view_request.is_incomplete, **document})
        return framed(page, view_request, request.path, self._sessions.token)

    def _carry_out_form(self, post: Post, request: Request, view_request: ViewRequest) -> Response:
        """Check that the form belongs to this page and session, then carry it out. Return what
        follows: a redirect to the path that `post` returns, its response, or its page in the frame.
        Raises: NotAllowed for a form of another session; ConfigurationError if our key cannot be
        used; CloudError; what the form raises."""
        self._sessions.check_form(request.path, view_request.caller, request.form.get("csrf", ""))
        outcome = post(view_request)
        if isinstance(outcome, str):
            return redirect(outcome)
        if isinstance(outcome, Response):
            return outcome
        return framed(outcome, view_request, request.path, self._sessions.token)

    def _sign_out(self, view_request: ViewRequest) -> Response:
        """End the caller's stored session; return the page that says so. Raises: CloudError."""
        return self._sessions.leave(view_request.caller.session_id, view_request.now)

    def _take_code(self, request: Request, _: Mapping[str, str]) -> Response:
        """Return the answer to the form with a code of `governor open`: a page that says whose
        session the code opens or, if the form confirms that page, the cookie of the session; 403 if
        the code opens nothing. Raises: ConfigurationError if our key cannot be used; CloudError."""
        return self._sessions.take_code(request.form, request.cookies, self._now())

    def _not_signed_in(self, request: Request) -> Response:
        """Return the answer for a caller without a session: a redirect to the sign-in, or 401 for a
        form, for JSON and CSV, and where no issuer is set up."""
        lost = _not_recorded(request) if request.method == "POST" else ""
        if not self._sessions.has_issuer:
            how = "Run `governor open`: it prints the address."
            return failed(request, 401, "Not signed in", f"{lost}{how}")
        wants_document = request.wants_json or request.wants_csv
        if request.method == "POST":
            how = "Sign in, and send it again."
            sign_in = self._sign_in(request.path)
            return failed(request, 401, "Not signed in", f"{lost}{how}", sign_in)
        if wants_document:
            return failed(request, 401, "Not signed in", "Sign in first.")
        return redirect(self._sign_in(request.address))

    def _sign_in(self, path: str, *, is_fresh: bool = False) -> str:
        """Return the address that signs the person in and brings them back to `path`, with
        `is_fresh` even if they are signed in; empty if no issuer is set up."""
        if not self._sessions.has_issuer:
            return ""
        address = f"/sign-in?return={quote(path, safe='')}"
        if is_fresh:
            return f"{address}&fresh=1"
        return address


def _not_recorded(request: Request) -> str:
    """Return that a form which came without a session was not carried out, as a sentence with a
    space after it."""
    what = "nothing was done"
    if request.path.startswith("/questions"):
        what = "your answer was not recorded"
    return f"You are not signed in, or your session has ended, so {what}. "


def _fields_of(request: Request, parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of the form for POST, else of the query, and in place of those of the same
    name the parameters of the path. `select` is left out unless a page of ours sent the request."""
    given = request.form if request.method == "POST" else request.query
    fields = {**given, **parameters}
    if request.headers.get("sec-fetch-site") != "same-origin":
        fields.pop("select", None)  # It ticks boxes: only a link of our own pages may.
    return fields


def _enter_page(_request: Request, _: Mapping[str, str]) -> Response:
    """Return the page with the form that takes a code of `governor open`."""
    # Its script moves the code of `governor open` from the address to the form.
    return formats.html(200, "enter.html", title="Open the console", code="", arn="")


def _missing(request: Request, _: Mapping[str, str] = MappingProxyType({})) -> Response:
    """Return the answer (404) for a page that does not exist, or that the caller may not see."""
    return failed(request, 404, "Not found", "There is no such page, or it is not shared with you.")


def _method_not_allowed(request: Request, _: Mapping[str, str]) -> Response:
    """Return the answer (405) for a method that the page does not know."""
    return failed(request, 405, "Method not allowed", "This page does not know that method.")


def framed(
    page: Page, view_request: ViewRequest, path: str, token: Callable[[str, Caller], str]
) -> Response:
    """Return a page as HTML, with the header that every page has; a page with `whole` makes the
    rest itself. The forms in it bear the `token` of their page and session. Raises:
    ConfigurationError if our key cannot be used; CloudError."""
    values = {
        "frame": _frame(view_request, path),
        "csrf": lambda form_path: token(form_path, view_request.caller),
        "zone": view_request.caller.zone,
        "now": view_request.now,
    }
    if page.whole is not None:
        header = formats.header_html(**values)
        html = page.whole(token(path, view_request.caller), header)
        return Response(200, html, {**HEADERS, "Vary": "Accept, Cookie"})
    return formats.html(200, page.template, title=page.title, **values, **page.values)


def _frame(view_request: ViewRequest, path: str) -> dict[str, object]:
    """Return the template's values for the header of a page: the stack, its mode, how old the
    oldest sweep of its targets is (`None` before the first), how many targets were not read for 30
    minutes, and how many questions are open, all as far as the caller sees them. Raises:
    CloudError."""
    fleet_pages = [fleet_page for _, fleet_page in figures.targets_in(view_request)]
    sweep_times = [page.swept_at for page in fleet_pages if page is not None]
    read_count = 0
    for swept_at in sweep_times:
        if view_request.now - swept_at <= _NOT_READ_AFTER:
            read_count += 1
    return {
        "environment": view_request.reader.environment,
        "mode": view_request.reader.policy.mode.value,
        "swept": view_request.now - min(sweep_times) if sweep_times else None,
        "targets": len(fleet_pages),
        "targets_read": _targets_read_text(len(fleet_pages)),
        "unread": len(fleet_pages) - read_count,
        "by": view_request.caller.by,
        "path": path,
        "questions": len(figures.questions(view_request)),
        "missing": view_request.what_is_missing,
    }


def _targets_read_text(count: int) -> str:
    """Return that all of so many targets were read: `both targets read`."""
    if count == 2:
        return "both targets read"
    text = f"{plural(count, 'target')} read"
    return f"all {text}" if count > 2 else text


def failed(request: Request, status: int, title: str, text: str, sign_in: str = "") -> Response:
    """Return an error as JSON with the text alone if the client asks for JSON or CSV, else as a
    page with a title, a text, a link to `sign_in` if that is an address, and after a form a link
    back to its page."""
    if request.wants_json or request.wants_csv:
        return formats.as_json(status, {"error": text})
    # A form is sent to the address of its page.
    back = request.path if request.method == "POST" else None
    return formats.html(status, "refused.html", title=title, text=text, sign_in=sign_in, back=back)
