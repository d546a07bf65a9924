"""`make evaluate [TRACES=dir]`: scores every detector on every family; the last line is one JSON object."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from evaluation import report
from evaluation.scoring import replay, total
from evaluation.traces import Trace, TraceError, read_directory
from governor.domain.detection.detector import Detector
from governor.domain.detection.survival import SurvivalDetector
from governor.domain.detection.threshold import Statistic, ThresholdDetector

DEFAULT: Detector = SurvivalDetector()
BESIDE: tuple[Detector, ...] = (
    ThresholdDetector(60, Statistic.MEAN_OF_ALL),
    ThresholdDetector(60, Statistic.MEAN_OF_EACH_GPU),
    *(ThresholdDetector(minutes) for minutes in (60, 120, 180, 360)),
)


def main() -> int:
    """Scores and prints. Returns the exit status: 2 when the traces cannot be read."""
    parser = argparse.ArgumentParser(prog="evaluate", description=__doc__)
    parser.add_argument("traces", type=Path, help="directory with trace files (*.csv, *.csv.gz)")
    directory = parser.parse_args().traces
    try:
        traces = list(read_directory(directory))
    except (TraceError, OSError) as error:
        print(f"evaluate: {error}", file=sys.stderr)
        return 2
    families: dict[str, list[Trace]] = {}
    for trace in traces:
        families.setdefault(trace.family, []).append(trace)
    defaults = {}
    for family, members in families.items():
        print(f"\n{family}: {len(members)} instances")
        print(report.HEADER)
        for detector in (*BESIDE, DEFAULT):
            score = total(replay(trace, detector) for trace in members)
            print(report.row(detector.name, score), flush=True)
            if detector is DEFAULT:
                defaults[family] = score
    print(f"\n{report.UNITS}\n")
    print(report.summary(defaults))
    return 0


if __name__ == "__main__":
    sys.exit(main())
