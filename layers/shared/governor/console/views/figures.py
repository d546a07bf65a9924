"""Parts of several views: rows with their words and colors, the columns of the CSV, and money by
day.

A view calls these with its request (`ViewRequest`), so that they return only what the caller may
see.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from decimal import Decimal
from typing import NamedTuple
from zoneinfo import ZoneInfo

from governor.approvals.messages.failures import why_ended
from governor.approvals.model.approval import Answer
from governor.approvals.model.terms import Scope
from governor.console.cells import name_html, next_html, state_html
from governor.console.current_fleet import Row
from governor.console.formats import TEMPLATES
from governor.console.page import Table, ViewRequest
from governor.console.views import charts
from governor.console.views.addresses import project_href
from governor.core import units
from governor.core.episode_ref import EpisodeRef, episode_from_execution_name
from governor.core.instance import Target, tag_command
from governor.core.units import NEVER, Usd, UtcDatetime, daily_cost, left, plural, sentence
from governor.fleet.model import AMOUNTS, TERMINATED, DayCosts, FleetPage, FleetRow, Share
from governor.fleet.rules.kept import KeptList, kept_list
from governor.fleet.rules.states import WORDS, State, state_of
from governor.money.model.ledger import LedgerEntry
from governor.money.rules.cost import DAY, months, parse_month
from governor.money.rules.jobs import CountedCost, counted_costs
from governor.policy.ports import policy_or_base
from governor.scan.snapshot import Ungoverned, ungoverned
from governor.table import keys
from governor.verdict.model import (
    NOTES,
    PART_COLUMNS,
    known_kind,
    part_values,
    partly_idle_text,
)

_NOT_IN_CSV = ("hours", "advice")
_FIELDS = tuple(field.name for field in fields(FleetRow) if field.name != "idle_parts")
"""The fields of a row that CSV and JSON have as they are; `PART_COLUMNS` stand for the other."""
_ROW_COLUMNS = tuple(name for name in _FIELDS if name not in _NOT_IN_CSV)
_STATE_COLUMNS = ("state", "is_idle")
COLUMNS = (*_ROW_COLUMNS, *_STATE_COLUMNS, *PART_COLUMNS)
"""Columns of the Fleet as CSV (`/fleet.csv`)."""
_COLORS = {
    State.IDLE: "bad",
    State.HELD: "bad",
    State.BUSY: "good",
    State.PARTLY_IDLE: "good",
    State.NO_DATA: "warn",
}
"""The class of the color of a state; `soft` for all others."""

_ANSWERED: Mapping[Answer | None, str] = {
    Answer.APPROVE: "approved",
    Answer.KEEP: "kept",
    Answer.EXEMPT: "exempted",
    Answer.HOLD: "put on hold",
    None: "question canceled",
}
"""The end of a question in words, by its last answer."""


class Line(NamedTuple):
    """One row as a table shows it. `kind` is the class of its color, and `verdict` its state in
    words; `href` is empty for an instance that is not governed, which has no page. `start_href`
    leads to the confirmation that starts a stopped instance again; empty if the caller may not."""

    row: FleetRow
    kind: str
    verdict: str
    next: str
    href: str
    start_href: str = ""


@dataclass(frozen=True, slots=True)
class Rate:
    """A number of instances and what an hour of them costs, without the `unpriced`."""

    instances: int
    usd_per_hour: Usd
    unpriced: int

    @property
    def usd_per_day(self) -> Usd:
        """Return what a day of them costs, without the `unpriced`."""
        return daily_cost(self.usd_per_hour)


def rate(rows: Sequence[Row]) -> Rate:
    """Return the number of these instances and what an hour of them costs together; all zero
    without instances. Unknown prices are left out of the cost, and counted."""
    prices = []
    for row, _ in rows:
        if row.usd_per_hour is not None:
            prices.append(row.usd_per_hour)
    return Rate(
        instances=len(rows),
        usd_per_hour=sum(prices, Decimal(0)),
        unpriced=len(rows) - len(prices),
    )


def targets_in(request: ViewRequest) -> list[tuple[Target, FleetPage | None]]:
    """Return the targets of the policy that the caller sees as a whole, or sees an instance of,
    each with its page; `None` in place of a page if the target has not been swept yet. Raises:
    CloudError."""
    page_by_target = {page.target: page for page in request.reader.pages}
    targets_of_rows = {page.target for _, page in request.governed}
    targets: list[tuple[Target, FleetPage | None]] = []
    for target in request.reader.targets:
        if is_whole(target, request.scope) or target in targets_of_rows:
            targets.append((target, page_by_target.get(target)))
    return targets


def found_by_scans(request: ViewRequest) -> Ungoverned:
    """Return what the last scans found that is not governed, as far as the caller may see it.
    Raises: CloudError."""
    reader = request.reader
    snapshots = reader.scan_store.snapshots()
    return ungoverned(snapshots, reader.pages, reader.targets, request.now, request.scope.sees)


def is_whole(target: Target, scope: Scope) -> bool:
    """Return whether the caller sees the whole target, and not only some of its instances."""
    return scope.everything or target.account in scope.accounts


def split_running(rows: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """Return those of the rows that run, and those that do not: stopped and terminated ones."""
    running: list[Row] = []
    closed: list[Row] = []
    for row, page in rows:
        if row.stopped_at is None:
            running.append((row, page))
        else:
            closed.append((row, page))
    return running, closed


def lines(request: ViewRequest, rows: Iterable[Row]) -> list[Line]:
    """Return the lines of a table for these rows, in their order; empty without rows. Raises:
    CloudError."""
    rows = list(rows)
    if _may_ask_about_stopped(request):
        stopped = [row for row, _ in rows if row.stopped_at is not None and row.episode]
        episode_keys = [keys.episode(_ref_of_stop(row)) for row in stopped]
        request.reader.table.read_ahead(episode_keys)
    return [line(request, row, page) for row, page in rows]


def _ref_of_stop(row: FleetRow) -> EpisodeRef:
    """Return the episode that stopped or terminated the instance. Call it only for a row that has
    one. Raises: ValueError for a stored name that is not of an episode."""
    return episode_from_execution_name(str(row.episode))


def _may_ask_about_stopped(request: ViewRequest) -> bool:
    """Return whether the policy, or an override, asks people about stopped instances."""
    variants = request.reader.policies.variants
    return any(policy.approval.ask_about_stopped_after_days for policy in variants)


def _asked_after_days(request: ViewRequest, row: FleetRow) -> int | None:
    """Return how many days after its stop people are asked about the instance, by its policy;
    `None` if they never are, as for one that ran since its stop and fell back. The record of its
    stop has the tags by which overrides are chosen; the policy without overrides counts if it
    cannot be read. Raises: CloudError."""
    instance = None
    if row.episode and _may_ask_about_stopped(request):
        episode = request.reader.episode_store.episode(_ref_of_stop(row))
        if episode is not None:
            start_try = episode.start_try
            if start_try is not None and start_try.ran_and_fell_back:
                return None
            instance = episode.instance
    policy = policy_or_base(request.reader.policies, instance)
    return policy.approval.ask_about_stopped_after_days


def line(request: ViewRequest, row: FleetRow, page: FleetPage) -> Line:
    """Return one row as a table shows it: the state in words, and what happens next. For an
    instance that is not governed, the next step is the command that tags it. A question that was
    answered since the sweep is taken out of the row. Raises: CloudError."""
    state = state_of(row, request.now)
    color = _COLORS.get(state, "soft")
    text = _state_text(row, state, request.now)
    if state is State.UNGOVERNED:
        selector = request.reader.policy.selector
        command = tag_command(row.instance_id, row.region, selector.tag_key, selector.tag_value)
        return Line(row, color, text, command, "")
    address = href(row)
    if row.stopped_at is not None:
        start_href = start_again_href(request, row) if state is State.STOPPED else ""
        next_text = _next_of_closed(request, row, state)
        return Line(row, color, text, next_text, record_href(row), start_href)
    if row.approval_id in request.answers:
        text_next = f"{_ANSWERED[request.answers[row.approval_id]]} since the last sweep"
        return Line(row.without_question(), color, text, text_next, address)
    return Line(row, color, text, _next(row, page.mode, request.caller.zone, request.now), address)


def href(row: FleetRow) -> str:
    """Return the path of the page of the row's instance."""
    return f"/instances/{row.account}/{row.region}/{row.instance_id}"


def record_href(row: FleetRow) -> str:
    """Return the path of the page of a stopped or terminated instance, with the episode that did
    that: the page is found by it even if nothing else knows the instance any more."""
    return f"{href(row)}?episode={row.episode}"


def start_again_href(request: ViewRequest, row: FleetRow) -> str:
    """Return the address that confirms a start of this stopped instance, with its cost; empty if
    the caller is no approver of it."""
    if not request.caller.approves(row.account, row.project, row.owner):
        return ""
    return f"{record_href(row)}&start=1#start"


def _next_of_closed(request: ViewRequest, row: FleetRow, state: State) -> str:
    """Return when the instance was stopped or terminated, and when people are asked next. Raises:
    CloudError."""
    zone = request.caller.zone
    at = row.stopped_at or request.now
    when = units.clock(at, zone, request.now)
    if state is State.TERMINATED:
        return f"since {when}"
    asked_after_days = _asked_after_days(request, row)
    if asked_after_days is None:
        return f"since {when}, until somebody starts it"
    asked_at = max(at + DAY * asked_after_days, request.now)
    asked = units.clock(asked_at, zone, request.now)
    return f"since {when}; after {asked}, people are asked whether to terminate it"


def _state_text(row: FleetRow, state: State, now: UtcDatetime) -> str:
    """Return the state in words: with the time of an idle instance, the utilization of a busy one,
    and the idle GPUs of a partly idle one. A verdict that this release does not know is shown as it
    is stored."""
    if state is State.HELD:
        return f"{_idle_text(row, now)}, {WORDS[state]}"
    if state is State.IDLE:
        return _idle_text(row, now)
    if state is State.BUSY:
        return _busy_text(row)
    if state is State.PARTLY_IDLE:
        return partly_idle_text(row.idle_parts)
    if state is State.NO_DATA:
        return row.verdict.replace("-", " ")
    return WORDS[state]


def _idle_text(row: FleetRow, now: UtcDatetime) -> str:
    """Return `idle 6 h 40 min`, or `idle` if the time is not known."""
    if row.idle_since is None:
        return "idle"
    return f"idle {units.span(now - row.idle_since)}"


def _busy_text(row: FleetRow) -> str:
    """Return `busy 83%`, with the peak utilization of the last hour, or `busy` if that was not
    measured."""
    if not row.hours or row.hours[-1] is None:
        return "busy"
    return f"busy {row.hours[-1]}%"


_NEXT_BY_STATE: Mapping[State, str] = {
    State.KEPT: "",
    State.EXEMPT: "left alone until the exemption ends",
    State.TOO_YOUNG: "judged once it has run long enough",
}
"""The next step of instances that are not judged, if no answer or undo keeps them."""


def _next(row: FleetRow, mode: str, zone: str, now: UtcDatetime) -> str:
    """Return what happens to the row's instance next by itself, or who must do something; empty if
    nothing happens. `mode` is that of the sweep; `zone` is the reader's time zone."""
    state = state_of(row, now)
    kind = known_kind(row.verdict)
    if kind is not None and kind in NOTES:
        return NOTES[kind]
    if state in _NEXT_BY_STATE:
        if row.kept_until is not None:
            return f"kept until {units.clock(row.kept_until, zone, now)}"
        return _NEXT_BY_STATE[state]
    if state is State.HELD and row.stays_until is not None:
        return f"held until {units.clock(row.stays_until, zone, now)}"
    if not row.is_idle:
        return ""
    if row.managed_by:
        return f"left alone ({row.managed_by} runs it)"
    if row.episode and not row.is_reported:
        return _next_in_episode(row, mode, now)
    return _next_without_episode(row, mode, zone, now)


def _next_without_episode(row: FleetRow, mode: str, zone: str, now: UtcDatetime) -> str:
    """Return the next step for an idle instance that nobody is asked about yet, or that is only
    reported: with the time until which others' restarts, or else its quiet time, keep the sweep
    from asking, if that is ahead. In mode observe it is only reported."""
    if mode == "observe":
        return "only reported (observe)"
    quiet_until = row.restarts_quiet_until
    if quiet_until is not None and quiet_until > now:
        return f"others start it again; not asked until {units.clock(quiet_until, zone, now)}"
    recheck = ""
    if row.quiet_until and row.quiet_until > now:
        recheck = f"checked again {units.clock(row.quiet_until, zone, now)}"
    if row.is_reported:
        return f"only reported, {recheck}" if recheck else "only reported"
    if recheck:
        return recheck
    return "owner is notified next" if mode == "auto" else "question follows"


def _next_in_episode(row: FleetRow, mode: str, now: UtcDatetime) -> str:
    """Return the next step of an idle instance that has an open episode: the time left to answer,
    once it was asked; before that, the step that follows in mode auto, or that the question is not
    sent or is decided. In mode observe nothing follows."""
    if mode == "observe":
        return "rehearsal, nothing is changed"
    if row.asked_at is not None and row.expires_at is not None:
        if row.is_time_to_answer_over(now):
            return _next_after_silence(row)
        return time_left(row.expires_at, row.done_by_silence, now)
    if mode == "auto":
        return f"{row.verb or 'stop'} follows, can be held"
    return "question not sent yet" if row.approval_id else "decided, in progress"


def time_left(expires_at: UtcDatetime, done: str | None, now: UtcDatetime) -> str:
    """Return the time until an open question ends, with what silence does to the instance (`done`):
    `stopped in 1 min`, and `asked, 23 h left` if that is nothing."""
    remaining = left(expires_at - now)
    if done:
        return f"{done} in {remaining}"
    return f"asked, {remaining} left"


def _next_after_silence(row: FleetRow) -> str:
    """Return the next step for an instance about which nobody answered in time."""
    if row.done_by_silence is None:
        return "time to answer is over"
    if row.done_by_silence == TERMINATED:
        return "terminated soon: nobody answered"
    return "stopped within minutes: nobody answered"


def questions(request: ViewRequest) -> list[Row]:
    """Return the rows with an open question that nobody has answered since the sweep, also one that
    is not sent yet, or whose plan is carried out because nobody answered; the most expensive first,
    and of the same price, the one with the least time left. Raises: CloudError."""
    unanswered: list[Row] = []
    for row, page in request.open_questions:
        is_answered = row.approval_id in request.answers
        if not is_answered and not _was_carried_out(request, row):
            unanswered.append((row, page))
    return sorted(unanswered, key=_price_and_end)


def _was_carried_out(request: ViewRequest, row: FleetRow) -> bool:
    """Return whether the time to answer the row's question is over and the instance was stopped or
    terminated since the sweep. Raises: CloudError."""
    if not row.is_time_to_answer_over(request.now):
        return False
    return all(
        (running.account, running.region, running.instance_id)
        != (row.account, row.region, row.instance_id)
        for running, _ in request.running
    )


def _price_and_end(row_and_page: Row) -> tuple[Decimal, datetime, str]:
    """Return a sort key: the most expensive first, then the least time left (a question that is not
    sent yet comes last), then by name."""
    row, _ = row_and_page
    return -price(row), row.expires_at or NEVER, row.name


def by_price(rows: Iterable[Row]) -> list[Row]:
    """Return the rows with the most expensive first; those of unknown price come last."""
    return sorted(rows, key=_price_and_name)


def _price_and_name(row_and_page: Row) -> tuple[Decimal, str]:
    """Return a sort key: the most expensive first, then by name."""
    row, _ = row_and_page
    return -price(row), row.name


def price(row: FleetRow) -> Decimal:
    """Return the row's price of an hour to sort by: -1 if it is not known, so that it comes after
    all others."""
    if row.usd_per_hour is None:
        return Decimal(-1)
    return row.usd_per_hour


def table(request: ViewRequest, name: str, rows: Iterable[Row]) -> Table:
    """Return the rows as a table of this name for CSV and JSON, with a cell for each of
    `COLUMNS`."""
    cells_of_rows = []
    for row, _ in rows:
        cells = [getattr(row, column) for column in _ROW_COLUMNS]
        cells += [state_of(row, request.now).value, row.is_idle, *part_values(row.idle_parts)]
        cells_of_rows.append(tuple(cells))
    return Table(name, COLUMNS, tuple(cells_of_rows))


def document(request: ViewRequest, row: FleetRow) -> dict[str, object]:
    """Return a row as JSON gives it: its fields, its state, and how much of it is idle."""
    values = {name: getattr(row, name) for name in _FIELDS}
    parts = dict(zip(PART_COLUMNS, part_values(row.idle_parts), strict=True))
    state = state_of(row, request.now).value
    return {**values, "state": state, "is_idle": row.is_idle, **parts}


def shares(request: ViewRequest, first: date, last: date) -> Iterator[tuple[date, str, Share]]:
    """Yield what was spent on the days from `first` to `last` (UTC) of what the caller may see: the
    day, the project, and the costs by part. Raises: CloudError."""
    sees = request.scope.sees
    for costs in _stored_days(request, first, last):
        for (owner, project), share in costs.shares.items():
            if sees(costs.account, project, owner):
                yield costs.day, project, share


def counted(request: ViewRequest, first: date, last: date) -> Iterator[tuple[date, CountedCost]]:
    """Yield what was spent on the days from `first` to `last` (UTC) of what the caller may see: the
    day, and the costs by job. Raises: CloudError."""
    sees = request.scope.sees
    for costs in _stored_days(request, first, last):
        for key, cost in counted_costs(costs):
            if sees(costs.account, key.project, key.owner):
                yield costs.day, cost


def _stored_days(request: ViewRequest, first: date, last: date) -> Iterator[DayCosts]:
    """Yield the stored days from `first` to `last` (UTC) of all targets. Show no amount of them
    that the caller may not see. Raises: CloudError."""
    for month in months(_midnight(first), _midnight(last)):
        for costs in request.reader.fleet_store.days(month, first):
            if costs.day <= last:
                yield costs


def total(shares_to_add: Sequence[Share]) -> Share:
    """Return the sum of these costs by part; all zero if there are none. They are added part by
    part, which is fast: there may be tens of thousands."""
    amounts_of_shares = map(AMOUNTS, shares_to_add)
    sums = [sum(amounts, Decimal(0)) for amounts in zip(*amounts_of_shares, strict=True)]
    return Share(*sums)


def ledger_in(request: ViewRequest, first: UtcDatetime, last: UtcDatetime) -> list[LedgerEntry]:
    """Return the booked actions whose saving may count between two moments, of what the caller may
    see, in the order of booking; empty if there are none. Whole months are returned, from the month
    of `first` less the time for which a saving counts. Raises: CloudError."""
    entries: list[LedgerEntry] = []
    for month in months(first - request.counts_for, last):
        entries += request.current_fleet.entries(month)
    return entries


def kept(request: ViewRequest) -> KeptList:
    """Return the instances that nothing is done about now, each with the reason that keeps it, of
    those that the caller may see. Raises: CloudError."""
    sees = request.scope.sees

    def is_seen(row: FleetRow) -> bool:
        """Return whether the caller may see the instance of this row."""
        return sees(row.account, row.project, row.owner)

    return kept_list(request.reader.pages, request.now, is_seen)


def percent(part: Decimal | int, whole: Decimal | int) -> str:
    """Return part of whole as `18%`; `less than 1%` if it is above 0 and below 1%, and `0%` of
    nothing."""
    share = Decimal(0)
    if whole:
        share = 100 * Decimal(part) / whole
    return "less than 1%" if 0 < share < 1 else f"{share:.0f}%"


def days_between(first: date, last: date) -> list[date]:
    """Return each day from the first to the last, both included; empty if `last` is before
    `first`."""
    return [first + DAY * number for number in range((last - first).days + 1)]


def _midnight(day: date) -> UtcDatetime:
    """Return the beginning of a day (UTC)."""
    return parse_month(f"{day:%Y-%m}") + DAY * (day.day - 1)


def _date_text(moment: UtcDatetime, zone: str) -> str:
    """Return the day of a moment in this time zone, like `Nov 3`."""
    return charts.day_text(moment.astimezone(ZoneInfo(zone)).date())


# Pages write amounts with the filter `usd`: whole dollars, and cents below ten. `cents` is only for
# the tables of a project whose rows add up to an amount that stands beside them.
TEMPLATES.filters.update(
    plural=plural,
    percent=percent,
    cents=units.money,
    sentence=sentence,
    printable=units.printable,
    moment=units.clock,
    times=units.times_in_zone,
    why_ended=why_ended,
    date=_date_text,
    day=charts.day_text,
    project=project_href,
    spark=charts.sparkline,
    name=name_html,
    state=state_html,
    next=next_html,
)
