"""The options of `governor preflight`."""

from __future__ import annotations

import argparse

from cli.options.later import later


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its options."""
    parser = areas.add_parser("preflight")
    parser.add_argument(
        "--only",
        action="append",
        metavar="CHECK",
        help="run only this check; you can repeat the option",
    )
    parser.add_argument("--list", action="store_true", help="list the checks without calling AWS")
    parser.set_defaults(run=later("cli.preflight", "run"), offline=("list",))
