"""The options of `governor mode`."""

from __future__ import annotations

import argparse

from cli.options.later import later
from cli.options.values import MODES


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    made = areas.add_parser("mode")
    made.add_argument("mode", nargs="?", choices=MODES, help="the new mode")
    made.add_argument(
        "--dry-run", action="store_true", help="show the change and check it; store nothing"
    )
    made.set_defaults(run=later("cli.mode", "run"))
