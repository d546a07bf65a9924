"""Records as people and machines take them away: plain values of JSON, and CSV that no spreadsheet
runs."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict, is_dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from enum import Enum
from typing import Any

from governor.domain.units import as_utc, iso

_FINEST = Decimal("0.000001")
"""Sums before it are exact: a rate an hour has no end of decimals where time is in seconds."""
_FORMULA = re.compile(r"((?:^|[;,|\t\r\n])[\s\x00-\x1f]*)(?=[=+\-@])|^(?=[\t\r])")
"""Before what a spreadsheet reads as a formula. Source: OWASP, CSV injection."""


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as CSV (RFC 4180). No cell becomes a formula where a spreadsheet opens it."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows([_cell(cell) for cell in row] for row in rows)
    return text.getvalue()


def _cell(cell: object) -> str:
    if cell is None:
        return ""
    text = str(cell if isinstance(cell, str) else plain(cell))
    if isinstance(cell, int | float | Decimal):
        return text
    # Where lists are separated by `;`, a spreadsheet splits a cell there, too, quoted or not. A
    # sign of full width, or behind what cannot be seen, begins a formula as well: such a cell is
    # written plainly.
    known = unicodedata.normalize("NFKC", text)
    seen = (
        known
        if known.isascii()
        else "".join(one for one in known if unicodedata.category(one) != "Cf")
    )
    safe = _FORMULA.sub(r"\1'", seen)
    return text if safe == seen else safe


def plain(value: object) -> Any:
    """Return what JSON holds in its place: an amount as text, in millionths of a USD where it is
    finer."""
    if isinstance(value, Decimal):
        return min(f"{value:f}", f"{value.quantize(_FINEST, rounding=ROUND_HALF_UP):f}", key=len)
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
