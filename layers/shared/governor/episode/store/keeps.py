"""Keeps of an instance besides its longest one, which hold again when that one is ended.

The item of a hold says until when the instance is kept: the longest keep counts. Each keep is also
remembered in that item by itself, so that a shorter one holds again when the longest is ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from governor.core.units import as_utc
from governor.table.table import Condition, Document, Table, absent, where
from governor.verdict.model import NO_HOLD, Hold

COUNT = "keeps"
"""Raised by each keep and each end, so that an end sees any keep that came since it read the
item."""
_KEEP = "keep_"


def name_of(keep: Hold) -> str:
    """Return the name of the attribute that remembers a keep, by its question and its end, as in
    `keep_<approval id>_20261127090000`; `none` stands for a keep without a question.

    Several people may keep an instance by the same question. A keep with the same end as another
    one of its question is refused, so no two keeps have the same name.
    """
    question = keep.kept_by or "none"
    if keep.snoozed_until is None:
        return f"{_KEEP}{question}"
    return f"{_KEEP}{question}_{as_utc(keep.snoozed_until):%Y%m%d%H%M%S}"


def only_keep(hold: Hold) -> Hold:
    """Return the keep of a hold, without its exemption; an empty hold if it has no keep."""
    return replace(hold, exempt_reason=None, exempt_in=None, exempt_by=None)


@dataclass(frozen=True, slots=True)
class OtherKeeps:
    """The keeps that an item remembers beside one that ends."""

    longest: Hold
    """The longest of those that still run; `NO_HOLD` if there is none."""
    names_to_forget: Sequence[str]
    """The attributes of the keeps that are over, and of the one that ends."""


def other_keeps(table: Table, item: Document, at: datetime, ended: Hold = NO_HOLD) -> OtherKeeps:
    """Return the longest keep that runs on `at` this time, of those that an item remembers, and the
    names of the others, to be forgotten: those that are over, and `ended`, the keep that somebody
    ends. Without `ended`, nobody ends one. Raises: CloudError if a keep is damaged."""
    longest = NO_HOLD
    names_to_forget: list[str] = []
    for name, keep in _remembered(table, item):
        if name == name_of(ended) or not keep.stands(at):
            names_to_forget.append(name)
        else:
            longest = longest.stricter(keep)
    return OtherKeeps(longest, names_to_forget)


def are_keeps_unchanged(item: Document) -> Condition:
    """Return the condition that no keep came, and none was ended, since `item` was read: its count
    of both is as it was."""
    if COUNT not in item:
        return absent(COUNT)
    return where(COUNT, "=", item[COUNT])


def _remembered(table: Table, item: Document) -> Iterator[tuple[str, Hold]]:
    """Yield each keep that the item remembers, with the name of its attribute. Raises: CloudError,
    while it yields, if a keep is damaged."""
    for name, value in item.items():
        if name.startswith(_KEEP):
            [keep] = table.records(Hold, [value])
            yield name, keep
