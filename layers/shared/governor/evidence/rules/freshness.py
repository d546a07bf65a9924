"""Judges how old the newest readings of an instance are, before an action that no person has
approved.

This module judges ages alone. Whether the readings show idleness is for `verdict` to say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta

from governor.core.units import END_BIN, UtcDatetime, in_utc, minutes, span
from governor.evidence.model import Evidence, GpuReadings, MetricSource
from governor.evidence.rules.figures import (
    FIGURES,
    Publisher,
    confirming_figures,
    is_published_by,
    required_figures,
)
from governor.evidence.rules.series import last_reading_end, peak
from governor.policy.model.judging import Metrics
from governor.policy.model.policy import Policy
from governor.policy.model.profiles import part_word

MINUTE = timedelta(minutes=1)
OLDEST_READING_MINUTES = 5
"""How long ago the newest reading of every GPU may have ended. It is the promise of
`docs/trust.md`, "How soon work is noticed", and covers the default lag of 2 minutes twice."""
OLDEST_5_MINUTE_READING_MINUTES = 10
"""The same for readings of 5 minutes: EC2's own figures, and GPUs whose agent collects less than
once a minute. The newest whole one may have ended 5 minutes earlier."""
_OLDEST_READING_OF_5_MINUTES = timedelta(minutes=OLDEST_5_MINUTE_READING_MINUTES)
MOST_AHEAD = timedelta(hours=2)
"""CloudWatch accepts a reading dated at most this far ahead. Source: API, PutMetricData."""


def reading_period(metrics: Metrics) -> timedelta:
    """Return the period by which the newest GPU readings are read: a minute, or five where the
    agent collects less than once a minute."""
    return MINUTE if metrics.collection_interval_seconds <= 60 else END_BIN


def oldest_gpu_reading(metrics: Metrics) -> timedelta:
    """Return how long ago the newest period with a reading of each GPU may have ended at
    most."""
    if reading_period(metrics) == MINUTE:
        return timedelta(minutes=OLDEST_READING_MINUTES)
    return _OLDEST_READING_OF_5_MINUTES


def unseen_minutes(metrics: Metrics, *, unasked: bool) -> int:
    """Return for how many minutes work may go on without a recheck seeing it.

    The window of a recheck ends at a whole period, at least the lag ago, and its newest five
    minutes hold at least one reading of every GPU. An action `unasked` needs a newer reading, which
    shows nothing of the time after its own beginning.
    """
    lag = timedelta(seconds=metrics.lag_seconds)
    period = timedelta(seconds=metrics.period_seconds)
    most = lag + period + max(END_BIN, period)
    if unasked:
        most = min(most, oldest_gpu_reading(metrics) + reading_period(metrics))
    return math.ceil(most / MINUTE)


def why_stale(evidence: Evidence, policy: Policy, now: UtcDatetime) -> str | None:
    """Return why the newest readings are too old, or are not those of every GPU; `None` if they are
    new and complete.

    `evidence` has the periods of `reading_period`, and its window ends `MOST_AHEAD` after `now`.
    """
    return (
        _why_gpus_stale(evidence, policy, now)
        or _why_figures_stale(evidence, policy, now)
        or _why_power_stale(evidence, policy, now)
    )


def newest_reading_offset(evidence: Evidence, now: UtcDatetime) -> timedelta:
    """Return how far from `now` the newest reading of any GPU is dated: above zero if it begins
    later, below zero if it has ended.

    Return zero if it holds `now`, or if there is no reading.
    """
    measured = []
    for gpu in evidence.gpus:
        if peak(gpu.utilization) is not None:
            measured.append(gpu.utilization)
    if not measured:
        return timedelta(0)
    ended = max(last_reading_end(series, evidence.window) for series in measured)
    began = ended - evidence.window.period
    if began > now:
        return began - now
    return min(ended - now, timedelta(0))


def why_never_fresh(policy: Policy) -> Iterator[str]:
    """Yield the reasons for which a policy's readings, of GPUs or of EC2's own figures, are always
    or often too old to act without a person's approval; none if they are new enough."""
    metrics = policy.metrics
    collected = timedelta(seconds=metrics.collection_interval_seconds)
    oldest = oldest_gpu_reading(metrics)
    if collected + policy.lag > oldest:
        yield (
            f"the newest GPU reading may be {span(collected + policy.lag)} old "
            f"(metrics.collection_interval_seconds: {metrics.collection_interval_seconds}, "
            f"metrics.lag_seconds: {metrics.lag_seconds}), and at most {minutes(oldest)} min "
            "are allowed"
        )
    ec2_figures = []
    for figure in required_figures(policy):
        if is_published_by(figure, Publisher.EC2):
            ec2_figures.append(figure)
    if ec2_figures and END_BIN + policy.lag > _OLDEST_READING_OF_5_MINUTES:
        words = " and ".join(FIGURES[figure].words for figure in ec2_figures)
        yield (
            f"EC2's newest reading of {words} may be {span(END_BIN + policy.lag)} old "
            f"(metrics.lag_seconds: {metrics.lag_seconds}), and at most "
            f"{OLDEST_5_MINUTE_READING_MINUTES} min are allowed"
        )


def _why_gpus_stale(evidence: Evidence, policy: Policy, now: UtcDatetime) -> str | None:
    """Return why the newest readings of the GPUs are too old or incomplete: none was read, GPUs are
    missing, or one series stands for several. Return `None` if they are not."""
    word = part_word(policy.metrics)
    if not evidence.gpus:
        return f"no {word} has published a reading in the last 30 minutes"
    if evidence.source is MetricSource.AGGREGATE and evidence.gpus_expected != 1:
        return (
            f"the newest reading of each {word} is not known, because only one series for "
            f"all {word}s is published; publish a series for each {word}"
        )
    reporting = [gpu for gpu in evidence.gpus if peak(gpu.utilization) is not None]
    if evidence.gpus_expected is None or len(reporting) < evidence.gpus_expected:
        return _why_gpus_missing(len(reporting), evidence.gpus_expected, word)
    for gpu in evidence.gpus:
        reason = _why_gpu_stale(gpu, evidence, policy, now)
        if reason is not None:
            return reason
    return None


def _why_gpus_missing(reporting: int, expected: int | None, word: str) -> str:
    """Return the reason that not every GPU is known to have a reading. `expected` is `None` if
    nobody knows how many GPUs the instance has; `word` is what they are called (`part_word`)."""
    if expected is None:
        return (
            f"{reporting} {word}s published a reading lately, and it is not known how "
            "many the instance has"
        )
    return f"only {reporting} of {expected} {word}s published a reading lately"


def _why_gpu_stale(
    gpu: GpuReadings, evidence: Evidence, policy: Policy, now: UtcDatetime
) -> str | None:
    """Return why the newest reading of one GPU is too old, or is dated ahead; `None` if neither."""
    window = evidence.window
    word = part_word(policy.metrics)
    label = f"the {word}" if gpu.gpu == "all" else f"{word} {gpu.gpu}"
    ended = last_reading_end(gpu.utilization, window)
    if ended - window.period > now:
        # The clock is wrong by an unknown time, so no date says how old a reading is.
        return (
            f"the clock of the instance is ahead: {label} has a reading dated "
            f"{in_utc(ended)}; set the clock"
        )
    allowed = oldest_gpu_reading(policy.metrics)
    if now - ended > allowed:
        return _too_old(f"the newest reading of {label}", ended, allowed)
    return None


def _why_figures_stale(evidence: Evidence, policy: Policy, now: UtcDatetime) -> str | None:
    """Return why the newest reading of a figure that may veto is too old or missing; `None` if none
    is."""
    for figure in required_figures(policy):
        allowed = oldest_gpu_reading(policy.metrics)
        if is_published_by(figure, Publisher.EC2):
            allowed = _OLDEST_READING_OF_5_MINUTES
        what = f"the newest reading of {FIGURES[figure].words}"
        ended = evidence.last_measured.get(figure)
        if ended is None:
            return f"{what} is missing"
        if now - ended > allowed:
            return _too_old(what, ended, allowed)
    return None


def _why_power_stale(evidence: Evidence, policy: Policy, now: UtcDatetime) -> str | None:
    """Return why the newest reading of power is too old to confirm the utilization; `None` if one
    of its figures is new enough, or none was read in the last 30 minutes.

    Whether power must be measured at all is for `verdict.rules.second_figure` to say.
    """
    reasons: list[str] = []
    for figure in confirming_figures():
        ended = evidence.last_measured.get(figure)
        if ended is None or not evidence.measured_percent.get(figure):
            continue
        allowed = oldest_gpu_reading(policy.metrics)
        if is_published_by(figure, Publisher.EC2_GPU):
            allowed = _OLDEST_READING_OF_5_MINUTES
        if now - ended <= allowed:
            return None
        reasons.append(_too_old(f"the newest reading of {FIGURES[figure].words}", ended, allowed))
    return reasons[0] if reasons else None


def _too_old(reading: str, ended: UtcDatetime, allowed: timedelta) -> str:
    """Return the sentence that a reading is too old, such as `the newest reading of power`, which
    ended then. `allowed` is how old it may be for an action without a person's approval."""
    return (
        f"{reading} ended at {in_utc(ended)}; without a person's approval it may be at most "
        f"{minutes(allowed)} min old"
    )
