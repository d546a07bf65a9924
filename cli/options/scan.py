"""The options of `governor scan`."""

from __future__ import annotations

import argparse

from cli.options.later import later
from cli.options.values import read_usd


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its options."""
    parser = areas.add_parser("scan")
    parser.add_argument("--role", metavar="NAME", help="a role to assume in the other accounts")
    parser.add_argument(
        "--units",
        nargs="+",
        default=(),
        metavar="ID",
        help="all accounts of these organizational units or the root, such as ou-ab12-34567890",
    )
    parser.add_argument(
        "--fail-over",
        type=read_usd,
        metavar="USD",
        help="end with status 3 if the waste is more than this a month",
    )
    parser.add_argument(
        "--commitments",
        action="store_true",
        help="also ask Cost Explorer, which AWS bills at 0.01 USD a request",
    )
    parser.add_argument("--csv", metavar="FILE", help="write all rows as CSV; - for no table")
    parser.add_argument("--html", metavar="FILE", help="write the report as one HTML file")
    parser.add_argument(
        "--tag",
        action="store_true",
        help="print the commands that would tag the findings for GPU Governor; it tags nothing",
    )
    parser.add_argument(
        "--print-policy", action="store_true", help="print the IAM policy that a scan needs"
    )
    parser.set_defaults(
        run=later("cli.scan", "run"),
        regions=True,
        any_region=True,
        writes=("csv", "html"),
        offline=("print_policy",),
    )
