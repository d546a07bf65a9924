"""Notifies owners of dates that AWS announces: scheduled changes, and Capacity Blocks that begin and end.

Once for each date when it is announced, and again before it. The sweep sends the reminder, not a schedule for
each date: it comes by every few minutes anyway, leaves nothing behind that would have to be deleted, makes up
for a run that failed, and never reminds of an instance that has gone. This module must not know who sends the
events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from governor.domain.alerts.alert import Alert
from governor.domain.alerts.owner import Owner, by_owner, owner_of
from governor.domain.events.messages import block_delivered_alert, block_expiring_alert, notice_alert
from governor.domain.events.notice import BlockChange, Notice, ScheduledChange
from governor.domain.instance import Instance, Target
from governor.domain.policy.policy import Policy
from governor.domain.units import UtcDatetime
from governor.errors import CloudError, GovernorError
from governor.ports import Announcer, Clock, InstanceReader, Policies
from governor.stores import EventLog
from governor.usecases.accounts import Accounts
from governor.usecases.once import Once, run_all

_KEPT = timedelta(days=30)
"""How long after its date a notice is known as sent: Health repeats events while they are open."""
_STILL_NEWS = timedelta(days=1)
"""How long after its date it is sent: events come late, and what is due may take a while."""
_EXPIRY_LEAD = timedelta(minutes=10)
"""From the event to the first termination. Source: EC2 user guide, monitoring Capacity Blocks."""


@dataclass(frozen=True, slots=True)
class NotifyDates:
    """Notifies the owners of governed instances to which something will happen."""

    clock: Clock
    policies: Policies
    accounts: Accounts
    instances: InstanceReader
    log: EventLog
    once: Once
    announcer: Announcer

    def scheduled(self, change: ScheduledChange) -> tuple[str, ...]:
        """Return the instances whose owners this call has notified.

        Raises:
            CloudError: an instance could not be read, or an owner not be notified; all others were.
        """
        policy = self.policies.base().policy
        notified: list[str] = []
        run_all(
            [
                partial(self._about, instance_id, notice, change.is_over, policy, notified)
                for instance_id, notice in change.notices.items()
                if self.accounts.governs(policy, notice.account, notice.region)
            ]
        )
        return tuple(notified)

    def block(self, change: BlockChange) -> tuple[str, ...]:
        """Return the owners whom this call has notified: of what runs in the block; of one that has begun
        also where nothing does yet.

        Raises:
            CloudError: the instances could not be read, or an owner not be notified.
        """
        policy = self.policies.base().policy
        if not self.accounts.governs(policy, change.account, change.region):
            return ()
        target = self.accounts.target(change.account, change.region)
        listed = self.instances.list_selected(target, policy.selector)
        running = [one for one in listed if one.capacity_reservation_id == change.reservation_id]
        theirs = by_owner(running, policy.ownership)
        notified: list[str] = []
        if change.is_expiring:
            self._expiring(change, theirs, notified)
        else:
            self._begun(change, theirs, policy, notified)
        return tuple(notified)

    def _about(
        self, instance_id: str, notice: Notice, is_over: bool, policy: Policy, notified: list[str]
    ) -> None:
        now = self.clock.now()
        at = notice.at or now
        if is_over or at < now - _STILL_NEWS:
            self.log.drop_notice(notice)
            return
        instance = self.instances.describe(self.accounts.target(notice.account, notice.region), instance_id)
        if instance is None or not policy.selector.is_on(instance):
            return
        owner, remind = owner_of(instance, policy.ownership), _is_reminded_of(notice, policy, now)

        def notify() -> None:
            alert = notice_alert(notice, [instance], owner, now, again=False, reminded=remind)
            if self._send(f"notice#{notice.message_key}", alert, at - now + _KEPT):
                notified.append(instance_id)

        self._if_latest(notice, notify, remind=remind)

    def _begun(
        self,
        change: BlockChange,
        theirs: Mapping[Owner, Sequence[Instance]],
        policy: Policy,
        notified: list[str],
    ) -> None:
        now, reservation = self.clock.now(), change.reservation_id
        notice = Notice(
            account=change.account,
            region=change.region,
            source_id=reservation,
            what=f"Capacity Block {reservation} ends",
            at=change.ends_at,
            said_at=change.at,
            reservation_id=reservation,
        )
        # Nobody runs in it yet: the default owner of the policy may know who bought it.
        nobody: Mapping[Owner, Sequence[Instance]] = {Owner(policy.ownership.default_owner): ()}
        keep = max(change.ends_at - now, timedelta()) + _KEPT

        def notify() -> None:
            for owner, instances in (theirs or nobody).items():
                alert = block_delivered_alert(notice, change.ends_at, instances, owner, now)
                if self._send(_key("delivered", notice.message_key, owner), alert, keep):
                    notified.append(owner.name)

        self._if_latest(notice, notify, remind=_is_reminded_of(notice, policy, now))

    def _expiring(
        self, change: BlockChange, theirs: Mapping[Owner, Sequence[Instance]], notified: list[str]
    ) -> None:
        now, ends, event = self.clock.now(), change.at + _EXPIRY_LEAD, change.event_id
        for owner, instances in theirs.items():
            alert = block_expiring_alert(change.reservation_id, instances, ends, owner, now, event)
            if self._send(f"{event}#expiring#{owner.name}#{owner.project}", alert, _KEPT):
                notified.append(owner.name)

    def _send(self, key: str, alert: Alert, keep: timedelta) -> bool:
        return self.once(key, partial(self.announcer.announce, alert), keep=keep)

    def _if_latest(self, notice: Notice, notify: Callable[[], None], *, remind: bool) -> None:
        """Keep it for its reminder and notify, unless AWS has said something newer: events come in any order.

        Raises:
            CloudError: whether something newer is known could not be read (it was sent all the same: twice is
                better than never), or as `notify`.
        """
        unknown: CloudError | None = None
        is_latest = True
        try:
            is_latest = self.log.keep_notice(notice, remind=remind)
        except CloudError as error:
            unknown = error
        if is_latest:
            notify()
        if unknown is not None:
            raise unknown


@dataclass(frozen=True, slots=True)
class RemindNotices:
    """Reminds the owners of running instances of what is due. Part of the sweep, which knows what runs."""

    log: EventLog
    once: Once
    announcer: Announcer

    def __call__(
        self, target: Target, instances: Sequence[Instance], policy: Policy, now: UtcDatetime
    ) -> list[str]:
        """Return as text which owners could not be reminded; the next sweep tries again."""
        try:
            notices = self.log.notices(target)
        except GovernorError as error:
            return [f"announced dates could not be read: {error}"]
        before = timedelta(hours=policy.events.remind_before_hours)
        problems = []
        for notice in notices:
            if not notice.is_due(now, before):
                continue
            for owner, theirs in by_owner(notice.concerns(instances), policy.ownership).items():
                alert = notice_alert(notice, theirs, owner, now, again=True)
                try:
                    key = _key("reminder", notice.message_key, owner)
                    self.once(key, partial(self.announcer.announce, alert), keep=_KEPT)
                except GovernorError as error:
                    problems.append(f"{notice.key}: {owner.name} was not reminded: {error}")
        return problems


def _key(what: str, thing: str, owner: Owner) -> str:
    return f"{what}#{thing}#{owner.name}#{owner.project}"


def _is_reminded_of(notice: Notice, policy: Policy, now: UtcDatetime) -> bool:
    return notice.is_reminded_of(now, timedelta(hours=policy.events.remind_before_hours))
