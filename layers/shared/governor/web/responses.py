"""Responses of the approval site: templates, security headers (CSP), and pages for refused or
expired links.

No page loads anything from elsewhere: the style sheet and the scripts are inline, and the content
security policy names their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from governor.core.errors import LinkError, LinkExpired
from governor.core.line_breaks import steady_page
from governor.core.units import daily_cost, left, people, span, usd
from governor.episode.model.plan import STEP_TEXT

FOLDER = Path(__file__).parent / "templates"
_COMMENT = re.compile(r"/\*.*?\*/\n?", re.DOTALL)


def style_of(path: Path) -> str:
    """Return the style sheet in this file without its comments, which no browser needs."""
    return _COMMENT.sub("", path.read_text(encoding="utf-8"))


TOKENS, HEADER, _PAGE, QUESTIONS = (
    style_of(FOLDER / f"{name}.css") for name in ("tokens", "header", "page", "questions")
)
_SCRIPT, SEVERAL = (
    (FOLDER / name).read_text(encoding="utf-8") for name in ("follow.js", "questions.js")
)
_STYLE = TOKENS + HEADER + _PAGE + QUESTIONS


def environment(style: str, *folders: Path) -> Environment:
    """Return an environment of Jinja for the templates in these folders and in those of the pages
    of links, with this style sheet and the filters that all of them need."""
    templates = Environment(
        loader=FileSystemLoader([*folders, FOLDER]),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals["style"] = Markup(style)  # noqa: S704 - our own file
    templates.filters.update(
        usd=usd,
        daily_cost=daily_cost,
        span=span,
        people=people,
        left=left,
        step=STEP_TEXT.__getitem__,
    )
    return templates


TEMPLATES = environment(_STYLE)
"""The module `pages` adds the filters for pages that show an instance."""
TEMPLATES.globals["follow"] = Markup(_SCRIPT)  # noqa: S704 - our own file


def _source(text: str) -> str:
    """Return the source of a content security policy that allows this text alone."""
    text_hash = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(text_hash).decode()}'"


def policy_of(style: str, *scripts: str) -> str:
    """Return the content security policy of a page with this style and these scripts, and no
    others."""
    script_sources = " ".join(map(_source, scripts)) or "'none'"
    return (
        f"default-src 'none'; img-src data:; style-src {_source(style)}; "
        f"script-src {script_sources}; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )


HEADERS: Mapping[str, str] = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": policy_of(_STYLE, _SCRIPT, SEVERAL),
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
"""The headers of every answer: no cache, no frame, no referrer, and only our own scripts and
styles."""


@dataclass(frozen=True, slots=True)
class Response:
    """One response; the body is HTML. `cookies` are whole values of `Set-Cookie`; `note` is for the
    log."""

    status: int
    body: str
    headers: Mapping[str, str]
    note: str | None = None
    cookies: tuple[str, ...] = ()

    @property
    def sent(self) -> str:
        """Return the body as it is sent: in a page, times and ids do not break."""
        is_page = self.headers.get("Content-Type", "").startswith("text/html")
        if is_page:
            return steady_page(self.body)
        return self.body


def refusal(
    status: int, title: str, text: str, *, note: str | None = None, cookies: tuple[str, ...] = ()
) -> Response:
    """Return the page of a refusal, with this status, title and text. `note` is for the log, `None`
    for none; `cookies` are whole values of `Set-Cookie`."""
    body = TEMPLATES.get_template("refusal.html").render(title=title, text=text)
    return Response(status, body, HEADERS, note, cookies)


def bad_request(text: str) -> Response:
    """Return the page (400) for a request that could not be read; `text` says why."""
    return refusal(
        400, "The request could not be read", f"Open the link in the message again: {text}."
    )


_OVER = (
    "The newest message about the instance says what happened to it, and has a link that works. "
    "If you have none, ask the owner of the instance, or the administrators of GPU Governor."
)


def bad_link(error: LinkError) -> Response:
    """Return the page for a link that has expired (410), or that is forged or changed (403).

    The link to an answered question is not over: it shows the record until `Approval.link_ends`.
    """
    if isinstance(error, LinkExpired):
        return refusal(410, "This link has expired", _OVER)
    text = (
        "GPU Governor did not make it, or it was changed on its way. Use the link in the message."
    )
    return refusal(403, "This link is not valid", text)


def redirect(location: str, *, note: str | None = None, cookies: tuple[str, ...] = ()) -> Response:
    """Return the answer (303) that sends the browser to this address with a GET. `note` is for the
    log; `cookies` are whole values of `Set-Cookie`."""
    return Response(303, "", {**HEADERS, "Location": location}, note, cookies)


def to_lambda(response: Response) -> dict[str, Any]:
    """Return the response in the form that API Gateway takes from a function."""
    answer: dict[str, Any] = {
        "statusCode": response.status,
        "headers": dict(response.headers),
        "body": response.sent,
    }
    if response.cookies:
        answer["cookies"] = list(response.cookies)
    return answer
