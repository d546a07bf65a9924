"""The Fleet page: every instance, searched, filtered, sorted and paged by the URL's query.

Stopped instances stand among the running ones. Terminated ones are found by a search or their
filter. Ungoverned instances are a list of their own, which is only shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from operator import attrgetter
from typing import Any

from governor.console.current_fleet import Row
from governor.console.page import Page, ViewRequest
from governor.console.views import addresses, figures
from governor.core.episode_ref import is_instance_id
from governor.core.units import HOURS_PER_MONTH, UtcDatetime
from governor.fleet.model import (
    MOST_UNGOVERNED,
    STOPPED,
    TERMINATED,
    UNGOVERNED,
    FleetPage,
    FleetRow,
)
from governor.fleet.rules.states import WORDS, State, is_in, state_of, state_of_verdict
from governor.verdict.model import VerdictKind

SIZES = (100, 250, 500)
"""Rows on a page."""
_NAMES_OFFERED = 50
"""The most names that a filter offers; any other can be typed."""
_PLACES = ("owner", "project", "account", "region")
_SEARCHED = ("name", "instance_id", "instance_type", *_PLACES)


_RUNNING = "running"
"""In place of a state: every governed instance that runs."""
_SEARCHED_BACK = timedelta(days=5 * 366)
"""How far back the ledger is searched for terminated instances."""
_LAST_PLACES = {STOPPED: 1, TERMINATED: 3}
_OTHERS_PLACE = 2


def _idle_first(row: FleetRow) -> tuple[int, Decimal]:
    """Return a sort key: idle instances first, then stopped ones, and terminated ones last; the
    most expensive first."""
    place = 0 if row.is_idle else _LAST_PLACES.get(row.verdict, _OTHERS_PLACE)
    return place, -figures.price(row)


def _most_expensive_first(row: FleetRow) -> Decimal:
    """Return a sort key: the most expensive first, those without a known price last."""
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
    ("State", "idle"),
    ("Last 24 h", ""),
    ("$ a day", "price"),
)
"""Heads of the columns of the page, each with the order that it leads to. The columns of the CSV
are `figures.COLUMNS`."""
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
    "verdict": "state",
}


def fleet(request: ViewRequest) -> Page:
    """Return the page of the caller's instances that fit the query, sorted as it says. Without a
    query: those that run or are stopped, idle first, 100 on a page. Raises: InputError for an
    order, a state, a page, its size or a text that cannot be; CloudError."""
    wanted = {name: addresses.text_of(request, name) for name in ("q", *_PLACES)}
    name = _state_name(request)
    state = State(name) if name in tuple(State) else None
    is_ungoverned = state is State.UNGOVERNED
    rows = _rows_in(request, name)
    order = addresses.choice_of(request, "sort", tuple(_ORDERS), _DEFAULT_ORDER)
    size = int(addresses.choice_of(request, "size", tuple(map(str, SIZES)), str(SIZES[0])))
    fitting = _sorted(rows, wanted, state, order, request.now)
    if wanted["q"] and not name:
        # A terminated instance is found by its id as long as its record is stored. For a name, the
        # page has a link: it would read the ledger of five years for each word that fits nothing.
        is_id = is_instance_id(wanted["q"])
        gone = _terminated(request, is_deep=is_id and not fitting)
        fitting += _sorted(gone, wanted, None, order, request.now)
    running, closed = figures.split_running(fitting)
    # Instances that run are counted of those that run, as on the Overview.
    all_running, _ = figures.split_running(rows)
    asked = {
        **wanted,
        "state": name,
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
            "rates": figures.rate(running),
            "closed": figures.rate(closed),
            "all_running": len(all_running),
            "without_filters": len(_rows_in(request, "")),
            "asked": asked,
            "active": _active_filters(wanted, name),
            "is_filtered": any(wanted.values()) or bool(name),
            "heads": _heads(asked, order, last_head),
            "is_loose": is_ungoverned,
            "hours": HOURS_PER_MONTH,
            "orders": _ORDER_WORDS,
            "states": _state_counts(request),
            "older": _older_href(wanted, name),
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
            "instances": [figures.document(request, row) for row, _ in shown],
            "page": pages["number"],
            "pages": pages["last"],
            "total": figures.rate(running),
            "closed": figures.rate(closed),
        },
        tables=(figures.table(request, "fleet", fitting),),
    )


def _state_name(request: ViewRequest) -> str:
    """Return the state that the query asks for, or `running` for all that run; empty if it asks for
    none. Addresses of earlier releases name a `verdict` instead. Raises: InputError for one that
    cannot be."""
    verdict = addresses.choice_of(request, "verdict", (*VerdictKind, UNGOVERNED), "")
    name = addresses.choice_of(request, "state", (_RUNNING, *State), "")
    if verdict and not name:
        return state_of_verdict(verdict).value
    return name


def _active_filters(wanted: Mapping[str, str], name: str) -> list[tuple[str, str]]:
    """Return the filters that are set, each with its field and its value in words, the state of
    this name first; empty if none is. The search is no filter."""
    active = []
    if name:
        words = _RUNNING if name == _RUNNING else WORDS[State(name)]
        active.append(("state", words))
    for place in _PLACES:
        if wanted[place]:
            active.append((place, wanted[place]))
    return active


def _rows_in(request: ViewRequest, name: str) -> list[Row]:
    """Return the caller's instances among which the filter by this state looks: the running,
    ungoverned or terminated ones for these, else those that run or are stopped. Raises:
    CloudError."""
    if name == State.UNGOVERNED:
        return request.ungoverned
    if name == State.TERMINATED:
        return _terminated(request, is_deep=True)
    if name == _RUNNING:
        return request.running
    return [*request.running, *request.stopped]


def _terminated(request: ViewRequest, *, is_deep: bool) -> list[Row]:
    """Return the caller's terminated instances: those of this month, or with `is_deep` those of the
    last five years. Raises: CloudError."""
    if is_deep:
        return request.current_fleet.terminated_since(request.now - _SEARCHED_BACK)
    return request.current_fleet.terminated_lately


def _older_href(wanted: Mapping[str, str], name: str) -> str:
    """Return the address that searches all terminated instances; empty without a search, or if the
    page does so already."""
    if not wanted["q"] or name:
        return ""
    return addresses.with_query("/fleet", {**wanted, "state": State.TERMINATED.value})


def _sorted(
    rows: Sequence[Row],
    wanted: Mapping[str, str],
    state: State | None,
    order: str,
    now: UtcDatetime,
) -> list[Row]:
    """Return the rows that fit the wanted values and the state (`None` fits all), sorted by the
    order of this name, a key of `_ORDERS`; empty if none fits."""
    key_of = _ORDERS[order]
    fitting = []
    for row, page in rows:
        if _fits(row, wanted) and (state is None or is_in(row, state, now)):
            fitting.append((row, page))
    return sorted(fitting, key=lambda row_and_page: key_of(row_and_page[0]))


def _heads(asked: Mapping[str, object], order: str, last_head: str) -> list[tuple[str, str, bool]]:
    """Return the heads of the columns, `last_head` at their end: each with its text, the address
    that sorts by it (empty for a column that cannot be sorted, and for the present `order`), and
    whether the table is sorted by it. The addresses keep the fields `asked`."""
    heads = []
    for text, name in (*_HEADS, (last_head, "")):
        heads.append((text, _order_href(asked, name, order), name == order))
    return heads


def _state_counts(request: ViewRequest) -> list[tuple[State, str, int | None]]:
    """Return each state with its words and how many of the caller's instances its filter lists, in
    the order of the filter, also those that none has. Held instances are listed as idle, too. The
    terminated ones are not counted (`None`). Raises: CloudError."""
    rows = [*request.running, *request.stopped, *request.ungoverned]
    count_by_state = Counter(state_of(row, request.now) for row, _ in rows)
    count_by_state[State.IDLE] += count_by_state[State.HELD]
    counts: list[tuple[State, str, int | None]] = []
    for state in State:
        count = None if state is State.TERMINATED else count_by_state[state]
        counts.append((state, WORDS[state], count))
    return counts


def _offered_names(rows: Sequence[Row], place: str) -> list[str]:
    """Return the first 50 names that the filter of a field (`owner`, `region`) offers, sorted."""
    names = {getattr(row, place) for row, _ in rows}
    return sorted(names)[:_NAMES_OFFERED]


def _fits(row: FleetRow, wanted: Mapping[str, str]) -> bool:
    """Return whether the row has the wanted owner, project, account and Region, and contains each
    word of the searched text `q`, in any letter case. Empty values fit every row."""
    for place in _PLACES:
        if wanted[place] and getattr(row, place).casefold() != wanted[place].casefold():
            return False
    words = wanted["q"].casefold().split()
    return all(_contains(row, word) for word in words)


def _contains(row: FleetRow, word: str) -> bool:
    """Return whether a searched field of the row contains the word, which the caller has
    casefolded."""
    return any(word in getattr(row, name).casefold() for name in _SEARCHED)


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
