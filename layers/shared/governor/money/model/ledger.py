"""Entries of the ledger: what each action saved.

Records only: `money.rules.ledger` computes the amounts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple

from governor.core.episode_ref import EpisodeRef
from governor.core.units import Usd, UsdPerHour, UtcDatetime
from governor.episode.model.episode import Outcome

_ACTED = (Outcome.STOPPED, Outcome.TERMINATED)
_END_FIELDS = ("ended_at", "false_stop", "ended", "settled_at", "replaced_by")
_BILL_FIELDS = ("cash_low_usd_per_hour", "cash_high_usd_per_hour", "cash_source", "corrected_at")


class Ending(StrEnum):
    """Why an action stopped saving before the last day for which the policy counts it."""

    STARTED = "started again"
    UNDONE = "undone"
    """Started so soon that the stop was wrong: it has saved nothing."""
    REPLACED = "replaced"
    """The same owner and project started the same type in the same account."""
    TERMINATED = "terminated by others"


PREPAID_SOURCE = "its capacity is paid for, used or not"
"""The source of a price of zero: that of capacity which is paid in advance, or by the host. It is
stored, and must not change."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The end of one question, and what it saves an hour at list prices.

    An entry is open (`ended_at` is `None`) while the instance stays stopped or terminated. Amounts
    an hour are `None` if the price is not known.
    """

    episode: EpisodeRef
    outcome: Outcome
    instance_type: str
    owner: str
    project: str
    price_source: str
    booked_at: UtcDatetime
    """Time of the request to EC2; without a request, the end of the episode."""
    cost_before_usd_per_hour: UsdPerHour | None
    cost_after_usd_per_hour: UsdPerHour | None
    saved_usd_per_hour: UsdPerHour | None
    ended_at: UtcDatetime | None = None
    false_stop: bool = False
    ours: bool = True
    """False if nothing was done, or if others or EC2 stopped or terminated the instance."""
    resource_name: str = ""
    """Name of the instance; empty in entries of earlier releases."""
    cash_low_usd_per_hour: UsdPerHour | None = None
    """The least by which an hour lowers the bill; `None` (not known) in entries of earlier
    releases."""
    cash_high_usd_per_hour: UsdPerHour | None = None
    storage_usd_per_hour: UsdPerHour | None = None
    """Added cost of its volumes and snapshots afterwards; `None` in entries of earlier releases."""
    saves_from: UtcDatetime | None = None
    """Time from which the bill is lower: not before the end of the least time that AWS bills for a
    start."""
    morning: UtcDatetime | None = None
    """Start of the owner's next working day; `None` in entries of earlier releases."""
    idle_usd: Usd | None = None
    """Cost of the instance while idle, until `booked_at`; `None` if it is not known."""
    recorded_at: UtcDatetime | None = None
    """Time at which the entry was written. `None` in entries of earlier releases: `booked_at`
    counts then."""
    ended: Ending | None = None
    """Why the saving ended; `None` while it is open, and in entries of earlier releases."""
    settled_at: UtcDatetime | None = None
    """Time at which the end was written."""
    replaced_by: str = ""
    """The id of the instance that was started in its place; empty if there is none."""
    cash_source: str = ""
    """The bill from which the cash figures were computed; empty if they are estimated."""
    corrected_at: UtcDatetime | None = None
    """Time at which the bill's figures were written."""
    first_booked_at: UtcDatetime | None = None
    """Time of the booking of the stop whose saving this entry goes on with, after a start of the
    instance that fell back; `None` for an action of its own."""

    @property
    def is_continuation(self) -> bool:
        """Return whether the entry is no action of its own: it goes on with the saving of a stop
        after a start that fell back."""
        return self.first_booked_at is not None

    @property
    def stopped_at(self) -> UtcDatetime:
        """Return when the stop was booked whose saving this entry counts: of an entry that
        continues the saving of an earlier one, when the first of them was booked."""
        return self.first_booked_at or self.booked_at

    def counts_until(self, counts_for: timedelta) -> UtcDatetime:
        """Return until when the saving counts if nothing ends it: `counts_for` after
        `stopped_at`."""
        return self.stopped_at + counts_for

    @property
    def end_fields(self) -> dict[str, Any]:
        """Return the values of the fields that the end of an entry sets, such as `ended_at`, by the
        name of the field. They are copied from the stored end to the entry."""
        return {name: getattr(self, name) for name in _END_FIELDS}

    @property
    def correction_fields(self) -> dict[str, Any]:
        """Return the values of the fields that a correction by a bill sets, such as `cash_source`,
        by the name of the field. They are copied from the stored correction to the entry."""
        return {name: getattr(self, name) for name in _BILL_FIELDS}

    @property
    def acted(self) -> bool:
        """Return whether GPU Governor itself stopped or terminated the instance."""
        return self.ours and self.outcome in _ACTED

    @property
    def is_prepaid(self) -> bool:
        """Return whether its end saves nothing, because the capacity of the instance is paid for,
        used or not. One with storage of its own saves or costs what that does."""
        return self.price_source == PREPAID_SOURCE and not self.saved_usd_per_hour

    @property
    def may_still_be_stopped(self) -> bool:
        """Return whether the instance may still be stopped: GPU Governor stopped it, and as far as
        the entry says, it was neither started nor terminated since. A stopped instance whose place
        another took may still be stopped, too."""
        return self.outcome is Outcome.STOPPED and (self.ours or self.ended is Ending.REPLACED)

    @property
    def is_of_storage(self) -> bool:
        """Return whether the entry is a termination that saves only storage, because the instance
        was stopped before."""
        storage = self.storage_usd_per_hour or Decimal(0)
        return self.outcome is Outcome.TERMINATED and self.saved_usd_per_hour == -storage

    def saving_span(
        self, start: datetime, end: datetime, counts_for: timedelta
    ) -> tuple[datetime, datetime]:
        """Return the start and the end of the time in which the entry saves: between `start` and
        `end`, before the saving ended, and at most `counts_for` after the action was booked.

        If the result's end is not later than its start, nothing is saved.
        """
        saves_until = min(end, self.ended_at or end, self.counts_until(counts_for))
        return max(start, self.saves_from or self.booked_at), saves_until


class Cash(NamedTuple):
    """The least and the most by which one hour less of an instance lowers the bill."""

    low: UsdPerHour
    high: UsdPerHour


@dataclass(frozen=True, slots=True)
class Saved:
    """A net saving at list prices: the avoided cost, less the undone part, less storage.

    The amounts leave out actions without a known price, whose number is `unpriced`. Beside the net
    saving stand its bounds in cash, and the part until the owners' next mornings.
    """

    avoided_usd: Usd = Decimal(0)
    """Cost of the instances if they had kept running."""
    undone_usd: Usd = Decimal(0)
    """The part of the avoided cost that belongs to false stops, which nobody wanted."""
    storage_usd: Usd = Decimal(0)
    """Cost of volumes and snapshots meanwhile, without those of false stops."""
    actions: int = 0
    false_stops: int = 0
    unpriced: int = 0
    cash_low_usd: Usd = Decimal(0)
    cash_high_usd: Usd = Decimal(0)
    by_morning_usd: Usd = Decimal(0)
    """The saving until the owners' next mornings. Entries of earlier releases add nothing: their
    mornings are not known."""

    @property
    def net_usd(self) -> Usd:
        """Return the net saving: the avoided cost, less the part that was undone, less the cost of
        storage."""
        return self.avoided_usd - self.undone_usd - self.storage_usd


@dataclass(frozen=True, slots=True)
class Statement:
    """The ledger's sum of a month, from the records that were written by `as_of`.

    Each saving counts for `counts_days` days. The sum is the same whenever it is computed again for
    the same `as_of`.
    """

    month: str
    as_of: UtcDatetime
    counts_days: int
    net_usd: Usd
    entries: int
