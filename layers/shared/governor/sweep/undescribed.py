"""Counts, costs, observation and row of an instance that EC2 does not describe.

The instance keeps what the last sweep knew of it. Nothing here may guess what EC2 would say of it,
and nothing may be done about it.
"""

from __future__ import annotations

from dataclasses import replace

from governor.core.units import clip
from governor.episode.model.episode import Observation
from governor.fleet.model import REASON_CHARACTERS, FleetRow, hours_of, part_of
from governor.money.rules.cost import UNTAGGED, Rate
from governor.policy.model.contacts import Ownership
from governor.sweep.sweep_case import Sweep, UndescribedInstance

_UNKNOWN_TYPE = "unknown"
"""In place of the type on the row of an instance that no sweep has seen described."""


def sum_up_undescribed(sweep: Sweep) -> None:
    """Add to the summary how many instances EC2 does not describe, as such without data, and the
    problem of each."""
    for undescribed in sweep.undescribed:
        sweep.summary.verdicts[undescribed.verdict.kind.value] += 1
        sweep.summary.problems.append(f"{undescribed.id}: {undescribed.problem}")


def last_rate(undescribed: UndescribedInstance, ownership: Ownership) -> Rate:
    """Return the rate of the last sweep, for hours that nobody has measured. It has no price if the
    instance may have stopped. If no sweep counted the instance, return one without a project or
    price, of the policy's default owner."""
    previous = undescribed.previous
    part = part_of(undescribed.verdict.kind)
    if previous.project is None:
        return Rate(UNTAGGED, None, ownership.default_owner, part)
    rate = Rate(
        previous.project, previous.usd_per_hour, previous.counted_for, part, job=previous.job
    )
    # An amount may not include hours in which the instance may have been stopped.
    return rate if undescribed.is_named else rate._replace(usd_per_hour=None)


def observation_of_undescribed(undescribed: UndescribedInstance) -> Observation:
    """Return the observation that the next sweep reads: the last one, without what it said of work
    and idleness."""
    return replace(
        undescribed.previous,
        verdict=undescribed.verdict.kind.value,
        at=undescribed.now,
        reason=undescribed.verdict.reason,
        last_busy=None,
        idle_since=None,
        advice=(),
        idle_parts=None,
        is_late=False,
    )


def row_of_undescribed(
    undescribed: UndescribedInstance,
    rate: Rate,
    previous_row: FleetRow | None,
    hours_passed: int,
) -> FleetRow:
    """Return the row of the console, with the name, type, manager and hours of the previous row,
    whose hours are moved on by `hours_passed`; without one (`None`), with the id as the name. What
    the state table has of the instance has yet to be added."""
    target = undescribed.record.target
    owner, project = rate.whose
    row = FleetRow(
        instance_id=undescribed.id,
        name=undescribed.id,
        account=target.account,
        region=target.region,
        instance_type=_UNKNOWN_TYPE,
        owner=owner,
        project=project,
        verdict=undescribed.verdict.kind.value,
        reason=clip(undescribed.verdict.reason, REASON_CHARACTERS),
        usd_per_hour=rate.usd_per_hour,
        launched_at=undescribed.previous.launch_time,
    )
    if previous_row is None:
        return row
    return replace(
        row,
        name=previous_row.name,
        instance_type=previous_row.instance_type,
        managed_by=previous_row.managed_by,
        hours=hours_of(previous_row.hours, hours_passed, [], undescribed.now),
    )
