"""Parts of several views about rows and money: who is idle, what happens next, problems, sums by
day."""

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

from governor.console.formats import TEMPLATES
from governor.console.page import Asked, Row, Table
from governor.console.views import charts
from governor.domain import units
from governor.domain.approvals.messages import readable, step_text
from governor.domain.approvals.terms import Scope
from governor.domain.episode.episode import Failing
from governor.domain.fleet.rows import AMOUNTS, UNGOVERNED, FleetPage, FleetRow, Share
from governor.domain.instance import Target, tag_command
from governor.domain.money.cost import DAY, month_start, months, parse_month
from governor.domain.money.ledger import LedgerEntry
from governor.domain.sweep.breaker import why_frozen
from governor.domain.sweep.verdict import HELD_BACK, NOTES, Family, known_kind
from governor.domain.units import Item, Usd, UtcDatetime, full_stop, left, listed, plural, sentence
from governor.errors import InputError

COLUMNS = tuple(one.name for one in fields(FleetRow) if one.name not in ("hours", "advice"))
"""Columns of a row in CSV."""
LONGEST_TEXT = 300
"""Longest text of a search or a filter."""
_STALE = timedelta(hours=1)
"""Without a sweep for so long, what is shown is no longer now."""


class Problem(NamedTuple):
    """Something that keeps the governor from its work, and what to do about it."""

    text: str
    do: str
    href: str | None = None


class Line(NamedTuple):
    """One row as a table shows it. `kind` is the class of its color; what is not governed has no
    page."""

    row: FleetRow
    kind: str
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


def targets_in(ask: Asked) -> list[tuple[Target, FleetPage | None]]:
    """Return the targets that the caller sees as a whole or an instance of, each with its page."""
    swept = {page.target: page for page in ask.reader.pages}
    here = {page.target for _, page in ask.seen}
    return [
        (one, swept.get(one))
        for one in ask.reader.targets
        if is_whole(one, ask.scope) or one in here
    ]


def is_whole(target: Target, scope: Scope) -> bool:
    return scope.everything or target.account in scope.accounts


def family_of(row: FleetRow) -> Family:
    kind = known_kind(row.verdict)
    return Family.UNKNOWN if kind is None else kind.family


def lines(ask: Asked, rows: Iterable[Row]) -> list[Line]:
    return [line(ask, row, page) for row, page in rows]


def line(ask: Asked, row: FleetRow, page: FleetPage) -> Line:
    color, text = _verdict(row, ask.now)
    if row.verdict == UNGOVERNED:
        selector = ask.reader.policy.selector
        command = tag_command(row.instance_id, row.region, selector.tag_key, selector.tag_value)
        return Line(row, color, text, command, "")
    address = href(row)
    if row.approval_id in ask.answered:
        row = replace(row, approval_id=None, asked_at=None, expires_at=None)
        return Line(row, color, text, "answered since the last sweep", address)
    return Line(row, color, text, _next(row, page.mode, ask.caller.zone, ask.now), address)


def href(row: FleetRow) -> str:
    return f"/instances/{row.account}/{row.region}/{row.instance_id}"


def _verdict(row: FleetRow, now: UtcDatetime) -> tuple[str, str]:
    words, last = row.verdict.replace("-", " "), row.hours[-1] if row.hours else None
    match family_of(row):
        case Family.WORKING:
            return "good", words if last is None else f"{words} {last}%"
        case Family.IDLE:
            return "bad", f"idle {units.span(now - row.idle_since)}" if row.idle_since else "idle"
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
        return f"kept until {units.clock(row.kept_until, zone, now)}"
    if group is not Family.IDLE:
        return ""
    if row.managed_by:
        return f"{row.managed_by} runs it"
    return (
        _asked(row, mode, now)
        if row.episode and not row.is_reported
        else _follows(row, mode, zone, now)
    )


def _follows(row: FleetRow, mode: str, zone: str, now: UtcDatetime) -> str:
    if mode == "observe":
        return "only reported (observe)"
    quiet = row.quiet_until if row.quiet_until and row.quiet_until > now else None
    again = f"checked again {units.clock(quiet, zone, now)}" if quiet else ""
    if row.is_reported:
        return f"only reported, {again}" if again else "only reported"
    return again or ("owner is notified next" if mode == "auto" else "question follows")


def _asked(row: FleetRow, mode: str, now: UtcDatetime) -> str:
    if mode == "observe":
        return "rehearsal, nothing is changed"
    if row.asked_at is not None and row.expires_at is not None:
        is_open = row.expires_at > now
        return f"asked, {left(row.expires_at - now)} left" if is_open else "time to answer is over"
    if mode == "auto":
        return f"{row.verb or 'stop'} follows, can be held"
    return "question not sent yet" if row.approval_id else "decided, in progress"


def questions(ask: Asked) -> list[Row]:
    """Return the rows with an open question, also one that is not sent yet, the most expensive
    first."""
    return by_price(one for one in ask.asked if one[0].approval_id not in ask.answered)


def by_price(seen: Iterable[Row]) -> list[Row]:
    """Return them with the most expensive first; those of unknown price come last."""
    return sorted(seen, key=lambda one: (-price(one[0]), one[0].name))


def price(row: FleetRow) -> Decimal:
    """To sort by: below zero where it is not known."""
    return Decimal(-1) if row.usd_per_hour is None else row.usd_per_hour


def table(name: str, seen: Iterable[Row]) -> Table:
    return Table(
        name, COLUMNS, tuple(tuple(getattr(row, one) for one in COLUMNS) for row, _ in seen)
    )


def problems(ask: Asked) -> Iterator[Problem]:
    """Yield what stands in the way, as far as stored data shows it to this caller."""
    reader, scope, seen, now = ask.reader, ask.scope, ask.seen, ask.now
    pause = reader.state.pause()
    if pause is not None:
        text = f"Everything is {pause.why}" if scope.everything else "Everything is paused"
        yield Problem(
            sentence(text), "Nothing is stopped, terminated or deleted: see the pause", "/freezes"
        )
    why = why_frozen(None, reader.state.hub(), now, reader.policy.breaker)
    if why is not None:
        # Its reason counts instances of everybody, as problems of a sweep may.
        text = f"All plans are frozen: {why}" if scope.everything else "All plans are frozen"
        yield Problem(
            sentence(text),
            "Nobody is asked and nothing is stopped meanwhile: see the freeze",
            "/freezes",
        )
    frozen = sorted({str(page.target) for row, page in seen if row.verdict in HELD_BACK})
    if frozen and why is None:
        yield Problem(f"Plans are frozen in {listed(frozen, 3)}.", "See the freeze", "/freezes")
    for target, page in targets_in(ask):
        if page is None:
            yield Problem(f"{target} has not been swept yet.", "Run governor doctor.")
        elif page.problem is not None:
            text = page.problem if is_whole(target, scope) else "its last sweep was not complete"
            yield Problem(full_stop(f"{target}: {text}"), "Run governor doctor if this stays.")
        elif now - page.swept_at > _STALE:
            yield Problem(
                f"{target} was last swept {left(now - page.swept_at)} ago.", "Run governor doctor."
            )
    yield from _failures(ask)
    unsent = [row.name for row, _ in seen if row.approval_id and row.asked_at is None]
    if unsent:
        text = f"{plural(len(unsent), 'question')} not sent yet: {listed(unsent, 3)}."
        yield Problem(text, "Questions wait for working hours. If this stays, run governor doctor.")
    silent = rate([one for one in seen if family_of(one[0]) is Family.UNKNOWN])
    if silent.instances:
        which = plural(silent.instances, "instance")
        text = f"{which} cannot be judged ({units.usd(silent.usd_per_hour)} an hour)."
        yield Problem(
            text, "Check the agents that publish their GPU metrics.", "/fleet?verdict=no-data"
        )


def _failures(ask: Asked) -> Iterator[Problem]:
    """Workflows that fail for one cause, an undelivered message among them, are one problem."""
    seen = {(page.target, row.instance_id): row for row, page in ask.seen}
    sees = ask.scope.sees
    causes: dict[str, list[Failing]] = defaultdict(list)
    for one in sorted(ask.reader.state.failing(), key=attrgetter("at"), reverse=True):
        # Names and reasons are of those whose it was when it failed.
        is_theirs = (one.target, one.instance_id) in seen and sees(
            one.target.account, one.project, one.owner
        )
        if one.over_at is None and is_theirs:
            causes[one.cause].append(one)
    for newest, *others in causes.values():
        names = listed([newest.name, *(one.name for one in others)], 3)
        text = f"Could not {step_text(newest.step)} {names}. {readable(newest.reason)}"
        yield Problem(text, "See what was done", href(seen[newest.target, newest.instance_id]))


# money


def shares(ask: Asked, first: date, last: date) -> Iterator[tuple[date, str, Share]]:
    """Yield what was spent on these days (UTC), of what the caller may see: day, project and
    share."""
    for month in months(_midnight(first), _midnight(last)):
        for costs in ask.reader.state.days(month, first):
            if costs.day <= last:
                for (owner, project), share in costs.shares.items():
                    if ask.scope.sees(costs.account, project, owner):
                        yield costs.day, project, share


def total(found: Sequence[Share]) -> Share:
    """Return their sum, by four sums of amounts: there may be tens of thousands."""
    return Share(*(sum(amounts, Decimal(0)) for amounts in zip(*map(AMOUNTS, found), strict=True)))


def ledger_in(ask: Asked, first: UtcDatetime, last: UtcDatetime) -> list[LedgerEntry]:
    """Return the booked actions that may count from one moment to another, of what the caller may
    see."""
    since = first - ask.counts_for
    return [
        entry
        for month in months(since, last)
        for entry in ask.reader.state.entries(month)
        if ask.scope.sees(entry.episode.account, entry.project, entry.owner)
    ]


def percent(part: Decimal | int, whole: Decimal | int) -> str:
    """`18%`; `less than 1%` where a share would be rounded to nothing."""
    share = 100 * Decimal(part) / whole if whole else Decimal(0)
    return "less than 1%" if 0 < share < 1 else f"{share:.0f}%"


def days_between(first: date, last: date) -> list[date]:
    return [first + DAY * number for number in range((last - first).days + 1)]


def _midnight(day: date) -> UtcDatetime:
    return parse_month(f"{day:%Y-%m}") + DAY * (day.day - 1)


# addresses and what they ask for


def project_href(name: str) -> str:
    """Escape by `~`, not `%`, which API Gateway decodes; and dots, as browsers take `..` out."""
    escaped = quote(name, safe="").replace("~", "%7E").replace(".", "%2E")
    return f"/projects/{escaped.replace('%', '~')}"


def name_in(part: str) -> str:
    """Return the name that a part of a path holds, also one that somebody typed with `%`."""
    return unquote(part.replace("~", "%"))


def with_query(path: str, query: Mapping[str, object]) -> str:
    known = {name: value for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(known)}" if known else path


def text_of(ask: Asked, name: str) -> str:
    """Return one value of the query. Raises: InputError."""
    text = ask.query.get(name, "").strip()
    if len(text) > LONGEST_TEXT:
        raise InputError(
            f"{'the search' if name == 'q' else name} is longer than {LONGEST_TEXT} "
            "characters: shorten it"
        )
    return text


def choice_of(ask: Asked, name: str, known: Sequence[str], default: str) -> str:
    """Return one of several values. Raises: InputError, which says what they are."""
    text = text_of(ask, name)
    if text and text not in known:
        raise InputError(f"{name} can be {listed(known, len(known))}")
    return text or default


def paged(
    ask: Asked, path: str, kept: Mapping[str, object], found: Sequence[Item], size: int
) -> tuple[Sequence[Item], Mapping[str, object]]:
    """Return the rows of the page that is asked for, and what leads to the others. Raises:
    InputError."""
    text, last = text_of(ask, "page") or "1", max(1, -(-len(found) // size))
    if not (text.isascii() and text.isdecimal() and len(text) <= 6 and 1 <= int(text) <= last):
        raise InputError(f"page must be a number from 1 to {last:,}")
    number = int(text)
    near = {"before": number - 1 or last + 1, "after": number + 1}
    hrefs = {
        name: with_query(path, {**kept, "page": one if one > 1 else ""}) if one <= last else ""
        for name, one in near.items()
    }
    rows = found[size * (number - 1) : size * number]
    return rows, {**hrefs, "number": number, "last": last, "first": size * (number - 1) + 1}


def month_in(ask: Asked) -> UtcDatetime:
    """Return when the month began that a page is asked for. Raises: InputError."""
    text = text_of(ask, "month")
    this = month_start(ask.now)
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
    cents=units.money,
    sentence=sentence,
    moment=units.clock,
    date=lambda moment, zone: charts.day_text(moment.astimezone(ZoneInfo(zone)).date()),
    day=charts.day_text,
    project=project_href,
    spark=charts.sparkline,
)
