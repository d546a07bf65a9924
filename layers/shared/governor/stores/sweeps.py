"""The memory of a sweep: observations, what turned at once, and the breaker."""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from itertools import tee

from governor.domain.episode.episode import Observation
from governor.domain.instance import Target
from governor.domain.sweep.breaker import BreakerState, SweepDay
from governor.domain.units import as_utc
from governor.errors import CloudError
from governor.stores.keys import place, target_pk
from governor.stores.table import DAMAGED, Key, Store, delete, insert, packed, put, unpacked, where

_log = logging.getLogger(__name__)

_OBSERVATIONS_FORMAT = 1


class Sweeps(Store):
    def observations(self, target: Target) -> dict[str, Observation]:
        """What the last sweep saw, by instance id; empty where that cannot be read as a whole."""
        items = list(self._table.query(target_pk(target), "OBSERVATIONS#"))
        if not items or items[0]["sk"] != _chunk_key(target, 0)[1]:
            return {}
        version, chunks = items[0].get("version"), items[0].get("chunks")
        current = [item for item in items if item.get("version") == version]
        if items[0].get("format") != _OBSERVATIONS_FORMAT or len(current) != chunks:
            _log.warning("the remembered observations of %s are incomplete; reading everything anew", target)
            return {}
        try:
            lines, same = tee(unpacked(item["data"] for item in current))
            seen = self._table.records(Observation, same)
            return {line["id"]: one for line, one in zip(lines, seen, strict=True)}
        except (CloudError, *DAMAGED) as error:
            _log.warning("the remembered observations of %s cannot be read: %s", target, error)
            return {}

    def remember(self, target: Target, observations: Mapping[str, Observation], at: datetime) -> None:
        """Replace the observations. Last writer wins; it is a cache."""
        parts = packed({"id": one, **self._table.document(seen)} for one, seen in observations.items())
        chunk = {
            # Two sweeps at once may interleave their chunks; the version tells the reader.
            "version": f"{as_utc(at).isoformat()}#{random.getrandbits(64):016x}",
            "chunks": len(parts),
            "format": _OBSERVATIONS_FORMAT,
            "at": at,
        }
        for number, part in enumerate(parts):
            self._table.write(put(_chunk_key(target, number), {**chunk, "data": part}))
        last = _chunk_key(target, len(parts) - 1)[1]
        for stale in self._table.query(target_pk(target), "OBSERVATIONS#", after=last):
            self._table.write(delete((stale["pk"], stale["sk"])))

    def sweep_days(self, target: Target) -> tuple[SweepDay, ...]:
        """Return the largest changes in a sweep of the last days, by day; none where they are damaged."""
        key = target_pk(target), "SWEEP-DAYS"
        item = self._table.get(key) or {"days": {}}
        try:
            days = sorted(dict(item["days"]).items())
            return tuple(SweepDay(date.fromisoformat(day), *map(int, most)) for day, most in days)
        except DAMAGED:
            self._table.leave_out(" / ".join(key))
            return ()

    def set_sweep_days(self, target: Target, days: Sequence[SweepDay]) -> None:
        """Replace them. Of two sweeps at once one may be lost; the next one makes up for it."""
        kept = {f"{one.day}": (one.most_idle, one.most_silent) for one in days}
        self._table.write(put((target_pk(target), "SWEEP-DAYS"), {"days": kept}))

    def breaker(self, target: Target) -> BreakerState | None:
        """Return the tripped breaker, if it is; of two, the one that holds longer."""
        return self.breakers([target])[target]

    def breakers(self, targets: Sequence[Target]) -> dict[Target, BreakerState | None]:
        items = self._table.get_each([key for one in targets for key in _breaker_keys(one)])
        found = [next(self._table.records(BreakerState, [one] if one else []), None) for one in items]
        return {
            target: max(filter(None, pair), key=lambda one: one.tripped_at, default=None)
            for target, *pair in zip(targets, found[::2], found[1::2], strict=True)
        }

    def release_breaker(self, target: Target, state: BreakerState) -> bool:
        """Release this breaker, and none that has tripped since; true when this call did."""
        is_it = where("tripped_at", "<=", state.tripped_at)
        gone = [self._table.wins(delete(key, is_it)) for key in _breaker_keys(target)]
        return any(gone)

    def set_breaker(self, target: Target, state: BreakerState) -> bool:
        """Trip the breaker; true when this call did. A tripped one takes the new reason."""
        new, old = _breaker_keys(target)
        if self._table.wins(insert(new, state), put(old, state)):
            return True
        self._table.transact(put(new, state), put(old, state))
        return False


def _breaker_keys(target: Target) -> tuple[Key, Key]:
    """Return where the breaker is, and where the release before this one reads it: a rollback brings that one
    back. Both are written and read for one release, so that no freeze is lost."""
    return (f"BREAKER#{place(target)}", "BREAKER"), (target_pk(target), "BREAKER")


def _chunk_key(target: Target, number: int) -> Key:
    return target_pk(target), f"OBSERVATIONS#{number:03d}"
