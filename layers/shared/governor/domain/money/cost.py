"""Costs of projects in a month (UTC), in Decimal USD. A sweep brings a meter forward from where the
one before has left it: one that comes twice adds nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from governor.domain.alerts.alert import UNASSIGNED
from governor.domain.episode.episode import Observation
from governor.domain.episode.plan import Price
from governor.domain.fleet.rows import UNMEASURED, Share, part_of
from governor.domain.instance import Instance, Lifecycle, Target
from governor.domain.sweep.verdict import known_kind
from governor.domain.units import Usd, UsdPerHour, UtcDatetime, as_utc

UNTAGGED = "untagged"
"""The project of instances whose tags name none."""

Shares = dict[tuple[str, str], Share]
_ROUNDED_TO = Decimal("1E-9")
"""USD in the shares of a day: less than a cent in a century of sweeps, and short enough to
store."""
PREPAID = (Lifecycle.CAPACITY_BLOCK, Lifecycle.SCHEDULED)


class Rate(NamedTuple):
    """Whom hours are counted for, at what price (`None`: not known), and as which `part` of a
    `Share`."""

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
    """Cost of a target's instances in one month (UTC) by project, up to `counted_until`.
    `unpriced_hours` of instances are in no amount; `usd_per_hour` is what ran at
    `counted_until`."""

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
    """Return when the month `yyyy-mm` began. Raises: ValueError."""
    return datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)


def new_meter(target: Target, at: UtcDatetime) -> Meter:
    return Meter(Target(target.account, target.region), month_of(at), month_start(at))


def marginal(instance: Instance, price: Price) -> Price:
    """Return what one more hour of this instance adds to the bill. Zero for what is stopped, and
    for what was paid for in advance or by the host; a Capacity Reservation changes nothing."""
    if instance.state == "stopped":
        return Price(Decimal(0), "it is stopped", storage=price.storage, may_be_committed=False)
    if instance.lifecycle in PREPAID or instance.host_id is not None:
        return Price(Decimal(0), "its capacity is paid for, used or not")
    return price


def ended(
    before: Mapping[str, Observation],
    launched: Mapping[str, UtcDatetime],
    counted_until: UtcDatetime,
    now: UtcDatetime,
) -> Iterator[Run]:
    """Yield what ran at the last sweep and no longer does, or was started anew (`launched`) since:
    half way to the moment at which it is known to have stopped. What was seen before
    `counted_until` is counted."""
    for instance_id, seen in before.items():
        start = launched.get(instance_id)
        if start == seen.launch_time or seen.at < counted_until or seen.project is None:
            continue
        unknown_for = max((start or now) - seen.at, timedelta(0))
        part = part_of(known_kind(seen.verdict))
        rate = Rate(seen.project, seen.usd_per_hour, seen.counted_for, part)
        yield Run(rate, seen.launch_time, seen.at + unknown_for / 2)


def count(meter: Meter, runs: Iterable[Run], until: UtcDatetime) -> Meter:
    """The meter brought forward to `until`, or to the end of its month; counting again adds
    nothing."""
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
            unpriced[project] = unpriced.get(project, Decimal(0)) + cost_between(
                Decimal(1), start, end
            )
        else:
            usd[project] = usd.get(project, Decimal(0)) + cost_between(price, start, end)
    return replace(meter, counted_until=until, usd=usd, unpriced_hours=unpriced)


def shares_by_day(meter: Meter, runs: Iterable[Run], until: UtcDatetime) -> dict[date, Shares]:
    """Return what `count` adds, by day (UTC), owner, project and part, rounded to a billionth of a
    USD."""
    since, until = meter.counted_until, min(until, month_end(parse_month(meter.month)))
    together: dict[tuple[tuple[str, str], str, datetime, datetime], UsdPerHour] = defaultdict(
        Decimal
    )
    for run in runs:
        rate, start, end = run.rate, max(run.start, since), min(run.end, until)
        if rate.usd_per_hour is not None and start < end:
            together[rate.whose, rate.part, start, end] += rate.usd_per_hour
    days: dict[date, Shares] = defaultdict(dict)
    for (whose, part, start, end), price in together.items():
        for midnight, following in _days_between(start, end):
            usd = cost_between(price, max(start, midnight), min(end, following)).quantize(
                _ROUNDED_TO
            )
            shares = days[midnight.date()]
            shares[whose] = shares.get(whose, Share()) + Share(**{part: usd})
    return days


def _days_between(
    start: UtcDatetime, end: UtcDatetime
) -> Iterator[tuple[UtcDatetime, UtcDatetime]]:
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
    """Cost of one project this month, over all targets. `by_target`: the most expensive first."""

    project: str
    usd: Usd
    unpriced_hours: Decimal
    usd_per_hour: UsdPerHour
    by_target: tuple[tuple[Target, Usd], ...]


def costs_of(meters: Iterable[Meter]) -> tuple[ProjectCost, ...]:
    meters = tuple(meters)
    projects = {name for meter in meters for name in (*meter.usd, *meter.unpriced_hours)}
    return tuple(
        sorted(
            (_cost_of(one, meters) for one in projects), key=lambda cost: (-cost.usd, cost.project)
        )
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


DAY = timedelta(days=1)
# Whole numbers: seconds as a float would carry binary dust into the money.
_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS_PER_HOUR = 3_600_000_000


def cost_between(usd_per_hour: UsdPerHour, start: datetime, end: datetime) -> Usd:
    """The amount for the time from `start` to `end`; zero when that is no time at all."""
    passed = max(timedelta(0), end - start)
    return usd_per_hour * (passed // _MICROSECOND) / _MICROSECONDS_PER_HOUR


def months(first: datetime, last: datetime) -> list[str]:
    """The months from one moment to another, as `yyyy-mm`."""
    found, at = [], month_start(first)
    while at <= last:
        found.append(month_of(at))
        at = month_end(at)
    return found
