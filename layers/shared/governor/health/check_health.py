"""Looks at the health of the GPUs of one target, as often as the policy says, and notifies owners.

They are notified of what is new: a finding that was sent is known while it lasts and for a while
after. This module must not act on any instance.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from governor.alerts.model import Owner
from governor.alerts.ports import Announcer
from governor.core.errors import GovernorError
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime, iso, parse_iso
from governor.evidence.ports import InstanceReader
from governor.health.messages import advice_key, health_alerts
from governor.health.model import InstanceFinding
from governor.health.notify_empty import notify_empty
from governor.health.read_health import HealthReading, HealthRequest, ReadHealth
from governor.health.store import Findings
from governor.policy.model.policy import Policy
from governor.policy.ports import Policies, policy_or_base
from governor.policy.rules.owners import by_owner, owner_of
from governor.table.claims import Claims

_LEASE = timedelta(minutes=4, seconds=30)
"""Longer than the function may take, so that no two look at once. Shorter than the time to the next
look, which makes up for a failed one, or for the part of it that failed."""
_REPEAT = "again"
"""Kind of the keys that name instances to look at again; kept beside what was sent."""
_EARLY = timedelta(minutes=1)
"""A look may come so much sooner than it is due."""


@dataclass(slots=True)
class HealthSummary:
    """Result of one health check. The next look tries again what is among `problems`, as not read
    or not sent."""

    target: Target
    at: UtcDatetime
    looked: bool = False
    """False if it is switched off, or the last look was a short while ago."""
    instances: int = 0
    findings: int = 0
    told: int = 0
    messages: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CheckHealth:
    clock: Clock
    policies: Policies
    instances: InstanceReader
    read: ReadHealth
    claim_store: Claims
    finding_store: Findings
    announcer: Announcer

    def __call__(self, target: Target) -> HealthSummary:
        """Look, if it is time to, and notify of what is new. Raises: CloudError; nothing was
        sent."""
        now = self.clock.now()
        summary = HealthSummary(target, now)
        base = self.policies.base().policy
        turn = f"health#{target.account}#{target.region}"
        if not base.health.enabled or not self.claim_store.claim(turn, now, _LEASE):
            return summary
        summary.looked = True
        known = self.finding_store.told(target, now)
        repeat = _repeat_of(known, now)
        readings = self._readings(summary, base, known, repeat)
        summary.instances = len(readings)
        failed_ids = _note_unread(readings, summary)
        failed_ids |= self._notify_owners(readings, base, known, summary)
        if repeat is not None:
            self.claim_store.done(turn, now, repeat.next_look - now)
            return summary
        self._notify_of_empty(base, known, summary)
        next_look = now + base.health.check_every - _EARLY
        if failed_ids:
            # The turn lapses before the next look, which looks at these alone.
            prefix = f"{_REPEAT}#{iso(next_look)}"
            keys = [f"{prefix}#{instance_id}" for instance_id in failed_ids]
            self.finding_store.keep_told(target, keys, next_look)
        else:
            self.claim_store.done(turn, now, next_look - now)
        return summary

    def _readings(
        self,
        summary: HealthSummary,
        base: Policy,
        known: Collection[str],
        repeat: _Repeat | None,
    ) -> dict[str, HealthReading]:
        """Read the instances of the target, or those that the last look left; by instance id."""
        requests = []
        for instance in self.instances.list_selected(summary.target, base.selector):
            if repeat is not None and instance.instance_id not in repeat.instance_ids:
                continue
            policy = policy_or_base(self.policies, instance)
            if policy.health.enabled:
                owner = owner_of(instance, base.ownership)
                is_advice_due = advice_key(owner) not in known
                requests.append(HealthRequest(instance, policy, is_advice_due))
        return self.read(summary.target, requests, summary.at)

    def _notify_owners(
        self,
        readings: Mapping[str, HealthReading],
        base: Policy,
        known: Collection[str],
        summary: HealthSummary,
    ) -> set[str]:
        """Notify each owner. Return the ids of instances with findings whose owner could not be
        notified."""
        failed_ids: set[str] = set()
        instances = [reading.instance for reading in readings.values()]
        for owner, owned in by_owner(instances, base.ownership).items():
            owned_readings = [readings[instance.instance_id] for instance in owned]
            try:
                self._notify_owner(owner, owned_readings, base, known, summary)
            except GovernorError as error:
                summary.problems.append(
                    f"{owner.name} was not notified: {type(error).__name__}: {error}"
                )
                failed_ids |= {
                    reading.instance.instance_id for reading in owned_readings if reading.findings
                }
        return failed_ids

    def _notify_owner(
        self,
        owner: Owner,
        readings: Sequence[HealthReading],
        base: Policy,
        known: Collection[str],
        summary: HealthSummary,
    ) -> None:
        """Notify one owner of all that is new; note each part that was sent, and what lasts."""
        now = summary.at
        findings = _findings_of(readings)
        summary.findings += len(findings)
        lasting = [finding for finding in findings if _is_known(finding, known)]
        is_advice_due = advice_key(owner) not in known
        news = _news(findings, known, with_advice=is_advice_due)
        # Lasting findings are not sent at every look, even if one look was missed.
        known_until = now + 3 * base.health.check_every
        for alert, sent in health_alerts(news, lasting, owner, now):
            self.announcer.announce(alert)
            summary.messages += 1
            summary.told += len(sent)
            self.finding_store.keep_told(summary.target, _keys(sent), known_until)
        kept_keys = _keys(lasting) | _unclear_keys(readings, known)
        self.finding_store.keep_told(summary.target, kept_keys, known_until)
        # Also if there was nothing to say: the look itself is what costs.
        if is_advice_due and any(_was_seen_working(reading) for reading in readings):
            advised_until = now + timedelta(hours=base.health.advice_every_hours)
            self.finding_store.keep_told(summary.target, [advice_key(owner)], advised_until)

    def _notify_of_empty(
        self, base: Policy, known: Collection[str], summary: HealthSummary
    ) -> None:
        """Notify of Capacity Reservations that stand empty; a failure is noted."""
        try:
            summary.messages += notify_empty(
                self.instances,
                self.finding_store,
                self.announcer,
                summary.target,
                base,
                known,
                summary.at,
            )
        except GovernorError as error:
            summary.problems.append(f"Capacity Reservations: {type(error).__name__}: {error}")


def _note_unread(readings: Mapping[str, HealthReading], summary: HealthSummary) -> set[str]:
    """Note what could not be read; return the ids of those instances."""
    unread_ids = set()
    for instance_id, reading in readings.items():
        if reading.problem:
            summary.problems.append(f"{instance_id}: {reading.problem}")
            unread_ids.add(instance_id)
    return unread_ids


def _findings_of(readings: Sequence[HealthReading]) -> list[InstanceFinding]:
    findings: list[InstanceFinding] = []
    for reading in readings:
        for finding in reading.findings:
            findings.append(InstanceFinding(reading.instance, finding))
    return findings


def _is_known(finding: InstanceFinding, known: Collection[str]) -> bool:
    """Return whether it is a fault that was sent before."""
    return finding.is_fault and all(key in known for key in finding.keys)


def _news(
    findings: Sequence[InstanceFinding], known: Collection[str], *, with_advice: bool
) -> list[InstanceFinding]:
    """Return the faults that were not sent before, then the advice if that is wanted."""
    faults = []
    advice = []
    for finding in findings:
        if finding.is_fault:
            if not _is_known(finding, known):
                faults.append(finding)
        elif with_advice and finding.is_worth_sending:
            advice.append(finding)
    return faults + advice


def _was_seen_working(reading: HealthReading) -> bool:
    return reading.works and reading.problem is None


def _keys(findings: Sequence[InstanceFinding]) -> set[str]:
    """Return the keys of faults; advice has one key for each owner."""
    keys: set[str] = set()
    for finding in findings:
        if finding.is_fault:
            keys.update(finding.keys)
    return keys


def _unclear_keys(readings: Sequence[HealthReading], known: Collection[str]) -> set[str]:
    """Return the keys of known findings that may go on: their instances could not be read, or
    published nothing. Missing readings do not clear a finding."""
    unclear_ids = set()
    for reading in readings:
        if reading.problem or not reading.measured:
            unclear_ids.add(reading.instance.instance_id)
    return {key for key in known if key.partition("#")[0] in unclear_ids}


class _Repeat(NamedTuple):
    """A second look at the instances that the last look could not read or notify of."""

    next_look: UtcDatetime
    """When all instances are due again."""
    instance_ids: Collection[str]


def _repeat_of(known: Collection[str], now: UtcDatetime) -> _Repeat | None:
    """Return the second look that is due now; `None` if all instances are due."""
    ids_by_next_look: dict[UtcDatetime, set[str]] = defaultdict(set)
    for key in known:
        kind, _, rest = key.partition("#")
        if kind == _REPEAT:
            next_look, _, instance_id = rest.partition("#")
            ids_by_next_look[parse_iso(next_look)].add(instance_id)
    last = max(ids_by_next_look, default=now)
    if last <= now:
        return None
    return _Repeat(last, ids_by_next_look[last])
