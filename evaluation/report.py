"""Prints scores as a table, and as one line of JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import sqrt

from evaluation.scoring import Score
from governor.domain.detection.survival import SurvivalDetector

HEADER = (
    f"{'':<34} {'flags':>5} {'right':>5} {'betw.':>5} {'wrong':>5} {'cens.':>5}  {'prec.':>5} {'wrong':>5} "
    f"{'recall':>6}  {'delay':>6} {'asks':>6} {'wasted':>6}  acted wrongly"
)
UNITS = (
    "prec., wrong: share of flags; recall: share of idle hours; delay: hours from idle to flag; asks and\n"
    "wasted asks (resumed within 4 h) per instance-month; acted wrongly: approved after 30 min, rechecked,\n"
    "and work came within 1 h."
)


def row(name: str, score: Score) -> str:
    """One line of the table."""
    counts = (score.flags, score.right, score.between, score.wrong, score.censored)
    return (
        f"{name:<34} {' '.join(f'{count:>5}' for count in counts)}  "
        f"{score.precision:>5.3f} {score.wrong_rate:>5.3f} {score.recall:>6.3f}  "
        f"{score.mean_delay_hours:>6.2f} {score.asks_per_month:>6.1f} {score.wasted_asks_per_month:>6.1f}  "
        f"{score.acted_wrongly} of {score.acted}"
    )


def sureness(score: Score) -> str:
    """How far chance alone could move the figures: a few dozen flags say less than three digits promise."""
    precision, wrong = (interval(count, score.flags) for count in (score.right, score.wrong))
    return (
        f"  with {score.flags} flags, 95 % intervals: precision {precision[0]:.3f} to {precision[1]:.3f}, "
        f"wrong {wrong[0]:.3f} to {wrong[1]:.3f}"
    )


def interval(count: int, of: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share; flags are taken as independent, which makes it a little narrow."""
    if not of:
        return 0.0, 1.0
    z = 1.959964
    share = count / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z / (1 + z * z / of) * sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max(0.0, middle - half), min(1.0, middle + half)


def parameters(detector: SurvivalDetector) -> str:
    """What was chosen among the candidates of the cross-validation."""
    return (
        f"chance {detector.needed_chance:g}, width {detector.similar_start_hours:g} h, "
        f"unproven {detector.unproven_minutes} min, margin {detector.interruption_margin:g}"
    )


def summary(scores: Mapping[str, Score]) -> str:
    """One JSON object: family to precision, wrong rate and recall."""
    return json.dumps(
        {
            family: {
                "precision": round(score.precision, 4),
                "wrong": round(score.wrong_rate, 4),
                "recall": round(score.recall, 4),
            }
            for family, score in scores.items()
        }
    )
