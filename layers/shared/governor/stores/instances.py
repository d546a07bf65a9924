"""Instance records: holds, marks and warnings, each attribute by itself; and what fails for which
cause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from datetime import datetime, timedelta
from functools import reduce
from itertools import chain

from governor.domain.alerts.alert import Incident
from governor.domain.episode.episode import Failing, InstanceRecord
from governor.domain.instance import Target
from governor.domain.sweep.verdict import Hold
from governor.domain.units import iso, parse_iso
from governor.errors import CloudError
from governor.stores import keys
from governor.stores.table import (
    DAMAGED,
    Condition,
    Document,
    Key,
    Readable,
    Store,
    absent,
    delete,
    present,
    put,
    update,
    where,
)

_BESIDE_A_WARNING = {one.name for kind in (InstanceRecord, Hold) for one in fields(kind)} - {
    *("target", "instance_id", "hold", "warned_until", "problem")
}

_FAILING = "FAILING#all"
"""One partition: a cause is gone when it is gone in every account and Region."""
_FAILING_KEPT = timedelta(days=30)
_INCIDENTS = "INCIDENT#all"
"""One partition, as the sweep of any target closes them: the hub's may be no target of its own."""


class Instances(Store):
    def records(self, target: Target) -> dict[str, InstanceRecord]:
        """Return all records of a target by instance id; an unreadable one says so in `problem`."""
        found = {}
        known: dict[str, list[Document]] = defaultdict(list)
        # A close frees the lock and says for how long it is quiet: whoever sees it free must see
        # that, too.
        locks = list(self._table.query(f"LOCK#{keys.place(target)}"))
        records = self._table.query(keys.target_pk(target), "INSTANCE#")
        for item in chain(records, locks, self._table.query(f"HOLD#{keys.place(target)}")):
            known[item["sk"].partition("#")[2]].append(item)
        for instance_id, items in known.items():
            try:
                found[instance_id] = self._read(target, instance_id, items)
            except CloudError as error:
                # One damaged record must not end the sweep of all others; nothing follows from it
                # either.
                found[instance_id] = InstanceRecord(target, instance_id, problem=str(error))
        return found

    def record(self, target: Target, instance_id: str) -> InstanceRecord:
        hold, record = keys.holds(target, instance_id)
        items = self._table.get_each([record, keys.lock(target, instance_id), hold])
        return self._read(target, instance_id, items)

    def _read(self, target: Target, instance_id: str, items: Iterable[Document]) -> InstanceRecord:
        """Return the record with its lock and hold, which the release before this one keeps in the
        record: an episode that either names is open, and the stricter hold counts."""
        named = {"account": target.account, "region": target.region, "instance_id": instance_id}
        stored, *own = self._table.records(InstanceRecord, [{**one, **named} for one in items])
        for one in own:
            stored = replace(
                stored,
                open_episode=one.open_episode or stored.open_episode,
                episodes=max(one.episodes, stored.episodes),
                hold=one.hold.stricter(stored.hold),
            )
        return stored

    def set_marked(self, target: Target, at: datetime | None, *ids: str) -> None:
        if at is None:
            for one in ids:
                self._remove(target, one, "marked_at")
        else:
            self._table.write_all(
                [update(keys.instance(target, one), {"marked_at": at}) for one in ids]
            )

    def note_warned(self, target: Target, until: Mapping[str, datetime]) -> None:
        """Note until when warnings stand, by instance id. The last one counts."""
        self._table.write_all(
            [update(keys.instance(target, one), {"warned_until": at}) for one, at in until.items()]
        )

    def drop_warning(self, target: Target, instance_id: str, now: datetime) -> None:
        """Delete a record that holds an old warning and nothing else; any other stays."""
        is_old = where("warned_until", "<=", now)
        alone = reduce(Condition.__and__, map(absent, sorted(_BESIDE_A_WARNING)), is_old)
        self._table.wins(delete(keys.instance(target, instance_id), alone))

    def clear_quiet(self, target: Target, instance_id: str) -> None:
        """Note that work has resumed: the next idle stretch is reported again."""
        self._remove(target, instance_id, "quiet_until", "quiet_launch_time", "failures")

    def _remove(self, target: Target, instance_id: str, *attributes: str) -> None:
        # Without a record there is nothing to remove.
        self._table.holds(
            update(keys.instance(target, instance_id), {}, present(), remove=attributes)
        )


class Failures(Store):
    def failing(self) -> list[Failing]:
        """Return the newest failure of each instance and cause, if readable, with those that are
        over."""
        items = {item["sk"]: item for item in self._table.query(_FAILING)}
        causes = [item for sk, item in items.items() if sk.startswith("CAUSE#")]
        found = []
        for one in Readable(self._table).records(Failing, causes):
            key = _worked(one.target)
            worked = items.get(key[1], {}).get(one.step)
            try:
                worked_at = parse_iso(worked) if worked else one.at
            except DAMAGED:
                self._table.leave_out(" / ".join(key))
                worked_at = one.at
            found.append(replace(one, over_at=worked_at) if worked_at > one.at else one)
        return found

    def note_failing(self, one: Failing) -> None:
        self._table.write(update(_cause(one), one, until=one.at + _FAILING_KEPT))

    def note_worked(self, target: Target, steps: Iterable[str], at: datetime) -> None:
        """Note when these steps have last worked in a target; in one write."""
        self._table.write(
            update(_worked(target), dict.fromkeys(steps, at), until=at + _FAILING_KEPT)
        )

    def note_over(self, one: Failing, at: datetime) -> None:
        self._table.holds(update(_cause(one), {"over_at": at}, present()))

    def drop_failing(self, those: Iterable[Failing]) -> None:
        self._table.write_all([delete(_cause(one)) for one in those])

    def note_incident(self, one: Incident) -> None:
        """Keep what is to be closed in time; `incidents` finds it until then."""
        self._table.write(put(_incident(one.key), one, until=one.ends_at + _FAILING_KEPT))

    def extend_incident(self, key: str, until: datetime) -> None:
        """Keep an incident open for longer, as its cause still is there; without one nothing
        happens."""
        self._table.holds(
            update(_incident(key), {"ends_at": until}, present(), until=until + _FAILING_KEPT)
        )

    def incidents(self) -> list[Incident]:
        return list(Readable(self._table).records(Incident, self._table.query(_INCIDENTS)))

    def drop_incident(self, one: Incident) -> None:
        """Forget it, unless it was opened or extended meanwhile."""
        self._table.holds(delete(_incident(one.key), where("ends_at", "=", iso(one.ends_at))))


def _incident(key: str) -> Key:
    return _INCIDENTS, key


def _cause(one: Failing) -> Key:
    return _FAILING, f"CAUSE#{one.cause}#{keys.place(one.target)}#{one.instance_id}"


def _worked(target: Target) -> Key:
    return _FAILING, f"WORKED#{keys.place(target)}"
