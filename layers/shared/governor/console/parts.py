"""Splits long tables and lists into parts, because an answer of Lambda has at most 6 MB.

A part is chosen by the query's `part`, from 1. Nothing is cut without saying how many parts there
are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

from governor.console.page import Page, Table
from governor.core.documents import csv_text, plain
from governor.core.errors import InputError
from governor.core.units import Item

MOST_BYTES = 4_000_000
"""Bytes of the rows of one answer, as Lambda counts them: the body is a JSON text in its answer.
The rest of the limit of 6 MB is for headers and for what stands beside the rows."""

_MEASURED_AT_ONCE = 50
_LARGEST_PIECE = MOST_BYTES // 20


def csv_parts(table: Table) -> list[Sequence[Any]]:
    """Return the rows of a table by parts of the CSV, each small enough for an answer; one part
    without rows if the table has none."""
    return _parts(table.rows, _csv_bytes)


def chosen(parts: Sequence[Item], part: str) -> tuple[int, Item]:
    """Return the number of the part that a query names, which is 1 if it is empty, and the part.
    Raises: InputError for a part that there is not."""
    text = part.strip() or "1"
    is_number = text.isascii() and text.isdecimal() and len(text) <= 6
    if not is_number or not 1 <= int(text) <= len(parts):
        raise InputError(f"part must be a number from 1 to {len(parts):,}")
    return int(text), parts[int(text) - 1]


def document_part(page: Page, part: str) -> dict[str, object]:
    """Return the page's document with the part of its long lists that a query names, and with the
    numbers `part` and `parts`; the whole document if it has no long lists. A list with fewer parts
    than another is empty in the further ones. Raises: InputError for a part that there is not."""
    document = dict(page.document)
    if not page.long_lists:
        return document
    lists = [_parts(_list_in(document, name), _json_bytes) for name in page.long_lists]
    number, members = chosen([*zip_longest(*lists, fillvalue=())], part)
    for name, items in zip(page.long_lists, members, strict=True):
        document[name] = list(items)
    document["part"] = number
    document["parts"] = max(len(parts) for parts in lists)
    return document


def _list_in(document: dict[str, object], name: str) -> Sequence[Any]:
    """Return the list of this name in a document."""
    found: Any = document[name]
    return list(found)


def _parts(
    items: Sequence[Item], bytes_of: Callable[[Sequence[Item]], int]
) -> list[Sequence[Item]]:
    """Return the items in parts of at most `MOST_BYTES`, in their order; one empty part without
    items."""
    parts: list[Sequence[Item]] = []
    part: list[Item] = []
    size = 0
    for piece, own_size in _pieces(items, bytes_of):
        if part and size + own_size > MOST_BYTES:
            parts.append(part)
            part = []
            size = 0
        part.extend(piece)
        size += own_size
    parts.append(part)
    return parts


def _pieces(
    items: Sequence[Item], bytes_of: Callable[[Sequence[Item]], int]
) -> Iterator[tuple[Sequence[Item], int]]:
    """Yield the items in small pieces, in their order, each with its size: many at once, or one by
    one where they are so large that a part would stay half empty. Measuring each alone is slow."""
    for first in range(0, len(items), _MEASURED_AT_ONCE):
        piece = items[first : first + _MEASURED_AT_ONCE]
        size = bytes_of(piece)
        if size <= _LARGEST_PIECE:
            yield piece, size
            continue
        for item in piece:
            yield [item], bytes_of([item])


def _csv_bytes(rows: Sequence[Any]) -> int:
    """Return how many bytes of Lambda's answer these rows of a CSV are."""
    return len(json.dumps(csv_text((), rows)))


def _json_bytes(items: Sequence[Any]) -> int:
    """Return how many bytes of Lambda's answer these items of a JSON list are."""
    return len(json.dumps(json.dumps(items, default=plain)))
