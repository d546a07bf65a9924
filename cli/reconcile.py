"""`governor reconcile FILE`: what a bill (CUR 2.0, FOCUS) says of the ledger, amortized, never
blended.

Of each action it says what an hour of the instance really cost before it, how much of that a
commitment paid, and whether the instance ran on while the ledger counts it as saved. Reads only;
`--store` adds corrections.
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
from governor.adapters.clients import Clients
from governor.adapters.table.dynamodb import DynamoTable
from governor.domain.money.cost import DAY, month_of, parse_month
from governor.domain.money.ledger import Cash, LedgerEntry
from governor.domain.units import Usd, UtcDatetime, listed, money, plural
from governor.errors import GovernorError
from governor.stores import StateTable

_HOURS = {"hrs", "hours", "hour"}
_USAGE = re.compile("BoxUsage|SpotUsage|DedicatedUsage")
_LATEST = timedelta(hours=1)
"""A bill counts by the hour: of the one in which an instance stopped, it has a part."""
_FOCUS = (
    "ResourceId",
    "ChargePeriodStart",
    "ChargePeriodEnd",
    "EffectiveCost",
    "ConsumedQuantity",
    "ConsumedUnit",
)
_CUR = (
    *("line_item_resource_id", "line_item_usage_start_date", "line_item_usage_end_date"),
    *(
        "line_item_line_item_type",
        "line_item_unblended_cost",
        "line_item_usage_amount",
        "line_item_operation",
    ),
)
_EFFECTIVE = {
    "SavingsPlanCoveredUsage": "savings_plan_savings_plan_effective_cost",
    "DiscountedUsage": "reservation_effective_cost",
    "Usage": "line_item_unblended_cost",
}
"""The column of a line's amortized cost, by its type. Source: AWS, CUR 2.0 table dictionary. All
other types are fees, credits, taxes, or take off what one of these counts."""


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
class Found:
    """The bill about one action. `cash`: an hour of it; `None` where it has no hour before it.
    `ran_on`: hours that were billed while the ledger counts them as saved."""

    entry: LedgerEntry
    cash: Cash | None
    ran_on: Decimal


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command."""
    command = areas.add_parser("reconcile")
    command.add_argument(
        "file", metavar="FILE", help="an export as CSV, also gzipped: CUR 2.0, or FOCUS 1.0 or 1.2"
    )
    command.add_argument(
        "--store", action="store_true", help="add what it says to the ledger, as corrections"
    )
    command.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    now, path = times.now(), Path(arguments.file)
    with Progress(f"reading {path.name}"):
        bill = read(path)
    stack = Stack(arguments.stack_name, aws.session())
    try:
        with Progress("reading the ledger"):
            state = StateTable(DynamoTable(Clients(), stack.outputs["StateTableName"]))
            found = list(_compared(state, bill))
        corrected = [one for one in found if one.cash is not None] if arguments.store else []
        for one in corrected:
            assert one.cash is not None
            state.correct(one.entry, one.cash, path.name, now)
    except (ClientError, BotoCoreError, GovernorError) as error:
        why = break_glass.reason(error, stack.session, stack.name)
        raise CommandError(f"the ledger could not be read or corrected: {why}") from None
    with Output(arguments) as out:
        _say(out, found, bill, len(corrected))
    return int(any(one.ran_on for one in found))


def _compared(state: StateTable, bill: Bill) -> Iterator[Found]:
    """The actions of the bill's months, and those of the month before that it charges while they
    save."""
    months = {month_of(one.start) for charges in bill.charges.values() for one in charges}
    before = {month_of(parse_month(one) - DAY) for one in months}
    for month in sorted(months | before):
        acted = [compared(entry, bill) for entry in state.entries(month) if entry.acted]
        yield from acted if month in months else (one for one in acted if one.ran_on)


def _say(out: Output, found: Sequence[Found], bill: Bill, corrected: int) -> None:
    known = [one for one in found if one.cash is not None]
    text = (
        f"The bill has {len(known)} of {plural(len(found), 'action')} of its months in the ledger."
    )
    out.say(
        text,
        actions=len(found),
        in_the_bill=len(known),
        corrected=corrected,
        left_out=bill.left_out,
        entries=[],
    )
    for one in found:
        _say_one(out, one)
    if bill.left_out:
        out.say(f"{plural(bill.left_out, 'line')} in other currencies than USD left out.")
    if corrected:
        out.say(
            f"{plural(corrected, 'correction')} added to the ledger; nothing in it was changed."
        )


def _say_one(out: Output, one: Found) -> None:
    entry, cash = one.entry, one.cash
    listed_price = (
        "unpriced" if entry.saved_usd_per_hour is None else f"${money(entry.saved_usd_per_hour, 4)}"
    )
    name = entry.resource_name or entry.episode.instance_id
    if cash is None:
        says = "the bill has no hour of it before the stop"
    else:
        low, high = (f"${money(amount, 4)}" for amount in cash)
        says = (
            f"in the bill {low}"
            if low == high
            else f"in the bill {low} to {high}: a commitment paid for some"
        )
    warned = f". It ran for {money(one.ran_on, 1)} h while it counts as saved" if one.ran_on else ""
    out.list(
        f"{name}, {entry.outcome.value} {entry.booked_at:%Y-%m-%d %H:%M} UTC: net at list "
        f"{listed_price} an hour, {says}{warned}",
        "entries",
        {
            "instance_id": entry.episode.instance_id,
            "episode": entry.episode.execution_name,
            "list_usd_per_hour": entry.saved_usd_per_hour,
            "cash_low_usd_per_hour": cash and cash.low,
            "cash_high_usd_per_hour": cash and cash.high,
            "ran_on_hours": one.ran_on,
        },
    )


def compared(entry: LedgerEntry, bill: Bill) -> Found:
    """Return what the bill says of an action of the ledger."""
    charges = bill.charges.get(entry.episode.instance_id, ())
    before = [one for one in charges if one.end <= entry.booked_at]
    hours = sum((one.hours for one in before), Decimal(0))
    ended = entry.ended_at or datetime.max.replace(tzinfo=UTC)
    ran_on = sum(
        (
            one.hours
            for one in charges
            if one.start >= entry.booked_at + _LATEST and one.end <= ended
        ),
        Decimal(0),
    )
    if not hours:
        return Found(entry, None, ran_on)
    paid = sum((one.usd for one in before), Decimal(0)) / hours
    on_demand = sum((one.usd for one in before if not one.is_committed), Decimal(0)) / hours
    storage = entry.storage_usd_per_hour or Decimal(0)
    return Found(entry, Cash(on_demand - storage, paid - storage), ran_on)


def read(path: Path) -> Bill:
    """The charges of instance hours in an export.

    Raises:
        CommandError: it cannot be read, or is of another form.
    """
    try:
        opener: Callable[..., IO[str]] = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf-8-sig", newline="") as text:
            rows = csv.DictReader(text)
            names = set(rows.fieldnames or ())
            for columns, charge in ((_FOCUS, _of_focus), (_CUR, _of_cur)):
                if names.issuperset(columns):
                    return _bill(_charges(path, rows, columns, charge))
    except (OSError, UnicodeDecodeError, csv.Error, EOFError) as error:
        raise CommandError(f"{path} could not be read: {error}") from None
    raise CommandError(
        f"{path} is neither a FOCUS nor a CUR 2.0 export as CSV: it lacks "
        f"{listed(sorted(set(_FOCUS) - names), 6)}, or {listed(sorted(set(_CUR) - names), 7)}"
    )


def _charges(
    path: Path,
    rows: csv.DictReader[str],
    columns: Sequence[str],
    charge: Callable[[Mapping[str, str]], Charge | str | None],
) -> Iterator[Charge | str | None]:
    for row in rows:
        try:
            if any(row[name] is None for name in columns):
                raise ValueError("it is cut short")
            yield charge(row)
        except KeyError as error:
            why = (
                f"the export lacks the column {error.args[0]}, which lines of this type "
                "need: add it"
            )
            raise CommandError(f"{path}, line {rows.line_num}: {why}") from None
        except ValueError as error:
            raise CommandError(f"{path}, line {rows.line_num}: {error}") from None


def _bill(charges: Iterator[Charge | str | None]) -> Bill:
    """`None` is what is no instance's hour, a text its currency."""
    found: dict[str, list[Charge]] = defaultdict(list)
    left_out = 0
    for one in charges:
        if isinstance(one, str):
            left_out += 1
        elif one is not None:
            found[one.instance_id].append(one)
    return Bill(found, left_out)


def _of_focus(row: Mapping[str, str]) -> Charge | str | None:
    instance_id = row["ResourceId"].rpartition("/")[2]
    is_usage = row.get("ChargeCategory", "Usage") == "Usage"
    if not (is_usage and instance_id.startswith("i-") and row["ConsumedUnit"].lower() in _HOURS):
        return None
    # A column that AWS adds, and not FOCUS.
    if not _USAGE.search(row.get("x_UsageType") or "BoxUsage"):
        return None
    if (currency := row.get("BillingCurrency") or "USD") != "USD":
        return currency
    return Charge(
        instance_id,
        _moment(row["ChargePeriodStart"]),
        _moment(row["ChargePeriodEnd"]),
        _amount(row["ConsumedQuantity"]),
        _amount(row["EffectiveCost"]),
        bool(row.get("CommitmentDiscountId")),
    )


def _of_cur(row: Mapping[str, str]) -> Charge | str | None:
    instance_id, kind = row["line_item_resource_id"], row["line_item_line_item_type"]
    if not (instance_id.startswith("i-") and row["line_item_operation"].startswith("RunInstances")):
        return None
    if (column := _EFFECTIVE.get(kind)) is None or not _USAGE.search(
        row.get("line_item_usage_type", "BoxUsage")
    ):
        return None
    if (currency := row.get("line_item_currency_code") or "USD") != "USD":
        return currency
    return Charge(
        instance_id,
        _moment(row["line_item_usage_start_date"]),
        _moment(row["line_item_usage_end_date"]),
        _amount(row["line_item_usage_amount"]),
        _amount(row[column]),
        kind != "Usage",
    )


def _amount(text: str) -> Decimal:
    """Raises: ValueError."""
    try:
        found = Decimal(text)
    except InvalidOperation:
        found = Decimal("NaN")
    if not found.is_finite():
        raise ValueError(f"{text!r} is no amount")
    return found


def _moment(text: str) -> UtcDatetime:
    """Read a time of an export: UTC, whether it says so or not."""
    found = datetime.fromisoformat(text.strip().replace(" UTC", ""))
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
