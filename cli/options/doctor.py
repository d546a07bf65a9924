"""The options of `governor doctor`."""

from __future__ import annotations

import argparse

from cli.options.later import later


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its option."""
    parser = areas.add_parser("doctor")
    parser.add_argument("--file", help="use this policy instead of the stack's")
    parser.set_defaults(run=later("cli.doctor", "doctor"), regions=True, reads=("file",))
