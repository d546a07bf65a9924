"""Writes a page of the console as HTML, JSON or CSV, with its security headers.

All three show the same page: no figure is computed here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from markupsafe import Markup

from governor.console.page import Page
from governor.console.parts import chosen, csv_parts
from governor.core.documents import csv_text, plain
from governor.core.errors import NotFound
from governor.web.responses import (
    HEADER,
    HEADERS,
    QUESTIONS,
    SEVERAL,
    TOKENS,
    Response,
    environment,
    policy_of,
    style_of,
)

_FOLDER = Path(__file__).parent / "templates"
_STYLE = TOKENS + HEADER + QUESTIONS + style_of(_FOLDER / "console.css")
_SCRIPTS = {"enter": (_FOLDER / "enter.js").read_text(encoding="utf-8"), "several": SEVERAL}
TEMPLATES = environment(_STYLE, _FOLDER)
TEMPLATES.globals["scripts"] = {
    name: Markup(text)  # noqa: S704 - ours
    for name, text in _SCRIPTS.items()
}
_HEADERS = {
    **HEADERS,
    "Content-Security-Policy": policy_of(_STYLE, *_SCRIPTS.values()),
    "Vary": "Accept, Cookie",
}
_HTML = "text/html; charset=utf-8"
_JSON = "application/json"
_CSV = "text/csv; charset=utf-8"


def answer(status: int, body: str, kind: str = _HTML, **headers: str) -> Response:
    """Return a response with the headers of the console; `kind` is its content type. `headers` are
    further ones, or replace those of the same name."""
    return Response(status, body, {**_HEADERS, "Content-Type": kind, **headers})


def html(status: int, template: str, **values: object) -> Response:
    """Return a page of HTML: the template of this file name, such as `fleet.html`, with these
    values. Raises: jinja2.UndefinedError if it names a value that is missing."""
    return answer(status, TEMPLATES.get_template(template).render(**values))


def header_html(**values: object) -> Markup:
    """Return the header of every page of the console, for a page that is no template of it. Raises:
    jinja2.UndefinedError if the header names a value that is missing."""
    header = TEMPLATES.get_template("header.html").render(**values)
    return Markup(header)  # noqa: S704 - escaped by its template


def as_json(status: int, document: Mapping[str, object]) -> Response:
    """Return a response with this document as JSON; times and amounts in it become text."""
    return answer(status, json.dumps(document, default=plain), _JSON)


def as_csv(page: Page, name: str, part: str = "", *, is_whole: bool) -> Response:
    """Return the table of a page with this name as a CSV file; its first one if `name` is empty. A
    table that is too long for an answer comes in parts, and the file's name says which one it is.
    Unless `is_whole`, the file's name ends with `-incomplete`, as something is missing. Raises:
    NotFound if the page has no such table, or none at all; InputError for a part that there is
    not."""
    for table in page.tables:
        if name in ("", table.name):
            break
    else:
        raise NotFound(f"this page has no table {name!r}")
    parts = csv_parts(table)
    number, rows = chosen(parts, part)
    of_parts = f"-part-{number}-of-{len(parts)}" if len(parts) > 1 else ""
    suffix = "" if is_whole else "-incomplete"
    disposition = f'attachment; filename="{table.name}{of_parts}{suffix}.csv"'
    text = csv_text(table.columns, rows)
    return answer(200, text, _CSV, **{"Content-Disposition": disposition})
