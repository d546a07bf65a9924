"""The memory of a sweep: observations, what turned at once, and the breaker."""

from __future__ import annotations

import logging
import random
import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from governor.adapters.table.client import Key, Store, delete, epoch, insert, present, put
from governor.adapters.table.codec import (
    moment,
    packed_observations,
    read_item,
    sweep_days,
    sweep_days_document,
    unpacked_observations,
    written,
)
from governor.adapters.table.keys import target_pk
from governor.domain.episode.episode import Observation
from governor.domain.instance import Target
from governor.domain.sweep.breaker import BreakerState, SweepDay
from governor.domain.units import iso

_log = logging.getLogger(__name__)

_CHUNK_BYTES = 350_000
"""An item may have 400 KB with its names and keys."""
_OBSERVATIONS_FORMAT = 1
_SWEEPS_KEPT = timedelta(days=30)


class SweepStore(Store):
    """The port `Sweeps`."""

    def observations(self, target: Target) -> dict[str, Observation]:
        """Count what another version packed, or a half-written set, as never seen."""
        items = list(self._table.query(target_pk(target), "OBSERVATIONS#"))
        if not items or items[0]["sk"] != _chunk_key(target, 0)[1]:
            return {}
        version, chunks = items[0].get("version"), items[0].get("chunks")
        current = [item for item in items if item.get("version") == version]
        if items[0].get("format") != _OBSERVATIONS_FORMAT or len(current) != chunks:
            _log.warning("the remembered observations of %s are incomplete; reading everything anew", target)
            return {}
        try:
            return unpacked_observations(item["data"] for item in current)
        except (KeyError, ValueError, TypeError, zlib.error) as error:
            _log.warning("the remembered observations of %s cannot be read: %s", target, error)
            return {}

    def remember(self, target: Target, observations: Mapping[str, Observation], at: datetime) -> None:
        data = packed_observations(observations)
        parts = [data[start : start + _CHUNK_BYTES] for start in range(0, len(data), _CHUNK_BYTES)]
        chunk = {
            # Two sweeps at once may interleave their chunks; the version tells the reader.
            "version": f"{moment(at)}#{random.getrandbits(64):016x}",
            "chunks": len(parts),
            "format": _OBSERVATIONS_FORMAT,
            "at": moment(at),
        }
        for number, part in enumerate(parts):
            self._table.write(put(_chunk_key(target, number), {**chunk, "data": part}))
        last = _chunk_key(target, len(parts) - 1)[1]
        for stale in self._table.query(target_pk(target), "OBSERVATIONS#", after=last):
            self._table.write(delete((stale["pk"], stale["sk"])))

    def sweep_days(self, target: Target) -> tuple[SweepDay, ...]:
        item = self._table.get(_days_key(target))
        return sweep_days(item) if item else ()

    def set_sweep_days(self, target: Target, days: Sequence[SweepDay]) -> None:
        self._table.write(put(_days_key(target), sweep_days_document(days)))

    def breaker(self, target: Target) -> BreakerState | None:
        item = self._table.get(_breaker_key(target))
        return read_item(BreakerState, item) if item else None

    def set_breaker(self, target: Target, state: BreakerState | None) -> bool:
        key = _breaker_key(target)
        if state is None:
            # Read first: nearly every sweep finds it closed, and a read costs less than a write.
            return self._table.get(key) is not None and self._table.wins(delete(key, present()))
        if self._table.wins(insert(key, written(state))):
            return True
        self._table.write(put(key, written(state)))
        return False

    def save_sweep(self, target: Target, at: datetime, counts: Mapping[str, int]) -> None:
        document = {"at": moment(at), "counts": dict(counts), "expires_at_epoch": epoch(at + _SWEEPS_KEPT)}
        self._table.write(put((target_pk(target), f"SWEEP#{iso(at)}"), document))


def _chunk_key(target: Target, number: int) -> Key:
    return target_pk(target), f"OBSERVATIONS#{number:03d}"


def _days_key(target: Target) -> Key:
    return target_pk(target), "SWEEP-DAYS"


def _breaker_key(target: Target) -> Key:
    return target_pk(target), "BREAKER"
