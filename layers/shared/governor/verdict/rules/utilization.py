"""Judges the utilization of GPUs: whether one was active, how many are idle, and whether all were
measured enough.

Activity counts even in an incomplete reading; idleness needs a complete one.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from governor.core.units import in_utc, minutes, not_none, span
from governor.evidence.model import Evidence, GpuReadings, MetricSource, Series
from governor.evidence.rules.series import (
    END,
    coverage_percent,
    last_at_or_above,
    last_reading_end,
    mean,
    newest_peak,
    padded,
    peak,
)
from governor.policy.model.judging import Metrics
from governor.policy.model.policy import Policy
from governor.policy.model.profiles import GPU, ProfileName, part_word, profile_of_names
from governor.verdict.model import IdleParts, Verdict, VerdictKind
from governor.verdict.rules.proof import (
    LATE,
    busy,
    is_covered_but_for_one_hole,
    newest_minutes,
    no_data,
    of_needed_text,
)


def judge_utilization(evidence: Evidence, policy: Policy) -> Verdict | None:
    """Return busy or partly idle if a GPU reached the threshold, whatever else is missing; no data
    if too little was measured, because a read failed, GPUs are silent, or some of the window was
    not measured. Return `None` if every GPU was measured enough and stayed under the threshold."""
    # Activity counts even if the read was cut short or GPUs are missing: doubt only ever keeps.
    last_active_bin = _last_active_bin(evidence, policy)
    if last_active_bin is not None:
        return _busy_by_utilization(evidence, policy, last_active_bin)
    if evidence.read_problem is not None:
        reason = f"metrics could not be read: {evidence.read_problem}; tried again next sweep"
        return no_data(evidence, reason)
    if evidence.source is MetricSource.NONE or not evidence.gpus:
        # A window of less than half an hour cannot tell silence from lateness.
        is_late = evidence.window.length < LATE
        return no_data(evidence, _silence(evidence, policy), is_late=is_late)
    silent_at_end = _judge_end(evidence, policy)
    if silent_at_end is not None:
        return silent_at_end
    reason_uncovered = _why_uncovered(evidence, policy)
    if reason_uncovered is not None:
        return no_data(evidence, reason_uncovered)
    return None


def _last_active_bin(evidence: Evidence, policy: Policy) -> int | None:
    """Return the newest period in which a GPU reached the threshold; `None` if none did."""
    threshold = policy.idle.utilization_below_percent
    last_bins = [last_at_or_above(series, threshold) for series in utilization_series(evidence)]
    return max(not_none(last_bins), default=None)


def _judge_end(evidence: Evidence, policy: Policy) -> Verdict | None:
    """Return a no-data verdict if a GPU was not measured in the two newest bins of five minutes;
    `None` if every GPU was."""
    window = evidence.window
    unmeasured = [gpu for gpu in evidence.gpus if newest_peak(gpu.utilization, window, END) is None]
    if not unmeasured:
        return None
    last_reading, label = min(
        (last_reading_end(gpu.utilization, window), _label(gpu, policy)) for gpu in unmeasured
    )
    if last_reading < window.end:
        reason = f"{label} published nothing in the newest {span(window.end - last_reading)}"
    else:
        reason = f"{label} has missing readings in the newest {newest_minutes(window)} min"
    return no_data(evidence, reason, is_late=is_covered_but_for_one_hole(evidence, policy))


def _why_uncovered(evidence: Evidence, policy: Policy) -> str | None:
    """Return why too little utilization was measured, over the window or of some GPU; `None` if
    enough was."""
    window = evidence.window
    if window.length < policy.window:
        wanted_minutes = policy.idle.window_minutes
        read_minutes = minutes(window.length)
        return f"the policy looks at {wanted_minutes} min, but only {read_minutes} min were read"
    for gpu in evidence.gpus:
        percent = coverage_percent(padded(gpu.utilization, window))
        if percent < policy.idle.minimum_coverage_percent:
            return f"{_label(gpu, policy)} was measured {of_needed_text(percent, policy)}"
    return _why_gpus_uncounted(evidence, policy.metrics)


def _why_gpus_uncounted(evidence: Evidence, names: Metrics) -> str | None:
    """Return why not exactly the expected GPUs are known to publish: the type is not known, or too
    many or too few publish. Return `None` if they are."""
    word = part_word(names)
    expected = evidence.gpus_expected
    if expected is None:
        return f"the catalog does not say how many {word}s the type has"
    if evidence.gpus_reporting is not None and evidence.gpus_reporting > expected:
        suspect = "metrics.collection_interval_seconds does not fit the agent"
        if evidence.source is MetricSource.PER_GPU:
            suspect = "the catalog or the agent's dimensions are wrong"
            if names.profile is ProfileName.CUSTOM:
                suspect = "metrics.series_per_device does not fit the publisher"
        return (
            f"{evidence.gpus_reporting} {word}s seem to publish where {expected} exist: {suspect}"
        )
    reporting = _reporting(evidence)
    if reporting is not None and reporting < expected:
        seen = f"only {reporting} of {expected} {word}s publish utilization"
        return f"{seen} ({_hider(word)} hides some)"
    return None


def _reporting(evidence: Evidence) -> int | None:
    """Return how many GPUs publish: with a series for each GPU, never more than there are series.
    Return `None` if their number is not known."""
    if evidence.source is not MetricSource.PER_GPU:
        return evidence.gpus_reporting
    series_count = len(evidence.gpus)
    if evidence.gpus_reporting is None:
        return series_count
    return min(series_count, evidence.gpus_reporting)


def _busy_by_utilization(evidence: Evidence, policy: Policy, last_active_bin: int) -> Verdict:
    """Return busy, or partly idle if some GPUs worked while others were measured as idle."""
    window = evidence.window
    threshold = policy.idle.utilization_below_percent
    busy_gpus: list[GpuReadings] = []
    idle_gpus: list[GpuReadings] = []
    for gpu in evidence.gpus:
        percent = coverage_percent(padded(gpu.utilization, window))
        if last_at_or_above(gpu.utilization, threshold) is not None:
            busy_gpus.append(gpu)
        elif percent >= policy.idle.minimum_coverage_percent:
            # A GPU that was measured too little counts as neither.
            idle_gpus.append(gpu)
    ended = window.bin_end(last_active_bin)
    highest = max(peaks_of(evidence))
    if not idle_gpus or not busy_gpus:
        reason = (
            f"utilization reached {highest:.1f}% in the last {_length_text(window.length)}, "
            f"last at {in_utc(ended)}"
        )
        return busy(evidence, policy, ended, reason)
    word = part_word(policy.metrics)
    work = "works" if len(busy_gpus) == 1 else "work"
    judged_count = len(idle_gpus) + len(busy_gpus)
    all_count = max(evidence.gpus_expected or 0, len(evidence.gpus))
    measured = "" if judged_count == all_count else "measured "
    reason = (
        f"{len(busy_gpus)} of {judged_count} {measured}{word}s {work} "
        f"(up to {highest:.1f}%), {len(idle_gpus)} stayed under {threshold:g}%"
    )
    return replace(
        busy(evidence, policy, ended, reason),
        kind=VerdictKind.PARTLY_IDLE,
        advice=(_right_size(evidence, busy_gpus, idle_gpus, word),),
        idle_parts=_idle_parts(evidence, policy.metrics, len(idle_gpus)),
    )


def _idle_parts(evidence: Evidence, names: Metrics, idle_count: int) -> IdleParts | None:
    """Return how many of all GPUs of the instance are idle. Return `None` if the number of its GPUs
    is not known, or if a series may not stand for exactly one of them."""
    total = evidence.gpus_expected
    series_count = len(evidence.gpus)
    if total is None or series_count > total:
        return None
    profile = profile_of_names(names)
    if profile is not None and profile.series_per_device > 1:
        return None
    word = part_word(names)
    if word != GPU and series_count < total:
        # Software may join two NeuronCores, which then publish one series.
        return None
    return IdleParts(idle_count, total, word)


def _right_size(
    evidence: Evidence, busy_gpus: list[GpuReadings], idle_gpus: list[GpuReadings], word: str
) -> str:
    """Return the advice that a type with fewer GPUs would do. `word` is what they are called
    (`part_word`)."""
    names = ", ".join(gpu.gpu for gpu in idle_gpus)
    average = sum(mean(gpu.utilization) or 0.0 for gpu in busy_gpus) / len(busy_gpus)
    # A GPU that was not measured may work, so it counts as needed.
    needed = max(evidence.gpus_expected or 0, len(evidence.gpus)) - len(idle_gpus)
    # A GPU is an accelerator; an accelerator of Neuron has several cores.
    accelerator = "accelerator" if word == GPU else word
    return (
        f"right-size: {_counted(word, len(idle_gpus))} {names} did nothing; {len(busy_gpus)} "
        f"worked, at {average:.0f}% on average. "
        f"A type with {needed} {_counted(accelerator, needed)} would do"
    )


def _counted(word: str, count: int) -> str:
    """Return the word with an `s` if there are several."""
    return f"{word}s" if count > 1 else word


def _length_text(length: timedelta) -> str:
    """Return the length of a window in minutes up to an hour, and in hours beyond, as `60 min` or
    `24 h`."""
    if length <= timedelta(hours=1):
        return f"{minutes(length)} min"
    return span(length)


def _hider(word: str) -> str:
    """Return what may keep a part of this name from being published. Only GPUs can be divided."""
    return "MIG or a broken agent" if word == GPU else "a broken agent"


def _silence(evidence: Evidence, policy: Policy) -> str:
    """Return the reason that nothing was published, with EC2's own figure if there is one."""
    metrics = policy.metrics
    silent_minutes = minutes(evidence.window.length)
    text = f"no {metrics.utilization} in {metrics.namespace} for {silent_minutes} min"
    power = evidence.agentless_power_percent
    if power is None:
        return text
    return f"{text}; EC2's own GPUPowerUtilization reached {power:.0f}%, which alone proves nothing"


def _label(gpu: GpuReadings, policy: Policy) -> str:
    """Return the name of a GPU for a sentence, such as `GPU 3`; `the instance` if the readings are
    those of its aggregate (`all`)."""
    return "the instance" if gpu.gpu == "all" else f"{part_word(policy.metrics)} {gpu.gpu}"


def utilization_series(evidence: Evidence) -> list[Series]:
    """Return all series of utilization: of each GPU, and of the whole instance."""
    return [*(gpu.utilization for gpu in evidence.gpus), evidence.aggregate]


def peaks_of(evidence: Evidence) -> list[float]:
    """Return the highest reading of each series of utilization that has one; empty if none has."""
    peaks = [peak(series) for series in utilization_series(evidence)]
    return not_none(peaks)
