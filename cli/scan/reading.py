"""Scan many accounts and Regions at a time, and put one report together."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from datetime import datetime
from typing import Any

from cli.scan.interruption import THREADS
from cli.scan.places import Places
from governor.aws.cloudwatch import CloudWatchMetrics
from governor.aws.ec2 import Ec2Instances
from governor.aws.prices_now import AwsPricesNow
from governor.aws.read_only import AwsReadApi, ReadOnlyClients
from governor.core.instance import Target
from governor.policy.model.policy import Policy
from governor.scan.cost import usd_of_calls
from governor.scan.kind import Kept, Kind, Place
from governor.scan.model import Report, Row, Unread
from governor.scan.rules import most_expensive_waste_first
from governor.scan.scan_place import PlaceReport, scan_place
from governor.scan.unread import interrupted, unread_prices

PLACES_AT_A_TIME = 16
"""Each has rates of its own at AWS."""
_A_MOMENT_SECONDS = 0.1
"""How soon an interruption is noticed."""
_LAST_SECONDS = 0.5
"""How long the places that are being scanned may take to end after an interruption."""
_ANY_REGION = "us-east-1"
_PLACES_A_CLEANING = 32
"""Clients of botocore refer to themselves, so that Python frees them late: a hundred places would
else hold a gigabyte."""


def scan_places(
    clients: ReadOnlyClients,
    places: Places,
    kinds: Sequence[Kind[Any, Any]],
    *,
    now: datetime,
    reads_commitments: bool,
    progress: Callable[[str], None],
) -> Report:
    """Return the report on these accounts and Regions; `progress` is called with a line for people.

    An interruption of the clients ends it within a second: the report has what was read until then,
    and a line for each place that was not.
    """
    api = AwsReadApi(clients)
    instances = Ec2Instances(clients)
    metrics = CloudWatchMetrics(clients)
    prices = AwsPricesNow(clients, _caller(places))
    kept = Kept()
    numbers = itertools.count(1)

    def scan(target: Target) -> PlaceReport:
        if clients.is_interrupted:
            return PlaceReport((), (interrupted(str(target)),))
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
        report = scan_place(place, kinds)
        clients.forget(target)
        number = next(numbers)
        if number % _PLACES_A_CLEANING == 0:
            gc.collect()
        progress(f"scanned {number} of {len(places.targets)} accounts and Regions")
        return report

    reports = _at_once(scan, places.targets, clients)
    rows: list[Row] = []
    missing: list[Unread] = []
    for report in reports:
        rows += report.rows
        missing += report.unread
    missing += unread_prices(_caller(places).account, prices.problem, prices.spot_problems)
    return Report(
        scanned_at=now,
        rows=most_expensive_waste_first(rows),
        unread=tuple(sorted((*places.unread, *missing))),
        places=places.targets,
        calls=clients.calls,
        usd_spent=usd_of_calls(clients.calls, clients.metrics_requested),
    )


def _caller(places: Places) -> Target:
    """Return the target by whose partition AWS's price list is found, without a role: everybody
    reads the same prices."""
    if not places.targets:
        return Target("", _ANY_REGION)
    first = places.targets[0]
    return Target(first.account, first.region)


def _at_once(
    scan: Callable[[Target], PlaceReport], targets: Sequence[Target], clients: ReadOnlyClients
) -> list[PlaceReport]:
    """Return the reports of all places, in their order. After an interruption or a defect no
    further call is made, and calls that still wait for AWS are not waited for. Raises: the
    defect."""
    pool = ThreadPoolExecutor(PLACES_AT_A_TIME, thread_name_prefix=THREADS)
    reports = [pool.submit(scan, target) for target in targets]
    pending = set(reports)
    while pending and not clients.is_interrupted:
        done, pending = wait(pending, timeout=_A_MOMENT_SECONDS, return_when=FIRST_EXCEPTION)
        if any(report.exception() for report in done):
            clients.interrupt()
    wait(pending, timeout=_LAST_SECONDS)
    pool.shutdown(wait=False, cancel_futures=True)
    return [_ended(report, target) for report, target in zip(reports, targets, strict=True)]


def _ended(report: Future[PlaceReport], target: Target) -> PlaceReport:
    """Return the report of a place; that it was interrupted if it has none. Raises: what the scan
    of the place raised."""
    if report.cancelled() or not report.done():
        return PlaceReport((), (interrupted(str(target)),))
    return report.result()
