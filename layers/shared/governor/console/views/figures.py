"""Parts that several views share: rows and their words, problems, money by day, and addresses.

A view calls these with its request (`ViewRequest`), so that they return only what the caller may
see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date, timedelta
from decimal import Decimal
from operator import attrgetter
from typing import NamedTuple
from urllib.parse import quote, unquote, urlencode
from zoneinfo import ZoneInfo

from governor.approvals.messages.failures import readable, step_text
from governor.approvals.model.terms import Scope
from governor.console.formats import TEMPLATES
from governor.console.page import Row, Table, ViewRequest
from governor.console.views import charts
from governor.core import units
from governor.core.errors import InputError
from governor.core.instance import Target, tag_command
from governor.core.units import Item, Usd, UtcDatetime, full_stop, left, listed, plural, sentence
from governor.episode.model.episode import Failing
from governor.fleet.model import AMOUNTS, UNGOVERNED, FleetPage, FleetRow, Share
from governor.limits.rules.breaker import why_frozen
from governor.money.model.ledger import LedgerEntry
from governor.money.rules.cost import DAY, month_start, months, parse_month
from governor.verdict.model import HELD_BACK, NOTES, Family, known_kind

_NOT_IN_CSV = ("hours", "advice")
COLUMNS = tuple(field.name for field in fields(FleetRow) if field.name not in _NOT_IN_CSV)
"""Columns of a row in CSV."""
LONGEST_TEXT = 300
"""Longest text of a search or a filter."""
_STALE = timedelta(hours=1)
"""A target that was not swept for this long is reported as a problem."""


class Problem(NamedTuple):
    """Something that keeps the governor from its work, and what to do about it."""

    text: str
    do: str
    href: str | None = None


class Line(NamedTuple):
    """One row as a table shows it. `kind` is the class of its color; `href` is empty for an
    instance that is not governed, which has no page."""

    row: FleetRow
    kind: str
    verdict: str
    next: str
    href: str


@dataclass(frozen=True, slots=True)
class Rate:
    """A number of instances and what an hour of them costs, without the `unpriced`."""

    instances: int
    usd_per_hour: Usd
    unpriced: int


def rate(seen: Sequence[Row]) -> Rate:
    """Return the number of these instances and the cost of an hour of them."""
    prices = [row.usd_per_hour for row, _ in seen if row.usd_per_hour is not None]
    return Rate(len(seen), sum(prices, Decimal(0)), len(seen) - len(prices))


def targets_in(request: ViewRequest) -> list[tuple[Target, FleetPage | None]]:
    """Return the targets that the caller sees as a whole or an instance of, each with its page;
    `None` in place of a page if the target has not been swept yet."""
    page_by_target = {page.target: page for page in request.reader.pages}
    targets_of_rows = {page.target for _, page in request.governed}
    targets: list[tuple[Target, FleetPage | None]] = []
    for target in request.reader.targets:
        if is_whole(target, request.scope) or target in targets_of_rows:
            targets.append((target, page_by_target.get(target)))
    return targets


def is_whole(target: Target, scope: Scope) -> bool:
    """Return whether the caller sees the whole target, and not only some of its instances."""
    return scope.everything or target.account in scope.accounts


def family_of(row: FleetRow) -> Family:
    """Return the family of the row's verdict; `UNKNOWN` for a verdict that this release does not
    know."""
    kind = known_kind(row.verdict)
    return Family.UNKNOWN if kind is None else kind.family


def lines(request: ViewRequest, rows: Iterable[Row]) -> list[Line]:
    """Return the lines of a table for these rows."""
    return [line(request, row, page) for row, page in rows]


def line(request: ViewRequest, row: FleetRow, page: FleetPage) -> Line:
    """Return one row as a table shows it."""
    color, text = _verdict(row, request.now)
    if row.verdict == UNGOVERNED:
        selector = request.reader.policy.selector
        command = tag_command(row.instance_id, row.region, selector.tag_key, selector.tag_value)
        return Line(row, color, text, command, "")
    address = href(row)
    if row.approval_id in request.answered_ids:
        row = replace(row, approval_id=None, asked_at=None, expires_at=None)
        return Line(row, color, text, "answered since the last sweep", address)
    return Line(row, color, text, _next(row, page.mode, request.caller.zone, request.now), address)


def href(row: FleetRow) -> str:
    """Return the address of the instance's page."""
    return f"/instances/{row.account}/{row.region}/{row.instance_id}"


def _verdict(row: FleetRow, now: UtcDatetime) -> tuple[str, str]:
    """Return the class of the row's color, and its verdict in words."""
    words = row.verdict.replace("-", " ")
    match family_of(row):
        case Family.WORKING:
            return "good", _working_text(row, words)
        case Family.IDLE:
            return "bad", _idle_text(row, now)
        case Family.LEFT_ALONE | Family.YOUNG:
            return "soft", words
        case Family.UNKNOWN:
            return "warn", words


def _idle_text(row: FleetRow, now: UtcDatetime) -> str:
    """Return `idle`, with the time if it is known."""
    if row.idle_since is None:
        return "idle"
    return f"idle {units.span(now - row.idle_since)}"


def _working_text(row: FleetRow, words: str) -> str:
    """Return the verdict with the utilization of the last hour, if that was measured."""
    if not row.hours or row.hours[-1] is None:
        return words
    return f"{words} {row.hours[-1]}%"


def _next(row: FleetRow, mode: str, zone: str, now: UtcDatetime) -> str:
    """Return what happens to it by itself, or who must do something; empty if nothing happens."""
    kind = known_kind(row.verdict)
    family = family_of(row)
    if kind is not None and kind in NOTES:
        return NOTES[kind]
    if family is Family.LEFT_ALONE and row.kept_until is not None:
        return f"kept until {units.clock(row.kept_until, zone, now)}"
    if family is not Family.IDLE:
        return ""
    if row.managed_by:
        return f"{row.managed_by} runs it"
    if row.episode and not row.is_reported:
        return _next_in_episode(row, mode, now)
    return _next_without_episode(row, mode, zone, now)


def _next_without_episode(row: FleetRow, mode: str, zone: str, now: UtcDatetime) -> str:
    """Return the next step for an idle instance that nobody is asked about yet."""
    if mode == "observe":
        return "only reported (observe)"
    recheck = ""
    if row.quiet_until and row.quiet_until > now:
        recheck = f"checked again {units.clock(row.quiet_until, zone, now)}"
    if row.is_reported:
        return f"only reported, {recheck}" if recheck else "only reported"
    if recheck:
        return recheck
    return "owner is notified next" if mode == "auto" else "question follows"


def _next_in_episode(row: FleetRow, mode: str, now: UtcDatetime) -> str:
    """Return the next step of the open episode."""
    if mode == "observe":
        return "rehearsal, nothing is changed"
    if row.asked_at is not None and row.expires_at is not None:
        if row.expires_at <= now:
            return "time to answer is over"
        return f"asked, {left(row.expires_at - now)} left"
    if mode == "auto":
        return f"{row.verb or 'stop'} follows, can be held"
    return "question not sent yet" if row.approval_id else "decided, in progress"


def questions(request: ViewRequest) -> list[Row]:
    """Return the rows with an open question, also one that is not sent yet, the most expensive
    first."""
    return by_price(
        (row, page)
        for row, page in request.open_questions
        if row.approval_id not in request.answered_ids
    )


def by_price(seen: Iterable[Row]) -> list[Row]:
    """Return the rows with the most expensive first; those of unknown price come last."""
    return sorted(seen, key=_price_and_name)


def _price_and_name(row_and_page: Row) -> tuple[Decimal, str]:
    """Return a sort key: the most expensive first, then by name."""
    row, _ = row_and_page
    return -price(row), row.name


def price(row: FleetRow) -> Decimal:
    """Return the price to sort by: below zero if it is not known."""
    return Decimal(-1) if row.usd_per_hour is None else row.usd_per_hour


def table(name: str, seen: Iterable[Row]) -> Table:
    """Return the rows as a table for CSV and JSON."""
    rows = [tuple(getattr(row, column) for column in COLUMNS) for row, _ in seen]
    return Table(name, COLUMNS, tuple(rows))


def problems(request: ViewRequest) -> Iterator[Problem]:
    """Yield what keeps the governor from its work, as far as this caller may see it."""
    yield from _brakes(request)
    yield from _sweep_problems(request)
    yield from _failures(request)
    unsent = [row.name for row, _ in request.governed if _is_unsent(row)]
    if unsent:
        text = f"{plural(len(unsent), 'question')} not sent yet: {listed(unsent, 3)}."
        yield Problem(text, "Questions wait for working hours. If this stays, run governor doctor.")
    unknown = [(row, page) for row, page in request.governed if family_of(row) is Family.UNKNOWN]
    if unknown:
        usd_per_hour = units.usd(rate(unknown).usd_per_hour)
        text = f"{plural(len(unknown), 'instance')} cannot be judged ({usd_per_hour} an hour)."
        yield Problem(
            text, "Check the agents that publish their GPU metrics.", "/fleet?verdict=no-data"
        )


def _is_unsent(row: FleetRow) -> bool:
    """Return whether the row has a question that is not sent yet."""
    return bool(row.approval_id) and row.asked_at is None


def _brakes(request: ViewRequest) -> Iterator[Problem]:
    """Yield the pause and the freezes. Their reasons count instances of everybody, so only callers
    who see everything get them."""
    sees_everything = request.scope.everything
    pause = request.reader.pause_store.pause()
    if pause is not None:
        text = f"Everything is {pause.why}" if sees_everything else "Everything is paused"
        yield Problem(
            sentence(text), "Nothing is stopped, terminated or deleted: see the pause", "/freezes"
        )
    why = why_frozen(
        None, request.reader.breaker_store.hub(), request.now, request.reader.policy.breaker
    )
    if why is not None:
        text = f"All plans are frozen: {why}" if sees_everything else "All plans are frozen"
        yield Problem(
            sentence(text),
            "Nobody is asked and nothing is stopped meanwhile: see the freeze",
            "/freezes",
        )
        return
    frozen = sorted(
        {str(page.target) for row, page in request.governed if row.verdict in HELD_BACK}
    )
    if frozen:
        yield Problem(f"Plans are frozen in {listed(frozen, 3)}.", "See the freeze", "/freezes")


def _sweep_problems(request: ViewRequest) -> Iterator[Problem]:
    """Yield the targets whose last sweep is missing, incomplete or old."""
    for target, page in targets_in(request):
        if page is None:
            yield Problem(f"{target} has not been swept yet.", "Run governor doctor.")
        elif page.problem is not None:
            # A problem may count instances of everybody.
            sees_all = is_whole(target, request.scope)
            text = page.problem if sees_all else "its last sweep was not complete"
            yield Problem(full_stop(f"{target}: {text}"), "Run governor doctor if this stays.")
        elif request.now - page.swept_at > _STALE:
            age = left(request.now - page.swept_at)
            yield Problem(f"{target} was last swept {age} ago.", "Run governor doctor.")


def _failures(request: ViewRequest) -> Iterator[Problem]:
    """Yield failing workflows, an undelivered message among them; those that fail for one cause are
    one problem."""
    row_by_place = {(page.target, row.instance_id): row for row, page in request.governed}
    failures_by_cause: dict[str, list[Failing]] = defaultdict(list)
    for failure in sorted(
        request.reader.failure_store.failing(), key=attrgetter("at"), reverse=True
    ):
        if failure.over_at is None and _is_visible(failure, row_by_place, request.scope):
            failures_by_cause[failure.cause].append(failure)
    for failures in failures_by_cause.values():
        newest = failures[0]
        names = listed([failure.name for failure in failures], 3)
        text = f"Could not {step_text(newest.step)} {names}. {readable(newest.reason)}"
        row = row_by_place[newest.target, newest.instance_id]
        yield Problem(text, "See what was done", href(row))


def _is_visible(
    failure: Failing, row_by_place: Mapping[tuple[Target, str], FleetRow], scope: Scope
) -> bool:
    """Return whether the caller sees the instance now, and saw it when it failed: the name and the
    reason belong to its project and owner of that time."""
    is_seen_now = (failure.target, failure.instance_id) in row_by_place
    return is_seen_now and scope.sees(failure.target.account, failure.project, failure.owner)


# money


def shares(request: ViewRequest, first: date, last: date) -> Iterator[tuple[date, str, Share]]:
    """Yield what was spent on these days (UTC), of what the caller may see: day, project and
    share."""
    sees = request.scope.sees
    for month in months(_midnight(first), _midnight(last)):
        for costs in request.reader.fleet_store.days(month, first):
            if costs.day > last:
                continue
            for (owner, project), share in costs.shares.items():
                if sees(costs.account, project, owner):
                    yield costs.day, project, share


def total(shares_to_add: Sequence[Share]) -> Share:
    """Return the sum of shares, added amount by amount: there may be tens of thousands."""
    amounts_of_shares = map(AMOUNTS, shares_to_add)
    sums = [sum(amounts, Decimal(0)) for amounts in zip(*amounts_of_shares, strict=True)]
    return Share(*sums)


def ledger_in(request: ViewRequest, first: UtcDatetime, last: UtcDatetime) -> list[LedgerEntry]:
    """Return the booked actions that may count between two moments, of what the caller may see."""
    sees = request.scope.sees
    entries: list[LedgerEntry] = []
    for month in months(first - request.counts_for, last):
        entries += [
            entry
            for entry in request.reader.ledger_store.entries(month)
            if sees(entry.episode.account, entry.project, entry.owner)
        ]
    return entries


def percent(part: Decimal | int, whole: Decimal | int) -> str:
    """Return a share as `18%`; `less than 1%` if it would be rounded to nothing."""
    share = Decimal(0)
    if whole:
        share = 100 * Decimal(part) / whole
    return "less than 1%" if 0 < share < 1 else f"{share:.0f}%"


def days_between(first: date, last: date) -> list[date]:
    """Return each day from the first to the last."""
    return [first + DAY * number for number in range((last - first).days + 1)]


def _midnight(day: date) -> UtcDatetime:
    """Return the beginning of a day (UTC)."""
    return parse_month(f"{day:%Y-%m}") + DAY * (day.day - 1)


# addresses and their fields


def project_href(name: str) -> str:
    """Return the path of a project's page. It escapes by `~`, because API Gateway decodes `%`, and
    escapes dots, because browsers take `..` out."""
    escaped = quote(name, safe="").replace("~", "%7E").replace(".", "%2E")
    return f"/projects/{escaped.replace('%', '~')}"


def name_in(part: str) -> str:
    """Return the name in a part of a path, also if somebody typed it with `%`."""
    return unquote(part.replace("~", "%"))


def with_query(path: str, query: Mapping[str, object]) -> str:
    """Return the address with the fields that are set."""
    fields_set = {name: value for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(fields_set)}" if fields_set else path


def text_of(request: ViewRequest, name: str) -> str:
    """Return one value of the query; empty if it is not set. Raises: InputError."""
    text = request.query.get(name, "").strip()
    if len(text) > LONGEST_TEXT:
        what = "the search" if name == "q" else name
        raise InputError(f"{what} is longer than {LONGEST_TEXT} characters: shorten it")
    return text


def choice_of(request: ViewRequest, name: str, known: Sequence[str], default: str) -> str:
    """Return one of several values. Raises: InputError, which says what they are."""
    text = text_of(request, name)
    if text and text not in known:
        raise InputError(f"{name} can be {listed(known, len(known))}")
    return text or default


def paged(
    request: ViewRequest, path: str, kept: Mapping[str, object], items: Sequence[Item], size: int
) -> tuple[Sequence[Item], Mapping[str, object]]:
    """Return the rows of the page that is asked for, and the addresses of its neighbors. Raises:
    InputError."""
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
    """Return the number of the page that is asked for. Raises: InputError."""
    text = text_of(request, "page") or "1"
    is_number = text.isascii() and text.isdecimal() and len(text) <= 6
    if not is_number or not 1 <= int(text) <= last:
        raise InputError(f"page must be a number from 1 to {last:,}")
    return int(text)


def month_in(request: ViewRequest) -> UtcDatetime:
    """Return the beginning of the month that a page is asked for; of this month if it names none.
    Raises: InputError."""
    text = text_of(request, "month")
    this_month = month_start(request.now)
    try:
        month = parse_month(text) if text else this_month
    except ValueError:
        raise InputError(f"month must be written as {this_month:%Y-%m}") from None
    if not this_month.replace(year=this_month.year - 5) <= month <= this_month:
        raise InputError(f"month must lie in the last five years, up to {this_month:%Y-%m}")
    return month


def _date_text(moment: UtcDatetime, zone: str) -> str:
    """Return the day of a moment in this time zone, like `Nov 3`."""
    return charts.day_text(moment.astimezone(ZoneInfo(zone)).date())


TEMPLATES.filters.update(
    plural=plural,
    percent=percent,
    cents=units.money,
    sentence=sentence,
    moment=units.clock,
    date=_date_text,
    day=charts.day_text,
    project=project_href,
    spark=charts.sparkline,
)
