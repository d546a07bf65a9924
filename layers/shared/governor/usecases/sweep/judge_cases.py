"""Reads the metrics of a sweep's cases, as few as their verdicts need, and judges them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from governor.domain.sweep.judging import (
    after_reading,
    judge_question,
    wanted_figures,
    wants_memory,
    window_to_prove,
)
from governor.ports import Catalogue
from governor.usecases.evidence.gather_evidence import EvidenceRequest, Gathered, GatherEvidence
from governor.usecases.sweep.sweep_case import Case, Sweep

_SPREAD_OVER = 1000
"""From so many instances with several GPUs on, their GPU checks are spread over the whole interval."""


@dataclass(frozen=True, slots=True)
class JudgeCases:
    """Two batches of reads at most: the idle window of all, a longer one where a question may start."""

    gather: GatherEvidence
    catalogue: Catalogue

    def __call__(self, sweep: Sweep) -> None:
        """Give every case its verdict, and its proof where a question may start."""
        self._spread_gpu_checks(sweep)
        to_read = []
        for case in sweep.cases:
            if (verdict := case.unread_verdict) is None:
                to_read.append(case)
            else:
                case.verdict = verdict
        gathered = self._gather(sweep, {case.id: _request(case) for case in to_read})
        for case in to_read:
            case.gathered = gathered[case.id]
            case.verdict = after_reading(
                case.instance,
                case.record.hold,
                case.memory,
                case.gathered.evidence,
                case.policy,
                sweep.now,
                people_know=case.people_know,
            )
        self._prove(sweep, {case.id: case for case in to_read if not case.people_know})

    def _prove(self, sweep: Sweep, cases: Mapping[str, Case]) -> None:
        windows = {}
        for case in cases.values():
            window = window_to_prove(case.instance, case.memory, case.verdict, case.policy)
            if window is not None:
                windows[case.id] = window
        found = self._gather(sweep, {one: _longer(cases[one], window) for one, window in windows.items()})
        for one, window in windows.items():
            case = cases[one]
            case.proof = judge_question(
                case.instance, case.record.hold, found[one].evidence, case.policy, window, sweep.now
            )

    def _gather(self, sweep: Sweep, requests: Mapping[str, EvidenceRequest]) -> Mapping[str, Gathered]:
        return self.gather(sweep.target, list(requests.values()), sweep.now) if requests else {}

    def _spread_gpu_checks(self, sweep: Sweep) -> None:
        """Say when instances new to the sweep are first read GPU by GPU: a small fleet soon, a large one
        spread over the whole interval by a hash of the id, so that no sweep reads them all."""
        several = [case for case in sweep.cases if self._has_several_gpus(case)]
        share = min(1.0, len(several) / _SPREAD_OVER)
        for case in several:
            if not case.before.verdict:
                case.next_gpu_check_at = sweep.now + case.gpu_check_every * share * _hash_fraction(case.id)

    def _has_several_gpus(self, case: Case) -> bool:
        shape = self.catalogue.shape(case.instance.instance_type)
        return shape is not None and (shape.accelerator_count or 0) > 1


def _request(case: Case) -> EvidenceRequest:
    before, figures = case.before, wanted_figures(case.policy)
    again = timedelta(minutes=case.policy.metrics.rediscover_after_minutes)
    if case.people_know:
        # Watched by utilization alone: whatever acts reads everything again.
        figures = frozenset()
    elif wants_memory(case.memory, case.policy, case.now):
        figures |= {"memory"}
    return EvidenceRequest(
        instance=case.instance,
        policy=case.policy,
        dimensions=before.dimensions,
        source=before.source,
        search=before.searched_at is None or case.now - before.searched_at >= again,
        per_gpu=case.checks_gpus,
        figures=figures,
    )


def _longer(case: Case, window: timedelta) -> EvidenceRequest:
    """The same series over the window of a question, with everything that may speak against it."""
    gathered = case.gathered
    return EvidenceRequest(
        instance=case.instance,
        policy=case.policy,
        dimensions=gathered.dimensions if gathered else None,
        source=gathered.source if gathered else None,
        search=False,
        figures=wanted_figures(case.policy) | {"memory"},
        length=window,
    )


def _hash_fraction(text: str) -> float:
    return zlib.crc32(text.encode()) / 2**32
