"""One look at the health of the GPUs of one target, as often as the policy says, and what is news
to their owners: a finding that was sent is known while it lasts and for a while after."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from governor.domain.alerts.alert import Owner, by_owner, owner_of
from governor.domain.health.health import InstanceFinding
from governor.domain.health.health_messages import advice_key, health_alerts
from governor.domain.instance import Target
from governor.domain.policy.policy import Policy
from governor.domain.units import UtcDatetime, iso, parse_iso
from governor.errors import GovernorError
from governor.ports import Announcer, Clock, InstanceReader, Policies, policy_or_base
from governor.stores import EventLog
from governor.usecases.health.notify_empty import notify_empty
from governor.usecases.health.read_health import HealthReading, HealthRequest, ReadHealth

_LEASE = timedelta(minutes=4, seconds=30)
"""Longer than the function may take, so that no two look at once; shorter than the time to the next
look, which makes up for one that failed, or for the part of it that did."""
_REPEAT = "again"
"""Kept beside what was sent, and read with it."""
_EARLY = timedelta(minutes=1)
"""Looks come a moment sooner or later; one that comes sooner is not sent away."""


@dataclass(slots=True)
class HealthSummary:
    """Result of one health check. `problems` were not read or sent; the next look tries those once
    more."""

    target: Target
    at: UtcDatetime
    looked: bool = False
    """False: switched off, or looked at a while ago."""
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
    log: EventLog
    announcer: Announcer

    def __call__(self, target: Target) -> HealthSummary:
        """Look, if it is time to, and notify of what is new. Raises: CloudError; nothing was
        sent."""
        now = self.clock.now()
        summary = HealthSummary(target, now)
        base = self.policies.base().policy
        turn = f"health#{target.account}#{target.region}"
        if not base.health.enabled or not self.log.claim(turn, now, _LEASE):
            return summary
        summary.looked = True
        known = self.log.told(target, now)
        again = _to_repeat(known, now)
        next_look = now + base.health.check_every - _EARLY
        due, only = again or (next_look, None)
        readings = self._readings(summary, base, known, only)
        summary.instances = len(readings)
        unread = {instance_id: one.problem for instance_id, one in readings.items() if one.problem}
        summary.problems += [f"{instance_id}: {problem}" for instance_id, problem in unread.items()]
        failed = {*unread}
        for owner, theirs in by_owner(
            [one.instance for one in readings.values()], base.ownership
        ).items():
            looked = [readings[one.instance_id] for one in theirs]
            try:
                self._tell(owner, looked, base, known, summary)
            except GovernorError as error:
                summary.problems.append(
                    f"{owner.name} was not notified: {type(error).__name__}: {error}"
                )
                failed |= {one.instance.instance_id for one in looked if one.findings}
        if again is None:
            try:
                parts = (self.instances, self.log, self.announcer)
                summary.messages += notify_empty(*parts, target, base, known, now)
            except GovernorError as error:
                summary.problems.append(f"Capacity Reservations: {type(error).__name__}: {error}")
        if failed and again is None:
            # The turn lapses before the next look, which looks at these alone.
            self.log.keep_told(target, [f"{_REPEAT}#{iso(due)}#{one}" for one in failed], due)
        else:
            self.log.done(turn, now, due - now)
        return summary

    def _readings(
        self,
        look: HealthSummary,
        base: Policy,
        known: Collection[str],
        only: Collection[str] | None,
    ) -> dict[str, HealthReading]:
        requests = []
        for instance in self.instances.list_selected(look.target, base.selector):
            if only is not None and instance.instance_id not in only:
                continue
            policy = policy_or_base(self.policies, instance)
            if policy.health.enabled:
                advice = advice_key(owner_of(instance, base.ownership)) not in known
                requests.append(HealthRequest(instance, policy, advice))
        return self.read(look.target, requests, look.at)

    def _tell(
        self,
        owner: Owner,
        readings: Sequence[HealthReading],
        base: Policy,
        known: Collection[str],
        summary: HealthSummary,
    ) -> None:
        """Notify one owner of all that is new; note each part that was sent, and what lasts."""
        now, target = summary.at, summary.target
        found = [
            InstanceFinding(one.instance, finding) for one in readings for finding in one.findings
        ]
        faults = [one for one in found if one.is_fault]
        lasting = [one for one in faults if all(key in known for key in one.keys)]
        news = [one for one in faults if one not in lasting]
        advised_before = advice_key(owner) in known
        advice = (
            []
            if advised_before
            else [one for one in found if not one.is_fault and one.is_worth_sending]
        )
        summary.findings += len(found)
        # What lasts is not sent at every check, though one may be missed.
        gone = now + 3 * base.health.check_every
        for alert, told in health_alerts([*news, *advice], lasting, owner, now):
            self.announcer.announce(alert)
            summary.messages += 1
            summary.told += len(told)
            self.log.keep_told(target, _keys(told), gone)
        # A hole does not clear a finding.
        holes = {one.instance.instance_id for one in readings if one.problem or not one.measured}
        unclear = {key for key in known if key.partition("#")[0] in holes}
        self.log.keep_told(target, _keys(lasting) | unclear, gone)
        # Also where there was nothing to say: the look itself is what costs.
        if not advised_before and any(one.works and one.problem is None for one in readings):
            until = now + timedelta(hours=base.health.advice_every_hours)
            self.log.keep_told(target, [advice_key(owner)], until)


def _keys(findings: Sequence[InstanceFinding]) -> set[str]:
    return {key for one in findings if one.is_fault for key in one.keys}


def _to_repeat(
    known: Collection[str], now: UtcDatetime
) -> tuple[UtcDatetime, Collection[str]] | None:
    """Return when the next look is due, and the instances that the last one left, if it is not due
    now."""
    left: dict[UtcDatetime, set[str]] = defaultdict(set)
    for key in known:
        kind, _, rest = key.partition("#")
        if kind == _REPEAT:
            due, _, instance_id = rest.partition("#")
            left[parse_iso(due)].add(instance_id)
    last = max(left, default=now)
    return (last, left[last]) if last > now else None
