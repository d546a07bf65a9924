"""The words of messages about instances that publish no usable metrics."""

from __future__ import annotations

from collections.abc import Sequence

from governor.domain.alerts.alert import Alert, AlertKind, Severity, alert_of, named
from governor.domain.alerts.owner import Owner
from governor.domain.instance import Instance, Target
from governor.domain.units import UtcDatetime, iso

_NAMED = 50
"""Instances named in the text; the facts hold all."""


def silent_alert(
    target: Target,
    silent: Sequence[tuple[Instance, str]],
    owner: Owner,
    now: UtcDatetime,
    *,
    outage: bool,
) -> Alert:
    """Return one message about instances, each with what is wrong with it; those of one owner, or with
    `outage` those of all.

    Raises:
        ValueError: there is none.
    """
    if not silent:
        raise ValueError("there is nothing to report")
    instances = [one for one, _ in silent]
    count, first = len(instances), instances[0]
    which = first.name if count == 1 else f"{count} GPU instances"
    return alert_of(
        AlertKind.TELEMETRY_SILENT,
        Severity.WARNING,
        target,
        f"No metrics: {which} in {target}",
        [
            f"{which} published no usable GPU metrics. What is not measured is never judged idle, however "
            "much it costs.",
            "So many at once have one cause, so their owners are not notified one by one." if outage else "",
            "Next step: `governor doctor` names what is wrong with each one and how to repair it.",
            "The instances:",
            *(f"- {named(one)}: {why}" for one, why in silent[:_NAMED]),
            f"- and {count - _NAMED} more" if count > _NAMED else "",
        ],
        f"silent-{target}-{iso(now)}-{owner.key}",
        now,
        owner=owner,
        instance=first if count == 1 else None,
        facts={"instance_ids": [one.instance_id for one in instances], "outage": outage},
    )
