"""Findings about an instance's metrics: what is wrong with them, and what to do about it.

Pure: from evidence and the series that exist to findings. It judges telemetry, never idleness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from governor.alerts.templates import template_lines
from governor.core.catalog import shape_of
from governor.core.instance import Instance
from governor.evidence.model import Evidence, MetricSource
from governor.evidence.rules.series import coverage_percent
from governor.policy.model.policy import Policy


class Health(StrEnum):
    """How good the telemetry of an instance is, the worst first."""

    SILENT = "silent"
    """Nothing is published: it can never be judged."""
    WRONG = "wrong"
    """Something is published, and it does not suffice to judge."""
    COSTLY = "costly"
    """It suffices, and costs more reads than it needs to."""
    RIGHT = "right"


_ORDER = tuple(Health)

CAUSES = {
    "unread": "metrics could not be read",
    "silent": "no utilization of GPUs is published",
    "thin": "measured too little of the window",
    "unknown type": "the instance type is not in the catalogue",
    "hidden": "fewer GPUs publish utilization than there are",
    "too many": "more GPUs publish utilization than there are",
    "missing": "required by the policy and not measured long enough",
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
    instance: Instance, evidence: Evidence, dimensions: Sequence[object] | None, policy: Policy
) -> tuple[Finding, ...]:
    """Return all findings, the worst first; an empty tuple if all is right.

    `dimensions` are per-GPU sets, `None` when they were not looked for.
    """
    unsorted = _findings(instance, evidence, dimensions, policy)
    return tuple(sorted(unsorted, key=lambda finding: _ORDER.index(finding.health)))


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
