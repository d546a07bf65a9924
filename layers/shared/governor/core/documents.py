"""Converts records to JSON values and to CSV, for people and machines.

No cell of a CSV may be run as a formula by a spreadsheet.
"""

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

from governor.core.units import as_utc, iso

_FINEST = Decimal("0.000001")
"""Amounts are rounded to this only as text. Before that sums are exact, and a rate an hour
multiplied by seconds has endless decimals."""
_FORMULA = re.compile(r"((?:^|[;,|\t\r\n])[\s\x00-\x1f]*)(?=[=+\-@])|^(?=[\t\r])")
"""Places before a text that a spreadsheet reads as a formula. Source: OWASP, CSV injection."""
_SEPARATORS = (";", ",", "|", "\t", "\r", "\n")
"""Characters at which a spreadsheet may split a cell, as in `_FORMULA`."""


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as CSV (RFC 4180). Cells that a spreadsheet would run as a formula start with
    `'`."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(cell) for cell in row])
    return text.getvalue()


def _cell(cell: object) -> str:
    """Return the value of a cell as text that no spreadsheet runs as a formula; an empty text for
    `None`."""
    if cell is None:
        return ""
    text = cell if isinstance(cell, str) else str(plain(cell))
    if isinstance(cell, int | float | Decimal) or _is_plain(text):
        return text
    # A spreadsheet whose lists are separated by `;` splits a cell there, too, quoted or not. A sign
    # of full width, or after invisible characters, begins a formula as well: such a cell is
    # compared and written in its plain form.
    visible = _visible(unicodedata.normalize("NFKC", text))
    safe = _FORMULA.sub(r"\1'", visible)
    return text if safe == visible else safe


def _is_plain(text: str) -> bool:
    """Return whether an ASCII text begins with a letter or a digit and has no separator, as most
    cells do: no formula can begin in it, so that it need not be searched for one."""
    if not text.isascii() or not text[:1].isalnum():
        return False
    return not any(separator in text for separator in _SEPARATORS)


def _visible(text: str) -> str:
    """Return a text without format characters, which cannot be seen."""
    if text.isascii():
        return text
    return "".join(character for character in text if unicodedata.category(character) != "Cf")


def plain(value: object) -> Any:
    """Return the JSON value of a record, or of a part of one: a time as ISO 8601, a length as whole
    seconds, an enum as its value, a set as a sorted list, a record as a mapping of its fields.

    An amount (Decimal) is a text, rounded to six decimals if it has more; an int, a float or a bool
    stays. Anything else is its `str`.
    """
    if isinstance(value, Decimal):
        exact = f"{value:f}"
        rounded = f"{value.quantize(_FINEST, rounding=ROUND_HALF_UP):f}"
        return min(exact, rounded, key=len)
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
    if isinstance(value, int | float):
        return value
    return str(value)
