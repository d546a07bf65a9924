"""The options of `governor uninstall`."""

from __future__ import annotations

import argparse
from pathlib import Path

from cli.options.later import later

REMOVABLE = (
    "workflows",
    "tags",
    "alarms",
    "schedules",
    "logs",
    "table",
    "copies",
    "policy",
    "reports",
    "key",
)
"""Kinds that `--remove` takes."""


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its options."""
    parser = areas.add_parser("uninstall")
    parser.add_argument("--remove", metavar="KINDS", help=f"some of: {','.join(REMOVABLE)}")
    parser.add_argument(
        "--remove-snapshots", action="store_true", help="delete recorded snapshots, for good"
    )
    parser.add_argument(
        "--recorded",
        type=Path,
        metavar="FILE",
        help="in another account: the output of `governor uninstall --json` in the "
        "stack's account, whose table knows the snapshots",
    )
    parser.add_argument(
        "--remove-audit", action="store_true", help="delete the audit and kept user data, for good"
    )
    parser.add_argument(
        "--confirm", metavar="STACK", help="the stack's name; else you are asked to type it"
    )
    parser.add_argument(
        "--selector",
        metavar="VALUE",
        help="the value of the tag Purpose, if it was not the default",
    )
    parser.set_defaults(run=later("cli.uninstall", "run"), regions=True)
