"""Domain records as JSON text and back. Unknown fields are ignored on the way in, so that an older function
can read what a newer one wrote."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar

from governor.domain.episode import Observation

Record = TypeVar("Record")


def to_json(record: object) -> str:
    """The record as JSON text: Decimals and moments as strings, so that nothing is rounded."""
    return str(_adapter(type(record)).dump_json(record).decode())


def from_json(kind: type[Record], text: str) -> Record:
    """The record that `to_json` wrote.

    Raises:
        ValueError: the text is not such a record.
    """
    record: Record = _adapter(kind).validate_json(text)
    return record


@cache
def _adapter(kind: type[Any]) -> Any:
    # Imported on use: a function that never touches a document does not pay for pydantic.
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


_FIELDS = 11


def pack_observations(items: Iterable[tuple[str, Observation]]) -> str:
    """Observations as compressed text, about a tenth of their JSON."""
    rows = [
        [
            instance_id,
            _epoch(o.launch_time),
            o.verdict,
            _epoch(o.at),
            o.reason,
            o.policy_version,
            _epoch(o.last_busy),
            o.source,
            o.dimensions,
            _epoch(o.searched_at),
            _epoch(o.gpus_checked_at),
            list(o.advice),
        ]
        for instance_id, o in items
    ]
    packed = gzip.compress(json.dumps(rows, separators=(",", ":")).encode(), compresslevel=6, mtime=0)
    return base64.b85encode(packed).decode()


def unpack_observations(text: str) -> dict[str, Observation]:
    """What `pack_observations` wrote; a text of another release's making is an empty cache."""
    rows = json.loads(gzip.decompress(base64.b85decode(text)))
    found: dict[str, Observation] = {}
    for row in rows:
        if len(row) != _FIELDS + 1:
            return {}
        launch, at = _moment(row[1]), _moment(row[3])
        if launch is None or at is None:
            return {}
        found[row[0]] = Observation(
            launch_time=launch,
            verdict=row[2],
            at=at,
            reason=row[4],
            policy_version=row[5],
            last_busy=_moment(row[6]),
            source=row[7],
            dimensions=None if row[8] is None else tuple(_pairs(one) for one in row[8]),
            searched_at=_moment(row[9]),
            gpus_checked_at=_moment(row[10]),
            advice=tuple(row[11]),
        )
    return found


def _pairs(pairs: list[list[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in pairs)


def _epoch(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _moment(epoch: float | None) -> datetime | None:
    return None if epoch is None else datetime.fromtimestamp(epoch, tz=UTC)


def newest(parts: Iterable[Mapping[str, Observation]]) -> dict[str, Observation]:
    """One mapping of several; where two hold the same instance, the newer observation."""
    merged: dict[str, Observation] = {}
    for part in parts:
        for instance_id, observation in part.items():
            other = merged.get(instance_id)
            if other is None or other.at < observation.at:
                merged[instance_id] = observation
    return merged
