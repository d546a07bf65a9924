"""What every page of the approval site answers with: the headers that keep it closed, and refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from governor.web import frame


@dataclass(frozen=True, slots=True)
class Response:
    """One response; the body is HTML. `note` is for the log: what an operator should know of it.

    `cookies` are whole values of `Set-Cookie`.
    """

    status: int
    body: str
    headers: Mapping[str, str]
    note: str | None = None
    cookies: tuple[str, ...] = ()


def refusal(
    status: int, title: str, text: str, *, note: str | None = None, cookies: tuple[str, ...] = ()
) -> Response:
    """Says why a request was refused, and nothing about any instance."""
    return Response(status, frame.refusal_page(title, text), headers(), note, cookies)


def bad_request(text: str) -> Response:
    """The answer to a request that cannot be read."""
    return refusal(400, "The request could not be read", f"Open the link of the message again: {text}.")


def redirect(location: str, *, note: str | None = None, cookies: tuple[str, ...] = ()) -> Response:
    """To be fetched by GET, whatever this request was."""
    return Response(303, "", {**headers(), "Location": location}, note, cookies)


def headers() -> dict[str, str]:
    """For every answer: no cache, no frame, no referrer, no script and no style but our own."""
    return {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": (
            f"default-src 'none'; style-src {frame.source('page.css')}; "
            f"script-src {frame.source('follow.js')}; "
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


def to_lambda(response: Response) -> dict[str, Any]:
    """As the HTTP API takes it (payload 2.0)."""
    answer: dict[str, Any] = {
        "statusCode": response.status,
        "headers": dict(response.headers),
        "body": response.body,
    }
    if response.cookies:
        answer["cookies"] = list(response.cookies)
    return answer
