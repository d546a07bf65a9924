"""Instance records: holds, marks and warnings, each attribute changed by itself."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from governor.adapters.table import keys
from governor.adapters.table.client import Key, Store, absent, delete, present, update, where
from governor.adapters.table.codec import moment, read_item
from governor.domain.episode.episode import InstanceRecord
from governor.domain.instance import Target
from governor.errors import CloudError

_BESIDE_A_WARNING = (
    "episodes",
    "exempt_reason",
    "last_outcome",
    "marked_at",
    "open_episode",
    "quiet_until",
    "snoozed_until",
)


class InstanceStore(Store):
    """The port `Instances`."""

    def records(self, target: Target) -> dict[str, InstanceRecord]:
        found = {}
        for item in self._table.query(keys.target_pk(target), "INSTANCE#"):
            instance_id = item["sk"].partition("#")[2]
            try:
                found[instance_id] = read_item(InstanceRecord, item, **_named(target, instance_id))
            except CloudError as error:
                # One damaged record must not end the sweep of all others; nothing follows from it either.
                found[instance_id] = InstanceRecord(target, instance_id, problem=str(error))
        return found

    def record(self, target: Target, instance_id: str) -> InstanceRecord:
        item = self._table.get(keys.instance(target, instance_id)) or {}
        return read_item(InstanceRecord, item, **_named(target, instance_id))

    def set_marked(self, target: Target, instance_id: str, at: datetime | None) -> None:
        key = keys.instance(target, instance_id)
        if at is None:
            self._remove(key, "marked_at")
        else:
            self._table.write(update(key, {"marked_at": moment(at)}))

    def note_warned(self, target: Target, until: Mapping[str, datetime]) -> None:
        self._table.write_all(
            [update(keys.instance(target, one), {"warned_until": moment(at)}) for one, at in until.items()]
        )

    def drop_warning(self, target: Target, instance_id: str, now: datetime) -> None:
        condition = where("warned_until", "<=", moment(now))
        for attribute in _BESIDE_A_WARNING:
            condition &= absent(attribute)
        self._table.wins(delete(keys.instance(target, instance_id), condition))

    def snooze(self, target: Target, instance_id: str, until: datetime) -> None:
        self._table.write(update(keys.instance(target, instance_id), {"snoozed_until": moment(until)}))

    def clear_quiet(self, target: Target, instance_id: str) -> None:
        self._remove(keys.instance(target, instance_id), "quiet_until", "quiet_launch_time")

    def _remove(self, key: Key, *attributes: str) -> None:
        # Without a record there is nothing to remove.
        self._table.holds(update(key, {}, present(), remove=attributes))


def _named(target: Target, instance_id: str) -> dict[str, str]:
    return {"account": target.account, "region": target.region, "instance_id": instance_id}
