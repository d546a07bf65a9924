"""The texts under the seals that allow a step: an opening, an answer, a delivery and an expiry.

Each text names its duty and the episode, so no seal passes for another. This module must not hold a
key, nor trust a record.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum

from governor.alerts.delivery import Delivery
from governor.approvals.model.approval import Approval, Decision, Stage
from governor.approvals.rules.stages import stage_id
from governor.core.episode_ref import EpisodeRef
from governor.core.units import UtcDatetime, as_utc, not_none
from governor.episode.model.episode import Episode, Outcome
from governor.episode.model.plan import Plan

VERSION = 1
"""The version of the texts. Raise it when a stored record gets another text: older seals then count
as missing, and people are asked again. A test compares the texts of this version."""
UNSEALED = "has no seal of this release"
"""Part of the reason of an episode that ended because a record lacked its seal."""
ASKED_BEFORE = f"the question {UNSEALED}: it was asked before an update, and is asked again"
_ASKED_AGAIN = "nothing was done, and people are asked again"
EXPIRY_NOTE = "the note that nobody answered"
OPENING_RECORD = "the record of the episode"
_FOR_LACK_OF_A_SEAL = re.compile(
    rf"(Unsealed: )?({re.escape(ASKED_BEFORE)}"
    rf"|({OPENING_RECORD}|{EXPIRY_NOTE}|the answer of .+) {UNSEALED}: {_ASKED_AGAIN})"
)
"""The whole reason of an episode that ended because a record lacked its seal."""
_COUNTED_STAGES = (Stage.TELL, Stage.ASK, Stage.ESCALATE)
"""The messages by which silence, or a notice, counts."""


class Duty(StrEnum):
    """The purposes of seals. Each has a key of its own."""

    OPENING = "opening"
    ANSWER = "answer"
    DELIVERY = "delivery"
    EXPIRY = "expiry"


SealMaker = Callable[[bytes], str]
"""Signs a text with the key of one duty. Raises: CloudError."""


def sealed(make: SealMaker, text: bytes) -> str:
    """Return the seal of a text as it is stored: the version of the texts, a dot, and the signature
    that `make` returns. Raises: CloudError if `make` cannot sign."""
    return f"{VERSION}.{make(text)}"


def signature_of(seal: str | None) -> str | None:
    """Return the signature of a stored seal, without its version; `None` if there is no seal, or
    one of another version. It checks nothing else."""
    version, _, signature = (seal or "").partition(".")
    if version != str(VERSION):
        return None
    return signature or None


def plan_hash(plan: Plan) -> str:
    """Return the SHA-256 of the whole plan as people saw it (its steps, losses, reasons, saving and
    all else), in 64 hexadecimal digits."""
    return hashlib.sha256(_json(plan)).hexdigest()


def opening_text(episode: Episode) -> bytes:
    """Return the text under the seal of an opening: the mode, the people who decide, the instance
    and the times of the episode."""
    instance = episode.instance
    volumes = {volume.volume_id: volume.delete_on_termination for volume in instance.volumes}
    return _text(
        Duty.OPENING,
        episode,
        {
            "opened_at": episode.opened_at,
            "mode": episode.mode,
            "policy_version": episode.policy_version,
            "overrides": episode.overrides,
            "acts_on_silence": episode.asking.acts_on_silence,
            "terms": episode.terms,
            "schedule": episode.asking.schedule,
            "notice": episode.asking.notice,
            "asked_under": episode.asking.asked_under,
            "price": episode.price,
            "owner": episode.owner,
            "project": episode.project,
            "stopped_in": episode.stopped_by_episode,
            "instance_type": instance.instance_type,
            "volumes": volumes,
        },
    )


def answer_text(episode: Episode, decision: Decision) -> bytes:
    """Return the text under the seal of an answer to the question of this episode. Two people's
    answers are two texts."""
    return _text(
        Duty.ANSWER,
        episode,
        {
            "answer": decision.answer,
            "by": decision.by,
            "person": decision.person,
            "channel": decision.channel,
            "at": decision.at,
        },
    )


def expiry_text(episode: Episode, expires_at: UtcDatetime, expired_at: UtcDatetime) -> bytes:
    """Return the text under the seal of an expiry: nobody answered the question in time."""
    return _text(Duty.EXPIRY, episode, {"expires_at": expires_at, "expired_at": expired_at})


def delivery_text(delivery: Delivery) -> bytes:
    """Return the text under the seal of a delivery, in JSON: all its fields that differ from their
    defaults, except the seal itself, which counts as empty, and the time that its message gives,
    which is only shown."""
    delivered = {**_parts(replace(delivery, stated_until=None)), "seal": None}
    return _json({"duty": Duty.DELIVERY, "version": VERSION, "delivery": delivered})


def counts_for_silence(delivery: Delivery) -> bool:
    """Return whether somebody's time to answer, or to hold the plan, begins with this delivery: it
    reached people, and its message is a notice, a question or an escalation."""
    stages = tuple(f"{stage.value}-" for stage in _COUNTED_STAGES)
    return delivery.reached_people and delivery.message.startswith(stages)


def counted_messages(ref: EpisodeRef) -> tuple[str, ...]:
    """Return the ids of the messages with which the time to answer, or to hold the plan, begins:
    the notice, the question and the escalation."""
    return tuple(stage_id(stage, ref) for stage in _COUNTED_STAGES)


def is_opening_sealed(episode: Episode) -> bool:
    """Return whether the episode has a seal of this version. It does not check the seal: only KMS
    knows whether it is genuine."""
    return signature_of(episode.opening_seal) is not None


def ended_unsealed(episode: Episode) -> bool:
    """Return whether the episode ended only because a record lacked its seal. Its question is then
    asked again."""
    ending = episode.ending
    return ending is not None and is_for_lack_of_a_seal(ending.outcome, ending.reason)


def is_for_lack_of_a_seal(outcome: Outcome, reason: str) -> bool:
    """Return whether an episode with this end ended only because a record lacked its seal. The
    whole reason must be as GPU Governor writes it: a reason that holds a person's words, such as
    that of an exemption, decides nothing."""
    return outcome is Outcome.VOID and _FOR_LACK_OF_A_SEAL.fullmatch(reason) is not None


def answer_of(decision: Decision) -> str:
    """Return the name of an answer in reasons: `the answer of link:alice@example.com`."""
    return f"the answer of {decision.by}"


def unsealed_text(what: str) -> str:
    """Return the reason of an episode that ends because this record lacks its seal. `what` is
    `EXPIRY_NOTE`, `OPENING_RECORD` or an `answer_of` somebody."""
    return f"{what} {UNSEALED}: {_ASKED_AGAIN}"


def given_yeses(approval: Approval) -> tuple[Decision, ...]:
    """Return the decisions that are stored with a question, the first of two approvals first; empty
    if there is none. Call it only for a question that was approved."""
    answers = (approval.first_yes, approval.decision)
    return tuple(not_none(answers))


def _text(duty: Duty, episode: Episode, facts: Mapping[str, object]) -> bytes:
    """Return the text of a duty in JSON: these facts, and those that name the duty, the version of
    the texts, the episode, its question, its evidence and its plan."""
    named = {
        "duty": duty,
        "version": VERSION,
        "episode": episode.ref,
        "approval_id": episode.approval_id,
        "evidence_hash": episode.measurement.evidence_hash,
        "plan_hash": plan_hash(episode.plan),
    }
    return _json({**named, **facts})


def _json(value: object) -> bytes:
    """Return a value as JSON with sorted keys, so that equal values have one text. Raises:
    TypeError for a value that a seal cannot cover: neither plain data nor a record."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":")).encode()


def _plain(value: object) -> object:
    """Return the value as plain data in a form that is the same before and after it was stored.
    Raises: TypeError for a value that is neither plain nor a record."""
    match value:
        case Enum():
            return value.value
        case None | bool() | str():
            return value
        case EpisodeRef():
            return value.execution_name
        case int() | float() | Decimal():
            return _number(value)
        case datetime():
            return as_utc(value).isoformat()
        case timedelta():
            # The table keeps whole seconds.
            return int(value.total_seconds())
        case Mapping() | Set() | Sequence():
            return _plain_collection(value)
    return _plain(_parts(value))


def _plain_collection(
    value: Mapping[object, object] | Set[object] | Sequence[object],
) -> dict[str, object] | list[str] | list[object]:
    """Return a collection as plain data: a mapping with texts as keys, a set as a list of its
    sorted texts, a sequence as a list. Raises: TypeError for a member that is neither plain data
    nor a record."""
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(member) for key, member in value.items()}
    if isinstance(value, Set):
        return sorted(str(_plain(member)) for member in value)
    return [_plain(member) for member in value]


def _number(number: float | Decimal) -> str:
    """Return a number as text. A float of a whole number is written without a fraction: `5` for
    5.0."""
    if isinstance(number, float) and number.is_integer():
        return str(int(number))
    return str(number)


def _parts(record: object) -> Mapping[str, object]:
    """Return the fields of a record that differ from their defaults, by name.

    A field that is added later has its default in older records, so their text stays the same.
    Raises: TypeError for anything but a record.
    """
    if not is_dataclass(record) or isinstance(record, type):
        raise TypeError(f"{type(record).__name__} has no form that a seal could cover")
    parts = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if value != _default_of(field):
            parts[field.name] = value
    return parts


def _default_of(field: Field[object]) -> object:
    """Return the default of a field; `MISSING` if it has none."""
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default
