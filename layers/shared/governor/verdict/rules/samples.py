"""Counts the samples in an aggregate of several GPUs, so that no GPU hides behind the others.

If too few samples show that a GPU may be missing, the verdict is no data, never idle.
"""

from __future__ import annotations

from datetime import timedelta

from governor.core.units import END_BIN, UtcDatetime
from governor.evidence.model import Evidence, MetricSource, Series
from governor.evidence.rules.series import (
    END,
    LONGEST_HOLE,
    newest_bins,
    padded,
)
from governor.policy.model.policy import Policy
from governor.verdict.model import Verdict
from governor.verdict.rules.proof import (
    LATE,
    is_covered_but_for_one_hole,
    newest_minutes,
    no_data,
    of_needed_text,
)


def judge_count(evidence: Evidence, policy: Policy) -> Verdict | None:
    """Return a no-data verdict if an aggregate does not show that all GPUs are in it, up to its
    end. Return `None` if it does, or no such aggregate was read (`gpus_in_aggregate` is `None`),
    also because it is not known how many GPUs the type has."""
    gpu_count = gpus_in_aggregate(evidence)
    if gpu_count is None:
        return None
    if evidence.gpus_reporting is None or not evidence.samples:
        reason = f"it is not known how many of {gpu_count} GPUs publish utilization"
        return no_data(evidence, reason)
    silent_at_end = _judge_counted_end(evidence, policy, gpu_count)
    return silent_at_end or _judge_counted_coverage(evidence, policy, gpu_count)


def _judge_counted_coverage(evidence: Evidence, policy: Policy, gpu_count: int) -> Verdict | None:
    """Return a no-data verdict if too few periods hold so many samples that no GPU can be missing;
    `None` if enough do. For an aggregate, this stands for the coverage of each GPU."""
    expected_collections = _collections_in(evidence.window.period, policy)
    most_with_one_hidden = (gpu_count - 1) * expected_collections
    # Whole collections may be missing, as at the end: agents drift and skip one.
    fewest_with_all = gpu_count * max(1, expected_collections - _most_missing_collections(policy))
    sample_counts = padded(evidence.samples, evidence.window)
    full_periods = 0
    for samples in sample_counts:
        count = samples or 0.0
        is_whole = count % gpu_count == 0 and count >= fewest_with_all
        if count > most_with_one_hidden or is_whole:
            full_periods += 1
    percent = 100.0 * full_periods / len(sample_counts)
    if percent >= policy.idle.minimum_coverage_percent:
        return None
    reason = f"all {gpu_count} GPUs were measured {of_needed_text(percent, policy)}"
    return no_data(evidence, reason)


def _judge_counted_end(evidence: Evidence, policy: Policy, gpu_count: int) -> Verdict | None:
    """Return a no-data verdict if the newest bins lack samples of a GPU; `None` if they have those
    of all. For an aggregate, this stands for the newest readings of each GPU."""
    window = evidence.window
    bins = newest_bins(evidence.samples, window, END) or []
    counts = [_total(samples) for samples in bins]
    expected_collections = _collections_in(len(counts) * max(END_BIN, window.period), policy)
    fewest = gpu_count * (expected_collections - _most_missing_collections(policy))
    # Only whole collections may be missing. A part of one could be that of a hidden GPU.
    are_whole_collections = all(count % gpu_count == 0 for count in counts)
    is_complete = are_whole_collections and sum(counts) >= fewest
    has_all_in_each_bin = bool(counts) and min(counts) >= gpu_count
    if has_all_in_each_bin and is_complete:
        return None
    reason = f"not all of {gpu_count} GPUs published in the newest {newest_minutes(window)} min"
    may_come = _have_all_published_lately(evidence, policy, gpu_count)
    is_late = may_come and is_covered_but_for_one_hole(evidence, policy)
    return no_data(evidence, reason, is_late=is_late)


def _have_all_published_lately(evidence: Evidence, policy: Policy, gpu_count: int) -> bool:
    """Return whether a period of the last half hour holds the samples of all GPUs: one GPU fewer
    could not publish as many."""
    window = evidence.window
    full_count = gpu_count * _collections_in(window.period, policy)
    newest_counts = padded(evidence.samples, window)[-LATE // window.period :]
    return any((samples or 0.0) >= full_count for samples in newest_counts)


def _total(samples: Series) -> float:
    """Return the sum of the samples; holes count as none."""
    return sum(count or 0.0 for count in samples)


def _collections_in(length: timedelta, policy: Policy) -> float:
    """Return how often the agent collects in this time."""
    return length.total_seconds() / policy.metrics.collection_interval_seconds


def _most_missing_collections(policy: Policy) -> int:
    """Return how many collections may be missing: one, or those of a minute for an agent that
    collects more often."""
    return max(1, 60 // policy.metrics.collection_interval_seconds)


def gpus_in_aggregate(evidence: Evidence) -> int | None:
    """Return how many GPUs share one aggregate, so that its samples must be counted. Return `None`
    if utilization was not read from an aggregate, if the type has one GPU, or if it is not known
    how many it has."""
    gpu_count = evidence.gpus_expected
    is_shared = evidence.source is MetricSource.AGGREGATE and gpu_count != 1
    return gpu_count if is_shared else None


def hidden_gpu_until(evidence: Evidence, policy: Policy) -> UtcDatetime | None:
    """Return the end of the newest stretch in which one GPU may have been missing from an aggregate
    for too long. Return `None` if there is none, or no such aggregate was read
    (`gpus_in_aggregate` is `None`).

    One may be missing where the aggregate holds no more samples than one GPU fewer would publish.
    """
    gpu_count = gpus_in_aggregate(evidence)
    if gpu_count is None:
        return None
    window = evidence.window
    stretch = int(LONGEST_HOLE / window.period) + 1
    most_samples = (gpu_count - 1) * stretch * _collections_in(window.period, policy)
    sample_counts = [samples or 0.0 for samples in evidence.samples]
    for end in range(len(sample_counts), stretch - 1, -1):
        if sum(sample_counts[end - stretch : end]) <= most_samples:
            return window.bin_end(end - 1)
    return None
