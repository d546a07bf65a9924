"""AWS announces a date: a scheduled change of an instance, or the begin and the end of a Capacity Block.

Told to the owner once for each date, and kept for the sweep, which tells it again before it comes
(`remind_notices`). This module must not know who sends the events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from governor.domain.instance import Instance
from governor.domain.notice import BlockChange, Notice, ScheduledChange
from governor.domain.notice_messages import block_delivered_alert, block_expiring_alert, notice_alert
from governor.domain.owner import Owner, by_owner, owner_of
from governor.domain.policy import Policy
from governor.domain.units import UtcDatetime
from governor.errors import CloudError
from governor.ports import Announcer, Clock, EventLog, InstanceReader, Policies
from governor.usecases.accounts import Accounts
from governor.usecases.once import Once, run_all

_ByOwner = Mapping[Owner, Sequence[Instance]]
"""Instances by owner and project."""

_KEPT_AFTER = timedelta(days=30)
"""How long after its date a notice is known as told: Health repeats events while they are open."""
_STILL_NEWS = timedelta(days=1)
"""How long after its date it is told: events come late, and what is due may take a while."""
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
        notice = Notice(
            account=change.account,
            region=change.region,
            source_id=change.source_id,
            what=change.what,
            at=change.at,
            said_at=change.said_at,
            instance_id=instance_id,
        )
        at = change.at or now
        if change.is_over or at < now - _STILL_NEWS:
            self.log.drop_notice(notice)
            return
        instance = self.instances.describe(self.accounts.target(change.account, change.region), instance_id)
        if instance is None or not policy.selector.is_on(instance):
            return
        owner, project = owner_of(instance, policy.ownership)
        remind = _is_reminded_of(notice, policy, now)
        alert = notice_alert(notice, [instance], owner, project, now, again=False, reminded=remind)

        def tell() -> None:
            announce = partial(self.announcer.announce, alert)
            if self.once(f"notice#{notice.telling}", announce, keep=at - now + _KEPT_AFTER):
                told.append(instance_id)

        _tell_the_latest(self.log, notice, policy, now, tell)


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
        theirs = by_owner(running, policy.ownership)
        return self._expiring(change, theirs) if change.is_expiring else self._begun(change, theirs, policy)

    def _begun(self, change: BlockChange, theirs: _ByOwner, policy: Policy) -> tuple[str, ...]:
        now = self.clock.now()
        reservation = change.reservation_id
        notice = Notice(
            account=change.account,
            region=change.region,
            source_id=reservation,
            what=f"Capacity Block {reservation} ends",
            at=change.ends_at,
            said_at=change.at,
            reservation_id=reservation,
        )
        # Nobody runs in it yet: whoever the policy names for such cases may know who bought it.
        nobody: _ByOwner = {Owner(policy.ownership.default_owner): ()}
        keep = max(change.ends_at - now, timedelta()) + _KEPT_AFTER
        told: list[str] = []

        def tell() -> None:
            for (owner, project), instances in (theirs or nobody).items():
                alert = block_delivered_alert(notice, change.ends_at, instances, owner, project, now)
                key = f"delivered#{notice.telling}#{owner}#{project}"
                if self.once(key, partial(self.announcer.announce, alert), keep=keep):
                    told.append(owner)

        _tell_the_latest(self.log, notice, policy, now, tell)
        return tuple(told)

    def _expiring(self, change: BlockChange, theirs: _ByOwner) -> tuple[str, ...]:
        now, ends = self.clock.now(), change.at + _EXPIRY_LEAD
        told: list[str] = []
        for (owner, project), instances in theirs.items():
            alert = block_expiring_alert(
                change.reservation_id, instances, ends, owner, project, now, change.event_id
            )
            key = f"{change.event_id}#expiring#{owner}#{project}"
            if self.once(key, partial(self.announcer.announce, alert)):
                told.append(owner)
        return tuple(told)


def _tell_the_latest(
    log: EventLog, notice: Notice, policy: Policy, now: UtcDatetime, tell: Callable[[], None]
) -> None:
    """Keeps it for its reminder and tells, unless AWS has said something newer: events come in any order.

    Raises:
        CloudError: whether something newer is known could not be read (it was told all the same: twice is
            better than never), or as `tell`.
    """
    unknown: CloudError | None = None
    is_latest = True
    try:
        is_latest = log.keep_notice(notice, remind=_is_reminded_of(notice, policy, now))
    except CloudError as error:
        unknown = error
    if is_latest:
        tell()
    if unknown is not None:
        raise unknown


def _is_reminded_of(notice: Notice, policy: Policy, now: UtcDatetime) -> bool:
    return notice.is_reminded_of(now, timedelta(hours=policy.events.remind_before_hours))
