"""The options of `governor advice`."""

from __future__ import annotations

import argparse

from cli.options.charges import add_charges
from cli.options.later import later


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its options."""
    made = areas.add_parser("advice")
    made.add_argument("--file", help="use this policy instead of the stack's")
    made.add_argument(
        "--dismiss", metavar="ID", help="hide this advice for advice.dismissed_for_days days"
    )
    made.add_argument("--all", action="store_true", help="also print dismissed advice")
    add_charges(made)
    made.add_argument(
        "--commitments",
        action="store_true",
        help="in the payer's account: look for a Savings Plan; Cost Explorer charges "
        "0.01 USD a page",
    )
    made.set_defaults(run=later("cli.advice", "run"), regions=True, reads=("file",))
