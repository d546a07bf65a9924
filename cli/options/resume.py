"""The options of `governor resume`."""

from __future__ import annotations

import argparse

from cli.options.later import later


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its options."""
    command = areas.add_parser("resume")
    command.add_argument(
        "--all", action="store_true", required=True, help="every account and Region"
    )
    command.add_argument(
        "--since", help="the pause to end, as the command prints it without this option"
    )
    command.set_defaults(run=later("cli.pause", "resume"))
