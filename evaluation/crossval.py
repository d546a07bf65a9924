"""Guards against tuning: parameters chosen without a machine, or without a whole family, are tried on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from evaluation.scoring import Score, replay, total
from evaluation.traces import Trace
from governor.domain.detection.survival import SurvivalDetector

GOALS = {"lab": (0.85, 0.03, 0.94), "notebooks": (0.68, 0.08, 0.65), "serving": (0.0, 0.25, 0.18)}
"""Precision at least, wrong rate at most, recall at least; 0 where there is no goal."""

GRID = tuple(
    SurvivalDetector(
        needed_chance=chance, similar_start_hours=width, unproven_minutes=minutes, interruption_margin=margin
    )
    for chance, width, minutes, margin in product((0.6, 0.65, 0.7), (1.0, 1.5), (120, 180), (1.0, 1.5, 2.0))
)
"""What the parameters are chosen from. What is not in it keeps its default."""

Fold = tuple[str, str]
"""Family and machine."""


@dataclass(frozen=True, slots=True)
class Validation:
    """Scores on what was left out, by family, and how often which candidate was chosen."""

    scores: Mapping[str, Score]
    chosen: Mapping[SurvivalDetector, int]


def scores_by_machine(
    traces: Sequence[Trace], candidates: Sequence[SurvivalDetector] = GRID
) -> dict[SurvivalDetector, dict[Fold, Score]]:
    """Each candidate's score on each machine; a machine may have several traces."""
    found: dict[SurvivalDetector, dict[Fold, Score]] = {}
    for candidate in candidates:
        folds = found[candidate] = {}
        for trace in traces:
            fold = (trace.family, trace.machine)
            folds[fold] = folds.get(fold, Score()) + replay(trace, candidate)
    return found


def why_not(
    scores: Mapping[SurvivalDetector, Mapping[Fold, Score]], part: Callable[[Fold], str]
) -> str | None:
    """Why leaving parts out says nothing; `None` where it does.

    The rest must hold idleness of a family with a goal whichever part is left out, or any candidate is as
    good as the other on it.
    """
    teaching = {
        part(fold)
        for fold, score in next(iter(scores.values())).items()
        if fold[0] in GOALS and score.idle_bins
    }
    if len(teaching) > 1:
        return None
    found = f"idleness in {teaching.pop()} alone" if teaching else "no idleness at all"
    return f"not possible: there is {found}, and nothing else to choose the parameters from"


def leave_out(
    scores: Mapping[SurvivalDetector, Mapping[Fold, Score]], part: Callable[[Fold], str]
) -> Validation:
    """Leaves out one part after the other, chooses the best candidate on the rest and scores it on the part.

    Args:
        scores: as `scores_by_machine` gives them.
        part: names the part that a machine belongs to, for instance its own name or its family.
    """
    folds = list(next(iter(scores.values())))
    parts = sorted({part(fold) for fold in folds})
    sums = {candidate: _by_family(scores[candidate]) for candidate in scores}
    held_out: dict[str, Score] = {}
    chosen: dict[SurvivalDetector, int] = {}
    for name in parts:
        own = {
            candidate: _by_family(
                {fold: one for fold, one in scores[candidate].items() if part(fold) == name}
            )
            for candidate in scores
        }
        best = min(scores, key=lambda candidate: shortfall(_without(sums[candidate], own[candidate])))
        chosen[best] = chosen.get(best, 0) + 1
        for family, score in own[best].items():
            held_out[family] = held_out.get(family, Score()) + score
    return Validation(held_out, chosen)


def shortfall(scores: Mapping[str, Score]) -> float:
    """How far the goals are missed, added up over families and figures; 0 when all are met."""
    missed = 0.0
    for family, score in scores.items():
        if family in GOALS and score.idle_bins:
            precision, wrong, recall = GOALS[family]
            missed += max(0.0, precision - score.precision)
            missed += max(0.0, score.wrong_rate - wrong)
            missed += max(0.0, recall - score.recall)
    return missed


def _by_family(scores: Mapping[Fold, Score]) -> dict[str, Score]:
    families = {family for family, _ in scores}
    return {family: total(one for fold, one in scores.items() if fold[0] == family) for family in families}


def _without(sums: Mapping[str, Score], part: Mapping[str, Score]) -> dict[str, Score]:
    return {family: score - part.get(family, Score()) for family, score in sums.items()}
