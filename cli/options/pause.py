"""The options of `governor pause`."""

from __future__ import annotations

import argparse

from cli.options.later import later


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its options."""
    command = areas.add_parser("pause")
    command.add_argument(
        "--all", action="store_true", required=True, help="every account and Region"
    )
    command.add_argument("--reason", help="the reason, for the message and the audit")
    command.set_defaults(run=later("cli.pause", "pause"))
