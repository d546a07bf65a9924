"""Stores keeps and exemptions of an instance: a person has said that it stays as it is.

A keep or an exemption holds from the moment it is stored. A longer keep stays.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime, timedelta

from governor.core.errors import CloudError, ConflictError
from governor.core.instance import Target
from governor.core.units import UtcDatetime, as_utc
from governor.episode.store import keeps
from governor.table import keys
from governor.table.table import (
    Condition,
    Document,
    Key,
    Store,
    Table,
    Write,
    absent,
    check,
    unset,
    update,
    where,
)
from governor.verdict.model import Hold

_log = logging.getLogger(__name__)

_ENDS_KEPT = timedelta(days=400)
_ATTEMPTS = 6
"""Attempts to store a keep while others change the keeps of the instance."""
KEEP_ATTRIBUTES = ("snoozed_until", "kept_in", "kept_by", "keeper")
"""The attributes of a hold that describe a keep."""


class Holds(Store):
    """Keeps and exemptions. Every method may raise CloudError.

    A hold is stored in two places for one release: its own, and the record where the previous
    release reads it.
    """

    def store_hold(self, target: Target, instance_id: str, hold: Hold) -> None:
        """Store a keep or an exemption; a longer keep stays, and the new one is remembered beside
        it. A hold with neither stores nothing.

        Raises: ConflictError if somebody else changed the keeps at each attempt; CloudError.
        """
        alternatives = hold_writes(target, instance_id, hold)
        for _ in range(_ATTEMPTS):
            if self._try_store(alternatives):
                return
        raise ConflictError(f"the keeps of {instance_id} change all the time")

    def _try_store(self, alternatives: Sequence[Sequence[Write]]) -> bool:
        """Store a hold by the `alternatives` of `hold_writes`, and return true: by the writes of
        the first one, or, if a longer keep stands, by those of the last one, which only remember
        the keep beside it. Return true also if there is nothing to write.

        Return false if that longer keep ended in between. Raises: CloudError.
        """
        no_longer_keep = alternatives[0]
        longer_keep_in_both_places = alternatives[-1]
        are_written = [self._table.try_write(write) for write in no_longer_keep]
        # The first write is for the place where this release reads the hold. The second one is for
        # the previous release, and may fail for a longer keep there.
        if not are_written or are_written[0]:
            return True
        return all(self._table.try_write(write) for write in longer_keep_in_both_places)

    def end_hold(self, target: Target, instance_id: str, seen: Hold, by: str, at: datetime) -> None:
        """End the keep and the exemption of an instance, and log that, all or nothing. From then on
        the longest other keep that still runs holds the instance.

        `seen` is the hold to end, `by` who ends it. Raises: ConflictError if another hold than
        `seen` stands, or anything of the hold changes at this moment; CloudError.
        """
        hold_key, old_hold_key = keys.holds(target, instance_id)
        item = self._table.get(hold_key) or {}
        old_item = self._table.get(old_hold_key) or {}
        hold, copied_hold = self._table.records(Hold, [item, old_item])
        if hold.stricter(copied_hold) != seen:
            raise ConflictError(f"another hold of {instance_id} stands than the one that was seen")

        others = keeps.other_keeps(self._table, item, at, seen)
        attributes = [field.name for field in fields(Hold)]
        # An item that does not exist is not written; the check fails if it came meanwhile.
        own = check(hold_key, _is_hold_unchanged(item))
        if item:
            own = end_hold_write(hold_key, attributes, others, _is_hold_unchanged(item))
        copy = check(old_hold_key, _is_hold_unchanged(old_item))
        if old_item:
            copy = end_hold_copy_write(
                old_hold_key, attributes, others.longest, _is_hold_unchanged(old_item)
            )

        ended = {
            "what": "hold ended",
            "by": by,
            "instance_id": instance_id,
            "kept_until": seen.snoozed_until,
            "exempt_reason": seen.exempt_reason,
        }
        key = f"ENDED#{keys.place(target)}", f"{instance_id}#{as_utc(at).isoformat()}"
        log = update(key, ended, absent(), until=at + _ENDS_KEPT)
        self._table.transact(own, copy, log)


def hold_writes(target: Target, instance_id: str, hold: Hold) -> list[list[Write]]:
    """Return the writes that store a keep or an exemption, as alternatives for a transaction: try
    them in order until one succeeds.

    The first alternative writes both places. A longer keep stays, so each of the others is for one
    or both places with a longer keep. A hold with neither has one alternative without writes.
    """
    if hold.snoozed_until is not None:
        return _keep_writes(target, instance_id, hold, hold.snoozed_until)
    if hold.exempt_reason is None:
        return [[]]
    hold_key, old_hold_key = keys.holds(target, instance_id)
    exempt = {"exempt_reason": hold.exempt_reason}
    # Not in the old place: the previous release would leave these there beside a new hold.
    author = {"exempt_in": hold.exempt_in, "exempt_by": hold.exempt_by}
    own = update(hold_key, {**exempt, **author})
    return [[own, update(old_hold_key, exempt)]]


def _keep_writes(
    target: Target, instance_id: str, hold: Hold, until: UtcDatetime
) -> list[list[Write]]:
    """Return the alternatives of `hold_writes` for a keep that ends at `until`: no longer keep
    stands, one stands only in the old place, one stands only in the new place, or one stands in
    both. A keep that is shorter than the one that stands is only remembered."""
    hold_key, old_hold_key = keys.holds(target, instance_id)
    is_shorter = unset("snoozed_until") | where("snoozed_until", "<=", until)
    kept = {name: getattr(hold, name) for name in KEEP_ATTRIBUTES}
    remembered = {keeps.name_of(hold): keeps.only_keep(hold)}
    counted = {keeps.COUNT: 1}
    own = update(hold_key, {**kept, **remembered}, is_shorter, add=counted)
    # Only the end: the previous release would leave project and question beside a new hold.
    copy = update(old_hold_key, {"snoozed_until": until}, is_shorter)
    longer_stays = update(hold_key, remembered, where("snoozed_until", ">", until), add=counted)
    return [[own, copy], [own], [longer_stays, copy], [longer_stays]]


def end_hold_write(
    hold_key: Key,
    attributes: Sequence[str],
    others: keeps.OtherKeeps,
    condition: Condition,
) -> Write:
    """Return the write that removes these attributes of a hold, or puts the longest of the other
    keeps in their place, if there is one, and removes the keeps that `others` says to forget."""
    next_keep: Document = {}
    if others.longest.snoozed_until is not None:
        next_keep = {name: getattr(others.longest, name) for name in KEEP_ATTRIBUTES}
    removed = [name for name in attributes if name not in next_keep]
    removed += others.names_to_forget
    return update(hold_key, next_keep, condition, remove=removed, add={keeps.COUNT: 1})


def end_hold_copy_write(
    old_hold_key: Key, attributes: Sequence[str], next_keep: Hold, condition: Condition
) -> Write:
    """Return the write that removes these attributes of a hold where the previous software release
    reads it, or puts the end of `next_keep` there: that release knows only the end of a keep.
    `next_keep` is the longest other keep; `NO_HOLD` if there is none."""
    kept: Document = {}
    if next_keep.snoozed_until is not None:
        kept = {"snoozed_until": next_keep.snoozed_until}
    removed = [name for name in attributes if name not in kept]
    return update(old_hold_key, kept, condition, remove=removed)


def forget_past_keeps(table: Table, target: Target, instance_id: str, at: datetime) -> None:
    """Remove keeps that are over from the item of the hold. Otherwise the item of an instance that
    is kept every day would grow without end.

    If another keep came since it was read, nothing is removed. A CloudError, also for a damaged
    item, is only logged.
    """
    hold_key, _ = keys.holds(target, instance_id)
    try:
        item = table.get(hold_key) or {}
        past = keeps.other_keeps(table, item, at).names_to_forget
        if past:
            table.try_write(update(hold_key, {}, keeps.are_keeps_unchanged(item), remove=past))
    except CloudError:
        _log.exception("past keeps of %s stay stored", instance_id)


def _is_hold_unchanged(item: Document) -> Condition:
    """Return the condition that neither the hold nor its keeps have changed since the item was
    read."""
    condition = keeps.are_keeps_unchanged(item)
    for field in fields(Hold):
        condition &= _is_attribute_unchanged(item, field.name)
    return condition


def _is_attribute_unchanged(item: Document, attribute: str) -> Condition:
    """Return the condition that the attribute has the value that it has in `item`; that it is unset
    if `item` has none."""
    value = item.get(attribute)
    if value is None:
        return unset(attribute)
    return where(attribute, "=", value)
