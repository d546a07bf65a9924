"""The options of `governor restore`."""

from __future__ import annotations

import argparse

from cli.options.later import later


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    made = areas.add_parser("restore")
    made.add_argument(
        "--from",
        dest="source",
        required=True,
        metavar="TABLE",
        help="the restored copy of the state table",
    )
    made.add_argument(
        "--dry-run", action="store_true", help="show what would be restored; write nothing"
    )
    made.add_argument(
        "--confirm", metavar="STACK", help="the stack's name; otherwise you are asked to type it"
    )
    made.set_defaults(run=later("cli.restore", "run"))
