"""The Overview page: idle instances, open questions, stopped instances, savings and problems.

It reads stored sweeps and costs only, and counts nothing that the caller may not see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date

from governor.console.current_fleet import Row
from governor.console.page import Page, Table, ViewRequest
from governor.console.views import charts, figures
from governor.console.views.freezes import pause_values
from governor.console.views.problems import problems
from governor.core.instance import tag_command
from governor.core.units import NEVER, Usd, UtcDatetime, not_none
from governor.fleet.model import FleetRow, Share
from governor.fleet.rules.states import State, is_in, state_of_verdict
from governor.money.model.ledger import LedgerEntry
from governor.money.rules.cost import DAY, month_start
from governor.money.rules.ledger import net_by_day, sum_saved

_DAYS_SHOWN = 30
_ROWS_LISTED = 10
_KINDS = ("used", "idle", "kept", "not measured", "avoided")
"""From the bottom of a bar to its top: what was spent, and what was not."""


def overview(request: ViewRequest) -> Page:
    """Return the first page: the fleet, its questions, its problems and the savings, as far as the
    caller may see them. Raises: CloudError."""
    idle_rows = _in_state(request, State.IDLE)
    stopped_rows = figures.by_price(request.stopped)
    questions = figures.questions(request)
    rates = {
        "fleet": figures.rate(request.running),
        "idle": figures.rate(idle_rows),
        "questions": figures.rate(questions),
        "stopped": figures.rate(stopped_rows),
        "cannot_be_judged": figures.rate(_in_state(request, State.NO_DATA)),
    }
    this_month = month_start(request.now)
    last_month = month_start(this_month - DAY)
    first_shown = request.now - DAY * _DAYS_SHOWN
    entries = figures.ledger_in(request, min(last_month, first_shown), request.now)
    saved = sum_saved(entries, this_month, request.now, request.counts_for)
    # Compared with the same part of last month; otherwise every month would begin with a loss.
    same_part_ends = min(this_month, last_month + (request.now - this_month))
    saved_before = sum_saved(entries, last_month, same_part_ends, request.counts_for)
    days = _days(request, entries)
    has_amounts = any(any(amounts) for _, amounts in days)
    asked_at = [row.asked_at for row, _ in questions]
    table = _days_table(days)
    return Page(
        title="Overview",
        template="overview.html",
        values={
            **rates,
            **pause_values(request),
            "has_pages": bool(request.reader.pages),
            "kept": figures.kept(request),
            "saved": saved,
            "before": saved_before,
            "last_month": last_month,
            "problems": list(problems(request)),
            "first_steps": () if has_amounts else _first_steps(request),
            "chart": charts.stacked(days, _KINDS) if has_amounts else None,
            "days": days,
            "kinds": _KINDS,
            "open": figures.lines(request, questions[:_ROWS_LISTED]),
            "oldest": _earliest(asked_at),
            "next_question": _next_to_end(questions, request.now),
            "lines": figures.lines(request, idle_rows[:_ROWS_LISTED]),
            "stopped_lines": figures.lines(request, stopped_rows[:_ROWS_LISTED]),
        },
        document={
            **rates,
            "saved_this_month": saved,
            "net_saved_this_month_usd": saved.net_usd,
            "days": table.documents,
        },
        tables=(
            table,
            figures.table(request, "questions", questions),
            figures.table(request, "idle", idle_rows),
            figures.table(request, "stopped", stopped_rows),
        ),
    )


def _first_steps(request: ViewRequest) -> list[tuple[str, str]]:
    """Return what is still missing before the page has costs to show, in order: each step with its
    command. Empty for callers who do not see everything, as others set up the fleet. Raises:
    CloudError."""
    if not request.scope.everything:
        return []
    rows = [row for row, _ in request.running]
    steps = []
    if not request.reader.pages:
        steps.append(("The first sweep. If none comes within an hour, see why:", "governor doctor"))
    if not rows:
        selector = request.reader.policy.selector
        command = tag_command("INSTANCE_ID", "REGION", selector.tag_key, selector.tag_value)
        steps.append((f"An instance with the tag {selector}. To set it:", command))
    if all(state_of_verdict(row.verdict) is State.NO_DATA for row in rows):
        steps.append(("Metrics of the GPUs. To see which are missing:", "governor doctor"))
    steps.append(("The first counted day. To see when the last sweep ran:", "governor status"))
    return steps


def _in_state(request: ViewRequest, state: State) -> list[Row]:
    """Return the caller's running instances that the filter by this state lists, the most expensive
    first; empty if there are none. Raises: CloudError."""
    fitting = [(row, page) for row, page in request.running if is_in(row, state, request.now)]
    return figures.by_price(fitting)


def _earliest(moments: Iterable[UtcDatetime | None]) -> UtcDatetime | None:
    """Return the earliest of the moments that are known (not `None`); `None` if none is."""
    return min(not_none(moments), default=None)


def _next_to_end(questions: Sequence[Row], now: UtcDatetime) -> FleetRow | None:
    """Return the row of the question that ends first, of those that are sent and take answers;
    `None` if none is."""
    sent_rows = [row for row, _ in questions if row.expires_at is not None]
    open_rows = [row for row in sent_rows if not row.is_time_to_answer_over(now)]
    return min(open_rows, key=lambda row: row.expires_at or NEVER, default=None)


def _days_table(days: Sequence[tuple[date, tuple[Usd, ...]]]) -> Table:
    """Return the table of amounts by day, with a column for each of `_KINDS`."""
    amount_columns = [f"{kind.replace(' ', '_')}_usd" for kind in _KINDS]
    rows = [(day, *amounts) for day, amounts in days]
    return Table("days", ("day", *amount_columns), tuple(rows))


def _days(
    request: ViewRequest, entries: Sequence[LedgerEntry]
) -> list[tuple[date, tuple[Usd, ...]]]:
    """Return each of the last 30 days (UTC) with what was spent and avoided on it, in the order of
    `_KINDS`. Raises: CloudError."""
    first_day = request.now.date() - DAY * (_DAYS_SHOWN - 1)
    days = figures.days_between(first_day, request.now.date())
    shares_by_day: dict[date, list[Share]] = defaultdict(list)
    for day, _, share in figures.shares(request, days[0], days[-1]):
        shares_by_day[day].append(share)
    avoided = net_by_day(entries, days, request.now, request.counts_for)
    amounts_by_day: list[tuple[date, tuple[Usd, ...]]] = []
    for day, avoided_usd in zip(days, avoided, strict=True):
        spent = figures.total(shares_by_day[day])
        amounts = (spent.used, spent.idle, spent.kept, spent.unmeasured, avoided_usd)
        amounts_by_day.append((day, amounts))
    return amounts_by_day
