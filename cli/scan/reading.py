"""Scan many accounts and Regions at a time, and put one report together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from governor.aws.clients import at_once
from governor.aws.cloudwatch import CloudWatchMetrics
from governor.aws.ec2 import Ec2Instances
from governor.aws.pricing import AwsPrices
from governor.aws.read_only import AwsReadApi, ReadOnlyClients
from governor.core.instance import Target
from governor.policy.model.policy import Policy
from governor.scan.kind import Kept, Place
from governor.scan.model import Report, Unread
from governor.scan.registry import KINDS
from governor.scan.rules import by_waste
from governor.scan.scan_place import PlaceReport, scan_place

_PLACES_AT_A_TIME = 16
"""Each has rates of its own at AWS."""


def scan_targets(
    clients: ReadOnlyClients,
    targets: Sequence[Target],
    unread: Sequence[Unread],
    *,
    now: datetime,
    reads_commitments: bool,
    progress: Callable[[str], None],
) -> Report:
    """Return the report on these accounts and Regions. `unread` has the lines about accounts that
    could not be reached at all; `progress` is called with a line for people."""
    api = AwsReadApi(clients)
    instances = Ec2Instances(clients)
    metrics = CloudWatchMetrics(clients)
    prices = AwsPrices(clients)
    kept = Kept()
    done: list[Target] = []

    def scan(target: Target) -> PlaceReport:
        place = Place(
            target=target,
            api=api,
            instances=instances,
            metrics=metrics,
            prices=prices,
            policy=Policy(),
            now=now,
            reads_commitments=reads_commitments,
            kept=kept,
        )
        report = scan_place(place, KINDS)
        done.append(target)
        progress(f"scanned {len(done)} of {len(targets)} accounts and Regions")
        return report

    reports = at_once(scan, targets, _PLACES_AT_A_TIME)
    rows = [row for report in reports for row in report.rows]
    missing = [line for report in reports for line in report.unread]
    return Report(
        rows=by_waste(rows),
        unread=tuple(sorted((*unread, *missing))),
        places=tuple(targets),
        calls=clients.calls,
    )
