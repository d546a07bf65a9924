"""Capacity Reservations and Capacity Blocks of accelerated types that the account pays for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from governor.core.instance import LINUX
from governor.core.units import UtcDatetime, as_utc
from governor.evidence.model import Window
from governor.evidence.ports import MetricQuery
from governor.scan.kind import Place
from governor.scan.kinds.calls import report_problem
from governor.scan.kinds.capacity.rules import FreePart, free_part
from governor.scan.kinds.ec2_types import hardware, is_accelerated
from governor.scan.kinds.tags import name_in, tags_in
from governor.scan.model import Resource

DESCRIBE = "ec2:DescribeCapacityReservations"
BLOCK = "capacity-block"
_PAGE = 1000
_CHARGED = "active"
"""Reservations of a future date and those that ended have other states. One that is `cancelling`
is charged for a last while, and nothing can be done about it."""
_HOUR = timedelta(hours=1)
_LOOK_BACK = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class ReservedCapacity(Resource):
    """A reservation with free instances."""

    instance_type: str = ""
    platform: str = LINUX
    tenancy: str = "default"
    total: int = 0
    free_now: int = 0
    """Instances that can be launched in it, by EC2's own count."""
    unused: FreePart | None = None
    """The part that was free for hours; `None` until it is read."""
    ends_at: UtcDatetime | None = None
    committed: int = 0
    """Instances that cannot be given back before `committed_until`."""
    committed_until: UtcDatetime | None = None
    lent_by: str | None = None
    """The reservation that lends this one's instances, if it can be interrupted; else `None`."""


def records_here(place: Place) -> Sequence[Mapping[str, Any]]:
    """Return EC2's records of all reservations here, read once. Raises: CloudError."""

    def ask() -> list[Mapping[str, Any]]:
        """Return the records of all pages of EC2's answer. Raises: CloudError."""
        pages = place.pages(DESCRIBE, MaxResults=_PAGE)
        records: list[Any] = []
        for page in pages:
            records += page.get("CapacityReservations") or ()
        return records

    return place.kept.get((DESCRIBE, str(place.target)), ask)


def read_free(
    place: Place, record: Mapping[str, Any], reservation_type: str
) -> ReservedCapacity | None:
    """Return a reservation of this type (`default` or `capacity-block`) with free instances; `None`
    for any other, and for one that has no accelerators, is not active, lies on an Outpost, or is
    paid by another account. Raises: LookupError, TypeError or ValueError for a record in another
    form."""
    if record.get("ReservationType", "default") != reservation_type:
        return None
    if record["State"] != _CHARGED or not is_accelerated(record["InstanceType"]):
        return None
    payer = record.get("UnusedReservationBillingOwnerId") or record["OwnerId"]
    is_elsewhere = bool(record.get("OutpostArn"))
    if payer != place.target.account or is_elsewhere or not record["AvailableInstanceCount"]:
        return None
    tags = tags_in(record)
    ends_at = record.get("EndDate")
    began_at = record.get("StartDate") or record.get("CreateDate")
    commitment = record.get("CommitmentInfo") or {}
    committed_until = commitment.get("CommitmentEndDate")
    source = (record.get("InterruptionInfo") or {}).get("SourceCapacityReservationId")
    return ReservedCapacity(
        target=place.target,
        resource_id=record["CapacityReservationId"],
        what=hardware(record["InstanceType"], record["AvailableInstanceCount"]),
        name=name_in(tags),
        tags=tags,
        since=as_utc(began_at) if began_at else None,
        instance_type=record["InstanceType"],
        platform=record.get("InstancePlatform", LINUX),
        tenancy=record.get("Tenancy", "default"),
        total=record["TotalInstanceCount"],
        free_now=record["AvailableInstanceCount"],
        ends_at=as_utc(ends_at) if ends_at else None,
        committed=commitment.get("CommittedInstanceCount") or 0,
        committed_until=as_utc(committed_until) if committed_until else None,
        lent_by=source if record.get("Interruptible") else None,
        is_prepaid=reservation_type == BLOCK,
    )


def with_use(
    place: Place, topic: str, reservations: Sequence[ReservedCapacity]
) -> list[ReservedCapacity]:
    """Return the reservations with what CloudWatch says of their use, by one query each. A refusal
    is reported, and EC2's own count then stands alone."""
    if not reservations:
        return []
    end = place.now.replace(minute=0, second=0, microsecond=0) + _HOUR
    window = Window(end - _LOOK_BACK, end, _HOUR)
    queries = [_used(reservation.resource_id) for reservation in reservations]
    answer = place.metrics.read(place.target, queries, window)
    for problem in dict.fromkeys(answer.problems.values()):
        report_problem(place, f"use of {topic}", problem)
    counting = timedelta(hours=place.policy.advice.empty_reservation_after_hours)
    measured: list[ReservedCapacity] = []
    for reservation in reservations:
        series = answer.series.get(reservation.resource_id, ())
        if reservation.resource_id in answer.problems:
            series = ()
        unused = free_part(reservation.total, reservation.free_now, series, window, counting)
        count = unused.count or reservation.free_now
        what = hardware(reservation.instance_type, count)
        measured.append(replace(reservation, unused=unused, what=what))
    return measured


def _used(reservation_id: str) -> MetricQuery:
    """Return the query for how many instances ran in a reservation at most, by the hour."""
    return MetricQuery(
        key=reservation_id,
        namespace="AWS/EC2CapacityReservations",
        metric="UsedInstanceCount",
        dimensions=(("CapacityReservationId", reservation_id),),
        statistic="Maximum",
    )
