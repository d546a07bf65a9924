"""`governor scan`: every idle accelerator of an account or an organization, before anything is
deployed. It needs read rights alone.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

from cli import aws
from cli.errors import CommandError
from cli.progress import Progress
from cli.scan.places import accounts_of, targets_of
from cli.scan.reading import scan_targets
from cli.scan.table import print_report
from governor.aws.read_only import ReadOnlyClients
from governor.core.regions import partition_of
from governor.scan.model import Report
from governor.scan.registry import KINDS
from governor.scan.rights import operations_of_a_scan, policy_to_attach, session_policy

NOTHING = 0
WASTE = 3
INCOMPLETE = 4


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its options."""
    parser = areas.add_parser("scan")
    parser.add_argument("--role", metavar="NAME", help="a role to assume in the other accounts")
    parser.add_argument(
        "--units",
        nargs="+",
        default=(),
        metavar="ID",
        help="organizational units or the root, such as ou-ab12-34567890: all their accounts",
    )
    parser.add_argument(
        "--fail-over",
        type=_usd,
        metavar="USD",
        help=f"exit with status {WASTE} if the waste a month is above this",
    )
    parser.add_argument(
        "--commitments",
        action="store_true",
        help="also ask Cost Explorer, which AWS bills at 0.01 USD a request",
    )
    parser.add_argument(
        "--print-policy", action="store_true", help="print the IAM policy that a scan needs"
    )
    parser.set_defaults(run=run, regions=True)


def _usd(text: str) -> Decimal:
    """Return an amount of the command line. Raises: ArgumentTypeError."""
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no amount of USD, such as 500")
    return amount


def run(arguments: argparse.Namespace) -> int:
    """Print the report. Return 0 if everything was read, 3 if the waste is above `--fail-over`,
    else 4 if something could not be read.

    Raises: CommandError if the caller has no credentials, or the options do not go together.
    """
    if bool(arguments.role) != bool(arguments.units):
        raise CommandError("--role and --units go together: which role, in whose accounts")
    if arguments.print_policy:
        partition = partition_of(arguments.region[0]) if arguments.region else "aws"
        print(policy_to_attach(KINDS, arguments.role, partition))
        return NOTHING
    report = _scan(arguments)
    print_report(report)
    return exit_status(report, arguments.fail_over)


def _scan(arguments: argparse.Namespace) -> Report:
    """Return the report on all accounts and Regions that the command line names."""
    session = aws.session(arguments.region or ())
    clients = ReadOnlyClients(
        operations_of_a_scan(KINDS), session_policy(KINDS), session.region_name
    )
    with Progress("scanning", after_seconds=0.5) as progress:
        accounts = accounts_of(clients, arguments.role, arguments.units)
        targets, unread = targets_of(clients, accounts, arguments.region or ())
        return scan_targets(
            clients,
            targets,
            unread,
            now=datetime.now(UTC),
            reads_commitments=arguments.commitments,
            progress=progress.show,
        )


def exit_status(report: Report, fail_over: Decimal | None) -> int:
    """Return the exit status of a report; waste above the limit counts before what is missing."""
    if fail_over is not None and report.waste_usd_per_month > fail_over:
        return WASTE
    return NOTHING if report.is_complete else INCOMPLETE
