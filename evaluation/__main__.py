"""`make evaluate [TRACES=dir] [PLOT=file.svg]`: scores detectors; the last line is one JSON object."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from evaluation import crossval, frontier, report
from evaluation.scoring import replay, total
from evaluation.traces import Trace, TraceError, read_directory
from governor.domain.detection.detector import Detector
from governor.domain.detection.threshold import Statistic, ThresholdDetector
from governor.domain.policy import Policy

DEFAULT = Policy().past_detector
"""What the product judges by where the policy says nothing."""
BESIDE: tuple[Detector, ...] = (
    ThresholdDetector(60, Statistic.MEAN_OF_ALL),
    ThresholdDetector(60, Statistic.MEAN_OF_EACH_GPU),
    *(ThresholdDetector(minutes) for minutes in (60, 120, 180, 360)),
)


def main() -> int:
    """Scores and prints. Returns the exit status: 2 when the traces cannot be read."""
    parser = argparse.ArgumentParser(prog="evaluate", description=__doc__)
    parser.add_argument("traces", type=Path, help="a trace file, or a directory of them (*.csv, *.csv.gz)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the frontier into this SVG file")
    arguments = parser.parse_args()
    try:
        traces = list(read_directory(arguments.traces))
    except (TraceError, OSError) as error:
        print(f"evaluate: {error}", file=sys.stderr)
        return 2
    if not traces:
        print(
            f"warning: no rows with a measurement in {arguments.traces}: nothing is scored", file=sys.stderr
        )
    families: dict[str, list[Trace]] = {}
    for trace in sorted(traces, key=lambda one: one.family):
        families.setdefault(trace.family, []).append(trace)
    defaults = {}
    for family, members in families.items():
        print(f"\n{family}: {len(members)} instances")
        print(report.HEADER)
        for detector in (*BESIDE, DEFAULT):
            score = total(replay(trace, detector) for trace in members)
            print(report.row(detector.name, score), flush=True)
            defaults[family] = score  # the last one is the default's
        print(report.sureness(defaults[family]))
    print(f"\n{report.UNITS}")
    _print_cross_validation(traces)
    _print_frontier(families, arguments.plot)
    print(f"\n{report.summary(defaults)}")
    return 0


def _print_cross_validation(traces: Sequence[Trace]) -> None:
    scores = crossval.scores_by_machine(traces)
    print(
        f"\ncross-validation: chosen from {len(scores)} candidates on the rest, scored on what was left out"
    )
    validations = {}
    parts: tuple[tuple[str, Callable[[crossval.Fold], str]], ...] = (
        ("one machine left out", "/".join),
        ("one family left out", lambda fold: fold[0]),
    )
    for name, part in parts:
        reason = crossval.why_not(scores, part)
        if reason is None:
            validations[name] = crossval.leave_out(scores, part)
        else:
            print(f"{name}: {reason}")
    if validations:
        print(report.HEADER)
    for name, validation in validations.items():
        for family, score in sorted(validation.scores.items()):
            print(report.row(f"{family}, {name}", score))
    for name, validation in validations.items():
        print(f"chosen with {name}:")
        for candidate, times in sorted(validation.chosen.items(), key=lambda item: -item[1]):
            print(f"  {times:>3} times {report.parameters(candidate)}")


def _print_frontier(families: Mapping[str, Sequence[Trace]], plot: Path | None) -> None:
    print("\nfrontier: from little proof to much")
    curves = {}
    for family, members in families.items():
        curves[family] = (
            frontier.curve(members, frontier.FIXED),
            frontier.curve(members, frontier.SURVIVAL),
        )
        print(f"{family}\n{frontier.table(*curves[family])}", flush=True)
    if plot:
        plot.write_text(frontier.svg(curves), encoding="utf-8")
        print(f"drawn into {plot}")


if __name__ == "__main__":
    sys.exit(main())
