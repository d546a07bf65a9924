"""Reads the metrics of a sweep's cases, as few as their verdicts need, and judges them."""

from __future__ import annotations

import zlib
from datetime import timedelta

from governor.domain.sweep.judging import (
    after_reading,
    figures_to_read,
    judge_question,
    wanted_figures,
    window_to_prove,
)
from governor.ports import Catalogue
from governor.usecases.evidence.gather_evidence import EvidenceRequest, GatherEvidence
from governor.usecases.sweep.sweep_case import Case, Sweep

_SPREAD_OVER = 1000
"""From so many instances with several GPUs on, their GPU checks are spread over the whole interval."""


def judge_cases(sweep: Sweep, gather: GatherEvidence, catalogue: Catalogue) -> None:
    """Give every case its verdict, and its proof where a question may start.

    Two batches of reads at most: the idle window of all, a longer one where a question may start.
    """
    _spread_gpu_checks(sweep, catalogue)
    to_read = []
    for case in sweep.cases:
        if (verdict := case.unread_verdict) is None:
            to_read.append(case)
        else:
            case.verdict = verdict
    gathered = gather(sweep.target, [_request(case) for case in to_read], sweep.now)
    windows = {}
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
        window = window_to_prove(case.instance, case.memory, case.verdict, case.policy)
        if window is not None and not case.people_know:
            windows[case.id] = window
    to_prove = [case for case in to_read if case.id in windows]
    longer = gather(sweep.target, [_longer(case, windows[case.id]) for case in to_prove], sweep.now)
    for case in to_prove:
        evidence, hold = longer[case.id].evidence, case.record.hold
        case.proof = judge_question(case.instance, hold, evidence, case.policy, windows[case.id], sweep.now)


def _spread_gpu_checks(sweep: Sweep, catalogue: Catalogue) -> None:
    """Say when instances new to the sweep are first read GPU by GPU: a small fleet soon, a large one
    spread over the whole interval by a hash of the id, so that no sweep reads them all."""
    shapes = {case.id: catalogue.shape(case.instance.instance_type) for case in sweep.cases}
    several = [case for case in sweep.cases if (one := shapes[case.id]) and (one.accelerator_count or 0) > 1]
    share = min(1.0, len(several) / _SPREAD_OVER)
    for case in several:
        if not case.before.verdict:
            by_hash = zlib.crc32(case.id.encode()) / 2**32
            case.next_gpu_check_at = sweep.now + case.gpu_check_every * share * by_hash


def _request(case: Case) -> EvidenceRequest:
    before = case.before
    again = timedelta(minutes=case.policy.metrics.rediscover_after_minutes)
    return EvidenceRequest(
        instance=case.instance,
        policy=case.policy,
        dimensions=before.dimensions,
        source=before.source,
        search=before.searched_at is None or case.now - before.searched_at >= again,
        per_gpu=case.checks_gpus,
        figures=figures_to_read(case.memory, case.policy, case.now, people_know=case.people_know),
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
