"""The Fleet: every instance, searched, filtered, sorted and paged by the URL's query.

Ungoverned instances are a list of their own, which is only shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Any

from governor.console.page import Page, Row, ViewRequest
from governor.console.views import addresses, figures
from governor.core.units import HOURS_PER_MONTH
from governor.fleet.model import MOST_UNGOVERNED, UNGOVERNED, FleetPage, FleetRow
from governor.verdict.model import IDLE, VerdictKind

SIZES = (100, 250, 500)
"""Rows on a page."""
_NAMES_OFFERED = 50
"""The most names that a filter offers; any other can be typed."""
_PLACES = ("owner", "project", "account", "region")
_SEARCHED = ("name", "instance_id", "instance_type", *_PLACES)


def _idle_first(row: FleetRow) -> tuple[bool, Decimal]:
    """Return a sort key: idle instances first, the most expensive of them first."""
    return row.verdict not in IDLE, -figures.price(row)


def _most_expensive_first(row: FleetRow) -> Decimal:
    """Return a sort key: the most expensive first."""
    return -figures.price(row)


def _by_name(row: FleetRow) -> str:
    """Return a sort key: by name, in any letter case."""
    return row.name.casefold()


_ORDERS: Mapping[str, Callable[[FleetRow], Any]] = {
    "idle": _idle_first,
    "price": _most_expensive_first,
    "name": _by_name,
    "type": attrgetter("instance_type"),
    "started": attrgetter("launched_at"),
    "owner": attrgetter("owner"),
    "project": attrgetter("project"),
    "account": attrgetter("account"),
    "region": attrgetter("region"),
    "verdict": attrgetter("verdict"),
}
"""The keys to sort by, each by the name of its order in the address."""
_DEFAULT_ORDER = "idle"
_HEADS = (
    ("Instance", "name"),
    ("Type", "type"),
    ("Owner", "owner"),
    ("Project", "project"),
    ("Account", "account"),
    ("Verdict", "idle"),
    ("Last 24 h", ""),
    ("USD / h", "price"),
)
"""Heads of the columns, each with the order that it leads to."""
_NEXT = "What happens next"
_COMMAND = "Creator, and the command that sets the tag"
_ORDER_WORDS = {
    "idle": "idle first, most expensive",
    "price": "most expensive",
    "started": "longest running",
    "name": "name",
    "type": "type",
    "owner": "owner",
    "project": "project",
    "account": "account",
    "region": "region",
    "verdict": "verdict",
}


def fleet(request: ViewRequest) -> Page:
    """Return the page of the caller's instances that fit the query, sorted as it says. Without a
    query: the governed ones, idle first, 100 on a page. Raises: InputError for an order, a verdict,
    a page, its size or a text that cannot be; CloudError."""
    wanted = {name: addresses.text_of(request, name) for name in ("q", *_PLACES)}
    wanted["verdict"] = addresses.choice_of(request, "verdict", (*VerdictKind, UNGOVERNED), "")
    is_ungoverned = wanted["verdict"] == UNGOVERNED
    rows = request.ungoverned if is_ungoverned else request.governed
    order = addresses.choice_of(request, "sort", tuple(_ORDERS), _DEFAULT_ORDER)
    size = int(addresses.choice_of(request, "size", tuple(map(str, SIZES)), str(SIZES[0])))
    fitting = _sorted(rows, wanted, order)
    rates = figures.rate(fitting)
    asked = {
        **wanted,
        "sort": order if order != _DEFAULT_ORDER else "",
        "size": size if size != SIZES[0] else "",
    }
    shown, pages = addresses.paged(request, "/fleet", asked, fitting, size)
    last_head = _COMMAND if is_ungoverned else _NEXT
    cut_targets = []
    for page in request.reader.pages:
        if _is_cut(page, request):
            cut_targets.append(str(page.target))
    offered_names = {place: _offered_names(rows, place) for place in _PLACES}
    return Page(
        title="Fleet",
        template="fleet.html",
        values={
            "lines": figures.lines(request, shown),
            "rates": rates,
            "all": len(rows),
            "asked": asked,
            "is_filtered": any(wanted.values()),
            "heads": _heads(asked, order, last_head),
            "is_loose": is_ungoverned,
            "hours": HOURS_PER_MONTH,
            "orders": _ORDER_WORDS,
            "verdicts": _verdict_counts(request),
            "ungoverned": figures.rate(request.ungoverned),
            "most": MOST_UNGOVERNED,
            "cut": cut_targets,
            "selector": request.reader.policy.selector,
            "offered": offered_names,
            "sizes": SIZES,
            "pages": pages,
            "csv": addresses.with_query("/fleet.csv", {**asked, "size": ""}),
        },
        document={
            "instances": [row for row, _ in shown],
            "page": pages["number"],
            "pages": pages["last"],
            "total": rates,
        },
        tables=(figures.table("fleet", fitting),),
    )


def _sorted(rows: Sequence[Row], wanted: Mapping[str, str], order: str) -> list[Row]:
    """Return the rows that fit the wanted values, sorted by the order of this name, a key of
    `_ORDERS`; empty if none fits."""
    key_of = _ORDERS[order]
    fitting = [(row, page) for row, page in rows if _fits(row, wanted)]
    return sorted(fitting, key=lambda row_and_page: key_of(row_and_page[0]))


def _heads(asked: Mapping[str, object], order: str, last_head: str) -> list[tuple[str, str, bool]]:
    """Return the heads of the columns, `last_head` at their end: each with its text, the address
    that sorts by it (empty for a column that cannot be sorted, and for the present `order`), and
    whether the table is sorted by it. The addresses keep the fields `asked`."""
    heads = []
    for text, name in (*_HEADS, (last_head, "")):
        heads.append((text, _order_href(asked, name, order), name == order))
    return heads


def _verdict_counts(request: ViewRequest) -> list[tuple[str, int]]:
    """Return how many of the caller's instances have each verdict, in the order in which the filter
    lists the verdicts, also those that none has; that of the ungoverned comes last. Raises:
    CloudError."""
    count_by_verdict = Counter(row.verdict for row, _ in request.governed)
    counts: list[tuple[str, int]] = [(kind, count_by_verdict[kind]) for kind in VerdictKind]
    return [*counts, (UNGOVERNED, len(request.ungoverned))]


def _offered_names(rows: Sequence[Row], place: str) -> list[str]:
    """Return the first 50 names that the filter of a field (`owner`, `region`) offers, sorted."""
    names = {getattr(row, place) for row, _ in rows}
    return sorted(names)[:_NAMES_OFFERED]


def _fits(row: FleetRow, wanted: Mapping[str, str]) -> bool:
    """Return whether the row has the wanted verdict, owner, project, account and Region, and
    contains the searched text `q`. Empty values fit every row; letter case counts for the verdict
    alone."""
    if wanted["verdict"] and row.verdict != wanted["verdict"]:
        return False
    for place in _PLACES:
        if wanted[place] and getattr(row, place).casefold() != wanted[place].casefold():
            return False
    return _contains(row, wanted["q"].casefold())


def _contains(row: FleetRow, text: str) -> bool:
    """Return whether a searched field of the row contains the text, which the caller has
    casefolded; true for an empty text."""
    return any(text in getattr(row, name).casefold() for name in _SEARCHED)


def _is_cut(page: FleetPage, request: ViewRequest) -> bool:
    """Return whether the target may have more ungoverned instances than the listed ones; always
    false for callers who do not see all of them."""
    listed = sum(row.verdict == UNGOVERNED for row in page.rows)
    return listed >= MOST_UNGOVERNED and figures.is_whole(page.target, request.scope)


def _order_href(asked: Mapping[str, object], name: str, order: str) -> str:
    """Return the address that sorts by the order of this name; empty without a name, and for the
    `order` that the table has."""
    if not name or name == order:
        return ""
    sort = "" if name == _DEFAULT_ORDER else name
    return addresses.with_query("/fleet", {**asked, "sort": sort})
