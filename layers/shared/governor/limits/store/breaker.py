"""Stores the breakers: the counts and the freeze over all targets (the hub's item), the freeze of
each target (its breaker), and requests to end a freeze.

Each has a partition of its own (`docs/state.md`), so that IAM can say who writes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from governor.core.errors import CloudError, Throttled
from governor.core.instance import Target
from governor.core.units import as_utc
from governor.limits.model.breaker import BreakerState, HourCount, Hub
from governor.limits.rules.breaker import DAYS_KEPT, hour_of
from governor.table.keys import place, target_pk
from governor.table.table import (
    DAMAGED,
    Condition,
    Document,
    Key,
    Store,
    Write,
    absent,
    delete,
    insert,
    put,
    update,
    where,
)

HUB: Key = ("BREAKER#hub", "HUB")
_TURNED = "turned_"
_BACK = "back_"
"""Attributes of the hub's item, each before the name of an hour."""
_FIRST = "first"
_HOUR = "%Y%m%d%H"
"""The name of an hour."""
_RESERVED_FOR = timedelta(days=90)
"""As long as the name of an execution cannot be used again."""


class Breakers(Store):
    """Counts and freezes. Every method may raise CloudError."""

    def hub(self) -> Hub:
        """Return the counts over all targets, and the freeze of everything that stands. Without an
        item, there are no counts and no freeze. It is one consistent read of one item.

        Raises: CloudError, also if the counts or the freeze are damaged.
        """
        item = self._table.get(HUB) or {}
        try:
            hours = _hour_counts(item)
            # An item of an earlier release is as old as its oldest hour.
            first = _hour(item[_FIRST]) if _FIRST in item else min(hours, default=None)
        except DAMAGED as error:
            # Without the counts nothing acts, and nothing is remembered: a freeze could be lost.
            raise CloudError(f"{' / '.join(HUB)} cannot be read: {error}") from None
        freeze = None
        if item.get("freeze"):
            freeze = next(self._table.records(BreakerState, [item["freeze"]]), None)
        return Hub(hours, freeze, first)

    def counted_hours(self, target: Target) -> dict[str, datetime]:
        """Return the instances of this target that the hub counts: by instance id, the hour in
        which each turned idle or silent.

        Return an empty mapping if there are none, or if the item is damaged: its instances are then
        counted again, which can only freeze plans. Raises: CloudError.
        """
        key = _turned_key(target)
        item = self._table.get(key) or {"ids": {}}
        try:
            hour_names = dict(item["ids"])
            return {instance_id: _hour(str(name)) for instance_id, name in hour_names.items()}
        except DAMAGED:
            self._table.log_left_out(" / ".join(key))
            return {}

    def try_count_turned(
        self,
        target: Target,
        hour_by_id: Mapping[str, datetime],
        turned_ids: Collection[str],
        working_ids: Collection[str],
        hub: Hub,
        now: datetime,
        *,
        anyway: bool = False,
    ) -> bool:
        """Count the instances of `turned_ids`, which turned idle or silent, in this hour, and each
        of `working_ids`, which works again, in the hour in which it turned. Return true if that is
        done.

        `hour_by_id` is what `counted_hours` returned; it holds all `working_ids`. Return false, and
        change nothing, if other instances are counted by now. With `anyway`, or if the table is
        busy, write in any case: an instance may then be counted twice, which can only freeze plans.
        Raises: CloudError.
        """
        oldest = _oldest_kept(hub, now)
        kept_hours = _hours_to_keep(hour_by_id, turned_ids, working_ids, now, oldest)
        condition = None if anyway else _are_still_counted(hour_by_id)
        keep_ids = put(_turned_key(target), {"ids": _hour_names(kept_hours)}, condition)

        hub_writes: list[Write] = []
        add = _counts_to_add(hour_by_id, turned_ids, working_ids, now, oldest)
        if add:
            first = {_FIRST: _hour_name(hub.first or now)}
            forgotten = _attributes(hour for hour in hub.hours if hour < oldest)
            hub_writes.append(update(HUB, first, remove=forgotten, add=add))
        if not anyway:
            # If too many targets write the hub's item at once, count as with `anyway`.
            with suppress(Throttled):
                return self._table.try_transaction(keep_ids, *hub_writes)
        # The hub first: if the second write fails, the instances are counted again, never missed.
        for write in (*hub_writes, keep_ids):
            self._table.write(write)
        return True

    def begin_hub_freeze(self, state: BreakerState) -> bool:
        """Freeze everything, and return true. Return false, with nothing changed, if a freeze of
        everything stands already. Raises: CloudError."""
        return self._table.try_write(update(HUB, {"freeze": state}, absent("freeze")))

    def replace_hub_freeze(self, state: BreakerState) -> None:
        """Store the new state of the freeze of everything that began at `state.tripped_at`. If that
        freeze no longer stands, nothing is stored. Raises: CloudError."""
        self._table.try_write(update(HUB, {"freeze": state}, _is_hub_freeze(state)))

    def end_hub_freeze(
        self,
        state: BreakerState,
        forgotten_hours: Iterable[datetime] = (),
        settled: Mapping[datetime, int] | None = None,
    ) -> bool:
        """End the freeze of everything that began at `state.tripped_at`, and return true. Return
        false, with nothing changed, if it no longer stands.

        The counts of `forgotten_hours` are deleted. `settled` says by the hour how many instances
        count as working again, so that they cause no new freeze. Raises: CloudError.
        """
        counts = settled or {}
        add = {_BACK + _hour_name(hour): count for hour, count in counts.items()}
        removed = ["freeze", *_attributes(forgotten_hours)]
        return self._table.try_write(
            update(HUB, {}, _is_hub_freeze(state), remove=removed, add=add)
        )

    def request_freeze_end(
        self, target: Target | None, freeze: BreakerState, by: str, at: datetime
    ) -> None:
        """Store the request that the next sweep ends this freeze of a target, or of everything
        (`target` is `None`). The freeze stands until then.

        Raises: ConflictError if somebody has requested that already; CloudError.
        """
        note = {"what": "freeze ended", "by": by, "why": freeze.why}
        self._table.write(
            update(_end_key(target, freeze), note, absent(), until=at + _RESERVED_FOR)
        )

    def freeze_end_requested_by(self, target: Target | None, freeze: BreakerState) -> str | None:
        """Return who requested in the console to end exactly this freeze; `None` if nobody did.
        `target` is `None` for the freeze of everything. Raises: CloudError."""
        item = self._table.get(_end_key(target, freeze)) or {}
        return item.get("by")

    def breaker(self, target: Target) -> BreakerState | None:
        """Return the tripped breaker of a target; `None` if it is not tripped. Raises: CloudError,
        also if it is damaged."""
        return self.breakers([target])[target]

    def breakers(self, targets: Sequence[Target]) -> dict[Target, BreakerState | None]:
        """Return the tripped breaker of each of these targets, with `None` for a target whose
        breaker is not tripped. Raises: CloudError, also if one is damaged."""
        keys: list[Key] = []
        for target in targets:
            keys += _breaker_keys(target)
        item_by_key = dict(zip(keys, self._table.get_each(keys), strict=True))
        states: dict[Target, BreakerState | None] = {}
        for target in targets:
            new_key, old_key = _breaker_keys(target)
            states[target] = self._later_state(item_by_key[new_key], item_by_key[old_key])
        return states

    def _later_state(self, *items: Document) -> BreakerState | None:
        """Return the state of these stored items that was tripped last; `None` if all items are
        empty. Raises: CloudError if one is damaged."""
        stored = [item for item in items if item]
        states = self._table.records(BreakerState, stored)
        return max(states, key=lambda state: state.tripped_at, default=None)

    def reset_breaker(self, target: Target, state: BreakerState) -> bool:
        """End the freeze of a target that `state` describes, and none that began later. Return true
        if this call ended one; false if none stood. Raises: CloudError."""
        is_not_newer = where("tripped_at", "<=", state.tripped_at)
        # The freeze is stored for this release and for the previous one.
        has_ended_one = False
        for key in _breaker_keys(target):
            has_ended_one |= self._table.try_transaction(delete(key, is_not_newer))
        return has_ended_one

    def set_breaker(self, target: Target, state: BreakerState) -> bool:
        """Trip the breaker of a target, and return true. If it is tripped already, replace its
        state, and return false. Raises: CloudError."""
        # The state is stored for this release and for the previous one.
        new_key, old_key = _breaker_keys(target)
        if self._table.try_transaction(insert(new_key, state), put(old_key, state)):
            return True
        self._table.transact(put(new_key, state), put(old_key, state))
        return False


def _hour_counts(item: Document) -> dict[datetime, HourCount]:
    """Return the counts in the hub's item, by the start of their hour; empty if it has none.
    Raises: one of the errors in `DAMAGED` if a count cannot be read."""
    names = [name for name in item if name.startswith((_TURNED, _BACK))]
    counts: dict[datetime, HourCount] = {}
    for hour_name in {name.rpartition("_")[2] for name in names}:
        turned = int(item.get(_TURNED + hour_name, 0))
        back = int(item.get(_BACK + hour_name, 0))
        counts[_hour(hour_name)] = HourCount(turned, back)
    return counts


def _oldest_kept(hub: Hub, now: datetime) -> datetime:
    """Return the time from which counts are kept: 15 days (`DAYS_KEPT`) before now. While a freeze
    of everything stands, those of the 15 days before the freeze are kept, too, because it is
    compared with them."""
    kept_before = now if hub.freeze is None else min(now, hub.freeze.tripped_at)
    return kept_before - timedelta(days=DAYS_KEPT)


def _hours_to_keep(
    hour_by_id: Mapping[str, datetime],
    turned_ids: Collection[str],
    working_ids: Collection[str],
    now: datetime,
    oldest: datetime,
) -> dict[str, datetime]:
    """Return the instances that a target counts from now on, by id with the hour in which each
    turned: those of `turned_ids` in this hour, and those of `hour_by_id` that do not work again
    and turned at `oldest` or later."""
    kept: dict[str, datetime] = dict.fromkeys(turned_ids, hour_of(now))
    for instance_id, hour in hour_by_id.items():
        is_counted_on = instance_id not in working_ids and instance_id not in turned_ids
        if is_counted_on and hour >= oldest:
            kept[instance_id] = hour
    return kept


def _counts_to_add(
    hour_by_id: Mapping[str, datetime],
    turned_ids: Collection[str],
    working_ids: Collection[str],
    now: datetime,
    oldest: datetime,
) -> Counter[str]:
    """Return the number to add to each attribute of the hub's item, such as `turned_2026112709`;
    empty if no count changes. Instances of hours before `oldest` are left out. `hour_by_id` holds
    all `working_ids`."""
    add: Counter[str] = Counter()
    if turned_ids:
        add[_TURNED + _hour_name(now)] = len(turned_ids)
    for instance_id in working_ids:
        hour = hour_by_id[instance_id]
        if hour >= oldest:
            add[_BACK + _hour_name(hour)] += 1
    return add


def _are_still_counted(hour_by_id: Mapping[str, datetime]) -> Condition:
    """Return the condition that exactly these instances are counted, each in its hour."""
    if hour_by_id:
        return where("ids", "=", _hour_names(hour_by_id))
    return absent() | where("ids", "=", {})


def _hour_names(hour_by_id: Mapping[str, datetime]) -> dict[str, str]:
    """Return the name of each instance's hour by instance id, as the table keeps it."""
    return {instance_id: _hour_name(hour) for instance_id, hour in hour_by_id.items()}


@lru_cache(maxsize=500)
def _hour_name(hour: datetime) -> str:
    """Return the name of an hour: `2026112709` for 09:00 UTC on that day."""
    # Cached: every sweep names the hour of each instance that it counts.
    return f"{hour:{_HOUR}}"


def _attributes(hours: Iterable[datetime]) -> list[str]:
    """Return the names of the attributes of the hub's item that count in these hours, two for each
    hour."""
    attributes: list[str] = []
    for hour in hours:
        name = _hour_name(hour)
        attributes += [f"{_TURNED}{name}", f"{_BACK}{name}"]
    return attributes


def _turned_key(target: Target) -> Key:
    """Return the key of the instances of a target that the hub counts: `BREAKER#<place>`,
    `TURNED`."""
    return f"BREAKER#{place(target)}", "TURNED"


def _is_hub_freeze(state: BreakerState) -> Condition:
    """Return the condition that the freeze of everything that began at `state.tripped_at`
    stands."""
    return where("freeze.tripped_at", "=", state.tripped_at)


def _end_key(target: Target | None, freeze: BreakerState) -> Key:
    """Return the key of the request to end this freeze: `ENDED#<place>`, or `ENDED#hub` for the
    freeze of everything (`target` is `None`); then `FREEZE#` and the time at which it began."""
    frozen_place = "hub" if target is None else place(target)
    return f"ENDED#{frozen_place}", f"FREEZE#{as_utc(freeze.tripped_at).isoformat()}"


@lru_cache(2_000)
def _hour(name: str) -> datetime:
    """Return the start of the hour by its name, such as `2026112709`, or by an attribute that ends
    with it. Raises: ValueError if it is no such name."""
    # Cached: every sweep of every target reads the hours of two weeks.
    digits = name.rpartition("_")[2]
    return datetime(
        int(digits[:4]), int(digits[4:6]), int(digits[6:8]), int(digits[8:]), tzinfo=UTC
    )


def _breaker_keys(target: Target) -> tuple[Key, Key]:
    """Return two keys of a target's breaker: `BREAKER#<place>`, `BREAKER`; then the key where the
    software before this version reads it, for a rollback. Both are written and read for one
    release, so that no freeze is lost."""
    return (f"BREAKER#{place(target)}", "BREAKER"), (target_pk(target), "BREAKER")
