"""The console's routes: a request in, a page as HTML, JSON or CSV out. GET and HEAD change nothing.

Routing is Powertools' event handler (decision 0008); this is the one module beside handlers that knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from aws_lambda_powertools.event_handler import Response as Routed

from governor.console import formats
from governor.console.page import Caller, Page
from governor.console.reader import Reader
from governor.domain.units import UtcDatetime
from governor.errors import InputError, NotFound
from governor.ports import Clock
from governor.web.responses import Response, redirect

View = Callable[[Reader, Caller, Mapping[str, str], UtcDatetime], Page]
_CSV = ".csv"
_READS, _OTHERS = ["GET", "HEAD"], ["POST", "PUT", "PATCH", "DELETE"]


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
    def address(self) -> str:
        """The page's own path with its query, to come back to."""
        fields = "&".join(f"{quote(name)}={quote(value)}" for name, value in self.query.items())
        return quote(self.path) + (f"?{fields}" if fields else "")


@dataclass(frozen=True, slots=True)
class Doors:
    """How people come in: `identify` reads the session of a request, `sign_in` is set where an issuer is."""

    identify: Callable[[Mapping[str, str], UtcDatetime], Caller | None]
    sign_in: bool


class Console:
    """Answers requests of the console. One request at a time, as Lambda sends them."""

    def __init__(
        self, reader: Callable[[], Reader], doors: Doors, clock: Clock, views: Mapping[str, View]
    ) -> None:
        self._reader, self._doors, self._clock = reader, doors, clock
        self._request: Request | None = None
        self._routes = APIGatewayHttpResolver()
        for rule, view in views.items():
            shown = partial(self._show, view)
            self._add(rule, _READS, shown)
            if "<" not in rule:
                self._add(f"{rule if rule != '/' else '/overview'}{_CSV}", _READS, shown)
            self._add(rule, _OTHERS, _refused)
        self._routes.not_found(lambda _: self._routed(_missing))

    def handle(self, event: dict[str, Any], context: Any, request: Request) -> dict[str, Any]:
        """Answer one event of API Gateway, which `request` was read from."""
        self._request = request
        answered: dict[str, Any] = self._routes.resolve(event, context)
        return answered

    def _add(self, rule: str, methods: list[str], answer: Callable[..., Response]) -> None:
        def routed(**parameters: str) -> Routed[str]:  # a function, because Powertools asks for its name
            return self._routed(answer, **parameters)

        self._routes.route(rule, method=methods)(routed)

    def _routed(self, answer: Callable[..., Response], **parameters: str) -> Routed[str]:
        assert self._request is not None
        return _routed(answer(self._request, **parameters), is_head=self._request.method == "HEAD")

    def _show(self, view: View, request: Request, **parameters: str) -> Response:
        now = self._clock.now()
        try:
            caller = self._doors.identify(request.cookies, now)
            if caller is None:
                return self._ask_who(request)
            if not caller.grants:
                return _failed(
                    request,
                    403,
                    "Nothing is shared with you",
                    f"The policy gives {caller.by} nothing to see. Ask whoever keeps the policy to add you "
                    "to ownership.contacts or console.scopes.",
                )
            reader = self._reader()
            named = {name: unquote(value) for name, value in parameters.items()}
            as_csv = request.path.endswith(_CSV)
            if as_csv and named:
                last = [*named][-1]
                named[last] = named[last].removesuffix(_CSV)
            page = view(reader, caller, {**request.query, **named}, now)
            if as_csv:
                return formats.as_csv(page, request.query.get("table", ""))
            if request.wants_json:
                return formats.as_json(200, page.document)
            return self._framed(page, reader, caller, request, now)
        except NotFound:
            return _missing(request)
        except InputError as error:
            return _failed(request, 400, "The request could not be read", f"{error}.")

    def _framed(
        self, page: Page, reader: Reader, caller: Caller, request: Request, now: UtcDatetime
    ) -> Response:
        return formats.html(
            200,
            page.template,
            title=page.title,
            frame=frame(reader, caller, request.path, now),
            **page.values,
        )

    def _ask_who(self, request: Request) -> Response:
        if self._doors.sign_in and not request.wants_json and not request.path.endswith(_CSV):
            return redirect(f"/sign-in?return={quote(request.address, safe='')}")
        how = "Sign in first." if self._doors.sign_in else "Run `governor open`: it prints the address."
        return _failed(request, 401, "Not signed in", how)


def _missing(request: Request) -> Response:
    return _failed(request, 404, "Not found", "There is no such page, or it is not shared with you.")


def _refused(request: Request, **_: str) -> Response:
    return _failed(request, 405, "Method not allowed", "This page knows GET and HEAD.")


def frame(reader: Reader, caller: Caller, path: str, now: UtcDatetime) -> Mapping[str, object]:
    """Return what stands at the head of each page. Only what the caller sees counts."""
    sees = caller.scope
    pages = [
        one
        for one in reader.pages
        if sees.everything
        or one.account in sees.accounts
        or any(sees.sees(row.account, row.project, row.owner) for row in one.rows)
    ]
    swept = [one.swept_at for one in pages if one.swept_at is not None]
    return {
        "environment": reader.environment,
        "mode": reader.policy.mode.value,
        "swept": now - min(swept) if swept else None,
        "targets": len(pages),
        "unread": sum(one.problem is not None for one in pages),
        "by": caller.by,
        "path": path,
    }


def _failed(request: Request, status: int, title: str, text: str) -> Response:
    if request.wants_json or request.path.endswith(_CSV):
        return formats.as_json(status, {"error": text})
    return formats.html(status, "refused.html", title=title, text=text)


def _routed(response: Response, *, is_head: bool) -> Routed[str]:
    headers = dict(response.headers)
    if response.cookies:
        # One at most: the session begins or ends.
        [headers["Set-Cookie"]] = response.cookies
    return Routed(response.status, headers.pop("Content-Type"), "" if is_head else response.body, headers)
