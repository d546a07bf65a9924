"""Judges the metrics besides utilization, such as CPU and network: each can veto idleness, and some
must be measured.

A veto only ever keeps an instance. The limits, and which figures are required, are the policy's.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from governor.core.units import in_utc
from governor.evidence.model import Evidence
from governor.evidence.rules.figures import (
    FIGURES,
    Publisher,
    amount_text,
    limit_of,
    required_figures,
)
from governor.evidence.rules.series import (
    is_reading,
)
from governor.policy.model.policy import Policy
from governor.verdict.model import Verdict
from governor.verdict.rules.proof import (
    LATE,
    busy,
    is_covered_but_for_one_hole,
    no_data,
    of_needed_text,
)
from governor.verdict.rules.samples import gpus_in_aggregate
from governor.verdict.rules.second_figure import NEWEST_FIGURE, oldest_figure
from governor.verdict.rules.utilization import peaks_of


def judge_figures(evidence: Evidence, policy: Policy) -> Verdict | None:
    """Return the verdict of the first figure besides utilization, in the order of the table, that
    decides: busy if it reached the policy's limit, no data if the policy requires it and it is
    missing.

    Return `None` if none decides. A figure without a limit is not looked at.
    """
    oldest = oldest_figure(evidence, policy)
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
    """Return the verdict by one figure: `busy` if it reached its limit; `no_data` if it is required
    and was not published, not measured lately (`oldest`), or too little of it was. Return `None`
    otherwise."""
    words = FIGURES[figure].words
    highest = _figure_of(evidence, figure)
    if highest is not None and highest >= limit:
        ended = evidence.last_active.get(figure, evidence.window.end)
        reason = (
            f"GPUs are quiet, but {words} reached {amount_text(figure, highest)} "
            f"(the policy's limit is {amount_text(figure, limit)})"
        )
        return busy(evidence, policy, ended, reason)
    if figure not in required_figures(policy):
        return None
    if highest is None:
        return no_data(evidence, f"{words} is required by the policy and was not published")
    too_old = _not_lately(evidence, policy, figure, evidence.window.end, oldest)
    if too_old is not None:
        return too_old
    percent = evidence.measured_percent.get(figure, 0.0)
    if percent >= policy.idle.minimum_coverage_percent:
        return None
    reason = f"{words} is required by the policy and was measured {of_needed_text(percent, policy)}"
    return no_data(evidence, reason)


def judge_age(evidence: Evidence, policy: Policy, now: datetime) -> Verdict | None:
    """Return a no-data verdict if a required figure was not measured in the newest 20 minutes,
    however long the lag is. Return `None` otherwise."""
    for figure in required_figures(policy):
        too_old = _not_lately(evidence, policy, figure, now, NEWEST_FIGURE)
        if too_old is not None:
            return too_old
    return None


def _not_lately(
    evidence: Evidence, policy: Policy, figure: str, until: datetime, oldest: timedelta
) -> Verdict | None:
    """Return a no-data verdict if a figure was last measured longer than `oldest` before `until`;
    `None` if not. A figure that was never measured counts as last measured at the start of the
    window."""
    ended = evidence.last_measured.get(figure, evidence.window.start)
    silent_for = until - ended
    if silent_for <= oldest:
        return None
    reason = (
        f"{FIGURES[figure].words} is required by the policy and was last measured at "
        f"{in_utc(ended)}"
    )
    is_late = silent_for < LATE and is_covered_but_for_one_hole(evidence, policy)
    return no_data(evidence, reason, is_late=is_late)


def judge_parts(evidence: Evidence, policy: Policy) -> Verdict | None:
    """Return a no-data verdict if only one series for several GPUs has a required figure: it would
    go on if one GPU did not publish the figure. Return `None` otherwise."""
    for figure in required_figures(policy):
        is_by_gpu = FIGURES[figure].publisher is Publisher.AGENT
        if is_by_gpu and gpus_in_aggregate(evidence) is not None:
            reason = (
                f"{FIGURES[figure].words} is required by the policy, but only one series for "
                "all GPUs has it: publish it for each GPU"
            )
            return no_data(evidence, reason)
    return None


def activity(evidence: Evidence, policy: Policy) -> str | None:
    """Return what shows that the instance works, such as `utilization reached 12.0%`: the first
    figure that reaches a limit of the policy, or a job that says so. Return `None` if nothing does.
    Missing readings prove nothing."""
    peaks = peaks_of(evidence)
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
