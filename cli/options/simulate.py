"""The options of `governor simulate`."""

from __future__ import annotations

import argparse
from datetime import timedelta
from pathlib import Path

from cli.options.charges import add_charges
from cli.options.later import later
from cli.options.values import read_days, read_minutes, read_share


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its options."""
    made = areas.add_parser("simulate")
    made.add_argument(
        "--policy",
        action="append",
        type=Path,
        metavar="FILE",
        help="a policy in YAML; give it more than once to compare policies (default: the stack's)",
    )
    made.add_argument(
        "--traces",
        type=Path,
        metavar="PATH",
        help="replay trace files in place of the metrics of an account",
    )
    made.add_argument(
        "--days",
        type=read_days,
        metavar="N",
        help="number of past days, counted in UTC (default: 14; 56 with --recommend)",
    )
    add_charges(made)
    made.add_argument(
        "--approval-delay-minutes",
        type=read_minutes,
        default=timedelta(minutes=30),
        metavar="N",
        help="minutes until an owner is assumed to approve (default: 30)",
    )
    made.add_argument(
        "--recommend",
        action="store_true",
        help="recommend how long to wait before asking, from your own past weeks",
    )
    made.add_argument(
        "--wrong-at-most",
        type=read_share,
        metavar="PERCENT",
        help="with --recommend: the highest percentage of questions that may be wrong; a question "
        "is wrong if the instance is busy again within an hour of it (default: 5)",
    )
    made.add_argument(
        "--by",
        metavar="project|tag:KEY",
        help="with --recommend: also choose a wait for each group (default: project)",
    )
    made.add_argument(
        "--format",
        choices=["table", "json", "html"],
        default="table",
        help="the format of the output (default: table)",
    )
    made.add_argument(
        "--out", type=Path, metavar="FILE", help="write to this file instead of standard output"
    )
    made.set_defaults(
        run=later("cli.simulate", "run"),
        regions=True,
        reads=("policy",),
        reads_folders=("traces",),
        writes=("out",),
        offline=("traces",),
    )
