"""Judge one instance: one of nine verdicts with its reason, from its evidence, the policy and the
time.

The functions have no side effects and always answer. Only evidence makes an instance idle: missing
readings never do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from functools import cache
from math import ceil

from governor.core.instance import Instance, Manager, managed_by
from governor.core.units import END_BIN, UtcDatetime, in_utc, minutes, span
from governor.evidence.model import Evidence, GpuReadings, MetricSource, Series, Window
from governor.evidence.rules.figures import (
    FIGURES,
    WORK,
    Publisher,
    amount_text,
    limit_of,
    required_figures,
)
from governor.evidence.rules.series import (
    END,
    LONGEST_HOLE,
    coverage_percent,
    is_reading,
    last_at_or_above,
    last_reading_end,
    latest,
    longest_hole,
    mean,
    newest_bins,
    newest_peak,
    padded,
    peak,
    unmeasured_until,
)
from governor.policy.model.policy import Policy
from governor.verdict.model import EXEMPT_BY_DECISION, Hold, Verdict, VerdictKind

LATE = timedelta(minutes=30)
"""Missing readings may still arrive for this long: nobody is alerted, and nothing is counted."""


_NEWEST_FIGURE = timedelta(minutes=20)
"""A required figure must have a reading this new, or one of the newest periods that the lag
leaves."""


def judge_unread(instance: Instance, hold: Hold, policy: Policy, now: datetime) -> Verdict | None:
    """Return the verdict that needs no metrics, or `None` if they must be read."""
    exemption_tag = policy.exemption.like_it_on(instance)
    if exemption_tag is not None:
        return Verdict(VerdictKind.EXEMPT, f"carries the tag {exemption_tag}")
    if hold.exempt_reason is not None:
        return Verdict(VerdictKind.EXEMPT, f"{EXEMPT_BY_DECISION}: {hold.exempt_reason}")
    if hold.snoozed_until is not None and hold.snoozed_until > now:
        return Verdict(VerdictKind.SNOOZED, f"kept by decision until {in_utc(hold.snoozed_until)}")
    judged_from = ripe_at(instance, policy)
    if now >= judged_from:
        return None
    return Verdict(
        VerdictKind.TOO_YOUNG,
        f"started {minutes(now - instance.launch_time)} min ago; judged from "
        f"{in_utc(judged_from)} on "
        f"(grace {policy.idle.grace_after_launch_minutes} min, and "
        f"{policy.idle.minimum_coverage_percent:g}% of the window must be measured)",
    )


def ripe_at(instance: Instance, policy: Policy) -> UtcDatetime:
    """Return when an instance can first be judged: after the grace, and once enough of the window
    can be measured."""
    bins = policy.window // policy.period
    needed = policy.period * _needed_bins(bins, policy.idle.minimum_coverage_percent)
    grace = timedelta(minutes=policy.idle.grace_after_launch_minutes)
    return instance.launch_time + max(grace, needed + policy.lag + policy.period)


@cache
def _needed_bins(bins: int, coverage_percent: float) -> int:
    """Return how many whole periods must be measured: 80% of twelve are ten."""
    # Exact numbers: a rounding error would add a period.
    return ceil(bins * Fraction(coverage_percent) / 100)


def is_candidate(evidence: Evidence, policy: Policy) -> bool:
    """Return whether utilization alone would call it idle, so that the other figures are worth
    reading."""
    return _judge_utilization(evidence, policy) is None


def judge(
    instance: Instance,
    hold: Hold,
    evidence: Evidence,
    policy: Policy,
    now: datetime,
    *,
    in_full: bool = True,
) -> Verdict:
    """Return the verdict on one instance. `now` decides only about grace and snooze.

    `in_full` is false once people know of its idleness: then only utilization can show work. Every
    action judges in full again.
    """
    unread_verdict = judge_unread(instance, hold, policy, now)
    if unread_verdict is not None:
        return unread_verdict
    verdict = _judge_utilization(evidence, policy)
    if in_full:
        verdict = _judge_the_rest(evidence, policy, verdict)
    if verdict is not None:
        return verdict
    manager = managed_by(instance, policy.managed.tag_keys)
    return Verdict(
        VerdictKind.IDLE if manager is None else VerdictKind.MANAGED_ELSEWHERE,
        idle_sentence(evidence.window.length, policy, manager),
        evidence=evidence,
        manager=manager,
    )


def _judge_the_rest(
    evidence: Evidence, policy: Policy, by_utilization: Verdict | None
) -> Verdict | None:
    """Return the verdict by utilization and all other evidence; `None` if the instance is idle."""
    if by_utilization is not None and by_utilization.kind is not VerdictKind.NO_DATA:
        return by_utilization
    # A job that says it works is believed even if its GPUs cannot be seen.
    by_work = _judge_work(evidence, policy)
    if by_work is not None:
        return by_work
    if by_utilization is not None:
        return by_utilization
    return _judge_figures(evidence, policy) or _judge_count(evidence, policy)


def judge_holes(evidence: Evidence, policy: Policy) -> Verdict | None:
    """Return a no-data verdict if any GPU, or a required figure, was not measured for too long.
    Return `None` otherwise.

    The verdict stands until the newest such hole has left the window.
    """
    gpus_unmeasured_until = unmeasured_until(evidence.gpus, evidence.window)
    ended = latest(gpus_unmeasured_until, _hidden_gpu_until(evidence, policy))
    if ended is not None:
        reason = (
            f"GPU readings were missing for more than {minutes(LONGEST_HOLE)} min, "
            f"up to {in_utc(ended)}"
        )
        return replace(_no_data(evidence, reason), not_before=ended + policy.window)
    for figure in required_figures(policy):
        hole_minutes = evidence.longest_hole_minutes.get(figure, 0.0)
        if timedelta(minutes=hole_minutes) > LONGEST_HOLE:
            words = FIGURES[figure].words
            reason = f"{words} was not measured for {hole_minutes:.0f} min of the window"
            return _no_data(evidence, reason)
    return None


def is_short_hole(evidence: Evidence, policy: Policy) -> bool:
    """Return whether too little was measured only because of one hole of less than half an hour."""
    needed_percent = policy.idle.minimum_coverage_percent
    is_thin = any(percent < needed_percent for percent, _ in _coverage(evidence, policy))
    return is_thin and _is_covered_but_for_one_hole(evidence, policy)


def _is_covered_but_for_one_hole(evidence: Evidence, policy: Policy) -> bool:
    """Return whether every measurement would cover enough if its longest hole, a short one, were
    filled."""
    needed_percent = policy.idle.minimum_coverage_percent
    window_length = evidence.window.length
    for percent, hole in _coverage(evidence, policy):
        percent_without_hole = percent + 100 * (hole / window_length)
        if hole >= LATE or percent_without_hole < needed_percent:
            return False
    return True


def _coverage(evidence: Evidence, policy: Policy) -> Iterator[tuple[float, timedelta]]:
    """Yield the share measured, in percent, and the longest hole: of every GPU, and of every
    required figure that was read."""
    window = evidence.window
    for gpu in evidence.gpus:
        gpu_percent = coverage_percent(padded(gpu.utilization, window))
        yield gpu_percent, longest_hole(gpu.utilization, window)
    for figure in required_figures(policy):
        if figure not in evidence.read:
            continue
        figure_percent = evidence.measured_percent.get(figure)
        if figure_percent is None:
            yield 0.0, window.length
        else:
            hole_minutes = evidence.longest_hole_minutes.get(figure, 0.0)
            yield figure_percent, timedelta(minutes=hole_minutes)


def _hidden_gpu_until(evidence: Evidence, policy: Policy) -> UtcDatetime | None:
    """Return the end of the newest stretch in which one GPU may have been missing from an aggregate
    for too long. Return `None` if there is none.

    One may be missing where the aggregate holds no more samples than one GPU fewer would publish.
    """
    gpu_count = _gpus_in_aggregate(evidence)
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


def judge_parts(evidence: Evidence, policy: Policy) -> Verdict | None:
    """Return a no-data verdict if only one series for several GPUs has a required figure: it would
    go on if one GPU did not publish the figure. Return `None` otherwise."""
    for figure in required_figures(policy):
        is_by_gpu = FIGURES[figure].publisher is Publisher.AGENT
        if is_by_gpu and _gpus_in_aggregate(evidence) is not None:
            reason = (
                f"{FIGURES[figure].words} is required by the policy, and only one series for all "
                "GPUs has it: publish it for each GPU"
            )
            return _no_data(evidence, reason)
    return None


def _gpus_in_aggregate(evidence: Evidence) -> int | None:
    """Return how many GPUs share one aggregate, so that its samples must be counted. Return `None`
    if each GPU has its own series, or if their number is not known."""
    gpu_count = evidence.gpus_expected
    is_shared = evidence.source is MetricSource.AGGREGATE and gpu_count != 1
    return gpu_count if is_shared else None


def freeze(verdict: Verdict, why: str) -> Verdict:
    """Return an idle verdict as frozen by the breaker: the evidence stands, nothing follows."""
    return replace(
        verdict, kind=VerdictKind.FROZEN, reason=f"{verdict.reason} Plans are frozen: {why}"
    )


def _judge_utilization(evidence: Evidence, policy: Policy) -> Verdict | None:
    """Return busy, partly idle or no data; `None` if every GPU was measured enough and stayed under
    the threshold."""
    # Activity counts even if the read was cut short or GPUs are missing: doubt only ever keeps.
    last_active_bin = _last_active_bin(evidence, policy)
    if last_active_bin is not None:
        return _busy_by_utilization(evidence, policy, last_active_bin)
    if evidence.read_problem is not None:
        reason = f"metrics could not be read: {evidence.read_problem}; tried again next sweep"
        return _no_data(evidence, reason)
    if evidence.source is MetricSource.NONE or not evidence.gpus:
        # A window of less than half an hour cannot tell silence from lateness.
        is_late = evidence.window.length < LATE
        return _no_data(evidence, _silence(evidence, policy), is_late=is_late)
    silent_at_end = _judge_end(evidence, policy)
    if silent_at_end is not None:
        return silent_at_end
    reason_uncovered = _why_uncovered(evidence, policy)
    if reason_uncovered is not None:
        return _no_data(evidence, reason_uncovered)
    return None


def _last_active_bin(evidence: Evidence, policy: Policy) -> int | None:
    """Return the newest period in which a GPU reached the threshold; `None` if none did."""
    threshold = policy.idle.utilization_below_percent
    last_bins = [last_at_or_above(series, threshold) for series in _utilization(evidence)]
    return max((index for index in last_bins if index is not None), default=None)


def _judge_end(evidence: Evidence, policy: Policy) -> Verdict | None:
    """Return a no-data verdict unless every GPU was measured in the two newest bins of five
    minutes."""
    window = evidence.window
    unmeasured = [gpu for gpu in evidence.gpus if newest_peak(gpu.utilization, window, END) is None]
    if not unmeasured:
        return None
    last_reading, label = min(
        (last_reading_end(gpu.utilization, window), _label(gpu)) for gpu in unmeasured
    )
    if last_reading < window.end:
        reason = f"{label} published nothing in the newest {span(window.end - last_reading)}"
    else:
        reason = f"{label} has missing readings in the newest {_newest_minutes(window)} min"
    return _no_data(evidence, reason, is_late=_is_covered_but_for_one_hole(evidence, policy))


def _newest_minutes(window: Window) -> int:
    """Return how many of the newest minutes must be measured: periods of an hour cannot show less
    than an hour."""
    return minutes(max(END, window.period))


def _label(gpu: GpuReadings) -> str:
    return "the instance" if gpu.gpu == "all" else f"GPU {gpu.gpu}"


def _utilization(evidence: Evidence) -> list[Series]:
    return [*(gpu.utilization for gpu in evidence.gpus), evidence.aggregate]


def _peaks(evidence: Evidence) -> list[float]:
    """Return the highest reading of each series of utilization that has one."""
    peaks = [peak(series) for series in _utilization(evidence)]
    return [percent for percent in peaks if percent is not None]


def _why_uncovered(evidence: Evidence, policy: Policy) -> str | None:
    """Return why too little utilization was measured, over the window or of some GPU; `None` if
    enough was."""
    window = evidence.window
    if window.length < policy.window:
        wanted_minutes = policy.idle.window_minutes
        read_minutes = minutes(window.length)
        return f"the policy looks at {wanted_minutes} min, only {read_minutes} min were read"
    for gpu in evidence.gpus:
        percent = coverage_percent(padded(gpu.utilization, window))
        if percent < policy.idle.minimum_coverage_percent:
            return f"{_label(gpu)} was measured {_of_needed(percent, policy)}"
    return _why_gpus_uncounted(evidence)


def _why_gpus_uncounted(evidence: Evidence) -> str | None:
    """Return why not exactly the expected GPUs are known to publish; `None` if they are."""
    expected = evidence.gpus_expected
    if expected is None:
        return "the type is not in the catalogue, so it is not known how many GPUs must be seen"
    if evidence.gpus_reporting is not None and evidence.gpus_reporting > expected:
        suspect = "metrics.collection_interval_seconds does not fit the agent"
        if evidence.source is MetricSource.PER_GPU:
            suspect = "the catalogue or the agent's dimensions are wrong"
        return f"{evidence.gpus_reporting} GPUs seem to publish where {expected} exist: {suspect}"
    reporting = _reporting(evidence)
    if reporting is not None and reporting < expected:
        return (
            f"only {reporting} of {expected} GPUs publish utilization (MIG or a broken "
            "agent hides some)"
        )
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


def _judge_count(evidence: Evidence, policy: Policy) -> Verdict | None:
    """Return a no-data verdict if an aggregate does not show that all GPUs are in it, up to its
    end."""
    gpu_count = _gpus_in_aggregate(evidence)
    if gpu_count is None:
        return None
    if evidence.gpus_reporting is None or not evidence.samples:
        reason = f"it is not known how many of {gpu_count} GPUs publish utilization"
        return _no_data(evidence, reason)
    silent_at_end = _judge_counted_end(evidence, policy, gpu_count)
    return silent_at_end or _judge_counted_coverage(evidence, policy, gpu_count)


def _judge_counted_coverage(evidence: Evidence, policy: Policy, gpu_count: int) -> Verdict | None:
    """Return a no-data verdict unless enough periods hold so many samples that no GPU can be
    missing. This is the coverage of single GPUs, for an aggregate."""
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
    reason = f"all {gpu_count} GPUs were measured {_of_needed(percent, policy)}"
    return _no_data(evidence, reason)


def _judge_counted_end(evidence: Evidence, policy: Policy, gpu_count: int) -> Verdict | None:
    """Return a no-data verdict unless the newest bins hold samples of all GPUs. This is
    `_judge_end`, for an aggregate."""
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
    reason = f"not all of {gpu_count} GPUs published in the newest {_newest_minutes(window)} min"
    may_come = _have_all_published_lately(evidence, policy, gpu_count)
    is_late = may_come and _is_covered_but_for_one_hole(evidence, policy)
    return _no_data(evidence, reason, is_late=is_late)


def _have_all_published_lately(evidence: Evidence, policy: Policy, gpu_count: int) -> bool:
    """Return whether a period of the last half hour holds the samples of all GPUs: one GPU fewer
    could not publish as many."""
    window = evidence.window
    full_count = gpu_count * _collections_in(window.period, policy)
    newest_counts = padded(evidence.samples, window)[-LATE // window.period :]
    return any((samples or 0.0) >= full_count for samples in newest_counts)


def _total(samples: Series) -> float:
    return sum(count or 0.0 for count in samples)


def _collections_in(length: timedelta, policy: Policy) -> float:
    """Return how often the agent collects in this time."""
    return length.total_seconds() / policy.metrics.collection_interval_seconds


def _most_missing_collections(policy: Policy) -> int:
    """Return how many collections may be missing: one, or those of a minute for an agent that
    collects more often."""
    return max(1, 60 // policy.metrics.collection_interval_seconds)


def _of_needed(percent: float, policy: Policy) -> str:
    needed_percent = policy.idle.minimum_coverage_percent
    return f"{percent:.0f}% of the window, {needed_percent:g}% are needed"


def _judge_work(evidence: Evidence, policy: Policy) -> Verdict | None:
    """Return busy if a job has published that it works. No such metric proves nothing."""
    if evidence.work is None:
        return None
    ended = evidence.last_active.get(WORK, evidence.window.end)
    reason = f"a job says that it works: {evidence.work} was not 0, last at {in_utc(ended)}"
    return _busy(evidence, policy, ended, reason)


def _judge_figures(evidence: Evidence, policy: Policy) -> Verdict | None:
    """Return busy if a figure besides utilization reached its limit, no data if a required figure
    is missing; `None` otherwise."""
    period = max(END_BIN, evidence.window.period)
    # The window ends up to a period and the lag ago; EC2 publishes every five minutes at best.
    oldest = max(_NEWEST_FIGURE - policy.lag - period, 2 * period)
    for figure in FIGURES:
        limit = limit_of(policy, figure)
        if limit is None:
            continue
        verdict = _judge_figure(evidence, policy, figure, limit, oldest)
        if verdict is not None:
            return verdict
    return None


def _judge_figure(
    evidence: Evidence, policy: Policy, figure: str, limit: float, oldest: timedelta
) -> Verdict | None:
    words = FIGURES[figure].words
    highest = _figure_of(evidence, figure)
    if highest is not None and highest >= limit:
        ended = evidence.last_active.get(figure, evidence.window.end)
        reason = (
            f"GPUs are quiet, but {words} reached {amount_text(figure, highest)} "
            f"(the policy's limit is {amount_text(figure, limit)})"
        )
        return _busy(evidence, policy, ended, reason)
    if figure not in required_figures(policy):
        return None
    if highest is None:
        return _no_data(evidence, f"{words} is required by the policy and was not published")
    too_old = _not_lately(evidence, policy, figure, evidence.window.end, oldest)
    if too_old is not None:
        return too_old
    percent = evidence.measured_percent.get(figure, 0.0)
    if percent >= policy.idle.minimum_coverage_percent:
        return None
    reason = f"{words} is required by the policy and was measured {_of_needed(percent, policy)}"
    return _no_data(evidence, reason)


def judge_age(evidence: Evidence, policy: Policy, now: datetime) -> Verdict | None:
    """Return a no-data verdict if a required figure was not measured in the newest 20 minutes,
    however long the lag is. Return `None` otherwise."""
    for figure in required_figures(policy):
        too_old = _not_lately(evidence, policy, figure, now, _NEWEST_FIGURE)
        if too_old is not None:
            return too_old
    return None


def _not_lately(
    evidence: Evidence, policy: Policy, figure: str, until: datetime, oldest: timedelta
) -> Verdict | None:
    """Return a no-data verdict if a figure was last measured longer than `oldest` before
    `until`."""
    ended = evidence.last_measured.get(figure, evidence.window.start)
    silent_for = until - ended
    if silent_for <= oldest:
        return None
    reason = (
        f"{FIGURES[figure].words} is required by the policy and was last measured at "
        f"{in_utc(ended)}"
    )
    is_late = silent_for < LATE and _is_covered_but_for_one_hole(evidence, policy)
    return _no_data(evidence, reason, is_late=is_late)


def activity(evidence: Evidence, policy: Policy) -> str | None:
    """Return the part of the evidence that reaches a limit of the policy; `None` if nothing does.
    Missing readings prove nothing."""
    peaks = _peaks(evidence)
    if peaks and max(peaks) >= policy.idle.utilization_below_percent:
        return f"utilization reached {max(peaks):.1f}%"
    if evidence.work is not None:
        return f"a job publishes {evidence.work}"
    for figure in FIGURES:
        limit = limit_of(policy, figure)
        highest = _figure_of(evidence, figure)
        if limit is None or highest is None:
            continue
        if highest >= limit:
            return f"{FIGURES[figure].words} reached {amount_text(figure, highest)}"
    return None


def _figure_of(evidence: Evidence, figure: str) -> float | None:
    """Return the maximum of a figure in the window; `None` if it was not measured."""
    highest: float | None = getattr(evidence, FIGURES[figure].field)
    return highest if is_reading(highest) else None


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
    highest = max(_peaks(evidence))
    if not idle_gpus or not busy_gpus:
        reason = (
            f"utilization reached {highest:.1f}% in the last {minutes(window.length)} min, "
            f"last at {in_utc(ended)}"
        )
        return _busy(evidence, policy, ended, reason)
    work = "works" if len(busy_gpus) == 1 else "work"
    reason = (
        f"{len(busy_gpus)} of {len(idle_gpus) + len(busy_gpus)} GPUs {work} "
        f"(up to {highest:.1f}%), {len(idle_gpus)} stayed under {threshold:g}%"
    )
    return replace(
        _busy(evidence, policy, ended, reason),
        kind=VerdictKind.PARTLY_IDLE,
        advice=(_right_size(evidence, busy_gpus, idle_gpus),),
    )


def _busy(evidence: Evidence, policy: Policy, ended: UtcDatetime, reason: str) -> Verdict:
    return Verdict(
        VerdictKind.BUSY,
        reason,
        evidence=evidence,
        last_busy=ended,
        not_before=ended + policy.window,
    )


def _right_size(
    evidence: Evidence, busy_gpus: list[GpuReadings], idle_gpus: list[GpuReadings]
) -> str:
    names = ", ".join(gpu.gpu for gpu in idle_gpus)
    average = sum(mean(gpu.utilization) or 0.0 for gpu in busy_gpus) / len(busy_gpus)
    # A GPU that was not measured may work, so it counts as needed.
    needed = max(evidence.gpus_expected or 0, len(evidence.gpus)) - len(idle_gpus)
    gpus = "GPUs" if len(idle_gpus) > 1 else "GPU"
    accelerators = "accelerators" if needed > 1 else "accelerator"
    return (
        f"right-size: {gpus} {names} did nothing; {len(busy_gpus)} worked, "
        f"at {average:.0f}% on average. A type with {needed} {accelerators} would do"
    )


def _no_data(evidence: Evidence, reason: str, *, is_late: bool = False) -> Verdict:
    return Verdict(VerdictKind.NO_DATA, reason, evidence=evidence, is_late=is_late)


def _silence(evidence: Evidence, policy: Policy) -> str:
    metrics = policy.metrics
    silent_minutes = minutes(evidence.window.length)
    text = f"no {metrics.utilization} in {metrics.namespace} for {silent_minutes} min"
    power = evidence.agentless_power_percent
    if power is None:
        return text
    return f"{text}; EC2's own GPUPowerUtilization reached {power:.0f}%, which alone proves nothing"


def idle_sentence(
    idle_for: timedelta, policy: Policy, manager: Manager | None = None, *, released: bool = False
) -> str:
    """Return how long an instance has been idle, and which service runs it. `released` says that
    its GPU memory is released."""
    if released:
        return f"Idle for {span(idle_for)} and GPU memory is released."
    below = f"{policy.idle.utilization_below_percent:g}%"
    managed = "" if manager is None else f" {manager.service} runs it ({manager.mark})."
    return f"Idle for {span(idle_for)} (every GPU under {below}).{managed}"
