"""The words of messages about dates that AWS announces.

Pure wording. This module must not know channels, nor how often something is sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from governor.domain.alerts.alert import Alert, AlertKind, Severity, alert_of, named
from governor.domain.alerts.owner import Owner
from governor.domain.events.notice import TERMINATED_BEFORE_END, Notice
from governor.domain.instance import Instance, Lifecycle, Target
from governor.domain.units import UtcDatetime, iso
from governor.domain.wording import clock, deadline, left


def _only(instances: Sequence[Instance]) -> Instance | None:
    return instances[0] if len(instances) == 1 else None


def _ids(instances: Sequence[Instance]) -> list[str]:
    return [one.instance_id for one in instances]


def notice_alert(
    notice: Notice,
    instances: Sequence[Instance],
    owner: Owner,
    now: UtcDatetime,
    *,
    again: bool,
    reminded: bool = False,
) -> Alert:
    """Return the date, what happens then, and what can be done. `instances` are those of one owner.

    `again`: this is the reminder. `reminded`: one will follow.
    """
    only = _only(instances)
    if notice.at is None:
        short, when = "no date yet", "AWS names no date; look at the AWS Health Dashboard."
    elif notice.at <= now:
        short, when = "due now", f"It has been due since {clock(notice.at, owner.time_zone, now)}."
    else:
        short = f"in {left(notice.at - now)}"
        when = f"It happens at {deadline(notice.at, owner.time_zone, now)}."
    return alert_of(
        AlertKind.SCHEDULED_CHANGE,
        Severity.CRITICAL if again else Severity.WARNING,
        Target(notice.account, notice.region),
        f"{'Reminder: ' if again else ''}{f'{only.name}: ' if only else ''}{notice.what}, {short}",
        [
            f"AWS announces for {', '.join(map(named, instances))}: {notice.what}.",
            when,
            f"What to do: {_advice(notice, instances)}",
            "A reminder follows before that date." if reminded else "",
        ],
        f"{'reminder' if again else 'notice'}-{notice.message_key}-{owner.key}",
        now,
        owner=owner,
        instance=only,
        facts={
            "what": notice.what,
            "happens_at": None if notice.at is None else iso(notice.at),
            "reminder": again,
            "source_id": notice.source_id,
            "capacity_reservation_id": notice.reservation_id,
            "instance_ids": _ids(instances),
        },
    )


def _advice(notice: Notice, instances: Sequence[Instance]) -> str:
    if notice.reservation_id is not None:
        minutes = int(TERMINATED_BEFORE_END.total_seconds() // 60)
        return (
            f"save your data, or extend the block. EC2 begins to terminate its instances {minutes} min "
            "before that date (60 min with UltraServers), and their local disks go with them."
        )
    if any(one.root_device_type != "ebs" for one in instances):
        return "copy your data and launch a new one. Its root is an instance store, so it cannot be stopped."
    if any(one.lifecycle is Lifecycle.SPOT for one in instances):
        return "save your work. A Spot instance is launched anew rather than moved."
    return (
        "stop and start it before then, when it suits you: it then runs on other hardware. A stop wipes "
        "local disks, and a start needs free capacity."
    )


def block_delivered_alert(
    notice: Notice,
    ends_at: UtcDatetime,
    instances: Sequence[Instance],
    owner: Owner,
    now: UtcDatetime,
) -> Alert:
    """Return that a Capacity Block has begun: it is paid for whether it is used or not."""
    end = clock(ends_at, owner.time_zone, now)
    return alert_of(
        AlertKind.SCHEDULED_CHANGE,
        Severity.INFO,
        Target(notice.account, notice.region),
        f"Capacity Block {notice.reservation_id} is ready until {end}",
        [
            f"The Capacity Block {notice.reservation_id} has begun and ends at {end}. It is paid in full, "
            "whether it is used or not.",
            f"Instances in it: {', '.join(map(named, instances)) or 'none yet'}.",
        ],
        f"delivered-{notice.message_key}-{owner.key}",
        now,
        owner=owner,
        facts={
            "what": "Capacity Block delivered",
            "capacity_reservation_id": notice.reservation_id,
            "ends_at": iso(ends_at),
            "instance_ids": _ids(instances),
        },
    )


def block_expiring_alert(
    reservation_id: str,
    instances: Sequence[Instance],
    terminated_from: UtcDatetime,
    owner: Owner,
    now: UtcDatetime,
    event_id: str,
) -> Alert:
    """Return the last warning of a Capacity Block: its instances are terminated in minutes."""
    end = clock(terminated_from, owner.time_zone, now)
    return alert_of(
        AlertKind.SCHEDULED_CHANGE,
        Severity.CRITICAL,
        instances[0].target,
        f"Capacity Block {reservation_id} ends: its instances are terminated from {end}",
        [
            f"EC2 begins to terminate these instances at about {end}: {', '.join(map(named, instances))}.",
            "Save your work now. Their local disks go with them.",
        ],
        f"expiring-{event_id}-{owner.key}",
        now,
        owner=owner,
        instance=_only(instances),
        facts={
            "what": "Capacity Block expires",
            "capacity_reservation_id": reservation_id,
            "terminated_from": iso(terminated_from),
            "instance_ids": _ids(instances),
        },
    )
