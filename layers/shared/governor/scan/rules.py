"""Sorts what a scan found, the most expensive waste first, and sums it up for the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

from governor.core.units import Usd, UtcDatetime, letters_and_digits, printable
from governor.policy.model.contacts import Ownership
from governor.policy.model.names import Tagged
from governor.policy.rules.owners import named_owner
from governor.scan.model import Row, Unread

OWNER_KEYS = ("owner", "createdby", "creator", "user", "contact", "email", "team")
"""Tag keys that name an owner where no owner tag of the policy does, by letters and digits alone,
the most exact first."""


def most_expensive_waste_first(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the rows in the order of the report: waste first, then what was not measured, then
    the others; in each part the most expensive first, and an unknown price last."""
    return tuple(sorted(rows, key=_place_in_report))


def _place_in_report(row: Row) -> tuple[int, Decimal, str, str, str]:
    """Return what the report is sorted by: waste first, then judgments without evidence, then the
    rest; each by price, the highest first. Names end ties, so that two scans give one order."""
    finding = row.judgment.finding
    part = 2
    if finding.is_waste:
        part = 0
    elif row.judgment.strength == "none":
        part = 1
    price = row.usd_per_month or Decimal()
    return part, -price, row.kind, str(row.resource.target), row.resource.resource_id


def owner_of(resource: Tagged, ownership: Ownership) -> str | None:
    """Return the owner whom the tags of a resource name, as one printable line: by the policy's
    owner tags, as of an instance, else by the first of `OWNER_KEYS`. Return `None` if no tag names
    one, or its value is blank."""
    named = named_owner(resource, ownership)
    if named is not None:
        return named
    value_by_key: dict[str, str] = {}
    for key, value in resource.tags.items():
        value_by_key[letters_and_digits(key)] = printable(value)
    for key in OWNER_KEYS:
        if value_by_key.get(key):
            return value_by_key[key]
    return None


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that have something in common, such as their owner."""

    name: str
    rows: int
    wasted: int
    """How many of the rows are waste."""
    usd_per_month: Usd
    """Their price together, as far as it is known and no other rows have it."""
    waste_usd_per_month: Usd
    prepaid_waste: int = 0
    """How many of the wasted rows are paid in advance: they add nothing to the sums."""

    @property
    def is_prepaid(self) -> bool:
        """Return whether it has waste, and all of it is paid in advance."""
        return 0 < self.wasted == self.prepaid_waste


def groups_of(rows: Iterable[Row], name_of: Callable[[Row], str]) -> tuple[Group, ...]:
    """Return the rows grouped by a name of theirs, the most expensive waste first. The groups add
    up to the waste of all rows."""
    rows_by_name: dict[str, list[Row]] = {}
    for row in rows:
        rows_by_name.setdefault(name_of(row), []).append(row)
    groups = [_group(name, members) for name, members in rows_by_name.items()]
    return tuple(sorted(groups, key=lambda group: (-group.waste_usd_per_month, group.name)))


def first_groups(groups: Sequence[Group], most: int) -> tuple[Group, ...]:
    """Return the first groups, and one named `and 3 more` for all others, so that what is shown
    still adds up. Return all groups if there are no more than `most`."""
    others = groups[most:]
    if not others:
        return tuple(groups)
    rest = Group(
        name=f"and {len(others)} more",
        rows=sum(group.rows for group in others),
        wasted=sum(group.wasted for group in others),
        usd_per_month=sum((group.usd_per_month for group in others), Decimal()),
        waste_usd_per_month=sum((group.waste_usd_per_month for group in others), Decimal()),
        prepaid_waste=sum(group.prepaid_waste for group in others),
    )
    return (*groups[:most], rest)


def _group(name: str, rows: Sequence[Row]) -> Group:
    """Return the sums of these rows under a name: how many there are and how many are waste,
    and what all of them and the wasted ones cost a month."""
    wasted = [row for row in rows if row.judgment.finding.is_waste]
    prepaid = sum(row.resource.is_prepaid for row in wasted)
    usd = sum((row.own_usd_per_month for row in rows), Decimal())
    waste = sum((row.waste_usd_per_month for row in rows), Decimal())
    return Group(name, len(rows), len(wasted), usd, waste, prepaid)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Parts of the report that are missing in the same places, for one sort of reason."""

    places: tuple[str, ...]
    topics: tuple[str, ...]
    operations: tuple[str, ...]
    """The calls that failed; empty if there is no such call."""
    reason: str
    """The reason of one of them; the others may differ in names alone."""
    is_missing_right: bool
    last_read_at: UtcDatetime | None = None
    """When the first of the places was last read, if the report shows what was found then."""


def refusals_of(unread: Iterable[Unread]) -> tuple[Refusal, ...]:
    """Return what could not be read in as few entries as say it: AWS words each refusal with the
    Region and the resource, so that missing permissions would otherwise fill pages."""
    lines_by_topic: dict[tuple[str, _Reason], list[Unread]] = {}
    for line in unread:
        lines_by_topic.setdefault((line.topic, _reason_of(line)), []).append(line)
    lines_by_places: dict[tuple[tuple[str, ...], _Reason], list[Unread]] = {}
    for (_, reason), lines in lines_by_topic.items():
        places = tuple(sorted({line.place for line in lines}))
        key = (places, replace(reason, operation=""))
        lines_by_places.setdefault(key, []).append(_earliest(lines))
    refusals = []
    for (places, reason), lines in lines_by_places.items():
        operations = dict.fromkeys(line.operation for line in lines)
        operations.pop("", None)  # A line may name none.
        refusals.append(
            Refusal(
                places=places,
                topics=tuple(dict.fromkeys(line.topic for line in lines)),
                operations=tuple(operations),
                reason=lines[0].reason,
                is_missing_right=reason.is_missing_right,
                last_read_at=lines[0].last_read_at,
            )
        )
    return tuple(sorted(refusals, key=lambda refusal: (-len(refusal.places), refusal.topics)))


@dataclass(frozen=True, slots=True)
class _Reason:
    """The things that lines must have in common to be one entry."""

    operation: str
    is_missing_right: bool
    text: str
    last_read_on: date | None


def _reason_of(line: Unread) -> _Reason:
    """Return the reason of a line, without AWS's words if it is a missing permission."""
    return _Reason(
        operation=line.operation,
        is_missing_right=line.is_missing_right,
        text="" if line.is_missing_right else line.reason,
        last_read_on=None if line.last_read_at is None else line.last_read_at.date(),
    )


def _earliest(lines: Sequence[Unread]) -> Unread:
    """Return the first line, with the earliest time at which any of their places was read."""
    times = []
    for line in lines:
        if line.last_read_at is not None:
            times.append(line.last_read_at)
    return replace(lines[0], last_read_at=min(times, default=None))
