"""`governor doctor`: check that the deploy worked, and that every instance has right telemetry.

It also lists instances whose owner tag names nobody whom the policy knows. It reads only. It judges
telemetry, never idleness.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial

from cli import aws, status
from cli.errors import CommandError
from cli.fleet import named, over_the_fleet, print_unseen
from cli.metric_profiles import profile_findings
from cli.status import Line
from cli.tables import Column, print_table, print_text
from cli.telemetry import (
    CAUSES,
    Finding,
    Health,
    findings,
    health_of,
    never_reached_2,
    ordered,
    with_other_profile,
)
from governor.aws.clients import Clients
from governor.aws.cloudwatch import CloudWatchMetrics
from governor.aws.ec2 import Ec2Instances
from governor.core.instance import Instance, Target
from governor.core.units import plural, printable
from governor.evidence.check_freshness import newest_readings
from governor.evidence.gather_evidence import GatherEvidence
from governor.evidence.model import Evidence
from governor.evidence.ports import InstanceReader, Listed, MetricReader, SeriesFilter
from governor.evidence.request import EvidenceRequest
from governor.evidence.rules.figures import FIGURES, Publisher, metrics_of, published_by
from governor.evidence.rules.freshness import newest_reading_offset
from governor.health.read_health import LOST_METRIC
from governor.policy.document import PolicyBook
from governor.policy.rules.owners import NamingTag, unknown_owner
from governor.verdict.rules.utilization import peaks_of

_OF_A_DEPLOY = (
    "stack",
    "policy",
    "exemption",
    "schedule",
    "last_sweep",
    "targets",
    "states",
    "subscribers",
    "alarms",
)
"""The lines of `governor status` that say whether a deploy worked."""
_ANY_SELECTOR = "the selector's tag"
"""The words for the tag where no policy was read."""
_COLUMNS = (Column(), Column(), Column(wraps=True))
"""Mark, line and text of the checklist."""
_SHOWN = 10
"""Instances of one cause; a fleet may have hundreds."""


@dataclass(frozen=True, slots=True)
class HeatAlarm:
    """The series that the heat alarm of `stacks/telemetry.yaml` reads.

    It sees only series with exactly these dimensions.
    """

    namespace: str = "GPU/EC2"
    metric: str = "nvidia_smi_temperature_gpu"
    dimensions: frozenset[str] = frozenset({"InstanceId", "InstanceType", "arch", "index", "name"})


HEAT_ALARM = HeatAlarm()


@dataclass(frozen=True, slots=True)
class Examined:
    """One instance and its findings.

    `faults_are_seen`: Xid, ECC and the like are published, too. `heat_alarm_sees`: the temperature
    of a GPU is published as `HEAT_ALARM` reads it. `work`: the metric by which a job on it reports
    that it works. `evidence`: its readings of the idle window.
    """

    instance: Instance
    found: tuple[Finding, ...]
    faults_are_seen: bool
    heat_alarm_sees: bool
    work: str | None = None
    metric: str = ""
    """The metric of its utilization, by its policy."""
    evidence: Evidence | None = None
    unknown_owner: NamingTag | None = None
    """Its owner tag, if that names nobody whom the policy knows: others are asked then."""


def examine(
    target: Target,
    book: PolicyBook,
    instances: InstanceReader,
    metrics: MetricReader,
    now: datetime,
) -> list[Examined]:
    """Return every selected instance that runs with its findings, the worst first.

    Raises:
        CloudError: EC2 could not be read, or series not be listed.
    """
    base = book.base().policy
    selected = instances.list_selected(target, base.selector)
    hardware_filter = SeriesFilter(base.metrics.hardware_namespace, LOST_METRIC)
    hardware_series = metrics.list_series(target, hardware_filter)
    heat_filter = SeriesFilter(HEAT_ALARM.namespace, HEAT_ALARM.metric)
    heat_series = metrics.list_series(target, heat_filter)
    requests = []
    for instance in selected:
        requests.append(
            EvidenceRequest(
                instance=instance,
                policy=book.applied_to(instance).policy,
                figures=frozenset(FIGURES),
            )
        )
    gather = GatherEvidence(metrics)
    gathered_by_id = gather(target, requests, now)
    evidence_by_id = {one: gathered.evidence for one, gathered in gathered_by_id.items()}
    profile_finding_by_id = profile_findings(target, requests, evidence_by_id, metrics)
    listed_figures = _listed_figures(target, requests, metrics)
    newest_by_id = newest_readings(gather, target, selected, base, now)
    examined = []
    for request in requests:
        instance = request.instance
        instance_id = instance.instance_id
        gathered = gathered_by_id[instance_id]
        found = findings(
            instance,
            gathered.evidence,
            gathered.dimensions,
            request.policy,
            listed=listed_figures.get(instance_id, frozenset()),
            newest_reading_offset=newest_reading_offset(newest_by_id[instance_id], now),
        )
        profile_finding = profile_finding_by_id.get(instance_id)
        if profile_finding is not None:
            found = with_other_profile(found, profile_finding)
        examined.append(
            Examined(
                instance,
                found,
                faults_are_seen=instance_id in hardware_series,
                heat_alarm_sees=_is_read_by_heat_alarm(heat_series.get(instance_id, ())),
                work=gathered.evidence.work,
                metric=request.policy.metrics.utilization,
                evidence=gathered.evidence,
                unknown_owner=unknown_owner(instance, base.ownership),
            )
        )
    return sorted(examined, key=_rank)


def _listed_figures(
    target: Target, requests: Sequence[EvidenceRequest], metrics: MetricReader
) -> dict[str, frozenset[str]]:
    """Return by instance id the figures of agents that CloudWatch lists under the names of its
    policy, also those that nobody publishes any more: it lists a series for two weeks. Raises:
    CloudError."""
    listing = cache(partial(metrics.list_series, target))
    figures_by_id: dict[str, frozenset[str]] = {}
    for request in requests:
        instance_id = request.instance.instance_id
        names = request.policy.metrics
        figures: set[str] = set()
        for figure in published_by(Publisher.AGENT):
            for metric in metrics_of(figure, names):
                wanted = SeriesFilter(names.namespace, metric, recently=False)
                if instance_id in listing(wanted):
                    figures.add(figure)
        figures_by_id[instance_id] = frozenset(figures)
    return figures_by_id


def with_fleet_findings(fleet: Sequence[Examined]) -> list[Examined]:
    """Return the same instances, the worst first, with what only the whole fleet shows: a metric of
    utilization that never reached 2."""
    evidence_by_metric: dict[str, list[Evidence]] = defaultdict(list)
    for examined in fleet:
        if examined.evidence is not None:
            evidence_by_metric[examined.metric].append(examined.evidence)
    finding_by_metric = never_reached_2(evidence_by_metric)
    completed = []
    for examined in fleet:
        finding = finding_by_metric.get(examined.metric)
        is_seen = examined.evidence is not None and bool(peaks_of(examined.evidence))
        if finding is not None and is_seen:
            found = ordered((*examined.found, finding))
            completed.append(replace(examined, found=found))
        else:
            completed.append(examined)
    return sorted(completed, key=_rank)


def _is_read_by_heat_alarm(series: Iterable[Listed]) -> bool:
    return any(dict(metric.dimensions).keys() == HEAT_ALARM.dimensions for metric in series)


def _rank(examined: Examined) -> tuple[int, str]:
    """Return the place of an instance in the output: the worst first, then by id."""
    severity = list(Health).index(health_of(examined.found))
    return severity, examined.instance.instance_id


def doctor(arguments: argparse.Namespace) -> int:
    """Print the checklist of the deploy and the findings.

    With `--json`, print the instances alone: `governor status --json` has the lines of the stack.
    Return 1 when an instance cannot be judged or a line of the checklist needs a look, else 0.
    """
    clients = Clients()
    now = datetime.now(tz=UTC)
    lines = _checklist(arguments)
    books: list[PolicyBook] = []

    def look(target: Target, book: PolicyBook) -> list[Examined]:
        books.append(book)
        return examine(target, book, Ec2Instances(clients), CloudWatchMetrics(clients), now)

    try:
        fleet = with_fleet_findings(over_the_fleet(arguments, look))
    except CommandError as error:
        if not lines:
            raise
        unread = Line(f"not readable: {printable(str(error))}", None, is_wrong=True)
        _print_checklist({**lines, "telemetry": unread})
        return 1
    # All Regions are judged by one policy. Without a Region there is none.
    selector = _selector_text(books[-1]) if books else _ANY_SELECTOR
    unjudged = sum(_is_unjudged(examined) for examined in fleet)
    if lines:
        lines["telemetry"] = _telemetry(unjudged, len(fleet), selector)
        _print_checklist(lines)
    _print(fleet, as_json=arguments.json, selector=selector)
    needs_a_look = any(line.is_wrong for line in lines.values())
    return int(bool(unjudged) or needs_a_look)


def _checklist(arguments: argparse.Namespace) -> dict[str, Line]:
    """Return the lines of the stack; an empty dict with `--json` or for a policy in a file."""
    if arguments.json or arguments.file:
        return {}
    session = aws.session(arguments.region or ())
    return status.read(status.Stack(arguments.stack_name, session), _OF_A_DEPLOY)


def _is_unjudged(examined: Examined) -> bool:
    return health_of(examined.found) in (Health.SILENT, Health.WRONG)


def _selector_text(book: PolicyBook) -> str:
    """Return the tag by which instances are selected, as people write it."""
    selector = book.base().policy.selector
    return f"{printable(selector.tag_key)}={printable(selector.tag_value)}"


def _telemetry(unjudged: int, instances: int, selector: str) -> Line:
    """Return the checklist's line on instances.

    To have no instance at all may be right, but is worth a look.
    """
    if not instances:
        text = (
            f"no running instance here carries {selector}: tag those to be judged, or name --region"
        )
        return Line(text, None, is_wrong=True)
    text = f"{instances - unjudged} of {instances} can be judged"
    return Line(text, None, is_wrong=bool(unjudged))


def _print_checklist(lines: Mapping[str, Line]) -> None:
    """Print whether the deploy worked, line by line."""
    rows = []
    for name, line in lines.items():
        mark = "LOOK" if line.is_wrong else "ok"
        rows.append((mark, status.title(name), line.text))
    print_table(_COLUMNS, rows)
    wrong = sum(line.is_wrong for line in lines.values())
    verb = "needs" if wrong == 1 else "need"
    answer = f"not yet: {wrong} of {len(lines)} {verb} a look" if wrong else "yes"
    print_text(f"did it work? {answer}\n")


def _print(fleet: Sequence[Examined], *, as_json: bool, selector: str = _ANY_SELECTOR) -> None:
    if as_json:
        documents = [_document(examined) for examined in fleet]
        print(json.dumps(documents, indent=2))
        return
    if not fleet:
        print_text(f"no running instance carries {selector}")
        return
    for cause in CAUSES:
        _print_cause(cause, _group_of(cause, fleet))
    counts = Counter(health_of(examined.found) for examined in fleet)
    if counts[Health.RIGHT]:
        print_text(f"{Health.RIGHT.value:<7} {plural(counts[Health.RIGHT], 'instance')}")
    _print_work(fleet)
    print_unseen(sum(not examined.faults_are_seen for examined in fleet), len(fleet))
    _print_unseen_heat(fleet)
    _print_unknown_owners(fleet)
    counts_seen = []
    for health in Health:
        if counts[health]:
            counts_seen.append(f"{counts[health]} {health.value}")
    print_text(", ".join(counts_seen))


def _print_work(fleet: Sequence[Examined]) -> None:
    """Name the instances on which a job reports that it works."""
    for examined in fleet:
        if examined.work is not None:
            metric = printable(examined.work)
            print_text(f"        {_name_of(examined)}: a job publishes {metric}, which keeps it")


def _group_of(cause: str, fleet: Sequence[Examined]) -> list[tuple[Examined, Finding]]:
    """Return the findings of one cause, with their instances."""
    group = []
    for examined in fleet:
        for finding in examined.found:
            if finding.cause == cause:
                group.append((examined, finding))
    return group


def _print_cause(cause: str, group: Sequence[tuple[Examined, Finding]]) -> None:
    """Print once what these instances share, and for each what is its own."""
    if not group:
        return
    texts = {finding.seen for _, finding in group}
    is_same_text = len(texts) == 1
    _, first = group[0]
    shared_text = first.seen if is_same_text else CAUSES[cause]
    print_text(
        f"{first.health.value:<7} {plural(len(group), 'instance')}: {printable(shared_text)}"
    )
    for advice in dict.fromkeys(finding.advice for _, finding in group):
        print_text(f"        -> {advice}")
    for examined, finding in group[:_SHOWN]:
        own_text = "" if is_same_text else f": {printable(finding.seen)}"
        print_text(f"        {_name_of(examined)}{own_text}")
    if len(group) > _SHOWN:
        print_text(f"        and {len(group) - _SHOWN} more, which --json lists")


def _name_of(examined: Examined) -> str:
    instance = examined.instance
    return named(instance, instance.instance_type, instance.target.region)


def _print_unseen_heat(fleet: Sequence[Examined]) -> None:
    """Name instances whose heat nobody sees, but for silent ones: those are named already."""
    unseen = 0
    for examined in fleet:
        is_silent = health_of(examined.found) is Health.SILENT
        if not is_silent and not examined.heat_alarm_sees:
            unseen += 1
    if unseen:
        dimensions = ", ".join(sorted(HEAT_ALARM.dimensions))
        print_text(
            f"HotGpuAlarm of stacks/telemetry.yaml does not see the heat of {unseen} of "
            f"{len(fleet)}:\n"
            f"        -> it reads {HEAT_ALARM.metric} of GPUs with the dimensions {dimensions}: "
            "append InstanceId and InstanceType in the agent's configuration; agent/ leaves the "
            "type out where it is started with --instance-id and --region"
        )


def _print_unknown_owners(fleet: Sequence[Examined]) -> None:
    """List the instances whose owner tag names nobody whom the policy knows, those with the same
    owner together."""
    lines: list[tuple[str, str]] = []
    for examined in fleet:
        tag = examined.unknown_owner
        if tag is not None:
            line = f"        {_name_of(examined)}: {printable(tag.key)}={tag.value}"
            lines.append((tag.value.casefold(), line))
    if not lines:
        return
    print_text(
        f"{len(lines)} of {plural(len(fleet), 'instance')} have an owner tag that names nobody "
        "whom the policy knows:\n"
        "        -> add these people to ownership.contacts of the policy, or correct the tag: "
        "until then the contact of the project is asked, or the default contacts"
    )
    for _, line in sorted(lines)[:_SHOWN]:
        print_text(line)
    if len(lines) > _SHOWN:
        print_text(f"        and {len(lines) - _SHOWN} more, which --json lists")


def _document(examined: Examined) -> dict[str, object]:
    instance = examined.instance
    return {
        "instance_id": instance.instance_id,
        "instance_type": instance.instance_type,
        "account": instance.target.account,
        "region": instance.target.region,
        "health": health_of(examined.found).value,
        "faults_are_seen": examined.faults_are_seen,
        "heat_alarm_sees": examined.heat_alarm_sees,
        "work": examined.work,
        "unknown_owner": _tag_document(examined.unknown_owner),
        "findings": [_finding_document(finding) for finding in examined.found],
    }


def _tag_document(tag: NamingTag | None) -> dict[str, str] | None:
    if tag is None:
        return None
    return {"tag_key": tag.key, "tag_value": tag.value}


def _finding_document(finding: Finding) -> dict[str, str]:
    return {
        "health": finding.health.value,
        "cause": finding.cause,
        "seen": finding.seen,
        "advice": finding.advice,
    }
