"""Announcements of AWS with a date: scheduled changes of instances, and the ends of Capacity
Blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from governor.domain.instance import Instance
from governor.domain.units import UtcDatetime, iso

TERMINATED_BEFORE_END = timedelta(minutes=30)
"""How long before the end of a Capacity Block EC2 begins to terminate; an hour for UltraServers.
Source: EC2 user guide, how Capacity Blocks work."""
_EXPIRY_LEAD = timedelta(minutes=10)
"""From the event that a block expires to the first termination."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something happens `at` a date, if AWS names one, to an instance, or to what runs in a
    reservation. `source_id` is the same in all its messages (an ARN of Health, or an id); the
    latest `said_at` counts."""

    account: str
    region: str
    source_id: str
    what: str
    at: UtcDatetime | None
    said_at: UtcDatetime
    instance_id: str | None = None
    reservation_id: str | None = None

    @property
    def key(self) -> str:
        """Name the thing announced; a new date of it is the same thing."""
        return f"{self.source_id}#{self.instance_id or self.reservation_id}"

    @property
    def message_key(self) -> str:
        """Name the thing with its date: another date is news, and any change where there is
        none."""
        return (
            f"{self.key}#{iso(self.at)}" if self.at else f"{self.key}#undated#{iso(self.said_at)}"
        )

    def concerns(self, instances: Sequence[Instance]) -> tuple[Instance, ...]:
        if self.instance_id is not None:
            return tuple(one for one in instances if one.instance_id == self.instance_id)
        return tuple(one for one in instances if one.capacity_reservation_id == self.reservation_id)

    def is_due(self, now: UtcDatetime, before: timedelta) -> bool:
        """Return whether now is the time for its reminder: at most `before` ahead, and not over."""
        return self.at is not None and self.at - before <= now < self.at


@dataclass(frozen=True, slots=True)
class ScheduledChange:
    """Announcements of AWS Health, by instance id. A repeated event says the same at the same
    time."""

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
        """Return when EC2 begins to terminate. Source: EC2 user guide, monitoring Capacity
        Blocks."""
        return self.at + _EXPIRY_LEAD
