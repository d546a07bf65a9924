"""`governor reconcile FILE`: compare the ledger with a bill (CUR 2.0, FOCUS).

For each action it prints what an hour of the instance really cost before it, how much of that a
commitment paid, and whether the instance ran on while the ledger counts it as saved. Costs are
amortized, never blended. It only reads; `--store` adds corrections.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import IO, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from cli import aws, break_glass, times
from cli.errors import CommandError
from cli.output import Output
from cli.progress import Progress
from cli.status import Stack
from governor.aws.clients import Clients
from governor.aws.dynamodb import DynamoTable
from governor.core.errors import GovernorError
from governor.core.units import Usd, UtcDatetime, listed, money, plural
from governor.money.model.ledger import Cash, LedgerEntry
from governor.money.rules.cost import DAY, month_of, parse_month
from governor.money.store.ledger import Ledger

_HOURS = {"hrs", "hours", "hour"}
_USAGE = re.compile("BoxUsage|SpotUsage|DedicatedUsage")
_LATEST = timedelta(hours=1)
"""A bill counts by the hour, so it has a part of the hour in which an instance stopped."""
_FOCUS = (
    "ResourceId",
    "ChargePeriodStart",
    "ChargePeriodEnd",
    "EffectiveCost",
    "ConsumedQuantity",
    "ConsumedUnit",
)
_CUR = (
    "line_item_resource_id",
    "line_item_usage_start_date",
    "line_item_usage_end_date",
    "line_item_line_item_type",
    "line_item_unblended_cost",
    "line_item_usage_amount",
    "line_item_operation",
)
_EFFECTIVE = {
    "SavingsPlanCoveredUsage": "savings_plan_savings_plan_effective_cost",
    "DiscountedUsage": "reservation_effective_cost",
    "Usage": "line_item_unblended_cost",
}
"""The column of a line's amortized cost, by its type. Source: AWS, CUR 2.0 table dictionary.

All other types are fees, credits and taxes, or subtract what one of these counts.
"""


class Charge(NamedTuple):
    """Hours of one instance, what they cost in USD, and whether a commitment paid."""

    instance_id: str
    start: UtcDatetime
    end: UtcDatetime
    hours: Decimal
    usd: Usd
    is_committed: bool


@dataclass(frozen=True, slots=True)
class Bill:
    """The charges of instances by their id. `left_out`: lines in other currencies."""

    charges: Mapping[str, Sequence[Charge]]
    left_out: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """One action of the ledger with what the bill has about it.

    `cash` is an hour's cost; `None` where the bill has no hour before the action. `ran_on` are
    hours that were billed while the ledger counts them as saved.
    """

    entry: LedgerEntry
    cash: Cash | None
    ran_on: Decimal


def run(arguments: argparse.Namespace) -> int:
    """Compare the bill with the ledger, and store corrections if asked. Return 1 when an instance
    ran while it counts as saved.

    Raises:
        CommandError: the bill or the ledger could not be read, or a correction not stored.
    """
    now = times.now()
    path = Path(arguments.file)
    with Progress(f"reading {path.name}"):
        bill = read(path)
    stack = Stack(arguments.stack_name, aws.session())
    corrected_count = 0
    try:
        with Progress("reading the ledger"):
            ledger_store = Ledger(DynamoTable(Clients(), stack.outputs["StateTableName"]))
            comparisons = list(_comparisons(ledger_store, bill))
        if arguments.store:
            corrected_count = _store_corrections(ledger_store, comparisons, path.name, now)
    except (ClientError, BotoCoreError, GovernorError) as error:
        why = break_glass.reason(error, stack.session, stack.name)
        raise CommandError(f"the ledger could not be read or corrected: {why}") from None
    with Output(arguments) as out:
        _say(out, comparisons, bill, corrected_count)
    has_run_on = any(comparison.ran_on for comparison in comparisons)
    return int(has_run_on)


def _store_corrections(
    ledger_store: Ledger, comparisons: Sequence[Comparison], source: str, now: UtcDatetime
) -> int:
    """Add the bill's costs to the ledger. Return how many entries were corrected."""
    count = 0
    for comparison in comparisons:
        if comparison.cash is not None:
            ledger_store.correct(comparison.entry, comparison.cash, source, now)
            count += 1
    return count


def _comparisons(ledger_store: Ledger, bill: Bill) -> Iterator[Comparison]:
    """Yield the actions of the bill's months, and actions of the month before that ran on.

    An action of the month before is in the bill only if its instance ran while it counts as saved.
    """
    months: set[str] = set()
    for charges in bill.charges.values():
        months.update(month_of(charge.start) for charge in charges)
    months_before = {month_of(parse_month(month) - DAY) for month in months}
    for month in sorted(months | months_before):
        acted = []
        for entry in ledger_store.entries(month):
            if entry.acted:
                acted.append(compared(entry, bill))
        for comparison in acted:
            if month in months or comparison.ran_on:
                yield comparison


def _say(out: Output, comparisons: Sequence[Comparison], bill: Bill, corrected_count: int) -> None:
    # A saving that goes on after a start that fell back is no further action.
    actions = [comparison for comparison in comparisons if not comparison.entry.is_continuation]
    in_bill_count = sum(action.cash is not None for action in actions)
    actions_text = plural(len(actions), "action")
    out.say(
        f"The bill has {in_bill_count} of {actions_text} of its months in the ledger.",
        actions=len(actions),
        in_the_bill=in_bill_count,
        corrected=corrected_count,
        left_out=bill.left_out,
        entries=[],
    )
    for comparison in comparisons:
        _say_comparison(out, comparison)
    if bill.left_out:
        out.say(f"{plural(bill.left_out, 'line')} in other currencies than USD left out.")
    if corrected_count:
        corrections = plural(corrected_count, "correction")
        out.say(f"{corrections} added to the ledger; nothing in it was changed.")


def _say_comparison(out: Output, comparison: Comparison) -> None:
    entry = comparison.entry
    cash = comparison.cash
    list_price = "unpriced"
    if entry.saved_usd_per_hour is not None:
        list_price = f"${money(entry.saved_usd_per_hour, 4)}"
    ran_on = ""
    if comparison.ran_on:
        ran_on = f". It ran for {money(comparison.ran_on, 1)} h while it counts as saved"
    name = entry.resource_name or entry.episode.instance_id
    action = f"{entry.outcome.value} {entry.stopped_at:%Y-%m-%d %H:%M} UTC"
    if entry.is_continuation:
        action += f", it saves again since {entry.booked_at:%Y-%m-%d %H:%M} UTC"
    text = f"{name}, {action}: net at list {list_price} an hour, {_billed_price(cash)}{ran_on}"
    cash_low = None if cash is None else cash.low
    cash_high = None if cash is None else cash.high
    fact = {
        "instance_id": entry.episode.instance_id,
        "episode": entry.episode.execution_name,
        "list_usd_per_hour": entry.saved_usd_per_hour,
        "cash_low_usd_per_hour": cash_low,
        "cash_high_usd_per_hour": cash_high,
        "ran_on_hours": comparison.ran_on,
    }
    out.list(text, "entries", fact)


def _billed_price(cash: Cash | None) -> str:
    if cash is None:
        return "the bill has no hour of it before the stop"
    low = f"${money(cash.low, 4)}"
    high = f"${money(cash.high, 4)}"
    if low == high:
        return f"in the bill {low}"
    return f"in the bill {low} to {high}: a commitment paid for some"


def compared(entry: LedgerEntry, bill: Bill) -> Comparison:
    """Return an action of the ledger with what the bill has about it."""
    saved_from = entry.booked_at + _LATEST
    saved_until = entry.ended_at or datetime.max.replace(tzinfo=UTC)
    ran_on = Decimal(0)
    hours = Decimal(0)
    paid = Decimal(0)
    paid_on_demand = Decimal(0)
    for charge in bill.charges.get(entry.episode.instance_id, ()):
        if charge.start >= saved_from and charge.end <= saved_until:
            ran_on += charge.hours
        if charge.end <= entry.booked_at:
            hours += charge.hours
            paid += charge.usd
            if not charge.is_committed:
                paid_on_demand += charge.usd
    if not hours:
        return Comparison(entry, None, ran_on)
    storage = entry.storage_usd_per_hour or Decimal(0)
    cash = Cash(paid_on_demand / hours - storage, paid / hours - storage)
    return Comparison(entry, cash, ran_on)


def read(path: Path) -> Bill:
    """Return the charges of instance hours in an export.

    Raises:
        CommandError: it cannot be read, or is of another form.
    """
    try:
        opener: Callable[..., IO[str]] = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf-8-sig", newline="") as text:
            rows = csv.DictReader(text)
            names = set(rows.fieldnames or ())
            for columns, parse in ((_FOCUS, _charge_of_focus), (_CUR, _charge_of_cur)):
                if names.issuperset(columns):
                    return _bill(_charges(path, rows, columns, parse))
    except (OSError, UnicodeDecodeError, csv.Error, EOFError) as error:
        raise CommandError(f"{path} could not be read: {error}") from None
    missing_of_focus = listed(sorted(set(_FOCUS) - names), 6)
    missing_of_cur = listed(sorted(set(_CUR) - names), 7)
    raise CommandError(
        f"{path} is neither a FOCUS nor a CUR 2.0 export as CSV: it lacks "
        f"{missing_of_focus}, or {missing_of_cur}"
    )


def _charges(
    path: Path,
    rows: csv.DictReader[str],
    columns: Sequence[str],
    parse: Callable[[Mapping[str, str]], Charge | str | None],
) -> Iterator[Charge | str | None]:
    """Yield each line as `parse` reads it. Raises: CommandError for one that cannot be read."""
    for row in rows:
        try:
            if any(row[name] is None for name in columns):
                raise ValueError("it is cut short")
            yield parse(row)
        except KeyError as error:
            why = (
                f"the export lacks the column {error.args[0]}, which lines of this type "
                "need: add it"
            )
            raise CommandError(f"{path}, line {rows.line_num}: {why}") from None
        except ValueError as error:
            raise CommandError(f"{path}, line {rows.line_num}: {error}") from None


def _bill(charges: Iterator[Charge | str | None]) -> Bill:
    """Collect the charges.

    A text stands for a line in that other currency, and `None` for one that is no instance hour.
    """
    charges_by_id: dict[str, list[Charge]] = defaultdict(list)
    left_out = 0
    for charge in charges:
        if isinstance(charge, str):
            left_out += 1
        elif charge is not None:
            charges_by_id[charge.instance_id].append(charge)
    return Bill(charges_by_id, left_out)


def _charge_of_focus(row: Mapping[str, str]) -> Charge | str | None:
    instance_id = row["ResourceId"].rpartition("/")[2]
    is_usage = row.get("ChargeCategory", "Usage") == "Usage"
    is_instance = instance_id.startswith("i-")
    is_in_hours = row["ConsumedUnit"].lower() in _HOURS
    if not (is_usage and is_instance and is_in_hours):
        return None
    # AWS adds this column to those of FOCUS.
    if not _USAGE.search(row.get("x_UsageType") or "BoxUsage"):
        return None
    currency = row.get("BillingCurrency") or "USD"
    if currency != "USD":
        return currency
    return Charge(
        instance_id,
        _moment(row["ChargePeriodStart"]),
        _moment(row["ChargePeriodEnd"]),
        _amount(row["ConsumedQuantity"]),
        _amount(row["EffectiveCost"]),
        bool(row.get("CommitmentDiscountId")),
    )


def _charge_of_cur(row: Mapping[str, str]) -> Charge | str | None:
    instance_id = row["line_item_resource_id"]
    line_type = row["line_item_line_item_type"]
    is_instance = instance_id.startswith("i-")
    if not is_instance or not row["line_item_operation"].startswith("RunInstances"):
        return None
    cost_column = _EFFECTIVE.get(line_type)
    if cost_column is None:
        return None
    if not _USAGE.search(row.get("line_item_usage_type", "BoxUsage")):
        return None
    currency = row.get("line_item_currency_code") or "USD"
    if currency != "USD":
        return currency
    return Charge(
        instance_id,
        _moment(row["line_item_usage_start_date"]),
        _moment(row["line_item_usage_end_date"]),
        _amount(row["line_item_usage_amount"]),
        _amount(row[cost_column]),
        line_type != "Usage",
    )


def _amount(text: str) -> Decimal:
    """Read an amount. Raises: ValueError."""
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite():
        raise ValueError(f"{text!r} is no amount")
    return amount


def _moment(text: str) -> UtcDatetime:
    """Read a time of an export. One without a zone is in UTC."""
    moment = datetime.fromisoformat(text.strip().replace(" UTC", ""))
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC)
