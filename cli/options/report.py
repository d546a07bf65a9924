"""The options of `governor report`."""

from __future__ import annotations

import argparse

from cli.options.later import later


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    command = areas.add_parser("report")
    command.add_argument("--month", help="a month, such as 2026-11 (default: the current one, UTC)")
    command.add_argument(
        "--format",
        choices=("table", "html", "csv", "json"),
        default="table",
        help="the format of the output (default: %(default)s)",
    )
    for name in ("owner", "project", "account"):
        command.add_argument(f"--{name}", default="", help=f"only this {name}")
    command.add_argument(
        "--own-cost", action="store_true", help="add the measured cost of GPU Governor itself"
    )
    command.add_argument(
        "--kept",
        action="store_true",
        help="list the instances that are left alone, why, and their cost instead",
    )
    command.add_argument(
        "--ungoverned", action="store_true", help="list what the daily scan found instead"
    )
    command.add_argument("--jobs", action="store_true", help="list the cost of each job instead")
    command.set_defaults(run=later("cli.report", "run"))
