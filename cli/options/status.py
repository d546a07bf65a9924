"""The options of `governor status`."""

from __future__ import annotations

import argparse

from cli.options.later import later


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    areas.add_parser("status").set_defaults(run=later("cli.status", "run"))
