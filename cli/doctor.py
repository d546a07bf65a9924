"""`governor doctor`: whether the deploy worked; and of every GPU instance whether its telemetry is
right."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cli import aws, status
from cli.errors import CommandError
from cli.fleet import over_the_fleet, print_unseen
from cli.status import Line
from cli.telemetry import CAUSES, Finding, Health, findings, health_of
from governor.adapters.clients import Clients
from governor.adapters.cloudwatch import CloudWatchMetrics
from governor.adapters.ec2 import Ec2Instances
from governor.contracts.policy import PolicyBook
from governor.domain.instance import Instance, Target
from governor.domain.sweep.verdict import FIGURES
from governor.domain.units import plural, printable
from governor.ports import InstanceReader, MetricReader, SeriesFilter
from governor.usecases.evidence.gather_evidence import EvidenceRequest, GatherEvidence
from governor.usecases.health.read_health import LOST_METRIC

_OF_A_DEPLOY = (
    "stack",
    "policy",
    "exemption",
    "schedule",
    "last_sweep",
    "targets",
    "subscribers",
    "alarms",
)
"""The lines of `governor status` that say whether a deploy worked."""
_SHOWN = 10
"""Instances of one cause; a fleet may have hundreds."""


@dataclass(frozen=True, slots=True)
class HeatAlarm:
    """The series that the alarm on heat of `stacks/telemetry.yaml` reads: series with exactly these
    dimensions."""

    namespace: str = "GPU/EC2"
    metric: str = "nvidia_smi_temperature_gpu"
    dimensions: frozenset[str] = frozenset({"InstanceId", "InstanceType", "arch", "index", "name"})


HEAT_ALARM = HeatAlarm()


@dataclass(frozen=True, slots=True)
class Examined:
    """One instance and what was found.

    `faults_are_seen`: Xid, ECC and the like are published, too. `heat_alarm_sees`: the temperature
    of a GPU is published as `HEAT_ALARM` reads it. `work`: the metric by which a job on it says
    that it works.
    """

    instance: Instance
    found: tuple[Finding, ...]
    faults_are_seen: bool
    heat_alarm_sees: bool
    work: str | None = None


def examine(
    target: Target,
    book: PolicyBook,
    instances: InstanceReader,
    metrics: MetricReader,
    now: datetime,
) -> list[Examined]:
    """Every selected instance that runs, the worst first.

    Raises:
        CloudError: EC2 could not be read, or series not be listed.
    """
    base = book.base().policy
    listed = instances.list_selected(target, base.selector)
    hardware = metrics.list_series(
        target, SeriesFilter(base.metrics.hardware_namespace, LOST_METRIC)
    )
    heat = metrics.list_series(target, SeriesFilter(HEAT_ALARM.namespace, HEAT_ALARM.metric))
    policies = {instance.instance_id: book.applied_to(instance).policy for instance in listed}
    requests = [
        EvidenceRequest(
            instance=instance,
            policy=policies[instance.instance_id],
            figures=frozenset(FIGURES),
            always=True,
        )
        for instance in listed
    ]
    gathered = GatherEvidence(metrics)(target, requests, now)
    examined = [
        Examined(
            instance,
            findings(
                instance,
                gathered[instance.instance_id].evidence,
                gathered[instance.instance_id].dimensions,
                policies[instance.instance_id],
            ),
            instance.instance_id in hardware,
            any(
                dict(one.dimensions).keys() == HEAT_ALARM.dimensions
                for one in heat.get(instance.instance_id, ())
            ),
            gathered[instance.instance_id].evidence.work,
        )
        for instance in listed
    ]
    order = list(Health)
    return sorted(
        examined, key=lambda one: (order.index(health_of(one.found)), one.instance.instance_id)
    )


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command and its option."""
    made = areas.add_parser("doctor")
    made.add_argument(
        "--file", help="a policy, of which the telemetry is judged; else the one of the stack"
    )
    made.set_defaults(run=doctor, regions=True)


def doctor(arguments: argparse.Namespace) -> int:
    """Print what is found; 1 when an instance cannot be judged, or a line of the checklist needs a
    look.

    With `--json` the instances alone: `governor status --json` has the lines of the stack.
    """
    clients, now = Clients(), datetime.now(tz=UTC)
    wants_stack = not arguments.json and not arguments.file
    lines = (
        status.read(
            status.Stack(arguments.stack_name, aws.session(arguments.region or ())), _OF_A_DEPLOY
        )
        if wants_stack
        else {}
    )
    tags = "the selector's tag"

    def look(target: Target, book: PolicyBook) -> list[Examined]:
        nonlocal tags
        tags = _tags(book)
        return examine(target, book, Ec2Instances(clients), CloudWatchMetrics(clients), now)

    try:
        found = over_the_fleet(arguments, look)
    except CommandError as error:
        if not lines:
            raise
        unread = Line(f"not readable: {printable(str(error))}", None, is_wrong=True)
        _print_checklist({**lines, "telemetry": unread})
        return 1
    unjudged = sum(health_of(one.found) in (Health.SILENT, Health.WRONG) for one in found)
    if lines:
        lines = {**lines, "telemetry": _telemetry(unjudged, len(found), tags)}
        _print_checklist(lines)
    _print(found, as_json=arguments.json, tags=tags)
    return int(bool(unjudged) or any(line.is_wrong for line in lines.values()))


def _tags(book: PolicyBook) -> str:
    """The tag by which instances are selected, as people write it."""
    selector = book.base().policy.selector
    return f"{printable(selector.tag_key)}={printable(selector.tag_value)}"


def _telemetry(unjudged: int, instances: int, tags: str) -> Line:
    """The checklist's line on instances; none at all may be right, and is worth a look."""
    if not instances:
        said = f"no running instance here carries {tags}: tag those to be judged, or name --region"
        return Line(said, None, is_wrong=True)
    return Line(
        f"{instances - unjudged} of {instances} can be judged", None, is_wrong=bool(unjudged)
    )


def _print_checklist(lines: Mapping[str, Line]) -> None:
    """Print whether the deploy worked, line by line."""
    width = max(map(len, lines))
    for name, line in lines.items():
        print(f"{'LOOK' if line.is_wrong else 'ok':<4}  {status.title(name):<{width}}  {line.text}")
    wrong = sum(line.is_wrong for line in lines.values())
    print(f"did it work? {f'not yet: {wrong} of {len(lines)} need a look' if wrong else 'yes'}\n")


def _print(found: Sequence[Examined], *, as_json: bool, tags: str = "the selector's tag") -> None:
    if as_json:
        print(json.dumps([_document(one) for one in found], indent=2))
        return
    if not found:
        print(f"no running instance carries {tags}")
        return
    for cause in CAUSES:
        _print_cause(
            cause, [(one, each) for one in found for each in one.found if each.cause == cause]
        )
    right = [one for one in found if not one.found]
    if right:
        print(f"{Health.RIGHT.value:<7} {plural(len(right), 'instance')}")
    for one in found:
        if one.work is not None:
            print(f"        {_named(one)}: a job publishes {printable(one.work)}, which keeps it")
    print_unseen(sum(not one.faults_are_seen for one in found), len(found))
    _print_unseen_heat(found)
    counts = Counter(health_of(one.found) for one in found)
    print(", ".join(f"{counts[health]} {health.value}" for health in Health if counts[health]))


def _print_cause(cause: str, group: Sequence[tuple[Examined, Finding]]) -> None:
    """Print once what these instances share, and for each what is its own."""
    if not group:
        return
    seen = {finding.seen for _, finding in group}
    common = next(iter(seen)) if len(seen) == 1 else CAUSES[cause]
    print(f"{group[0][1].health.value:<7} {plural(len(group), 'instance')}: {printable(common)}")
    for advice in dict.fromkeys(finding.advice for _, finding in group):
        print(f"        -> {advice}")
    for one, finding in group[:_SHOWN]:
        print(f"        {_named(one)}" + (f": {printable(finding.seen)}" if len(seen) > 1 else ""))
    if len(group) > _SHOWN:
        print(f"        and {len(group) - _SHOWN} more, which --json lists")


def _named(one: Examined) -> str:
    instance = one.instance
    return (
        f"{instance.instance_id} {instance.instance_type} {instance.target.region} "
        f"{printable(instance.name)}"
    ).rstrip()


def _print_unseen_heat(found: Sequence[Examined]) -> None:
    """Name instances whose heat nobody sees, but for silent ones: those are named already."""
    unseen = sum(
        not one.heat_alarm_sees and health_of(one.found) is not Health.SILENT for one in found
    )
    if unseen:
        print(
            f"HotGpuAlarm of stacks/telemetry.yaml does not see the heat of {unseen} of "
            f"{len(found)}:\n"
            f"        -> it reads {HEAT_ALARM.metric} of GPUs with the dimensions "
            f"{', '.join(sorted(HEAT_ALARM.dimensions))}: append InstanceId and "
            "InstanceType in the agent's "
            "configuration; agent/ leaves the type out where it is started with "
            "--instance-id and --region"
        )


def _document(one: Examined) -> dict[str, object]:
    return {
        "instance_id": one.instance.instance_id,
        "instance_type": one.instance.instance_type,
        "account": one.instance.target.account,
        "region": one.instance.target.region,
        "health": health_of(one.found).value,
        "faults_are_seen": one.faults_are_seen,
        "heat_alarm_sees": one.heat_alarm_sees,
        "work": one.work,
        "findings": [
            {
                "health": finding.health.value,
                "cause": finding.cause,
                "seen": finding.seen,
                "advice": finding.advice,
            }
            for finding in one.found
        ],
    }
