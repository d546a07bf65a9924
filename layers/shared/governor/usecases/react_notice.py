"""AWS announces a date: a scheduled change of an instance, or the begin and the end of a Capacity Block.

Told to the owner once for each date, and kept for the sweep, which tells it again before it comes
(`remind_notices`). This module must not know who sends the events.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from governor.domain.instance import Instance, Target
from governor.domain.notice import BlockChange, Notice, ScheduledChange
from governor.domain.notice_messages import block_delivered_alert, block_expiring_alert, notice_alert
from governor.domain.policy import Ownership, Policy
from governor.domain.units import UtcDatetime
from governor.ports import Announcer, Clock, EventLog, InstanceReader, Policies
from governor.usecases.accounts import Accounts
from governor.usecases.once import Once, run_all
from governor.usecases.open_episode import owner_and_project

_ByOwner = Mapping[tuple[str, str], Sequence[Instance]]
"""Instances by owner and project."""

_KEPT_AFTER = timedelta(days=30)
"""How long after its date a notice is known as told: Health repeats events while they are open."""
_EXPIRY_LEAD = timedelta(minutes=10)
"""From the event to the first termination. Source: EC2 user guide, monitoring Capacity Blocks."""


@dataclass(frozen=True, slots=True)
class ReactToScheduledChange:
    """Tells the owner of each governed instance that is named."""

    clock: Clock
    policies: Policies
    accounts: Accounts
    instances: InstanceReader
    log: EventLog
    once: Once
    announcer: Announcer

    def __call__(self, change: ScheduledChange) -> tuple[str, ...]:
        """The instances that were told about by this call.

        Raises:
            CloudError: an instance could not be read, or something could not be told; all others were told.
        """
        policy = self.policies.base().policy
        told: list[str] = []
        if not self.accounts.governs(policy, change.account, change.region):
            return ()
        run_all(
            [partial(self._about, change, instance_id, policy, told) for instance_id in change.instance_ids]
        )
        return tuple(told)

    def _about(self, change: ScheduledChange, instance_id: str, policy: Policy, told: list[str]) -> None:
        now = self.clock.now()
        # A date that is missing is told as now: whoever reads it looks at the Health dashboard at once.
        at = change.at or now
        notice = Notice(
            change.account, change.region, change.source_id, change.what, at, instance_id=instance_id
        )
        target = self.accounts.target(change.account, change.region)
        if change.is_over or at < now - timedelta(days=1):
            self.log.drop_notice(target, notice.key)
            return
        instance = self.instances.describe(target, instance_id)
        if instance is None or not policy.selector.is_on(instance):
            return
        owner, project = owner_and_project(instance, policy.ownership)
        alert = notice_alert(notice, [instance], owner, project, now, again=False)
        key = notice.telling if change.at is not None else f"{notice.key}#{change.event_id}"
        tell = partial(self.announcer.announce, alert)
        if self.once(f"notice#{key}", tell, keep=at - now + _KEPT_AFTER):
            told.append(instance_id)
        if change.at is not None:
            _keep_for_reminder(self.log, notice, policy, now)


@dataclass(frozen=True, slots=True)
class ReactToCapacityBlock:
    """Tells the owners of what runs in the block; of one that has begun also when nothing does yet."""

    clock: Clock
    policies: Policies
    accounts: Accounts
    instances: InstanceReader
    log: EventLog
    once: Once
    announcer: Announcer

    def __call__(self, change: BlockChange) -> tuple[str, ...]:
        """The owners that were told by this call.

        Raises:
            CloudError: the instances could not be read, or something could not be told.
        """
        policy = self.policies.base().policy
        if not self.accounts.governs(policy, change.account, change.region):
            return ()
        target = self.accounts.target(change.account, change.region)
        listed = self.instances.list_selected(target, policy.selector)
        running = [one for one in listed if one.capacity_reservation_id == change.reservation_id]
        by_owner = owned(running, policy.ownership)
        return (
            self._expiring(change, by_owner) if change.is_expiring else self._begun(change, by_owner, policy)
        )

    def _begun(self, change: BlockChange, by_owner: _ByOwner, policy: Policy) -> tuple[str, ...]:
        now = self.clock.now()
        reservation = change.reservation_id
        notice = Notice(
            account=change.account,
            region=change.region,
            source_id=reservation,
            what=f"Capacity Block {reservation} ends",
            at=change.ends_at,
            reservation_id=reservation,
        )
        # Nobody runs in it yet: whoever the policy names for such cases may know who bought it.
        nobody: _ByOwner = {(policy.ownership.default_owner, "unassigned"): ()}
        keep = max(notice.at - now, timedelta()) + _KEPT_AFTER
        told: list[str] = []
        for (owner, project), instances in (by_owner or nobody).items():
            alert = block_delivered_alert(notice, instances, owner, project, now)
            key = f"delivered#{notice.telling}#{owner}#{project}"
            if self.once(key, partial(self.announcer.announce, alert), keep=keep):
                told.append(owner)
        _keep_for_reminder(self.log, notice, policy, now)
        return tuple(told)

    def _expiring(self, change: BlockChange, by_owner: _ByOwner) -> tuple[str, ...]:
        now, ends = self.clock.now(), change.at + _EXPIRY_LEAD
        told: list[str] = []
        for (owner, project), instances in by_owner.items():
            alert = block_expiring_alert(
                change.reservation_id, instances, ends, owner, project, now, change.event_id
            )
            key = f"{change.event_id}#expiring#{owner}#{project}"
            if self.once(key, partial(self.announcer.announce, alert)):
                told.append(owner)
        return tuple(told)


def owned(instances: Sequence[Instance], rule: Ownership) -> dict[tuple[str, str], list[Instance]]:
    """The instances by owner and project."""
    found: dict[tuple[str, str], list[Instance]] = defaultdict(list)
    for instance in instances:
        found[owner_and_project(instance, rule)].append(instance)
    return dict(found)


def _keep_for_reminder(log: EventLog, notice: Notice, policy: Policy, now: UtcDatetime) -> None:
    """What comes sooner than the reminder would was told in time already; a new date replaces the old one.

    Health repeats events while they are open: the same date again takes nothing back.
    """
    if now < notice.at - timedelta(hours=policy.events.remind_before_hours):
        log.keep_notice(notice)
        return
    target = Target(notice.account, notice.region)
    if any(kept.key == notice.key and kept.at != notice.at for kept in log.notices(target)):
        log.drop_notice(target, notice.key)
