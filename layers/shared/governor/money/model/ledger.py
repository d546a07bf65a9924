"""Entries of the ledger: what each action saved."""

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


_OF_ITS_END = ("ended_at", "false_stop", "ended", "settled_at", "replaced_by")


_OF_A_BILL = ("cash_low_usd_per_hour", "cash_high_usd_per_hour", "cash_source", "corrected_at")


class Ending(StrEnum):
    """Why an action stopped saving before the last day for which the policy counts it."""

    STARTED = "started again"
    UNDONE = "undone"
    """Started so soon that the stop was wrong: it has saved nothing."""
    REPLACED = "replaced"
    """The same owner and project started the same type in the same account."""
    TERMINATED = "terminated by others"


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The end of one question, at list prices.

    It is open (`ended_at` is `None`) while the instance stays stopped or terminated.
    `saved_usd_per_hour` is `None` for unpriced types.
    """

    episode: EpisodeRef
    outcome: Outcome
    instance_type: str
    owner: str
    project: str
    price_source: str
    booked_at: UtcDatetime
    """Time of the request to EC2, or of the end without one."""
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
    """The least that an hour of it takes off the bill; `None`, not known, in entries of earlier
    releases."""
    cash_high_usd_per_hour: UsdPerHour | None = None
    storage_usd_per_hour: UsdPerHour | None = None
    """Added cost of its volumes and snapshots afterwards; `None` in entries of earlier releases."""
    saves_from: UtcDatetime | None = None
    """Time from which the bill is lower: the end of the time billed for the last start at least."""
    morning: UtcDatetime | None = None
    """Start of the owner's next working day; `None` in entries of earlier releases."""
    idle_usd: Usd | None = None
    """Its cost while idle until it was booked; `None` if it is not known."""
    recorded_at: UtcDatetime | None = None
    """Time of writing; `booked_at` in entries of earlier releases."""
    ended: Ending | None = None
    """`None` while it is open, and in entries of earlier releases."""
    settled_at: UtcDatetime | None = None
    """Time of writing its end."""
    replaced_by: str = ""
    """The id of the instance that was started in its place."""
    cash_source: str = ""
    """The bill from which its cash was computed; empty if it is estimated."""
    corrected_at: UtcDatetime | None = None
    """Time of writing the bill's figures."""

    @property
    def end(self) -> dict[str, Any]:
        """Return the fields that its end sets."""
        return {name: getattr(self, name) for name in _OF_ITS_END}

    @property
    def correction(self) -> dict[str, Any]:
        """Return the fields that a bill sets."""
        return {name: getattr(self, name) for name in _OF_A_BILL}

    @property
    def acted(self) -> bool:
        """Return whether GPU Governor stopped or terminated the instance."""
        return self.ours and self.outcome in _ACTED

    @property
    def is_away(self) -> bool:
        """Return whether it may still be stopped: we stopped it, and it was not started since."""
        return self.outcome is Outcome.STOPPED and (self.ours or self.ended is Ending.REPLACED)

    @property
    def is_of_storage(self) -> bool:
        """Return whether the instance was stopped before, so that only its storage is saved."""
        storage = self.storage_usd_per_hour or Decimal(0)
        return self.outcome is Outcome.TERMINATED and self.saved_usd_per_hour == -storage

    def counted(
        self, start: datetime, end: datetime, counts_for: timedelta
    ) -> tuple[datetime, datetime]:
        """Return the start and end of its saving within this time. It saves nothing if the end is
        not later."""
        saves_until = min(end, self.ended_at or end, self.booked_at + counts_for)
        return max(start, self.saves_from or self.booked_at), saves_until


class Cash(NamedTuple):
    """The least and the most by which one hour less of an instance lowers the bill."""

    low: UsdPerHour
    high: UsdPerHour


@dataclass(frozen=True, slots=True)
class Saved:
    """A net saving at list prices: the avoided cost, less the undone part, less storage.

    It leaves out `unpriced` actions. Also the bounds of the saving in cash, and the saving until
    the owners' next mornings.
    """

    avoided_usd: Usd = Decimal(0)
    """Cost of the instances if they had kept running."""
    undone_usd: Usd = Decimal(0)
    """The part of it that false stops avoided: nobody wanted it."""
    storage_usd: Usd = Decimal(0)
    """Cost of volumes and snapshots of the other instances meanwhile."""
    actions: int = 0
    false_stops: int = 0
    unpriced: int = 0
    cash_low_usd: Usd = Decimal(0)
    cash_high_usd: Usd = Decimal(0)
    by_morning_usd: Usd = Decimal(0)
    """Nothing for entries of earlier releases: their mornings are not known."""

    @property
    def net_usd(self) -> Usd:
        return self.avoided_usd - self.undone_usd - self.storage_usd


@dataclass(frozen=True, slots=True)
class Statement:
    """The ledger's sum of a month, from the records that were written by `as_of`.

    Savings count for `counts_days` days. It stays the same whenever it is computed again.
    """

    month: str
    as_of: UtcDatetime
    counts_days: int
    net_usd: Usd
    entries: int
