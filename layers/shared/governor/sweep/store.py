"""Stores what the next sweep must remember: observations, and the largest changes of each day."""

from __future__ import annotations

import logging
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import tee

from governor.core.errors import CloudError
from governor.core.instance import Target
from governor.core.units import as_utc, in_parts, iso
from governor.episode.model.episode import Observation
from governor.limits.model.breaker import SweepDay
from governor.table.keys import target_pk
from governor.table.table import (
    DAMAGED,
    Document,
    Store,
    Write,
    check,
    delete,
    packed,
    put,
    unpacked,
    where,
)

_log = logging.getLogger(__name__)

_OBSERVATIONS = "OBSERVATIONS#"
_OBSERVATIONS_FORMAT = 1
_CHUNKS_AT_ONCE = 11
"""Chunks in a transaction, which may have 4 MB."""
_ATTEMPTS = 3
_PART_KEPT = timedelta(hours=2)
"""How long a saved part is kept. Work seen two hours ago no longer matters."""


class Sweeps(Store):
    """Observations of a target's instances, and its sweeps of the last days. A set of observations
    is packed into chunks, one item each; all chunks of a set have the same `version`."""

    def observations(self, target: Target) -> dict[str, Observation]:
        """Return the observations by instance id: the whole set of the last sweep that ended, and
        newer ones that later sweeps saved before they were cut short. Empty if there are none.

        A set that is damaged, or that other sweeps keep replacing, counts as empty. Raises:
        CloudError if the table cannot be read.
        """
        observations = None
        for _ in range(_ATTEMPTS):
            sets = self._stored_sets(target)
            set_of_last_sweep = sets.pop(_OBSERVATIONS.removesuffix("#"), [])
            observations = self._unpacked(target, set_of_last_sweep)
            if observations is not None:
                break
            # Another sweep replaced the chunks between two pages of the query. Read again.
        observations = observations or {}

        ended_at = max((seen.at for seen in observations.values()), default=None)
        for chunks in sets.values():
            saved = self._unpacked(target, chunks) or {}
            for instance_id, seen in saved.items():
                if ended_at is None or seen.at > ended_at:
                    observations[instance_id] = seen
        return observations

    def _stored_sets(self, target: Target) -> dict[str, list[Document]]:
        """Return the chunks of each stored set by its sort key without the number of the chunk:
        `OBSERVATIONS` for the set of the last sweep that ended, and `OBSERVATIONS#part-...` for
        each part that a later sweep saved. Empty if none is stored. Raises: CloudError."""
        sets: dict[str, list[Document]] = defaultdict(list)
        for item in self._table.query(target_pk(target), _OBSERVATIONS):
            sets[item["sk"].rpartition("#")[0]].append(item)
        return sets

    def _unpacked(
        self, target: Target, chunks: Sequence[Document]
    ) -> dict[str, Observation] | None:
        """Return the observations in these chunks of one set, by instance id. Return an empty
        mapping if there are no chunks or they are damaged.

        Return `None` if the set is incomplete, or of another format: reading again may help.
        """
        if not chunks:
            return {}
        head = chunks[0]
        current = [chunk for chunk in chunks if chunk.get("version") == head.get("version")]
        begins_with_first_chunk = head["sk"].endswith("#000")
        is_known = begins_with_first_chunk and head.get("format") == _OBSERVATIONS_FORMAT
        if not is_known or len(current) != head.get("chunks"):
            _log.warning(
                "the remembered observations of %s are incomplete; reading everything anew", target
            )
            return None
        try:
            # Read line by line: only one line is held as text.
            lines, lines_of_records = tee(unpacked(chunk["data"] for chunk in current))
            records = self._table.records(Observation, lines_of_records)
            return {line["id"]: seen for line, seen in zip(lines, records, strict=True)}
        except (CloudError, *DAMAGED) as error:
            _log.warning("the remembered observations of %s cannot be read: %s", target, error)
            return {}

    def remember(
        self, target: Target, observations: Mapping[str, Observation], at: datetime
    ) -> None:
        """Store the observations of a sweep that ended in place of all earlier ones: of sweeps
        before it, and of parts that it saved while it ran.

        If two sweeps write at once, the last one wins: the observations are a cache. Raises:
        CloudError.
        """
        version, last_key = self._keep(target, _OBSERVATIONS, observations, at)
        head_key = (target_pk(target), f"{_OBSERVATIONS}000")
        is_ours = check(head_key, where("version", "=", version))
        for stale in self._table.query(target_pk(target), _OBSERVATIONS, after=last_key):
            # Chunks of an earlier set, and parts. Delete nothing if another sweep has replaced this
            # set, nor a part of a later sweep.
            is_not_later = where("at", "<=", at)
            self._table.try_transaction(is_ours, delete((stale["pk"], stale["sk"]), is_not_later))

    def remember_part(self, target: Target, seen: Mapping[str, Observation], at: datetime) -> None:
        """Save some observations (`seen`, by instance id) of a sweep that still runs. If that sweep
        is cut short, the next one uses them. They expire after two hours. Raises: CloudError."""
        # The key sorts after all chunks, so `remember` deletes this part.
        prefix = f"{_OBSERVATIONS}part-{iso(at)}-{random.getrandbits(64):016x}#"
        self._keep(target, prefix, seen, at, until=at + _PART_KEPT)

    def _keep(
        self,
        target: Target,
        prefix: str,
        seen: Mapping[str, Observation],
        at: datetime,
        *,
        until: datetime | None = None,
    ) -> tuple[str, str]:
        """Write a set of observations in chunks, under sort keys of the prefix and a number. The
        items expire at `until`; never if it is `None`.

        Return the version of the set, and its last sort key. Raises: CloudError.
        """
        lines = (
            {"id": instance_id, **self._table.document(observation)}
            for instance_id, observation in seen.items()
        )
        parts = packed(lines)
        version = f"{as_utc(at).isoformat()}#{random.getrandbits(64):016x}"
        chunk = {"version": version, "chunks": len(parts), "format": _OBSERVATIONS_FORMAT, "at": at}
        writes: list[Write] = []
        for number, part in enumerate(parts):
            key = (target_pk(target), f"{prefix}{number:03d}")
            writes.append(put(key, {**chunk, "data": part}, until=until))
        if len(writes) == 1:
            self._table.write(writes[0])
        else:
            # Many chunks in one transaction: two sweeps that wrote chunk by chunk would leave no
            # whole set.
            for part_of_writes in in_parts(writes, _CHUNKS_AT_ONCE):
                self._table.transact(*part_of_writes)
        return version, writes[-1].key[1]

    def sweep_days(self, target: Target) -> tuple[SweepDay, ...]:
        """Return for each of the last days the most instances that turned idle, and the most that
        fell silent, in one sweep; oldest day first. Return an empty tuple if no day is stored, or
        the item is damaged. Raises: CloudError."""
        key = (target_pk(target), "SWEEP-DAYS")
        item = self._table.get(key) or {"days": {}}
        try:
            days: list[SweepDay] = []
            for day, counts in sorted(dict(item["days"]).items()):
                most_idle, most_silent = counts
                days.append(SweepDay(date.fromisoformat(day), int(most_idle), int(most_silent)))
            return tuple(days)
        except DAMAGED:
            self._table.log_left_out(" / ".join(key))
            return ()

    def set_sweep_days(self, target: Target, days: Sequence[SweepDay]) -> None:
        """Store the counts of these days in place of all that are stored. If two sweeps do so at
        once, the counts of one may be lost. Raises: CloudError."""
        counts_by_day = {f"{day.day}": (day.most_idle, day.most_silent) for day in days}
        self._table.write(put((target_pk(target), "SWEEP-DAYS"), {"days": counts_by_day}))
