"""The options of `governor advice`."""

from __future__ import annotations

import argparse
from decimal import Decimal
from pathlib import Path

from cli.options.later import later
from cli.options.values import read_usd


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its options."""
    made = areas.add_parser("advice")
    made.add_argument("--file", help="use this policy instead of the one of the stack")
    made.add_argument(
        "--dismiss", metavar="ID", help="hide this advice for the days of advice.dismissed_for_days"
    )
    made.add_argument("--all", action="store_true", help="print what was dismissed, too")
    made.add_argument(
        "--cache", type=Path, metavar="FILE", help="where readings are kept (default: in ~/.cache)"
    )
    made.add_argument(
        "--limit-usd",
        type=read_usd,
        default=Decimal(1),
        metavar="USD",
        help="refuse if CloudWatch would charge more than this, without --yes (default: 1)",
    )
    made.add_argument(
        "--commitments",
        action="store_true",
        help="in the payer's account: look for a Savings Plan; Cost Explorer charges "
        "0.01 USD a page",
    )
    made.add_argument("--yes", action="store_true", help="agree to any charge without being asked")
    made.set_defaults(run=later("cli.advice", "run"), regions=True)
