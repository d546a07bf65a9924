"""Follows the freeze of all targets at the start of each sweep: reminds people of it, or ends it.

The sweep of a target only begins that freeze (`freeze_plans.py`). The end of it is decided here,
once a sweep and before any target is swept: what a person ends must not include instances that the
same sweep is about to count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from governor.alerts.ports import Announcer
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.limits.messages import breaker_alert, hub_freeze_alert
from governor.limits.model.breaker import BreakerState, Hub
from governor.limits.rules import breaker
from governor.limits.store.breaker import Breakers
from governor.policy.model.limits import Breaker
from governor.policy.ports import Policies

_EVERYWHERE = None
"""The place of the freeze of all targets, where that of another freeze is its target."""


@dataclass(frozen=True, slots=True)
class FollowHubFreeze:
    """Reminds people of the freeze of all targets, and releases it when it is over."""

    clock: Clock
    policies: Callable[[], Policies]
    """Reads the policy in force; called only while a freeze stands."""
    breaker_store: Breakers
    announcer: Announcer
    hub: Target

    def __call__(self) -> None:
        """Release the freeze of all targets if it is over, else remind people of it if a message is
        due. Do nothing if none stands.

        People are notified before the freeze is released: if the message cannot be sent, it stands,
        and the next sweep tries again. Raises: CloudError; PolicyError if the policy is refused,
        and the freeze stands then.
        """
        hub = self.breaker_store.hub()
        freeze = hub.freeze
        if freeze is None:
            return
        now = self.clock.now()
        rule = self.policies().base().policy.breaker
        ended_by = self.breaker_store.freeze_end_requested_by(_EVERYWHERE, freeze)
        if ended_by or breaker.is_hub_freeze_over(hub, freeze, now, rule):
            self._release(hub, freeze, ended_by, rule, now)
            return
        self._remind(hub, freeze, rule, now)

    def _release(
        self, hub: Hub, freeze: BreakerState, ended_by: str | None, rule: Breaker, now: datetime
    ) -> None:
        """Notify people, then release the freeze. Raises: CloudError, also if the message cannot be
        sent, and then nothing is released.

        `ended_by` is the person who ended the freeze; `None` if it ended by itself or by the
        policy.
        """
        # Counts that led to a freeze would pass for a habit in the next two weeks, so they are
        # forgotten: unless a person or the policy ended the freeze, or no habit is known yet.
        keeps_counts = (
            bool(ended_by)
            or breaker.is_lifted_by_policy(freeze, rule, now)
            or breaker.are_counts_new(hub, freeze.tripped_at)
        )
        forgotten_hours: list[datetime] = []
        if not keeps_counts:
            forgotten_hours = breaker.hours_around(hub, freeze)
        # After a person has ended the freeze, its instances count as back at work, so that they
        # cause no new freeze.
        settled: Mapping[datetime, int] = {}
        if ended_by:
            settled = breaker.counted_by_new_freeze(hub, now)
        self.announcer.announce(breaker_alert("all released", self.hub, freeze, now, by=ended_by))
        self.breaker_store.end_hub_freeze(freeze, forgotten_hours, settled)

    def _remind(self, hub: Hub, freeze: BreakerState, rule: Breaker, now: datetime) -> None:
        """Send the message about the freeze if one is due: a reminder once a day, or the first
        message if the sweep that began the freeze could not send it. Raises: CloudError."""
        number = breaker.due_message(freeze, now)
        if number is None:
            return
        alert = hub_freeze_alert(hub, self.hub, freeze, now, rule, again=number)
        self.announcer.announce(alert)
        self.breaker_store.replace_hub_freeze(replace(freeze, told_at=now))
