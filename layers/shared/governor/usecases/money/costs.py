"""Counts what the governed instances of a target cost, and sums the month up over all targets. A
sweep counts by one conditional write for all instances, so that two at once count once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import partial

from governor.domain.alerts.alert import UNASSIGNED, owner_of
from governor.domain.episode.episode import Observation
from governor.domain.fleet.rows import part_of
from governor.domain.instance import Instance, Target
from governor.domain.money import cost
from governor.domain.money.cost import Meter, Rate, Run, months
from governor.domain.money.cost_messages import (
    STILL,
    budget_alert,
    budget_id,
    incident_id,
    used_percent,
)
from governor.domain.money.forecast import PAST, by_day, forecast
from governor.domain.money.ledger import Saved, sum_saved
from governor.domain.policy.policy import Budget, Mode, Policy
from governor.domain.sweep.verdict import VerdictKind
from governor.domain.units import Usd, UtcDatetime
from governor.errors import GovernorError
from governor.ports import Announcer, Clock, Policies, PriceBook
from governor.stores import StateTable
from governor.usecases.once import Once

_TOLD_UNTIL_AFTER = timedelta(days=1)
"""How long after its end a month is known as notified: longer than any retry of its last sweep."""


@dataclass(frozen=True, slots=True)
class CountCosts:
    prices: PriceBook
    state: StateTable

    def rates(
        self, running_now: Sequence[tuple[Instance, Policy, VerdictKind | None]]
    ) -> dict[str, Rate]:
        """Whom each instance is counted for, at what price, and as what."""
        found = {}
        for instance, policy, kind in running_now:
            usd = cost.marginal(instance, self.prices.price(instance, policy)).usd_per_hour
            owner = owner_of(instance, policy.ownership)
            project = cost.UNTAGGED if owner.project == UNASSIGNED else owner.project
            found[instance.instance_id] = Rate(project, usd, owner.name, part_of(kind))
        return found

    def __call__(
        self,
        target: Target,
        instances: Sequence[Instance],
        rates: Mapping[str, Rate],
        before: Mapping[str, Observation],
        now: UtcDatetime,
    ) -> None:
        """Count up to now. `before` is what the last sweep saw, those that no longer run
        included."""
        this = self.state.meter(target, cost.month_of(now))
        # At its first sweep, a month needs the meter of the month before.
        before_it = cost.month_of(cost.month_start(now) - timedelta(days=1))
        last = self.state.meter(target, before_it) if this is None else None
        # At the very first sweep: what runs now is known to have run since its start.
        since = (this or last or cost.new_meter(target, now)).counted_until
        launched = {instance.instance_id: instance.launch_time for instance in instances}
        runs = [Run(rates[one], start, now) for one, start in launched.items()]
        runs += cost.ended(before, launched, since, now)
        if this is None and last is not None and not self._forward(last, last, runs, now):
            return
        forward = cost.with_rates(this or cost.new_meter(target, now), rates.values())
        self._forward(forward, this, runs, now)

    def _forward(
        self, meter: Meter, seen: Meter | None, runs: Sequence[Run], until: UtcDatetime
    ) -> bool:
        counted = cost.count(meter, runs, until)
        if seen is not None and counted.counted_until == seen.counted_until:
            return True
        # Read after the meter: a sweep that writes one of them in between has moved the meter, too.
        shares = cost.shares_by_day(meter, runs, until)
        before = self.state.days_of(meter.target, list(shares))
        days = [one.plus(more) for one, more in zip(before, shares.values(), strict=True)]
        return self.state.bring_forward(counted, seen, days)


@dataclass(frozen=True, slots=True)
class NoteOverBudget:
    """Keeps which projects are over budget, for functions that ask. Used by the one that may write
    it."""

    clock: Clock
    state: StateTable

    def __call__(self, budget: Budget) -> None:
        """Note them, where the policy asks because of it. Raises: CloudError."""
        if budget.act != "ask":
            return
        now = self.clock.now()
        month = cost.month_of(now)
        spent = [(one, budget.of(one.project)) for one in cost.costs_of(self.state.meters(month))]
        over = (one.project for one, most in spent if most is not None and one.usd > most)
        named = sorted(UNASSIGNED if one == cost.UNTAGGED else one for one in over)
        self.state.note_over_budget(month, named, now)


@dataclass(frozen=True, slots=True)
class Month:
    """The month so far. `problems`: what could not be sent. `published`: costs that get an own
    metric."""

    month: str
    costs: tuple[cost.ProjectCost, ...]
    published: tuple[cost.ProjectCost, ...]
    highest_budget_used_percent: Decimal
    saved_usd: Usd
    false_stops: int
    told: tuple[str, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SumUpMonth:
    clock: Clock
    policies: Policies
    state: StateTable
    once: Once
    announcer: Announcer
    hub: Target

    def __call__(self) -> Month:
        """Sum up, and notify of what is due. What cannot be sent is tried again by the next
        sweep."""
        now = self.clock.now()
        policy = self.policies.base().policy
        month = cost.month_of(now)
        costs = cost.costs_of(self.state.meters(month))
        saved = self._saved(policy, now)
        budgets = ((spent, policy.budget.of(spent.project)) for spent in costs)
        budgeted = [(spent, budget) for spent, budget in budgets if budget is not None]
        told, problems = self._tell(budgeted, policy, now)
        return Month(
            month=month,
            costs=costs,
            published=costs[: policy.budget.publish_at_most_projects],
            highest_budget_used_percent=max(
                (used_percent(*one) for one in budgeted), default=Decimal(0)
            ),
            saved_usd=saved.net_usd,
            false_stops=saved.false_stops,
            told=told,
            problems=problems,
        )

    def _saved(self, policy: Policy, now: UtcDatetime) -> Saved:
        """Return what was saved this month, by actions of this month and of those before that still
        count."""
        counts_for = timedelta(days=policy.ledger.saving_counts_days)
        start = cost.month_start(now)
        entries = (
            one for month in months(start - counts_for, now) for one in self.state.entries(month)
        )
        return sum_saved(entries, start, now, counts_for)

    def _tell(
        self, budgeted: Sequence[tuple[cost.ProjectCost, Usd]], policy: Policy, now: UtcDatetime
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        told, problems = [], []
        for spent, budget in budgeted:
            used = used_percent(spent, budget)
            reached = [share for share in policy.budget.tell_at_percent if used >= Decimal(share)]
            if not reached:
                continue
            # The default owner may be a contact; a project that has an owner of its own is his or
            # hers.
            owner = policy.ownership.project_owners.get(
                spent.project, policy.ownership.default_owner
            )
            tell_at = max(reached)
            act = partial(self._announce, spent, budget, tell_at, now, owner)
            keep = cost.month_end(now) - now + _TOLD_UNTIL_AFTER
            try:
                if self.once(budget_id(spent, budget, tell_at, now), act, keep=keep):
                    told.append(spent.project)
                if used >= 100:
                    self.state.extend_incident(incident_id(spent, now), now + STILL)
            except GovernorError as error:
                problems.append(f"budget of {spent.project}: {type(error).__name__}: {error}")
        return tuple(told), tuple(problems)

    def _announce(
        self, spent: cost.ProjectCost, budget: Usd, tell_at: float, now: UtcDatetime, owner: str
    ) -> None:
        since, policy = (now - PAST).date(), self.policies.base().policy
        days = (one for month in months(now - PAST, now) for one in self.state.days(month, since))
        by_past = forecast(spent.usd, by_day(days, spent.project), now)
        name = UNASSIGNED if spent.project == cost.UNTAGGED else spent.project
        rows = [row for page in self.state.pages() for row in page.rows if row.project == name]
        asks = policy.budget.act == "ask" and policy.mode is not Mode.OBSERVE and spent.usd > budget
        alert = budget_alert(spent, budget, tell_at, self.hub, now, owner, by_past, rows, asks=asks)
        self.announcer.announce(alert)
