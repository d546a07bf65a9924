"""Makes the observation of a judged instance, which the next sweep reads.

This module must not read from or write to AWS.
"""

from __future__ import annotations

from typing import NamedTuple

from governor.core.units import UtcDatetime
from governor.episode.model.episode import Observation
from governor.evidence.model import MetricSource
from governor.evidence.rules.series import Dimensions
from governor.money.rules.cost import Rate
from governor.sweep.sweep_case import GPU_CHECK_EVERY, Case
from governor.verdict.model import LEFT_ALONE, WORKING


class _MetricSeries(NamedTuple):
    """How the next sweep finds the metric series of an instance."""

    source: str | None
    dimensions: tuple[Dimensions, ...] | None
    searched_at: UtcDatetime | None
    next_gpu_check_at: UtcDatetime | None


def observation_of(case: Case, rate: Rate | None = None) -> Observation:
    """Return the observation that the next sweep reads. Without a `rate`, project, job, price
    and owner stay as the previous sweep observed them."""
    previous = case.previous
    verdict = case.verdict
    memory = case.new_memory
    series = _metric_series(case)
    people_know_it_is_silent = previous.told_silent or case.notified
    project = previous.project
    usd_per_hour = previous.usd_per_hour
    counted_for = previous.counted_for
    job = previous.job
    if rate is not None:
        project = rate.project
        usd_per_hour = rate.usd_per_hour
        counted_for = rate.owner
        job = rate.job
    return Observation(
        launch_time=case.instance.launch_time,
        verdict=verdict.kind.value,
        at=case.listed.now,
        reason=verdict.reason,
        policy_version=case.listed.applied.version,
        last_busy=verdict.last_busy,
        source=series.source,
        dimensions=series.dimensions,
        searched_at=series.searched_at,
        next_gpu_check_at=series.next_gpu_check_at,
        told_silent=case.has_no_data and people_know_it_is_silent,
        advice=verdict.advice,
        idle_parts=verdict.idle_parts,
        idle_since=memory.idle_since,
        late_since=memory.late_since,
        idle_told_at=_idle_told_at(case),
        managed_told_at=_managed_told_at(case),
        last_known=_last_known(case),
        is_late=verdict.is_late,
        project=project,
        usd_per_hour=usd_per_hour,
        counted_for=counted_for,
        job=job,
    )


def _metric_series(case: Case) -> _MetricSeries:
    """Return how the next sweep finds the metric series: as this sweep found them, or as before
    if this sweep read none."""
    previous = case.previous
    next_gpu_check_at = case.first_gpu_check_at or previous.next_gpu_check_at
    if case.gathered is None:
        return _MetricSeries(
            previous.source, previous.dimensions, previous.searched_at, next_gpu_check_at
        )
    source = previous.source
    if case.gathered.evidence.source is not MetricSource.NONE:
        source = case.gathered.evidence.source.value
    if case.listed.is_gpu_check_due:
        # This sweep read each GPU once. The next sweeps watch the cheaper aggregate again.
        source = MetricSource.AGGREGATE.value
        next_gpu_check_at = case.listed.now + GPU_CHECK_EVERY
    searched_at = case.listed.now if case.gathered.searched else previous.searched_at
    return _MetricSeries(source, case.gathered.dimensions, searched_at, next_gpu_check_at)


def _idle_told_at(case: Case) -> UtcDatetime | None:
    """Return when the event that the instance is idle was published since it last worked; `None` if
    it was not, or the instance works now."""
    if case.verdict.kind in WORKING:
        return None
    notified_at = case.listed.now if case.notified and case.is_idle else None
    return case.previous.idle_told_at or notified_at


def _managed_told_at(case: Case) -> UtcDatetime | None:
    """Return when the owner of the instance's environment was last notified; `None` if never, or
    if no other service runs the instance."""
    if case.verdict.manager is None:
        return None
    return case.listed.now if case.notified else case.previous.managed_told_at


def _last_known(case: Case) -> str | None:
    """Return the newest verdict that came from data; `None` if there was none.

    Without data, or while the instance is exempt or kept, the earlier verdict stands.
    """
    kind = case.verdict.kind
    if case.has_no_data or kind in LEFT_ALONE:
        return case.previous.last_known
    return kind.value
