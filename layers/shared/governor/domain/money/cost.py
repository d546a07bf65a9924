"""What projects cost in a month, and what each action has saved, in Decimal USD, and their sums. A sweep
brings a meter forward from where the one before has left it: one that comes twice adds nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import NamedTuple

from governor.domain.alerts.alert import UNASSIGNED
from governor.domain.episode.episode import EpisodeRef, Observation, Outcome
from governor.domain.episode.plan import Price
from governor.domain.fleet.rows import UNMEASURED, Share, part_of
from governor.domain.instance import Instance, Lifecycle, Target
from governor.domain.sweep.verdict import known_kind
from governor.domain.units import Usd, UsdPerHour, UtcDatetime, as_utc

UNTAGGED = "untagged"
"""The project of instances whose tags name none."""

Shares = dict[tuple[str, str], Share]
_ROUNDED_TO = Decimal("1E-9")
"""USD in the shares of a day: less than a cent in a century of sweeps, and short enough to store."""
_PREPAID = (Lifecycle.CAPACITY_BLOCK, Lifecycle.SCHEDULED)


class Rate(NamedTuple):
    """Whom hours are counted for, at what price (`None`: not known), and as which `part` of a `Share`."""

    project: str
    usd_per_hour: UsdPerHour | None
    owner: str = UNASSIGNED
    part: str = UNMEASURED

    @property
    def whose(self) -> tuple[str, str]:
        return self.owner, UNASSIGNED if self.project == UNTAGGED else self.project


class Run(NamedTuple):
    rate: Rate
    start: UtcDatetime
    end: UtcDatetime


@dataclass(frozen=True, slots=True)
class Meter:
    """What the instances of a target have cost in one month (UTC) by project, up to `counted_until`.
    `unpriced_hours` of instances are in no amount; `usd_per_hour` is what ran at `counted_until`."""

    target: Target
    month: str
    counted_until: UtcDatetime
    usd: Mapping[str, Usd] = field(default_factory=dict)
    unpriced_hours: Mapping[str, Decimal] = field(default_factory=dict)
    usd_per_hour: Mapping[str, UsdPerHour] = field(default_factory=dict)


def month_of(at: UtcDatetime) -> str:
    return f"{as_utc(at):%Y-%m}"


def month_start(at: UtcDatetime) -> UtcDatetime:
    return as_utc(at).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def month_end(at: UtcDatetime) -> UtcDatetime:
    return month_start(month_start(at) + timedelta(days=31))


def parse_month(text: str) -> UtcDatetime:
    """When the month `yyyy-mm` began. Raises: ValueError."""
    return datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)


def new_meter(target: Target, at: UtcDatetime) -> Meter:
    return Meter(Target(target.account, target.region), month_of(at), month_start(at))


def marginal(instance: Instance, price: Price) -> Price:
    """Return what one more hour of this instance adds to the bill. Zero for what was paid for in advance or
    by the host; a Capacity Reservation changes nothing."""
    if instance.lifecycle in _PREPAID or instance.host_id is not None:
        return Price(Decimal(0), "its capacity is paid for, used or not")
    return price


def ended(
    before: Mapping[str, Observation],
    launched: Mapping[str, UtcDatetime],
    counted_until: UtcDatetime,
    now: UtcDatetime,
) -> Iterator[Run]:
    """Yield what ran at the last sweep and no longer does, or was started anew (`launched`) since: half way
    to the moment at which it is known to have stopped. What was seen before `counted_until` is counted."""
    for instance_id, seen in before.items():
        start = launched.get(instance_id)
        if start == seen.launch_time or seen.at < counted_until or seen.project is None:
            continue
        unknown_for = max((start or now) - seen.at, timedelta(0))
        part = part_of(known_kind(seen.verdict))
        rate = Rate(seen.project, seen.usd_per_hour, seen.counted_for, part)
        yield Run(rate, seen.launch_time, seen.at + unknown_for / 2)


def count(meter: Meter, runs: Iterable[Run], until: UtcDatetime) -> Meter:
    """The meter brought forward to `until`, or to the end of its month; counting again adds nothing."""
    since = meter.counted_until
    until = min(until, month_end(parse_month(meter.month)))
    if until <= since:
        return meter
    usd, unpriced = dict(meter.usd), dict(meter.unpriced_hours)
    for run in runs:
        start, end = max(run.start, since), min(run.end, until)
        if start >= end:
            continue
        project, price = run.rate.project, run.rate.usd_per_hour
        if price is None:
            unpriced[project] = unpriced.get(project, Decimal(0)) + cost_between(Decimal(1), start, end)
        else:
            usd[project] = usd.get(project, Decimal(0)) + cost_between(price, start, end)
    return replace(meter, counted_until=until, usd=usd, unpriced_hours=unpriced)


def shares_by_day(meter: Meter, runs: Iterable[Run], until: UtcDatetime) -> dict[date, Shares]:
    """Return what `count` adds, by day (UTC), owner, project and part, rounded to a billionth of a USD."""
    since, until = meter.counted_until, min(until, month_end(parse_month(meter.month)))
    together: dict[tuple[tuple[str, str], str, datetime, datetime], UsdPerHour] = defaultdict(Decimal)
    for run in runs:
        rate, start, end = run.rate, max(run.start, since), min(run.end, until)
        if rate.usd_per_hour is not None and start < end:
            together[rate.whose, rate.part, start, end] += rate.usd_per_hour
    days: dict[date, Shares] = defaultdict(dict)
    for (whose, part, start, end), price in together.items():
        for midnight, following in _days_between(start, end):
            usd = cost_between(price, max(start, midnight), min(end, following)).quantize(_ROUNDED_TO)
            shares = days[midnight.date()]
            shares[whose] = shares.get(whose, Share()) + Share(**{part: usd})
    return days


def _days_between(start: UtcDatetime, end: UtcDatetime) -> Iterator[tuple[UtcDatetime, UtcDatetime]]:
    midnight = as_utc(start).replace(hour=0, minute=0, second=0, microsecond=0)
    while midnight < end:
        yield midnight, midnight + timedelta(days=1)
        midnight += timedelta(days=1)


def with_rates(meter: Meter, rates: Iterable[Rate]) -> Meter:
    now: dict[str, Decimal] = defaultdict(Decimal)
    for rate in rates:
        now[rate.project] += rate.usd_per_hour or Decimal(0)
    return replace(meter, usd_per_hour=dict(now))


class ProjectCost(NamedTuple):
    """What one project has cost this month, over all targets. `by_target`: the most expensive first."""

    project: str
    usd: Usd
    unpriced_hours: Decimal
    usd_per_hour: UsdPerHour
    by_target: tuple[tuple[Target, Usd], ...]


def costs_of(meters: Iterable[Meter]) -> tuple[ProjectCost, ...]:
    meters = tuple(meters)
    projects = {name for meter in meters for name in (*meter.usd, *meter.unpriced_hours)}
    return tuple(
        sorted((_cost_of(one, meters) for one in projects), key=lambda cost: (-cost.usd, cost.project))
    )


def _cost_of(project: str, meters: tuple[Meter, ...]) -> ProjectCost:
    zero = Decimal(0)
    places = [(meter.target, meter.usd[project]) for meter in meters if project in meter.usd]
    return ProjectCost(
        project=project,
        usd=sum((usd for _, usd in places), zero),
        unpriced_hours=sum((meter.unpriced_hours.get(project, zero) for meter in meters), zero),
        usd_per_hour=sum((meter.usd_per_hour.get(project, zero) for meter in meters), zero),
        by_target=tuple(sorted(places, key=lambda place: (-place[1], place[0]))),
    )


# what each action really saved: booked when it happened, settled when it ended

# Whole numbers: seconds as a float would carry binary dust into the money.
_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS_PER_HOUR = 3_600_000_000


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One booked action. Open (`ended_at` is `None`) as long as the instance stays away. `saved_usd_per_hour`
    is `None` for unpriced types: unknown is never booked as zero."""

    episode: EpisodeRef
    outcome: Outcome
    instance_type: str
    owner: str
    project: str
    price_source: str
    booked_at: UtcDatetime
    cost_before_usd_per_hour: UsdPerHour | None
    cost_after_usd_per_hour: UsdPerHour | None
    saved_usd_per_hour: UsdPerHour | None
    ended_at: UtcDatetime | None = None
    false_stop: bool = False
    ours: bool = True
    """False where others, or EC2, put the instance away while its owner was asked: not our saving."""
    resource_name: str = ""
    """The instance's; empty where an earlier release booked it."""


def saved_in(entry: LedgerEntry, start: datetime, end: datetime, counts_for: timedelta) -> Usd | None:
    """Return USD saved in this time, while it counts: 0 by a false stop, `None`: the price is unknown."""
    if entry.saved_usd_per_hour is None:
        return None
    if entry.false_stop:
        return Decimal(0)
    over = min(end, entry.ended_at or end, entry.booked_at + counts_for)
    return cost_between(entry.saved_usd_per_hour, max(start, entry.booked_at), over)


def cost_between(usd_per_hour: UsdPerHour, start: datetime, end: datetime) -> Usd:
    """The amount for the time from `start` to `end`; zero when that is no time at all."""
    passed = max(timedelta(0), end - start)
    return usd_per_hour * (passed // _MICROSECOND) / _MICROSECONDS_PER_HOUR


def is_false_stop(entry: LedgerEntry, restarted_at: datetime, within: timedelta) -> bool:
    return entry.outcome is Outcome.STOPPED and restarted_at - entry.booked_at <= within


def ended_by(entries: Sequence[LedgerEntry], at: UtcDatetime) -> list[LedgerEntry]:
    """The stops among them that were booked by then: what happens to the instance then ends their savings."""
    return [one for one in entries if one.booked_at <= at and one.outcome is Outcome.STOPPED]


DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Saved:
    """A net saving: what was avoided, less what was undone, less storage; no `unpriced` actions."""

    avoided_usd: Usd = Decimal(0)
    """What the instances would have cost, had they run on."""
    undone_usd: Usd = Decimal(0)
    """That part of it which false stops avoided: nobody wanted it."""
    storage_usd: Usd = Decimal(0)
    """What volumes and snapshots of the other instances cost meanwhile."""
    actions: int = 0
    false_stops: int = 0
    unpriced: int = 0

    @property
    def net_usd(self) -> Usd:
        return self.avoided_usd - self.undone_usd - self.storage_usd


def months(first: datetime, last: datetime) -> list[str]:
    """The months from one moment to another, as `yyyy-mm`."""
    found, at = [], month_start(first)
    while at <= last:
        found.append(month_of(at))
        at = month_end(at)
    return found


def sum_saved(
    entries: Iterable[LedgerEntry], start: UtcDatetime, end: UtcDatetime, counts_for: timedelta
) -> Saved:
    avoided = undone = storage = Decimal(0)
    actions = false_stops = unpriced = 0
    for entry in entries:
        if not entry.ours:
            continue
        actions += start <= entry.booked_at < end
        false_stops += entry.false_stop and entry.ended_at is not None and start <= entry.ended_at < end
        before = entry.cost_before_usd_per_hour
        saved = saved_in(entry, start, end, counts_for)
        if before is None or saved is None:
            unpriced += start <= entry.booked_at < end
            continue
        over = min(end, entry.ended_at or end, entry.booked_at + counts_for)
        whole = cost_between(before, max(start, entry.booked_at), over)
        avoided += whole
        if entry.false_stop:
            undone += whole
        else:
            storage += whole - saved
    return Saved(avoided, undone, storage, actions, false_stops, unpriced)


def net_by_day(
    entries: Iterable[LedgerEntry], days: Sequence[date], now: UtcDatetime, counts_for: timedelta
) -> list[Usd]:
    """The net saving of each of these days (UTC, one after another), up to now."""
    found = [Decimal(0)] * len(days)
    first = datetime.combine(days[0], time(), tzinfo=UTC)
    for entry in entries:
        if not entry.ours or entry.saved_usd_per_hour is None:
            continue
        start = max(first, entry.booked_at)
        end = min(now, entry.ended_at or now, entry.booked_at + counts_for, first + DAY * len(days))
        for number in range(max(0, (start - first) // DAY), min(len(days), (end - first) // DAY + 1)):
            begin = first + DAY * number
            found[number] += saved_in(entry, begin, min(now, begin + DAY), counts_for) or Decimal(0)
    return found
