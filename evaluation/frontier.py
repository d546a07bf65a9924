"""What more proof buys: each family's precision and wrong rate against its recall, as a table and a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluation.crossval import GOALS
from evaluation.scoring import Score, replay, total
from evaluation.traces import Trace
from governor.domain.detection.detector import Detector
from governor.domain.detection.survival import SurvivalDetector
from governor.domain.detection.threshold import ThresholdDetector

FIXED: tuple[ThresholdDetector, ...] = tuple(
    ThresholdDetector(minutes)
    for minutes in (30, 45, 60, 75, 90, 105, 120, 150, 180, 210, 240, 300, 360, 480)
)
SURVIVAL: tuple[SurvivalDetector, ...] = tuple(
    SurvivalDetector(
        needed_chance=chance,
        minimum_minutes=min(60, minutes),
        unproven_minutes=minutes,
        interruption_margin=margin,
    )
    for chance, minutes, margin in (
        (0.45, 45, 1.0),
        (0.5, 60, 1.0),
        (0.55, 75, 1.25),
        (0.6, 90, 1.25),
        (0.6, 105, 1.5),
        (0.65, 120, 1.5),
        (0.65, 150, 1.5),
        (0.7, 180, 1.5),
        (0.7, 210, 1.75),
        (0.75, 240, 2.0),
        (0.8, 300, 2.0),
        (0.85, 360, 2.5),
    )
)
"""From little proof to much; the default stands among them."""

WIDTH, HEIGHT, LEFT, TOP, GAP = 250, 190, 46, 40, 58
COLORS = {"fixed": "#8a8f98", "survival": "#0b6e4f", "goal": "#c2410c"}


@dataclass(frozen=True, slots=True)
class Curve:
    """Scores from little proof to much, so that recall falls along it."""

    scores: tuple[Score, ...]

    def wrong_rate_at(self, recall: float) -> float | None:
        """The lowest wrong rate of all that catch at least so much, on the lines between the points too.

        `None` where the curve never catches so much.
        """
        found: list[float] = [one.wrong_rate for one in self.scores if one.recall >= recall]
        for more, less in zip(self.scores, self.scores[1:], strict=False):
            if more.recall > recall > less.recall:
                share = (more.recall - recall) / (more.recall - less.recall)
                found.append(more.wrong_rate + share * (less.wrong_rate - more.wrong_rate))
        return min(found) if found else None


def curve(traces: Sequence[Trace], detectors: Sequence[Detector]) -> Curve:
    """One point a detector."""
    return Curve(tuple(total(replay(trace, one) for trace in traces) for one in detectors))


def table(fixed: Curve, survival: Curve) -> str:
    """One line a point: what it reaches, and the best that fixed windows reach at the same recall."""
    lines = [
        f"  {'chance, unproven, margin':<26} {'recall':>6} {'prec.':>6} {'wrong':>6}   "
        "wrong of fixed windows at that recall"
    ]
    for detector, score in zip(SURVIVAL, survival.scores, strict=True):
        label = (
            f"{detector.needed_chance:.2f}, {detector.unproven_minutes} min, {detector.interruption_margin:g}"
        )
        beside = fixed.wrong_rate_at(score.recall)
        lines.append(
            f"  {label:<26} {score.recall:>6.3f} {score.precision:>6.3f} {score.wrong_rate:>6.3f}   "
            f"{'never so much' if beside is None else f'{beside:.3f}'}"
        )
    return "\n".join(lines)


def svg(curves: Mapping[str, tuple[Curve, Curve]]) -> str:
    """A drawing of all families: precision above, wrong rate below, recall to the right.

    Args:
        curves: family to the curve of fixed windows and that of the default detector.
    """
    width = LEFT + len(curves) * (WIDTH + GAP)
    height = TOP + 2 * (HEIGHT + GAP) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="11" fill="#333">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{LEFT}" y="16"><tspan fill="{COLORS["survival"]}" font-weight="bold">survival of own gaps'
        f'</tspan> beside <tspan fill="{COLORS["fixed"]}" font-weight="bold">fixed windows of 30 min to 8 h'
        f'</tspan>; <tspan fill="{COLORS["goal"]}" font-weight="bold">goal</tspan></text>',
    ]
    for column, (family, (fixed, survival)) in enumerate(curves.items()):
        x = LEFT + column * (WIDTH + GAP)
        goal = GOALS.get(family)
        for row, (what, figure) in enumerate((("precision", 0), ("wrong rate", 1))):
            y = TOP + row * (HEIGHT + GAP)
            parts += _axes(x, y, f"{family}: {what} against recall")
            for curve_of, color in ((fixed, COLORS["fixed"]), (survival, COLORS["survival"])):
                points = [(one.recall, (one.precision, one.wrong_rate)[figure]) for one in curve_of.scores]
                parts += _line(x, y, points, color)
            if goal:
                parts += _goal(x, y, goal[2], goal[figure])
    return "\n".join([*parts, "</svg>", ""])


def _axes(x: int, y: int, title: str) -> list[str]:
    parts = [f'<text x="{x}" y="{y - 6}" font-weight="bold">{title}</text>']
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        across, down = x + tick * WIDTH, y + (1 - tick) * HEIGHT
        parts += [
            f'<path d="M{x} {down:.1f}h{WIDTH}M{across:.1f} {y}v{HEIGHT}" stroke="#e5e7eb" fill="none"/>',
            f'<text x="{x - 6}" y="{down + 4:.1f}" text-anchor="end">{tick:g}</text>',
            f'<text x="{across:.1f}" y="{y + HEIGHT + 15}" text-anchor="middle">{tick:g}</text>',
        ]
    return parts


def _line(x: int, y: int, points: Sequence[tuple[float, float]], color: str) -> list[str]:
    places = [(x + recall * WIDTH, y + (1 - value) * HEIGHT) for recall, value in points]
    path = " ".join(f"{across:.1f},{down:.1f}" for across, down in places)
    return [
        f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>',
        *(f'<circle cx="{across:.1f}" cy="{down:.1f}" r="2.5" fill="{color}"/>' for across, down in places),
    ]


def _goal(x: int, y: int, recall: float, value: float) -> list[str]:
    across, down = x + recall * WIDTH, y + (1 - value) * HEIGHT
    return [
        f'<path d="M{across - 5:.1f} {down:.1f}h10M{across:.1f} {down - 5:.1f}v10" '
        f'stroke="{COLORS["goal"]}" stroke-width="2"/>'
    ]
