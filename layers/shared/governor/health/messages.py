"""Messages about the health of GPUs, such as an Xid error, and what to do about it, split so that
none is too long for its channel.

Their words are in `alerts/words/health/`. This module only words findings; `rules.py` makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

from governor.alerts.model import (
    INCIDENT_UNTIL,
    INCIDENT_WHILE,
    Alert,
    Owner,
    instance_text,
    only_instance,
)
from governor.alerts.model import Severity as AlertSeverity
from governor.alerts.templates import alert_from_template, template_lines
from governor.core.hashing import short_hash
from governor.core.instance import Reservation
from governor.core.units import (
    HOURS_PER_MONTH,
    Usd,
    UsdPerHour,
    UtcDatetime,
    clock,
    in_parts,
    iso,
)
from governor.health.model import Finding, InstanceFinding, Severity

_MOST_LINES = 20
"""The most full lines in one message, one per instance and kind. The other findings are listed in
short."""
_INSTANCES_A_LINE = 5
"""Instances in one line of the short list: a chat shows no more than about 600 characters well."""
_MOST_INSTANCES = 50
"""Instances named in one message. SNS accepts 256 KiB, with the facts once per protocol."""
_SEVERITIES = list(Severity)
"""The highest first."""
_Item = TypeVar("_Item")


def advice_text(finding: Finding) -> str:
    """Return one or more sentences that say what to do about a finding."""
    return advice_on_kind(_kind_of_advice(finding))


def _kind_of_advice(finding: Finding) -> str:
    """Return what the advice depends on: the bottleneck, if the finding is about one, or the kind
    of the finding."""
    return finding.bottleneck or finding.kind.value


def advice_on_kind(kind: str) -> str:
    """Return the advice on findings of a kind, or on a bottleneck: one or more sentences."""
    return _advice(kind, _about_another_host())


def _advice(kind: str, about_another_host: str) -> str:
    """Return the advice on a kind of finding. If it is to move the instance to another host, it
    ends with `about_another_host`, which may be empty."""
    values = {"kind": kind, "move": about_another_host}
    return "".join(template_lines("health advice", values)).rstrip()


def _about_another_host() -> str:
    """Return the sentences about how an instance gets to another host."""
    return "".join(template_lines("another host", {}))


def finding_document(member: InstanceFinding) -> dict[str, object]:
    """Return a finding of one instance as JSON data, with its advice. `bottleneck` is `None` unless
    the finding is about one."""
    finding = member.finding
    return {
        "instance_id": member.instance.instance_id,
        "kind": finding.kind.value,
        "severity": finding.severity.value,
        "gpus": list(finding.gpus),
        "seen": finding.seen,
        "since": iso(finding.since),
        "advice": advice_text(finding),
        "bottleneck": finding.bottleneck.value if finding.bottleneck else None,
    }


def advice_key(owner: Owner) -> str:
    """Return the key that is stored once the owner had advice, for any number of instances, so that
    no more is sent for a while. It holds a hash of the owner, because tags may be long."""
    return f"advice#{owner.key}"


def health_alerts(
    news: Sequence[InstanceFinding],
    lasting: Sequence[InstanceFinding],
    owner: Owner,
    now: UtcDatetime,
) -> Iterator[tuple[Alert, Sequence[InstanceFinding]]]:
    """Yield the messages about one owner's new findings, the most severe first, each with the
    findings that it reports.

    Yield nothing without `news`, and several messages if one would be too long. `lasting` findings
    were sent before and still hold; the last message counts them.
    """
    most_severe_first = sorted(
        news, key=lambda finding: (_rank(finding), finding.instance.instance_id)
    )
    # Findings of the same instance and kind go into one line, with their advice once.
    groups = _grouped(most_severe_first, _instance_and_kind)
    groups_of_instances = _grouped(groups, _instance_of_group)
    parts = list(in_parts(groups_of_instances, _MOST_INSTANCES))
    for number, groups_by_instance in enumerate(parts, 1):
        is_last = number == len(parts)
        part_text = f" ({number} of {len(parts)})" if len(parts) > 1 else ""
        part = list(chain.from_iterable(groups_by_instance))
        part.sort(key=lambda group: _rank(group[0]))
        alert = _alert(part, lasting if is_last else (), owner, now, part_text)
        yield alert, _findings(part)


def _rank(finding: InstanceFinding) -> int:
    """Return the rank of the finding's severity; 0 is critical."""
    return _SEVERITIES.index(finding.finding.severity)


def _instance_and_kind(finding: InstanceFinding) -> tuple[str, ...]:
    """Return the key by which findings are grouped into lines: the instance's id and the kind."""
    return (finding.instance.instance_id, finding.finding.kind.value)


def _instance_of_group(group: Sequence[InstanceFinding]) -> tuple[str, ...]:
    """Return the key by which groups of findings are grouped again: the id of their instance, which
    all findings of the group share. The group is not empty."""
    return (group[0].instance.instance_id,)


def _grouped(items: Iterable[_Item], key: Callable[[_Item], tuple[str, ...]]) -> list[list[_Item]]:
    """Return the items with equal keys together, in the order in which each key appears first."""
    groups: dict[tuple[str, ...], list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def _findings(groups: Iterable[Iterable[InstanceFinding]]) -> list[InstanceFinding]:
    """Return the findings of all groups in one list, in their order."""
    findings: list[InstanceFinding] = []
    for group in groups:
        findings.extend(group)
    return findings


def _alert(
    groups: Sequence[Sequence[InstanceFinding]],
    lasting: Sequence[InstanceFinding],
    owner: Owner,
    now: UtcDatetime,
    part_text: str,
) -> Alert:
    """Return one message about these groups of findings, at least one, the most severe group first.
    The first 20 groups have a line each, the others are listed in short. The message has the
    severity of the first finding; if that is advice, it is information.

    `lasting` findings are counted, and their first 20 instances named. `part_text` is such as
    ` (1 of 2)`, or empty if there is only one message.
    """
    first = groups[0][0]
    findings = _findings(groups)
    instances = {group[0].instance.instance_id: group[0].instance for group in groups}
    instance = only_instance(list(instances.values()))
    target = first.instance.target
    facts = {
        "instance_ids": sorted(instances),
        "findings": [_group_document(group) for group in groups],
        "lasting": len(lasting),
        INCIDENT_UNTIL: now,
        INCIDENT_WHILE: _critical_keys(findings),
    }
    lasting_ids = {finding.instance.instance_id for finding in lasting}
    where = instance.name if instance else f"{len(instances)} instances"
    about_another_host = _about_another_host()
    with_lines = groups[:_MOST_LINES]
    number_to_move = sum(_is_to_move(group[0].finding, about_another_host) for group in with_lines)
    is_shared = number_to_move > 1
    at_end = "" if is_shared else about_another_host
    lines = [_line(group, owner, now, at_end) for group in with_lines]
    words = {
        "number": len(findings),
        "single": len(findings) == 1,
        "first": first.finding.kind.value,
        "where": where,
        "part": part_text,
        "listed": lines,
        "shared_advice": about_another_host if is_shared else "",
        "others": _short_lines(groups[_MOST_LINES:]),
        "before": ", ".join(sorted(lasting_ids)[:_MOST_LINES]),
    }
    dedup_id = f"health-{target}-{iso(now)}-{short_hash(owner.name, owner.project, part_text)}"
    severity = AlertSeverity(first.finding.severity) if first.is_fault else AlertSeverity.INFO
    about = instance or target
    return alert_from_template(
        "health", about, dedup_id, now, facts, words, owner=owner, severity=severity
    )


def _critical_keys(findings: Iterable[InstanceFinding]) -> list[str]:
    """Return the keys of the critical findings, sorted; empty if none is critical. The incident of
    the message lasts while one of these keys is known."""
    keys: list[str] = []
    for finding in findings:
        if finding.finding.severity is Severity.CRITICAL:
            keys.extend(finding.keys)
    return sorted(keys)


def _group_document(group: Sequence[InstanceFinding]) -> dict[str, object]:
    """Return one document, in the form of `finding_document`, for all findings of a group: of one
    kind on one instance, at least one. It has all their GPUs and texts, and the earliest start."""
    gpus: list[str] = []
    texts: list[str] = []
    for member in group:
        gpus.extend(member.finding.gpus)
        texts.append(member.finding.seen)
    distinct_texts = dict.fromkeys(texts)
    earliest = min(member.finding.since for member in group)
    return {
        **finding_document(group[0]),
        "seen": "; ".join(distinct_texts),
        "gpus": gpus,
        "since": iso(earliest),
    }


def _short_lines(groups: Sequence[Sequence[InstanceFinding]]) -> Iterator[str]:
    """Yield lines that name the instances of these groups with their kinds of findings, five in
    each, such as `Also: i-0abc (hot, lost); i-0def (hot).`. Yield nothing without groups."""
    texts = []
    for instance_groups in _grouped(groups, _instance_of_group):
        instance_id = instance_groups[0][0].instance.instance_id
        kinds = [group[0].finding.kind.value for group in instance_groups]
        texts.append(f"{instance_id} ({', '.join(kinds)})")
    for part in in_parts(texts, _INSTANCES_A_LINE):
        yield f"Also: {'; '.join(part)}."


def _is_to_move(finding: Finding, about_another_host: str) -> bool:
    """Return whether the advice on a finding is to move the instance to another host: then it ends
    with `about_another_host`, which is not empty."""
    kind = _kind_of_advice(finding)
    return _advice(kind, about_another_host) != _advice(kind, "")


def _line(
    group: Sequence[InstanceFinding], owner: Owner, now: UtcDatetime, about_another_host: str
) -> str:
    """Return one line about the findings of one kind on one instance, at least one, with the advice
    once and the earliest start, in the owner's zone. `about_another_host` ends the advice if that
    is to move the instance."""
    findings = [member.finding for member in group]
    seen = "; ".join(finding.about for finding in findings)
    since = clock(min(finding.since for finding in findings), owner.time_zone, now)
    severity = findings[0].severity.value.capitalize()
    advice = _advice(_kind_of_advice(findings[0]), about_another_host)
    instance = instance_text(group[0].instance)
    return f"{severity}: {instance}, seen since {since}. {seen}. {advice}"


def empty_alert(
    reservation: Reservation,
    since: UtcDatetime,
    price: UsdPerHour | None,
    owner: Owner,
    now: UtcDatetime,
) -> Alert:
    """Return the message that a part of the reservation has been empty since `since`. `price` is
    the price of one instance an hour; with `None`, not known, the message names no cost."""
    usd_per_hour: UsdPerHour | None = None
    usd_per_month: Usd | None = None
    if price is not None:
        usd_per_hour = price * reservation.available
        usd_per_month = usd_per_hour * HOURS_PER_MONTH
    facts = {
        "capacity_reservation_id": reservation.reservation_id,
        "reserved_type": reservation.instance_type,
        "total": reservation.total,
        "available": reservation.available,
        "empty_since": since,
        "usd_per_hour": usd_per_hour,
        "ends_at": reservation.ends_at,
    }
    kind = "Capacity Block" if reservation.is_block else "Capacity Reservation"
    words = {"one": reservation, "kind": kind, "monthly": usd_per_month}
    dedup_id = f"empty-{reservation.reservation_id}-{iso(now)}"
    return alert_from_template(
        "empty", reservation.target, dedup_id, now, facts, words, owner=owner
    )
