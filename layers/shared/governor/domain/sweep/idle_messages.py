"""The event that an instance has become idle: for machines, long before any person is asked."""

from __future__ import annotations

from governor.domain.alerts.alert import Alert, AlertKind, Severity, alert_of
from governor.domain.alerts.owner import Owner
from governor.domain.instance import Instance
from governor.domain.sweep.verdict import Verdict
from governor.domain.units import UtcDatetime, iso


def idle_event(
    instance: Instance, verdict: Verdict, idle_since: UtcDatetime, owner: Owner, now: UtcDatetime
) -> Alert:
    """Return the event, sent once per idle stretch. Mail and chat leave out this kind."""
    return alert_of(
        AlertKind.INSTANCE_IDLE,
        Severity.INFO,
        instance.target,
        f"Idle: {instance.name} ({instance.instance_type})",
        (f"{instance.name} ({instance.instance_id}): {verdict.reason}", "Nobody was asked yet."),
        f"instance-idle-{instance.instance_id}-{iso(idle_since)}",
        now,
        owner=owner,
        instance=instance,
        facts={"idle_since": iso(idle_since), "reason": verdict.reason},
    )
