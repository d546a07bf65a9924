"""Asks an instance's own past whether its idleness will last, where the policy's detector does.

Only idleness that the rules have already proved gets here: the past can ask for a longer proof, never for a
shorter one. This module must not know how a detector weighs the past.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

from governor.domain.detection.history import BIN_SECONDS, Bin, History
from governor.domain.evidence import Evidence, Window, is_reading, window_before
from governor.domain.instance import Instance, Target
from governor.domain.policy import Metrics, Policy
from governor.domain.units import UtcDatetime
from governor.domain.verdict import Verdict, VerdictKind
from governor.usecases.gather_evidence import EvidenceRequest, Gathered, GatherEvidence

_BIN = timedelta(seconds=BIN_SECONDS)


@dataclass(frozen=True, slots=True)
class Proved:
    """An instance that the rules call idle, with what they rest on."""

    instance: Instance
    policy: Policy
    gathered: Gathered
    verdict: Verdict


class Past(Protocol):
    """Where histories come from: metrics that are read now, or a recording."""

    def __call__(
        self, target: Target, asked: Sequence[Proved], now: UtcDatetime
    ) -> Mapping[str, History | str]:
        """By instance id what was seen in `past_window`, or why it could not be read."""
        ...


@dataclass(frozen=True, slots=True)
class ReadPast:
    """Reads it: one metric more for each series of those that are asked about, whatever their length.

    Instances whose policies look equally far back share their calls.
    """

    gather: GatherEvidence

    def __call__(
        self, target: Target, asked: Sequence[Proved], now: UtcDatetime
    ) -> Mapping[str, History | str]:
        """As the protocol says."""
        requests = [
            EvidenceRequest(
                instance=one.instance,
                # Utilization alone is read, by these names; no other setting has a say in it.
                policy=Policy(metrics=_in_bins(one.policy.metrics)),
                dimensions=one.gathered.dimensions,
                source=one.gathered.source,
                search=False,
                length=_length(one.policy),
            )
            for one in asked
        ]
        found = self.gather(target, requests, now) if requests else {}
        return {name: _seen(gathered.evidence) for name, gathered in found.items()}


@dataclass(frozen=True, slots=True)
class AskThePast:
    """One batch of reads for all of them; each is judged by the detector of its own policy."""

    past: Past

    def __call__(self, target: Target, proved: Sequence[Proved], now: UtcDatetime) -> dict[str, Verdict]:
        """The verdict on each, by instance id; as it was where the policy's detector asks no past."""
        asked = [one for one in proved if one.policy.detector == "survival" and one.verdict.is_idle]
        found = {one.instance.instance_id: one.verdict for one in proved}
        if asked:
            past = self.past(target, asked, now)
            for one in asked:
                found[one.instance.instance_id] = _judged(one, past[one.instance.instance_id], now)
        return found


def past_window(policy: Policy, now: UtcDatetime) -> Window:
    """What of the past is looked at, in the bins of a history."""
    return window_before(now, _length(policy), _BIN, policy.lag)


def _length(policy: Policy) -> timedelta:
    return timedelta(days=policy.survival.history_days)


def _in_bins(metrics: Metrics) -> Metrics:
    return replace(
        metrics,
        period_seconds=BIN_SECONDS,
        collection_interval_seconds=min(metrics.collection_interval_seconds, BIN_SECONDS),
    )


def _judged(one: Proved, past: History | str, now: UtcDatetime) -> Verdict:
    verdict = one.verdict
    if isinstance(past, str):
        reason = f"its past could not be read: {past}; tried again next sweep"
        return Verdict(VerdictKind.NO_DATA, reason, evidence=verdict.evidence)
    answer = one.policy.past_detector.judge(past)
    if answer.is_idle:
        return replace(verdict, reason=answer.reason)
    return Verdict(
        VerdictKind.RESTING,
        answer.reason,
        evidence=verdict.evidence,
        not_before=now + timedelta(minutes=one.policy.survival.ask_again_after_minutes),
    )


def _seen(past: Evidence) -> History | str:
    """Its bins; of an instance that was not there yet, holes, which end an observation."""
    if past.read_problem is not None:
        return past.read_problem
    history = History(int(past.window.start.timestamp()) // BIN_SECONDS)
    for seen in _bins(past):
        history.append(seen)
    return history


def _bins(past: Evidence) -> Iterator[Bin]:
    series = [gpu.utilization for gpu in past.gpus]
    for index in range(past.window.bins):
        values = [values[index] if index < len(values) else None for values in series]
        yield Bin(tuple(value if is_reading(value) else None for value in values))
