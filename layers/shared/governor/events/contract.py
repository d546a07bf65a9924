"""The events of AWS, parsed from EventBridge, from a queue, and from the rotation of keys. The
events of the state table's stream are in `table_stream.py`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, Literal

from pydantic import AliasPath, BeforeValidator, Field

from governor.alerts.delivery import QueuedMessage
from governor.approvals.rotate_keys import RotationStep
from governor.core.errors import InputError
from governor.core.parsing import AccountId, Event, InstanceId, Moment, Region, parse
from governor.core.regions import is_region
from governor.core.units import UtcDatetime, as_utc, parse_iso, printable
from governor.events.model.interruption import RESPONSES, Cause, LifecycleAction, Warned
from governor.events.model.notice import BlockChange, Notice, ScheduledChange

_YEARS = range(2006, 3000)
"""EC2 began in 2006. Arithmetic fails for dates at the ends of the calendar."""
_YEAR_3000_MILLISECONDS = 32_503_680_000_000
"""The begin of the first year after `_YEARS`, in milliseconds since 1970."""
_ACTION_CHARACTERS = 64
_INSTANCE_ID = r"\bi-(?:[0-9a-f]{17}|[0-9a-f]{8})\b"
_REPLACE_ROOT_VOLUME = "ReplaceRootVolume"
"""Source: EC2 Auto Scaling user guide, instance refresh example events."""
_KNOWN_BLOCK_EVENT = r"^Capacity Block .*(Delivered|Expiration Warning)$"


def detail(*path: str, **more: Any) -> Any:
    """Return a model field that is read from this path in the event's `detail`. `more` are further
    arguments of `Field`, such as a default."""
    return Field(validation_alias=AliasPath("detail", *path), **more)


def moment(text: object) -> UtcDatetime:
    """Return the moment, in UTC, that a text names in ISO 8601 or RFC 1123. Raises: ValueError if
    it names none, or no time zone, or a year before 2006 or from 3000 on."""
    try:
        parsed = parse_iso(str(text))
    except ValueError:
        try:
            parsed = as_utc(parsedate_to_datetime(str(text)))
        except OverflowError as error:
            raise ValueError(f"{text}: no such year") from error
    if parsed.year not in _YEARS:
        raise ValueError(f"{text}: no such year in an announcement")
    return parsed


def _moment_or_none(text: object) -> UtcDatetime | None:
    """Return the moment that a text names; `None` for an empty or unreadable one, since no event is
    refused for its date."""
    if not text:
        return None
    try:
        return moment(text)
    except ValueError:
        return None


def _action_or_none(action: object) -> str | None:
    """Return the name of an action without unprintable characters, cut to 64; `None` if it is no
    text or is empty."""
    if not isinstance(action, str):
        return None
    return printable(action)[:_ACTION_CHARACTERS] or None


_MaybeMoment = Annotated[UtcDatetime | None, BeforeValidator(_moment_or_none)]


class Envelope(Event):
    """The fields that all events have. In subclasses `to_domain` returns the event's content as a
    record.

    The account comes from here, as the ARN of a Spot warning names none.
    """

    id: str = Field(min_length=1)
    account: AccountId
    region: Region
    time: Moment


class _InstanceEvent(Envelope):
    """An event about one instance."""

    instance_id: InstanceId = detail("instance-id")

    def _warned(self, cause: Cause, **more: Any) -> Warned:
        """Return the warning of this event. `more` are further fields of `Warned`."""
        return Warned(
            self.id, self.account, self.region, self.instance_id, cause, self.time, **more
        )


class StateChangeEvent(_InstanceEvent):
    """`EC2 Instance State-change Notification`."""

    state: Literal["pending", "running", "stopping", "stopped", "shutting-down", "terminated"] = (
        detail("state")
    )


WARNINGS: Mapping[str, Cause] = {
    response.detail_type: cause
    for cause, response in RESPONSES.items()
    if not response.has_own_fields
}
"""The cause of each detail type that `InterruptionEvent` reads."""


def _cause_of(detail_type: object) -> Cause:
    """Return the cause of this kind of event. Raises: ValueError if it is not one of `WARNINGS`."""
    cause = WARNINGS.get(str(detail_type))
    if cause is None:
        raise ValueError(f"must be one of {', '.join(WARNINGS)}")
    return cause


class InterruptionEvent(_InstanceEvent):
    """One of `WARNINGS`. Only the instance must be readable: two minutes are running, whatever else
    EC2 says."""

    cause: Annotated[Cause, BeforeValidator(_cause_of)] = Field(alias="detail-type")
    action: Annotated[str | None, BeforeValidator(_action_or_none)] = detail(
        "instance-action", default=None
    )
    stated_end: _MaybeMoment = detail("instance-termination-time", default=None)

    def to_domain(self) -> Warned:
        """Return the warning. Fields that EC2 left out, or that cannot be read, are `None`."""
        return self._warned(self.cause, action=self.action, stated_end=self.stated_end)


class LifecycleEvent(_InstanceEvent):
    """`EC2 Instance-terminate Lifecycle Action`."""

    instance_id: InstanceId = detail("EC2InstanceId")
    group: str = detail("AutoScalingGroupName", min_length=1, max_length=255)
    hook: str = detail("LifecycleHookName", min_length=1, max_length=255)
    token: str = detail("LifecycleActionToken", min_length=1)
    transition: Literal["autoscaling:EC2_INSTANCE_TERMINATING"] = detail("LifecycleTransition")
    destination: str = detail("Destination", default="EC2")
    own_action: Annotated[str | None, BeforeValidator(_action_or_none)] = detail(
        "Action", default=None
    )
    """`ReplaceRootVolume` during an instance refresh of that kind. Other events do not have it."""

    def to_domain(self) -> Warned:
        """Return the warning, with the lifecycle action that the group waits for."""
        lifecycle_action = LifecycleAction(
            group=self.group,
            hook=self.hook,
            token=self.token,
            to_warm_pool=self.destination == "WarmPool",
            replaces_root_volume=self.own_action == _REPLACE_ROOT_VOLUME,
        )
        action = self._action_text(lifecycle_action)
        return self._warned(Cause.AUTO_SCALING, action=action, lifecycle_action=lifecycle_action)

    def _action_text(self, lifecycle_action: LifecycleAction) -> str:
        """Return what the group will do, for a sentence after `will` and before the instance."""
        if lifecycle_action.replaces_root_volume:
            return "replace the root volume of"
        if lifecycle_action.to_warm_pool:
            return "put into the warm pool"
        if self.own_action is not None:
            return f"terminate (or {self.own_action}, which is not known here)"
        return "terminate"


class ExecutionEndEvent(Envelope):
    """`Step Functions Execution Status Change`."""

    name: str = detail("name")
    status: Literal["RUNNING", "SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED", "PENDING_REDRIVE"] = (
        detail("status")
    )


class _AffectedEntity(Event):
    """One instance, or another resource, in an event of AWS Health."""

    entity_value: str | None = Field(default=None, alias="entityValue")
    status: str | None = None
    """`RESOLVED` if nothing is left to do about this entity, although the event goes on for
    others."""

    @property
    def is_resolved(self) -> bool:
        """Return whether nothing is left to do about this entity."""
        return (self.status or "").upper() == "RESOLVED"

    @property
    def instance_id(self) -> str | None:
        """Return the id of the instance that `entity_value` names; `None` if it names none."""
        match = re.search(_INSTANCE_ID, self.entity_value or "")
        return match[0] if match else None


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
        """Return the change, with a notice for each instance that is left to care for. A closed
        event, and one whose entities are all resolved, is over; then the notices are of all its
        instances. Entities that are no instance are left out."""
        entities = self.affected_entities or ()
        pending = [entity for entity in entities if not entity.is_resolved]
        is_all_resolved = bool(entities) and not pending
        is_over = self.status_code.lower() == "closed" or is_all_resolved
        notice = self._notice()
        notices: dict[str, Notice] = {}
        for entity in entities if is_over else pending:
            instance_id = entity.instance_id
            if instance_id is not None:
                notices[instance_id] = replace(notice, instance_id=instance_id)
        return ScheduledChange(notices, is_over)

    def _notice(self) -> Notice:
        """Return the notice of this event, without the id of an instance. It is of the affected
        account and the event's Region, if the event names them, else of those that sent it."""
        change = self.event_type_code.removeprefix("AWS_EC2_").removesuffix("_SCHEDULED")
        # AWS Health also sends a copy to a backup Region. `eventRegion` names the Region of the
        # instances.
        region = self.region
        if self.event_region and is_region(self.event_region):
            region = self.event_region
        return Notice(
            account=self.affected_account or self.account,
            region=region,
            source_id=self.event_arn,
            what=change.replace("_", " ").lower(),
            at=self.start_time,
            said_at=self.last_updated or self.time,
        )


class CapacityBlockEvent(Envelope):
    """`Capacity Block Delivered` and `... Expiration Warning`, with or without the word
    Reservation."""

    source: Literal["aws.ec2"]
    detail_type: str = Field(alias="detail-type", pattern=_KNOWN_BLOCK_EVENT)
    reservation_id: str = detail("capacity-reservation-id", pattern=r"^cr-[0-9a-f]+$")
    end_date: Annotated[UtcDatetime, BeforeValidator(moment)] = detail("end-date")

    def to_domain(self) -> BlockChange:
        """Return the change: the block has begun or, by the name of the event, is expiring."""
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
    """Return the change with a date that an event announces; `None` for kinds of Capacity Block
    events that announce no date.

    Raises: InputError if it is neither a Health event nor an event of a Capacity Block, or lacks a
    field that it needs.
    """
    if not isinstance(event, dict) or event.get("source") != "aws.ec2":
        return parse(HealthEvent, event).to_domain()
    kind = str(event.get("detail-type"))
    if kind.startswith("Capacity Block ") and not re.match(_KNOWN_BLOCK_EVENT, kind):
        return None
    return parse(CapacityBlockEvent, event).to_domain()


class _QueuedMessage(Event):
    """One message of an SQS queue."""

    message_id: str = Field(alias="messageId", min_length=1)
    receipt: str = Field(alias="receiptHandle", min_length=1)
    body: str
    receives: int = Field(validation_alias=AliasPath("attributes", "ApproximateReceiveCount"), ge=1)
    sent_milliseconds: int = Field(
        validation_alias=AliasPath("attributes", "SentTimestamp"),
        ge=0,
        lt=_YEAR_3000_MILLISECONDS,
    )

    def to_queued(self) -> QueuedMessage:
        """Return the message as `QueuedMessage`."""
        sent_at = datetime.fromtimestamp(self.sent_milliseconds / 1000, tz=UTC)
        return QueuedMessage(self.message_id, self.receipt, self.body, self.receives, sent_at)


class QueueBatch(Event):
    """Messages of an SQS queue, as Lambda hands them to a function."""

    records: tuple[_QueuedMessage, ...] = Field(alias="Records", min_length=1)


def require_account(account: str, event: Mapping[str, Any]) -> None:
    """Require that an event of EventBridge, or each record of a queue or a stream in it, is from
    this account (its id). Raises: InputError if one is not, or names no account."""
    for record in event.get("Records", (event,)):
        # Events of EventBridge name their account; the ARN of a queue or stream holds it.
        arn_parts = record.get("eventSourceARN", "").split(":")
        if account not in (record.get("account"), *arn_parts):
            raise InputError(f"the event was refused: it is not one of account {account}")


def queued_event(body: str) -> Any:
    """Return the event in the body of a queue's message, as JSON data. Raises: InputError if it is
    no JSON."""
    try:
        return json.loads(body)
    except ValueError as error:
        raise InputError(f"the message holds no JSON: {error}") from error


def policy_writer(event: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the version that a data event of CloudTrail names, and the ARN of its writer; `None`
    if the event does not name both."""
    match event.get("detail"):
        case {
            "responseElements": {"x-amz-version-id": str(version)},
            "userIdentity": {"arn": str(arn)},
        }:
            return version, arn
    return None


class RotationEvent(Event):
    """The event of Secrets Manager for a rotation function."""

    step: RotationStep = Field(alias="Step")
    version: str = Field(alias="ClientRequestToken", min_length=32, max_length=64)
