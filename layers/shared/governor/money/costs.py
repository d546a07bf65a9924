"""Counts the costs of a target's governed instances, sums up the month over all targets, and
notifies owners of used budgets.

A sweep counts all instances in one conditional write, so two sweeps at the same time count once.
This module must not act on instances because of their cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import partial
from itertools import chain

from governor.alerts.model import UNASSIGNED
from governor.alerts.ports import Announcer
from governor.core.errors import GovernorError
from governor.core.instance import Instance, Target
from governor.core.ports import Clock
from governor.core.units import Usd, UtcDatetime
from governor.episode.model.episode import Observation
from governor.fleet.model import part_of
from governor.fleet.store import Fleet
from governor.money.messages import budget_alert, budget_id, used_percent
from governor.money.model.ledger import Saved
from governor.money.ports import PriceBook
from governor.money.rules import cost
from governor.money.rules.cost import Meter, Rate, Run, months
from governor.money.rules.forecast import PAST, by_day, forecast
from governor.money.rules.ledger import sum_saved
from governor.money.store.ledger import Ledger
from governor.policy.model.money import Budget
from governor.policy.model.policy import Mode, Policy
from governor.policy.ports import Policies
from governor.policy.rules.owners import job_of, owner_named, owner_of
from governor.policy.store import PolicyVersions
from governor.table.once import Once
from governor.verdict.model import VerdictKind

_TOLD_UNTIL_AFTER = timedelta(days=1)
"""How long after the end of a month its messages are remembered as sent: longer than any retry of
its last sweep."""


@dataclass(frozen=True, slots=True)
class CountCosts:
    """Counts the costs of one target's instances."""

    prices: PriceBook
    ledger_store: Ledger
    fleet_store: Fleet

    def rates(
        self, running_now: Sequence[tuple[Instance, Policy, VerdictKind | None]]
    ) -> dict[str, Rate]:
        """Return the rate of each instance by its id: the owner, project and job for which its
        hours are counted, their price, and the part of the costs to which they belong.

        Each instance is given with its policy and the kind of its verdict; `None` if it has no
        verdict. Raises nothing: an unknown price is `None`.
        """
        rates = {}
        for instance, policy, kind in running_now:
            price = cost.marginal_price(instance, self.prices.price(instance, policy))
            owner = owner_of(instance, policy.ownership)
            project = cost.UNTAGGED if owner.project == UNASSIGNED else owner.project
            job = job_of(instance, policy.money)
            rate = Rate(project, price.usd_per_hour, owner.name, part_of(kind), job)
            rates[instance.instance_id] = rate
        return rates

    def __call__(
        self,
        target: Target,
        launched: Mapping[str, UtcDatetime],
        rates: Mapping[str, Rate],
        before: Mapping[str, Observation],
        now: UtcDatetime,
    ) -> None:
        """Add the costs of a target's instances up to now to its meter of the month, and to the
        costs of each day. Nothing changes if another sweep has counted meanwhile.

        `launched` are the starts of the instances that run, and `rates` are theirs, by instance id.
        `before` are the last sweep's observations by instance id, also of instances that no longer
        run. Raises: CloudError.
        """
        meter = self.ledger_store.meter(target, cost.month_of(now))
        last_meter = None
        if meter is None:
            # The first sweep of a month needs the meter of the month before.
            month_before = cost.month_of(cost.month_start(now) - timedelta(days=1))
            last_meter = self.ledger_store.meter(target, month_before)
        # The very first sweep counts each instance from its start, or from that of the month.
        counted_until = (meter or last_meter or cost.new_meter(target, now)).counted_until
        runs = [Run(rates[instance_id], start, now) for instance_id, start in launched.items()]
        runs += cost.ended_runs(before, launched, counted_until, now)
        if last_meter is not None:
            # Close the month before first, so that its last hours are counted.
            is_closed = self._bring_forward(last_meter, stored=last_meter, runs=runs, until=now)
            if not is_closed:
                return
        current_meter = cost.with_rates(meter or cost.new_meter(target, now), rates.values())
        self._bring_forward(current_meter, stored=meter, runs=runs, until=now)

    def _bring_forward(
        self, meter: Meter, *, stored: Meter | None, runs: Sequence[Run], until: UtcDatetime
    ) -> bool:
        """Store the meter with the costs of these runs up to `until`, and the costs of the days
        between. `stored` is the meter as the table has it; `None` for a new one.

        Return true if that is done, or was done before. Return false, with nothing stored, if
        another sweep has replaced the `stored` meter. Raises: CloudError.
        """
        counted = cost.counted_up_to(meter, runs, until)
        if stored is not None and counted.counted_until == stored.counted_until:
            return True
        shares = cost.shares_by_day(meter, runs, until)
        # The days are read after the meter. If another sweep writes a day in between, it replaces
        # the meter as well, and the write below fails.
        stored_days = self.fleet_store.days_of(meter.target, list(shares))
        days = []
        for day, new_shares in zip(stored_days, shares.values(), strict=True):
            days.append(day.plus(new_shares))
        return self.ledger_store.bring_forward(counted, stored, days)


@dataclass(frozen=True, slots=True)
class NoteOverBudget:
    """Stores which projects are over budget, for the functions that may then only ask people. Only
    one function may write that note."""

    clock: Clock
    ledger_store: Ledger
    policy_store: PolicyVersions

    def __call__(self, budget: Budget) -> None:
        """Store the projects whose cost of this month is above their budget. Do nothing unless the
        budget's `act` is `ask`. Raises: CloudError."""
        if budget.act != "ask":
            return
        now = self.clock.now()
        month = cost.month_of(now)
        over_budget = []
        for spent in cost.costs_of(self.ledger_store.meters(month)):
            most = budget.of(spent.project)
            if most is not None and spent.usd > most:
                over_budget.append(_project_name(spent))
        self.policy_store.note_over_budget(month, sorted(over_budget), now)


@dataclass(frozen=True, slots=True)
class Month:
    """The month so far.

    Attributes:
        published: the costs that get a metric of their own.
        notified: the projects whose owners were notified by this sum.
        problems: texts about messages that could not be sent.
    """

    month: str
    costs: tuple[cost.ProjectCost, ...]
    published: tuple[cost.ProjectCost, ...]
    highest_budget_used_percent: Decimal
    saved_usd: Usd
    false_stops: int
    notified: tuple[str, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SumUpMonth:
    """Sums up costs and savings of the month over all targets, and notifies of used budgets."""

    clock: Clock
    policies: Policies
    ledger_store: Ledger
    fleet_store: Fleet
    once: Once
    announcer: Announcer
    hub: Target

    def __call__(self) -> Month:
        """Return the costs and savings of the month so far, and notify the owner of each project
        whose cost has reached a percentage of its budget (`budget.tell_at_percent`).

        A message that cannot be sent becomes a problem; the next call tries again. Raises:
        CloudError if the costs or savings cannot be read.
        """
        now = self.clock.now()
        policy = self.policies.base().policy
        month = cost.month_of(now)
        costs = cost.costs_of(self.ledger_store.meters(month))
        saved = self._saved(policy, now)
        budgeted = []
        for spent in costs:
            budget = policy.budget.of(spent.project)
            if budget is not None:
                budgeted.append((spent, budget))
        highest_used = max(
            (used_percent(spent, budget) for spent, budget in budgeted), default=Decimal(0)
        )
        notified, problems = self._notify(budgeted, policy, now)
        return Month(
            month=month,
            costs=costs,
            published=costs[: policy.budget.publish_at_most_projects],
            highest_budget_used_percent=highest_used,
            saved_usd=saved.net_usd,
            false_stops=saved.false_stops,
            notified=notified,
            problems=problems,
        )

    def _saved(self, policy: Policy, now: UtcDatetime) -> Saved:
        """Return the savings of this month up to now, by actions of this month and by earlier ones
        that still count. Raises: CloudError."""
        counts_for = timedelta(days=policy.ledger.saving_counts_days)
        start = cost.month_start(now)
        entries = chain.from_iterable(
            self.ledger_store.entries(month) for month in months(start - counts_for, now)
        )
        return sum_saved(entries, start, now, counts_for)

    def _notify(
        self, budgeted: Sequence[tuple[cost.ProjectCost, Usd]], policy: Policy, now: UtcDatetime
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Notify the owner of each project, given with its budget, that has reached a percentage of
        it (`budget.tell_at_percent`): once for the highest that is reached.

        Return the projects whose owners this call has notified, and texts about what failed, such
        as a message that was not accepted; both may be empty. It raises no GovernorError.
        """
        notified = []
        problems = []
        for spent, budget in budgeted:
            used = used_percent(spent, budget)
            reached = []
            for percent in policy.budget.tell_at_percent:
                if used >= Decimal(percent):
                    reached.append(percent)
            if not reached:
                continue
            try:
                is_notified_now = self._notify_once(spent, budget, max(reached), now)
                if is_notified_now:
                    notified.append(spent.project)
            except GovernorError as error:
                problems.append(f"budget of {spent.project}: {type(error).__name__}: {error}")
        return tuple(notified), tuple(problems)

    def _notify_once(
        self, spent: cost.ProjectCost, budget: Usd, at_percent: float, now: UtcDatetime
    ) -> bool:
        """Notify the owner of a project, once a month, that it has used `at_percent` of its budget.

        Return whether this call has notified; false if an earlier one has. Raises: CloudError.
        """
        send = partial(self._send, spent, budget, at_percent, now)
        keep = cost.month_end(now) - now + _TOLD_UNTIL_AFTER
        return self.once(budget_id(spent, budget, at_percent, now), send, keep=keep)

    def _send(
        self, spent: cost.ProjectCost, budget: Usd, at_percent: float, now: UtcDatetime
    ) -> None:
        """Send the message that a project has used `at_percent` of its budget, with a forecast for
        the month by past days, and its instances. Raises: CloudError."""
        policy = self.policies.base().policy
        ownership = policy.ownership
        name = _project_name(spent)
        owner_name = ownership.project_owners.get(spent.project, ownership.default_owner)
        owner = owner_named(owner_name, name, ownership)
        past_since = now - PAST
        days = chain.from_iterable(
            self.fleet_store.days(month, past_since.date()) for month in months(past_since, now)
        )
        by_past = forecast(spent.usd, by_day(days, spent.project), now)
        rows = []
        for page in self.fleet_store.pages():
            for row in page.rows:
                if row.project == name:
                    rows.append(row)
        may_ask = policy.budget.act == "ask" and policy.mode is not Mode.OBSERVE
        asks = may_ask and spent.usd > budget
        alert = budget_alert(
            spent, budget, at_percent, self.hub, now, owner, by_past, rows, asks=asks
        )
        self.announcer.announce(alert)


def _project_name(spent: cost.ProjectCost) -> str:
    """Return the name of the project in the console and in messages: `unassigned` for instances
    without a project, which meters call `untagged`."""
    return UNASSIGNED if spent.project == cost.UNTAGGED else spent.project
