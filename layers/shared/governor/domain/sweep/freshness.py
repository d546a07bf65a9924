"""Freshness: how old the newest readings of an instance are, before something is done that no
person has approved. This module judges ages alone; whether the readings show idleness is for
`verdict` to say."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta

from governor.domain.evidence import (
    END_BIN,
    Evidence,
    GpuReadings,
    MetricSource,
    last_reading_end,
    peak,
)
from governor.domain.policy.policy import Metrics, Policy
from governor.domain.sweep.verdict import FIGURES, required_figures
from governor.domain.units import UtcDatetime, in_utc, minutes, span

MINUTE = timedelta(minutes=1)
MOST_AHEAD = timedelta(hours=2)
"""CloudWatch accepts a reading that is dated at most this far ahead. Source: API, PutMetricData."""
_EC2_FIGURES = ("cpu", "network")
"""EC2 publishes these itself, every five minutes."""


def reading_period(metrics: Metrics) -> timedelta:
    """Return the period by which the newest GPU readings are read: a minute, or five where the
    agent collects less than once a minute."""
    return MINUTE if metrics.collection_interval_seconds <= 60 else END_BIN


def oldest_gpu_reading(metrics: Metrics) -> timedelta:
    """Return how long ago the newest period of every GPU may have ended."""
    if reading_period(metrics) == MINUTE:
        return timedelta(minutes=metrics.unasked_newest_reading_minutes)
    return _oldest_reading_of_5_minutes(metrics)


def _oldest_reading_of_5_minutes(metrics: Metrics) -> timedelta:
    return timedelta(minutes=metrics.unasked_newest_5_minute_reading_minutes)


def unseen_minutes(metrics: Metrics, *, unasked: bool) -> int:
    """Return for how many minutes work may have gone on that a recheck does not see.

    The window of a recheck ends at a whole period, at least the lag ago, and its newest five
    minutes hold at least one reading of every GPU. What is done `unasked` needs a newer one; it
    says nothing about what came after its beginning.
    """
    lag = timedelta(seconds=metrics.lag_seconds)
    period = timedelta(seconds=metrics.period_seconds)
    most = lag + period + max(END_BIN, period)
    if unasked:
        most = min(most, oldest_gpu_reading(metrics) + reading_period(metrics))
    return math.ceil(most / MINUTE)


def why_stale(evidence: Evidence, policy: Policy, now: UtcDatetime) -> str | None:
    """Return why the newest readings are too old, or are not those of every GPU; `None` if they are
    not.

    `evidence` is read by `reading_period`, and `MOST_AHEAD` beyond `now`.
    """
    reasons = (_why_gpus_stale(evidence, policy, now), _why_figures_stale(evidence, policy, now))
    return next((reason for reason in reasons if reason is not None), None)


def why_never_fresh(policy: Policy) -> Iterator[str]:
    """Yield why a policy's readings are always or often too old to act without a person's
    approval."""
    metrics = policy.metrics
    names = [
        "metrics.unasked_newest_reading_minutes",
        "metrics.unasked_newest_5_minute_reading_minutes",
    ]
    name = names[0] if reading_period(metrics) == MINUTE else names[1]
    collected = timedelta(seconds=metrics.collection_interval_seconds)
    if collected + policy.lag > oldest_gpu_reading(policy.metrics):
        yield (
            f"the newest GPU reading may be {span(collected + policy.lag)} old "
            f"(metrics.collection_interval_seconds: {metrics.collection_interval_seconds}, "
            f"metrics.lag_seconds: {metrics.lag_seconds}), and {name} allows "
            f"{minutes(oldest_gpu_reading(policy.metrics))} min"
        )
    of_ec2 = [figure for figure in required_figures(policy) if figure in _EC2_FIGURES]
    if of_ec2 and END_BIN + policy.lag > _oldest_reading_of_5_minutes(policy.metrics):
        words = " and ".join(FIGURES[figure].words for figure in of_ec2)
        yield (
            f"EC2's newest reading of {words} may be {span(END_BIN + policy.lag)} old "
            f"(metrics.lag_seconds: {metrics.lag_seconds}), and {names[1]} allows "
            f"{minutes(_oldest_reading_of_5_minutes(policy.metrics))} min"
        )


def _why_gpus_stale(evidence: Evidence, policy: Policy, now: UtcDatetime) -> str | None:
    if not evidence.gpus:
        return "no GPU has published a reading in the last 30 minutes"
    if evidence.source is MetricSource.AGGREGATE and evidence.gpus_expected != 1:
        return (
            "the newest reading of each GPU is not known, because only one series for "
            "all GPUs is published; "
            "publish a series for each GPU"
        )
    reporting = [gpu for gpu in evidence.gpus if peak(gpu.utilization) is not None]
    if evidence.gpus_expected is None or len(reporting) < evidence.gpus_expected:
        return _why_gpus_missing(len(reporting), evidence.gpus_expected)
    reasons = (_why_gpu_stale(gpu, evidence, policy, now) for gpu in evidence.gpus)
    return next((reason for reason in reasons if reason is not None), None)


def _why_gpus_missing(reporting: int, expected: int | None) -> str:
    if expected is None:
        return (
            f"{reporting} GPUs published a reading lately, and it is not known how "
            "many the instance has"
        )
    return f"only {reporting} of {expected} GPUs published a reading lately"


def _why_gpu_stale(
    gpu: GpuReadings, evidence: Evidence, policy: Policy, now: UtcDatetime
) -> str | None:
    window = evidence.window
    who = "the GPU" if gpu.gpu == "all" else f"GPU {gpu.gpu}"
    ended = last_reading_end(gpu.utilization, window)
    if ended - window.period > now:
        # Its dates are wrong by an unknown time, so none of them says how old a reading is.
        return (
            f"the clock of the instance is ahead: {who} has a reading dated "
            f"{in_utc(ended)}; set the clock"
        )
    allowed = oldest_gpu_reading(policy.metrics)
    if now - ended > allowed:
        return _too_old(f"the newest reading of {who}", ended, allowed)
    return None


def _why_figures_stale(evidence: Evidence, policy: Policy, now: UtcDatetime) -> str | None:
    for figure in required_figures(policy):
        allowed = oldest_gpu_reading(policy.metrics)
        if figure in _EC2_FIGURES:
            allowed = _oldest_reading_of_5_minutes(policy.metrics)
        what = f"the newest reading of {FIGURES[figure].words}"
        ended = evidence.last_measured.get(figure)
        if ended is None:
            return f"{what} is missing"
        if now - ended > allowed:
            return _too_old(what, ended, allowed)
    return None


def _too_old(what: str, ended: UtcDatetime, allowed: timedelta) -> str:
    return (
        f"{what} ended at {in_utc(ended)}; without a person's approval it may be at most "
        f"{minutes(allowed)} min old"
    )
