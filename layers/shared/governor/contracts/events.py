"""What AWS announces: the events that EventBridge brings."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from pydantic import AliasPath, Field

from governor.contracts.parsing import AccountId, Event, InstanceId, Moment, Region, parse
from governor.domain.events.interruption import Cause, LifecycleAction, Warned
from governor.domain.units import UtcDatetime, as_utc, parse_iso, printable

_YEARS = range(2006, 3000)
"""EC2 began in 2006. Nothing can be counted from dates at the ends of the calendar."""
_ACTION_CHARACTERS = 64


def detail(*path: str, **more: Any) -> Any:
    """A field of an event's `detail`."""
    return Field(validation_alias=AliasPath("detail", *path), **more)


def moment(text: object) -> UtcDatetime:
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


def moment_or_none(text: object) -> UtcDatetime | None:
    """As `moment`; `None` for another form, since no warning is refused for its date."""
    try:
        return moment(text) if text else None
    except ValueError:
        return None


def _action_or_none(said: object) -> str | None:
    """The name of an action, on one line; `None` where none is given."""
    return (printable(said)[:_ACTION_CHARACTERS] or None) if isinstance(said, str) else None


class Envelope(Event):
    """The account and Region are taken from here: a Spot warning's ARN names no account.

    `to_domain` returns the event as the domain knows it.
    """

    id: str = Field(min_length=1)
    account: AccountId
    region: Region
    time: Moment


class StateChangeEvent(Envelope):
    """`EC2 Instance State-change Notification`."""

    instance_id: InstanceId = detail("instance-id")
    state: Literal["pending", "running", "stopping", "stopped", "shutting-down", "terminated"] = detail(
        "state"
    )


class InterruptionEvent(Envelope):
    """`EC2 Spot Instance Interruption Warning` or its sibling for interruptible Capacity Reservations.

    None is refused for what EC2 says beside the instance: the two minutes run all the same.
    """

    detail_type: Literal[
        "EC2 Spot Instance Interruption Warning",
        "EC2 Capacity Reservation Instance Interruption Warning",
    ] = Field(alias="detail-type")
    instance_id: InstanceId = detail("instance-id")
    instance_action: object = detail("instance-action", default=None)
    instance_termination_time: object = detail("instance-termination-time", default=None)

    def to_domain(self) -> Warned:
        return Warned(
            event_id=self.id,
            account=self.account,
            region=self.region,
            instance_id=self.instance_id,
            cause=Cause.SPOT if "Spot" in self.detail_type else Cause.RESERVATION,
            at=self.time,
            action=_action_or_none(self.instance_action),
            stated_end=moment_or_none(self.instance_termination_time),
        )


class RebalanceEvent(Envelope):
    """`EC2 Instance Rebalance Recommendation`."""

    instance_id: InstanceId = detail("instance-id")

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


class LifecycleEvent(Envelope):
    """`EC2 Instance-terminate Lifecycle Action`."""

    instance_id: InstanceId = detail("EC2InstanceId")
    group: str = detail("AutoScalingGroupName", min_length=1, max_length=255)
    hook: str = detail("LifecycleHookName", min_length=1, max_length=255)
    token: str = detail("LifecycleActionToken", min_length=1)
    transition: Literal["autoscaling:EC2_INSTANCE_TERMINATING"] = detail("LifecycleTransition")
    destination: str = detail("Destination", default="EC2")

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


class ExecutionEndEvent(Envelope):
    """`Step Functions Execution Status Change`."""

    name: str = detail("name")
    status: Literal["RUNNING", "SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED", "PENDING_REDRIVE"] = detail(
        "status"
    )
