"""The Fleet: every instance, searched, filtered, sorted and paged by the address; ungoverned ones
apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from governor.console.page import Asked, Page
from governor.console.views import figures
from governor.domain.fleet.rows import MOST_UNGOVERNED, UNGOVERNED, FleetPage, FleetRow
from governor.domain.sweep.verdict import IDLE, VerdictKind
from governor.domain.units import HOURS_PER_MONTH

SIZES = (100, 250, 500)
"""Rows on a page."""
_OFFERED = 50
"""Names that a filter offers; any other can be typed."""
_PLACES = ("owner", "project", "account", "region")
_SEARCHED = ("name", "instance_id", "instance_type", *_PLACES)
_ORDERS: Mapping[str, Callable[[FleetRow], Any]] = {
    "idle": lambda row: (row.verdict not in IDLE, -figures.price(row)),
    "price": lambda row: -figures.price(row),
    "name": lambda row: row.name.casefold(),
    "type": lambda row: row.instance_type,
    "started": lambda row: row.launched_at,
    **{name: attrgetter(name) for name in (*_PLACES, "verdict")},
}
"""By the name in the address. The first is the usual one: idle instances first, the most expensive
on top."""


def fleet(ask: Asked) -> Page:
    """Raises: InputError for an order, a verdict, a page or a text that cannot be."""
    wanted = {name: figures.text_of(ask, name) for name in ("q", *_PLACES)}
    wanted["verdict"] = figures.choice_of(ask, "verdict", (*VerdictKind, UNGOVERNED), "")
    is_loose = wanted["verdict"] == UNGOVERNED
    seen = ask.ungoverned if is_loose else ask.seen
    order = figures.choice_of(ask, "sort", tuple(_ORDERS), "idle")
    size = int(figures.choice_of(ask, "size", tuple(map(str, SIZES)), str(SIZES[0])))
    found = sorted(
        (one for one in seen if _fits(one[0], wanted)), key=lambda one: _ORDERS[order](one[0])
    )
    rates = figures.rate(found)
    asked = {
        **wanted,
        "sort": order if order != "idle" else "",
        "size": size if size != SIZES[0] else "",
    }
    shown, pages = figures.paged(ask, "/fleet", asked, found, size)
    return Page(
        title="Fleet",
        template="fleet.html",
        values={
            "lines": figures.lines(ask, shown),
            "rates": rates,
            "all": len(seen),
            "asked": asked,
            "is_filtered": any(wanted.values()),
            "heads": [
                (text, _order_href(asked, name, order), name == order)
                for text, name in (*_HEADS, (_COMMAND if is_loose else _NEXT, ""))
            ],
            "is_loose": is_loose,
            "hours": HOURS_PER_MONTH,
            "orders": _ORDER_WORDS,
            "verdicts": [
                *((kind, sum(row.verdict == kind for row, _ in ask.seen)) for kind in VerdictKind),
                (UNGOVERNED, len(ask.ungoverned)),
            ],
            "ungoverned": figures.rate(ask.ungoverned),
            "most": MOST_UNGOVERNED,
            "cut": [str(one.target) for one in ask.reader.pages if _is_cut(one, ask)],
            "selector": ask.reader.policy.selector,
            "offered": {
                place: sorted({getattr(row, place) for row, _ in seen})[:_OFFERED]
                for place in _PLACES
            },
            "sizes": SIZES,
            "pages": pages,
            "csv": figures.with_query("/fleet.csv", {**asked, "size": ""}),
        },
        document={
            "instances": [row for row, _ in shown],
            "page": pages["number"],
            "pages": pages["last"],
            "total": rates,
        },
        tables=(figures.table("fleet", found),),
    )


_HEADS = (
    *(("Instance", "name"), ("Type", "type"), ("Owner", "owner"), ("Project", "project")),
    *(("Account", "account"), ("Verdict", "idle"), ("Last 24 h", ""), ("USD / h", "price")),
)
_NEXT, _COMMAND = "What happens next", "Creator, and the command that sets the tag"
_ORDER_WORDS = {
    "idle": "idle first, most expensive",
    "price": "most expensive",
    "started": "longest running",
    **{name: name for name in ("name", "type", *_PLACES, "verdict")},
}


def _fits(row: FleetRow, wanted: Mapping[str, str]) -> bool:
    """Return whether it has the verdict, the places and, in any letter case, the searched text."""
    if wanted["verdict"] and row.verdict != wanted["verdict"]:
        return False
    if any(
        wanted[one] and getattr(row, one).casefold() != wanted[one].casefold() for one in _PLACES
    ):
        return False
    text = wanted["q"].casefold()
    return not text or any(text in getattr(row, name).casefold() for name in _SEARCHED)


def _is_cut(page: FleetPage, ask: Asked) -> bool:
    """Return whether more than those listed may not be governed there; only for whoever sees all of
    them."""
    listed = sum(row.verdict == UNGOVERNED for row in page.rows)
    return listed >= MOST_UNGOVERNED and figures.is_whole(page.target, ask.scope)


def _order_href(asked: Mapping[str, object], name: str, order: str) -> str:
    if not name or name == order:
        return ""
    return figures.with_query("/fleet", {**asked, "sort": "" if name == "idle" else name})
