"""A page as HTML, JSON or CSV, with the headers that keep it private."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from markupsafe import Markup

from governor.console.page import Page
from governor.domain.documents import plain
from governor.errors import NotFound
from governor.web.responses import (
    HEADERS,
    QUESTIONS,
    SEVERAL,
    TOKENS,
    Response,
    environment,
    policy_of,
)

_FOLDER = Path(__file__).parent / "templates"
_STYLE = TOKENS + QUESTIONS + (_FOLDER / "console.css").read_text(encoding="utf-8")
_SCRIPTS = {"enter": (_FOLDER / "enter.js").read_text(encoding="utf-8"), "several": SEVERAL}
TEMPLATES = environment(_STYLE, _FOLDER)
TEMPLATES.globals["scripts"] = {name: Markup(text) for name, text in _SCRIPTS.items()}  # noqa: S704 - ours
_HEADERS = {
    **HEADERS,
    "Content-Security-Policy": policy_of(_STYLE, *_SCRIPTS.values()),
    "Vary": "Accept, Cookie",
}
_HTML, _JSON, _CSV = "text/html; charset=utf-8", "application/json", "text/csv; charset=utf-8"


def answer(status: int, body: str, kind: str = _HTML, **more: str) -> Response:
    return Response(status, body, {**_HEADERS, "Content-Type": kind, **more})


def html(status: int, template: str, **values: object) -> Response:
    return answer(status, TEMPLATES.get_template(template).render(**values))


def as_json(status: int, document: Mapping[str, object]) -> Response:
    return answer(status, json.dumps(document, default=plain), _JSON)


def as_csv(page: Page, name: str, *, is_whole: bool) -> Response:
    """Return one table, by default the first; its file's name says what is left out. Raises:
    NotFound."""
    table = next((one for one in page.tables if name in ("", one.name)), None)
    if table is None:
        raise NotFound(f"this page has no table {name!r}")
    file = f"{table.name}{'' if is_whole else '-incomplete'}.csv"
    return answer(200, table.csv, _CSV, **{"Content-Disposition": f'attachment; filename="{file}"'})
