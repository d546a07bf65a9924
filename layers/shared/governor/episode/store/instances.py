"""Stores what is known of each instance: holds, marks and warnings, each attribute written by
itself; failures by their cause; and open incidents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import NamedTuple

from governor.alerts.model import Incident
from governor.core.errors import CloudError
from governor.core.instance import Target
from governor.core.units import iso, parse_iso
from governor.episode.model.episode import Failing, InstanceRecord, Restart
from governor.episode.model.standing import StandingState
from governor.table import keys
from governor.table.table import (
    DAMAGED,
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
from governor.verdict.model import Hold

_FIELDS = {field.name for kind in (InstanceRecord, Hold) for field in fields(kind)}
_BESIDE_A_WARNING = _FIELDS - {"target", "instance_id", "hold", "warned_until", "problem"}
"""Attributes for which a record is kept after its warning is over."""

_RESTARTS_KEPT = 10
"""More than count for a question in 30 days, as an instance is quiet after two."""

_FAILING = "FAILING#all"
"""One partition for all targets: a cause is over when it is over in every account and Region."""
_FAILING_KEPT = timedelta(days=30)
_STATE = "STATE#"
_INCIDENTS = "INCIDENT#all"
"""One partition for all targets: the last step of a sweep closes incidents of all of them."""


class Instances(Store):
    """Records of instances, with their locks and holds. Every method may raise CloudError."""

    def records(self, target: Target) -> dict[str, InstanceRecord]:
        """Return all records of a target by instance id, each with its lock and hold; empty if
        there are none. A record that cannot be read says so in its `problem`. Raises: CloudError if
        the table cannot be read."""
        items_by_id: dict[str, list[Document]] = defaultdict(list)
        # The locks are read before the records. The close of an episode frees the lock and says how
        # long the instance is quiet: a reader that sees the lock free must see that, too.
        locks = list(self._table.query(f"LOCK#{keys.place(target)}"))
        stored = self._table.query(keys.target_pk(target), "INSTANCE#")
        for item in chain(stored, locks, self._table.query(f"HOLD#{keys.place(target)}")):
            instance_id = item["sk"].partition("#")[2]
            items_by_id[instance_id].append(item)
        records: dict[str, InstanceRecord] = {}
        for instance_id, items in items_by_id.items():
            try:
                records[instance_id] = self._read(target, instance_id, items)
            except CloudError as error:
                # One damaged record must not end the sweep of all others. No action rests on it.
                records[instance_id] = InstanceRecord(target, instance_id, problem=str(error))
        return records

    def record(self, target: Target, instance_id: str) -> InstanceRecord:
        """Return the record of an instance, with its lock and hold; an empty record if none is
        stored. Raises: CloudError, also if the record is damaged."""
        hold, record = keys.holds(target, instance_id)
        items = self._table.get_each([record, keys.lock(target, instance_id), hold])
        return self._read(target, instance_id, items)

    def failing_among(self, target: Target, instance_ids: Sequence[str]) -> set[str]:
        """Return the ids of those of these instances whose record counts failed workflows; empty
        if there are none. Raises: CloudError."""
        record_keys = [keys.instance(target, instance_id) for instance_id in instance_ids]
        items = self._table.get_each(record_keys)
        failing_ids = set()
        for instance_id, item in zip(instance_ids, items, strict=True):
            if item.get("failures"):
                failing_ids.add(instance_id)
        return failing_ids

    def _read(self, target: Target, instance_id: str, items: Iterable[Document]) -> InstanceRecord:
        """Return one record from the stored items of an instance, at least one: its own item, its
        lock and its hold, as many as exist. An episode that any of them names is open, and the
        strictest hold counts.

        The release before this one keeps lock and hold in the item of the record. Raises:
        CloudError if an item is damaged.
        """
        identity = {
            "account": target.account,
            "region": target.region,
            "instance_id": instance_id,
        }
        documents = [{**item, **identity} for item in items]
        record, *other_parts = self._table.records(InstanceRecord, documents)
        for part in other_parts:
            record = replace(
                record,
                open_episode=part.open_episode or record.open_episode,
                episodes=max(part.episodes, record.episodes),
                hold=part.hold.stricter(record.hold),
            )
        return record

    def set_marked(self, target: Target, at: datetime | None, *ids: str) -> None:
        """Note that the instances with these `ids` were marked as idle at this time; with `None`,
        remove that note. Raises: CloudError."""
        if at is None:
            for instance_id in ids:
                self._remove(target, instance_id, "marked_at")
            return
        marked = {"marked_at": at}
        notes = [update(keys.instance(target, instance_id), marked) for instance_id in ids]
        self._table.write_all(notes)

    def note_warned(self, target: Target, until: Mapping[str, datetime]) -> None:
        """Note when the warning of each instance ends, by instance id. An earlier note is replaced.
        Raises: CloudError; some may be noted then."""
        notes = []
        for instance_id, end in until.items():
            notes.append(update(keys.instance(target, instance_id), {"warned_until": end}))
        self._table.write_all(notes)

    def drop_warning(self, target: Target, instance_id: str, now: datetime) -> None:
        """Delete the record of the instance if it holds a warning that is over and nothing else.
        Any other record stays. Raises: CloudError."""
        holds_only_a_warning = where("warned_until", "<=", now)
        for attribute in sorted(_BESIDE_A_WARNING):
            holds_only_a_warning = holds_only_a_warning & absent(attribute)
        self._table.try_transaction(
            delete(keys.instance(target, instance_id), holds_only_a_warning)
        )

    def note_restart(self, restart: Restart) -> None:
        """Note that others started the instance again after a stop of ours; only the latest
        `_RESTARTS_KEPT` are kept. Do nothing if a start after that stop is noted, or this start is.
        Raises: CloudError."""
        ref = restart.stopped_in
        record = self.record(ref.target, ref.instance_id)
        for known in record.restarts:
            # One start ends the savings of all stops before it whose savings are open.
            if known.stopped_in == ref or known.at == restart.at:
                return
        # The event and the sweep may both come here: they note the same restart after the same
        # stop, and the next stop is hours away, so no other restart is lost.
        restarts = (*record.restarts, restart)[-_RESTARTS_KEPT:]
        self._table.write(
            update(keys.instance(ref.target, ref.instance_id), {"restarts": restarts})
        )

    def clear_quiet(self, target: Target, instance_id: str) -> None:
        """Remove the note until when nobody is notified of the instance, and the count of failed
        ends in a row, as it works again: its next idle stretch is reported again. Without a record
        nothing happens. Raises: CloudError."""
        self._remove(target, instance_id, "quiet_until", "quiet_launch_time", "failures")

    def _remove(self, target: Target, instance_id: str, *attributes: str) -> None:
        """Remove these attributes from the record of an instance. Without a record nothing happens.
        Raises: CloudError."""
        self._table.try_write(
            update(keys.instance(target, instance_id), {}, present(), remove=attributes)
        )


class Troubles(NamedTuple):
    """The failures of workflows, and the standing states, of all targets."""

    failing: list[Failing]
    standing: list[StandingState]


class Failures(Store):
    """Failures of workflows, and open incidents. Every method may raise CloudError."""

    def failing(self) -> list[Failing]:
        """Return the newest failure of each instance and cause; empty if there is none.

        A failure is over once its step has worked later in the same target; it is included, with
        that time as its `over_at`. Damaged records are left out; a damaged time of working counts
        as none. Raises: CloudError.
        """
        return self._failing({item["sk"]: item for item in self._table.query(_FAILING)})

    def failing_and_standing(self) -> Troubles:
        """Return what `failing` and `standing_states` return, by one read. Raises: CloudError."""
        items = {item["sk"]: item for item in self._table.query(_FAILING)}
        states = [item for sk, item in items.items() if sk.startswith(_STATE)]
        standing = list(Readable(self._table).records(StandingState, states))
        return Troubles(self._failing(items), standing)

    def _failing(self, items: Mapping[str, Document]) -> list[Failing]:
        """Return the failures of these items, which are given by sort key; empty if there are none.
        A failure whose step has worked since has the time of that in `over_at`. One that cannot be
        read is left out."""
        causes = [item for sk, item in items.items() if sk.startswith("CAUSE#")]
        failures: list[Failing] = []
        for failure in Readable(self._table).records(Failing, causes):
            _, worked_sk = _worked(failure.target)
            worked_at = self._worked_at(failure, items.get(worked_sk, {}))
            if worked_at > failure.at:
                failures.append(replace(failure, over_at=worked_at))
            else:
                failures.append(failure)
        return failures

    def _worked_at(self, failure: Failing, worked: Document) -> datetime:
        """Return when the step of this failure last worked in its target, by the item `worked`
        (time by name of the step); the time of the failure if that is not known, or cannot be read,
        which is logged."""
        text = worked.get(failure.step)
        if not text:
            return failure.at
        try:
            return parse_iso(text)
        except DAMAGED:
            self._table.log_left_out(" / ".join(_worked(failure.target)))
            return failure.at

    def note_failing(self, failure: Failing) -> None:
        """Store the failure in place of the last one of its instance and cause, for 30 days from
        its time. Raises: CloudError."""
        self._table.write(update(_cause(failure), failure, until=failure.at + _FAILING_KEPT))

    def note_worked(self, target: Target, steps: Iterable[str], at: datetime) -> None:
        """Note in one write when these steps last worked in a target. Raises: CloudError."""
        self._table.write(
            update(_worked(target), dict.fromkeys(steps, at), until=at + _FAILING_KEPT)
        )

    def note_over(self, failure: Failing, at: datetime) -> None:
        """Note when this failure was over. If it is no longer stored, nothing happens. Raises:
        CloudError."""
        self._table.try_write(update(_cause(failure), {"over_at": at}, present()))

    def drop_failing(self, failures: Iterable[Failing]) -> None:
        """Delete the records of these failures. Raises: CloudError; some may be deleted then."""
        self._table.write_all([delete(_cause(failure)) for failure in failures])

    def standing_states(self, target: Target | None = None) -> list[StandingState]:
        """Return the standing states of one target, or of all (`None`), also those that a later
        sweep did not meet any more; empty if there are none. Damaged records are left out. Raises:
        CloudError."""
        prefix = _STATE if target is None else f"{_STATE}{keys.place(target)}#"
        items = self._table.query(_FAILING, prefix)
        return list(Readable(self._table).records(StandingState, items))

    def note_standing(self, state: StandingState) -> None:
        """Store that a sweep has met this state. If it is stored already, only its reason and
        `seen_at` change. Raises: CloudError."""
        until = state.seen_at + _FAILING_KEPT
        seen = {"reason": state.reason, "seen_at": state.seen_at}
        key = _standing(state)
        is_known = self._table.try_write(update(key, seen, present(), until=until))
        if not is_known:
            self._table.write(put(key, state, until=until))

    def note_standing_told(self, states: Iterable[StandingState], at: datetime) -> None:
        """Note when people were notified of these states. One that is no longer stored is left
        out. Raises: CloudError; some may be noted then."""
        for state in states:
            self._table.try_write(update(_standing(state), {"told_at": at}, present()))

    def drop_standing(self, states: Iterable[StandingState]) -> None:
        """Delete these states, except those that a sweep has met again since they were read.
        Raises: CloudError; some may be deleted then."""
        for state in states:
            is_same = where("seen_at", "=", state.seen_at)
            self._table.try_write(delete(_standing(state), is_same))

    def note_incident(self, incident: Incident) -> None:
        """Store an incident that must be closed at `ends_at`. `incidents` returns it until it is
        dropped, or the table deletes it `_FAILING_KEPT` after that end. Raises: CloudError."""
        until = incident.ends_at + _FAILING_KEPT
        self._table.write(put(_incident(incident.key), incident, until=until))

    def incidents(self) -> list[Incident]:
        """Return the open incidents, without those that cannot be read; empty if there are none.
        Raises: CloudError."""
        return list(Readable(self._table).records(Incident, self._table.query(_INCIDENTS)))

    def drop_incident(self, incident: Incident) -> None:
        """Delete an incident, unless its end has changed since it was read: it was opened again.
        Raises: CloudError."""
        is_same_end = where("ends_at", "=", iso(incident.ends_at))
        self._table.try_write(delete(_incident(incident.key), is_same_end))


def _incident(key: str) -> Key:
    """Return the key in the table of the incident with this key."""
    return _INCIDENTS, key


def _cause(failure: Failing) -> Key:
    """Return the key under which the newest failure of this instance and cause is stored:
    `FAILING#all`, `CAUSE#<cause>#<account>#<Region>#<instance id>`."""
    failing_place = f"{keys.place(failure.target)}#{failure.instance_id}"
    return _FAILING, f"CAUSE#{failure.cause}#{failing_place}"


def _standing(state: StandingState) -> Key:
    """Return the key of a standing state, such as `FAILING#all`,
    `STATE#111122223333#us-east-1#not-enabled#`."""
    return _FAILING, f"{_STATE}{keys.place(state.target)}#{state.kind.value}#{state.instance_id}"


def _worked(target: Target) -> Key:
    """Return the key of the item that holds when each step last worked in a target."""
    return _FAILING, f"WORKED#{keys.place(target)}"
