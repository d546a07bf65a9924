"""Breakers: the counts and the freeze over all targets (the hub's item), the freeze of each target
(its breaker), and requests to end a freeze.

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
        """Return the counts over all targets, and the freeze of everything: one item, one
        consistent read. Raises: CloudError also if the counts are damaged."""
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

    def turned(self, target: Target) -> dict[str, datetime]:
        """Return the instances of this target that the hub counts: by instance id, the hour in
        which each turned.

        Return an empty mapping if there are none, or if the item is damaged: its instances are then
        counted again, which can only freeze plans.
        """
        key = _turned_key(target)
        item = self._table.get(key) or {"ids": {}}
        try:
            hour_names = dict(item["ids"])
            return {instance_id: _hour(str(name)) for instance_id, name in hour_names.items()}
        except DAMAGED:
            self._table.leave_out(" / ".join(key))
            return {}

    def count_turned(
        self,
        target: Target,
        ids: Mapping[str, datetime],
        new: Collection[str],
        back: Collection[str],
        hub: Hub,
        now: datetime,
        *,
        anyway: bool = False,
    ) -> bool:
        """Count the instances in `new`, which turned idle or silent, in this hour, and each in
        `back`, which works again, in the hour in which it turned. Return true if this was done.

        `ids` are the counted instances with their hours, as `turned` returned them. They stay
        remembered with `new`, but for those in `back` and those of hours that `hub` no longer
        keeps. Return false, and change nothing, if others are counted by now. With `anyway`, the
        writes are carried out in any case: an instance may then be counted twice, which can only
        freeze plans.
        """
        oldest = _oldest_kept(hub, now)
        recent_ids = {instance_id: hour for instance_id, hour in ids.items() if hour >= oldest}
        for instance_id in back:
            recent_ids.pop(instance_id, None)
        kept_ids = recent_ids | dict.fromkeys(new, hour_of(now))
        condition = None if anyway else _are_still_counted(ids)
        keep = put(_turned_key(target), {"ids": _hour_names(kept_ids)}, condition)

        hub_writes: list[Write] = []
        add = _counts_to_add(ids, new, back, now, oldest)
        if add:
            first = {_FIRST: _hour_name(hub.first or now)}
            forgotten = _attributes(hour for hour in hub.hours if hour < oldest)
            hub_writes.append(update(HUB, first, remove=forgotten, add=add))
        if not anyway:
            # If too many targets write the hub's item at once, count as with `anyway`.
            with suppress(Throttled):
                return self._table.try_transaction(keep, *hub_writes)
        for write in (*hub_writes, keep):
            self._table.write(write)
        return True

    def freeze_hub(self, state: BreakerState) -> bool:
        """Freeze everything, and return true; return false if a freeze stands already."""
        return self._table.try_write(update(HUB, {"freeze": state}, absent("freeze")))

    def keep_hub_freeze(self, state: BreakerState) -> None:
        """Store the new state of the freeze of everything that stands. A freeze that has ended
        stays ended."""
        self._table.try_write(update(HUB, {"freeze": state}, _is_hub_freeze(state)))

    def release_hub(
        self,
        state: BreakerState,
        forget: Iterable[datetime] = (),
        settle: Mapping[datetime, int] | None = None,
    ) -> bool:
        """End this freeze of everything, and none that began since; return whether this call ended
        it.

        The counts of the hours in `forget` are deleted. `settle` says by the hour how many
        instances count as working again, so that they cause no new freeze.
        """
        settled = settle or {}
        add = {_BACK + _hour_name(hour): count for hour, count in settled.items()}
        removed = ["freeze", *_attributes(forget)]
        return self._table.try_write(
            update(HUB, {}, _is_hub_freeze(state), remove=removed, add=add)
        )

    def end_freeze(
        self, target: Target | None, freeze: BreakerState, by: str, at: datetime
    ) -> None:
        """Have the next sweep end this freeze of a target, or of everything (`target` is `None`).

        Raises: ConflictError if somebody has asked for that already.
        """
        note = {"what": "freeze ended", "by": by, "why": freeze.why}
        self._table.write(
            update(_end_key(target, freeze), note, absent(), until=at + _RESERVED_FOR)
        )

    def freeze_ended_by(self, target: Target | None, freeze: BreakerState) -> str | None:
        """Return who asked in the console to end exactly this freeze; `None` if nobody did.

        `target` is `None` for the freeze of everything.
        """
        item = self._table.get(_end_key(target, freeze)) or {}
        return item.get("by")

    def breaker(self, target: Target) -> BreakerState | None:
        """Return the tripped breaker of a target; `None` if it is not tripped."""
        return self.breakers([target])[target]

    def breakers(self, targets: Sequence[Target]) -> dict[Target, BreakerState | None]:
        """Return the breaker of each target; `None` if it is not tripped."""
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
        """Return the state of these items that was tripped last; `None` if all items are empty."""
        stored = [item for item in items if item]
        states = self._table.records(BreakerState, stored)
        return max(states, key=lambda state: state.tripped_at, default=None)

    def release_breaker(self, target: Target, state: BreakerState) -> bool:
        """Release this breaker, and none that has tripped since; return whether this call released
        it."""
        is_it = where("tripped_at", "<=", state.tripped_at)
        released = [
            self._table.try_transaction(delete(key, is_it)) for key in _breaker_keys(target)
        ]
        return any(released)

    def set_breaker(self, target: Target, state: BreakerState) -> bool:
        """Trip the breaker, and return true. If it is tripped already, replace its state, and
        return false."""
        new_key, old_key = _breaker_keys(target)
        if self._table.try_transaction(insert(new_key, state), put(old_key, state)):
            return True
        self._table.transact(put(new_key, state), put(old_key, state))
        return False


def _hour_counts(item: Document) -> dict[datetime, HourCount]:
    """Return the counts in the hub's item, by their hour. Raises: as `DAMAGED`."""
    names = [name for name in item if name.startswith((_TURNED, _BACK))]
    counts: dict[datetime, HourCount] = {}
    for hour_name in {name.rpartition("_")[2] for name in names}:
        turned = int(item.get(_TURNED + hour_name, 0))
        back = int(item.get(_BACK + hour_name, 0))
        counts[_hour(hour_name)] = HourCount(turned, back)
    return counts


def _oldest_kept(hub: Hub, now: datetime) -> datetime:
    """Return the time from which counts are kept: longer while a freeze stands, which is compared
    with the days before it."""
    kept_before = now if hub.freeze is None else min(now, hub.freeze.tripped_at)
    return kept_before - timedelta(days=DAYS_KEPT)


def _counts_to_add(
    ids: Mapping[str, datetime],
    new: Collection[str],
    back: Collection[str],
    now: datetime,
    oldest: datetime,
) -> Counter[str]:
    """Return the number to add to each attribute of the hub's item, without hours before `oldest`;
    empty if no count changes."""
    add: Counter[str] = Counter()
    if new:
        add[_TURNED + _hour_name(now)] = len(new)
    for instance_id in back:
        name = _BACK + _hour_name(ids[instance_id])
        if _hour(name) >= oldest:
            add[name] += 1
    return add


def _are_still_counted(ids: Mapping[str, datetime]) -> Condition:
    """Return the condition that exactly these instances are counted."""
    if ids:
        return where("ids", "=", _hour_names(ids))
    return absent() | where("ids", "=", {})


def _hour_names(ids: Mapping[str, datetime]) -> dict[str, str]:
    """Return the name of each instance's hour, as the table keeps it."""
    return {instance_id: _hour_name(hour) for instance_id, hour in ids.items()}


def _hour_name(hour: datetime) -> str:
    """Return the name of an hour, as `_hour` reads it."""
    return f"{hour:{_HOUR}}"


def _attributes(hours: Iterable[datetime]) -> list[str]:
    """Return the attributes of the hub's item that count in these hours."""
    attributes: list[str] = []
    for hour in hours:
        name = _hour_name(hour)
        attributes += [f"{_TURNED}{name}", f"{_BACK}{name}"]
    return attributes


def _turned_key(target: Target) -> Key:
    """Return the key of the instances of a target that the hub counts."""
    return f"BREAKER#{place(target)}", "TURNED"


def _is_hub_freeze(state: BreakerState) -> Condition:
    """Return the condition that exactly this freeze of everything stands."""
    return where("freeze.tripped_at", "=", state.tripped_at)


def _end_key(target: Target | None, freeze: BreakerState) -> Key:
    """Return the key of the request to end this freeze."""
    frozen_place = "hub" if target is None else place(target)
    return f"ENDED#{frozen_place}", f"FREEZE#{as_utc(freeze.tripped_at).isoformat()}"


@lru_cache(2_000)
def _hour(name: str) -> datetime:
    """Return the hour by its name, or by an attribute that ends with it."""
    # Cached: every sweep of every target reads the hours of two weeks.
    digits = name.rpartition("_")[2]
    return datetime(
        int(digits[:4]), int(digits[4:6]), int(digits[6:8]), int(digits[8:]), tzinfo=UTC
    )


def _breaker_keys(target: Target) -> tuple[Key, Key]:
    """Return the key of the breaker, and the key where the release before this one reads it, for a
    rollback. Both are written and read for one release, so that no freeze is lost."""
    return (f"BREAKER#{place(target)}", "BREAKER"), (target_pk(target), "BREAKER")
