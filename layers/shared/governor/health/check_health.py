"""Checks the health of the GPUs of one target, as often as the policy says, and notifies owners.

Owners are notified of new findings: a finding that was sent is known while it lasts and for a while
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
from governor.core.errors import CloudError, GovernorError
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime, iso, parse_iso
from governor.episode.rules.standing import state_of_target
from governor.episode.store.instances import Failures
from governor.evidence.ports import InstanceReader
from governor.health.messages import advice_key, health_alerts
from governor.health.model import InstanceFinding
from governor.health.notify_empty_reservations import NotifyEmptyReservations
from governor.health.read_health import HealthReading, HealthRequest, ReadHealth
from governor.health.store import Findings
from governor.policy.model.policy import Policy
from governor.policy.ports import Policies, policy_or_base
from governor.policy.rules.owners import by_owner, owner_of
from governor.table.claims import Claims

_LEASE = timedelta(minutes=4, seconds=30)
"""How long a claim on a target stands. Longer than the function may take, so that no two check it
at once. Shorter than the time to the next check, which repeats a failed check or its failed
part."""
_REPEAT = "again"
"""The kind of keys that name instances to check again. They are stored beside the keys of sent
findings."""
_EARLY = timedelta(minutes=1)
"""How much sooner than due a check may come."""


@dataclass(slots=True)
class HealthSummary:
    """Result of one health check. `problems` are texts about reads and messages that failed; the
    next check repeats them."""

    target: Target
    at: UtcDatetime
    was_checked: bool = False
    """False if the check is switched off, is not due yet, or a known state keeps the target from
    being read."""
    instances: int = 0
    """The instances that were read, or could not be read."""
    findings: int = 0
    """All findings, also those that people know already."""
    findings_sent: int = 0
    messages_sent: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CheckHealth:
    """The health check of one target."""

    clock: Clock
    policies: Policies
    instances: InstanceReader
    read: ReadHealth
    claim_store: Claims
    finding_store: Findings
    failure_store: Failures
    announcer: Announcer

    def __call__(self, target: Target) -> HealthSummary:
        """Check the target if that is due, notify owners of new findings, and return counts and
        problems. A check that fails for one instance or owner becomes a problem, and the next check
        repeats it.

        Nothing is checked if the instances cannot be listed because of a standing state that people
        know, such as a missing role. Raises: CloudError if they cannot be listed for another
        reason, and then nothing was sent; or if the claim or the known keys cannot be read or
        written.
        """
        now = self.clock.now()
        summary = HealthSummary(target, now)
        base = self.policies.base().policy
        claim_key = f"health#{target.account}#{target.region}"
        if not base.health.enabled or not self.claim_store.claim(claim_key, now, _LEASE):
            return summary
        summary.was_checked = True
        known_keys = self.finding_store.known_keys(target, now)
        repeat = _repeat_of(known_keys, now)
        try:
            readings = self._readings(summary, base, known_keys, repeat)
        except CloudError as error:
            if not self._is_known_state(target, error):
                raise
            summary.was_checked = False
            return summary
        summary.instances = len(readings)

        failed_ids = _note_unread(readings, summary)
        failed_ids |= self._notify_owners(readings, base, known_keys, summary)
        if repeat is not None:
            # A repeat is made once; what fails again waits for the next full check.
            self.claim_store.done(claim_key, now, repeat.next_full_check - now)
            return summary

        self._notify_of_empty(base, known_keys, summary)
        next_full_check = now + base.health.check_every - _EARLY
        if failed_ids:
            # The claim lapses before the next check, which then checks only these instances.
            prefix = f"{_REPEAT}#{iso(next_full_check)}"
            keys = [f"{prefix}#{instance_id}" for instance_id in failed_ids]
            self.finding_store.note_known(target, keys, next_full_check)
        else:
            self.claim_store.done(claim_key, now, next_full_check - now)
        return summary

    def _is_known_state(self, target: Target, error: CloudError) -> bool:
        """Return whether the error shows a standing state, and a sweep has met one of this target.

        A state that only the check of health meets is a failure: nobody else reports it. Raises:
        CloudError if the states cannot be read.
        """
        if state_of_target(error) is None:
            return False
        return any(state.is_of_target for state in self.failure_store.standing_states(target))

    def _readings(
        self,
        summary: HealthSummary,
        base: Policy,
        known_keys: Collection[str],
        repeat: _Repeat | None,
    ) -> dict[str, HealthReading]:
        """Read the GPUs of the running instances that the policy selects, and return the readings
        by instance id; with `repeat`, only of the instances that it names. An instance whose policy
        switches the check off is left out; one whose overrides contradict each other is read under
        the policy without overrides.

        Raises: CloudError if the instances or their metrics cannot be listed.
        """
        requests = []
        for instance in self.instances.list_selected(summary.target, base.selector):
            if repeat is not None and instance.instance_id not in repeat.instance_ids:
                continue
            policy = policy_or_base(self.policies, instance)
            if policy.health.enabled:
                owner = owner_of(instance, base.ownership)
                is_advice_due = advice_key(owner) not in known_keys
                requests.append(HealthRequest(instance, policy, is_advice_due))
        return self.read(summary.target, requests, summary.at)

    def _notify_owners(
        self,
        readings: Mapping[str, HealthReading],
        base: Policy,
        known_keys: Collection[str],
        summary: HealthSummary,
    ) -> set[str]:
        """Notify each owner of new findings. Return the ids of instances with findings whose owner
        could not be notified, which becomes a problem; empty if all could be."""
        failed_ids: set[str] = set()
        instances = [reading.instance for reading in readings.values()]
        for owner, owned in by_owner(instances, base.ownership).items():
            owned_readings = [readings[instance.instance_id] for instance in owned]
            try:
                self._notify_owner(owner, owned_readings, base, known_keys, summary)
            except GovernorError as error:
                summary.problems.append(
                    f"{owner.name} was not notified: {type(error).__name__}: {error}"
                )
                for reading in owned_readings:
                    if reading.findings:
                        failed_ids.add(reading.instance.instance_id)
        return failed_ids

    def _notify_owner(
        self,
        owner: Owner,
        readings: Sequence[HealthReading],
        base: Policy,
        known_keys: Collection[str],
        summary: HealthSummary,
    ) -> None:
        """Notify one owner of all new findings, if there are any. Store as known the faults that
        were sent, and those that last: a lasting fault is not sent again. If advice was due and an
        instance works, store that none is due for the policy's time.

        Raises: CloudError if a message was not accepted, or the keys cannot be written; what was
        stored before stays known.
        """
        now = summary.at
        findings = _findings_of(readings)
        summary.findings += len(findings)
        lasting = [finding for finding in findings if _is_known_fault(finding, known_keys)]
        is_advice_due = advice_key(owner) not in known_keys
        news = _new_findings(findings, known_keys, with_advice=is_advice_due)
        # Long enough that a lasting finding stays known even if a check is missed.
        known_until = now + 3 * base.health.check_every
        for alert, sent in health_alerts(news, lasting, owner, now):
            self.announcer.announce(alert)
            summary.messages_sent += 1
            summary.findings_sent += len(sent)
            self.finding_store.note_known(summary.target, _keys(sent), known_until)
        kept_keys = _keys(lasting) | _unclear_keys(readings, known_keys)
        self.finding_store.note_known(summary.target, kept_keys, known_until)
        # Stored also if there was no advice to send: reading the metrics for it is what costs.
        if is_advice_due and any(_was_seen_working(reading) for reading in readings):
            advised_until = now + timedelta(hours=base.health.advice_every_hours)
            self.finding_store.note_known(summary.target, [advice_key(owner)], advised_until)

    def _notify_of_empty(
        self, base: Policy, known_keys: Collection[str], summary: HealthSummary
    ) -> None:
        """Notify owners of Capacity Reservations that stand empty. A failure becomes a problem of
        the `summary`, and raises nothing."""
        try:
            notify_empty = NotifyEmptyReservations(
                self.instances, self.finding_store, self.announcer
            )
            summary.messages_sent += notify_empty(summary.target, base, known_keys, summary.at)
        except GovernorError as error:
            summary.problems.append(f"Capacity Reservations: {type(error).__name__}: {error}")


def _note_unread(readings: Mapping[str, HealthReading], summary: HealthSummary) -> set[str]:
    """Add a problem to the `summary` for each instance that could not be read in full, and return
    their ids; empty if all could."""
    unread_ids = set()
    for instance_id, reading in readings.items():
        if reading.problem:
            summary.problems.append(f"{instance_id}: {reading.problem}")
            unread_ids.add(instance_id)
    return unread_ids


def _findings_of(readings: Sequence[HealthReading]) -> list[InstanceFinding]:
    """Return all findings of these readings, each with its instance."""
    findings: list[InstanceFinding] = []
    for reading in readings:
        for finding in reading.findings:
            findings.append(InstanceFinding(reading.instance, finding))
    return findings


def _is_known_fault(finding: InstanceFinding, known_keys: Collection[str]) -> bool:
    """Return whether the finding is a fault that was sent before for each of its GPUs. It is false
    for advice, and for a fault that has become worse since."""
    return finding.is_fault and all(key in known_keys for key in finding.keys)


def _new_findings(
    findings: Sequence[InstanceFinding], known_keys: Collection[str], *, with_advice: bool
) -> list[InstanceFinding]:
    """Return the faults that were not sent before; then, if `with_advice`, the advice that is worth
    sending. Return an empty list if there is neither."""
    faults = []
    advice = []
    for finding in findings:
        if finding.is_fault:
            if not _is_known_fault(finding, known_keys):
                faults.append(finding)
        elif with_advice and finding.is_worth_sending:
            advice.append(finding)
    return faults + advice


def _was_seen_working(reading: HealthReading) -> bool:
    """Return whether the instance works and all of its metrics could be read."""
    return reading.works and reading.problem is None


def _keys(findings: Sequence[InstanceFinding]) -> set[str]:
    """Return the keys of the faults among these findings. Advice is left out: it is known by one
    key for its owner."""
    keys: set[str] = set()
    for finding in findings:
        if finding.is_fault:
            keys.update(finding.keys)
    return keys


def _unclear_keys(readings: Sequence[HealthReading], known_keys: Collection[str]) -> set[str]:
    """Return the `known_keys` of instances that could not be read or published nothing: missing
    readings do not end a finding. Return an empty set if every instance has readings."""
    unclear_ids = set()
    for reading in readings:
        if reading.problem or not reading.measured:
            unclear_ids.add(reading.instance.instance_id)
    unclear_keys: set[str] = set()
    for key in known_keys:
        # A key of a fault begins with the id of its instance.
        instance_id, _, _ = key.partition("#")
        if instance_id in unclear_ids:
            unclear_keys.add(key)
    return unclear_keys


class _Repeat(NamedTuple):
    """A second check of the instances that the last check could not read or notify of."""

    next_full_check: UtcDatetime
    """The time at which all instances are due again."""
    instance_ids: Collection[str]


def _repeat_of(known_keys: Collection[str], now: UtcDatetime) -> _Repeat | None:
    """Return the repeat that the last check has asked for, by keys such as
    `again#2026-12-04T12:00:00Z#i-0abc`; `None` if there is none, or its time is over: then all
    instances are due."""
    ids_by_full_check: dict[UtcDatetime, set[str]] = defaultdict(set)
    for key in known_keys:
        kind, _, rest = key.partition("#")
        if kind == _REPEAT:
            next_full_check, _, instance_id = rest.partition("#")
            ids_by_full_check[parse_iso(next_full_check)].add(instance_id)
    # Keys of an earlier check may still be stored, so only the newest time counts.
    newest = max(ids_by_full_check, default=now)
    if newest <= now:
        return None
    return _Repeat(newest, ids_by_full_check[newest])
