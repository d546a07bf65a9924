"""Findings about an instance's metrics: what is wrong with them, and what to do about it.

Pure: from evidence and the series that exist to findings. It judges telemetry, never idleness.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """All findings about one instance, the worst first; empty when its telemetry is right.

    `dimensions` are the per-GPU dimension sets that exist, `None` when they were not looked for.
    """
    if evidence.read_problem is not None:
        return (
            Finding(
                Health.WRONG,
                f"metrics could not be read: {evidence.read_problem}",
                "allow cloudwatch:GetMetricData and cloudwatch:ListMetrics, or try again when throttled",
            ),
        )
    names = policy.metrics
    if evidence.source is MetricSource.NONE or not evidence.gpus:
        return (
            Finding(
                Health.SILENT,
                f"no {names.utilization} in {names.namespace} for {policy.idle.window_minutes} min",
                "deploy stacks/telemetry.yaml (CloudWatch agent) or agent/ on it; a driver must be "
                "installed, its role needs cloudwatch:PutMetricData, and the policy's metrics.namespace must "
                "be the agent's",
            ),
        )
    found = (
        _of_coverage(evidence, policy),
        _of_count(instance, evidence),
        _of_ec2(evidence, policy),
        _of_cost(evidence, dimensions),
    )
    return tuple(sorted(filter(None, found), key=lambda finding: list(Health).index(finding.health)))


def health_of(found: Sequence[Finding]) -> Health:
    """The worst of them."""
    return found[0].health if found else Health.RIGHT


def _of_coverage(evidence: Evidence, policy: Policy) -> Finding | None:
    needed = policy.idle.minimum_coverage_percent
    thin = [(gpu.gpu, seen) for gpu in evidence.gpus if (seen := coverage_percent(gpu.utilization)) < needed]
    if not thin:
        return None
    which = ", ".join(f"{'instance' if gpu == 'all' else f'GPU {gpu}'} {seen:.0f} %" for gpu, seen in thin)
    return Finding(
        Health.WRONG,
        f"measured too little of the window ({which}; {needed:g} % are needed)",
        "look whether the agent restarts or the host is short of memory; a host that just started needs "
        f"{policy.idle.window_minutes} min",
    )


def _of_count(instance: Instance, evidence: Evidence) -> Finding | None:
    expected = evidence.gpus_expected
    if expected is None:
        return Finding(
            Health.WRONG,
            f"{instance.instance_type} is not in the catalogue, so its GPUs cannot be counted",
            "update GPU Governor; until then it is never judged idle",
        )
    reporting = len(evidence.gpus) if evidence.source is MetricSource.PER_GPU else evidence.gpus_reporting
    if reporting is None or reporting == expected:
        return None
    if reporting < expected:
        advice = (
            "a GPU in MIG mode publishes no utilization, and a lost one nothing at all: see "
            "`nvidia-smi -L` and `nvidia-smi --query-gpu=mig.mode.current --format=csv`"
        )
    else:
        advice = "set metrics.collection_interval_seconds to the agent's metrics_collection_interval"
    return Finding(Health.WRONG, f"{reporting} of {expected} GPUs publish utilization", advice)


def _of_ec2(evidence: Evidence, policy: Policy) -> Finding | None:
    missing = [
        name
        for name in policy.vetoes.required
        if name in evidence.read
        and evidence.measured_percent.get(name, 0.0) < policy.idle.minimum_coverage_percent
    ]
    if not missing:
        return None
    return Finding(
        Health.WRONG,
        f"required by the policy and not measured long enough: {', '.join(missing)}",
        "EC2 publishes CPU and network by itself from the start on; for the others see the agent, or take "
        "them out of vetoes.required",
    )


def _of_cost(evidence: Evidence, dimensions: Sequence[object] | None) -> Finding | None:
    if evidence.source is not MetricSource.PER_GPU or len(evidence.gpus) < 2 or evidence.aggregate:
        return None
    number = len(dimensions) if dimensions else len(evidence.gpus)
    return Finding(
        Health.COSTLY,
        f"read GPU by GPU ({number} series)",
        'add "aggregation_dimensions": [["InstanceId"]] to the agent\'s configuration: one read instead',
    )
