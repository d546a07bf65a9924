"""Brakes on actions: the counts and the freeze over all targets, and the ends of freezes. Each has
a partition of its own (`docs/state.md`), so that IAM can say who writes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from governor.domain.instance import Target
from governor.domain.sweep.breaker import DAYS_KEPT, BreakerState, HourCount, Hub, hour_of
from governor.domain.units import as_utc
from governor.errors import CloudError, Throttled
from governor.stores.keys import place
from governor.stores.table import DAMAGED, Condition, Key, Store, absent, put, update, where

HUB: Key = ("BREAKER#hub", "HUB")
_TURNED, _BACK, _FIRST, _HOUR = "turned_", "back_", "first", "%Y%m%d%H"
_RESERVED_FOR = timedelta(days=90)
"""As long as the name of an execution cannot be used again."""


class Brakes(Store):
    def hub(self) -> Hub:
        """Return what is counted over all targets, and the freeze: one item, one consistent
        read."""
        item = self._table.get(HUB) or {}
        tails = {name.rpartition("_")[2] for name in item if name.startswith((_TURNED, _BACK))}
        try:
            hours = {
                _hour(one): HourCount(
                    int(item.get(_TURNED + one, 0)), int(item.get(_BACK + one, 0))
                )
                for one in tails
            }
            # An item of an earlier release is as old as its oldest hour.
            first = _hour(item[_FIRST]) if _FIRST in item else min(hours, default=None)
        except DAMAGED as error:
            # Nothing acts without it, and nothing is remembered uncounted: a freeze could be lost.
            raise CloudError(f"{' / '.join(HUB)} cannot be read: {error}") from None
        stored = [item["freeze"]] if item.get("freeze") else []
        return Hub(hours, next(self._table.records(BreakerState, stored), None), first)

    def turned(self, target: Target) -> dict[str, datetime]:
        """Return whom the hub counts of this target, with the hour, by instance id: once a stretch.
        Nobody where it is damaged: who turns is counted again then, which can only freeze."""
        item = self._table.get(key := _turned_key(target)) or {"ids": {}}
        try:
            return {one: _hour(str(hour)) for one, hour in dict(item["ids"]).items()}
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
        """Count who is new among `ids`, and who of them is back at work, and keep the rest as
        counted; false where `ids` are no longer those that are counted. `anyway` may count twice,
        which can only freeze."""
        add = Counter({_TURNED + f"{now:{_HOUR}}": len(new)} if new else {})
        add.update(_BACK + f"{ids[one]:{_HOUR}}" for one in back)
        oldest = now - timedelta(days=DAYS_KEPT)
        if hub.freeze is not None:
            oldest = min(oldest, hub.freeze.tripped_at - timedelta(days=DAYS_KEPT))
        old = _counts(hour for hour in hub.hours if hour < oldest)
        add = Counter({name: number for name, number in add.items() if _hour(name) >= oldest})
        kept = {one: hour for one, hour in ids.items() if one not in back and hour >= oldest}
        kept |= dict.fromkeys(new, hour_of(now))
        known, kept_ids = (
            {one: f"{hour:{_HOUR}}" for one, hour in these.items()} for these in (ids, kept)
        )
        unchanged = where("ids", "=", known) if known else absent() | where("ids", "=", {})
        keep = put(_turned_key(target), {"ids": kept_ids}, None if anyway else unchanged)
        first = {_FIRST: f"{hub.first or now:{_HOUR}}"}
        count = [update(HUB, first, remove=old, add=add)] if add else []
        # Where many targets hold the hub's item, too, it is counted as `anyway`.
        with suppress(Throttled):
            if not anyway:
                return self._table.wins(keep, *count)
        for one in (*count, keep):
            self._table.write(one)
        return True

    def freeze_hub(self, state: BreakerState) -> bool:
        return self._table.holds(update(HUB, {"freeze": state}, absent("freeze")))

    def keep_hub_freeze(self, state: BreakerState) -> None:
        """Change the freeze that stands; one that has ended stays ended."""
        self._table.holds(update(HUB, {"freeze": state}, _is(state)))

    def release_hub(
        self,
        state: BreakerState,
        forget: Iterable[datetime] = (),
        settle: Mapping[datetime, int] | None = None,
    ) -> bool:
        """End this freeze, and none that began since; true when this call did. Forget what was
        counted in some hours, and `settle` of others how many count as back at work: no freeze anew
        for these."""
        add = {_BACK + f"{hour:{_HOUR}}": number for hour, number in (settle or {}).items()}
        gone = ["freeze", *_counts(forget)]
        return self._table.holds(update(HUB, {}, _is(state), remove=gone, add=add))

    def end_freeze(
        self, target: Target | None, freeze: BreakerState, by: str, at: datetime
    ) -> None:
        """Have the next sweep end this freeze, of a target or of everything. Raises:
        ConflictError."""
        note = {"what": "freeze ended", "by": by, "why": freeze.why}
        self._table.write(
            update(_end_key(target, freeze), note, absent(), until=at + _RESERVED_FOR)
        )

    def freeze_ended_by(self, target: Target | None, freeze: BreakerState) -> str | None:
        """Return who had exactly this freeze ended; one that came later stands."""
        found = self._table.get(_end_key(target, freeze)) or {}
        return found.get("by")


def _counts(hours: Iterable[datetime]) -> list[str]:
    return [f"{kind}{hour:{_HOUR}}" for hour in hours for kind in (_TURNED, _BACK)]


def _turned_key(target: Target) -> Key:
    return f"BREAKER#{place(target)}", "TURNED"


def _is(state: BreakerState) -> Condition:
    return where("freeze.tripped_at", "=", state.tripped_at)


def _end_key(target: Target | None, freeze: BreakerState) -> Key:
    where = "hub" if target is None else place(target)
    return f"ENDED#{where}", f"FREEZE#{as_utc(freeze.tripped_at).isoformat()}"


@lru_cache(2_000)
def _hour(name: str) -> datetime:
    """Two weeks of hours are read at every sweep of every target."""
    tail = name.rpartition("_")[2]
    return datetime(int(tail[:4]), int(tail[4:6]), int(tail[6:8]), int(tail[8:]), tzinfo=UTC)
