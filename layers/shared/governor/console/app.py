"""The console's routes: a request in, a page as HTML, JSON or CSV out. GET and HEAD change nothing.

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
from governor.console.page import Asked, Caller, Page, Reader
from governor.console.session import Doors, caller_of
from governor.console.views import figures
from governor.domain.units import people, sentence
from governor.errors import DecisionRefused, InputError, NotFound, SignInTooOld
from governor.web.answers import status_of
from governor.web.responses import HEADERS, Response, redirect

View = Callable[[Asked], Page]
Post = Callable[[Asked], Page | Response | str]
"""Does what a form says, once it is known to be one of the caller's own; returns a page, or where
to go."""
Answer = Callable[["Request", Mapping[str, str]], Response]
"""Answers a request, given the parameters of its path."""
_CSV = ".csv"
_OLD = timedelta(minutes=30)
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
        accepted = self.headers.get("accept", "")
        return "application/json" in accepted and "text/html" not in accepted

    @property
    def wants_csv(self) -> bool:
        return self.path.endswith(_CSV)

    @property
    def is_from_elsewhere(self) -> bool:
        return self.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")

    @property
    def address(self) -> str:
        """The page's own path with its query, to come back to."""
        fields = "&".join(f"{quote(name)}={quote(value)}" for name, value in self.query.items())
        return self.path + (f"?{fields}" if fields else "")


class Console:
    """Answers requests of the console. One request at a time, as Lambda sends them.

    `views` by their routes; `posts` are what forms do. Both get path parameters as fields of the
    query.
    """

    def __init__(
        self,
        reader: Callable[[], Reader],
        doors: Doors,
        views: Mapping[str, View],
        posts: Mapping[str, Post] = MappingProxyType({}),
    ) -> None:
        self._reader, self._doors, self._now = reader, doors, doors.enter.clock.now
        self._request: Request | None = None
        self._routes = APIGatewayHttpResolver()
        self._routes.not_found(lambda _: self._routed(_missing))
        posts = {**posts, "/sign-out": lambda ask: doors.leave(ask.caller.session_id, ask.now)}
        shown = {
            rule: {"GET": partial(self._known, partial(self._view, view))}
            for rule, view in views.items()
        }
        taken = {
            rule: {"POST": partial(self._known, partial(self._act, post))}
            for rule, post in posts.items()
        }
        for rule in shown | taken:
            self._add(rule, shown.get(rule, {}) | taken.get(rule, {}))
            if rule in shown and "<" not in rule:
                self._add(f"{rule if rule != '/' else '/overview'}{_CSV}", shown[rule])
        enter: dict[str, Answer] = {
            # Its script moves the code of `governor open` from the address to the form.
            "GET": lambda *_: formats.html(
                200, "enter.html", title="Open the console", code="", arn=""
            ),
            "POST": lambda request, _: doors.take_code(request.form, request.cookies, self._now()),
        }
        self._add("/console", enter)

    def handle(self, event: dict[str, Any], context: Any, request: Request) -> dict[str, Any]:
        """Answer one event of API Gateway, which `request` was read from."""
        self._request = request
        answered: dict[str, Any] = self._routes.resolve({**event, "rawPath": request.path}, context)
        return answered

    def _add(self, rule: str, answers: Mapping[str, Answer]) -> None:
        def answer(request: Request, named: Mapping[str, str]) -> Response:
            if request.method == "POST" and request.is_from_elsewhere:
                return failed(request, 403, "Refused", "The request came from another site.")
            method = "GET" if request.method == "HEAD" else request.method
            return answers.get(method, _refused)(request, named)

        self._routes.route(rule, _METHODS)(lambda **named: self._routed(answer, named))

    def _routed(
        self, answer: Answer, named: Mapping[str, str] = MappingProxyType({})
    ) -> Routed[str]:
        assert self._request is not None
        end = _CSV if self._request.wants_csv else ""
        parts = {name: figures.name_in(value.removesuffix(end)) for name, value in named.items()}
        found = answer(self._request, parts)
        headers = dict(found.headers)
        if found.cookies:
            # One at most: the session begins or ends, or a code is named.
            [headers["Set-Cookie"]] = found.cookies
        body = "" if self._request.method == "HEAD" else found.body
        return Routed(found.status, headers.pop("Content-Type"), body, headers)

    def _known(
        self,
        answer: Callable[[Request, Asked], Response],
        request: Request,
        named: Mapping[str, str],
    ) -> Response:
        """Answer somebody who has signed in and may see anything at all."""
        now = self._now()
        known = self._doors.known(request.cookies, now)
        if known is None:
            return self._ask_who(request)
        reader = self._reader()
        caller = caller_of(reader.policy, known)
        if not caller.grants:
            who = people(caller.by)
            text = (
                f"The policy names {who} nowhere. Ask your platform team to add you to "
                "console.scopes."
            )
            return failed(
                request, 403, "Nothing is shared with you", text, self._sign_in("/", "&fresh=1")
            )
        try:
            fields = {**(request.form if request.method == "POST" else request.query), **named}
            if request.headers.get("sec-fetch-site") != "same-origin":
                fields.pop("select", None)  # It ticks boxes: only a link of our own pages may.
            return answer(request, Asked(reader, caller, fields, now, request.wants_csv))
        except NotFound:
            return _missing(request)
        except (InputError, DecisionRefused) as error:
            status = status_of(error)
            again = (
                self._sign_in(request.path, "&fresh=1") if isinstance(error, SignInTooOld) else ""
            )
            return failed(request, status, _REFUSALS[status], sentence(str(error)), again)

    def _view(self, view: View, request: Request, ask: Asked) -> Response:
        figures.questions(ask)  # reads ahead what a page asks for one by one
        page = view(ask)
        if request.wants_csv:
            return formats.as_csv(
                page, request.query.get("table", ""), is_whole=not ask.is_incomplete
            )
        if request.wants_json:
            return formats.as_json(200, {"is_incomplete": ask.is_incomplete, **page.document})
        return framed(page, ask, request.path, self._doors.token)

    def _act(self, post: Post, request: Request, ask: Asked) -> Response:
        self._doors.check(request.path, ask.caller, request.form.get("csrf", ""))
        done = post(ask)
        if isinstance(done, str):
            return redirect(done)
        return (
            done
            if isinstance(done, Response)
            else framed(done, ask, request.path, self._doors.token)
        )

    def _ask_who(self, request: Request) -> Response:
        has_issuer = self._doors.has_issuer
        if (
            has_issuer
            and request.method != "POST"
            and not (request.wants_json or request.wants_csv)
        ):
            return redirect(self._sign_in(request.address))
        how = "Sign in first." if has_issuer else "Run `governor open`: it prints the address."
        return failed(request, 401, "Not signed in", how)

    def _sign_in(self, path: str, more: str = "") -> str:
        return f"/sign-in?return={quote(path, safe='')}{more}" if self._doors.has_issuer else ""


def _missing(request: Request, _: Mapping[str, str] = MappingProxyType({})) -> Response:
    return failed(request, 404, "Not found", "There is no such page, or it is not shared with you.")


def _refused(request: Request, _: Mapping[str, str]) -> Response:
    return failed(request, 405, "Method not allowed", "This page does not know that method.")


def framed(page: Page, ask: Asked, path: str, token: Callable[[str, Caller], str]) -> Response:
    """Return a page as HTML, with what stands at the head of each. Only what the caller sees
    counts."""
    if page.whole is not None:
        return Response(
            200, page.whole(token(path, ask.caller)), {**HEADERS, "Vary": "Accept, Cookie"}
        )
    targets = [page for _, page in figures.targets_in(ask)]
    swept = [page.swept_at for page in targets if page is not None]
    frame = {
        "environment": ask.reader.environment,
        "mode": ask.reader.policy.mode.value,
        "swept": ask.now - min(swept) if swept else None,
        "targets": len(targets),
        "unread": len(targets) - sum(ask.now - at <= _OLD for at in swept),
        "by": ask.caller.by,
        "path": path,
        "questions": len(figures.questions(ask)),
        "missing": ask.what_is_missing,
    }
    values = {
        "frame": frame,
        "csrf": lambda path: token(path, ask.caller),
        "zone": ask.caller.zone,
        "now": ask.now,
    }
    return formats.html(200, page.template, title=page.title, **values, **page.values)


def failed(request: Request, status: int, title: str, text: str, sign_in: str = "") -> Response:
    if request.wants_json or request.wants_csv:
        return formats.as_json(status, {"error": text})
    # A form is sent to the address of its page.
    back = request.path if request.method == "POST" else None
    return formats.html(status, "refused.html", title=title, text=text, sign_in=sign_in, back=back)
