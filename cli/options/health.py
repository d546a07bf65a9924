"""The options of `governor health`."""

from __future__ import annotations

import argparse

from cli.options.later import later


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its option."""
    parser = areas.add_parser("health")
    parser.add_argument("--file", help="use this policy instead of the one of the stack")
    parser.set_defaults(run=later("cli.health", "health"), regions=True)
