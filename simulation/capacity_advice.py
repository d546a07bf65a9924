"""Advice about unused capacity: groups of other services with a minimum size, and reservations.

Each rule is a pure function, and none acts, as in `simulation.patterns`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from math import ceil
from shlex import join
from statistics import fmean

from governor.core.instance import AUTO_SCALING_TAG, Reservation
from governor.core.managed_environments import EnvironmentKind, ManagedEnvironment
from governor.core.units import HOURS_PER_MONTH, Usd, UsdPerHour, money, not_none, plural
from governor.evidence.model import Window
from governor.money.rules.cost import DAY
from governor.policy.model.money import Advice as Rule
from governor.sweep.messages import advice_for
from governor.sweep.model import BatchEnvironment
from simulation.past import TEN_MINUTES, Past
from simulation.patterns import Advice, advice_of, is_known, worthwhile


@dataclass(frozen=True, slots=True)
class Group:
    """An environment that another service runs, with its members that run now. `minimum` is the
    number of instances that it keeps whether they are used or not; `None` if it was not read."""

    environment: ManagedEnvironment
    members: tuple[Past, ...]
    minimum: int | None = None
    batch: BatchEnvironment | None = None


def of_group(group: Group) -> list[Advice]:
    """Return what a group could do without; an empty list unless all its members were measured for
    long enough."""
    if not all(map(is_known, group.members)):
        return []
    return worthwhile(group.members[0].policy.advice, (scale_in(group), minimum_size(group)))


def scale_in(group: Group) -> Advice | None:
    """Advise fewer instances whenever the mean of all GPUs was low for ten minutes. The saving is
    an upper limit: starting an instance again takes some of the time."""
    rule = group.members[0].policy.advice
    size = len(group.members)
    together = sorted(set.intersection(*(past.measured_tens for past in group.members)))
    means = []
    for ten in together:
        means.append(fmean(past.mean_at(ten) for past in group.members))
    quiet = [mean for mean in means if mean < rule.scale_in_below_percent]
    spare = sum(size - ceil(size * mean / rule.target_percent) for mean in quiet)
    if not spare:
        return None
    minimum = "unknown" if group.minimum is None else str(group.minimum)
    quiet_percent = 100 * len(quiet) // len(together)
    text = (
        f"The GPUs of {group.environment.title} are under {rule.scale_in_below_percent:g}% on "
        f"average, for 10 minutes or longer, in {quiet_percent}% of the time: scale in then, "
        f"for at most this saving. Its minimum size is {minimum}; now it has "
        f"{plural(size, 'instance')}"
    )
    hours = Decimal(spare) * (TEN_MINUTES // timedelta(minutes=1)) / 60
    return _of_group(group, "scale-in", hours, text)


def minimum_size(group: Group) -> Advice | None:
    """Advise a lower minimum if it holds instances none of whose GPUs works."""
    minimum = group.minimum
    if not minimum:
        return None
    hours_of_work = [set(past.worked) for past in group.members]
    held = 0
    for hour in _together(group):
        idle = sum(hour not in hours for hours in hours_of_work)
        held += min(minimum, idle)
    if not held:
        return None
    advised = " ".join(advice_for(group.environment, group.batch))
    title = group.environment.title
    text = f"The minimum size of {title} is {minimum}, and holds idle GPUs. {advised}"
    return _of_group(group, "minimum-size", held, text.removesuffix("."), _command(group))


def _command(group: Group) -> str:
    """Return the command that lowers the minimum to 0; empty if the group is not known. It is
    quoted for a shell: names come from tags, which anybody may have written."""
    first = group.members[0].instance
    environment = group.environment
    region = ("--region", first.target.region)
    if environment.kind is EnvironmentKind.BATCH:
        compute_environment = ("--compute-environment", environment.name)
        size = ("--compute-resources", "minvCpus=0")
        return join(
            ("aws", "batch", "update-compute-environment", *region, *compute_environment, *size)
        )
    if environment.kind is EnvironmentKind.NODE_GROUP:
        node_group = ("--cluster-name", environment.cluster, "--nodegroup-name", environment.name)
        size = ("--scaling-config", "minSize=0")
        return join(("aws", "eks", "update-nodegroup-config", *region, *node_group, *size))
    group_name = first.tags.get(AUTO_SCALING_TAG)
    if group_name is None:
        return ""
    auto_scaling_group = ("--auto-scaling-group-name", group_name, "--min-size", "0")
    return join(("aws", "autoscaling", "update-auto-scaling-group", *region, *auto_scaling_group))


@dataclass(frozen=True, slots=True)
class Reserved:
    """A reservation with its past. `used_at_most` is the most instances that ran in it in `weeks`
    of measured hours; `None` if CloudWatch has no readings of it."""

    now: Reservation
    usd_per_hour: UsdPerHour | None
    used_at_most: int | None = None
    weeks: int = 0
    percent_measured: int = 0


def reservation(reserved: Reserved) -> Advice | None:
    """Advise about capacity that is paid for and stands empty, now and as long as was measured. The
    governor never cancels it: EC2 may not have it again."""
    now = reserved.now
    most_used = reserved.used_at_most
    unused = now.available
    if most_used is not None:
        unused = min(unused, now.total - most_used)
    if unused <= 0:
        return None
    usd_per_hour = None
    usd_per_month = None
    if reserved.usd_per_hour is not None:
        usd_per_hour = reserved.usd_per_hour * unused
        usd_per_month = usd_per_hour * HOURS_PER_MONTH
    kind = "empty-block"
    command = ""
    if not now.is_block:
        kind = "empty-reservation"
        command = _reservation_command(now, now.total - unused)
    return Advice(
        kind=kind,
        subject=now.reservation_id,
        account=now.target.account,
        region=now.target.region,
        instance_type=now.instance_type,
        usd_per_month=usd_per_month,
        weeks=reserved.weeks,
        percent_measured=reserved.percent_measured,
        text=_reservation_text(reserved, unused, usd_per_hour),
        command=command,
        name=now.name,
        owner=f"account {now.account}",
    )


def _reservation_text(reserved: Reserved, unused: int, usd_per_hour: Usd | None) -> str:
    now = reserved.now
    measured = "for how long is not known"
    if reserved.used_at_most is not None:
        weeks = plural(reserved.weeks, "week")
        most = f"at most {reserved.used_at_most}" if reserved.used_at_most else "none"
        verb = "were" if reserved.used_at_most > 1 else "was"
        measured = f"{most} {verb} used in {weeks}"
    cost = "its price is not known"
    if usd_per_hour is not None:
        cost = f"{money(usd_per_hour)} USD an hour at list price"
    advised = "if nobody needs the guarantee, reduce it or cancel it"
    if now.is_block:
        advised = (
            "it is paid for in advance and cannot be canceled: use it or share it before it ends"
        )
    empty = f"{unused} of {now.total} are unused ({measured}): {cost}"
    return f"{empty}. It belongs to account {now.account} ({now.ends}); {advised}."


def _reservation_command(now: Reservation, instances_left: int) -> str:
    """Return the command that keeps so many instances, or cancels the reservation."""
    verb = "modify" if instances_left else "cancel"
    command = ["aws", "ec2", f"{verb}-capacity-reservation", "--region", now.target.region]
    command += ["--capacity-reservation-id", now.reservation_id]
    if instances_left:
        command += ["--instance-count", str(instances_left)]
    return join(command)


def _of_group(
    group: Group, kind: str, spare: Decimal | int, text: str, command: str = ""
) -> Advice:
    """Return advice for a group. `spare` counts hours of instances, of the hours in which all
    members were measured."""
    environment = group.environment
    first = group.members[0]
    together = _together(group)
    prices = [past.price.usd_per_hour for past in group.members]
    known_prices = not_none(prices)
    saved: Usd | None = None
    if len(known_prices) == len(prices):
        mean = sum(known_prices, Decimal(0)) / len(known_prices)
        saved = mean * HOURS_PER_MONTH * spare / (first.hours.bins - together[0])
    advice = advice_of(first, kind, saved, text, command)
    places = (advice.account, advice.region, environment.cluster, environment.name)
    shortest_weeks = min(past.weeks for past in group.members)
    least_measured = min(past.measured_percent for past in group.members)
    return replace(
        advice,
        subject="/".join(filter(None, places)),
        name=environment.title,
        weeks=shortest_weeks,
        percent_measured=least_measured,
    )


def _together(group: Group) -> list[int]:
    """Return the hours in which all members were measured."""
    return sorted(set.intersection(*(set(past.measured) for past in group.members)))


def savings_plan(
    account: str, days: Sequence[Usd], hours: Window, discount: Decimal | None, rule: Rule
) -> Advice | None:
    """Advise a commitment of what even the quiet days spend On-Demand, after present commitments.
    It counts by day: the quietest hour may be lower. `discount` is 0 to 1, or `None` if not
    known."""
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
    usd_per_month = None
    if discount is not None:
        usd_per_month = floor * discount * HOURS_PER_MONTH
    advice = Advice(
        kind="savings-plan",
        subject=account,
        account=account,
        region="all Regions",
        instance_type="accelerated types",
        usd_per_month=usd_per_month,
        weeks=weeks,
        percent_measured=min(100, 100 * len(days) // wanted),
        text=f"{spent}: {advised}. For a fixed run of weeks, compare a Capacity Block.",
    )
    kept = worthwhile(rule, [advice])
    return kept[0] if kept else None
