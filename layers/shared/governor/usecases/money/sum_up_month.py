"""Sums up the month so far over all targets: what projects cost, and what the governor has saved.

Notifies a project's owner once at each share of the budget that the policy names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial

from governor.domain.instance import Target
from governor.domain.money.cost import ProjectCost, costs_of, month_end, month_of, month_start, saved_in
from governor.domain.money.cost_messages import budget_alert, used_percent
from governor.domain.policy.policy import Policy
from governor.domain.units import Usd, UtcDatetime
from governor.errors import GovernorError
from governor.ports import Announcer, Clock, Policies
from governor.stores import Ledger
from governor.usecases.once import Once

_TOLD_UNTIL_AFTER = timedelta(days=1)
"""How long after its end a month is known as notified: longer than any retry of its last sweep."""


@dataclass(frozen=True, slots=True)
class Month:
    """The month so far. `problems`: what could not be sent. `published`: costs that get an own metric."""

    month: str
    costs: tuple[ProjectCost, ...]
    published: tuple[ProjectCost, ...]
    highest_budget_used_percent: Decimal
    saved_usd: Usd
    false_stops: int
    told: tuple[str, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SumUpMonth:
    """The last step of a sweep."""

    clock: Clock
    policies: Policies
    state: Ledger
    once: Once
    announcer: Announcer
    hub: Target

    def __call__(self) -> Month:
        """Sum up, and notify of what is due. What cannot be sent is tried again by the next sweep."""
        now = self.clock.now()
        policy = self.policies.base().policy
        month = month_of(now)
        costs = costs_of(self.state.meters(month))
        saved, false_stops = self._saved(policy, now)
        budgets = ((cost, policy.budget.of(cost.project)) for cost in costs)
        budgeted = [(cost, budget) for cost, budget in budgets if budget is not None]
        told, problems = self._tell(budgeted, policy, now)
        return Month(
            month=month,
            costs=costs,
            published=costs[: policy.budget.publish_at_most_projects],
            highest_budget_used_percent=max((used_percent(*one) for one in budgeted), default=Decimal(0)),
            saved_usd=saved,
            false_stops=false_stops,
            told=told,
            problems=problems,
        )

    def _saved(self, policy: Policy, now: UtcDatetime) -> tuple[Usd, int]:
        """USD of this month, by actions of this month and of those before that still count; false stops."""
        counts_for = timedelta(days=policy.ledger.saving_counts_days)
        start = month_start(now)
        entries = [
            entry
            for month in _months(start - counts_for, now)
            for entry in self.state.entries(month)
            if entry.ours
        ]
        amounts = [saved_in(entry, start, now, counts_for) for entry in entries]
        saved = sum((amount for amount in amounts if amount is not None), Decimal(0))
        ended = (entry.ended_at for entry in entries if entry.false_stop)
        return saved, sum(at is not None and at >= start for at in ended)

    def _tell(
        self, budgeted: Sequence[tuple[ProjectCost, Usd]], policy: Policy, now: UtcDatetime
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        told, problems = [], []
        for cost, budget in budgeted:
            used = used_percent(cost, budget)
            reached = [share for share in policy.budget.tell_at_percent if used >= Decimal(share)]
            if not reached:
                continue
            # The default owner may be a contact; a project that has an owner of its own is his or hers.
            owner = policy.ownership.project_owners.get(cost.project, policy.ownership.default_owner)
            tell_at = max(reached)
            alert = budget_alert(cost, budget, tell_at, self.hub, now, owner)
            keep = month_end(now) - now + _TOLD_UNTIL_AFTER
            try:
                if self.once(alert.dedup_id, partial(self.announcer.announce, alert), keep=keep):
                    told.append(cost.project)
            except GovernorError as error:
                problems.append(f"budget of {cost.project}: {type(error).__name__}: {error}")
        return tuple(told), tuple(problems)


def _months(first: datetime, last: datetime) -> list[str]:
    found, at = [], month_start(first)
    while at <= last:
        found.append(month_of(at))
        at = month_end(at)
    return found
