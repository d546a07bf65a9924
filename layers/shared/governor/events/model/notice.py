"""Records of what AWS announces with a date: scheduled maintenance of instances, and ends of
Capacity Blocks.

Nothing here acts on an instance: people are notified and reminded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from governor.core.instance import Instance
from governor.core.units import UtcDatetime, iso

TERMINATED_BEFORE_END = timedelta(minutes=30)
"""How long before the end of a Capacity Block EC2 begins to terminate; an hour for UltraServers.
Source: EC2 user guide, how Capacity Blocks work."""
_EXPIRY_LEAD = timedelta(minutes=10)
"""Time between the event that a block expires and the first termination."""


@dataclass(frozen=True, slots=True)
class Notice:
    """An announcement of AWS about one instance, or about the instances in a reservation."""

    account: str
    region: str
    source_id: str
    """The same in all messages about one event: the ARN of AWS Health, or the reservation's id."""
    what: str
    at: UtcDatetime | None
    """The announced date; `None` if AWS names none."""
    said_at: UtcDatetime
    """Time at which AWS sent the message. The latest message counts."""
    instance_id: str | None = None
    reservation_id: str | None = None

    @property
    def key(self) -> str:
        """Return the key of the announced event, `<source>#<instance or reservation>`. It stays the
        same when the date changes."""
        return f"{self.source_id}#{self.instance_id or self.reservation_id}"

    @property
    def message_key(self) -> str:
        """Return the key under which people are notified once: the event with its date, so that
        another date is a new message. Without a date, every message of AWS is."""
        if self.at:
            return f"{self.key}#{iso(self.at)}"
        return f"{self.key}#undated#{iso(self.said_at)}"

    def select_concerned(self, instances: Sequence[Instance]) -> tuple[Instance, ...]:
        """Return those of the instances that the notice is about; empty if none is."""
        return tuple(instance for instance in instances if self._is_about(instance))

    def _is_about(self, instance: Instance) -> bool:
        """Return whether the notice names this instance or, if it names none, the reservation in
        which the instance runs."""
        if self.instance_id is not None:
            return instance.instance_id == self.instance_id
        return instance.capacity_reservation_id == self.reservation_id

    def is_due(self, now: UtcDatetime, before: timedelta) -> bool:
        """Return whether it is time for the reminder: from `before` ahead of the date until the
        date. It is false later, and without a date."""
        return self.at is not None and self.at - before <= now < self.at


@dataclass(frozen=True, slots=True)
class ScheduledChange:
    """Announcements of AWS Health, by instance id. `is_over` if nothing is left to do about
    them."""

    notices: Mapping[str, Notice]
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class BlockChange:
    """A Capacity Block has begun, or its instances are about to be terminated."""

    event_id: str
    account: str
    region: str
    reservation_id: str
    is_expiring: bool
    at: UtcDatetime
    ends_at: UtcDatetime

    @property
    def terminated_from(self) -> UtcDatetime:
        """Return when EC2 begins to terminate the instances: ten minutes after the event. Use it
        only if the block is expiring. Source: EC2 user guide, monitoring Capacity Blocks."""
        return self.at + _EXPIRY_LEAD
