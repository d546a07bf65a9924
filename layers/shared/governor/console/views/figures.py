"""What several views show of rows and money: who is idle, what happens next, problems, sums by day."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

from governor.console.formats import TEMPLATES
from governor.console.page import Caller, Table
from governor.console.reader import Reader
from governor.console.views import charts
from governor.domain.approvals.scope import Scope
from governor.domain.fleet.rows import FleetPage, FleetRow, Share
from governor.domain.money.cost import LedgerEntry, month_start, parse_month
from governor.domain.money.savings import DAY, Saved, months
from governor.domain.sweep.breaker import why_frozen
from governor.domain.sweep.verdict import HELD_BACK, NOTES, Family, family, known_kind
from governor.domain.units import Usd, UtcDatetime, money
from governor.domain.wording import clock, full_stop, left, listed, plural, sentence, span, usd
from governor.errors import InputError

Row = tuple[FleetRow, FleetPage]
"""An instance, and the page of its target."""
COLUMNS = (
    *("instance_id", "name", "account", "region", "instance_type", "owner", "project", "verdict", "reason"),
    *("usd_per_hour", "launched_at", "idle_since", "managed_by", "kept_until", "asked_at", "expires_at"),
)
"""Of a row, as CSV and JSON give it."""
LONGEST_TEXT = 300
"""Of a search or a filter."""
_STALE = timedelta(hours=1)
"""Without a sweep for so long, what is shown is no longer now."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that keeps the governor from its work, and what to do about it."""

    text: str
    do: str
    href: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One row as a table shows it."""

    row: FleetRow
    kind: str
    """The class of its color."""
    verdict: str
    next: str
    href: str


@dataclass(frozen=True, slots=True)
class Rate:
    """Instances and what an hour of them costs. Those `unpriced` are in no amount."""

    instances: int
    usd_per_hour: Usd
    unpriced: int


def rate(seen: Sequence[Row]) -> Rate:
    known = [row.usd_per_hour for row, _ in seen if row.usd_per_hour is not None]
    return Rate(len(seen), sum(known, Decimal(0)), len(seen) - len(known))


def rate_document(found: Rate) -> Mapping[str, object]:
    return {
        "instances": found.instances,
        "usd_per_hour": found.usd_per_hour,
        "instances_of_unknown_price": found.unpriced,
    }


def rows_in(pages: Iterable[FleetPage], scope: Scope) -> list[Row]:
    """Return the rows that the caller may see, each with the page of its target."""
    return [
        (row, page) for page in pages for row in page.rows if scope.sees(row.account, row.project, row.owner)
    ]


def family_of(row: FleetRow) -> Family:
    kind = known_kind(row.verdict)
    return Family.UNKNOWN if kind is None else family(kind)


def line(row: FleetRow, page: FleetPage, zone: str, now: UtcDatetime) -> Line:
    color, text = _verdict(row, now)
    return Line(row, color, text, _next(row, page.mode, zone, now), instance_href(row))


def _verdict(row: FleetRow, now: UtcDatetime) -> tuple[str, str]:
    """Return the color of a verdict, and its words."""
    words, last = row.verdict.replace("-", " "), row.hours[-1] if row.hours else None
    match family_of(row):
        case Family.WORKING:
            return "good", words if last is None else f"{words} {last}%"
        case Family.IDLE:
            return "bad", f"idle {span(now - row.idle_since)}" if row.idle_since else "idle"
        case Family.LEFT_ALONE | Family.YOUNG:
            return "soft", words
        case Family.UNKNOWN:
            return "warn", words


def _next(row: FleetRow, mode: str, zone: str, now: UtcDatetime) -> str:
    """Return what happens to it by itself, or who must do something; empty where nothing does."""
    kind, group = known_kind(row.verdict), family_of(row)
    if kind is not None and kind in NOTES:
        return NOTES[kind]
    if group is Family.LEFT_ALONE and row.kept_until is not None:
        return f"kept until {clock(row.kept_until, zone, now)}"
    if group is not Family.IDLE:
        return ""
    return f"{row.managed_by} runs it" if row.managed_by else _asked(row, mode, now)


def _asked(row: FleetRow, mode: str, now: UtcDatetime) -> str:
    if row.episode is None:
        return "only reported (observe)" if mode == "observe" else "question follows"
    if mode == "observe":
        return "rehearsal, nothing is changed"
    if row.asked_at is None or row.expires_at is None:
        return "being asked" if mode == "ask" else f"{row.verb or 'stop'} follows, can be held"
    if row.expires_at <= now:
        return "time to answer is over"
    return f"asked, {left(row.expires_at - now)} left"


def is_open_question(row: FleetRow, now: UtcDatetime) -> bool:
    return row.asked_at is not None and row.expires_at is not None and row.expires_at > now


def by_price(seen: Iterable[Row]) -> list[Row]:
    """Return them with the most expensive first; those of unknown price come last."""
    return sorted(seen, key=lambda one: (-price(one[0]), one[0].name))


def price(row: FleetRow) -> Decimal:
    """To sort by: below zero where it is not known."""
    return Decimal(-1) if row.usd_per_hour is None else row.usd_per_hour


def row_document(row: FleetRow) -> Mapping[str, object]:
    return {name: getattr(row, name) for name in (*COLUMNS, "hours")}


def table(name: str, seen: Iterable[Row]) -> Table:
    return Table(name, COLUMNS, tuple(tuple(getattr(row, one) for one in COLUMNS) for row, _ in seen))


def problems(reader: Reader, caller: Caller, seen: Sequence[Row], now: UtcDatetime) -> Iterator[Problem]:
    """What stands in the way, as far as stored data shows it; nothing of what the caller may not see."""
    scope, here = caller.scope, {(row.account, row.region) for row, _ in seen}
    why = why_frozen(None, reader.state.hub(), now, reader.policy.breaker)
    if why is not None:
        # Its reason counts instances of everybody.
        text = f"All plans are frozen: {why}" if scope.everything else "All plans are frozen"
        yield Problem(
            sentence(text), "Nobody is asked and nothing is stopped meanwhile. Run governor freezes for more."
        )
    frozen = sorted({f"{row.account}/{row.region}" for row, _ in seen if row.verdict in HELD_BACK})
    if frozen and why is None:
        yield Problem(f"Plans are frozen in {listed(frozen, 3)}.", "Run governor freezes to see why.")
    for page in reader.pages:
        where, age = f"{page.account}/{page.region}", now - page.swept_at
        if not (scope.everything or page.account in scope.accounts or (page.account, page.region) in here):
            continue
        if page.problem is not None:
            yield Problem(full_stop(f"{where} could not be read: {page.problem}"), "Run governor doctor.")
        elif age > _STALE:
            yield Problem(f"{where} was last swept {left(age)} ago.", "Run governor doctor.")
    unasked = [row.name for row, page in seen if page.mode == "ask" and row.episode and row.asked_at is None]
    if unasked:
        text = f"{plural(len(unasked), 'question')} not delivered yet: {listed(unasked, 3)}."
        yield Problem(text, "If this stays, run governor doctor.")
    silent = rate([one for one in seen if family_of(one[0]) is Family.UNKNOWN])
    if silent.instances:
        text = (
            f"{plural(silent.instances, 'instance')} cannot be judged ({usd(silent.usd_per_hour)} an hour)."
        )
        yield Problem(text, "Check the agents that publish their GPU metrics.", "/fleet?verdict=no-data")


# money


def shares_by_day(
    reader: Reader, scope: Scope, first: date, last: date
) -> dict[date, dict[tuple[str, str], Share]]:
    """Return what was spent on each of these days (UTC), by owner and project, of what the caller may see."""
    found: dict[date, dict[tuple[str, str], Share]] = {}
    start = month_start(_midnight(first))
    for month in months(start, _midnight(last)):
        for costs in reader.fleet.days(month):
            if not first <= costs.day <= last:
                continue
            day = found.setdefault(costs.day, {})
            for (owner, project), share in costs.shares.items():
                if scope.sees(costs.account, project, owner):
                    day[owner, project] = day.get((owner, project), Share()) + share
    return found


def total(shares: Iterable[Share]) -> Share:
    return sum(shares, Share())


def ledger_in(reader: Reader, scope: Scope, first: UtcDatetime, last: UtcDatetime) -> list[LedgerEntry]:
    """Return the booked actions that may count from one moment to another, of what the caller may see."""
    since = first - counts_for(reader)
    return [
        entry
        for month in months(since, last)
        for entry in reader.state.entries(month)
        if scope.sees(entry.episode.account, entry.project, entry.owner)
    ]


def counts_for(reader: Reader) -> timedelta:
    return timedelta(days=reader.policy.ledger.saving_counts_days)


def saved_document(saved: Saved) -> Mapping[str, object]:
    return {
        "net_usd": saved.net,
        "avoided_usd": saved.avoided,
        "undone_usd": saved.undone,
        "storage_usd": saved.storage,
        "actions": saved.actions,
        "false_stops": saved.false_stops,
        "actions_of_unknown_price": saved.unpriced,
    }


def percent(part: Decimal | int, whole: Decimal | int) -> str:
    """`18%`; `less than 1%` where a share would be rounded to nothing."""
    share = 100 * Decimal(part) / whole if whole else Decimal(0)
    return "less than 1%" if 0 < share < 1 else f"{share:.0f}%"


def days_between(first: date, last: date) -> list[date]:
    return [first + DAY * number for number in range((last - first).days + 1)]


def _midnight(day: date) -> UtcDatetime:
    return parse_month(f"{day:%Y-%m}") + DAY * (day.day - 1)


# addresses and what they ask for


def instance_href(row: FleetRow) -> str:
    return f"/instances/{row.account}/{row.region}/{row.instance_id}"


def project_href(name: str) -> str:
    return f"/projects/{quote(name, safe='')}"


def with_query(path: str, query: Mapping[str, object]) -> str:
    """Return the address with what is set of the query."""
    known = {name: value for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(known)}" if known else path


def text_of(query: Mapping[str, str], name: str) -> str:
    """Return one value of the query. Raises: InputError."""
    text = query.get(name, "").strip()
    if len(text) > LONGEST_TEXT:
        raise InputError(f"{name} is longer than {LONGEST_TEXT} characters: shorten it")
    return text


def choice_of(query: Mapping[str, str], name: str, known: Sequence[str], default: str) -> str:
    """Return one of several values. Raises: InputError, which says what they are."""
    text = text_of(query, name)
    if text and text not in known:
        raise InputError(f"{name} can be {listed(known, len(known))}")
    return text or default


def number_of(query: Mapping[str, str], name: str, most: int, default: int = 1) -> int:
    """Return a whole number from 1. Raises: InputError."""
    text = text_of(query, name)
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:6]) <= most and len(text) <= 6):
        raise InputError(f"{name} must be a number from 1 to {most:,}")
    return int(text)


def month_in(query: Mapping[str, str], now: datetime) -> UtcDatetime:
    """Return when the month began that a page is asked for. Raises: InputError."""
    text = text_of(query, "month")
    this = month_start(now)
    try:
        month = parse_month(text) if text else this
    except ValueError:
        raise InputError(f"month must be written as {this:%Y-%m}") from None
    if not this.replace(year=this.year - 5) <= month <= this:
        raise InputError(f"month must lie in the last five years, up to {this:%Y-%m}")
    return month


TEMPLATES.filters.update(
    plural=plural,
    percent=percent,
    cents=money,
    left=left,
    sentence=sentence,
    moment=clock,
    date=lambda moment, zone: charts.day_text(moment.astimezone(ZoneInfo(zone)).date()),
    day=charts.day_text,
    project=project_href,
    spark=charts.sparkline,
)
