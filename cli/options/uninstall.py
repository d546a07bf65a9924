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
    parser.add_argument("--remove", metavar="KINDS", help=f"one or more of: {','.join(REMOVABLE)}")
    parser.add_argument(
        "--remove-snapshots", action="store_true", help="permanently delete recorded snapshots"
    )
    parser.add_argument(
        "--recorded",
        type=Path,
        metavar="FILE",
        help="in another account: a file with the output of `governor uninstall --json` "
        "from the stack's account, where the snapshots are recorded",
    )
    parser.add_argument(
        "--remove-audit",
        action="store_true",
        help="permanently delete the audit and the saved user data",
    )
    parser.add_argument(
        "--confirm", metavar="STACK", help="the stack's name; otherwise you are asked to type it"
    )
    parser.add_argument(
        "--selector",
        metavar="VALUE",
        help="the value of the tag Purpose, if it was not the default",
    )
    parser.set_defaults(run=later("cli.uninstall", "run"), regions=True, reads=("recorded",))
