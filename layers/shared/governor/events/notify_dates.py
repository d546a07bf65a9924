"""Notifies owners of dates that AWS announces: scheduled maintenance, and Capacity Blocks that end.

Owners are notified once here; the sweep reminds them shortly before the date. So no schedule is
needed, and nobody is reminded of an instance that no longer runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import chain

from governor.alerts.model import UNASSIGNED, Alert, Owner
from governor.alerts.ports import Announcer
from governor.core.errors import AccessDenied, CloudError, SafetyError
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime
from governor.events.messages import block_alert, notice_alert
from governor.events.model.notice import BlockChange, Notice, ScheduledChange
from governor.events.store.notices import Notices
from governor.evidence.ports import InstanceReader
from governor.policy.accounts import Accounts
from governor.policy.model.policy import Policy
from governor.policy.ports import Policies
from governor.policy.rules.owners import by_owner, owner_named, owner_of
from governor.table.once import Once, run_all

DATE_KEPT = timedelta(days=30)
"""How long after its date a notice is known as sent: Health repeats events while they are open."""
_STILL_NEWS = timedelta(days=1)
"""How long after its date a notice is still sent: events come late, and AWS may take a while."""
_Alerts = Mapping[str, tuple[str, Alert]]
"""Messages that are sent once, by key. Each comes with the name that is returned once it is sent:
the owner's name or the instance's id."""


@dataclass(frozen=True, slots=True)
class NotifyDates:
    """Notifies owners of announced dates, once for each date."""

    clock: Clock
    policies: Policies
    accounts: Accounts
    instances: InstanceReader
    notice_store: Notices
    once: Once
    announcer: Announcer

    def notify_scheduled(self, change: ScheduledChange) -> tuple[str, ...]:
        """Notify the owner of each instance of a scheduled change, once for its date. Return the
        ids of the instances whose owners this call has notified.

        Return an empty tuple if all were notified before, the change is over, AWS has announced
        something newer, or no instance is governed. Raises: CloudError if one failed, after all
        others were tried.
        """
        policy = self.policies.base().policy
        sending = []
        for instance_id, notice in change.notices.items():
            if self.accounts.governs(policy, notice.account, notice.region):
                sending.append(
                    partial(self._notify_about, instance_id, notice, change.is_over, policy)
                )
        return tuple(chain.from_iterable(run_all(sending)))

    def notify_block(self, change: BlockChange) -> tuple[str, ...]:
        """Notify the owners of instances in a Capacity Block that it has begun or is about to end.
        Return the names of the owners that this call has notified.

        Return an empty tuple if all were notified before, AWS has announced something newer, the
        block is in no target of the policy, or nothing runs in a block that ends. Raises:
        SafetyError if nothing runs in a block that begins and EC2 knows no such block; CloudError.
        """
        policy = self.policies.base().policy
        now = self.clock.now()
        if not self.accounts.governs(policy, change.account, change.region):
            return ()
        notice = Notice(
            account=change.account,
            region=change.region,
            source_id=change.reservation_id,
            what=f"Capacity Block {change.reservation_id} ends",
            at=change.ends_at,
            said_at=change.at,
            reservation_id=change.reservation_id,
        )
        target = self.accounts.target(change.account, change.region)
        running = notice.select_concerned(self.instances.list_selected(target, policy.selector))
        owners = by_owner(running, policy.ownership)
        if not owners and not change.is_expiring:
            # Nothing runs in the block yet: the policy's default owner may know who bought it.
            self._must_exist(target, change.reservation_id)
            ownership = policy.ownership
            owners = {owner_named(ownership.default_owner, UNASSIGNED, ownership): []}
        alerts: dict[Owner, Alert] = {}
        for owner, instances in owners.items():
            alerts[owner] = block_alert(change, instances, owner, now)
        if change.is_expiring:
            return self._send_all(_by_key(f"{change.event_id}#expiring", alerts), DATE_KEPT)
        alerts_by_key = _by_key(f"delivered#{notice.message_key}", alerts)
        return self._send_latest(notice, alerts_by_key, policy, now)

    def _must_exist(self, target: Target, reservation_id: str) -> None:
        """Require that EC2 knows the block that an event names. If the role may not ask EC2, as in
        a member stack of an earlier release, believe the event: only AWS can send such an event.

        Raises: SafetyError if EC2 does not know it; CloudError if EC2 cannot be asked.
        """
        try:
            is_known = self.instances.knows_reservation(target, reservation_id)
        except AccessDenied:
            return
        if not is_known:
            raise SafetyError(
                f"EC2 knows no Capacity Block {reservation_id} in {target}: nothing was sent"
            )

    def _notify_about(
        self, instance_id: str, notice: Notice, is_over: bool, policy: Policy
    ) -> tuple[str, ...]:
        """Notify the owner of one instance, and return a tuple with the instance's id. A notice
        that is over, or whose date is more than a day past, is dropped instead.

        Return an empty tuple if this call has notified nobody: the notice was dropped or sent
        before, a newer one is known, or the instance is gone or not governed. Raises: CloudError.
        """
        now = self.clock.now()
        date = notice.at or now
        if is_over or date < now - _STILL_NEWS:
            self.notice_store.drop_notice(notice)
            return ()
        target = self.accounts.target(notice.account, notice.region)
        instance = self.instances.describe(target, instance_id)
        if instance is None or not policy.selector.is_on(instance):
            return ()
        owner = owner_of(instance, policy.ownership)
        reminded = _is_reminded_of(notice, policy, now)
        alert = notice_alert(notice, [instance], owner, now, again=False, reminded=reminded)
        alerts = {f"notice#{notice.message_key}": (instance_id, alert)}
        return self._send_latest(notice, alerts, policy, now)

    def _send_latest(
        self, notice: Notice, alerts: _Alerts, policy: Policy, now: UtcDatetime
    ) -> tuple[str, ...]:
        """Store the notice for its reminder, and send the alerts unless AWS has announced something
        newer. Return the names that come with the alerts which this call has sent; empty if none.

        Raises: CloudError. If the notice could not be stored, the alerts are sent before the error.
        """
        keep_error: CloudError | None = None
        is_latest = True
        try:
            is_latest = self.notice_store.keep_notice(
                notice, remind=_is_reminded_of(notice, policy, now)
            )
        except CloudError as error:
            keep_error = error
        notified: tuple[str, ...] = ()
        if is_latest:
            until_date = max((notice.at or now) - now, timedelta())
            notified = self._send_all(alerts, until_date + DATE_KEPT)
        if keep_error is not None:
            raise keep_error
        return notified

    def _send_all(self, alerts: _Alerts, keep: timedelta) -> tuple[str, ...]:
        """Send each alert, once for its key, and return the names that come with the alerts which
        this call has sent; empty if others sent all. A key is remembered for `keep`. Raises:
        CloudError; alerts before the failed one were sent."""
        notified = []
        for key, (name, alert) in alerts.items():
            if self.once(key, partial(self.announcer.announce, alert), keep=keep):
                notified.append(name)
        return tuple(notified)


def _by_key(key: str, alerts: Mapping[Owner, Alert]) -> _Alerts:
    """Return each alert with its owner's name, by a key that is `key`, the owner and the project,
    as `event-1#expiring#ada#vision`."""
    return {
        f"{key}#{owner.name}#{owner.project}": (owner.name, alert)
        for owner, alert in alerts.items()
    }


def _is_reminded_of(notice: Notice, policy: Policy, now: UtcDatetime) -> bool:
    """Return whether a reminder will follow a message that is sent now. It will not if there is no
    date, or if the date is so near that this message serves as the reminder."""
    if notice.at is None:
        return False
    return now < notice.at - timedelta(hours=policy.events.remind_before_hours)
