"""The options of `governor reconcile`."""

from __future__ import annotations

import argparse

from cli.options.later import later


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    command = areas.add_parser("reconcile")
    command.add_argument(
        "file", metavar="FILE", help="a CSV export, gzipped or not: CUR 2.0, FOCUS 1.0 or FOCUS 1.2"
    )
    command.add_argument(
        "--store", action="store_true", help="add the differences to the ledger as corrections"
    )
    command.set_defaults(run=later("cli.reconcile", "run"), reads=("file",))
