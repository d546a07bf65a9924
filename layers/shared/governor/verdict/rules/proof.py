"""Says what evidence must show before it proves idleness, such as coverage of the window, and
builds the verdicts busy and no data.

Every other rule of this folder uses these. Missing readings never make an instance idle.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from governor.core.units import UtcDatetime, minutes
from governor.evidence.model import Evidence, Window
from governor.evidence.rules.figures import (
    required_figures,
)
from governor.evidence.rules.series import (
    END,
    coverage_percent,
    longest_hole,
    padded,
)
from governor.policy.model.policy import Policy
from governor.verdict.model import Verdict, VerdictKind

LATE = timedelta(minutes=30)
"""Missing readings may still arrive for this long: nobody is alerted, and nothing is counted."""


def busy(evidence: Evidence, policy: Policy, ended: UtcDatetime, reason: str) -> Verdict:
    """Return the verdict of an instance that worked until `ended`."""
    return Verdict(
        VerdictKind.BUSY,
        reason,
        evidence=evidence,
        last_busy=ended,
        not_before=ended + policy.window,
    )


def no_data(evidence: Evidence, reason: str, *, is_late: bool = False) -> Verdict:
    """Return the verdict that nothing is proved, for this reason. With `is_late`, the missing
    readings may still arrive."""
    return Verdict(VerdictKind.NO_DATA, reason, evidence=evidence, is_late=is_late)


def of_needed_text(percent: float, policy: Policy) -> str:
    """Return the share of the window that was measured, and the share that is needed."""
    needed_percent = policy.idle.minimum_coverage_percent
    return f"for {percent:.0f}% of the window; {needed_percent:g}% is required"


def newest_minutes(window: Window) -> int:
    """Return how many of the newest minutes must be measured: periods of an hour cannot show less
    than an hour."""
    return minutes(max(END, window.period))


def is_short_hole(evidence: Evidence, policy: Policy) -> bool:
    """Return whether too little of the window was measured, and only one hole of less than half an
    hour is to blame."""
    needed_percent = policy.idle.minimum_coverage_percent
    is_thin = any(percent < needed_percent for percent, _ in _coverage(evidence, policy))
    return is_thin and is_covered_but_for_one_hole(evidence, policy)


def is_covered_but_for_one_hole(evidence: Evidence, policy: Policy) -> bool:
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
