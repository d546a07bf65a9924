"""Messages about the health of GPUs: who gets which message, and what is news."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from governor.domain.alerts.alert import (
    INCIDENT_UNTIL,
    INCIDENT_WHILE,
    Alert,
    Owner,
    named,
    only,
    short_hash,
)
from governor.domain.alerts.alert import Severity as AlertSeverity
from governor.domain.alerts.templates import written
from governor.domain.health.health import InstanceFinding, Severity
from governor.domain.instance import Reservation
from governor.domain.units import HOURS_PER_MONTH, UsdPerHour, UtcDatetime, clock, in_parts, iso

_LINES = 20
"""Lines about findings in one message, one per instance and kind; the others are listed in
short."""
_A_LINE = 5
"""Instances with kinds in one such line. Teams gets 600 characters of a line."""
_INSTANCES = 50
"""Named by one message. SNS takes 256 KiB, in which the facts stand once for every protocol."""
_RANK = list(Severity)
_Item = TypeVar("_Item")


def advice_key(owner: Owner) -> str:
    """Return the key of the advice to one owner, for any number of instances. Hashed: tags may be
    long."""
    return f"advice#{owner.key}"


def health_alerts(
    news: Sequence[InstanceFinding],
    lasting: Sequence[InstanceFinding],
    owner: Owner,
    now: UtcDatetime,
) -> Iterator[tuple[Alert, Sequence[InstanceFinding]]]:
    """Yield all that is new about one owner's instances, the most severe first, each message with
    its findings: several where one would be too long. `lasting` was sent before and is still so."""
    in_order = sorted(news, key=lambda one: (_rank(one), one.instance.instance_id))
    # Findings that differ in nothing but the GPU go into one line, with their advice once.
    groups = _grouped(in_order, lambda one: (one.instance.instance_id, one.finding.kind.value))
    parts = list(in_parts(_grouped(groups, _instance), _INSTANCES))
    for number, part in enumerate(parts, 1):
        which = f" ({number} of {len(parts)})" if len(parts) > 1 else ""
        groups = sorted((group for own in part for group in own), key=lambda group: _rank(group[0]))
        alert = _alert(groups, lasting if number == len(parts) else (), owner, now, which)
        yield alert, [one for group in groups for one in group]


def _rank(one: InstanceFinding) -> int:
    return _RANK.index(one.finding.severity)


def _instance(group: Sequence[InstanceFinding]) -> tuple[str, ...]:
    return (group[0].instance.instance_id,)


def _grouped(items: Iterable[_Item], key: Callable[[_Item], tuple[str, ...]]) -> list[list[_Item]]:
    groups: dict[tuple[str, ...], list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def _alert(
    groups: Sequence[Sequence[InstanceFinding]],
    lasting: Sequence[InstanceFinding],
    owner: Owner,
    now: UtcDatetime,
    which: str,
) -> Alert:
    first, number = groups[0][0], sum(map(len, groups))
    instances = {one.instance.instance_id: one.instance for one, *_ in groups}
    one, target = only(list(instances.values())), first.instance.target
    seen = first.finding.kind.value
    facts = {
        "instance_ids": sorted(instances),
        "findings": [_group_document(group) for group in groups],
        "lasting": len(lasting),
        INCIDENT_UNTIL: now,
        INCIDENT_WHILE: sorted(
            key for group in groups for item in group if _rank(item) == 0 for key in item.keys
        ),
    }
    words = {
        "number": number,
        "single": number == 1,
        "first": seen,
        "where": one.name if one else f"{len(instances)} instances",
        "part": which,
        "listed": [_line(group, owner, now) for group in groups[:_LINES]],
        "others": _in_short(groups[_LINES:]),
        "before": ", ".join(sorted({one.instance.instance_id for one in lasting})[:_LINES]),
    }
    dedup_id = f"health-{target}-{iso(now)}-{short_hash(owner.name, owner.project, which)}"
    severity = AlertSeverity(first.finding.severity) if first.is_fault else AlertSeverity.INFO
    return written(
        "health", one or target, dedup_id, now, facts, words, owner=owner, severity=severity
    )


def _group_document(group: Sequence[InstanceFinding]) -> dict[str, object]:
    """As `InstanceFinding.document`, once for all GPUs of an instance with such a finding, to stay
    short."""
    return {
        **group[0].document,
        "seen": "; ".join(dict.fromkeys(one.finding.seen for one in group)),
        "gpus": [gpu for one in group for gpu in one.finding.gpus],
        "since": iso(min(one.finding.since for one in group)),
    }


def _in_short(groups: Sequence[Sequence[InstanceFinding]]) -> Iterator[str]:
    """List instances with their kinds of findings, in lines that chats do not cut."""
    shown = [
        f"{own[0][0].instance.instance_id} "
        f"{', '.join(group[0].finding.kind.value for group in own)}"
        for own in _grouped(groups, _instance)
    ]
    for part in in_parts(shown, _A_LINE):
        yield f"And {'; '.join(part)}."


def _line(group: Sequence[InstanceFinding], owner: Owner, now: UtcDatetime) -> str:
    first = group[0].finding
    seen = "; ".join(one.finding.about for one in group)
    since = clock(min(one.finding.since for one in group), owner.time_zone, now)
    severity = first.severity.value.capitalize()
    return f"{severity}: {named(group[0].instance)}: {seen}; seen since {since}. {first.advice}"


def empty_alert(
    one: Reservation, since: UtcDatetime, price: UsdPerHour | None, owner: Owner, now: UtcDatetime
) -> Alert:
    """Return that a part of it has stood empty since then. `price` is that of one instance."""
    hourly = None if price is None else price * one.available
    facts = {
        "capacity_reservation_id": one.reservation_id,
        "reserved_type": one.instance_type,
        "total": one.total,
        "available": one.available,
        "empty_since": since,
        "usd_per_hour": hourly,
        "ends_at": one.ends_at,
    }
    kind = "Capacity Block" if one.is_block else "Capacity Reservation"
    words = {
        "one": one,
        "kind": kind,
        "monthly": None if hourly is None else hourly * HOURS_PER_MONTH,
    }
    dedup_id = f"empty-{one.reservation_id}-{iso(now)}"
    return written("empty", one.target, dedup_id, now, facts, words, owner=owner)
