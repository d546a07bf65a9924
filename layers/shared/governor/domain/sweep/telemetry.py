"""Findings about an instance's metrics: what is wrong with them, and what to do about it.

Pure: from evidence and the series that exist to findings. It judges telemetry, never idleness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

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


@dataclass(frozen=True, slots=True)
class Finding:
    """What was seen, and what to do about it. `health` is the finding's own."""

    health: Health
    seen: str
    advice: str


def findings(
    instance: Instance, evidence: Evidence, dimensions: Sequence[object] | None, policy: Policy
) -> tuple[Finding, ...]:
    """All findings, the worst first. `dimensions` are per-GPU sets, `None` when they were not looked for."""
    found = _findings(instance, evidence, dimensions, policy)
    return tuple(sorted(found, key=lambda finding: list(Health).index(finding.health)))


def health_of(found: Sequence[Finding]) -> Health:
    return found[0].health if found else Health.RIGHT


def _findings(
    instance: Instance, evidence: Evidence, dimensions: Sequence[object] | None, policy: Policy
) -> Iterator[Finding]:
    names, window, needed = policy.metrics, policy.idle.window_minutes, policy.idle.minimum_coverage_percent
    per_gpu, expected = evidence.source is MetricSource.PER_GPU, evidence.gpus_expected
    if evidence.read_problem is not None:
        yield Finding(
            Health.WRONG,
            f"metrics could not be read: {evidence.read_problem}",
            "allow cloudwatch:GetMetricData and cloudwatch:ListMetrics, or try again when throttled",
        )
        return
    if evidence.source is MetricSource.NONE or not evidence.gpus:
        yield Finding(
            Health.SILENT,
            f"no {names.utilization} in {names.namespace} for {window} min",
            "deploy stacks/telemetry.yaml (CloudWatch agent) or agent/ on it; a driver must be "
            "installed, its role needs cloudwatch:PutMetricData, and the policy's metrics.namespace must "
            "be the agent's",
        )
        return
    measured = [
        ("instance" if gpu.gpu == "all" else f"GPU {gpu.gpu}", coverage_percent(gpu.utilization))
        for gpu in evidence.gpus
    ]
    thin = [f"{who} {seen:.0f} %" for who, seen in measured if seen < needed]
    if thin:
        yield Finding(
            Health.WRONG,
            f"measured too little of the window ({', '.join(thin)}; {needed:g} % are needed)",
            "look whether the agent restarts or the host is short of memory; a host that just started needs "
            f"{window} min",
        )
    reporting = len(evidence.gpus) if per_gpu else evidence.gpus_reporting
    if expected is None:
        yield Finding(
            Health.WRONG,
            f"{instance.instance_type} is not in the catalogue, so its GPUs cannot be counted",
            "update GPU Governor; until then it is never judged idle",
        )
    elif reporting is not None and reporting != expected:
        yield Finding(
            Health.WRONG,
            f"{reporting} of {expected} GPUs publish utilization",
            "a GPU in MIG mode publishes no utilization, and a lost one nothing at all: see "
            "`nvidia-smi -L` and `nvidia-smi --query-gpu=mig.mode.current --format=csv`"
            if reporting < expected
            else "set metrics.collection_interval_seconds to the agent's metrics_collection_interval",
        )
    required = [name for name in policy.vetoes.required if name in evidence.read]
    missing = [name for name in required if evidence.measured_percent.get(name, 0.0) < needed]
    if missing:
        yield Finding(
            Health.WRONG,
            f"required by the policy and not measured long enough: {', '.join(missing)}",
            "EC2 publishes CPU and network by itself from the start on; for the others see the agent, or "
            "take them out of vetoes.required",
        )
    if per_gpu and len(evidence.gpus) > 1 and not evidence.aggregate:
        yield Finding(
            Health.COSTLY,
            f"read GPU by GPU ({len(dimensions or evidence.gpus)} series)",
            'add "aggregation_dimensions": [["InstanceId"]] to the agent\'s configuration: one read instead',
        )
