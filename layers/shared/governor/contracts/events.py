"""What AWS announces: the events that EventBridge brings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, Literal

from pydantic import AliasPath, BeforeValidator, Discriminator, Field, RootModel, Tag

from governor.contracts.parsing import REGION, AccountId, Event, InstanceId, Moment, Region, parse
from governor.domain.interruption import Cause, LifecycleAction, Warned
from governor.domain.notice import BlockChange, ScheduledChange
from governor.domain.units import UtcDatetime, as_utc, parse_iso, printable

_INSTANCE_ID = r"\bi-(?:[0-9a-f]{17}|[0-9a-f]{8})\b"
_YEARS = range(2006, 3000)
"""EC2 began in 2006. Nothing can be counted from dates at the ends of the calendar."""
_ACTION_CHARACTERS = 64


def _detail(*path: str, **more: Any) -> Any:
    """A field of an event's `detail`."""
    return Field(validation_alias=AliasPath("detail", *path), **more)


def _moment(text: object) -> UtcDatetime:
    """The moment in ISO 8601, or in RFC 1123 as Health writes it.

    Raises:
        ValueError: neither, or in a year that stands for no date (9999).
    """
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
    """As `_moment`; `None` for another form, since no warning is refused for its date."""
    try:
        return _moment(text) if text else None
    except ValueError:
        return None


def _action_or_none(said: object) -> str | None:
    """The name of an action, on one line; `None` where none is given."""
    return (printable(said)[:_ACTION_CHARACTERS] or None) if isinstance(said, str) else None


class _Envelope(Event):
    """The account and Region are taken from here: a Spot warning's ARN names no account.

    `to_domain` returns the event as the domain knows it.
    """

    id: str = Field(min_length=1)
    account: AccountId
    region: Region
    time: Moment


class StateChangeEvent(_Envelope):
    """`EC2 Instance State-change Notification`."""

    instance_id: InstanceId = _detail("instance-id")
    state: Literal["pending", "running", "stopping", "stopped", "shutting-down", "terminated"] = _detail(
        "state"
    )


class InterruptionEvent(_Envelope):
    """`EC2 Spot Instance Interruption Warning` or its sibling for interruptible Capacity Reservations.

    None is refused for what EC2 says beside the instance: the two minutes run all the same.
    """

    detail_type: Literal[
        "EC2 Spot Instance Interruption Warning",
        "EC2 Capacity Reservation Instance Interruption Warning",
    ] = Field(alias="detail-type")
    instance_id: InstanceId = _detail("instance-id")
    instance_action: object = _detail("instance-action", default=None)
    instance_termination_time: object = _detail("instance-termination-time", default=None)

    def to_domain(self) -> Warned:
        return Warned(
            event_id=self.id,
            account=self.account,
            region=self.region,
            instance_id=self.instance_id,
            cause=Cause.SPOT if "Spot" in self.detail_type else Cause.RESERVATION,
            at=self.time,
            action=_action_or_none(self.instance_action),
            stated_end=_moment_or_none(self.instance_termination_time),
        )


class RebalanceEvent(_Envelope):
    """`EC2 Instance Rebalance Recommendation`."""

    instance_id: InstanceId = _detail("instance-id")

    def to_domain(self) -> Warned:
        return Warned(
            event_id=self.id,
            account=self.account,
            region=self.region,
            instance_id=self.instance_id,
            cause=Cause.REBALANCE,
            at=self.time,
        )


WARNINGS: Mapping[str, type[InterruptionEvent | RebalanceEvent]] = {
    "EC2 Spot Instance Interruption Warning": InterruptionEvent,
    "EC2 Capacity Reservation Instance Interruption Warning": InterruptionEvent,
    "EC2 Instance Rebalance Recommendation": RebalanceEvent,
}
"""By detail type, the warnings that `handle_spot_interruption` reads from its queue."""


def warned_of(event: object) -> Warned:
    """Return the warning that an event holds.

    Raises:
        InputError: it is none, or misses what a warning needs.
    """
    kind = event.get("detail-type") if isinstance(event, dict) else None
    return parse(WARNINGS.get(str(kind), InterruptionEvent), event).to_domain()


class LifecycleEvent(_Envelope):
    """`EC2 Instance-terminate Lifecycle Action`."""

    instance_id: InstanceId = _detail("EC2InstanceId")
    group: str = _detail("AutoScalingGroupName", min_length=1, max_length=255)
    hook: str = _detail("LifecycleHookName", min_length=1, max_length=255)
    token: str = _detail("LifecycleActionToken", min_length=1)
    transition: Literal["autoscaling:EC2_INSTANCE_TERMINATING"] = _detail("LifecycleTransition")
    destination: str = _detail("Destination", default="EC2")

    def to_domain(self) -> Warned:
        waits = LifecycleAction(self.group, self.hook, self.token, self.destination == "WarmPool")
        return Warned(
            event_id=self.id,
            account=self.account,
            region=self.region,
            instance_id=self.instance_id,
            cause=Cause.AUTO_SCALING,
            at=self.time,
            action="put into the warm pool" if waits.to_warm_pool else "terminate",
            waits=waits,
        )


class _AffectedEntity(Event):
    entity_value: str | None = Field(default=None, alias="entityValue")
    status: str | None = None

    @property
    def is_resolved(self) -> bool:
        """Whether nothing is left to do about it, although the event goes on for others."""
        return (self.status or "").upper() == "RESOLVED"


class HealthEvent(_Envelope):
    """`AWS Health Event` of category scheduledChange for EC2."""

    source: Literal["aws.health"]
    event_arn: str = _detail("eventArn", min_length=1)
    service: Literal["EC2"] = _detail("service")
    event_type_code: str = _detail("eventTypeCode", min_length=1)
    event_type_category: Literal["scheduledChange"] = _detail("eventTypeCategory")
    start_time: str | None = _detail("startTime", default=None)
    last_updated: str | None = _detail("lastUpdatedTime", default=None)
    status_code: str = _detail("statusCode", default="")
    event_region: str | None = _detail("eventRegion", default=None)
    affected_account: AccountId | None = _detail("affectedAccount", default=None)
    affected_entities: tuple[_AffectedEntity, ...] | None = _detail("affectedEntities", default=None)

    def to_domain(self) -> ScheduledChange:
        """The Region is the event's own: a copy also goes to a backup Region.

        Where that names none (`global`), it is the envelope's. An event of which everything is resolved is
        over, though AWS may close it later.
        """
        entities = self.affected_entities or ()
        pending = [one for one in entities if not one.is_resolved]
        is_over = self.status_code.lower() == "closed" or bool(entities and not pending)
        named = entities if is_over else pending
        values = (re.search(_INSTANCE_ID, one.entity_value or "") for one in named)
        own_region = re.fullmatch(REGION, self.event_region or "")
        return ScheduledChange(
            event_id=self.id,
            source_id=self.event_arn,
            account=self.affected_account or self.account,
            region=own_region[0] if own_region else self.region,
            what=_change_text(self.event_type_code),
            at=_moment_or_none(self.start_time),
            instance_ids=tuple(dict.fromkeys(match[0] for match in values if match)),
            said_at=_moment_or_none(self.last_updated) or as_utc(self.time),
            is_over=is_over,
        )


_KNOWN_BLOCK_EVENT = r"^Capacity Block .*(Delivered|Expiration Warning)$"


class CapacityBlockEvent(_Envelope):
    """`Capacity Block Delivered` and `Capacity Block Expiration Warning`.

    AWS has documented both with and without the word Reservation after Block.
    """

    source: Literal["aws.ec2"]
    detail_type: str = Field(alias="detail-type", pattern=_KNOWN_BLOCK_EVENT)
    reservation_id: str = _detail("capacity-reservation-id", pattern=r"^cr-[0-9a-f]+$")
    end_date: Annotated[datetime, BeforeValidator(_moment)] = _detail("end-date")

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


class OtherBlockEvent(Event):
    """A kind of Capacity Block event from which nothing follows. Whatever else it holds is let through."""

    kind: str = Field(alias="detail-type", pattern=r"^Capacity Block ")

    def to_domain(self) -> None:
        """Nothing is announced."""


def _notice_kind(event: object) -> str | None:
    """Which of the models an event is; `None`, which refuses it, for one that is none."""
    if not isinstance(event, dict):
        return None
    if event.get("source") != "aws.ec2":
        return "health" if event.get("source") == "aws.health" else None
    return "block" if re.match(_KNOWN_BLOCK_EVENT, str(event.get("detail-type"))) else "other"


class NoticeEvent(
    RootModel[
        Annotated[
            Annotated[HealthEvent, Tag("health")]
            | Annotated[CapacityBlockEvent, Tag("block")]
            | Annotated[OtherBlockEvent, Tag("other")],
            Discriminator(_notice_kind),
        ]
    ]
):
    """Any of the events that announce a date, or a sibling that announces none."""


def _change_text(code: str) -> str:
    """`persistent instance retirement scheduled` of `AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED`."""
    words = code.removeprefix("AWS_EC2_").removesuffix("_SCHEDULED").replace("_", " ").lower()
    return f"AWS schedules: {words}"


class ExecutionEndEvent(_Envelope):
    """`Step Functions Execution Status Change`."""

    name: str = _detail("name")
    status: Literal["RUNNING", "SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED", "PENDING_REDRIVE"] = _detail(
        "status"
    )
