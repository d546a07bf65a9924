"""The options of `governor health`."""

from __future__ import annotations

import argparse

from cli.options.later import later


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its option."""
    parser = areas.add_parser("health")
    parser.add_argument("--file", help="use this policy instead of the stack's")
    parser.epilog = (
        "exit status: 0 if all is sound, 1 if something is wrong, 4 if no fault was found, "
        "but some instances could not be checked for all faults"
    )
    parser.set_defaults(run=later("cli.health", "health"), regions=True, reads=("file",))
