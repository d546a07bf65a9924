"""The options of `governor open`."""

from __future__ import annotations

import argparse

from cli.options.later import later


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its option."""
    console = areas.add_parser("open")
    console.add_argument("--print", action="store_true", help="print the address instead")
    console.set_defaults(run=later("cli.open", "run"))
