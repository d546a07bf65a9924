"""Notifies owners of dates that AWS announces, of scheduled changes and Capacity Blocks: once, and
again before it by the sweep, which needs no schedules and never reminds of an instance that has
gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import chain

from governor.domain.alerts.alert import Alert, Owner, by_owner, owner_of
from governor.domain.events.messages import block_alert, notice_alert
from governor.domain.events.notice import BlockChange, Notice, ScheduledChange
from governor.domain.instance import Target
from governor.domain.policy.policy import Policy
from governor.domain.units import UtcDatetime
from governor.errors import AccessDenied, CloudError, SafetyError
from governor.ports import Announcer, Clock, InstanceReader, Policies
from governor.stores import EventLog
from governor.usecases.accounts import Accounts
from governor.usecases.once import Once, run_all

DATE_KEPT = timedelta(days=30)
"""How long after its date a notice is known as sent: Health repeats events while they are open."""
_STILL_NEWS = timedelta(days=1)
"""How long after its date it is sent: events come late, and what is due may take a while."""
_Alerts = Mapping[str, tuple[str, Alert]]
"""Messages that are sent once, by key, each with the name of who, or what, was notified by it."""


@dataclass(frozen=True, slots=True)
class NotifyDates:
    clock: Clock
    policies: Policies
    accounts: Accounts
    instances: InstanceReader
    log: EventLog
    once: Once
    announcer: Announcer

    def scheduled(self, change: ScheduledChange) -> tuple[str, ...]:
        """Return the instances whose owners were notified. Raises: CloudError, after all others
        were."""
        policy = self.policies.base().policy
        sending = [
            partial(self._about, instance_id, notice, change.is_over, policy)
            for instance_id, notice in change.notices.items()
            if self.accounts.governs(policy, notice.account, notice.region)
        ]
        return tuple(chain.from_iterable(run_all(sending)))

    def block(self, change: BlockChange) -> tuple[str, ...]:
        """Return the owners whom this call has notified, of a block that begins empty too. Raises:
        SafetyError when nothing runs in it, and EC2 knows no such block; CloudError."""
        policy, now = self.policies.base().policy, self.clock.now()
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
        running = notice.concerns(self.instances.list_selected(target, policy.selector))
        owners = by_owner(running, policy.ownership)
        if not owners and not change.is_expiring:
            # Nobody runs in it yet: the default owner of the policy may know who bought it.
            self._must_exist(target, change.reservation_id)
            owners = {Owner(policy.ownership.default_owner): []}
        alerts = {
            owner: block_alert(change, theirs, owner, now) for owner, theirs in owners.items()
        }
        if change.is_expiring:
            return self._send_all(_by_key(f"{change.event_id}#expiring", alerts), DATE_KEPT)
        return self._send_latest(
            notice, _by_key(f"delivered#{notice.message_key}", alerts), policy, now
        )

    def _must_exist(self, target: Target, reservation_id: str) -> None:
        """Refuse what an event alone says. Where the role may not look, as in a member stack of an
        earlier release, AWS is believed: nobody else can send such an event."""
        try:
            is_known = self.instances.knows_reservation(target, reservation_id)
        except AccessDenied:
            return
        if not is_known:
            raise SafetyError(
                f"EC2 knows no Capacity Block {reservation_id} in {target}: nothing was sent"
            )

    def _about(
        self, instance_id: str, notice: Notice, is_over: bool, policy: Policy
    ) -> tuple[str, ...]:
        now = self.clock.now()
        if is_over or (notice.at or now) < now - _STILL_NEWS:
            self.log.drop_notice(notice)
            return ()
        instance = self.instances.describe(
            self.accounts.target(notice.account, notice.region), instance_id
        )
        if instance is None or not policy.selector.is_on(instance):
            return ()
        owner, reminded = owner_of(instance, policy.ownership), _is_reminded_of(notice, policy, now)
        alert = notice_alert(notice, [instance], owner, now, again=False, reminded=reminded)
        alerts = {f"notice#{notice.message_key}": (instance_id, alert)}
        return self._send_latest(notice, alerts, policy, now)

    def _send_latest(
        self, notice: Notice, alerts: _Alerts, policy: Policy, now: UtcDatetime
    ) -> tuple[str, ...]:
        """Keep it for its reminder and notify, unless AWS has said something newer. Raises:
        CloudError, also where that could not be read, and it was sent all the same."""
        unknown: CloudError | None = None
        try:
            is_latest = self.log.keep_notice(notice, remind=_is_reminded_of(notice, policy, now))
        except CloudError as error:
            is_latest, unknown = True, error
        until_date = max((notice.at or now) - now, timedelta())
        notified = self._send_all(alerts, until_date + DATE_KEPT) if is_latest else ()
        if unknown is not None:
            raise unknown
        return notified

    def _send_all(self, alerts: _Alerts, keep: timedelta) -> tuple[str, ...]:
        return tuple(
            name
            for key, (name, alert) in alerts.items()
            if self.once(key, partial(self.announcer.announce, alert), keep=keep)
        )


def _by_key(key: str, alerts: Mapping[Owner, Alert]) -> _Alerts:
    return {
        f"{key}#{owner.name}#{owner.project}": (owner.name, alert)
        for owner, alert in alerts.items()
    }


def _is_reminded_of(notice: Notice, policy: Policy, now: UtcDatetime) -> bool:
    """Return whether a reminder will follow: what comes sooner needs none."""
    return notice.at is not None and now < notice.at - timedelta(
        hours=policy.events.remind_before_hours
    )
