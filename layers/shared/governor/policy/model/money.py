"""The policy's sections `prices`, `money`, `ledger`, `budget` and `advice`, with all defaults.

Every setting has its unit in its name and its default here. A figure that nobody would set is a
constant beside its rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Literal

from governor.core.settings import (
    A_MONTH,
    PER_UNIT,
    PERCENT,
    Discount,
    Mistake,
    Section,
    UsdAMonth,
    UsdPerUnit,
    between,
    checked,
    named,
    setting,
)
from governor.core.units import Percent
from governor.policy.model.names import FAMILY


@dataclass(frozen=True, slots=True)
class Prices(Section):
    """Prices that GPU Governor cannot read from AWS (money.md). The defaults are those of
    us-east-1."""

    usd_per_hour: Mapping[str, UsdPerUnit] = PER_UNIT.setting({})
    """USD per hour by instance type, such as negotiated prices. They replace AWS's price list."""
    discount_percent: Mapping[str, Discount] = PERCENT.setting({}, "none")
    """Percent off On-Demand list prices by instance family, such as `p5`. `all` stands for all
    other families."""
    commitments_elsewhere: bool = setting(True, "none")
    """Say that Savings Plans or Reserved Instances of accounts other than the stack's may pay for
    instances. The range of savings in cash then begins at 0."""
    ebs_usd_per_gib_month: UsdPerUnit = PER_UNIT.setting(Decimal("0.08"), "none")
    """USD per GiB and month of EBS volumes, if AWS's price list was not read."""
    snapshot_usd_per_gib_month: UsdPerUnit = PER_UNIT.setting(Decimal("0.05"), "none")
    """USD per GiB and month of EBS snapshots, if AWS's price list was not read."""

    def contradictions(self) -> Iterator[Mistake]:
        """Yield a mistake, with its path and reason, for each key of `discount_percent` that is no
        instance family."""
        for name in self.discount_percent:
            if not re.fullmatch(FAMILY[0], name):
                yield ("discount_percent", name), FAMILY[1]

    def discount(self, family: str) -> Decimal:
        """Return the discount on the list prices of a family such as `p5`, in percent: its own,
        else that of `all`; 0 if neither is set."""
        return self.discount_percent.get(family, self.discount_percent.get("all", Decimal(0)))


@dataclass(frozen=True, slots=True)
class Money(Section):
    """How the cost of a project is split by job (money.md)."""

    risk = "none"
    job_tag_keys: tuple[str, ...] = ("Job", "job")
    """Tags that name the job of an instance. The first tag that exists counts. Empty: costs have no
    jobs."""


@dataclass(frozen=True, slots=True)
class Ledger(Section):
    """How savings are recorded."""

    risk = "none"
    false_stop_within_minutes: int = between(60, 0, 43_200)
    """A stop counts as undone if the instance is started again within this many minutes."""
    saving_counts_days: int = between(30, 1, 366)
    """Days for which an action counts as saving money. The limit exists because even a forgotten
    instance would not have run forever."""
    weekly_report: bool = True
    """Report costs and savings of the previous week to owners on Mondays."""
    monthly_report: bool = True
    """Report costs and savings of the previous month on the 1st, and again on the 15th, when its
    bill is final."""


@dataclass(frozen=True, slots=True)
class Budget(Section):
    """The budget of each project for a calendar month (UTC). It leads to messages and questions,
    never to an action."""

    risk = "none"
    monthly_usd: UsdAMonth | None = A_MONTH.setting(Decimal(10_000))
    """USD a month of each project, and of all instances without a project together. `null`: no
    budget."""
    projects: Mapping[str, UsdAMonth] = A_MONTH.setting({})
    """USD a month by project. It replaces `monthly_usd` for that project."""
    tell_at_percent: tuple[float, ...] = between((80.0, 100.0), 1, 1_000)
    """Percentages of the budget at which the project's owner is notified, once a month each."""
    act: Literal["notify", "ask"] = setting("notify", "any")
    """The effect once a budget is used up. `ask`: people are also asked about idle instances that
    an override with `mode: observe` leaves alone, unless the document's own `mode` is `observe`."""
    publish_at_most_projects: int = between(0, 0, 1_000)
    """Number of projects, the most expensive first, that get metrics of their own (0.30 USD a month
    each)."""

    def of(self, project: str) -> Decimal | None:
        """Return the monthly budget of a project in USD: its own, else `monthly_usd`; `None` if it
        has none."""
        return self.projects.get(project, self.monthly_usd)


@dataclass(frozen=True, slots=True)
class Advice(Section):
    """Limits of `governor advice`, which proposes how to save money. It never leads to an
    action."""

    risk = "none"
    weeks: int = between(6, 1, 12)
    """Weeks of hourly utilization that are read."""
    minimum_weeks: int = between(4, 1, 12, at_most="weeks")
    """Nothing is advised if fewer than this many weeks lie between the first and the last
    reading."""
    minimum_measured_percent: Percent = between(80.0, 0, 100)
    """Percentage of an instance's running hours that must be measured on every GPU."""
    minimum_usd_per_month: UsdPerUnit = PER_UNIT.setting(Decimal(50))
    """Advice that is known to save less than this, in USD a month, is left out."""
    dismissed_for_days: int = between(90, 1, 366)
    """Days for which dismissed advice is left out."""
    target_percent: Percent = between(85.0, 10, 100)
    """A smaller type is proposed only if the measured peaks of GPU memory and vCPUs would fill at
    most this percentage of it. The utilization of GPUs at work is also compared with this
    percentage."""
    cpu_family: str = checked("m7i", FAMILY[1], partial(re.fullmatch, FAMILY[0]))
    """Family of the CPU types that are proposed."""
    cpu_usd_per_vcpu_hour: UsdPerUnit = PER_UNIT.setting(Decimal("0.0504"))
    """USD per vCPU and hour of that family."""
    office_day_at_most_hours: int = between(12, 1, 20)
    """Longest working day, on weekdays, for which a schedule is proposed."""
    schedule_tag_key: str = "Schedule"
    """Tag key that Instance Scheduler on AWS looks for."""
    schedule_name: str = "office-hours"
    """Name of the schedule there."""
    old_families: tuple[str, ...] = named(*FAMILY, default=("p2", "p3", "g3", "g3s", "g4dn"))
    """Families for which newer ones are proposed."""
    newer_families: tuple[str, ...] = named(*FAMILY, default=("g5", "g6", "gr6", "g6e", "g7e"))
    """Families that are proposed in their place."""
    port_pays_within_months: int = between(12, 1, 60)
    """Months in which a port to Trainium or Inferentia must pay for itself."""
    empty_reservation_after_hours: int = between(24, 1, 720)
    """The owner is notified if every check of this many hours found unused capacity in a Capacity
    Reservation or Capacity Block, and again every `health.advice_every_hours`."""
    scale_in_below_percent: Percent = between(20.0, 1, 100)
    """Fewer instances are proposed for a group whose mean utilization over 10 minutes is under this
    percentage."""
