"""Asks an instance's own past whether its idleness will last, where the policy's detector does.

Only idleness that the rules have already proved gets here: the past can ask for a longer proof, never for a
shorter one. This module must not know how a detector weighs the past.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from governor.domain.detection.history import BIN_SECONDS, Bin, History
from governor.domain.detection.survival import SurvivalDetector
from governor.domain.evidence import Evidence, is_reading
from governor.domain.instance import Instance, Target
from governor.domain.policy import Policy
from governor.domain.units import UtcDatetime
from governor.domain.verdict import Verdict, VerdictKind
from governor.usecases.gather_evidence import EvidenceRequest, Gathered, GatherEvidence

PAST = timedelta(days=14)
"""CloudWatch keeps five-minute data for 63 days; two weeks hold every weekday twice."""
_ASK_AGAIN = timedelta(minutes=15)
"""The past is dearer to read than the present, and changes slowly."""


@dataclass(frozen=True, slots=True)
class Proved:
    """An instance that the rules call idle, with what they rest on."""

    instance: Instance
    policy: Policy
    gathered: Gathered
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class AskThePast:
    """One batch of metric reads for all of them."""

    gather: GatherEvidence
    detector: SurvivalDetector = SurvivalDetector()

    def __call__(self, target: Target, proved: Sequence[Proved], now: UtcDatetime) -> dict[str, Verdict]:
        """The verdict on each, by instance id; as it was where the policy's detector asks no past."""
        asked = [one for one in proved if one.policy.detector == "survival" and one.verdict.is_idle]
        found = {one.instance.instance_id: one.verdict for one in proved}
        requests = [
            EvidenceRequest(
                instance=one.instance,
                policy=_over_the_past(one.policy),
                dimensions=one.gathered.dimensions,
                source=one.gathered.source,
                search=False,
            )
            for one in asked
        ]
        past = self.gather(target, requests, now) if requests else {}
        for one in asked:
            instance_id = one.instance.instance_id
            found[instance_id] = self._judged(one.verdict, past[instance_id].evidence, now)
        return found

    def _judged(self, verdict: Verdict, past: Evidence, now: UtcDatetime) -> Verdict:
        if past.read_problem is not None:
            reason = f"its past could not be read: {past.read_problem}; tried again next sweep"
            return Verdict(VerdictKind.NO_DATA, reason, evidence=verdict.evidence)
        answer = self.detector.judge(_history(past))
        if answer.is_idle:
            return replace(verdict, reason=answer.reason)
        return Verdict(
            VerdictKind.TOO_YOUNG,
            f"its idleness is: {answer.reason}",
            evidence=verdict.evidence,
            not_before=now + _ASK_AGAIN,
        )


def _over_the_past(policy: Policy) -> Policy:
    names = replace(
        policy.metrics,
        period_seconds=BIN_SECONDS,
        collection_interval_seconds=min(policy.metrics.collection_interval_seconds, BIN_SECONDS),
    )
    idle = replace(policy.idle, window_minutes=int(PAST.total_seconds() // 60))
    return replace(policy, metrics=names, idle=idle)


def _history(past: Evidence) -> History:
    """Its bins; of an instance that was not there yet, holes, which end an observation."""
    history = History(int(past.window.start.timestamp()) // BIN_SECONDS)
    series = [gpu.utilization for gpu in past.gpus]
    for index in range(past.window.bins):
        values = [values[index] if index < len(values) else None for values in series]
        history.append(Bin(tuple(value if is_reading(value) else None for value in values)))
    return history
