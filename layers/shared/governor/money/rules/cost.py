"""Costs of projects in a month (UTC), in Decimal USD, and what one more hour of an instance costs,
which is nothing if its capacity is prepaid.

A sweep continues each meter where the previous sweep left it, so a sweep that runs twice adds
nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from governor.alerts.model import UNASSIGNED
from governor.core.instance import Instance, Lifecycle, Target
from governor.core.units import Usd, UsdPerHour, UtcDatetime, as_utc
from governor.episode.model.episode import Observation
from governor.episode.model.plan import Price
from governor.fleet.model import UNMEASURED, JobKey, Payer, Share, part_of
from governor.money.model.ledger import PREPAID_SOURCE
from governor.verdict.model import known_kind

UNTAGGED = "untagged"
"""The project of instances whose tags name no project."""

Shares = dict[JobKey, Share]
"""Shares of a day's cost, by owner, project and job."""
_ROUNDED_TO_USD = Decimal("1E-9")
"""Precision of the USD in a day's shares: the error stays under a cent in a century of sweeps, and
the numbers are short enough to store."""
PREPAID = (Lifecycle.CAPACITY_BLOCK, Lifecycle.SCHEDULED)
"""Capacity that is paid in advance."""


class Rate(NamedTuple):
    """The project and owner for which hours are counted, and their price."""

    project: str
    usd_per_hour: UsdPerHour | None
    """`None` if it is not known."""
    owner: str = UNASSIGNED
    part: str = UNMEASURED
    """The part of a `Share` to which the cost belongs."""
    job: str | None = None
    """`None` if no job is named."""

    @property
    def whose(self) -> Payer:
        """Return owner and project as `DayCosts.shares` counts them."""
        return self.key.payer

    @property
    def key(self) -> JobKey:
        """Return owner, project and job as `DayCosts` counts them."""
        project = UNASSIGNED if self.project == UNTAGGED else self.project
        return JobKey(self.owner, project, self.job)


class Run(NamedTuple):
    """A time in which an instance ran at one rate."""

    rate: Rate
    start: UtcDatetime
    end: UtcDatetime


@dataclass(frozen=True, slots=True)
class Meter:
    """Cost of a target's instances in one month (UTC) by project, up to `counted_until`."""

    target: Target
    month: str
    counted_until: UtcDatetime
    usd: Mapping[str, Usd] = field(default_factory=dict)
    unpriced_hours: Mapping[str, Decimal] = field(default_factory=dict)
    """Hours of instances without a known price. No amount includes them."""
    usd_per_hour: Mapping[str, UsdPerHour] = field(default_factory=dict)
    """The rate of the instances that ran at `counted_until`."""


def month_of(at: UtcDatetime) -> str:
    """Return the month (UTC) of this time as `yyyy-mm`."""
    return f"{as_utc(at):%Y-%m}"


def month_start(at: UtcDatetime) -> UtcDatetime:
    """Return the first moment of the month (UTC) of this time."""
    return as_utc(at).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def month_end(at: UtcDatetime) -> UtcDatetime:
    """Return the end of the month (UTC) of this time: the first moment of the next month."""
    return month_start(month_start(at) + timedelta(days=31))


def parse_month(text: str) -> UtcDatetime:
    """Return the first moment of a month given as `yyyy-mm`. Raises: ValueError for other texts."""
    return datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)


def new_meter(target: Target, at: UtcDatetime) -> Meter:
    """Return a meter of a target for the month of `at`, which has counted nothing yet: it is
    counted up to the start of the month."""
    return Meter(Target(target.account, target.region), month_of(at), month_start(at))


def marginal_price(instance: Instance, price: Price) -> Price:
    """Return the price that one more hour of this instance adds to the bill; `price` is its price
    if it runs and nothing is paid in advance.

    The result is zero for a stopped instance, and for capacity that is paid in advance, such as a
    Capacity Block, or by the host. Otherwise it is `price`, also in a Capacity Reservation. Savings
    Plans and Reserved Instances count only for the ledger (`cash_of`).
    """
    if instance.state == "stopped":
        return Price(Decimal(0), "it is stopped", storage=price.storage, may_be_committed=False)
    if instance.lifecycle in PREPAID or instance.host_id is not None:
        return Price(Decimal(0), PREPAID_SOURCE)
    return price


def ended_runs(
    before: Mapping[str, Observation],
    launched: Mapping[str, UtcDatetime],
    counted_until: UtcDatetime,
    now: UtcDatetime,
) -> Iterator[Run]:
    """Yield the runs of instances that ended since the last sweep; nothing if none did.

    `before` are the observations of the last sweep, and `launched` the starts of the instances that
    run now, both by instance id: a run has ended if its start is not in `launched`. It is taken to
    have ended half way between the last sweep and the next start, or `now`. Observations older than
    `counted_until`, and those that no project is counted for, are left out.
    """
    for instance_id, observation in before.items():
        start = launched.get(instance_id)
        still_runs = start == observation.launch_time
        if still_runs or observation.at < counted_until:
            continue
        if observation.project is None:
            continue
        next_seen_at = start or now
        unknown_for = max(next_seen_at - observation.at, timedelta(0))
        rate = Rate(
            project=observation.project,
            usd_per_hour=observation.usd_per_hour,
            owner=observation.counted_for,
            part=part_of(known_kind(observation.verdict)),
            job=observation.job,
        )
        yield Run(rate, observation.launch_time, observation.at + unknown_for / 2)


def counted_up_to(meter: Meter, runs: Iterable[Run], until: UtcDatetime) -> Meter:
    """Return the meter with the cost of these runs added, up to `until` or the end of its month.

    Only the time after the meter's `counted_until` is added, so counting again adds nothing: then
    the same meter comes back. Hours of runs without a price are counted apart.
    """
    since = meter.counted_until
    until = min(until, month_end(parse_month(meter.month)))
    if until <= since:
        return meter
    usd = dict(meter.usd)
    unpriced_hours = dict(meter.unpriced_hours)
    for run in runs:
        start = max(run.start, since)
        end = min(run.end, until)
        if start >= end:
            continue
        project = run.rate.project
        price = run.rate.usd_per_hour
        if price is None:
            hours = cost_between(Decimal(1), start, end)
            unpriced_hours[project] = unpriced_hours.get(project, Decimal(0)) + hours
        else:
            usd[project] = usd.get(project, Decimal(0)) + cost_between(price, start, end)
    return replace(meter, counted_until=until, usd=usd, unpriced_hours=unpriced_hours)


def shares_by_day(meter: Meter, runs: Iterable[Run], until: UtcDatetime) -> dict[date, Shares]:
    """Return the cost that `counted_up_to` adds to the meter, for the same arguments, by the day
    (UTC) and then by owner, project and job, rounded to a billionth of a USD.

    Runs without a price are left out. Empty if nothing is added.
    """
    since = meter.counted_until
    until = min(until, month_end(parse_month(meter.month)))
    # Many instances share job, part and times: their rates are added before days are computed.
    rates: dict[tuple[JobKey, str, datetime, datetime], UsdPerHour]
    rates = defaultdict(Decimal)
    for run in runs:
        rate = run.rate
        start = max(run.start, since)
        end = min(run.end, until)
        if rate.usd_per_hour is not None and start < end:
            rates[rate.key, rate.part, start, end] += rate.usd_per_hour
    days: dict[date, Shares] = defaultdict(dict)
    for (key, part, start, end), usd_per_hour in rates.items():
        for midnight, next_midnight in _days_between(start, end):
            usd = cost_between(usd_per_hour, max(start, midnight), min(end, next_midnight))
            share = Share(**{part: usd.quantize(_ROUNDED_TO_USD)})
            shares = days[midnight.date()]
            shares[key] = shares.get(key, Share()) + share
    return days


def _days_between(
    start: UtcDatetime, end: UtcDatetime
) -> Iterator[tuple[UtcDatetime, UtcDatetime]]:
    """Yield each day (UTC) between `start` and `end`: the midnight at which it begins, and the one
    at which it ends. Nothing if `end` is not after the first of these midnights."""
    midnight = as_utc(start).replace(hour=0, minute=0, second=0, microsecond=0)
    while midnight < end:
        yield midnight, midnight + timedelta(days=1)
        midnight += timedelta(days=1)


def with_rates(meter: Meter, rates: Iterable[Rate]) -> Meter:
    """Return the meter with the sum of these rates as its `usd_per_hour`, by project. A rate
    without a price adds nothing."""
    usd_per_hour: dict[str, Decimal] = defaultdict(Decimal)
    for rate in rates:
        usd_per_hour[rate.project] += rate.usd_per_hour or Decimal(0)
    return replace(meter, usd_per_hour=dict(usd_per_hour))


class ProjectCost(NamedTuple):
    """Cost of one project this month, over all targets. `by_target` lists the most expensive target
    first."""

    project: str
    usd: Usd
    unpriced_hours: Decimal
    usd_per_hour: UsdPerHour
    by_target: tuple[tuple[Target, Usd], ...]


def costs_of(meters: Iterable[Meter]) -> tuple[ProjectCost, ...]:
    """Return the cost of each project, over the meters of all targets for one month, the most
    expensive first; empty if nothing was counted."""
    meters = tuple(meters)
    projects: set[str] = set()
    for meter in meters:
        projects.update(meter.usd)
        projects.update(meter.unpriced_hours)
    costs = [_cost_of(project, meters) for project in projects]
    costs.sort(key=lambda cost: (-cost.usd, cost.project))
    return tuple(costs)


def _cost_of(project: str, meters: tuple[Meter, ...]) -> ProjectCost:
    """Return the cost of one project, summed up over the meters of all targets; zero if no meter
    has it."""
    usd = Decimal(0)
    unpriced_hours = Decimal(0)
    usd_per_hour = Decimal(0)
    by_target: list[tuple[Target, Usd]] = []
    for meter in meters:
        unpriced_hours += meter.unpriced_hours.get(project, Decimal(0))
        usd_per_hour += meter.usd_per_hour.get(project, Decimal(0))
        if project in meter.usd:
            usd += meter.usd[project]
            by_target.append((meter.target, meter.usd[project]))
    by_target.sort(key=lambda target_and_usd: (-target_and_usd[1], target_and_usd[0]))
    return ProjectCost(project, usd, unpriced_hours, usd_per_hour, tuple(by_target))


DAY = timedelta(days=1)
# Whole numbers: seconds as a float would bring rounding errors into the money.
_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS_PER_HOUR = 3_600_000_000


def cost_between(usd_per_hour: UsdPerHour, start: datetime, end: datetime) -> Usd:
    """Return the cost in USD of the time from `start` to `end` at this rate; zero if `end` is not
    later."""
    passed = max(timedelta(0), end - start)
    return usd_per_hour * (passed // _MICROSECOND) / _MICROSECONDS_PER_HOUR


def months(first: datetime, last: datetime) -> list[str]:
    """Return the months from that of `first` to that of `last`, as `yyyy-mm`, oldest first; empty
    if `last` lies before the month of `first`."""
    names = []
    month = month_start(first)
    while month <= last:
        names.append(month_of(month))
        month = month_end(month)
    return names
