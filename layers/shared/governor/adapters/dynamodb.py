"""The state table in DynamoDB: one table, string keys `pk` and `sk`, TTL attribute `expires_at_epoch`.

    TARGET#account#region    OBSERVATIONS#nnn            what the last sweep saw, packed, in chunks
                             INSTANCE#id                 instance record; holds the lock
                             BREAKER                     the tripped breaker
                             SWEEP-DAYS                  the most that turned at once in a sweep, by day
                             SWEEP#time                  sweep history (30 days)
                             OPENLEDGER#id#execution     booked and not settled
    EPISODE#execution        EPISODE                     the episode
    APPROVAL#id              REQUEST                     the approval (400 days)
    LEDGER#yyyy-mm           time#execution              the ledger
    COST#yyyy-mm             account#region              what a target's projects have cost (400 days)
    POLICY                   ACCEPTED                    the last policy document that was accepted
    DELIVERIES#subject       message#channel#target      what became of a message (90 days)
    OUTBOX#group             message                     waits to be sent with others (7 days)
    LEASE#name               LEASE                       who works on it now
    DIGEST#id                DIGEST                      the questions of a digest (90 days)
    EVENT#...                SEEN                        and others: see `event_log`

Every change that matters is conditional. Where a lost response would make a repeated call look beaten by
itself, the write is a transaction: AWS answers its repetition as it answered the first. This module must
not know why anything is stored.
"""

from __future__ import annotations

import hashlib
import logging
import random
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from governor.adapters.clients import Clients
from governor.adapters.documents import (
    Document,
    approval_document,
    approval_from_document,
    breaker_document,
    breaker_from_document,
    decision_document,
    delivery_document,
    delivery_from_document,
    episode_document,
    episode_from_document,
    first_approval,
    hold_after,
    ledger_document,
    ledger_from_document,
    meter_document,
    meter_from_document,
    moment,
    moment_or_none,
    packed_evidence,
    packed_history,
    packed_observations,
    record_from_document,
    sweep_days_document,
    sweep_days_from_document,
    unpacked_evidence,
    unpacked_history,
    unpacked_observations,
)
from governor.adapters.errors import aws_errors
from governor.domain.approval import Approval, ApprovalStatus, Decision, status_after
from governor.domain.breaker import SweepDay
from governor.domain.cost import Meter, parse_month
from governor.domain.delivery import Delivery
from governor.domain.episode import (
    BreakerState,
    Episode,
    EpisodeRef,
    InstanceRecord,
    Observation,
    Outcome,
    Phase,
)
from governor.domain.instance import Target
from governor.domain.ledger import LedgerEntry
from governor.domain.parts import in_parts
from governor.domain.units import as_utc, iso
from governor.domain.verdict import NO_HOLD
from governor.errors import CloudError, ConflictError, NotFound, Throttled
from governor.ports import StateTable

_log = logging.getLogger(__name__)

_CHUNK_BYTES = 350_000
"""An item may have 400 KB with its names and keys."""
_OBSERVATIONS_FORMAT = 1
_SWEEPS_KEPT = timedelta(days=30)
_DELIVERIES_KEPT = timedelta(days=90)
_OUTBOX_KEPT = timedelta(days=7)
_APPROVALS_KEPT = timedelta(days=400)
_METERS_KEPT = timedelta(days=400)
_OF_A_RECORD = (
    "episodes",
    "exempt_reason",
    "last_outcome",
    "last_started_at",
    "marked_at",
    "open_episode",
    "quiet_until",
    "snoozed_until",
)
"""What an instance record holds beside a warning."""
_TRANSACTION = 100
"""Actions in one. Source: DynamoDB API, TransactWriteItems."""
_ATTEMPTS = 6
"""Of a transaction that met another one on the same item, and of a close that read an older state."""

_Key = tuple[str, str]
_Action = dict[str, Any]


class DynamoStateTable:
    """The port `StateTable`. Safe to use from several processes; no state of its own."""

    def __init__(
        self, clients: Clients, table_name: str, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clients = clients
        self._table = table_name
        self._sleep = sleep

    # the sweep's memory

    def observations(self, target: Target) -> dict[str, Observation]:
        """As the port says. What another version packed, or a half-written set, counts as never seen."""
        items = list(self._query(_target_pk(target), "OBSERVATIONS#"))
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
        """As the port says."""
        data = packed_observations(observations)
        parts = [data[start : start + _CHUNK_BYTES] for start in range(0, len(data), _CHUNK_BYTES)]
        # Two sweeps at once may interleave their chunks; the version tells the reader.
        version = f"{moment(at)}#{random.getrandbits(64):016x}"
        for number, part in enumerate(parts):
            self._put(
                _chunk_key(target, number),
                {
                    "data": part,
                    "version": version,
                    "chunks": len(parts),
                    "format": _OBSERVATIONS_FORMAT,
                    "at": moment(at),
                },
            )
        for stale in self._query(
            _target_pk(target), "OBSERVATIONS#", after=_chunk_key(target, len(parts) - 1)[1]
        ):
            self._delete((stale["pk"], stale["sk"]))

    def records(self, target: Target) -> dict[str, InstanceRecord]:
        """As the port says."""
        found = {}
        for item in self._query(_target_pk(target), "INSTANCE#"):
            instance_id = item["sk"].partition("#")[2]
            try:
                with _readable(item["pk"], item["sk"]):
                    found[instance_id] = record_from_document(target, instance_id, item)
            except CloudError as error:
                # One damaged record must not end the sweep of all others; nothing follows from it either.
                found[instance_id] = InstanceRecord(target, instance_id, problem=str(error))
        return found

    def record(self, target: Target, instance_id: str) -> InstanceRecord:
        """As the port says."""
        key = _record_key(target, instance_id)
        with _readable(*key):
            return record_from_document(target, instance_id, self._get(key) or {})

    def set_marked(self, target: Target, instance_id: str, at: datetime | None) -> None:
        """As the port says."""
        key = _record_key(target, instance_id)
        if at is None:
            self._remove_from_record(key, "marked_at")
        else:
            self._update(key, {"marked_at": moment(at)})

    def note_started(self, target: Target, instance_id: str, at: datetime) -> None:
        """As the port says."""
        try:
            self._update(
                _record_key(target, instance_id),
                {"last_started_at": moment(at)},
                condition="attribute_exists(pk) AND"
                " (attribute_not_exists(last_started_at) OR last_started_at < :last_started_at)",
            )
        except ConflictError:
            return  # no record, or a later start is noted

    def note_warned(self, target: Target, until: Mapping[str, datetime]) -> None:
        """As the port says."""
        actions = [
            self._change(_record_key(target, instance_id), {"warned_until": moment(at)})
            for instance_id, at in until.items()
        ]
        for part in in_parts(actions, _TRANSACTION):
            self._transact(part)

    def drop_warning(self, target: Target, instance_id: str, now: datetime) -> None:
        """As the port says."""
        nothing_else = " AND ".join(f"attribute_not_exists({name})" for name in _OF_A_RECORD)
        deletion = self._deletion(
            _record_key(target, instance_id),
            f"warned_until <= :now AND {nothing_else}",
            {":now": moment(now)},
        )
        self._wins([deletion])

    def snooze(self, target: Target, instance_id: str, until: datetime) -> None:
        """As the port says."""
        self._update(_record_key(target, instance_id), {"snoozed_until": moment(until)})

    def clear_quiet(self, target: Target, instance_id: str) -> None:
        """As the port says."""
        self._remove_from_record(_record_key(target, instance_id), "quiet_until", "quiet_launch_time")

    def _remove_from_record(self, key: _Key, *attributes: str) -> None:
        try:
            self._update(key, {}, remove=attributes, condition="attribute_exists(pk)")
        except ConflictError:
            return  # no record, so nothing to remove

    def sweep_days(self, target: Target) -> tuple[SweepDay, ...]:
        """As the port says."""
        key = (_target_pk(target), "SWEEP-DAYS")
        item = self._get(key)
        if item is None:
            return ()
        with _readable(*key):
            return sweep_days_from_document(item)

    def set_sweep_days(self, target: Target, days: Sequence[SweepDay]) -> None:
        """As the port says."""
        self._put((_target_pk(target), "SWEEP-DAYS"), sweep_days_document(days))

    def breaker(self, target: Target) -> BreakerState | None:
        """As the port says."""
        key = (_target_pk(target), "BREAKER")
        item = self._get(key)
        if item is None:
            return None
        with _readable(*key):
            return breaker_from_document(item)

    def set_breaker(self, target: Target, state: BreakerState | None) -> bool:
        """As the port says. One that is tripped already takes the new time and reason; that is no change."""
        key = (_target_pk(target), "BREAKER")
        if state is None:
            # Read first: nearly every sweep finds it closed, and a read costs less than a write.
            return self._get(key) is not None and self._wins([self._deletion(key, "attribute_exists(pk)")])
        document = breaker_document(state)
        if self._wins([self._insertion(key, document)]):
            return True
        self._put(key, document)
        return False

    def save_sweep(self, target: Target, at: datetime, counts: Mapping[str, int]) -> None:
        """As the port says. Kept for 30 days."""
        document = {"at": moment(at), "counts": dict(counts), "expires_at_epoch": _epoch(at + _SWEEPS_KEPT)}
        self._put((_target_pk(target), f"SWEEP#{iso(at)}"), document)

    # episodes

    def take_lock(self, ref: EpisodeRef) -> bool:
        """As the port says."""
        key = _record_key(ref.target, ref.instance_id)
        try:
            self._update(
                key,
                {"open_episode": ref.execution_name, "episodes": ref.number},
                condition="attribute_not_exists(open_episode)"
                " AND (attribute_not_exists(episodes) OR episodes < :episodes)",
            )
        except ConflictError:
            held = (self._get(key) or {}).get("open_episode")
            return bool(held == ref.execution_name)
        return True

    def save_opened(self, episode: Episode) -> Episode:
        """As the port says."""
        approval = first_approval(episode)
        item = {
            **episode_document(episode),
            "evidence": packed_evidence(episode.evidence),
            "history": packed_history(episode.history),
        }
        request = {
            **approval_document(approval),
            "expires_at_epoch": _epoch(approval.created_at + _APPROVALS_KEPT),
        }
        try:
            self._transact(
                [
                    self._insertion(_episode_key(episode.ref), item),
                    self._insertion(_approval_key(episode.approval_id), request),
                    self._check(
                        _record_key(episode.ref.target, episode.ref.instance_id),
                        "open_episode = :name",
                        {":name": episode.ref.execution_name},
                    ),
                ]
            )
        except ConflictError:
            stored = self.episode(episode.ref)
            if stored is None:
                raise
            return stored
        return episode

    def episode(self, ref: EpisodeRef) -> Episode | None:
        """As the port says."""
        key = _episode_key(ref)
        item = self._get(key)
        if item is None:
            return None
        with _readable(*key):
            evidence, history = unpacked_evidence(item["evidence"]), unpacked_history(item.get("history"))
            return episode_from_document(item, evidence, history)

    def clear_step(self, ref: EpisodeRef, step: str, at: datetime) -> None:
        """As the port says."""
        self._update(
            _episode_key(ref),
            {
                "phase": Phase.ACTING.value,
                "phase_since": moment(at),
                "cleared_step": step,
                "cleared_at": moment(at),
            },
            condition="attribute_exists(pk) AND #phase <> :closed",
            values={":closed": Phase.CLOSED.value},
        )

    def set_snapshots(self, ref: EpisodeRef, snapshots: Mapping[str, str]) -> None:
        """As the port says."""
        self._update(_episode_key(ref), {"snapshots": dict(snapshots)}, condition="attribute_exists(pk)")

    def note_told(self, ref: EpisodeRef, at: datetime) -> None:
        """As the port says."""
        self._update(_episode_key(ref), {"outcome_told_at": moment(at)}, condition="attribute_exists(pk)")

    def note_undo(self, ref: EpisodeRef, by: str, at: datetime) -> bool:
        """As the port says."""
        key = _episode_key(ref)
        try:
            self._update(
                key,
                {"undone_at": moment(at), "undone_by": by},
                condition="#phase = :closed AND (attribute_not_exists(undone_at) OR undone_at = :none)",
                names={"#phase": "phase"},
                values={":closed": Phase.CLOSED.value, ":none": None},
            )
        except ConflictError:
            if (self._get(key) or {}).get("undone_at") is None:
                raise
            return False
        return True

    def note_step(self, ref: EpisodeRef, step: str, at: datetime) -> None:
        """As the port says."""
        with aws_errors("dynamodb:UpdateItem"):
            self._client.update_item(
                TableName=self._table,
                Key=_packed_key(_episode_key(ref)),
                UpdateExpression="SET steps_done.#step = if_not_exists(steps_done.#step, :at)",
                # Last barrier before EC2 is called: a late invocation finds its episode closed.
                ConditionExpression="attribute_exists(pk) AND #phase <> :closed",
                ExpressionAttributeNames={"#step": step, "#phase": "phase"},
                ExpressionAttributeValues=_packed({":at": moment(at), ":closed": Phase.CLOSED.value}),
            )

    def close_episode(
        self,
        ref: EpisodeRef,
        outcome: Outcome,
        reason: str,
        at: datetime,
        *,
        quiet_until: datetime | None,
        ledger: LedgerEntry | None,
    ) -> bool:
        """As the port says."""
        for _ in range(_ATTEMPTS):
            stored = self._get(_episode_key(ref))
            held = (self._get(_record_key(ref.target, ref.instance_id)) or {}).get("open_episode")
            if stored is None and held != ref.execution_name:
                return False
            if stored is not None and stored["phase"] == Phase.CLOSED.value:
                return False
            actions = [self._closing(ref, stored, outcome, reason, at, ledger)]
            if held == ref.execution_name:
                actions.append(self._freeing(ref, outcome, quiet_until))
            if ledger is not None:
                actions += self._booking(ledger)
            if self._wins(actions):
                return True
        raise ConflictError(f"episode {ref.execution_name} kept changing while it was closed")

    def _closing(
        self,
        ref: EpisodeRef,
        stored: Document | None,
        outcome: Outcome,
        reason: str,
        at: datetime,
        ledger: LedgerEntry | None,
    ) -> _Action:
        if stored is None:
            # Freeing the lock is the whole close; but not of an episode that is being saved this moment.
            return self._check(_episode_key(ref), "attribute_not_exists(pk)", {})
        return self._change(
            _episode_key(ref),
            {
                "phase": Phase.CLOSED.value,
                "phase_since": moment(at),
                "closed_at": moment(at),
                "outcome": outcome.value,
                "outcome_reason": reason,
                "became": _became(ledger),
            },
            condition="attribute_exists(pk) AND #phase <> :phase",
        )

    def _freeing(self, ref: EpisodeRef, outcome: Outcome, quiet_until: datetime | None) -> _Action:
        values: Document = {"last_outcome": outcome.value}
        remove = ["open_episode"]
        if quiet_until is None:
            remove += ["quiet_until", "quiet_launch_time"]
        else:
            values |= {"quiet_until": moment(quiet_until), "quiet_launch_time": moment(ref.launch_time)}
        return self._change(
            _record_key(ref.target, ref.instance_id),
            values,
            remove=remove,
            condition="open_episode = :name",
            values={":name": ref.execution_name},
        )

    def _booking(self, entry: LedgerEntry) -> list[_Action]:
        document = ledger_document(entry)
        booked = [self._insertion(_ledger_key(entry), document)]
        if entry.ended_at is None:
            booked.append(self._insertion(_open_ledger_key(entry), document))
        return booked

    # approvals

    def approval(self, approval_id: str) -> Approval | None:
        """As the port says."""
        item = self._get(_approval_key(approval_id))
        return None if item is None else _approval(item)

    def await_answer(
        self, approval_id: str, task_token: str | None, stage: str, expires_at: datetime
    ) -> Approval:
        """As the port says."""
        try:
            item = self._update(
                _approval_key(approval_id),
                {"task_token": task_token, "stage": stage, "expires_at": moment(expires_at)},
                condition="#status = :pending",
                names={"#status": "status"},
                values={":pending": ApprovalStatus.PENDING.value},
            )
        except ConflictError:
            return self._existing_approval(approval_id)
        return _approval(item)

    def note_first_yes(self, approval_id: str, decision: Decision) -> Approval:
        """As the port says."""
        try:
            item = self._update(
                _approval_key(approval_id),
                {"first_yes": decision_document(decision)},
                condition="#status = :pending AND (attribute_not_exists(first_yes) OR first_yes = :nobody)",
                names={"#status": "status"},
                values={":pending": ApprovalStatus.PENDING.value, ":nobody": None},
            )
        except ConflictError:
            return self._existing_approval(approval_id)
        return _approval(item)

    def settle(self, approval_id: str, decision: Decision, hold_until: datetime | None) -> Approval:
        """As the port says."""
        approval = self._pending(approval_id)
        changes = {"status": status_after(decision.answer).value, "decision": decision_document(decision)}
        actions = [self._deciding(approval_id, changes)]
        hold = hold_after(NO_HOLD, decision, hold_until)
        if hold != NO_HOLD:
            standing = {
                "snoozed_until": moment_or_none(hold.snoozed_until),
                "exempt_reason": hold.exempt_reason,
            }
            key = _record_key(approval.episode.target, approval.episode.instance_id)
            actions.append(self._change(key, {name: v for name, v in standing.items() if v is not None}))
        self._transact(actions)
        return self._existing_approval(approval_id)

    def void(self, approval_id: str, reason: str, *, expired: bool, outcome: str = "void") -> Approval:
        """As the port says."""
        self._pending(approval_id)
        status = ApprovalStatus.EXPIRED if expired else ApprovalStatus.VOID
        changes = {
            "status": status.value,
            "void_reason": reason,
            "void_outcome": outcome,
        }
        self._transact([self._deciding(approval_id, changes)])
        return self._existing_approval(approval_id)

    def _deciding(self, approval_id: str, changes: Document) -> _Action:
        return self._change(
            _approval_key(approval_id),
            changes,
            condition="#status = :pending",
            values={":pending": ApprovalStatus.PENDING.value},
        )

    def _pending(self, approval_id: str) -> Approval:
        """The approval, read before it is decided: spares a transaction that must fail.

        Raises:
            ConflictError: it is no longer pending.
            NotFound: there is none.
        """
        approval = self._existing_approval(approval_id)
        if approval.status is not ApprovalStatus.PENDING:
            raise ConflictError(f"approval {approval_id} is {approval.status.value} already")
        return approval

    def _existing_approval(self, approval_id: str) -> Approval:
        approval = self.approval(approval_id)
        if approval is None:
            raise NotFound(f"there is no approval {approval_id}", operation="dynamodb:GetItem")
        return approval

    # ledger

    def open_entries(self, target: Target, instance_id: str) -> list[LedgerEntry]:
        """As the port says, oldest episode first."""
        return self._entries(_target_pk(target), f"OPENLEDGER#{instance_id}#")

    def settle_entry(self, entry: LedgerEntry, ended_at: datetime, *, false_stop: bool) -> bool:
        """As the port says."""
        return self._wins(
            [
                self._deletion(_open_ledger_key(entry), "attribute_exists(pk)"),
                self._change(
                    _ledger_key(entry),
                    {"ended_at": moment(ended_at), "false_stop": false_stop},
                    condition="attribute_exists(pk)",
                ),
            ]
        )

    def entries(self, month: str) -> list[LedgerEntry]:
        """As the port says, in the order of booking."""
        return self._entries(f"LEDGER#{month}", "")

    def _entries(self, pk: str, prefix: str) -> list[LedgerEntry]:
        found = []
        for item in self._query(pk, prefix):
            with _readable(item["pk"], item["sk"]):
                found.append(ledger_from_document(item))
        return found

    # costs

    def meter(self, target: Target, month: str) -> Meter | None:
        """As the port says."""
        key = _meter_key(target, month)
        item = self._get(key)
        if item is None:
            return None
        with _readable(*key):
            return meter_from_document(item)

    def bring_forward(self, meter: Meter, seen: Meter | None) -> bool:
        """As the port says."""
        document = {
            **meter_document(meter),
            "expires_at_epoch": _epoch(parse_month(meter.month) + _METERS_KEPT),
        }
        key = _meter_key(meter.target, meter.month)
        if seen is None:
            return self._wins([self._insertion(key, document)])
        unchanged = {":seen": moment(seen.counted_until)}
        return self._wins(
            [self._insertion(key, document, condition="counted_until = :seen", values=unchanged)]
        )

    def meters(self, month: str) -> list[Meter]:
        """As the port says, by account and Region."""
        found = []
        for item in self._query(f"COST#{month}", ""):
            with _readable(item["pk"], item["sk"]):
                found.append(meter_from_document(item))
        return found

    def keep_policy(self, text: str, at: datetime) -> None:
        """As the port says."""
        self._put(("POLICY", "ACCEPTED"), {"text": text, "at": moment(at)})

    def kept_policy(self) -> str | None:
        """As the port says."""
        item = self._get(("POLICY", "ACCEPTED"))
        return str(item["text"]) if item else None

    def deliveries(self, subject: str) -> list[Delivery]:
        """As the port says."""
        found = []
        for item in self._query(f"DELIVERIES#{subject}", ""):
            with _readable(item["pk"], item["sk"]):
                found.append(delivery_from_document(item))
        return found

    def claim_delivery(self, claim: Delivery, now: datetime) -> bool:
        """As the port says."""
        return self._wins(
            [
                self._insertion(
                    _delivery_key(claim),
                    _delivery_item(claim),
                    # Text in UTC compares like the times; of a settled one it is no text.
                    condition="attribute_not_exists(pk) OR given_up = :yes"
                    " OR (attribute_type(not_before, :text) AND not_before <= :now)",
                    values={":text": "S", ":now": moment(now), ":yes": True},
                )
            ]
        )

    def note_delivery(self, delivery: Delivery) -> None:
        """As the port says."""
        self._put(_delivery_key(delivery), _delivery_item(delivery))

    def put_outbox(self, group: str, message: str, document: str, at: datetime) -> None:
        """As the port says."""
        self._put(
            (f"OUTBOX#{group}", message),
            {"document": document, "expires_at_epoch": _epoch(at + _OUTBOX_KEPT)},
        )

    def outbox(self, group: str) -> list[tuple[str, str]]:
        """As the port says."""
        return [(item["sk"], item["document"]) for item in self._query(f"OUTBOX#{group}", "")]

    def drop_outbox(self, group: str, message: str) -> None:
        """As the port says."""
        self._delete((f"OUTBOX#{group}", message))

    def take_lease(self, name: str, now: datetime, seconds: int) -> bool:
        """As the port says."""
        return self._wins(
            [
                self._insertion(
                    (f"LEASE#{name}", "LEASE"),
                    {"expires_at_epoch": _epoch(now + timedelta(seconds=seconds))},
                    condition="attribute_not_exists(pk) OR expires_at_epoch <= :now",
                    values={":now": _epoch(now)},
                )
            ]
        )

    def end_lease(self, name: str) -> None:
        """As the port says."""
        self._delete((f"LEASE#{name}", "LEASE"))

    def put_digest(self, digest_id: str, approval_ids: Sequence[str], at: datetime) -> None:
        """As the port says."""
        document = {"approval_ids": list(approval_ids), "expires_at_epoch": _epoch(at + _DELIVERIES_KEPT)}
        self._put((f"DIGEST#{digest_id}", "DIGEST"), document)

    def digest(self, digest_id: str) -> tuple[str, ...]:
        """As the port says."""
        item = self._get((f"DIGEST#{digest_id}", "DIGEST"))
        return tuple(item["approval_ids"]) if item else ()

    # calls

    @property
    def _client(self) -> Any:
        return self._clients.client("dynamodb")

    def _get(self, key: _Key) -> Document | None:
        with aws_errors("dynamodb:GetItem"):
            answer = self._client.get_item(TableName=self._table, Key=_packed_key(key), ConsistentRead=True)
        item = answer.get("Item")
        return _unpacked(item) if item else None

    def _query(self, pk: str, prefix: str, *, after: str | None = None) -> Iterator[Document]:
        """All items of a partition whose sort key begins with the prefix, in order; `after` starts later."""
        values = {":pk": pk}
        condition = "pk = :pk"
        if prefix:
            condition += " AND begins_with(sk, :prefix)"
            values[":prefix"] = prefix
        parameters: dict[str, Any] = {
            "TableName": self._table,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": _packed(values),
            "ConsistentRead": True,
        }
        if after is not None:
            parameters["ExclusiveStartKey"] = _packed_key((pk, after))
        while True:
            with aws_errors("dynamodb:Query"):
                page = self._client.query(**parameters)
            yield from (_unpacked(item) for item in page["Items"])
            if not page.get("LastEvaluatedKey"):
                return
            parameters["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def _put(self, key: _Key, document: Document) -> None:
        with aws_errors("dynamodb:PutItem"):
            self._client.put_item(TableName=self._table, Item=_packed_item(key, document))

    def _delete(self, key: _Key) -> None:
        with aws_errors("dynamodb:DeleteItem"):
            self._client.delete_item(TableName=self._table, Key=_packed_key(key))

    def _update(
        self,
        key: _Key,
        changes: Document,
        *,
        remove: Sequence[str] = (),
        condition: str | None = None,
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> Document:
        action = self._change(key, changes, remove=remove, condition=condition, names=names, values=values)
        with aws_errors("dynamodb:UpdateItem"):
            answer = self._client.update_item(**action["Update"], ReturnValues="ALL_NEW")
        return _unpacked(answer.get("Attributes") or {})

    def _wins(self, actions: Sequence[_Action]) -> bool:
        """Whether the conditions of this transaction held."""
        try:
            self._transact(actions)
        except ConflictError:
            return False
        return True

    def _transact(self, actions: Sequence[_Action]) -> None:
        """All or nothing. botocore gives each call a token, so that its own retries count once.

        Raises:
            ConflictError: a condition did not hold.
            Throttled: other transactions held the items for all attempts.
        """
        for attempt in range(_ATTEMPTS):
            try:
                with aws_errors("dynamodb:TransactWriteItems"):
                    self._client.transact_write_items(TransactItems=list(actions))
            except Throttled as error:
                if error.code != "TransactionCanceledException" or attempt == _ATTEMPTS - 1:
                    raise
                self._sleep(0.05 * 2**attempt * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
            else:
                return

    # parts of transactions

    def _insertion(
        self,
        key: _Key,
        document: Document,
        *,
        condition: str = "attribute_not_exists(pk)",
        values: Mapping[str, Any] | None = None,
    ) -> _Action:
        put: dict[str, Any] = {
            "TableName": self._table,
            "Item": _packed_item(key, document),
            "ConditionExpression": condition,
        }
        if values:
            put["ExpressionAttributeValues"] = _packed(values)
        return {"Put": put}

    def _deletion(self, key: _Key, condition: str, values: Mapping[str, Any] | None = None) -> _Action:
        return {"Delete": self._conditional(key, condition, values)}

    def _check(self, key: _Key, condition: str, values: Mapping[str, Any]) -> _Action:
        return {"ConditionCheck": self._conditional(key, condition, values)}

    def _conditional(self, key: _Key, condition: str, values: Mapping[str, Any] | None) -> dict[str, Any]:
        """What is done to an item, or asked of it, under a condition and nothing else."""
        action: dict[str, Any] = {
            "TableName": self._table,
            "Key": _packed_key(key),
            "ConditionExpression": condition,
        }
        if values:
            action["ExpressionAttributeValues"] = _packed(values)
        return action

    def _change(
        self,
        key: _Key,
        changes: Document,
        *,
        remove: Sequence[str] = (),
        condition: str | None = None,
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> _Action:
        """An update; expressions name every attribute `#attribute` and its new value `:attribute`."""
        attributes = {f"#{name}": name for name in (*changes, *remove)} | dict(names or {})
        given = {f":{name}": value for name, value in changes.items()} | dict(values or {})
        sets = ", ".join(f"#{name} = :{name}" for name in changes)
        removes = ", ".join(f"#{name}" for name in remove)
        expression = " ".join(
            part for part in (f"SET {sets}" if sets else "", f"REMOVE {removes}" if removes else "") if part
        )
        update: dict[str, Any] = {
            "TableName": self._table,
            "Key": _packed_key(key),
            "UpdateExpression": expression,
            "ExpressionAttributeNames": attributes,
        }
        if given:
            update["ExpressionAttributeValues"] = _packed(given)
        if condition:
            update["ConditionExpression"] = condition
        return {"Update": update}


def _became(ledger: LedgerEntry | None) -> str | None:
    return ledger.outcome.value if ledger is not None and ledger.ours else None


# keys


def _delivery_key(delivery: Delivery) -> _Key:
    # A target may be an address: hashed, so that it fits the key and stands in one place only.
    target = hashlib.sha256(delivery.target.encode()).hexdigest()[:16]
    return f"DELIVERIES#{delivery.subject}", f"{delivery.message}#{delivery.channel}#{target}"


def _delivery_item(delivery: Delivery) -> Document:
    return {**delivery_document(delivery), "expires_at_epoch": _epoch(delivery.at + _DELIVERIES_KEPT)}


def _target_pk(target: Target) -> str:
    return f"TARGET#{target.account}#{target.region}"


def _chunk_key(target: Target, number: int) -> _Key:
    return _target_pk(target), f"OBSERVATIONS#{number:03d}"


def _record_key(target: Target, instance_id: str) -> _Key:
    return _target_pk(target), f"INSTANCE#{instance_id}"


def _episode_key(ref: EpisodeRef) -> _Key:
    return f"EPISODE#{ref.execution_name}", "EPISODE"


def _approval_key(approval_id: str) -> _Key:
    return f"APPROVAL#{approval_id}", "REQUEST"


def _ledger_key(entry: LedgerEntry) -> _Key:
    at = as_utc(entry.booked_at)
    return f"LEDGER#{at:%Y-%m}", f"{iso(at)}#{entry.episode.execution_name}"


def _open_ledger_key(entry: LedgerEntry) -> _Key:
    ref = entry.episode
    return _target_pk(ref.target), f"OPENLEDGER#{ref.instance_id}#{ref.execution_name}"


def _meter_key(target: Target, month: str) -> _Key:
    return f"COST#{month}", f"{target.account}#{target.region}"


def _epoch(at: datetime) -> int:
    return int(at.timestamp())


# values


def _packed(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _pack(value) for name, value in document.items()}


def _packed_key(key: _Key) -> dict[str, Any]:
    return _packed({"pk": key[0], "sk": key[1]})


def _packed_item(key: _Key, document: Mapping[str, Any]) -> dict[str, Any]:
    return _packed({**document, "pk": key[0], "sk": key[1]})


def _unpacked(item: Mapping[str, Any]) -> Document:
    return {name: _unpack(value) for name, value in item.items()}


def _pack(value: object) -> dict[str, Any]:
    """A value as DynamoDB writes it. Floats are refused: what is measured is packed, what is paid is text."""
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": value}
        case int():
            return {"N": str(value)}
        case bytes():
            return {"B": value}
        case list() | tuple():
            return {"L": [_pack(part) for part in value]}
        case dict():
            return {"M": _packed(value)}
        case _:
            raise TypeError(f"{type(value).__name__} is not written to the state table")


def _unpack(value: Mapping[str, Any]) -> Any:
    (kind, inner), *_ = value.items()
    match kind:
        case "NULL":
            return None
        case "N":
            return int(inner)
        case "L":
            return [_unpack(part) for part in inner]
        case "M":
            return _unpacked(inner)
        case "B":
            return bytes(inner)
        case _:
            return inner


def _approval(item: Document) -> Approval:
    with _readable(item["pk"], item["sk"]):
        return approval_from_document(item)


@contextmanager
def _readable(pk: str, sk: str) -> Iterator[None]:
    """Names the item that cannot be read.

    Raises:
        CloudError: in place of what a document's reader raises.
    """
    try:
        yield
    except (KeyError, ValueError, TypeError, ArithmeticError, zlib.error) as error:
        raise CloudError(
            f"the item {pk} / {sk} cannot be read: {error!r}", operation="dynamodb:GetItem"
        ) from error


def _conforms(table: DynamoStateTable) -> StateTable:
    """Lets the type checker compare the class with its port."""
    return table
