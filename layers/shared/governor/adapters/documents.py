"""How the state table's records are written down: plain JSON data in, domain records out.

Readers take what they know and ignore the rest, so that an older version can read what a newer one wrote.
Amounts are decimal text, moments ISO 8601 text in UTC: neither passes through a float. Written by hand and
without pydantic, which every function that touches the table would pay for at its cold start. This module
must not know DynamoDB or boto3.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, assert_never

from governor.domain.approval import Answer, Approval, ApprovalStatus, Decision
from governor.domain.breaker import SweepDay
from governor.domain.cost import Meter
from governor.domain.delivery import Delivery
from governor.domain.episode import (
    BreakerState,
    Episode,
    InstanceRecord,
    Observation,
    Outcome,
    Phase,
    Terms,
    episode_from_execution_name,
)
from governor.domain.evidence import Evidence, evidence_document, evidence_from_document
from governor.domain.history import History, history_document, history_from_document
from governor.domain.instance import Instance, LaunchFacts, Lifecycle, Target, Volume
from governor.domain.ledger import LedgerEntry
from governor.domain.plan import Plan, Price, Saving, Step
from governor.domain.policy import Action, Mode
from governor.domain.schedule import Schedule
from governor.domain.units import as_utc, parse_iso
from governor.domain.verdict import Hold
from governor.errors import DecisionRefused

Document = dict[str, Any]
_Pair = tuple[str, str]
_SLICE_BYTES = 8_192


def moment(value: datetime) -> str:
    """A moment without loss: `units.iso` would cut it to the second."""
    return as_utc(value).isoformat()


def moment_or_none(value: datetime | None) -> str | None:
    """As `moment`."""
    return None if value is None else moment(value)


def _parsed(text: str | None) -> datetime | None:
    return None if text is None else parse_iso(text)


def _amount(value: Decimal | None) -> str | None:
    return None if value is None else str(value)


def _amounts(values: Mapping[str, Decimal]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}


def _decimals(texts: Mapping[str, str]) -> dict[str, Decimal]:
    return {name: Decimal(text) for name, text in texts.items()}


def _decimal(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


# episodes


def episode_document(episode: Episode) -> Document:
    """All of an episode but its evidence and history, which are packed by themselves."""
    return {
        "execution_name": episode.ref.execution_name,
        "phase": episode.phase.value,
        "phase_since": moment_or_none(episode.phase_since),
        "cleared_step": episode.cleared_step,
        "cleared_at": moment_or_none(episode.cleared_at),
        "opened_at": moment(episode.opened_at),
        "closed_at": moment_or_none(episode.closed_at),
        "outcome": episode.outcome.value if episode.outcome else None,
        "outcome_reason": episode.outcome_reason,
        "became": episode.became.value if episode.became else None,
        "outcome_told_at": moment_or_none(episode.outcome_told_at),
        "approval_id": episode.approval_id,
        "mode": episode.mode.value,
        "policy_version": episode.policy_version,
        "overrides": list(episode.overrides),
        "instance": _instance_document(episode.instance),
        "reason": episode.reason,
        "evidence_hash": episode.evidence_hash,
        "plan": _plan_document(episode.plan),
        "price": {
            "usd_per_hour": _amount(episode.price.usd_per_hour),
            "source": episode.price.source,
            "as_of": moment_or_none(episode.price.as_of),
        },
        "owner": episode.owner,
        "project": episode.project,
        "keep_at_most_seconds": int(episode.keep_at_most.total_seconds()),
        "idle_below_percent": str(episode.idle_below_percent),
        "broadcast_may": sorted(episode.terms.broadcast_may),
        "people_needed": episode.terms.people_needed,
        "known_people": sorted(episode.terms.known_people),
        "schedule": _schedule_document(episode.schedule) if episode.schedule else None,
        "time_zone": episode.time_zone,
        "acts_on_silence": episode.acts_on_silence,
        "snapshots": dict(episode.snapshots),
        "undone_at": moment_or_none(episode.undone_at),
        "undone_by": episode.undone_by,
        "steps_done": {step: moment(at) for step, at in episode.steps_done.items()},
    }


def episode_from_document(
    document: Mapping[str, Any], evidence: Evidence, history: History | None
) -> Episode:
    """The inverse of `episode_document`.

    Raises:
        KeyError, ValueError, TypeError, ArithmeticError: not an episode's document.
    """
    price = document["price"]
    outcome, schedule = document.get("outcome"), document.get("schedule")
    became = document.get("became")
    return Episode(
        ref=episode_from_execution_name(document["execution_name"]),
        phase=Phase(document["phase"]),
        phase_since=_parsed(document.get("phase_since")),
        cleared_step=document.get("cleared_step"),
        cleared_at=_parsed(document.get("cleared_at")),
        opened_at=parse_iso(document["opened_at"]),
        closed_at=_parsed(document.get("closed_at")),
        outcome=Outcome(outcome) if outcome else None,
        outcome_reason=document.get("outcome_reason"),
        became=Outcome(became) if became else None,
        outcome_told_at=_parsed(document.get("outcome_told_at")),
        approval_id=document["approval_id"],
        mode=Mode(document["mode"]),
        policy_version=document["policy_version"],
        overrides=tuple(document["overrides"]),
        instance=_instance_from_document(document["instance"]),
        reason=document["reason"],
        evidence=evidence,
        evidence_hash=document["evidence_hash"],
        plan=_plan_from_document(document["plan"]),
        price=Price(_decimal(price["usd_per_hour"]), price["source"], _parsed(price.get("as_of"))),
        owner=document["owner"],
        project=document["project"],
        keep_at_most=timedelta(seconds=int(document["keep_at_most_seconds"])),
        history=history,
        idle_below_percent=float(document.get("idle_below_percent", 5.0)),
        terms=Terms(
            broadcast_may=frozenset(document.get("broadcast_may", ("keep", "stop", "undo"))),
            people_needed=int(document.get("people_needed", 1)),
            known_people=frozenset(document.get("known_people", ())),
        ),
        schedule=_schedule_from_document(schedule) if schedule else None,
        time_zone=document.get("time_zone", "UTC"),
        acts_on_silence=bool(document.get("acts_on_silence", False)),
        snapshots=dict(document.get("snapshots") or {}),
        undone_at=_parsed(document.get("undone_at")),
        undone_by=document.get("undone_by"),
        steps_done={step: parse_iso(at) for step, at in (document.get("steps_done") or {}).items()},
    )


def _schedule_document(planned: Schedule) -> Document:
    return {
        "ask_at": moment(planned.ask_at),
        "remind_at": moment(planned.remind_at),
        "escalate_at": moment(planned.escalate_at),
        "expire_at": moment(planned.expire_at),
    }


def _schedule_from_document(document: Mapping[str, str]) -> Schedule:
    return Schedule(
        ask_at=parse_iso(document["ask_at"]),
        remind_at=parse_iso(document["remind_at"]),
        escalate_at=parse_iso(document["escalate_at"]),
        expire_at=parse_iso(document["expire_at"]),
    )


def delivery_document(delivery: Delivery) -> Document:
    """All of a delivery's record."""
    return {
        "subject": delivery.subject,
        "message": delivery.message,
        "channel": delivery.channel,
        "target": delivery.target,
        "at": moment(delivery.at),
        "delivery_id": delivery.delivery_id,
        "thread": delivery.thread,
        "refused": delivery.refused,
        "given_up": delivery.given_up,
        "not_before": moment_or_none(delivery.not_before),
    }


def delivery_from_document(document: Mapping[str, Any]) -> Delivery:
    """The inverse of `delivery_document`. Raises: KeyError, ValueError."""
    return Delivery(
        subject=document["subject"],
        message=document["message"],
        channel=document["channel"],
        target=document["target"],
        at=parse_iso(document["at"]),
        delivery_id=document.get("delivery_id"),
        thread=document.get("thread"),
        refused=document.get("refused"),
        given_up=bool(document.get("given_up")),
        not_before=_parsed(document.get("not_before")),
    )


def packed_evidence(evidence: Evidence) -> bytes:
    """Compressed: a week of eight GPUs by the minute would not fit an item otherwise."""
    return zlib.compress(json.dumps(evidence_document(evidence), separators=(",", ":")).encode())


def unpacked_evidence(data: bytes) -> Evidence:
    """The inverse of `packed_evidence`, to the last digit, so that its hash is the same.

    Raises:
        KeyError, ValueError, zlib.error: not packed evidence.
    """
    return evidence_from_document(json.loads(zlib.decompress(data)))


def packed_history(history: History | None) -> bytes | None:
    """As `packed_evidence`."""
    if history is None:
        return None
    return zlib.compress(json.dumps(history_document(history), separators=(",", ":")).encode())


def unpacked_history(data: bytes | None) -> History | None:
    """The inverse of `packed_history`; `None` also where an older version stored none.

    Raises:
        KeyError, ValueError, zlib.error: not a packed history.
    """
    return None if data is None else history_from_document(json.loads(zlib.decompress(data)))


def _instance_document(instance: Instance) -> Document:
    return {
        "account": instance.target.account,
        "region": instance.target.region,
        "instance_id": instance.instance_id,
        "instance_type": instance.instance_type,
        "state": instance.state,
        "launch_time": moment(instance.launch_time),
        "lifecycle": instance.lifecycle.value,
        "root_device_type": instance.root_device_type,
        "tags": dict(instance.tags),
        "volumes": [
            {
                "volume_id": volume.volume_id,
                "device": volume.device,
                "delete_on_termination": volume.delete_on_termination,
                "size_gib": volume.size_gib,
                "volume_type": volume.volume_type,
            }
            for volume in instance.volumes
        ],
        "availability_zone": instance.availability_zone,
        "platform": instance.platform,
        "public_ip": instance.public_ip,
        "spot_request_id": instance.spot_request_id,
        "capacity_reservation_id": instance.capacity_reservation_id,
        "host_id": instance.host_id,
        "operator_managed": instance.operator_managed,
        "operator_principal": instance.operator_principal,
        "launch": _launch_document(instance.launch) if instance.launch else None,
    }


def _instance_from_document(document: Mapping[str, Any]) -> Instance:
    return Instance(
        target=Target(document["account"], document["region"]),
        instance_id=document["instance_id"],
        instance_type=document["instance_type"],
        state=document["state"],
        launch_time=parse_iso(document["launch_time"]),
        lifecycle=Lifecycle(document["lifecycle"]),
        root_device_type=document["root_device_type"],
        tags=dict(document["tags"]),
        volumes=tuple(
            Volume(
                volume_id=volume["volume_id"],
                device=volume["device"],
                delete_on_termination=volume["delete_on_termination"],
                size_gib=volume.get("size_gib"),
                volume_type=volume.get("volume_type"),
            )
            for volume in document["volumes"]
        ),
        availability_zone=document.get("availability_zone", ""),
        platform=document["platform"],
        public_ip=document.get("public_ip"),
        spot_request_id=document.get("spot_request_id"),
        capacity_reservation_id=document.get("capacity_reservation_id"),
        host_id=document.get("host_id"),
        operator_managed=document["operator_managed"],
        operator_principal=document.get("operator_principal"),
        launch=_launch_from_document(document.get("launch")),
    )


def _launch_document(launch: LaunchFacts) -> Document:
    return {
        "image_id": launch.image_id,
        "subnet_id": launch.subnet_id,
        "security_group_ids": list(launch.security_group_ids),
        "key_name": launch.key_name,
        "instance_profile_arn": launch.instance_profile_arn,
        "private_ip": launch.private_ip,
        "ebs_optimized": launch.ebs_optimized,
    }


def _launch_from_document(document: Mapping[str, Any] | None) -> LaunchFacts | None:
    if document is None:
        return None
    return LaunchFacts(
        image_id=document.get("image_id"),
        subnet_id=document.get("subnet_id"),
        security_group_ids=tuple(document.get("security_group_ids") or ()),
        key_name=document.get("key_name"),
        instance_profile_arn=document.get("instance_profile_arn"),
        private_ip=document.get("private_ip"),
        ebs_optimized=bool(document.get("ebs_optimized")),
    )


def _plan_document(plan: Plan) -> Document:
    return {
        "wanted": plan.wanted.value,
        "action": plan.action.value,
        "steps": [step.value for step in plan.steps],
        "replaced_because": list(plan.replaced_because),
        "losses": list(plan.losses),
        "stays": list(plan.stays),
        "cost_before_usd_per_hour": _amount(plan.saving.cost_before_usd_per_hour),
        "cost_after_usd_per_hour": _amount(plan.saving.cost_after_usd_per_hour),
        "loses_local_disks": plan.loses_local_disks,
    }


def _plan_from_document(document: Mapping[str, Any]) -> Plan:
    return Plan(
        wanted=Action(document["wanted"]),
        action=Action(document["action"]),
        steps=tuple(Step(step) for step in document["steps"]),
        replaced_because=tuple(document["replaced_because"]),
        losses=tuple(document["losses"]),
        stays=tuple(document["stays"]),
        saving=Saving(
            _decimal(document["cost_before_usd_per_hour"]), _decimal(document["cost_after_usd_per_hour"])
        ),
        # Of an episode that was opened before this was recorded: nothing is lost unasked for want of a note.
        loses_local_disks=bool(document.get("loses_local_disks", True)),
    )


# approvals


def first_approval(episode: Episode) -> Approval:
    """The question of a newly opened episode. Nobody can answer it before it was asked.

    `expires_at` is therefore the moment of opening, until `await_answer` sets the real one.
    """
    return Approval(
        approval_id=episode.approval_id,
        episode=episode.ref,
        evidence_hash=episode.evidence_hash,
        status=ApprovalStatus.PENDING,
        created_at=episode.opened_at,
        expires_at=episode.opened_at,
        keep_at_most=episode.keep_at_most,
    )


def approval_document(approval: Approval) -> Document:
    """All of an approval."""
    return {
        "approval_id": approval.approval_id,
        "episode": approval.episode.execution_name,
        "evidence_hash": approval.evidence_hash,
        "status": approval.status.value,
        "created_at": moment(approval.created_at),
        "expires_at": moment(approval.expires_at),
        "keep_at_most_seconds": int(approval.keep_at_most.total_seconds()),
        "task_token": approval.task_token,
        "stage": approval.stage,
        "decision": decision_document(approval.decision) if approval.decision else None,
        "first_yes": decision_document(approval.first_yes) if approval.first_yes else None,
        "void_reason": approval.void_reason,
        "void_outcome": approval.void_outcome,
    }


def approval_from_document(document: Mapping[str, Any]) -> Approval:
    """The inverse of `approval_document`.

    Raises:
        KeyError, ValueError, TypeError: not an approval's document.
    """
    decision, first_yes = document.get("decision"), document.get("first_yes")
    return Approval(
        approval_id=document["approval_id"],
        episode=episode_from_execution_name(document["episode"]),
        evidence_hash=document["evidence_hash"],
        status=ApprovalStatus(document["status"]),
        created_at=parse_iso(document["created_at"]),
        expires_at=parse_iso(document["expires_at"]),
        keep_at_most=timedelta(seconds=int(document["keep_at_most_seconds"])),
        task_token=document.get("task_token"),
        stage=document.get("stage"),
        decision=_decision_from_document(decision) if decision else None,
        first_yes=_decision_from_document(first_yes) if first_yes else None,
        void_reason=document.get("void_reason"),
        void_outcome=document.get("void_outcome"),
    )


def decision_document(decision: Decision) -> Document:
    """Who said what, when and through which channel."""
    return {
        "answer": decision.answer.value,
        "by": decision.by,
        "channel": decision.channel,
        "at": moment(decision.at),
        "keep_until": moment_or_none(decision.keep_until),
        "reason": decision.reason,
        "person": decision.person,
    }


def _decision_from_document(document: Mapping[str, Any]) -> Decision:
    return Decision(
        answer=Answer(document["answer"]),
        by=document["by"],
        channel=document["channel"],
        at=parse_iso(document["at"]),
        keep_until=_parsed(document.get("keep_until")),
        reason=document.get("reason"),
        person=document.get("person"),
    )


def hold_after(hold: Hold, decision: Decision, hold_until: datetime | None) -> Hold:
    """The standing answer about the instance once this decision stands.

    Raises:
        DecisionRefused: a keep without a date or an exemption without a reason, which would hold nothing.
    """
    match decision.answer:
        case Answer.APPROVE:
            return hold
        case Answer.KEEP:
            until = hold_until or decision.keep_until
            if until is None:
                raise DecisionRefused("say until when the instance shall be kept")
            return Hold(snoozed_until=as_utc(until), exempt_reason=hold.exempt_reason)
        case Answer.EXEMPT:
            reason = (decision.reason or "").strip()
            if not reason:
                raise DecisionRefused("an exemption needs a reason")
            return Hold(snoozed_until=hold.snoozed_until, exempt_reason=f"{reason} ({decision.by})")
        case _:
            assert_never(decision.answer)


# instance records, breaker, ledger


def record_from_document(target: Target, instance_id: str, document: Mapping[str, Any]) -> InstanceRecord:
    """The record whose attributes the state table updates one by one.

    Raises:
        KeyError, ValueError, TypeError: not a record's document.
    """
    lock = document.get("open_episode")
    outcome = document.get("last_outcome")
    return InstanceRecord(
        target=Target(target.account, target.region),
        instance_id=instance_id,
        hold=Hold(_parsed(document.get("snoozed_until")), document.get("exempt_reason")),
        episodes=int(document.get("episodes", 0)),
        open_episode=episode_from_execution_name(lock) if lock else None,
        last_outcome=Outcome(outcome) if outcome else None,
        quiet_until=_parsed(document.get("quiet_until")),
        quiet_launch_time=_parsed(document.get("quiet_launch_time")),
        marked_at=_parsed(document.get("marked_at")),
        last_started_at=_parsed(document.get("last_started_at")),
        warned_until=_parsed(document.get("warned_until")),
    )


def sweep_days_document(days: Sequence[SweepDay]) -> Document:
    """What sweeps have seen turning at once, by day."""
    return {"days": {one.day.isoformat(): [one.most_idle, one.most_silent] for one in days}}


def sweep_days_from_document(document: Mapping[str, Any]) -> tuple[SweepDay, ...]:
    """The inverse of `sweep_days_document`.

    Raises:
        KeyError, TypeError, ValueError: not such a document.
    """
    return tuple(
        SweepDay(date.fromisoformat(day), int(most_idle), int(most_silent))
        for day, (most_idle, most_silent) in sorted(document["days"].items())
    )


def breaker_document(state: BreakerState) -> Document:
    """A tripped breaker."""
    return {
        "tripped_at": moment(state.tripped_at),
        "why": state.why,
        "told_at": moment_or_none(state.told_at),
        "turned": state.turned,
        "held": sorted(state.held),
    }


def breaker_from_document(document: Mapping[str, Any]) -> BreakerState:
    """The inverse of `breaker_document`.

    Raises:
        KeyError, ValueError: not a breaker's document.
    """
    return BreakerState(
        tripped_at=parse_iso(document["tripped_at"]),
        why=document["why"],
        told_at=_parsed(document.get("told_at")),
        turned=int(document.get("turned", 0)),
        held=frozenset(document.get("held", ())),
    )


def ledger_document(entry: LedgerEntry) -> Document:
    """One booked action."""
    return {
        "execution_name": entry.episode.execution_name,
        "outcome": entry.outcome.value,
        "instance_type": entry.instance_type,
        "owner": entry.owner,
        "project": entry.project,
        "price_source": entry.price_source,
        "booked_at": moment(entry.booked_at),
        "cost_before_usd_per_hour": _amount(entry.cost_before_usd_per_hour),
        "cost_after_usd_per_hour": _amount(entry.cost_after_usd_per_hour),
        "saved_usd_per_hour": _amount(entry.saved_usd_per_hour),
        "ended_at": moment_or_none(entry.ended_at),
        "false_stop": entry.false_stop,
        "ours": entry.ours,
    }


def ledger_from_document(document: Mapping[str, Any]) -> LedgerEntry:
    """The inverse of `ledger_document`.

    Raises:
        KeyError, ValueError, TypeError, ArithmeticError: not a ledger entry's document.
    """
    return LedgerEntry(
        episode=episode_from_execution_name(document["execution_name"]),
        outcome=Outcome(document["outcome"]),
        instance_type=document["instance_type"],
        owner=document["owner"],
        project=document["project"],
        price_source=document["price_source"],
        booked_at=parse_iso(document["booked_at"]),
        cost_before_usd_per_hour=_decimal(document["cost_before_usd_per_hour"]),
        cost_after_usd_per_hour=_decimal(document["cost_after_usd_per_hour"]),
        saved_usd_per_hour=_decimal(document["saved_usd_per_hour"]),
        ended_at=_parsed(document.get("ended_at")),
        false_stop=bool(document.get("false_stop", False)),
        ours=bool(document.get("ours", True)),
    )


# costs


def meter_document(meter: Meter) -> Document:
    """What one target has cost in one month."""
    return {
        "account": meter.target.account,
        "region": meter.target.region,
        "month": meter.month,
        "counted_until": moment(meter.counted_until),
        "usd": _amounts(meter.usd),
        "unpriced_hours": _amounts(meter.unpriced_hours),
        "usd_per_hour": _amounts(meter.usd_per_hour),
    }


def meter_from_document(document: Mapping[str, Any]) -> Meter:
    """The inverse of `meter_document`.

    Raises:
        KeyError, ValueError, TypeError, ArithmeticError: not a meter's document.
    """
    return Meter(
        target=Target(document["account"], document["region"]),
        month=document["month"],
        counted_until=parse_iso(document["counted_until"]),
        usd=_decimals(document["usd"]),
        unpriced_hours=_decimals(document["unpriced_hours"]),
        usd_per_hour=_decimals(document["usd_per_hour"]),
    )


# observations: thousands at a time, so packed by line


def packed_observations(observations: Mapping[str, Observation]) -> bytes:
    """One JSON line per instance, compressed as a stream: only one line is held as text at a time."""
    packer = zlib.compressobj(level=3)
    parts = [packer.compress(line) for line in _observation_lines(observations)]
    return b"".join((*parts, packer.flush()))


def unpacked_observations(chunks: Iterable[bytes]) -> dict[str, Observation]:
    """The inverse of `packed_observations`.

    Raises:
        KeyError, ValueError, TypeError, zlib.error: not packed observations, or not all of them.
    """
    found: dict[str, Observation] = {}
    # Thousands of series share most of their dimensions; one object for equal pairs saves tens of megabytes.
    shared: dict[_Pair, _Pair] = {}
    for line in _lines(chunks):
        document = json.loads(line)
        found[document["id"]] = _observation(document, shared)
    return found


def _observation_lines(observations: Mapping[str, Observation]) -> Iterator[bytes]:
    for instance_id, seen in observations.items():
        document: Document = {
            "id": instance_id,
            "launch_time": moment(seen.launch_time),
            "verdict": seen.verdict,
            "at": moment(seen.at),
            "reason": seen.reason,
            "policy_version": seen.policy_version,
            "last_busy": moment_or_none(seen.last_busy),
            "source": seen.source,
            "dimensions": seen.dimensions,
            "searched_at": moment_or_none(seen.searched_at),
            "next_gpu_check_at": moment_or_none(seen.next_gpu_check_at),
            "told_silent": seen.told_silent,
            "advice": seen.advice,
            "idle_since": moment_or_none(seen.idle_since),
            "managed_told_at": moment_or_none(seen.managed_told_at),
            "not_before": moment_or_none(seen.not_before),
            "proof_at": moment_or_none(seen.proof_at),
            "last_known": seen.last_known,
            "project": seen.project,
            "usd_per_hour": _amount(seen.usd_per_hour),
        }
        yield json.dumps(document, separators=(",", ":")).encode() + b"\n"


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    unpacker = zlib.decompressobj()
    rest = b""
    for chunk in chunks:
        # In slices: packed observations grow thirtyfold, and a chunk at once would be held three times over.
        for start in range(0, len(chunk), _SLICE_BYTES):
            text = rest + unpacker.decompress(chunk[start : start + _SLICE_BYTES])
            *whole, rest = text.split(b"\n")
            yield from whole
    if rest or not unpacker.eof:
        raise ValueError("the packed observations are cut short")


def _observation(document: Mapping[str, Any], shared: dict[_Pair, _Pair]) -> Observation:
    dimensions = document.get("dimensions")
    return Observation(
        launch_time=parse_iso(document["launch_time"]),
        verdict=document["verdict"],
        at=parse_iso(document["at"]),
        reason=document.get("reason", ""),
        policy_version=document.get("policy_version", ""),
        last_busy=_parsed(document.get("last_busy")),
        source=document.get("source"),
        dimensions=None
        if dimensions is None
        else tuple(
            tuple(shared.setdefault(pair, pair) for pair in map(_pair, series)) for series in dimensions
        ),
        searched_at=_parsed(document.get("searched_at")),
        next_gpu_check_at=_parsed(document.get("next_gpu_check_at")),
        told_silent=bool(document.get("told_silent", False)),
        advice=tuple(document.get("advice") or ()),
        idle_since=_parsed(document.get("idle_since")),
        managed_told_at=_parsed(document.get("managed_told_at")),
        not_before=_parsed(document.get("not_before")),
        proof_at=_parsed(document.get("proof_at")),
        last_known=document.get("last_known"),
        project=document.get("project"),
        usd_per_hour=_decimal(document.get("usd_per_hour")),
    )


def _pair(pair: Sequence[str]) -> _Pair:
    name, value = pair
    return name, value
