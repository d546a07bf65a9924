"""`governor health`: faults of the GPUs of every instance, and advice, as they are now.

It reads only, and judges hardware, never idleness.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from cli import times
from cli.fleet import named, over_the_fleet, print_unseen
from cli.tables import print_text
from governor.aws.clients import Clients
from governor.aws.cloudwatch import CloudWatchMetrics
from governor.aws.ec2 import Ec2Instances
from governor.core.instance import Target
from governor.core.units import plural, printable
from governor.evidence.ports import InstanceReader, MetricReader
from governor.health.messages import advice_text, finding_document
from governor.health.model import InstanceFinding, Severity
from governor.health.read_health import HealthReading, HealthRequest, ReadHealth
from governor.policy.document import PolicyBook

_UNKNOWN = "unknown"
_STATES = (*Severity, _UNKNOWN, "sound")
"""States of an instance, the worst first."""
_WRONG_STATES = (Severity.CRITICAL, Severity.WARNING)
WRONG = 1
NOT_ALL_KNOWN = 4
"""Exit statuses. As for a scan, 4 says that the answer is incomplete; it is no failure."""


def look(
    target: Target,
    book: PolicyBook,
    instances: InstanceReader,
    metrics: MetricReader,
    now: datetime,
) -> list[HealthReading]:
    """Return a reading of every selected instance that runs, the worst first, with advice.

    Raises:
        CloudError: EC2 could not be read, or series not be listed.
    """
    requests = []
    for instance in instances.list_selected(target, book.base().policy.selector):
        policy = book.applied_to(instance).policy
        requests.append(HealthRequest(instance, policy, advice=True))
    readings = ReadHealth(metrics)(target, requests, now)
    return sorted(readings.values(), key=_rank)


def health(arguments: argparse.Namespace) -> int:
    """Print the readings. Return the exit status."""
    clients = Clients()
    now = datetime.now(tz=UTC)

    def look_at(target: Target, book: PolicyBook) -> list[HealthReading]:
        return look(target, book, Ec2Instances(clients), CloudWatchMetrics(clients), now)

    readings = over_the_fleet(arguments, look_at)
    _print(readings, as_json=arguments.json)
    return exit_status(readings)


def exit_status(readings: Sequence[HealthReading]) -> int:
    """Return 1 where something is wrong, 4 where that is not known of all, 0 otherwise."""
    states = {_state(reading) for reading in readings}
    if states.intersection(_WRONG_STATES):
        return WRONG
    if any(_is_incomplete(reading) for reading in readings):
        return NOT_ALL_KNOWN
    return 0


def _is_incomplete(reading: HealthReading) -> bool:
    """Return whether a fault of the instance may be there unseen."""
    return bool(reading.problem) or _state(reading) == _UNKNOWN


def _print(readings: Sequence[HealthReading], *, as_json: bool) -> None:
    if as_json:
        documents = [_document(reading) for reading in readings]
        print(json.dumps(documents, indent=2))
        return
    if not readings:
        print_text(
            "no running instance carries the selector tag in the Regions that were read: tag those "
            "to be judged, or name other Regions with --region"
        )
        return
    for reading in readings:
        _print_reading(reading)
    unseen = sum(not reading.has_hardware_figures for reading in readings)
    print_unseen(unseen, len(readings))
    counts = Counter(_state(reading) for reading in readings)
    counts_seen = []
    for state in _STATES:
        if counts[state]:
            counts_seen.append(f"{counts[state]} {state}")
    print_text(", ".join(counts_seen))
    if exit_status(readings) == NOT_ALL_KNOWN:
        incomplete = sum(_is_incomplete(reading) for reading in readings)
        print_text(
            f"Nothing that was read is wrong. {plural(incomplete, 'instance')} may have faults "
            "that cannot be seen: exit status 4."
        )


def _print_reading(reading: HealthReading) -> None:
    instance = reading.instance
    print_text(f"{_state(reading):<8} {named(instance, instance.instance_type)}")
    if not reading.has_hardware_figures:
        print_text("         faults cannot be seen")
    for finding in reading.findings:
        advice = advice_text(finding)
        since = times.ago(finding.since, times.now())
        sentence = f"{finding.about}; first seen {since}. {advice}"
        print_text(f"         {printable(sentence)}")
    if reading.problem:
        print_text(f"         not all could be read: {printable(reading.problem)}")
    elif not reading.measured:
        print_text("         no reading of its GPUs; `governor doctor` says what to do")


def _state(reading: HealthReading) -> str:
    """Return the severity of the worst finding.

    Without a finding, return `unknown` where the GPUs have no reading, not all could be read, or
    faults cannot be seen; else `sound`.
    """
    if reading.findings:
        return reading.findings[0].severity
    if reading.problem or not reading.measured or not reading.has_hardware_figures:
        return _UNKNOWN
    return "sound"


def _rank(reading: HealthReading) -> tuple[int, str]:
    """Return the place of a reading in the output: the worst first, then by instance id."""
    return _STATES.index(_state(reading)), reading.instance.instance_id


def _document(reading: HealthReading) -> dict[str, object]:
    instance = reading.instance
    return {
        "instance_id": instance.instance_id,
        "instance_type": instance.instance_type,
        "account": instance.target.account,
        "region": instance.target.region,
        "state": str(_state(reading)),
        "faults_are_seen": reading.has_hardware_figures,
        "problem": reading.problem,
        "findings": [
            finding_document(InstanceFinding(instance, finding)) for finding in reading.findings
        ],
    }
