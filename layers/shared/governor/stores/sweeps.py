"""The memory of a sweep: observations, what turned at once, and the breaker."""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import tee
from typing import Any

from governor.domain.episode.episode import Observation
from governor.domain.instance import Target
from governor.domain.sweep.breaker import BreakerState, SweepDay
from governor.domain.units import as_utc, iso
from governor.errors import CloudError
from governor.stores.keys import place, target_pk
from governor.stores.table import DAMAGED, Document, Key, Store, delete, insert, packed, put, unpacked, where

_log = logging.getLogger(__name__)

_OBSERVATIONS, _OBSERVATIONS_FORMAT = "OBSERVATIONS#", 1
_PART_KEPT = timedelta(hours=2)
"""Longer than work that was seen can be known."""


class Sweeps(Store):
    def observations(self, target: Target) -> dict[str, Observation]:
        """Return what the last sweep saw, by instance id; empty where that cannot be read as a whole. With it
        comes what later sweeps have saved that did not end."""
        whole: list[Document] = []
        parts: dict[str, list[Document]] = {}
        for item in self._table.query(target_pk(target), _OBSERVATIONS):
            name = item["sk"].rpartition("#")[0]
            (whole if f"{name}#" == _OBSERVATIONS else parts.setdefault(name, [])).append(item)
        found = self._unpacked(target, whole)
        ended = max((one.at for one in found.values()), default=None)
        for part in parts.values():
            seen = self._unpacked(target, part)
            found |= {key: one for key, one in seen.items() if ended is None or one.at > ended}
        return found

    def _unpacked(self, target: Target, items: Sequence[Document]) -> dict[str, Observation]:
        if not items or not items[0]["sk"].endswith("#000"):
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
        last = self._keep(target, _OBSERVATIONS, observations, at)
        for stale in self._table.query(target_pk(target), _OBSERVATIONS, after=last):
            self._table.write(delete((stale["pk"], stale["sk"])))

    def remember_part(self, target: Target, seen: Mapping[str, Observation], at: datetime) -> None:
        """Add what a sweep saw that goes on: for the next one, should it not end."""
        # Behind all chunks: the next whole set deletes it.
        own = f"{_OBSERVATIONS}part-{iso(at)}-{random.getrandbits(64):016x}#"
        self._keep(target, own, seen, at, until=at + _PART_KEPT)

    def _keep(
        self, target: Target, prefix: str, seen: Mapping[str, Observation], at: datetime, **more: Any
    ) -> str:
        parts = packed({"id": key, **self._table.document(one)} for key, one in seen.items())
        chunk = {
            # Two sweeps at once may interleave their chunks; the version tells the reader.
            "version": f"{as_utc(at).isoformat()}#{random.getrandbits(64):016x}",
            "chunks": len(parts),
            "format": _OBSERVATIONS_FORMAT,
            "at": at,
        }
        keys = [f"{prefix}{number:03d}" for number in range(len(parts))]
        for key, part in zip(keys, parts, strict=True):
            self._table.write(put((target_pk(target), key), {**chunk, "data": part}, **more))
        return keys[-1]

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
