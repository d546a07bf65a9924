"""The events of AWS: of EventBridge, of a queue, of the table's stream and of a rotation of
keys."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, Literal

from pydantic import AliasPath, BeforeValidator, Field

from governor.contracts.parsing import REGION, AccountId, Event, InstanceId, Moment, Region, parse
from governor.domain.alerts.alert import Queued
from governor.domain.audit import Change
from governor.domain.events.interruption import Cause, LifecycleAction, Warned
from governor.domain.events.notice import BlockChange, Notice, ScheduledChange
from governor.domain.units import UtcDatetime, as_utc, parse_iso, printable
from governor.errors import InputError
from governor.usecases.approvals.rotate_keys import RotationStep

_YEARS = range(2006, 3000)
"""EC2 began in 2006. Nothing can be counted from dates at the ends of the calendar."""
_ACTION_CHARACTERS = 64
_INSTANCE_ID = r"\bi-(?:[0-9a-f]{17}|[0-9a-f]{8})\b"
_KNOWN_BLOCK_EVENT = r"^Capacity Block .*(Delivered|Expiration Warning)$"


def detail(*path: str, **more: Any) -> Any:
    return Field(validation_alias=AliasPath("detail", *path), **more)


def moment(text: object) -> UtcDatetime:
    """Return a moment in ISO 8601 or RFC 1123. Raises: ValueError, also for a year like 9999."""
    try:
        found = parse_iso(str(text))
    except ValueError:
        try:
            found = as_utc(parsedate_to_datetime(str(text)))
        except OverflowError as error:
            raise ValueError(f"{text}: no such year") from error
    if found.year not in _YEARS:
        raise ValueError(f"{text}: no such year in an announcement")
    return found


def _moment_or_none(text: object) -> UtcDatetime | None:
    """As `moment`; `None` for another form, since no event is refused for its date."""
    try:
        return moment(text) if text else None
    except ValueError:
        return None


def _action_or_none(said: object) -> str | None:
    return (printable(said)[:_ACTION_CHARACTERS] or None) if isinstance(said, str) else None


_MaybeMoment = Annotated[UtcDatetime | None, BeforeValidator(_moment_or_none)]


class Envelope(Event):
    """A Spot warning's ARN names no account, so it is taken from here. `to_domain` returns the
    event."""

    id: str = Field(min_length=1)
    account: AccountId
    region: Region
    time: Moment


class _InstanceEvent(Envelope):
    instance_id: InstanceId = detail("instance-id")

    def _warned(self, cause: Cause, **more: Any) -> Warned:
        return Warned(
            self.id, self.account, self.region, self.instance_id, cause, self.time, **more
        )


class StateChangeEvent(_InstanceEvent):
    """`EC2 Instance State-change Notification`."""

    state: Literal["pending", "running", "stopping", "stopped", "shutting-down", "terminated"] = (
        detail("state")
    )


WARNINGS: Mapping[str, Cause] = {
    "EC2 Spot Instance Interruption Warning": Cause.SPOT,
    "EC2 Capacity Reservation Instance Interruption Warning": Cause.RESERVATION,
    "EC2 Instance Rebalance Recommendation": Cause.REBALANCE,
}


def _cause_of(detail_type: object) -> Cause:
    if (cause := WARNINGS.get(str(detail_type))) is None:
        raise ValueError(f"must be one of {', '.join(WARNINGS)}")
    return cause


class InterruptionEvent(_InstanceEvent):
    """One of `WARNINGS`. What EC2 says beside the instance refuses none: two minutes run all the
    same."""

    cause: Annotated[Cause, BeforeValidator(_cause_of)] = Field(alias="detail-type")
    action: Annotated[str | None, BeforeValidator(_action_or_none)] = detail(
        "instance-action", default=None
    )
    stated_end: _MaybeMoment = detail("instance-termination-time", default=None)

    def to_domain(self) -> Warned:
        return self._warned(self.cause, action=self.action, stated_end=self.stated_end)


class LifecycleEvent(_InstanceEvent):
    """`EC2 Instance-terminate Lifecycle Action`."""

    instance_id: InstanceId = detail("EC2InstanceId")
    group: str = detail("AutoScalingGroupName", min_length=1, max_length=255)
    hook: str = detail("LifecycleHookName", min_length=1, max_length=255)
    token: str = detail("LifecycleActionToken", min_length=1)
    transition: Literal["autoscaling:EC2_INSTANCE_TERMINATING"] = detail("LifecycleTransition")
    destination: str = detail("Destination", default="EC2")

    def to_domain(self) -> Warned:
        waits = LifecycleAction(self.group, self.hook, self.token, self.destination == "WarmPool")
        action = "put into the warm pool" if waits.to_warm_pool else "terminate"
        return self._warned(Cause.AUTO_SCALING, action=action, waits=waits)


class ExecutionEndEvent(Envelope):
    """`Step Functions Execution Status Change`."""

    name: str = detail("name")
    status: Literal["RUNNING", "SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED", "PENDING_REDRIVE"] = (
        detail("status")
    )


class _AffectedEntity(Event):
    entity_value: str | None = Field(default=None, alias="entityValue")
    status: str | None = None
    """`RESOLVED` where nothing is left to do about it, although the event goes on for others."""


class HealthEvent(Envelope):
    """`AWS Health Event` of category scheduledChange for EC2."""

    source: Literal["aws.health"]
    event_arn: str = detail("eventArn", min_length=1)
    service: Literal["EC2"] = detail("service")
    event_type_code: str = detail("eventTypeCode", min_length=1)
    event_type_category: Literal["scheduledChange"] = detail("eventTypeCategory")
    start_time: _MaybeMoment = detail("startTime", default=None)
    last_updated: _MaybeMoment = detail("lastUpdatedTime", default=None)
    status_code: str = detail("statusCode", default="")
    event_region: str | None = detail("eventRegion", default=None)
    affected_account: AccountId | None = detail("affectedAccount", default=None)
    affected_entities: tuple[_AffectedEntity, ...] | None = detail("affectedEntities", default=None)

    def to_domain(self) -> ScheduledChange:
        """Return the change. The Region is the event's own, if it names one: a copy also goes to a
        backup Region. An event of which everything is resolved is over."""
        entities = self.affected_entities or ()
        pending = [one for one in entities if (one.status or "").upper() != "RESOLVED"]
        is_over = self.status_code.lower() == "closed" or bool(entities and not pending)
        named = entities if is_over else pending
        values = (re.search(_INSTANCE_ID, one.entity_value or "") for one in named)
        what = self.event_type_code.removeprefix("AWS_EC2_").removesuffix("_SCHEDULED")
        own_region = re.fullmatch(REGION, self.event_region or "")
        notice = Notice(
            account=self.affected_account or self.account,
            region=own_region[0] if own_region else self.region,
            source_id=self.event_arn,
            what=f"AWS schedules: {what.replace('_', ' ').lower()}",
            at=self.start_time,
            said_at=self.last_updated or self.time,
        )
        ids = [match[0] for match in values if match]
        return ScheduledChange({one: replace(notice, instance_id=one) for one in ids}, is_over)


class CapacityBlockEvent(Envelope):
    """`Capacity Block Delivered` and `... Expiration Warning`, with or without the word
    Reservation."""

    source: Literal["aws.ec2"]
    detail_type: str = Field(alias="detail-type", pattern=_KNOWN_BLOCK_EVENT)
    reservation_id: str = detail("capacity-reservation-id", pattern=r"^cr-[0-9a-f]+$")
    end_date: Annotated[UtcDatetime, BeforeValidator(moment)] = detail("end-date")

    def to_domain(self) -> BlockChange:
        return BlockChange(
            event_id=self.id,
            account=self.account,
            region=self.region,
            reservation_id=self.reservation_id,
            is_expiring="Expiration" in self.detail_type,
            at=self.time,
            ends_at=self.end_date,
        )


def notice_of(event: object) -> ScheduledChange | BlockChange | None:
    """Return the date that an event announces; `None` for a kind of Capacity Block event that
    announces none. Raises: InputError unless it is a Health event or one of a Capacity Block, with
    what each needs."""
    if not isinstance(event, dict) or event.get("source") != "aws.ec2":
        return parse(HealthEvent, event).to_domain()
    kind = str(event.get("detail-type"))
    if kind.startswith("Capacity Block ") and not re.match(_KNOWN_BLOCK_EVENT, kind):
        return None
    return parse(CapacityBlockEvent, event).to_domain()


class _QueuedMessage(Event):
    message_id: str = Field(alias="messageId", min_length=1)
    receipt: str = Field(alias="receiptHandle", min_length=1)
    body: str
    receives: int = Field(validation_alias=AliasPath("attributes", "ApproximateReceiveCount"), ge=1)
    sent_milliseconds: int = Field(validation_alias=AliasPath("attributes", "SentTimestamp"), ge=0)

    def to_queued(self) -> Queued:
        sent_at = datetime.fromtimestamp(self.sent_milliseconds / 1000, tz=UTC)
        return Queued(self.message_id, self.receipt, self.body, self.receives, sent_at)


class QueueBatch(Event):
    records: tuple[_QueuedMessage, ...] = Field(alias="Records", min_length=1)


def must_be_of(account: str, event: Mapping[str, Any]) -> None:
    """Refuse what comes from another account: an event, or a queue's or a stream's. Raises:
    InputError."""
    for one in event.get("Records", (event,)):
        if account not in (one.get("account"), *one.get("eventSourceARN", "").split(":")):
            raise InputError(f"the event was refused: it is not one of account {account}")


def queued_event(body: str) -> Any:
    """The event that a rule has put into a queue, as it was sent. Raises: InputError where it is no
    JSON."""
    try:
        return json.loads(body)
    except ValueError as error:
        raise InputError(f"the message holds no JSON: {error}") from error


def policy_writer(event: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the version that a data event of CloudTrail names, and the ARN that wrote it, if it
    says so."""
    match event.get("detail"):
        case {
            "responseElements": {"x-amz-version-id": str(version)},
            "userIdentity": {"arn": str(arn)},
        }:
            return version, arn
    return None


# changes of the state table, as its stream hands them to a function

_Item = Mapping[str, Mapping[str, Any]]


def _stream(*path: str, **more: Any) -> Any:
    return Field(validation_alias=AliasPath("dynamodb", *path), **more)


class _ChangeRecord(Event):
    operation: str = Field(alias="eventName")
    keys: _Item = _stream("Keys")
    at: Moment = _stream("ApproximateCreationDateTime")
    sequence: str = _stream("SequenceNumber", pattern=r"^\d+$")
    before: _Item = _stream("OldImage", default={})
    after: _Item = _stream("NewImage", default={})
    principal: str | None = Field(
        validation_alias=AliasPath("userIdentity", "principalId"), default=None
    )

    def to_domain(self) -> Change:
        images: dict[str, Any] = {"before": _plain(self.before), "after": _plain(self.after)}
        return Change(**_plain(self.keys), **self.model_dump(exclude={"keys", *images}), **images)


class _ChangeBatch(Event):
    records: tuple[_ChangeRecord, ...] = Field(alias="Records")


def changes_of(event: object) -> list[Change]:
    """Raises: InputError."""
    return [record.to_domain() for record in parse(_ChangeBatch, event).records]


def _plain(item: _Item) -> dict[str, Any]:
    """The item as JSON has it: numbers stay text, as the stream writes them, and bytes base64."""
    return {name: _value(value) for name, value in item.items()}


def _value(value: Mapping[str, Any]) -> Any:
    [(letter, inner)] = value.items()
    if letter in ("M", "L"):
        return _plain(inner) if letter == "M" else [_value(one) for one in inner]
    return None if letter == "NULL" else inner


class RotationEvent(Event):
    """The event of Secrets Manager for a rotation function."""

    step: RotationStep = Field(alias="Step")
    version: str = Field(alias="ClientRequestToken", min_length=32, max_length=64)
