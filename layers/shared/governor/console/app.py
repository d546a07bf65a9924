"""The console's routes: a request in, a page as HTML, JSON or CSV out. GET and HEAD change nothing.

Routing is Powertools' event handler (decision 0008); this is the one module beside handlers that knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, unquote

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from aws_lambda_powertools.event_handler import Response as Routed

from governor.console import formats
from governor.console.page import Caller, Page
from governor.console.reader import Reader
from governor.console.session import Doors, caller_of
from governor.domain.units import UtcDatetime
from governor.domain.wording import people, sentence
from governor.errors import DecisionRefused, InputError, NotAllowed, NotFound
from governor.ports import Clock
from governor.web.responses import Response, redirect

View = Callable[[Reader, Caller, Mapping[str, str], UtcDatetime], Page]
Post = Callable[[Reader, Caller, Mapping[str, str], UtcDatetime], Page | Response | str]
"""Does what a form says, once it is known to be one of the caller's own; returns a page, or where to go."""
_CSV = ".csv"
_OLD = timedelta(minutes=30)
"""A target that no sweep has read for this long counts as not read."""
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Header names are in lower case; `query`, `form` and `cookies` hold every name once."""

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
    def wants_data(self) -> bool:
        return self.wants_json or self.path.endswith(_CSV)

    @property
    def address(self) -> str:
        """The page's own path with its query, to come back to."""
        fields = "&".join(f"{quote(name)}={quote(value)}" for name, value in self.query.items())
        return quote(self.path) + (f"?{fields}" if fields else "")


class Console:
    """Answers requests of the console. One request at a time, as Lambda sends them.

    `views` by their routes; `posts` are what forms do. Both get path parameters as fields of the query.
    """

    def __init__(
        self,
        reader: Callable[[], Reader],
        doors: Doors,
        clock: Clock,
        views: Mapping[str, View],
        posts: Mapping[str, Post] = MappingProxyType({}),
    ) -> None:
        self._reader, self._doors, self._clock = reader, doors, clock
        self._request: Request | None = None
        self._routes = APIGatewayHttpResolver()
        known: dict[str, dict[str, Callable[..., Response]]] = {
            "/console": {"GET": lambda _: doors.show_code(), "POST": self._enter},
            "/sign-out": {"POST": partial(self._post, self._leave)},
        }
        for rule, view in views.items():
            known[rule] = {"GET": partial(self._show, view)}
            if "<" not in rule:
                known[f"{rule if rule != '/' else '/overview'}{_CSV}"] = known[rule]
        for rule, post in posts.items():
            known[rule] = {**known.get(rule, {}), "POST": partial(self._post, post)}
        for rule, answers in known.items():
            for method in _METHODS:
                self._add(rule, method, answers.get("GET" if method == "HEAD" else method, _refused))
        self._routes.not_found(lambda _: self._routed(_missing))

    def handle(self, event: dict[str, Any], context: Any, request: Request) -> dict[str, Any]:
        """Answer one event of API Gateway, which `request` was read from."""
        self._request = request
        answered: dict[str, Any] = self._routes.resolve(event, context)
        return answered

    def _add(self, rule: str, method: str, answer: Callable[..., Response]) -> None:
        def routed(**parameters: str) -> Routed[str]:  # a function, because Powertools asks for its name
            return self._routed(answer, **parameters)

        self._routes.route(rule, method=method)(routed)

    def _routed(self, answer: Callable[..., Response], **parameters: str) -> Routed[str]:
        assert self._request is not None
        return _routed(answer(self._request, **parameters), is_head=self._request.method == "HEAD")

    def _enter(self, request: Request) -> Response:
        return _from_elsewhere(request) or self._doors.take_code(request.form, self._clock.now())

    def _leave(self, _: Reader, caller: Caller, __: Mapping[str, str], now: UtcDatetime) -> Response:
        return self._doors.leave(caller.session_id, now)

    def _show(self, view: View, request: Request, **parameters: str) -> Response:
        return self._known(request, partial(self._view, view, request, parameters))

    def _post(self, post: Post, request: Request, **parameters: str) -> Response:
        return _from_elsewhere(request) or self._known(request, partial(self._act, post, request, parameters))

    def _known(self, request: Request, answer: Callable[[Reader, Caller], Response]) -> Response:
        """Answer somebody who has signed in and may see anything at all."""
        known = self._doors.known(request.cookies, self._clock.now())
        if known is None:
            return self._ask_who(request)
        reader = self._reader()
        caller = caller_of(reader.policy, known)
        if not caller.grants:
            who = people(caller.by)
            text = f"The policy names {who} nowhere. Ask your platform team to add you to console.scopes."
            return _failed(request, 403, "Nothing is shared with you", text)
        try:
            return answer(reader, caller)
        except NotFound:
            return _missing(request)
        except NotAllowed as error:
            return _failed(request, 403, "Not allowed", sentence(str(error)))
        except (InputError, DecisionRefused) as error:
            return _failed(request, 400, "That did not work", sentence(str(error)))

    def _view(
        self, view: View, request: Request, parameters: Mapping[str, str], reader: Reader, caller: Caller
    ) -> Response:
        now, named = self._clock.now(), {name: unquote(value) for name, value in parameters.items()}
        as_csv = request.path.endswith(_CSV)
        if as_csv and named:
            last = [*named][-1]
            named[last] = named[last].removesuffix(_CSV)
        page = view(reader, caller, {**request.query, **named}, now)
        if as_csv:
            return formats.as_csv(page, request.query.get("table", ""))
        if request.wants_json:
            return formats.as_json(200, page.document)
        return self._framed(page, reader, caller, request)

    def _act(
        self, post: Post, request: Request, parameters: Mapping[str, str], reader: Reader, caller: Caller
    ) -> Response:
        self._doors.check(request.path, caller, request.form.get("csrf", ""))
        named = {name: unquote(value) for name, value in parameters.items()}
        done = post(reader, caller, {**request.form, **named}, self._clock.now())
        if isinstance(done, str):
            return redirect(done)
        return done if isinstance(done, Response) else self._framed(done, reader, caller, request)

    def _framed(self, page: Page, reader: Reader, caller: Caller, request: Request) -> Response:
        values = {
            "title": page.title,
            "frame": frame(reader, caller, request.path, self._clock.now()),
            "csrf": lambda path: self._doors.token(path, caller),
            **page.values,
        }
        return formats.html(200, page.template, **values)

    def _ask_who(self, request: Request) -> Response:
        has_issuer = self._doors.has_issuer
        if has_issuer and request.method != "POST" and not request.wants_data:
            return redirect(f"/sign-in?return={quote(request.address, safe='')}")
        how = "Sign in first." if has_issuer else "Run `governor open`: it prints the address."
        return _failed(request, 401, "Not signed in", how)


def _from_elsewhere(request: Request) -> Response | None:
    if request.headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none"):
        return None
    return _failed(request, 403, "Refused", "The request came from another site.")


def _missing(request: Request) -> Response:
    return _failed(request, 404, "Not found", "There is no such page, or it is not shared with you.")


def _refused(request: Request, **_: str) -> Response:
    return _failed(request, 405, "Method not allowed", "This page does not know that method.")


def frame(reader: Reader, caller: Caller, path: str, now: UtcDatetime) -> Mapping[str, object]:
    """Return what stands at the head of each page. Only what the caller sees counts."""
    sees = caller.scope
    pages = {
        one.target: one
        for one in reader.pages
        if sees.everything
        or one.account in sees.accounts
        or any(sees.sees(row.account, row.project, row.owner) for row in one.rows)
    }
    wanted = {one for one in reader.targets if sees.everything or one.account in sees.accounts} | pages.keys()
    unread = [one for one in wanted if one not in pages or now - pages[one].swept_at > _OLD]
    return {
        "environment": reader.environment,
        "mode": reader.policy.mode.value,
        "swept": now - min(one.swept_at for one in pages.values()) if pages else None,
        "targets": len(wanted),
        "unread": len(unread),
        "by": caller.by,
        "path": path,
    }


def _failed(request: Request, status: int, title: str, text: str) -> Response:
    if request.wants_data:
        return formats.as_json(status, {"error": text})
    return formats.html(status, "refused.html", title=title, text=text)


def _routed(response: Response, *, is_head: bool) -> Routed[str]:
    headers = dict(response.headers)
    if response.cookies:
        # One at most: the session begins or ends.
        [headers["Set-Cookie"]] = response.cookies
    return Routed(response.status, headers.pop("Content-Type"), "" if is_head else response.body, headers)
