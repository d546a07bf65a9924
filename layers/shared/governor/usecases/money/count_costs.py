"""Counts what the governed instances of a target cost. Part of the sweep, which knows what runs.

One write a sweep for all of them, conditional on what was read, so that two sweeps at once count once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from governor.domain.episode.episode import Observation
from governor.domain.instance import Instance, Target
from governor.domain.money import cost
from governor.domain.money.cost import Meter, Rate, Run
from governor.domain.policy.contacts import Ownership
from governor.domain.policy.policy import Policy
from governor.domain.units import UtcDatetime
from governor.ports import PriceBook
from governor.stores import Ledger


@dataclass(frozen=True, slots=True)
class CountCosts:
    """Prices what runs, and brings the meter of its month forward."""

    prices: PriceBook
    state: Ledger

    def rates(self, running_now: Sequence[tuple[Instance, Policy]]) -> dict[str, Rate]:
        """Whom each instance is counted for, and at what price."""
        found = {}
        for instance, policy in running_now:
            usd = cost.marginal_usd_per_hour(instance, self.prices.price(instance, policy))
            found[instance.instance_id] = Rate(project_of(instance, policy.ownership), usd)
        return found

    def __call__(
        self,
        target: Target,
        instances: Sequence[Instance],
        rates: Mapping[str, Rate],
        before: Mapping[str, Observation],
        now: UtcDatetime,
    ) -> None:
        """Count up to now. `before` is what the last sweep saw, those that no longer run included."""
        this = self.state.meter(target, cost.month_of(now))
        # At its first sweep, a month needs the meter of the month before.
        before_it = cost.month_of(cost.month_start(now) - timedelta(days=1))
        last = self.state.meter(target, before_it) if this is None else None
        # At the very first sweep: what runs now is known to have run since its start.
        since = (this or last or cost.new_meter(target, now)).counted_until
        launched = {instance.instance_id: instance.launch_time for instance in instances}
        runs = [*cost.running(instances, rates, now), *cost.ended(before, launched, since, now)]
        if this is None and last is not None and not self._forward(last, last, runs, now):
            return
        forward = cost.with_rates(this or cost.new_meter(target, now), rates.values())
        self._forward(forward, this, runs, now)

    def _forward(self, meter: Meter, seen: Meter | None, runs: Sequence[Run], until: UtcDatetime) -> bool:
        counted = cost.count(meter, runs, until)
        if seen is not None and counted.counted_until == seen.counted_until:
            return True
        return self.state.bring_forward(counted, seen)


def project_of(instance: Instance, rule: Ownership) -> str:
    """The first tag of the policy's list that is set."""
    named = (instance.tags.get(key, "").strip() for key in rule.project_tag_keys)
    return next((value for value in named if value), cost.UNTAGGED)
