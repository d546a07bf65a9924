"""Savings of each action, in Decimal USD: booked when its question ended, settled when it saves no
more. It is said three ways: at list prices; in cash, the least and the most that the bill can have
fallen by; and conservatively, as if people had done the same on their next working morning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple

from governor.domain.episode.episode import Episode, EpisodeRef, Outcome
from governor.domain.episode.plan import Price
from governor.domain.instance import Instance, Lifecycle
from governor.domain.money.cost import DAY, PREPAID, cost_between, month_end, parse_month
from governor.domain.policy.schedule import next_morning
from governor.domain.units import Usd, UsdPerHour, UtcDatetime

_ACTED = (Outcome.STOPPED, Outcome.TERMINATED)
ENDED_WITHOUT_ACTION = (
    Outcome.KEPT,
    Outcome.EXEMPTED,
    Outcome.EXPIRED,
    Outcome.OBSERVED,
    Outcome.TOLD,
)
"""Idle cost was found, and people, or the mode, let it go on."""
_LEAST_BILLED = timedelta(seconds=60)
_BY_THE_HOUR = "SUSE Linux"
"""Its every begun hour is billed. Source: AWS knowledge center, How am I charged for my EC2
instances."""
PROVISIONAL = timedelta(days=14)
"""Bills change until about the middle of the next month."""


_OF_ITS_END = ("ended_at", "false_stop", "ended", "settled_at", "replaced_by")
_OF_A_BILL = ("cash_low_usd_per_hour", "cash_high_usd_per_hour", "cash_source", "corrected_at")


class Ending(StrEnum):
    """Why an action no longer saves, where that is before the policy's last day of it."""

    STARTED = "started again"
    UNDONE = "undone"
    """Started so soon that the stop was wrong: it has saved nothing."""
    REPLACED = "replaced"
    """The same owner and project started the same type in the same account."""
    TERMINATED = "terminated by others"


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """How one question ended, at list prices. Open (`ended_at` is `None`) as long as the instance
    stays away. `saved_usd_per_hour` is `None` for unpriced types: unknown is never booked as
    zero."""

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
    """False where nothing was done, or others, or EC2, put the instance away: not our saving."""
    resource_name: str = ""
    """The instance's; empty where an earlier release booked it."""
    cash_low_usd_per_hour: UsdPerHour | None = None
    """The least that an hour of it takes off the bill; `None` in entries of earlier releases: not
    known."""
    cash_high_usd_per_hour: UsdPerHour | None = None
    storage_usd_per_hour: UsdPerHour | None = None
    """Added cost of its volumes and snapshots afterwards; `None` in entries of earlier releases."""
    saves_from: UtcDatetime | None = None
    """From when the bill is lower: the end of what the last start costs at least."""
    morning: UtcDatetime | None = None
    """Begin of the owner's next working day; `None` in entries of earlier releases."""
    idle_usd: Usd | None = None
    """Its cost while idle until it was booked; `None`: not known."""
    recorded_at: UtcDatetime | None = None
    """Time of writing; `booked_at` where an earlier release wrote it."""
    ended: Ending | None = None
    """`None` while it is open, and in entries of earlier releases."""
    settled_at: UtcDatetime | None = None
    """Time of writing its end."""
    replaced_by: str = ""
    """The id of the instance that was started in its place."""
    cash_source: str = ""
    """The bill that its cash is by; empty: estimated."""
    corrected_at: UtcDatetime | None = None
    """Time of writing the bill's figures."""

    @property
    def end(self) -> dict[str, Any]:
        """Its fields that its end sets."""
        return {name: getattr(self, name) for name in _OF_ITS_END}

    @property
    def correction(self) -> dict[str, Any]:
        """Its fields that a bill sets."""
        return {name: getattr(self, name) for name in _OF_A_BILL}

    @property
    def acted(self) -> bool:
        return self.ours and self.outcome in _ACTED

    @property
    def is_away(self) -> bool:
        """Return whether it may be stopped still: we stopped it, and it was not started since."""
        return self.outcome is Outcome.STOPPED and (self.ours or self.ended is Ending.REPLACED)

    @property
    def is_of_storage(self) -> bool:
        """Return whether the instance was stopped before, so that this saves what its volumes cost
        alone."""
        saved, storage = self.saved_usd_per_hour, self.storage_usd_per_hour or Decimal(0)
        return self.outcome is Outcome.TERMINATED and saved == -storage

    def counted(
        self, start: datetime, end: datetime, counts_for: timedelta
    ) -> tuple[datetime, datetime]:
        """Return from when to when it saves within this time: nothing where the second is not
        later."""
        over = min(end, self.ended_at or end, self.booked_at + counts_for)
        return max(start, self.saves_from or self.booked_at), over


class Cash(NamedTuple):
    """Effect of an hour less of an instance on the bill, at least and at most."""

    low: UsdPerHour
    high: UsdPerHour


def cash_of(instance: Instance, price: Price, *, is_committed: bool) -> Cash | None:
    """Return nothing where the price is not known. `is_committed`: a Savings Plan or a Reserved
    Instance may pay for it, which is then charged all the same; whether it does rests on the whole
    organization's hour."""
    if price.usd_per_hour is None:
        return None
    if instance.lifecycle in PREPAID or instance.host_id or instance.capacity_reservation_id:
        return Cash(Decimal(0), Decimal(0))
    if instance.lifecycle is Lifecycle.SPOT or not is_committed:
        return Cash(price.usd_per_hour, price.usd_per_hour)
    return Cash(Decimal(0), price.usd_per_hour)


def billed_until(instance: Instance, stopped_at: UtcDatetime) -> UtcDatetime:
    """Return until when the run that ended then is billed."""
    least = instance.launch_time + _LEAST_BILLED
    if instance.platform.startswith(_BY_THE_HOUR):
        hours = -((instance.launch_time - stopped_at) // timedelta(hours=1))
        least = instance.launch_time + timedelta(hours=max(1, hours))
    return max(stopped_at, least)


def working_morning(episode: Episode, after: UtcDatetime) -> UtcDatetime:
    """Return when the next working day of those who were asked begins: perhaps later the same
    day."""
    theirs = episode.time_zone, episode.working_days, episode.working_from
    today = next_morning(after - DAY, *theirs)
    return today if today > after else next_morning(after, *theirs)


def is_provisional(month: str, now: UtcDatetime) -> bool:
    """Return whether the bill of this month may still change: until the 15th of the next one."""
    return now < month_end(parse_month(month)) + PROVISIONAL


def saved_in(
    entry: LedgerEntry, start: datetime, end: datetime, counts_for: timedelta
) -> Usd | None:
    """Return USD saved in this time, while it counts: 0 by a false stop, `None`: the price is
    unknown."""
    if entry.saved_usd_per_hour is None:
        return None
    if entry.false_stop:
        return Decimal(0)
    return cost_between(entry.saved_usd_per_hour, *entry.counted(start, end, counts_for))


def is_false_stop(entry: LedgerEntry, restarted_at: datetime, within: timedelta) -> bool:
    return entry.outcome is Outcome.STOPPED and restarted_at - entry.booked_at <= within


def ended_by(entries: Sequence[LedgerEntry], at: UtcDatetime) -> list[LedgerEntry]:
    """The stops among them that were booked by then: what happens to the instance then ends their
    savings."""
    return [one for one in entries if one.booked_at <= at and one.outcome is Outcome.STOPPED]


@dataclass(frozen=True, slots=True)
class Saved:
    """A net saving at list prices: what was avoided, less what was undone, less storage; no
    `unpriced` actions. Beside it what it can have been in cash, and what had been saved by the
    owners' next mornings."""

    avoided_usd: Usd = Decimal(0)
    """Cost of the instances, had they run on."""
    undone_usd: Usd = Decimal(0)
    """That part of it which false stops avoided: nobody wanted it."""
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
    """The ledger's sum of a month at `as_of`, of what was written by then, while savings counted
    for so many days: the same whenever it is computed again."""

    month: str
    as_of: UtcDatetime
    counts_days: int
    net_usd: Usd
    entries: int


def stated(
    entries: Iterable[LedgerEntry], month: str, as_of: UtcDatetime, counts_for: timedelta
) -> Statement:
    start = parse_month(month)
    known = [
        _known_at(one, as_of)
        for one in entries
        if one.booked_at >= start - counts_for and (one.recorded_at or one.booked_at) <= as_of
    ]
    net = sum_saved(known, start, min(as_of, month_end(start)), counts_for).net_usd
    return Statement(month, as_of, counts_for // DAY, net, len(known))


def _known_at(entry: LedgerEntry, at: UtcDatetime) -> LedgerEntry:
    written = entry.settled_at or entry.ended_at
    if written is None or written <= at:
        return entry
    return replace(entry, ended_at=None, false_stop=False, ended=None)


def sum_saved(
    entries: Iterable[LedgerEntry], start: UtcDatetime, end: UtcDatetime, counts_for: timedelta
) -> Saved:
    avoided = undone = storage = low = high = by_morning = Decimal(0)
    actions = false_stops = unpriced = 0
    for entry in entries:
        if not entry.ours:
            continue
        actions += start <= entry.booked_at < end
        false_stops += (
            entry.false_stop and entry.ended_at is not None and start <= entry.ended_at < end
        )
        before, saved = entry.cost_before_usd_per_hour, entry.saved_usd_per_hour
        if before is None or saved is None:
            unpriced += start <= entry.booked_at < end
            continue
        first, over = entry.counted(start, end, counts_for)
        avoided += (whole := cost_between(before, first, over))
        if entry.false_stop:
            undone += whole
            continue
        storage += whole - cost_between(saved, first, over)
        least, most = entry.cash_low_usd_per_hour, entry.cash_high_usd_per_hour
        low += cost_between(Decimal(0) if least is None else least, first, over)
        high += cost_between(saved if most is None else most, first, over)
        by_morning += cost_between(saved, first, min(over, entry.morning or first))
    return Saved(avoided, undone, storage, actions, false_stops, unpriced, low, high, by_morning)


def net_by_day(
    entries: Iterable[LedgerEntry], days: Sequence[date], now: UtcDatetime, counts_for: timedelta
) -> list[Usd]:
    """The net saving of each of these days (UTC, one after another), up to now."""
    found = [Decimal(0)] * len(days)
    first = datetime.combine(days[0], time(), tzinfo=UTC)
    for entry in entries:
        if not entry.ours or entry.saved_usd_per_hour is None:
            continue
        start, end = entry.counted(first, min(now, first + DAY * len(days)), counts_for)
        for number in range(
            max(0, (start - first) // DAY), min(len(days), (end - first) // DAY + 1)
        ):
            begin = first + DAY * number
            found[number] += saved_in(entry, begin, min(now, begin + DAY), counts_for) or Decimal(0)
    return found
