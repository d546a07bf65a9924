"""`make evaluate [TRACES=dir]`: scores the rule for idle on traces; the last line is one JSON
object."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from evaluation import report
from evaluation.rule import Rule
from evaluation.scoring import Score, replay, total
from evaluation.traces import Trace, TraceError, read_directory
from governor.policy.model.policy import Policy

_APPROVAL = Policy().approval
DEFAULT = Rule(_APPROVAL.ask_after_minutes, _APPROVAL.ask_after_released_minutes)
"""The rule of a policy that sets nothing."""
WINDOWS = (60, 90, 120, 150, 180, 210, 240, 300, 360)
FIXED = tuple(Rule(minutes) for minutes in WINDOWS)
_SOONER = _APPROVAL.ask_after_released_minutes
RELEASED = tuple(Rule(minutes, _SOONER) for minutes in WINDOWS if minutes > _SOONER)


def main() -> int:
    """Score and print. The exit status is 2 when the traces cannot be read."""
    parser = argparse.ArgumentParser(prog="evaluate", description=__doc__)
    parser.add_argument(
        "traces", type=Path, help="a trace file, or a directory of them (*.csv, *.csv.gz)"
    )
    arguments = parser.parse_args()
    try:
        traces = read_directory(arguments.traces)
    except (TraceError, OSError) as error:
        print(f"evaluate: {error}", file=sys.stderr)
        return 2
    if not traces:
        print(
            f"warning: no rows with a measurement in {arguments.traces}: nothing is scored",
            file=sys.stderr,
        )
    families: dict[str, list[Trace]] = {}
    for trace in sorted(traces, key=lambda trace: trace.family):
        families.setdefault(trace.family, []).append(trace)
    defaults = {family: _print_family(family, members) for family, members in families.items()}
    print(f"\n{report.UNITS}\n\n{report.summary(defaults)}")
    return 0


def _print_family(family: str, members: Sequence[Trace]) -> Score:
    """Print the family's table and return the score of the default."""
    print(f"\n{family}: {len(members)} instances\n{report.HEADER}")
    has_memory = any(trace.memory for trace in members)
    scores = {}
    for rule in (*FIXED, *(RELEASED if has_memory else ())):
        scores[rule] = total(replay(trace, rule) for trace in members)
        print(report.row(rule.name, scores[rule], is_default=rule == DEFAULT), flush=True)
    if not has_memory:
        print(
            "GPU memory is not measured here, so it counts as held: the shorter wait never applies."
        )
        return scores[Rule(DEFAULT.window_minutes)]
    return scores[DEFAULT]


if __name__ == "__main__":
    sys.exit(main())
