"""Advice about capacity that is held whether it works or not: groups of other services with a
minimum size, and reservations. Pure, as `simulation.patterns`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from math import ceil
from shlex import join
from statistics import fmean

from governor.domain.evidence import Window
from governor.domain.instance import AUTO_SCALING_TAG, Reservation
from governor.domain.money.cost import DAY
from governor.domain.policy.policy import Advice as Rule
from governor.domain.sweep.managed import BatchEnvironment, Home, Kind, advice_for
from governor.domain.units import HOURS_PER_MONTH, Usd, UsdPerHour, money, plural
from simulation.past import TEN_MINUTES, Past
from simulation.patterns import Advice, advice_of, is_known, worthwhile


@dataclass(frozen=True, slots=True)
class Group:
    """An environment that another service runs, with its members that run now. `minimum` is the
    size that it keeps whether it is used or not, in instances; `None` where it was not read."""

    home: Home
    members: tuple[Past, ...]
    minimum: int | None = None
    batch: BatchEnvironment | None = None


def of_group(group: Group) -> list[Advice]:
    """Return what a group could do without. Only where all its members were measured for long
    enough."""
    if not all(map(is_known, group.members)):
        return []
    return worthwhile(group.members[0].policy.advice, (scale_in(group), minimum_size(group)))


def scale_in(group: Group) -> Advice | None:
    """Fewer instances whenever the mean of all GPUs was low for ten minutes. At most that is spare:
    starting one again takes some of them."""
    rule, size = group.members[0].policy.advice, len(group.members)
    together = sorted(set.intersection(*(one.measured_tens for one in group.members)))
    means = [fmean(one.mean_at(ten) for one in group.members) for ten in together]
    quiet = [mean for mean in means if mean < rule.scale_in_below_percent]
    spare = sum(size - ceil(size * mean / rule.target_percent) for mean in quiet)
    if not spare:
        return None
    minimum = "unknown" if group.minimum is None else str(group.minimum)
    text = (
        f"The GPUs of {group.home.title} are under {rule.scale_in_below_percent:g}% on "
        "average, for 10 "
        f"minutes or longer, in {100 * len(quiet) // len(together)}% of the time: scale "
        "in then, for at most "
        f"this saving. Its minimum size is {minimum}; now it has {plural(size, 'instance')}"
    )
    hours = Decimal(spare) * (TEN_MINUTES // timedelta(minutes=1)) / 60
    return _of_group(group, "scale-in", hours, text)


def minimum_size(group: Group) -> Advice | None:
    """A minimum that holds instances none of whose GPUs works."""
    minimum, worked = group.minimum, [set(one.worked) for one in group.members]
    if not minimum:
        return None
    held = sum(
        min(minimum, sum(hour not in hours for hours in worked)) for hour in _together(group)
    )
    if not held:
        return None
    advised = " ".join(advice_for(group.home, group.batch))
    text = f"The minimum size of {group.home.title} is {minimum}, and holds idle GPUs. {advised}"
    return _of_group(group, "minimum-size", held, text.removesuffix("."), _command(group))


def _command(group: Group) -> str:
    """The command that lowers the minimum to 0; names come from tags, which anybody may have
    written."""
    first, home = group.members[0].instance, group.home
    named = ("--region", first.target.region)
    if home.kind is Kind.BATCH:
        changed = ("--compute-environment", home.name, "--compute-resources", "minvCpus=0")
        return join(("aws", "batch", "update-compute-environment", *named, *changed))
    if home.kind is Kind.NODE_GROUP:
        pool = ("--cluster-name", home.cluster, "--nodegroup-name", home.name)
        return join(
            (
                "aws",
                "eks",
                "update-nodegroup-config",
                *named,
                *pool,
                "--scaling-config",
                "minSize=0",
            )
        )
    if (of_group := first.tags.get(AUTO_SCALING_TAG)) is None:
        return ""
    changed = ("--auto-scaling-group-name", of_group, "--min-size", "0")
    return join(("aws", "autoscaling", "update-auto-scaling-group", *named, *changed))


@dataclass(frozen=True, slots=True)
class Reserved:
    """A reservation with its past. `used_at_most`: the most instances that ran in it in `weeks` of
    measured hours; `None` where CloudWatch has no readings of it."""

    now: Reservation
    usd_per_hour: UsdPerHour | None
    used_at_most: int | None = None
    weeks: int = 0
    percent_measured: int = 0


def reservation(reserved: Reserved) -> Advice | None:
    """Capacity that is paid for and stands empty, now and as long as was measured. The governor
    never cancels it: EC2 may not have it again."""
    one, most = reserved.now, reserved.used_at_most
    unused = one.available if most is None else min(one.available, one.total - most)
    if unused <= 0:
        return None
    hourly = None if reserved.usd_per_hour is None else reserved.usd_per_hour * unused
    measured = (
        "for how long is not measured"
        if most is None
        else f"at most {most} were used in {plural(reserved.weeks, 'week')}"
    )
    cost = (
        "its price is not known" if hourly is None else f"{money(hourly)} USD an hour at list price"
    )
    advised = (
        "it is paid in advance and cannot be canceled: use it, or share it, before it ends"
        if one.is_block
        else "reduce it or cancel it, if nobody needs the guarantee"
    )
    empty = f"{unused} of {one.total} stand empty, {measured}: {cost}"
    left = one.total - unused
    verb = "modify" if left else "cancel"
    command: tuple[str, ...] = (
        "aws",
        "ec2",
        f"{verb}-capacity-reservation",
        "--region",
        one.target.region,
    )
    command = (*command, "--capacity-reservation-id", one.reservation_id)
    command = (*command, "--instance-count", str(left)) if left else command
    return Advice(
        kind="empty-block" if one.is_block else "empty-reservation",
        subject=one.reservation_id,
        account=one.target.account,
        region=one.target.region,
        instance_type=one.instance_type,
        usd_per_month=None if hourly is None else hourly * HOURS_PER_MONTH,
        weeks=reserved.weeks,
        percent_measured=reserved.percent_measured,
        text=f"{empty}. Held by {one.holder}, {one.ends}; {advised}.",
        command="" if one.is_block else join(command),
        owner=one.holder,
    )


def _of_group(
    group: Group, kind: str, spare: Decimal | int, text: str, command: str = ""
) -> Advice:
    """`spare`: hours of instances in the hours that were measured together."""
    home, together = group.home, _together(group)
    prices = [one.price.usd_per_hour for one in group.members]
    known = [one for one in prices if one is not None]
    saved: Usd | None = None
    if len(known) == len(prices):
        mean = sum(known, Decimal(0)) / len(known)
        saved = mean * HOURS_PER_MONTH * spare / (group.members[0].hours.bins - together[0])
    first = advice_of(group.members[0], kind, saved, text, command)
    subject = "/".join(one for one in (first.account, first.region, home.cluster, home.name) if one)
    weeks = min(one.weeks for one in group.members)
    percent = min(one.measured_percent for one in group.members)
    return replace(first, subject=subject, name=home.title, weeks=weeks, percent_measured=percent)


def _together(group: Group) -> list[int]:
    """The hours in which all members were measured."""
    return sorted(set.intersection(*(set(one.measured) for one in group.members)))


def savings_plan(
    account: str, days: Sequence[Usd], hours: Window, discount: Decimal | None, rule: Rule
) -> Advice | None:
    """A commitment of what even the quiet days spend On-Demand, after the commitments that there
    are. By the day: the floor of an hour may be lower. `discount`: 0 to 1; `None`: not known."""
    wanted = (hours.end - hours.start) // DAY
    weeks = len(days) // 7
    if weeks < rule.minimum_weeks or 100 * len(days) < rule.minimum_measured_percent * wanted:
        return None
    # The 5th percentile: one day in twenty may be quieter.
    floor = sorted(days)[len(days) // 20] / 24
    if floor <= 0:
        return None
    spent = (
        f"On all but 5% of days, GPUs cost at least {money(floor)} USD an hour "
        "On-Demand, after commitments"
    )
    if discount is None:
        advised = "what a Savings Plan of one year would save is not known"
    else:
        advised = (
            f"a Compute Savings Plan of one year, nothing upfront, commits at most "
            f"{money(floor * (1 - discount))} USD an hour. It pays while at least "
            f"{money(100 * (1 - discount), 0)}% of that floor goes on being used; it "
            "cannot be ended early"
        )
    found = Advice(
        kind="savings-plan",
        subject=account,
        account=account,
        region="all Regions",
        instance_type="accelerated types",
        usd_per_month=None if discount is None else floor * discount * HOURS_PER_MONTH,
        weeks=weeks,
        percent_measured=min(100, 100 * len(days) // wanted),
        text=f"{spent}: {advised}. For a fixed run of weeks, compare a Capacity Block.",
    )
    return next(iter(worthwhile(rule, [found])), None)
