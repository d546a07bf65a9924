"""Order and sums of a scan's report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from governor.scan.model import Row

OWNER_KEYS = ("owner", "createdby", "creator", "user", "contact", "email", "team")
"""Tag keys that name an owner, by letters and digits alone, the most exact first."""


def by_waste(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the rows in the order of the report: waste first, then what was not measured, then
    the others; in each part the most expensive first, and an unknown price last."""
    return tuple(sorted(rows, key=_place_in_report))


def _place_in_report(row: Row) -> tuple[int, Decimal, str, str, str]:
    """Return what the report is sorted by. Names end ties, so that two scans give one order."""
    finding = row.judgment.finding
    part = 2
    if finding.is_waste:
        part = 0
    elif row.judgment.strength == "none":
        part = 1
    price = row.usd_per_month or Decimal()
    return part, -price, row.kind, str(row.resource.target), row.resource.resource_id


def owner_of(tags: Sequence[tuple[str, str]]) -> str | None:
    """Return the value of the first tag whose key names an owner, in the order of `OWNER_KEYS`;
    `None` if there is none, or its value is blank."""
    value_by_key = {_letters(key): value.strip() for key, value in tags}
    for key in OWNER_KEYS:
        if value_by_key.get(key):
            return value_by_key[key]
    return None


def _letters(key: str) -> str:
    """Return the key in lower case, letters and digits alone: `Created-By` is `createdby`."""
    return "".join(character for character in key.casefold() if character.isalnum())
