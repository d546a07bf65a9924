"""`governor health`: what is wrong with the GPUs of every instance, or could be better, as it is
now."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from cli.fleet import over_the_fleet, print_unseen
from governor.adapters.clients import Clients
from governor.adapters.cloudwatch import CloudWatchMetrics
from governor.adapters.ec2 import Ec2Instances
from governor.contracts.policy import PolicyBook
from governor.domain.health.health import InstanceFinding, Severity
from governor.domain.instance import Target
from governor.domain.units import iso, printable
from governor.ports import InstanceReader, MetricReader
from governor.usecases.health.read_health import HealthReading, HealthRequest, ReadHealth

_FAULTS = (Severity.CRITICAL, Severity.WARNING)


def look(
    target: Target,
    book: PolicyBook,
    instances: InstanceReader,
    metrics: MetricReader,
    now: datetime,
) -> list[HealthReading]:
    """Every selected instance that runs, the gravest first, advice included.

    Raises:
        CloudError: EC2 could not be read, or series not be listed.
    """
    listed = instances.list_selected(target, book.base().policy.selector)
    requests = [HealthRequest(one, book.applied_to(one).policy, advice=True) for one in listed]
    readings = ReadHealth(metrics)(target, requests, now).values()
    return sorted(readings, key=lambda one: (_rank(one), one.instance.instance_id))


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command and its option."""
    made = areas.add_parser("health")
    made.add_argument("--file", help="a policy; else the one of the stack")
    made.set_defaults(run=health, regions=True)


def health(arguments: argparse.Namespace) -> int:
    """Prints what is found; 1 when something is wrong, or not known of an instance, 0 otherwise."""
    clients, now = Clients(), datetime.now(tz=UTC)
    found = over_the_fleet(
        arguments,
        lambda target, book: look(
            target, book, Ec2Instances(clients), CloudWatchMetrics(clients), now
        ),
    )
    _print(found, as_json=arguments.json)
    return int(any(one.problem or _state(one) in (*_FAULTS, _UNKNOWN) for one in found))


def _print(found: Sequence[HealthReading], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([_document(one) for one in found], indent=2))
        return
    if not found:
        print("no running instance carries the selector tag")
        return
    for one in found:
        instance = one.instance
        unseen = "" if one.has_hardware_figures else " (faults cannot be seen)"
        name = printable(instance.name)
        print(f"{_state(one):<8} {instance.instance_id} {instance.instance_type} {name}{unseen}")
        for finding in one.findings:
            sentence = f"{finding.about}; seen since {iso(finding.since)}. {finding.advice}"
            print(f"         {printable(sentence)}")
        if one.problem:
            print(f"         not all could be read: {printable(one.problem)}")
        elif not one.measured:
            print("         no reading of its GPUs; `governor doctor` says what to do")
    print_unseen(sum(not one.has_hardware_figures for one in found), len(found))
    counts = Counter(_state(one) for one in found)
    print(", ".join(f"{counts[state]} {state}" for state in _STATES if counts[state]))


_UNKNOWN = "unknown"
_STATES = (*Severity, _UNKNOWN, "sound")


def _state(one: HealthReading) -> str:
    """The gravest finding's severity; `unknown` where its GPUs have no reading, or not all could be
    read."""
    if one.findings:
        return one.findings[0].severity
    return _UNKNOWN if one.problem or not one.measured else "sound"


def _rank(one: HealthReading) -> int:
    return _STATES.index(_state(one))


def _document(one: HealthReading) -> dict[str, object]:
    instance = one.instance
    return {
        "instance_id": instance.instance_id,
        "instance_type": instance.instance_type,
        "account": instance.target.account,
        "region": instance.target.region,
        "state": str(_state(one)),
        "faults_are_seen": one.has_hardware_figures,
        "problem": one.problem,
        "findings": [InstanceFinding(instance, finding).document for finding in one.findings],
    }
