"""Notifies people and subscribers of what a sweep found: new idle stretches, silent instances, and
instances that other services manage.

Each message is one attempt: a message that cannot be sent is tried again by the next sweep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Protocol

from governor.alerts.model import UNASSIGNED, Owner
from governor.alerts.ports import Announcer
from governor.core.errors import CloudError
from governor.core.hashing import short_hash
from governor.core.instance import Instance
from governor.core.managed_environments import EnvironmentKind, ManagedEnvironment, environment_of
from governor.core.managers import managed_by
from governor.events.messages import notice_alert
from governor.events.model.notice import Notice
from governor.events.notify_dates import DATE_KEPT
from governor.events.store.notices import Notices
from governor.limits.rules.breaker import is_outage
from governor.money.rules.cost import Rate
from governor.policy.rules.owners import by_owner, owner_named, owner_of
from governor.sweep.messages import (
    advice_for,
    devices_of,
    exemption_alert,
    idle_event,
    managed_alert,
    silent_alert,
)
from governor.sweep.model import IdleMember
from governor.sweep.rules import group_key
from governor.sweep.sweep_case import Case, Sweep
from governor.table.once import Once
from governor.verdict.model import UNREAD

if TYPE_CHECKING:
    # For types alone: a function loads only the modules that it uses.
    from governor.core.instance import Target
    from governor.core.units import UtcDatetime
    from governor.sweep.model import BatchEnvironment


class BatchReader(Protocol):
    """The compute environments of AWS Batch by name, read only."""

    def environment(self, target: Target, name: str, now: UtcDatetime) -> BatchEnvironment | None:
        """Return the environment as it is `now`, or `None` if there is none of this name. Raises:
        CloudError."""


_EARLIER = timedelta(minutes=10)
"""A message's claim ends this long before the message is due again. Otherwise the sweep at which it
is due would find the claim still standing."""
_A_WEEK = timedelta(days=7)
_MOST_EVENTS = 200
"""Idle events of one sweep; the next sweeps publish the others."""


@dataclass(frozen=True, slots=True)
class SweepAlerts:
    """Sends the alerts of a sweep.

    Two ways keep the next sweep from sending an alert again: `case.notified` is set on each
    instance that the alert names, or a key is claimed in the table for some time (`once`).
    """

    announcer: Announcer
    batch: BatchReader
    once: Once
    notice_store: Notices

    def publish_idle_events(self, sweep: Sweep) -> None:
        """Publish an event, for machines, about each instance whose idle stretch has none yet.

        Set `case.notified` where the event was sent. Each sweep publishes at most `_MOST_EVENTS`,
        so that it ends in time; the next sweeps publish the rest. A failure becomes a problem of
        the sweep.
        """
        unpublished: list[tuple[Case, UtcDatetime]] = []
        for case in sweep.cases:
            if not case.is_idle or case.previous.idle_told_at:
                continue
            idle_since = case.idle_since
            if idle_since is not None:
                unpublished.append((case, idle_since))
        unpublished = unpublished[:_MOST_EVENTS]

        effects = []
        for case, idle_since in unpublished:
            owner = owner_of(case.instance, case.policy.ownership)
            event = idle_event(case.instance, case.verdict, idle_since, owner, sweep.now)
            effects.append(("idle event", partial(self.announcer.announce, event)))
        sent = sweep.attempt_each(effects)
        for (case, _), was_sent in zip(unpublished, sent, strict=True):
            case.notified = was_sent

    def notify_of_silence(self, sweep: Sweep) -> None:
        """Notify each owner of their instances that fell silent: they publish no metrics any more.
        If so many did that it is an outage, notify only the default owner, of all of them.

        Set `case.notified` where the message was sent. A failure becomes a problem of the sweep.
        """
        silent = {case.id: case for case in sweep.cases if case.fell_silent}
        # Instances that were known to work, and so were not read now, count as measurable.
        measurable = sum(case.verdict.kind not in UNREAD for case in sweep.cases)
        outage = is_outage(len(silent), measurable, sweep.base.breaker)
        instances = [case.instance for case in silent.values()]
        ownership = sweep.base.ownership
        if outage:
            default_owner = owner_named(ownership.default_owner, UNASSIGNED, ownership)
            instances_by_owner = {default_owner: instances}
        else:
            instances_by_owner = by_owner(instances, ownership)

        for owner, members in instances_by_owner.items():
            verdicts = [(instance, silent[instance.instance_id].verdict) for instance in members]
            alert = silent_alert(sweep.target, verdicts, owner, sweep.now, outage=outage)
            if sweep.attempt("silence alert", self.announcer.announce, alert):
                for instance in members:
                    silent[instance.instance_id].notified = True

    def notify_of_unusual_exemptions(self, sweep: Sweep) -> None:
        """Notify each owner of instances whose exemption tag is not spelled as the policy spells
        it, once a week while the tags stay the same. A failure becomes a problem of the sweep."""
        tags: dict[str, str] = {}
        instances = []
        for case in sweep.cases:
            tag = case.policy.exemption.similar_tag_on(case.instance)
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

    def send_reminders(self, sweep: Sweep) -> None:
        """Remind the owners of running instances of dates that AWS has announced, such as a
        maintenance, `events.remind_before_hours` before. A failure becomes a problem of the sweep,
        and so does an instance that EC2 does not describe: its owner is not known."""
        read_notices = partial(self.notice_store.notices, sweep.target)
        notices = sweep.attempt_read("announced dates could not be read", read_notices) or []
        remind_before = timedelta(hours=sweep.base.events.remind_before_hours)
        instances = [case.instance for case in sweep.cases]
        for notice in notices:
            if notice.is_due(sweep.now, remind_before):
                self._remind(sweep, notice, instances)
                _note_undescribed(sweep, notice)

    def _remind(self, sweep: Sweep, notice: Notice, instances: Sequence[Instance]) -> None:
        """Remind each owner of running instances that the notice is about, once for its date. A
        failure becomes a problem of the sweep."""
        concerned_by_owner = by_owner(notice.select_concerned(instances), sweep.base.ownership)
        for owner, members in concerned_by_owner.items():
            alert = notice_alert(notice, members, owner, sweep.now, again=True)
            key = f"reminder#{notice.message_key}#{owner.name}#{owner.project}"
            label = f"{notice.key}: {owner.name} was not reminded"
            notify = partial(self.announcer.announce, alert)
            sweep.attempt(label, self.once, key, notify, keep=DATE_KEPT)

    def notify_of_managed_idle(self, sweep: Sweep, rates: Mapping[str, Rate]) -> None:
        """Notify the owners of environments that another service runs, such as an EKS node group,
        of idle instances there. `rates` are by instance id.

        An owner gets one message per environment within `managed.tell_again_after_hours`, and none
        during a freeze. Set `case.notified` on the instances of these messages. A failure becomes a
        problem of the sweep.
        """
        if sweep.summary.frozen:
            return
        governed = _governed_by_environment(sweep)
        again_after = timedelta(hours=sweep.base.managed.tell_again_after_hours)
        due_ids = set()
        for case in sweep.cases:
            if case.listed.is_managed_due:
                due_ids.add(case.id)
        notified_ids: set[str] = set()
        for (environment, owner), members in _idle_groups(sweep, rates).items():
            if due_ids.isdisjoint(members):
                continue
            notify = partial(
                self._notify_managed,
                sweep,
                environment,
                owner,
                [*members.values()],
                governed[environment],
            )
            key = group_key(sweep.target, environment, owner)
            keep = again_after - _EARLIER
            is_notified = sweep.attempt(environment.title, self.once, key, notify, keep=keep)
            # Also true if an earlier message is recent enough: members that turned idle since then
            # are in the next message.
            if is_notified:
                notified_ids |= members.keys()
        for case in sweep.cases:
            case.notified |= case.id in notified_ids

    def _notify_managed(
        self,
        sweep: Sweep,
        environment: ManagedEnvironment,
        owner: Owner,
        idle: Sequence[IdleMember],
        governed: int,
    ) -> None:
        """Send the message about the `idle` members of one environment, at least one. `governed`
        counts all governed members.

        Settings, jobs and tags of an AWS Batch environment are read first; if that fails, the
        message says so. Raises: CloudError if the message cannot be sent.
        """
        batch_environment = None
        unread: tuple[str, ...] = ()
        if environment.kind is EnvironmentKind.BATCH and environment.name:
            try:
                batch_environment = self.batch.environment(
                    sweep.target, environment.name, sweep.now
                )
            except CloudError as error:
                unread = (f"Its settings and jobs could not be read: {error}",)
        if batch_environment is not None:
            # Tags of the compute environment count where the instances have none.
            any_member = idle[0].instance
            all_tags = {**batch_environment.tags, **any_member.tags}
            owner = owner_of(replace(any_member, tags=all_tags), sweep.base.ownership)
        devices = devices_of(member.instance.instance_type for member in idle)
        advice = (*advice_for(environment, batch_environment, devices), *unread)
        alert = managed_alert(
            environment, idle, governed, sweep.target, sweep.now, owner=owner, advice=advice
        )
        self.announcer.announce(alert)


def _note_undescribed(sweep: Sweep, notice: Notice) -> None:
    """Add to the problems of the sweep that nobody can be reminded of this notice now, if it is
    about an instance that EC2 does not describe."""
    for undescribed in sweep.undescribed:
        if undescribed.id == notice.instance_id:
            sweep.summary.problems.append(
                f"{notice.key}: no reminder can be sent while EC2 does not describe the instance"
            )


def _governed_by_environment(sweep: Sweep) -> Counter[ManagedEnvironment]:
    """Return how many governed instances, idle or not, each environment of another service has;
    empty if no other service runs an instance."""
    governed = Counter[ManagedEnvironment]()
    for case in sweep.cases:
        manager = managed_by(case.instance, sweep.base.managed.tag_keys)
        if manager is not None:
            governed[environment_of(case.instance, manager)] += 1
    return governed


def _idle_groups(
    sweep: Sweep, rates: Mapping[str, Rate]
) -> dict[tuple[ManagedEnvironment, Owner], dict[str, IdleMember]]:
    """Return by environment and owner the instances there that are idle for long enough to
    report, each by its instance id; empty if there are none."""
    groups: dict[tuple[ManagedEnvironment, Owner], dict[str, IdleMember]] = {}
    for case in sweep.cases:
        idle_since = case.managed_idle_since
        manager = case.verdict.manager
        if idle_since is None or manager is None:
            continue
        environment = environment_of(case.instance, manager)
        owner = owner_of(case.instance, sweep.base.ownership)
        member = IdleMember(case.instance, idle_since, rates[case.id].usd_per_hour)
        groups.setdefault((environment, owner), {})[case.id] = member
    return groups
