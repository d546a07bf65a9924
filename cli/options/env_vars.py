"""The options of `governor env-vars`."""

from __future__ import annotations

import argparse

from cli.options.later import later


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    areas.add_parser("env-vars").set_defaults(run=later("cli.env_vars", "run"))
