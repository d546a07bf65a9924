"""What is told about announced dates: the readable text and the facts of each message.

Pure wording. This module must not know channels, nor how often something is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from governor.domain.alert import Alert, AlertKind, Severity, short_hash
from governor.domain.instance import Instance, Lifecycle
from governor.domain.notice import TERMINATED_BEFORE_END, Notice
from governor.domain.units import UtcDatetime, iso


def _duration(span: timedelta) -> str:
    minutes = max(0, int(span.total_seconds() // 60))
    if minutes < 120:
        return f"{minutes} minutes"
    return f"{minutes // 60} hours" if minutes < 2880 else f"{minutes // 1440} days"


def _when(notice: Notice, now: UtcDatetime) -> tuple[str, str]:
    """For the subject and for the text."""
    if notice.at is None:
        return "No date", "(AWS names no date; look at the AWS Health Dashboard)"
    if notice.at <= now:
        return "Due", f"since {iso(notice.at)}"
    left = _duration(notice.at - now)
    return f"In {left}", f"at {iso(notice.at)}, in {left}"


def notice_alert(
    notice: Notice,
    instances: Sequence[Instance],
    owner: str,
    project: str,
    now: UtcDatetime,
    *,
    again: bool,
    reminded: bool = False,
) -> Alert:
    """The date, what happens then, and what can be done. `instances` are those of one owner.

    `again`: this is the reminder. `reminded`: one will follow.
    """
    names = ", ".join(f"{one.name} ({one.instance_id}, {one.instance_type})" for one in instances)
    name = f" {instances[0].name}" if len(instances) == 1 else ""
    short, when = _when(notice, now)
    return Alert(
        kind=AlertKind.SCHEDULED_CHANGE,
        severity=Severity.CRITICAL if again else Severity.WARNING,
        account=notice.account,
        region=notice.region,
        subject=f"{'Reminder: ' if again else ''}{short}: {notice.what}{name}",
        lines=(
            f"{notice.what} {when}: {names}.",
            *_advice(notice, instances),
            *(("You will be told again before it.",) if reminded else ()),
        ),
        dedup_id=f"{'reminder' if again else 'notice'}-{notice.telling}-{short_hash(owner, project)}",
        at=now,
        instance_id=instances[0].instance_id if len(instances) == 1 else None,
        owner=owner,
        project=project,
        facts={
            "what": notice.what,
            "happens_at": None if notice.at is None else iso(notice.at),
            "reminder": again,
            "source_id": notice.source_id,
            "capacity_reservation_id": notice.reservation_id,
            "instance_ids": [one.instance_id for one in instances],
        },
    )


def _advice(notice: Notice, instances: Sequence[Instance]) -> tuple[str, ...]:
    if notice.reservation_id is not None:
        minutes = int(TERMINATED_BEFORE_END.total_seconds() // 60)
        return (
            f"Its instances are terminated from {minutes} minutes before on (an hour with UltraServers), and "
            "their local disks with them. Save what you need, or extend the block in time.",
        )
    if any(one.root_device_type != "ebs" for one in instances):
        return ("Its root is an instance store: it cannot be stopped. Copy what you need, and launch anew.",)
    if any(one.lifecycle is Lifecycle.SPOT for one in instances):
        return ("Save your work; a Spot instance is launched anew rather than moved.",)
    return (
        "Stop and start it when it suits you before then: it then runs on other hardware. A stop wipes local "
        "disks, and a start needs free capacity.",
    )


def block_delivered_alert(
    notice: Notice,
    ends_at: UtcDatetime,
    instances: Sequence[Instance],
    owner: str,
    project: str,
    now: UtcDatetime,
) -> Alert:
    """A Capacity Block has begun: it is paid for whether it is used or not."""
    running = ", ".join(f"{one.name} ({one.instance_id})" for one in instances)
    return Alert(
        kind=AlertKind.SCHEDULED_CHANGE,
        severity=Severity.INFO,
        account=notice.account,
        region=notice.region,
        subject=f"Capacity Block {notice.reservation_id} is here until {iso(ends_at)}",
        lines=(
            f"The Capacity Block {notice.reservation_id} has begun and ends at {iso(ends_at)}. It is paid "
            "for in full, whether it is used or not.",
            f"Governed instances in it: {running or 'none yet'}.",
        ),
        dedup_id=f"delivered-{notice.telling}-{short_hash(owner, project)}",
        at=now,
        owner=owner,
        project=project,
        facts={
            "what": "Capacity Block delivered",
            "capacity_reservation_id": notice.reservation_id,
            "ends_at": iso(ends_at),
            "instance_ids": [one.instance_id for one in instances],
        },
    )


def block_expiring_alert(
    reservation_id: str,
    instances: Sequence[Instance],
    terminated_from: UtcDatetime,
    owner: str,
    project: str,
    now: UtcDatetime,
    event_id: str,
) -> Alert:
    """The last warning of a Capacity Block: its instances are terminated in minutes."""
    target = instances[0].target
    names = ", ".join(f"{one.name} ({one.instance_id})" for one in instances)
    left = _duration(terminated_from - now)
    return Alert(
        kind=AlertKind.SCHEDULED_CHANGE,
        severity=Severity.CRITICAL,
        account=target.account,
        region=target.region,
        subject=f"Capacity Block {reservation_id} ends: instances are terminated in {left}",
        lines=(
            f"EC2 begins to terminate the instances of {reservation_id} at about {iso(terminated_from)}, in "
            f"{left}: {names}.",
            "Their local disks go with them. Save your work now.",
        ),
        dedup_id=f"expiring-{event_id}-{short_hash(owner, project)}",
        at=now,
        instance_id=instances[0].instance_id if len(instances) == 1 else None,
        owner=owner,
        project=project,
        facts={
            "what": "Capacity Block expires",
            "capacity_reservation_id": reservation_id,
            "terminated_from": iso(terminated_from),
            "instance_ids": [one.instance_id for one in instances],
        },
    )
