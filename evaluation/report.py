"""Prints scores as a table, and as one line of JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Mapping

from evaluation.scoring import Score
from evaluation.shares import interval

HEADER = (
    f"{'ask after':<28} {'asked':>5} {'right':>5} {'betw.':>5} {'wrong':>5} {'cens.':>5}   "
    f"{'precision':<16} {'wrong rate':<16} {'recall':<16} stopped wrongly"
)
UNITS = (
    "right: nothing ran for 4 hours after the question; wrong: work was back within 1 "
    "hour; betw.: between\n"
    "the two; cens.: nobody saw how it went on. precision, wrong rate: shares of the "
    "questions, with exact\n"
    "95 % intervals; recall: share of the idle hours between a question and the next "
    "work, with its 95 %\n"
    "interval over idle stretches. stopped wrongly: approved after 30 min, and work was "
    "back within 1 hour.\n"
    "*: the default."
)


def row(name: str, score: Score, *, is_default: bool = False) -> str:
    """Return one line of the table; the default is marked."""
    counts = (score.questions, score.right, score.between, score.wrong, score.censored)
    shares = (
        (score.precision, interval(score.right, score.questions)),
        (score.wrong_rate, interval(score.wrong, score.questions)),
        (score.recall, score.recall_interval),
    )
    label = f"{name} *" if is_default else name
    count_cells = " ".join(f"{count:>5}" for count in counts)
    share_cells = " ".join(f"{share:.3f} {low:.2f}-{high:.2f} " for share, (low, high) in shares)
    acted = f"{score.acted_wrongly} of {score.acted}"
    return f"{label:<28} {count_cells}   {share_cells} {acted}"


def summary(scores: Mapping[str, Score]) -> str:
    """Return one JSON object: family to precision, wrong rate and recall."""
    figures_by_family = {}
    for family, score in scores.items():
        figures_by_family[family] = {
            "precision": round(score.precision, 4),
            "wrong": round(score.wrong_rate, 4),
            "recall": round(score.recall, 4),
        }
    return json.dumps(figures_by_family)
