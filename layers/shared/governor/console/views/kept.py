"""The page Left alone: the reason of each instance that is left alone, until when, and USD a day.
Kept ones are a part of them.

Everything is computed by `fleet.rules.kept`, as for the report; this page only arranges it.
"""

from __future__ import annotations

from typing import NamedTuple

from governor.console.page import Page, Table, ViewRequest
from governor.console.views import addresses, figures
from governor.fleet.rules.kept import COLUMNS, KeptInstance, KeptSum

_ROWS = 100


class _Line(NamedTuple):
    """One instance as the table shows it, with the address of its page."""

    kept: KeptInstance
    href: str


def kept(request: ViewRequest) -> Page:
    """Return the page of the instances that are left alone, of those that the caller may see.
    Raises: InputError for a page that cannot be; CloudError."""
    kept_now = figures.kept(request)
    shown, pages = addresses.paged(request, "/kept", {}, kept_now.instances, _ROWS)
    lines = [_Line(instance, figures.href(instance.row)) for instance in shown]
    sums = tuple(tuple(kept_sum) for kept_sum in kept_now.sums)
    return Page(
        title="Left alone",
        template="kept.html",
        values={"kept": kept_now, "lines": lines, "pages": pages},
        document=kept_now.document,
        tables=(Table("kept", COLUMNS, kept_now.rows), Table("reasons", KeptSum._fields, sums)),
    )
