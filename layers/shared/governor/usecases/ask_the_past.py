"""Asks an instance's own past whether its idleness will last, where the policy's detector does.

Only idleness that the rules have already proved gets here: the past can ask for a longer proof, never for a
shorter one. This module must not know how a detector weighs the past.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import groupby
from typing import Protocol

from governor.domain.detection.history import BIN_SECONDS, IDLE_BELOW_PERCENT, Bin, History
from governor.domain.evidence import Evidence, Window, window_before
from governor.domain.instance import Instance, Target
from governor.domain.policy import Metrics, Policy
from governor.domain.units import UtcDatetime
from governor.domain.verdict import Verdict, VerdictKind
from governor.usecases.gather_evidence import EvidenceRequest, Gathered, GatherEvidence

_BIN = timedelta(seconds=BIN_SECONDS)
_POINTS_AT_ONCE = 201_600
"""Two pages of GetMetricData; GPU by GPU, eight times as many."""


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
                length=past_length(one.policy),
            )
            for one in asked
        ]
        found = self.gather(target, requests, now) if requests else {}
        return {name: _seen(gathered.evidence) for name, gathered in found.items()}


@dataclass(frozen=True, slots=True)
class AskThePast:
    """Reads a part of them at a time; each is judged by the detector of its own policy."""

    past: Past

    def __call__(self, target: Target, proved: Sequence[Proved], now: UtcDatetime) -> dict[str, Verdict]:
        """The verdict on each, by instance id; as it was where the policy's detector asks no past."""
        found = {one.instance.instance_id: one.verdict for one in proved}
        asked = [one for one in proved if needs_past(one)]
        while asked:
            some = _readable_at_once(asked)
            del asked[: len(some)]
            past = self.past(target, some, now)
            for one in some:
                found[one.instance.instance_id] = _judged(one, past[one.instance.instance_id], now)
        return found


def needs_past(one: Proved) -> bool:
    """Whether the rules call it idle and its policy asks for more."""
    return one.policy.detector == "survival" and one.verdict.is_idle


def _readable_at_once(asked: Sequence[Proved]) -> Sequence[Proved]:
    """As many as fill two pages of an answer: a fleet's past would not fit into the memory of a function."""
    longest = max(past_length(one.policy) for one in asked)
    return asked[: max(1, int(_POINTS_AT_ONCE / (longest / _BIN)))]


def past_window(policy: Policy, now: UtcDatetime) -> Window:
    """What of the past is looked at, in the bins of a history."""
    return window_before(now, past_length(policy), _BIN, policy.lag)


def past_length(policy: Policy) -> timedelta:
    """How far back it is looked at."""
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
        # Its present was read: no silence, which would be told, and counted by the breaker.
        reason = f"its past could not be read: {past}; tried again next sweep"
        return Verdict(VerdictKind.RESTING, reason, evidence=verdict.evidence, is_unread=True)
    answer = one.policy.past_detector.judge(past)
    if answer.is_idle:
        return replace(verdict, reason=answer.reason)
    again = timedelta(minutes=one.policy.survival.ask_again_after_minutes)
    lacks = again if answer.lacks_bins is None else answer.lacks_bins * _BIN
    return resting(answer.reason, verdict.evidence, now + lacks, now + again)


def resting(
    reason: str, evidence: Evidence | None, proof_at: UtcDatetime, looked_at_again: UtcDatetime
) -> Verdict:
    """Until its proof can be complete its past need not be asked: what it must show stays the same while it
    is idle. Whether it is, is looked at again before, if that is long."""
    return Verdict(
        VerdictKind.RESTING, reason, evidence, not_before=min(proof_at, looked_at_again), proof_at=proof_at
    )


def _seen(past: Evidence) -> History | str:
    """Its bins; of an instance that was not there yet, holes, which end an observation."""
    if past.read_problem is not None:
        return past.read_problem
    history = History(int(past.window.start.timestamp()) // BIN_SECONDS)
    for level, run in groupby(_levels(past)):
        history.append(_BINS[level], len(list(run)))
    return history


_BINS = (Bin((0.0,)), Bin((None,)), Bin((100.0,)))
"""Idle, unknown, busy: what two GPUs are together is the greater of the two."""
_IDLE, _UNKNOWN, _BUSY = range(len(_BINS))


def _levels(past: Evidence) -> Iterable[int]:
    """What the whole instance is, bin by bin: busy when any GPU is, idle when every GPU is."""
    bins = past.window.bins
    by_gpu = [
        [
            _UNKNOWN
            if value is None
            else _BUSY
            if value >= IDLE_BELOW_PERCENT
            else _IDLE
            if value >= 0  # nor is NaN a reading
            else _UNKNOWN
            for value in gpu.utilization
        ]
        for gpu in past.gpus
        if gpu.utilization
    ]
    if not by_gpu or len(by_gpu) < len(past.gpus):
        by_gpu.append([_UNKNOWN] * bins)
    return by_gpu[0] if len(by_gpu) == 1 else map(max, *by_gpu)
