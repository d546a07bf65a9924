"""Findings of `governor doctor` about the metrics of an instance: what is wrong, and what to do.

Pure: from evidence and the series that exist to findings. It judges telemetry, never idleness.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from governor.alerts.templates import template_lines
from governor.core.catalog import shape_of
from governor.core.instance import Instance
from governor.core.units import minutes, plural
from governor.evidence.model import Evidence, MetricSource
from governor.evidence.rules.figures import (
    FIGURES,
    Publisher,
    limit_of,
    metrics_of,
    published_by,
)
from governor.evidence.rules.series import coverage_percent
from governor.policy.model.judging import SecondFigure, Vetoes
from governor.policy.model.policy import Mode, Policy
from governor.verdict.rules.second_figure import (
    SURELY_PERCENT,
    asks_in_auto,
    confirms_below,
    doubt_text,
    highest_power,
    why_scale_is_unknown,
)
from governor.verdict.rules.utilization import peaks_of


class Health(StrEnum):
    """How good the telemetry of an instance is, the worst first."""

    SILENT = "silent"
    """Nothing is published: it can never be judged."""
    WRONG = "wrong"
    """Something is published, and it does not suffice to judge."""
    UNSURE = "unsure"
    """It suffices to ask people, and not to act unasked: nothing confirms the utilization."""
    COSTLY = "costly"
    """It suffices, and costs more reads than it needs to."""
    RIGHT = "right"


_ORDER = tuple(Health)

CAUSES = {
    "unread": "metrics could not be read",
    "silent": "no utilization of GPUs is published",
    "other profile": "published by another metric profile than the policy's",
    "thin": "measured too little of the window",
    "unknown type": "the catalog does not say how many GPUs the type has",
    "hidden": "fewer GPUs publish utilization than there are",
    "too many": "more GPUs publish utilization than there are",
    "missing": "required by the policy and not measured long enough",
    "share": "utilization may be a share from 0 to 1",
    "zeros": "utilization is 0 while the GPUs draw power",
    "stopped": "a figure has stopped coming",
    "clock": "the clock of the host is wrong",
    "never reached 2": "utilization never reached 2 on the whole fleet",
    "no power": "power: not measured, or implausibly low",
    "costly": "read GPU by GPU",
}
"""The words that all findings of one cause share."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding, and the remedy. `health` is the finding's own, `cause` a key of `CAUSES`."""

    health: Health
    seen: str
    advice: str
    cause: str


def findings(
    instance: Instance,
    evidence: Evidence,
    dimensions: Sequence[object] | None,
    policy: Policy,
    *,
    listed: Collection[str] = (),
    newest_reading_offset: timedelta = timedelta(0),
) -> tuple[Finding, ...]:
    """Return all findings, the worst first; an empty tuple if all is right.

    `dimensions` are per-GPU sets, `None` when they were not looked for. `listed` are the figures
    that the instance published at some time in the last two weeks. `newest_reading_offset` is how
    far from now its newest reading is dated, below zero if it is old.
    """
    unsorted = [
        *_findings(instance, evidence, dimensions, policy),
        *_stopped_findings(evidence, listed, policy),
        *_newest_reading_findings(newest_reading_offset),
    ]
    return ordered(unsorted)


def ordered(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings with the worst first."""
    return tuple(sorted(found, key=lambda finding: _ORDER.index(finding.health)))


def never_reached_2(evidence_by_metric: Mapping[str, Sequence[Evidence]]) -> Mapping[str, Finding]:
    """Return a finding for each metric of utilization that never reached 2 on the whole fleet,
    although it was above 0: all GPUs are idle, or it is a share from 0 to 1.

    The evidence of all instances is grouped by the metric. Empty if there is no such metric.
    """
    found = {}
    for metric, fleet in evidence_by_metric.items():
        peaks: list[float] = []
        for evidence in fleet:
            peaks += peaks_of(evidence)
        if peaks and 0 < max(peaks) < SURELY_PERCENT:
            found[metric] = _finding(
                Health.UNSURE,
                "never reached 2",
                metric=metric,
                highest=f"{max(peaks):g}",
                window=minutes(fleet[0].window.length),
                instances=plural(len(fleet), "instance"),
            )
    return found


def other_profile_finding(**values: object) -> Finding:
    """Return the finding that an instance publishes by another metric profile than its policy's."""
    return _finding(Health.SILENT, "other profile", **values)


def with_other_profile(found: Sequence[Finding], finding: Finding) -> tuple[Finding, ...]:
    """Return the findings with that of another metric profile in place of those that it explains:
    silence, and a wrong number of GPUs."""
    explained = ("silent", "hidden", "too many", "unknown type")
    kept = [other for other in found if other.cause not in explained]
    return ordered((*kept, finding))


def health_of(found: Sequence[Finding]) -> Health:
    """Return the health of an instance with these findings, of which the worst comes first."""
    if not found:
        return Health.RIGHT
    return found[0].health


def _findings(
    instance: Instance, evidence: Evidence, dimensions: Sequence[object] | None, policy: Policy
) -> Iterator[Finding]:
    window = policy.idle.window_minutes
    if evidence.read_problem is not None:
        yield _finding(Health.WRONG, "unread", why=evidence.read_problem)
        return
    if evidence.source is MetricSource.NONE or not evidence.gpus:
        accelerator = _accelerator(instance)
        yield _finding(
            Health.SILENT,
            "silent",
            metrics=policy.metrics,
            window=window,
            accelerator=accelerator,
        )
        return
    needed = policy.idle.minimum_coverage_percent
    thin = _thinly_measured(evidence, needed)
    if thin:
        yield _finding(
            Health.WRONG, "thin", thin=", ".join(thin), needed=f"{needed:g}", window=window
        )
    yield from _count_findings(instance, evidence)
    missing = _missing_metrics(evidence, policy)
    if missing:
        yield _finding(Health.WRONG, "missing", missing=", ".join(missing))
    yield from _doubt_findings(instance, evidence, policy)
    is_read_by_gpu = evidence.source is MetricSource.PER_GPU and len(evidence.gpus) > 1
    if is_read_by_gpu and not evidence.aggregate:
        yield _finding(Health.COSTLY, "costly", series=len(dimensions or evidence.gpus))


def _thinly_measured(evidence: Evidence, needed: float) -> list[str]:
    """Return the GPUs that were measured too little, each with its percentage."""
    thin = []
    for gpu in evidence.gpus:
        percent = coverage_percent(gpu.utilization)
        if percent < needed:
            name = "instance" if gpu.gpu == "all" else f"GPU {gpu.gpu}"
            thin.append(f"{name} {percent:.0f}%")
    return thin


def _count_findings(instance: Instance, evidence: Evidence) -> Iterator[Finding]:
    """Yield the finding on how many GPUs publish utilization, if the number is not as expected."""
    expected = evidence.gpus_expected
    if expected is None:
        yield _finding(Health.WRONG, "unknown type", instance=instance)
        return
    reporting = evidence.gpus_reporting
    if evidence.source is MetricSource.PER_GPU:
        reporting = len(evidence.gpus)
    if reporting is None or reporting == expected:
        return
    cause = "hidden" if reporting < expected else "too many"
    accelerator = _accelerator(instance)
    yield _finding(
        Health.WRONG, cause, reporting=reporting, expected=expected, accelerator=accelerator
    )


_MORE_THAN_IDLE_PERCENT = 25.0
"""An idle GPU without a loaded model draws 3 to 15% of its limit. A T4 or L4 that holds one may
draw more, so this is doubtful and not wrong."""


def _doubt_findings(instance: Instance, evidence: Evidence, policy: Policy) -> Iterator[Finding]:
    """Yield why the utilization cannot be believed alone."""
    why_unknown = why_scale_is_unknown(evidence, policy)
    if why_unknown is not None:
        yield _finding(Health.WRONG, "share", why=why_unknown)
    peaks = peaks_of(evidence)
    power = highest_power(evidence)
    is_all_zeros = bool(peaks) and max(peaks) == 0
    drawn_at_work = _drawn_at_work(policy)
    has_power_beside_zeros = is_all_zeros and power is not None and power >= drawn_at_work
    suspect_percent = min(drawn_at_work, _MORE_THAN_IDLE_PERCENT)
    if is_all_zeros and power is not None and power >= suspect_percent:
        yield _finding(
            Health.WRONG if has_power_beside_zeros else Health.UNSURE,
            "zeros",
            metric=policy.metrics.utilization,
            power=f"{power:.0f}",
            at_work=has_power_beside_zeros,
        )
    doubt = doubt_text(instance.instance_type, evidence, policy)
    if doubt and not has_power_beside_zeros and not _power_confirms_work(evidence, policy):
        is_required = policy.idle.second_figure is SecondFigure.REQUIRED
        acts_unasked = policy.mode is Mode.AUTO and not asks_in_auto(instance, policy)
        is_needed = is_required or acts_unasked
        health = Health.WRONG if is_needed else Health.UNSURE
        yield _finding(
            health,
            "no power",
            doubt=doubt,
            needed=is_needed,
            metric=policy.metrics.power_draw or "a metric of power, name it as metrics.power_draw",
        )


def _power_confirms_work(evidence: Evidence, policy: Policy) -> bool:
    """Return whether high power beside high utilization shows that the GPUs work. Then nothing is
    doubtful, although no low utilization is confirmed."""
    power = highest_power(evidence)
    draws_much = power is not None and power >= confirms_below(policy)
    peaks = peaks_of(evidence)
    return draws_much and bool(peaks) and max(peaks) >= policy.idle.utilization_below_percent


def _drawn_at_work(policy: Policy) -> float:
    """Return from what power on a GPU works, in percent of its limit."""
    limit = limit_of(policy, "power")
    return Vetoes().power_percent_of_limit or 0.0 if limit is None else limit


def _stopped_findings(
    evidence: Evidence, listed: Collection[str], policy: Policy
) -> Iterator[Finding]:
    """Yield the figures of the agent that were published in the last two weeks, and are not any
    more. A silent instance, or one that could not be read, has a finding already."""
    if evidence.read_problem is not None or evidence.source is MetricSource.NONE:
        return
    for figure in published_by(Publisher.AGENT):
        is_new = evidence.last_measured.get(figure) == evidence.window.end
        was_measured = evidence.measured_percent.get(figure, 0.0) > 0
        is_published = getattr(evidence, FIGURES[figure].field) is not None
        if figure in listed and not was_measured and not is_new and not is_published:
            metric = " or ".join(metrics_of(figure, policy.metrics))
            words = FIGURES[figure].words
            yield _finding(Health.UNSURE, "stopped", words=words, metric=metric)


_LATE = timedelta(minutes=10)
"""A reading is about this old at most where the agent publishes once in five minutes."""


def _newest_reading_findings(offset: timedelta) -> Iterator[Finding]:
    """Yield the finding that the newest reading is dated ahead of now by more than a minute (an
    agent may round to one), so that the clock is fast; or that it is more than ten minutes old: the
    clock is slow, or readings come late. Yield nothing for any other."""
    if offset > timedelta(minutes=1):
        yield _finding(Health.WRONG, "clock", ahead=minutes(offset), behind=0)
    elif offset < -_LATE:
        yield _finding(Health.UNSURE, "clock", ahead=0, behind=minutes(-offset))


def _missing_metrics(evidence: Evidence, policy: Policy) -> list[str]:
    """Return the metrics that the policy requires and that were not measured long enough."""
    missing: list[str] = []
    for name in policy.vetoes.required:
        percent = evidence.measured_percent.get(name, 0.0)
        if name in evidence.read and percent < policy.idle.minimum_coverage_percent:
            missing.append(name)
    return missing


def _accelerator(instance: Instance) -> str:
    """Return the name of the instance's accelerator; empty if its type is not in the catalog."""
    shape = shape_of(instance.instance_type)
    return shape.accelerator if shape else ""


def _finding(health: Health, cause: str, **values: object) -> Finding:
    """Return the finding in the words of its template, which has one line for each field."""
    seen, advice = template_lines(f"telemetry {cause}", values)
    return Finding(health, seen, advice, cause)
