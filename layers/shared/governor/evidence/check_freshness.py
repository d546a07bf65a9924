"""Reads the newest readings of one instance, right before a step that no person has approved.

Missing readings mean that the step waits. This module must not let a step through that the rest of
the recheck refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from governor.core.errors import Unavailable
from governor.core.instance import Instance, Target
from governor.core.units import UtcDatetime
from governor.evidence.gather_evidence import GatherEvidence
from governor.evidence.model import Evidence
from governor.evidence.request import EvidenceRequest
from governor.evidence.rules.figures import confirming_figures, required_figures
from governor.evidence.rules.freshness import MOST_AHEAD, reading_period, why_stale
from governor.policy.model.policy import Policy

READ_AGAIN = timedelta(minutes=7)
"""A step that waits for readings is checked again after this. It is not a multiple of five minutes,
because EC2's own figures would then be equally old at every check."""
_LOOK_BACK = timedelta(minutes=30)


def why_readings_are_stale(
    gather: GatherEvidence, instance: Instance, policy: Policy, now: UtcDatetime
) -> str | None:
    """Return why the newest readings prove too little to act unasked; `None` if they are new
    enough.

    Raises:
        Unavailable: the metrics could not be read.
    """
    figures = frozenset(required_figures(policy)) | set(confirming_figures())
    request = _request(instance, policy, figures)
    # A reading that is dated after this moment shows that the dates are wrong.
    gathered = gather(instance.target, [request], now + MOST_AHEAD)
    evidence = gathered[instance.instance_id].evidence
    if evidence.read_problem is not None:
        text = (
            f"the newest metrics of {instance.instance_id} could not be read: "
            f"{evidence.read_problem}"
        )
        raise Unavailable(text, operation="cloudwatch:GetMetricData")
    return why_stale(evidence, policy, now)


def newest_readings(
    gather: GatherEvidence,
    target: Target,
    instances: Sequence[Instance],
    policy: Policy,
    now: UtcDatetime,
) -> dict[str, Evidence]:
    """Return by instance id the utilization of the last half hour, and of two hours ahead of `now`,
    into which a clock that is fast dates its readings."""
    requests = [_request(instance, policy, frozenset()) for instance in instances]
    gathered_by_id = gather(target, requests, now + MOST_AHEAD)
    return {instance_id: gathered.evidence for instance_id, gathered in gathered_by_id.items()}


def _request(instance: Instance, policy: Policy, figures: frozenset[str]) -> EvidenceRequest:
    """Return the request for the newest readings, GPU by GPU and as finely as they come."""
    seconds = int(reading_period(policy.metrics).total_seconds())
    names = replace(
        policy.metrics,
        period_seconds=seconds,
        collection_interval_seconds=seconds,
        lag_seconds=0,
        work=None,
    )
    return EvidenceRequest(
        instance=instance,
        # This policy only says where to read and how finely. `policy` says what the readings mean.
        policy=Policy(metrics=names, vetoes=policy.vetoes),
        per_gpu=True,
        figures=figures,
        length=_LOOK_BACK + MOST_AHEAD,
    )
