"""Notifies people and subscribers of what a sweep found: new idle stretches, silence, managed
instances.

Each message is one attempt: a message that cannot be sent is tried again by the next sweep.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

from governor.alerts.model import Owner
from governor.alerts.ports import Announcer
from governor.approvals.messages.ends import over_alert, recovered_alert
from governor.core.errors import CloudError
from governor.core.hashing import short_hash
from governor.core.instance import Instance, managed_by
from governor.episode.model.episode import Failing
from governor.episode.store.instances import Failures
from governor.events.messages import notice_alert
from governor.events.model.notice import Notice
from governor.events.notify_dates import DATE_KEPT
from governor.events.store.notices import Notices
from governor.health.store import Findings
from governor.limits.rules.breaker import is_outage
from governor.money.rules.cost import Rate
from governor.policy.rules.owners import by_owner, owner_of
from governor.sweep.messages import (
    advice_for,
    exemption_alert,
    idle_event,
    managed_alert,
    silent_alert,
)
from governor.sweep.model import Home, IdleMember, Kind
from governor.sweep.rules import group_key, home_of
from governor.sweep.sweep_case import Sweep
from governor.table.once import Once
from governor.verdict.model import UNREAD

if TYPE_CHECKING:
    # For types alone: a function loads only the modules that it uses.
    from governor.core.instance import Instance, Target
    from governor.sweep.model import BatchEnvironment


class BatchReader(Protocol):
    """The compute environments of AWS Batch by name, read only."""

    def environment(self, target: Target, name: str) -> BatchEnvironment | None: ...


_FAILED_BEFORE = timedelta(minutes=10)
"""The record may not show a newer failure yet: people are notified before an episode is closed."""
_EARLIER = timedelta(minutes=10)
"""The log forgets a message so long before it is due again. Otherwise the sweep that is due would
come too soon."""
_A_WEEK = timedelta(days=7)
_MOST_EVENTS = 200
"""Idle events of one sweep; the next sweeps publish the others."""


@dataclass(frozen=True, slots=True)
class SweepAlerts:
    """Note sent alerts on the case, so that the next sweep does not send them again."""

    announcer: Announcer
    batch: BatchReader
    once: Once
    failure_store: Failures
    finding_store: Findings
    notice_store: Notices

    def idle(self, sweep: Sweep) -> None:
        """Publish one event per idle stretch, for machines. Each sweep publishes a limited number,
        so that it ends in time."""
        dated = []
        for case in sweep.cases:
            if not case.is_idle or case.previous.idle_told_at:
                continue
            idle_since = case.idle_since
            if idle_since is not None:
                dated.append((case, idle_since))
        dated = dated[:_MOST_EVENTS]
        effects = []
        for case, idle_since in dated:
            owner = owner_of(case.instance, case.policy.ownership)
            event = idle_event(case.instance, case.verdict, idle_since, owner, sweep.now)
            effects.append(("idle event", partial(self.announcer.announce, event)))
        sent = sweep.attempt_each(effects)
        for (case, _), was_sent in zip(dated, sent, strict=True):
            case.notified = was_sent

    def silence(self, sweep: Sweep) -> None:
        """Notify each owner of their silent instances; in an outage, the default owner of all."""
        silent = {case.id: case for case in sweep.cases if case.fell_silent}
        # Instances whose work is known from before, and need no read now, count as measurable.
        measurable = sum(case.verdict.kind not in UNREAD for case in sweep.cases)
        outage = is_outage(len(silent), measurable, sweep.base.breaker)
        instances = [case.instance for case in silent.values()]
        ownership = sweep.base.ownership
        if outage:
            groups = {Owner(ownership.default_owner): instances}
        else:
            groups = by_owner(instances, ownership)
        for owner, members in groups.items():
            verdicts = [(instance, silent[instance.instance_id].verdict) for instance in members]
            alert = silent_alert(sweep.target, verdicts, owner, sweep.now, outage=outage)
            if sweep.attempt("silence alert", self.announcer.announce, alert):
                for instance in members:
                    silent[instance.instance_id].notified = True

    def unusual_exemptions(self, sweep: Sweep) -> None:
        """Notify each owner of exemption tags with unusual spelling: once a week while they stay
        the same."""
        tags: dict[str, str] = {}
        instances = []
        for case in sweep.cases:
            tag = case.policy.exemption.like_it_on(case.instance)
            if tag and not case.policy.exemption.is_on(case.instance):
                tags[case.id] = tag
                instances.append(case.instance)
        for owner, members in by_owner(instances, sweep.base.ownership).items():
            tagged = [(instance, tags[instance.instance_id]) for instance in members]
            alert = exemption_alert(sweep.target, tagged, sweep.base.exemption, owner, sweep.now)
            content = short_hash(*(f"{instance.instance_id} {tag}" for instance, tag in tagged))
            key = f"exemption#{owner.key}#{content}"
            notify = partial(self.announcer.announce, alert)
            sweep.attempt("exemption alert", self.once, key, notify, keep=_A_WEEK)

    def recovered(self, sweep: Sweep) -> None:
        """Notify people of each cause by which no instance fails any more.

        The next failure of that cause is notified at once again.
        """
        by_cause: dict[str, list[Failing]] = defaultdict(list)
        for failure in self._updated_failures(sweep):
            by_cause[failure.cause].append(failure)
        for cause, failures in sorted(by_cause.items()):
            if all(failure.over_at for failure in failures):
                alert = recovered_alert(failures, sweep.target, sweep.now)
                self.once(alert.dedup_id, partial(self.announcer.announce, alert))
                self.once.claim_store.done(f"failure#{cause}", sweep.now, timedelta())
                self.failure_store.drop_failing(failures)

    def _updated_failures(self, sweep: Sweep) -> list[Failing]:
        """Return the failures of all targets. Those of this target that are over are noted as
        such."""
        failures = self.failure_store.failing()
        failing_ids = {case.id for case in sweep.cases if case.record.failures}
        newest_at = {
            (failure.target, failure.instance_id): failure.at
            for failure in sorted(failures, key=attrgetter("at"))
        }
        updated = []
        for failure in failures:
            is_newest = newest_at[failure.target, failure.instance_id] == failure.at
            fails_on = is_newest and failure.instance_id in failing_ids
            is_recent = sweep.now - failure.at < _FAILED_BEFORE
            is_elsewhere = failure.target != sweep.target
            if failure.over_at is not None or fails_on or is_recent or is_elsewhere:
                updated.append(failure)
            else:
                self.failure_store.note_over(failure, sweep.now)
                updated.append(replace(failure, over_at=sweep.now))
        return updated

    def incidents_over(self, sweep: Sweep) -> None:
        """Have machines close the incidents that they opened, once their time has passed and no
        finding keeps them open."""
        for incident in self.failure_store.incidents():
            if incident.ends_at > sweep.now:
                continue
            findings = self.finding_store.told(incident.target, sweep.now)
            if not findings.isdisjoint(incident.lasts_with):
                continue
            alert = over_alert(incident, sweep.now)
            self.once(alert.dedup_id, partial(self.announcer.announce, alert))
            self.failure_store.drop_incident(incident)

    def reminders(self, sweep: Sweep) -> None:
        """Remind the owners of running instances of the dates that AWS has announced, when they are
        near."""
        read_notices = partial(self.notice_store.notices, sweep.target)
        notices = sweep.attempt_read("announced dates could not be read", read_notices) or []
        remind_before = timedelta(hours=sweep.base.events.remind_before_hours)
        instances = [case.instance for case in sweep.cases]
        for notice in notices:
            if notice.is_due(sweep.now, remind_before):
                self._remind(sweep, notice, instances)

    def _remind(self, sweep: Sweep, notice: Notice, instances: Sequence[Instance]) -> None:
        concerned = by_owner(notice.concerns(instances), sweep.base.ownership)
        for owner, members in concerned.items():
            alert = notice_alert(notice, members, owner, sweep.now, again=True)
            key = f"reminder#{notice.message_key}#{owner.name}#{owner.project}"
            label = f"{notice.key}: {owner.name} was not reminded"
            notify = partial(self.announcer.announce, alert)
            sweep.attempt(label, self.once, key, notify, keep=DATE_KEPT)

    def managed_idle(self, sweep: Sweep, rates: Mapping[str, Rate]) -> None:
        """Notify the owners of idle environments that other services manage. Each gets one message
        in the policy's time, with the advice that fits, and none during a freeze."""
        if sweep.summary.frozen:
            return
        governed = _governed_by_home(sweep)
        again_after = timedelta(hours=sweep.base.managed.tell_again_after_hours)
        due_ids = {case.id for case in sweep.cases if case.listed.is_managed_due}
        notified_ids: set[str] = set()
        for (home, owner), members in _idle_groups(sweep, rates).items():
            if due_ids.isdisjoint(members):
                continue
            notify = partial(
                self._notify_managed, sweep, home, owner, [*members.values()], governed[home]
            )
            key = group_key(sweep.target, home, owner)
            keep = again_after - _EARLIER
            if sweep.attempt(home.title, self.once, key, notify, keep=keep):
                # Those that have joined since the last message are in the next one.
                notified_ids |= members.keys()
        for case in sweep.cases:
            case.notified |= case.id in notified_ids

    def _notify_managed(
        self, sweep: Sweep, home: Home, owner: Owner, idle: Sequence[IdleMember], governed: int
    ) -> None:
        """Send the message about one environment. Its own settings and tags are read if it is of
        AWS Batch; the message is sent without them if they cannot be read."""
        environment = None
        unread: tuple[str, ...] = ()
        if home.kind is Kind.BATCH and home.name:
            try:
                environment = self.batch.environment(sweep.target, home.name)
            except CloudError as error:
                unread = (f"Its settings and jobs could not be read: {error}",)
        if environment is not None:
            # Tags of the compute environment count where the instances have none.
            first = idle[0].instance
            tagged = replace(first, tags={**environment.tags, **first.tags})
            owner = owner_of(tagged, sweep.base.ownership)
        advice = (*advice_for(home, environment), *unread)
        alert = managed_alert(
            home, idle, governed, sweep.target, sweep.now, owner=owner, advice=advice
        )
        self.announcer.announce(alert)


def _governed_by_home(sweep: Sweep) -> Counter[Home]:
    """Count the governed instances of each environment, whether idle or not."""
    governed = Counter[Home]()
    for case in sweep.cases:
        manager = managed_by(case.instance, sweep.base.managed.tag_keys)
        if manager is not None:
            governed[home_of(case.instance, manager)] += 1
    return governed


def _idle_groups(
    sweep: Sweep, rates: Mapping[str, Rate]
) -> dict[tuple[Home, Owner], dict[str, IdleMember]]:
    """Return the idle instances of each environment and owner, by instance id."""
    groups: dict[tuple[Home, Owner], dict[str, IdleMember]] = {}
    for case in sweep.cases:
        idle_since = case.managed_idle_since
        manager = case.verdict.manager
        if idle_since is None or manager is None:
            continue
        home = home_of(case.instance, manager)
        owner = owner_of(case.instance, sweep.base.ownership)
        member = IdleMember(case.instance, idle_since, rates[case.id].usd_per_hour)
        groups.setdefault((home, owner), {})[case.id] = member
    return groups
