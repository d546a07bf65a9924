"""Addresses of the console's pages, and the fields of a request that come from an address.

A field that a client may send in any form is refused with a text that says what it can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote, unquote, urlencode

from governor.console.page import ViewRequest
from governor.core.errors import InputError
from governor.core.units import Item, UtcDatetime, listed
from governor.money.rules.cost import month_start, parse_month

LONGEST_TEXT = 300
"""Longest text of a search or a filter."""


def project_href(name: str) -> str:
    """Return the path of a project's page: `/projects/a~2Fb` for `a/b`. It escapes by `~`, because
    API Gateway decodes `%`, and escapes dots, because browsers take `..` out."""
    escaped = quote(name, safe="").replace("~", "%7E").replace(".", "%2E")
    return f"/projects/{escaped.replace('%', '~')}"


def name_in(part: str) -> str:
    """Return the name in a part of a path, as `project_href` wrote it (`a/b` for `a~2Fb`), or as
    somebody typed it with `%`."""
    return unquote(part.replace("~", "%"))


def with_query(path: str, query: Mapping[str, object]) -> str:
    """Return the path with a query of those fields that are set, neither empty nor `None`; without
    any, the path alone."""
    fields_set = {name: value for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(fields_set)}" if fields_set else path


def text_of(request: ViewRequest, name: str) -> str:
    """Return one field of the query without spaces at its ends; empty if it is not set. Raises:
    InputError if it is too long."""
    text = request.query.get(name, "").strip()
    if len(text) > LONGEST_TEXT:
        what = "the search" if name == "q" else name
        raise InputError(f"{what} is longer than {LONGEST_TEXT} characters: shorten it")
    return text


def choice_of(request: ViewRequest, name: str, known: Sequence[str], default: str) -> str:
    """Return one field of the query, or the default if it is not set. Raises: InputError, which
    says what it can be, if it is none of the known values."""
    text = text_of(request, name)
    if text and text not in known:
        raise InputError(f"{name} can be {listed(known, len(known))}")
    return text or default


def paged(
    request: ViewRequest, path: str, kept: Mapping[str, object], items: Sequence[Item], size: int
) -> tuple[Sequence[Item], Mapping[str, object]]:
    """Return the items of the page that the query's `page` names, and the template's values about
    the pages: `number` and `last`, the number of the `first` item, and the addresses `before` and
    `after` (empty if there is none), which keep the fields `kept`. Raises: InputError for a page
    that there is not."""
    # Rounded up; without items, there is one empty page.
    last = max(1, -(-len(items) // size))
    number = _page_number(request, last)
    start = size * (number - 1)

    def address_of(neighbor: int) -> str:
        """Return the address of a neighboring page; empty if there is none."""
        if not 1 <= neighbor <= last:
            return ""
        return with_query(path, {**kept, "page": neighbor if neighbor > 1 else ""})

    pages = {
        "before": address_of(number - 1),
        "after": address_of(number + 1),
        "number": number,
        "last": last,
        "first": start + 1,
    }
    return items[start : start + size], pages


def _page_number(request: ViewRequest, last: int) -> int:
    """Return the number in the query's `page`, from 1 (the default) to `last`. Raises: InputError
    for anything else."""
    text = text_of(request, "page") or "1"
    is_number = text.isascii() and text.isdecimal() and len(text) <= 6
    if not is_number or not 1 <= int(text) <= last:
        raise InputError(f"page must be a number from 1 to {last:,}")
    return int(text)


def month_in(request: ViewRequest) -> UtcDatetime:
    """Return the beginning (UTC) of the month in the query, `month=2026-11`; of this month if it
    names none. Raises: InputError for another form, and outside of the last five years."""
    text = text_of(request, "month")
    this_month = month_start(request.now)
    try:
        month = parse_month(text) if text else this_month
    except ValueError:
        raise InputError(f"month must be written as {this_month:%Y-%m}") from None
    if not this_month.replace(year=this_month.year - 5) <= month <= this_month:
        raise InputError(f"month must lie in the last five years, up to {this_month:%Y-%m}")
    return month
