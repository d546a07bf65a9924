"""The options of `governor spot`."""

from __future__ import annotations

import argparse

from cli.options.later import later


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its options."""
    parser = areas.add_parser("spot")
    parser.add_argument(
        "instance_type", metavar="TYPE", help="an instance type, such as g5.12xlarge"
    )
    parser.add_argument(
        "--platform",
        default="Linux/UNIX",
        help="the operating system, as EC2 names it (default: %(default)s)",
    )
    parser.add_argument("--file", help="use this policy instead of the stack's")
    parser.set_defaults(run=later("cli.spot", "run"), regions=True, reads=("file",))
