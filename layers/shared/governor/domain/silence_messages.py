"""What is told about instances that publish no usable metrics. Pure wording, as `notice_messages`."""

from __future__ import annotations

from collections.abc import Sequence

from governor.domain.alert import Alert, AlertKind, Severity, short_hash
from governor.domain.instance import Instance, Target
from governor.domain.units import UtcDatetime, iso

_NAMED = 50
"""Instances named in the text; the facts hold all."""


def silent_alert(
    target: Target,
    silent: Sequence[tuple[Instance, str]],
    owner: str,
    project: str,
    now: UtcDatetime,
    *,
    outage: bool,
) -> Alert:
    """Instances with what is wrong with each; those of one owner, or with `outage` those of all.

    Raises:
        ValueError: there is none.
    """
    if not silent:
        raise ValueError("there is nothing to tell")
    first = silent[0][0]
    count = len(silent)
    which = first.name if count == 1 else f"{count} GPU instances"
    lines = [f"{which} published no usable GPU metrics; what is not measured is never judged idle."]
    if outage:
        lines.append("So many at once have one cause, and so their owners are not told one by one.")
    lines += [f"{one.instance_id} ({one.name}): {reason}" for one, reason in silent[:_NAMED]]
    if count > _NAMED:
        lines.append(f"... and {count - _NAMED} more")
    lines.append("`governor doctor` says for each what is wrong with its telemetry and what to do.")
    return Alert(
        kind=AlertKind.TELEMETRY_SILENT,
        severity=Severity.WARNING,
        account=target.account,
        region=target.region,
        subject=f"No metrics: {which} in {target}",
        lines=tuple(lines),
        dedup_id=f"silent-{target}-{iso(now)}-{short_hash(owner, project)}",
        at=now,
        instance_id=first.instance_id if count == 1 else None,
        owner=owner,
        project=project,
        facts={"instance_ids": [one.instance_id for one, _ in silent], "outage": outage},
    )
