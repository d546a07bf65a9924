"""A page as HTML, JSON or CSV, with the headers that keep it private."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

from markupsafe import Markup

from governor.console.page import Cell, Page, Table
from governor.domain.units import as_utc, iso
from governor.errors import NotFound
from governor.web.responses import HEADERS, QUESTIONS, SEVERAL, TOKENS, Response, environment, policy_of

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
_FORMULA = re.compile(r"((?:^|[;,|\t\r\n])[\s\x00-\x1f]*)(?=[=+\-@])|^(?=[\t\r])")
"""Before what a spreadsheet reads as a formula. Source: OWASP, CSV injection."""


def answer(status: int, body: str, kind: str = _HTML, **more: str) -> Response:
    return Response(status, body, {**_HEADERS, "Content-Type": kind, **more})


def html(status: int, template: str, **values: object) -> Response:
    return answer(status, TEMPLATES.get_template(template).render(**values))


def as_json(status: int, document: Mapping[str, object]) -> Response:
    return answer(status, json.dumps(document, default=_plain), _JSON)


def as_csv(page: Page, name: str, *, is_whole: bool) -> Response:
    """Return one table, by default the first; its file's name says what is left out. Raises: NotFound."""
    table = next((one for one in page.tables if name in ("", one.name)), None)
    if table is None:
        raise NotFound(f"this page has no table {name!r}")
    file = f"{table.name}{'' if is_whole else '-incomplete'}.csv"
    return answer(200, csv_text(table), _CSV, **{"Content-Disposition": f'attachment; filename="{file}"'})


def csv_text(table: Table) -> str:
    """Return a table as CSV (RFC 4180). No cell becomes a formula where a spreadsheet opens it."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(table.columns)
    writer.writerows([_cell(cell) for cell in row] for row in table.rows)
    return text.getvalue()


def _cell(cell: Cell) -> str:
    if cell is None:
        return ""
    text = str(cell if isinstance(cell, str) else _plain(cell))
    if isinstance(cell, int | float | Decimal):
        return text
    # Where lists are separated by `;`, a spreadsheet splits a cell there, too, quoted or not. A sign of full
    # width, or behind what cannot be seen, begins a formula as well: such a cell is written plainly.
    known = unicodedata.normalize("NFKC", text)
    seen = known if known.isascii() else "".join(one for one in known if unicodedata.category(one) != "Cf")
    safe = _FORMULA.sub(r"\1'", seen)
    return text if safe == seen else safe


def _plain(value: object) -> Any:
    if isinstance(value, datetime):
        return iso(as_utc(value))
    if isinstance(value, timedelta):
        return int(value.total_seconds())
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, frozenset | set):
        return sorted(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value if isinstance(value, int | float) else str(value)
