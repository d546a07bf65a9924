"""The options of `governor freezes`."""

from __future__ import annotations

import argparse

from cli.options.later import later


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    areas.add_parser("freezes").set_defaults(run=later("cli.freezes", "run"))
