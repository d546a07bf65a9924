"""The memory of a sweep: observations, what turned at once, and the breaker."""

from __future__ import annotations

import logging
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import tee
from typing import Any

from governor.domain.episode.episode import Observation
from governor.domain.instance import Target
from governor.domain.sweep.breaker import BreakerState, SweepDay
from governor.domain.units import as_utc, in_parts, iso
from governor.errors import CloudError
from governor.stores.keys import place, target_pk
from governor.stores.table import (
    DAMAGED,
    Document,
    Key,
    Store,
    check,
    delete,
    insert,
    packed,
    put,
    unpacked,
    where,
)

_log = logging.getLogger(__name__)

_OBSERVATIONS, _OBSERVATIONS_FORMAT = "OBSERVATIONS#", 1
_CHUNKS_AT_ONCE = 11
"""A transaction may have 4 MB."""
_ATTEMPTS = 3
_PART_KEPT = timedelta(hours=2)
"""Longer than work that was seen can be known."""


class Sweeps(Store):
    def observations(self, target: Target) -> dict[str, Observation]:
        """Return what the last sweep saw, by instance id; empty where that cannot be read as a
        whole. With it comes what later sweeps have saved that did not end."""
        found = None
        for _ in range(_ATTEMPTS):
            parts: dict[str, list[Document]] = defaultdict(list)
            for item in self._table.query(target_pk(target), _OBSERVATIONS):
                parts[item["sk"].rpartition("#")[0]].append(item)
            # One that another sweep replaces between two pages of the query is read again.
            if (found := self._unpacked(target, parts.pop(_OBSERVATIONS[:-1], []))) is not None:
                break
        found = found or {}
        ended = max((one.at for one in found.values()), default=None)
        for part in parts.values():
            seen = self._unpacked(target, part) or {}
            found |= {key: one for key, one in seen.items() if ended is None or one.at > ended}
        return found

    def _unpacked(self, target: Target, items: Sequence[Document]) -> dict[str, Observation] | None:
        """Return what can be read of them; `None` unless all chunks of one set are there."""
        if not items:
            return {}
        head = items[0]
        current = [item for item in items if item.get("version") == head.get("version")]
        is_known = head["sk"].endswith("#000") and head.get("format") == _OBSERVATIONS_FORMAT
        if not is_known or len(current) != head.get("chunks"):
            _log.warning(
                "the remembered observations of %s are incomplete; reading everything anew", target
            )
            return None
        try:
            lines, same = tee(unpacked(item["data"] for item in current))
            seen = self._table.records(Observation, same)
            return {line["id"]: one for line, one in zip(lines, seen, strict=True)}
        except (CloudError, *DAMAGED) as error:
            _log.warning("the remembered observations of %s cannot be read: %s", target, error)
            return {}

    def remember(
        self, target: Target, observations: Mapping[str, Observation], at: datetime
    ) -> None:
        """Replace the observations. Last writer wins; it is a cache."""
        version, last = self._keep(target, _OBSERVATIONS, observations, at)
        is_ours = check((target_pk(target), f"{_OBSERVATIONS}000"), where("version", "=", version))
        for stale in self._table.query(target_pk(target), _OBSERVATIONS, after=last):
            # Not what another sweep has replaced this by, nor what a later one has saved that goes
            # on.
            self._table.wins(is_ours, delete((stale["pk"], stale["sk"]), where("at", "<=", at)))

    def remember_part(self, target: Target, seen: Mapping[str, Observation], at: datetime) -> None:
        """Add what a sweep saw that goes on: for the next one, should it not end."""
        # Behind all chunks: the next whole set deletes it.
        own = f"{_OBSERVATIONS}part-{iso(at)}-{random.getrandbits(64):016x}#"
        self._keep(target, own, seen, at, until=at + _PART_KEPT)

    def _keep(
        self,
        target: Target,
        prefix: str,
        seen: Mapping[str, Observation],
        at: datetime,
        **more: Any,
    ) -> tuple[str, str]:
        """Return the version, and the last key."""
        parts = packed({"id": key, **self._table.document(one)} for key, one in seen.items())
        version = f"{as_utc(at).isoformat()}#{random.getrandbits(64):016x}"
        chunk = {"version": version, "chunks": len(parts), "format": _OBSERVATIONS_FORMAT, "at": at}
        writes = [
            put((target_pk(target), f"{prefix}{number:03d}"), {**chunk, "data": part}, **more)
            for number, part in enumerate(parts)
        ]
        # All at once: of two sweeps that write chunk by chunk, neither would leave a set.
        for some in in_parts(writes, _CHUNKS_AT_ONCE):
            self._table.transact(*some) if len(writes) > 1 else self._table.write(*some)
        return version, writes[-1].key[1]

    def sweep_days(self, target: Target) -> tuple[SweepDay, ...]:
        """Return the largest changes in a sweep of the last days, by day; none where they are
        damaged."""
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
        found = [
            next(self._table.records(BreakerState, [one] if one else []), None) for one in items
        ]
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
    """Return where the breaker is, and where the release before this one reads it: a rollback
    brings that one back. Both are written and read for one release, so that no freeze is lost."""
    return (f"BREAKER#{place(target)}", "BREAKER"), (target_pk(target), "BREAKER")
