"""`governor scan`: every idle accelerator of an account or an organization, before anything is
deployed, and the exit status. It needs only read permissions.
"""

from __future__ import annotations

import argparse
import logging
import os
from datetime import UTC, datetime
from decimal import Decimal
from typing import NoReturn

from cli import aws
from cli.notes import print_note
from cli.progress import Progress
from cli.scan.interruption import Outcome, leave_if_stuck, until_interrupted
from cli.scan.outputs import print_report, write_files
from cli.scan.places import check_regions, check_units, places_of
from cli.scan.reading import scan_places
from governor.aws.read_only import ReadOnlyClients
from governor.core.regions import partition_of
from governor.scan.model import Report
from governor.scan.registry import KINDS
from governor.scan.rights import (
    is_role_name,
    operations_of_a_scan,
    policy_to_attach,
    session_policy,
)

NOTHING = 0
WASTE = 3
INCOMPLETE = 4
_FALLBACK_REGION = "us-east-1"
"""Only the Region of the first calls: all enabled Regions are looked at."""
STANDARD_OUTPUT = "-"


def run(arguments: argparse.Namespace) -> int:
    """Print the report. Return 0 if everything was read, 3 if the waste is above `--fail-over`,
    else 4 if something could not be read.

    Raises: CommandError if the caller has no credentials, or a file cannot be written.
    """
    # Without a handler Python prints warnings, with their tracebacks: the report has a line each.
    logging.getLogger().addHandler(logging.NullHandler())
    check_regions(arguments.region or ())
    check_units(arguments.units or ())
    if arguments.role is not None and not is_role_name(arguments.role):
        _refuse(
            f"--role: {arguments.role!r} is no name of a role: IAM takes letters, digits, _+=,.@-"
        )
    if arguments.print_policy:
        regions = arguments.region or [_own_region()]
        print(policy_to_attach(KINDS, arguments.role, partition_of(regions[0])))
        return NOTHING
    _check_options(arguments)
    scanned = _scan(arguments)
    status = _shown(scanned.result, arguments)
    if scanned.is_interrupted:
        leave_if_stuck(status)
    return status


def _shown(report: Report | None, arguments: argparse.Namespace) -> int:
    """Print the report and write its files, or say that there is none; return the exit status.
    Raises: CommandError if something cannot be written."""
    if report is None:
        print_note("governor: interrupted before the first Region was read")
        return INCOMPLETE
    print_report(report, arguments)
    write_files(report, arguments)
    return exit_status(report, arguments.fail_over)


def _check_options(arguments: argparse.Namespace) -> None:
    """End the program at options that do not go together."""
    if bool(arguments.role) != bool(arguments.units):
        _refuse("--role and --units go together: which role, in whose accounts")
    on_standard_output = {
        "--json": arguments.json,
        "--csv -": arguments.csv == STANDARD_OUTPUT,
        "--tag": arguments.tag,
    }
    chosen = [option for option, is_chosen in on_standard_output.items() if is_chosen]
    if len(chosen) > 1:
        _refuse(f"{' and '.join(chosen)} do not go together: each is the whole output")
    if arguments.html == STANDARD_OUTPUT:
        _refuse("--html needs the name of a file")


def _refuse(problem: str) -> NoReturn:
    """End the program as argparse does at a wrong line, with status 2."""
    print_note(f"governor scan: error: {problem}")
    raise SystemExit(2)


def _scan(arguments: argparse.Namespace) -> Outcome[Report]:
    """Return the report on all accounts and Regions that the command line names; on what was read
    if Ctrl-C is pressed. Raises: CommandError if there is nothing to scan."""
    regions = arguments.region or ()
    session = aws.session(regions or (_own_region(),))
    region = session.region_name
    clients = ReadOnlyClients(operations_of_a_scan(KINDS), session_policy(KINDS), region)
    with Progress("looking for accounts and Regions", after_seconds=0.5) as progress:

        def scan() -> Report:
            """Look for the places, and scan them."""
            places = places_of(clients, region, arguments.role, arguments.units, regions)
            return scan_places(
                clients,
                places,
                KINDS,
                now=datetime.now(UTC),
                reads_commitments=arguments.commitments,
                progress=progress.show,
            )

        return until_interrupted(scan, clients.interrupt)


def _own_region() -> str:
    """Return the Region of the environment or the profile, or else one of the partition `aws`."""
    return os.environ.get("AWS_DEFAULT_REGION") or aws.home_region() or _FALLBACK_REGION


def exit_status(report: Report, fail_over: Decimal | None) -> int:
    """Return the exit status of a report; waste above the limit counts before what is missing.
    Where a sum is compared, waste without a price is missing, too."""
    if fail_over is not None and report.waste_usd_per_month > fail_over:
        return WASTE
    is_sum_short = fail_over is not None and report.unpriced_waste > 0
    return INCOMPLETE if is_sum_short or not report.is_complete else NOTHING
