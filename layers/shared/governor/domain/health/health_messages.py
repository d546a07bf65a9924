"""The words of messages about the health of GPUs: who gets which message, and what is news.

Pure wording. This module must not know channels, nor where sent findings are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from governor.domain.alerts.alert import Alert, AlertKind, alert_of, named
from governor.domain.alerts.alert import Severity as AlertSeverity
from governor.domain.alerts.owner import Owner, short_hash
from governor.domain.health.health import Bottleneck, Finding, Severity
from governor.domain.instance import Instance
from governor.domain.parts import in_parts
from governor.domain.units import UtcDatetime, iso
from governor.domain.wording import clock

_LINES = 20
"""Lines about findings in one message, one per instance and kind; the others are listed in short."""
_A_LINE = 5
"""Instances with kinds in one such line. Teams gets 600 characters of a line."""
_INSTANCES = 50
"""Named by one message. SNS takes 256 KiB, in which the facts stand once for every protocol."""
_SEVERITIES = {
    Severity.CRITICAL: AlertSeverity.CRITICAL,
    Severity.WARNING: AlertSeverity.WARNING,
    Severity.ADVICE: AlertSeverity.INFO,
}
_RANK = list(Severity)


@dataclass(frozen=True, slots=True)
class InstanceFinding:
    """One finding about one instance."""

    instance: Instance
    finding: Finding

    @property
    def is_fault(self) -> bool:
        """Tell faults from advice."""
        return self.finding.severity is not Severity.ADVICE

    @property
    def is_worth_sending(self) -> bool:
        """Leave out that GPUs are used well: `governor health` shows it."""
        return self.finding.bottleneck is not Bottleneck.COMPUTE_BOUND

    @property
    def keys(self) -> tuple[str, ...]:
        """Return what identifies the finding once it was sent; one with a new key has got worse.

        One for each GPU, so that another GPU is news; of counted errors one for each doubling. Another start
        of the instance is another matter: it may be on another host.
        """
        instance, finding = self.instance, self.finding
        started = int(instance.launch_time.timestamp())
        level = finding.errors.bit_length()
        return tuple(
            f"{instance.instance_id}#{started}#{finding.kind.value}#{gpu}#{level}" for gpu in finding.gpus
        )


def advice_key(owner: Owner) -> str:
    """Return the key of the advice to one owner, for any number of instances. Hashed: tags may be long."""
    return f"advice#{owner.key}"


def most_severe_first(findings: Sequence[InstanceFinding]) -> list[InstanceFinding]:
    """Sorted by severity, then by instance."""
    return sorted(findings, key=lambda one: (_RANK.index(one.finding.severity), one.instance.instance_id))


def health_alerts(
    news: Sequence[InstanceFinding],
    lasting: Sequence[InstanceFinding],
    owner: Owner,
    now: UtcDatetime,
) -> Iterator[tuple[Alert, Sequence[InstanceFinding]]]:
    """Return all that is new about the instances of one owner, the most severe first, each with its findings.

    One message, or several where no channel would take one that names them all; `lasting` was sent
    before and is still so.
    """
    groups = _by_kind(most_severe_first(news))
    parts = list(_parts(groups))
    for number, part in enumerate(parts, 1):
        which = f" ({number} of {len(parts)})" if len(parts) > 1 else ""
        found = [one for group in part for one in group]
        alert = _alert(part, lasting if number == len(parts) else (), owner, now, which)
        yield alert, found


def _parts(groups: Sequence[list[InstanceFinding]]) -> Iterator[list[list[InstanceFinding]]]:
    """Split by instances, the most severe finding first, so that no instance is in two messages."""
    by_instance: dict[str, list[list[InstanceFinding]]] = {}
    for group in groups:
        by_instance.setdefault(group[0].instance.instance_id, []).append(group)
    instances = list(by_instance.values())
    for theirs in in_parts(instances, _INSTANCES):
        part = [group for own in theirs for group in own]
        yield sorted(part, key=lambda group: _RANK.index(group[0].finding.severity))


def _alert(
    groups: Sequence[Sequence[InstanceFinding]],
    lasting: Sequence[InstanceFinding],
    owner: Owner,
    now: UtcDatetime,
    which: str,
) -> Alert:
    news = [one for group in groups for one in group]
    instances = {one.instance.instance_id: one.instance for one in news}
    target = news[0].instance.target
    only = next(iter(instances.values())) if len(instances) == 1 else None
    named = ", ".join(sorted({one.instance.instance_id for one in lasting})[:_LINES])
    return alert_of(
        AlertKind.HEALTH_FINDING,
        _SEVERITIES[news[0].finding.severity],
        target,
        f"{_subject(news, only)}{which}",
        [
            *(_line(group, owner, now) for group in groups[:_LINES]),
            *_in_short(groups[_LINES:]),
            f"Reported before and still so: {len(lasting)} findings ({named})." if lasting else "",
            "GPU Governor changes nothing about it. `governor health` shows the state of now.",
        ],
        f"health-{target}-{iso(now)}-{short_hash(owner.name, owner.project, which)}",
        now,
        owner=owner,
        instance=only,
        facts={
            "instance_ids": sorted(instances),
            "findings": [_group_document(group) for group in groups],
            "lasting": len(lasting),
        },
    )


def _group_document(group: Sequence[InstanceFinding]) -> dict[str, object]:
    """As `finding_document`, once for all GPUs of an instance with such a finding, to stay short."""
    return {
        **finding_document(group[0]),
        "seen": "; ".join(dict.fromkeys(one.finding.seen for one in group)),
        "gpus": [gpu for one in group for gpu in one.finding.gpus],
        "since": iso(min(one.finding.since for one in group)),
    }


def finding_document(one: InstanceFinding) -> dict[str, object]:
    """One finding as plain JSON data."""
    finding = one.finding
    return {
        "instance_id": one.instance.instance_id,
        "kind": finding.kind.value,
        "severity": finding.severity.value,
        "gpus": list(finding.gpus),
        "seen": finding.seen,
        "since": iso(finding.since),
        "advice": finding.advice,
        "bottleneck": finding.bottleneck.value if finding.bottleneck else None,
    }


def _by_kind(news: Sequence[InstanceFinding]) -> list[list[InstanceFinding]]:
    """Findings that differ in nothing but the GPU go into one line, with their advice once."""
    groups: dict[tuple[str, str], list[InstanceFinding]] = {}
    for one in news:
        groups.setdefault((one.instance.instance_id, one.finding.kind.value), []).append(one)
    return list(groups.values())


def _in_short(groups: Sequence[Sequence[InstanceFinding]]) -> Iterator[str]:
    """List instances with their kinds of findings, in lines that chats do not cut."""
    kinds: dict[str, list[str]] = {}
    for first, *_ in groups:
        kinds.setdefault(first.instance.instance_id, []).append(first.finding.kind.value)
    named = [f"{instance_id} {', '.join(own)}" for instance_id, own in kinds.items()]
    for part in in_parts(named, _A_LINE):
        yield f"And {'; '.join(part)}."


def _line(group: Sequence[InstanceFinding], owner: Owner, now: UtcDatetime) -> str:
    first = group[0].finding
    seen = "; ".join(one.finding.about for one in group)
    since = clock(min(one.finding.since for one in group), owner.time_zone, now)
    severity = first.severity.value.capitalize()
    return f"{severity}: {named(group[0].instance)}: {seen}; seen since {since}. {first.advice}"


def _subject(news: Sequence[InstanceFinding], only: Instance | None) -> str:
    first = news[0].finding.kind.value
    where = only.name if only else f"{len({one.instance.instance_id for one in news})} instances"
    return (
        f"GPU {first} on {where}"
        if len(news) == 1
        else f"{len(news)} GPU findings on {where}, first: {first}"
    )
