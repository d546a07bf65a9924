"""Decides the verdict on an instance with its reason (idle, busy, no data, too young, exempt by its
exemption tag, kept and others), from its evidence, the policy and the time.

The functions have no side effects and always answer. Only evidence makes an instance idle: missing
readings never do. `utilization.py` decides whether there is enough data about GPUs, and `vetoes.py`
whether there is enough about the other figures.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from functools import cache
from math import ceil

from governor.core.instance import Instance
from governor.core.managers import Manager, managed_by
from governor.core.units import UtcDatetime, in_utc, minutes, span
from governor.evidence.model import Evidence
from governor.evidence.rules.figures import (
    FIGURES,
    WORK,
    required_figures,
)
from governor.evidence.rules.series import (
    LONGEST_HOLE,
    latest,
    unmeasured_until,
)
from governor.policy.model.policy import Policy
from governor.policy.model.profiles import part_word
from governor.verdict.model import EXEMPT_BY_DECISION, Hold, Verdict, VerdictKind
from governor.verdict.rules.proof import busy, no_data
from governor.verdict.rules.samples import hidden_gpu_until, judge_count
from governor.verdict.rules.second_figure import (
    doubt_text,
    judge_scale,
    judge_second_figure,
    why_not_unasked,
)
from governor.verdict.rules.utilization import judge_utilization
from governor.verdict.rules.vetoes import judge_figures


def judge_without_metrics(
    instance: Instance, hold: Hold, policy: Policy, now: datetime
) -> Verdict | None:
    """Return the verdict that needs no metrics: exempt by a tag or a decision, snoozed by a keep,
    or too young. Return `None` if the metrics must be read."""
    exemption_tag = policy.exemption.similar_tag_on(instance)
    if exemption_tag is not None:
        return Verdict(VerdictKind.EXEMPT, f"carries the tag {exemption_tag}")
    if hold.exempt_reason is not None:
        why = f"{EXEMPT_BY_DECISION}: {hold.exemption_words}"
        return Verdict(VerdictKind.EXEMPT, why, is_exempt_by_decision=True)
    if hold.snoozed_until is not None and hold.snoozed_until > now:
        return Verdict(VerdictKind.SNOOZED, f"kept by decision until {in_utc(hold.snoozed_until)}")
    judged_from = first_judged_at(instance, policy)
    if now >= judged_from:
        return None
    return Verdict(
        VerdictKind.TOO_YOUNG,
        f"started {minutes(now - instance.launch_time)} min ago; judged from "
        f"{in_utc(judged_from)} on "
        f"(grace {policy.idle.grace_after_launch_minutes} min, and "
        f"{policy.idle.minimum_coverage_percent:g}% of the window must be measured)",
    )


def first_judged_at(instance: Instance, policy: Policy) -> UtcDatetime:
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
    """Return whether utilization alone would call the instance idle, so that the other figures are
    worth reading."""
    return judge_utilization(evidence, policy) is None


def judge(
    instance: Instance,
    hold: Hold,
    evidence: Evidence,
    policy: Policy,
    now: datetime,
    *,
    in_full: bool = True,
) -> Verdict:
    """Return the verdict on one instance. `now` decides only about grace and snooze. One that would
    be idle is `MANAGED_ELSEWHERE` if another service runs it.

    `in_full` is false once people know of its idleness: then only utilization can show work. Every
    action judges in full again.
    """
    unread_verdict = judge_without_metrics(instance, hold, policy, now)
    if unread_verdict is not None:
        return unread_verdict
    verdict = judge_utilization(evidence, policy)
    if in_full:
        verdict = _judge_the_rest(instance, evidence, policy, verdict)
    if verdict is not None:
        return verdict
    manager = managed_by(instance, policy.managed.tag_keys)
    doubt = doubt_text(instance.instance_type, evidence, policy)
    return Verdict(
        VerdictKind.IDLE if manager is None else VerdictKind.MANAGED_ELSEWHERE,
        idle_sentence(evidence.window.length, policy, manager, doubt=doubt),
        evidence=evidence,
        advice=(_hint(instance, evidence, policy, doubt),) if doubt else (),
        manager=manager,
    )


def _hint(instance: Instance, evidence: Evidence, policy: Policy, doubt: str) -> str:
    """Return what people read of a `doubt` about an idle instance: that only utilization says so,
    or, in place of the doubt, why the policy therefore does nothing unasked."""
    unconfirmed = why_not_unasked(instance.instance_type, evidence, policy)
    if unconfirmed is not None:
        return unconfirmed.text
    return f"{doubt}. Only GPU utilization says that it is idle"


def _judge_the_rest(
    instance: Instance, evidence: Evidence, policy: Policy, by_utilization: Verdict | None
) -> Verdict | None:
    """Return the verdict by utilization and all other evidence: figures, the number of GPUs, their
    scale, and a second figure. A job that says it works goes before missing utilization. Return
    `None` if the instance is idle. `by_utilization` is the verdict of utilization alone; `None` if
    that shows idleness."""
    if by_utilization is not None and by_utilization.kind is not VerdictKind.NO_DATA:
        return by_utilization
    # A job that says it works is believed even if its GPUs cannot be seen.
    by_work = _judge_work(evidence, policy)
    if by_work is not None:
        return by_work
    if by_utilization is not None:
        return by_utilization
    return (
        judge_figures(evidence, policy)
        or judge_count(evidence, policy)
        or judge_scale(evidence, policy)
        or judge_second_figure(instance, evidence, policy)
    )


def judge_holes(evidence: Evidence, policy: Policy) -> Verdict | None:
    """Return a no-data verdict if any GPU, or a required figure, was not measured for too long.
    Return `None` otherwise.

    The verdict for a GPU stands until its newest hole has left the window (`not_before`). It is not
    known when the hole of a figure ended.
    """
    gpus_unmeasured_until = unmeasured_until(evidence.gpus, evidence.window)
    ended = latest(gpus_unmeasured_until, hidden_gpu_until(evidence, policy))
    if ended is not None:
        reason = (
            f"GPU readings were missing for more than {minutes(LONGEST_HOLE)} min, "
            f"up to {in_utc(ended)}"
        )
        return replace(no_data(evidence, reason), not_before=ended + policy.window)
    for figure in required_figures(policy):
        hole_minutes = evidence.longest_hole_minutes.get(figure, 0.0)
        if timedelta(minutes=hole_minutes) > LONGEST_HOLE:
            words = FIGURES[figure].words
            reason = f"{words} was not measured for {hole_minutes:.0f} min of the window"
            return no_data(evidence, reason)
    return None


def freeze(verdict: Verdict, why: str) -> Verdict:
    """Return an idle verdict as frozen by the breaker: the evidence stands, nothing follows."""
    return replace(
        verdict, kind=VerdictKind.FROZEN, reason=f"{verdict.reason} Plans are frozen: {why}"
    )


def _judge_work(evidence: Evidence, policy: Policy) -> Verdict | None:
    """Return busy if a job has published that it works; `None` if none has, which proves
    nothing."""
    if evidence.work is None:
        return None
    ended = evidence.last_active.get(WORK, evidence.window.end)
    reason = f"a job reports work: {evidence.work} was not 0, last at {in_utc(ended)}"
    return busy(evidence, policy, ended, reason)


def idle_sentence(
    idle_for: timedelta,
    policy: Policy,
    manager: Manager | None = None,
    *,
    released: bool = False,
    doubt: str = "",
) -> str:
    """Return how long an instance has been idle, and which service runs it; nothing of the service
    if memory is released.

    `released` says that its GPU memory is released, `doubt` what does not confirm its utilization
    (`doubt_text`).
    """
    if released:
        in_brackets = f" ({doubt})" if doubt else ""
        return f"Idle for {span(idle_for)} and GPU memory is released{in_brackets}."
    word = part_word(policy.metrics)
    measured = f"every {word} under {policy.idle.utilization_below_percent:g}%"
    if doubt:
        measured = f"{measured}; {doubt}"
    managed = "" if manager is None else f" {manager.service} runs it ({manager.mark})."
    return f"Idle for {span(idle_for)} ({measured}).{managed}"
