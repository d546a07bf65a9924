"""Findings about an instance's metrics: what is wrong with them, and what to do about it.

Pure: from evidence and the series that exist to findings. It judges telemetry, never idleness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from governor.domain.alerts.templates import said
from governor.domain.evidence import Evidence, MetricSource, coverage_percent
from governor.domain.instance import Instance
from governor.domain.policy.policy import Policy


class Health(StrEnum):
    """How good the telemetry of an instance is, the worst first."""

    SILENT = "silent"
    """Nothing is published: it can never be judged."""
    WRONG = "wrong"
    """Something is published, and it does not suffice to judge."""
    COSTLY = "costly"
    """It suffices, and costs more reads than it needs to."""
    RIGHT = "right"


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
    """All findings, the worst first. `dimensions` are per-GPU sets, `None` when they were not
    looked for."""
    found = _findings(instance, evidence, dimensions, policy)
    return tuple(sorted(found, key=lambda finding: list(Health).index(finding.health)))


def health_of(found: Sequence[Finding]) -> Health:
    return found[0].health if found else Health.RIGHT


def _findings(
    instance: Instance, evidence: Evidence, dimensions: Sequence[object] | None, policy: Policy
) -> Iterator[Finding]:
    names, window, needed = (
        policy.metrics,
        policy.idle.window_minutes,
        policy.idle.minimum_coverage_percent,
    )
    per_gpu, expected = evidence.source is MetricSource.PER_GPU, evidence.gpus_expected
    if evidence.read_problem is not None:
        yield _found(Health.WRONG, "unread", why=evidence.read_problem)
        return
    if evidence.source is MetricSource.NONE or not evidence.gpus:
        yield _found(Health.SILENT, "silent", metrics=names, window=window)
        return
    measured = [
        ("instance" if gpu.gpu == "all" else f"GPU {gpu.gpu}", coverage_percent(gpu.utilization))
        for gpu in evidence.gpus
    ]
    if thin := [f"{who} {seen:.0f}%" for who, seen in measured if seen < needed]:
        yield _found(
            Health.WRONG, "thin", thin=", ".join(thin), needed=f"{needed:g}", window=window
        )
    reporting = len(evidence.gpus) if per_gpu else evidence.gpus_reporting
    if expected is None:
        yield _found(Health.WRONG, "unknown type", instance=instance)
    elif reporting is not None and reporting != expected:
        kind = "hidden" if reporting < expected else "too many"
        yield _found(Health.WRONG, kind, reporting=reporting, expected=expected)
    required = [name for name in policy.vetoes.required if name in evidence.read]
    if missing := [name for name in required if evidence.measured_percent.get(name, 0.0) < needed]:
        yield _found(Health.WRONG, "missing", missing=", ".join(missing))
    if per_gpu and len(evidence.gpus) > 1 and not evidence.aggregate:
        yield _found(Health.COSTLY, "costly", series=len(dimensions or evidence.gpus))


def _found(health: Health, kind: str, **values: object) -> Finding:
    seen, advice = said(f"telemetry {kind}", values)
    return Finding(health, seen, advice, kind)
