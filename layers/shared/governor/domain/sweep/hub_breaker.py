"""The breaker over all accounts and Regions: it counts by the hour who turned idle or silent and stays so.

It knows no size of the fleet. What turns at the same hours of other days is usual; far more has one cause.
Pure: from the counts of some days to the reason for a freeze, or none, and to its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from governor.domain.policy.policy import Breaker
from governor.domain.sweep.breaker import BreakerState, is_cause_gone
from governor.domain.units import UtcDatetime

HOUR = timedelta(hours=1)
DAYS_KEPT = 8
"""Days of counts that are compared: a week, and the window before it."""
_DAYS_COMPARED = 7
_SHORT = 2
"""Hours of the shorter window: an outage in a quiet hour stands out of it, and not out of half a day."""
_SHIFTS = (-1, 0, 1)
"""Hours by which habits move, as when clocks change."""


@dataclass(frozen=True, slots=True)
class Turned:
    """How many instances turned in an hour, and how many of them have worked since."""

    turned: int = 0
    back: int = 0

    @property
    def left(self) -> int:
        """Return how many have not worked since."""
        return max(0, self.turned - self.back)


@dataclass(frozen=True, slots=True)
class Hub:
    """What is counted, by the hour's begin, and the freeze that stands."""

    hours: Mapping[UtcDatetime, Turned] = field(default_factory=dict)
    freeze: BreakerState | None = None


def hour_of(at: datetime) -> UtcDatetime:
    """Return the begin of the hour."""
    return at.replace(minute=0, second=0, microsecond=0)


def assess_hub(hub: Hub, now: datetime, rule: Breaker) -> tuple[int, str] | None:
    """Return how many turned, and why everything must freeze; `None` when it must not."""
    lifted, this = _lifted(rule, now), hour_of(now)
    for length in (_SHORT, rule.hub_window_hours):
        hours = [this - HOUR * back for back in range(length)]
        counted = [hub.hours[one] for one in hours if one in hub.hours and (not lifted or one >= lifted)]
        left = sum(one.left for one in counted)
        usual = _usual(hub, hours)
        if left >= rule.hub_minimum_instances and left > rule.hub_times_the_usual * usual:
            return left, (
                f"{left} instances of all accounts turned idle or silent in {length} h and have not worked "
                f"since; in the same hours of the week before, {usual} turned at the most"
            )
    return None


def _usual(hub: Hub, hours: list[datetime]) -> int:
    """Return the most that turned in the same hours of one of the days before."""
    sums = [
        sum(hub.hours.get(hour - timedelta(days=day) + HOUR * shift, Turned()).turned for hour in hours)
        for day in range(1, _DAYS_COMPARED + 1)
        for shift in _SHIFTS
    ]
    return max(sums)


def left_of(hub: Hub, freeze: BreakerState, rule: Breaker) -> tuple[int, int]:
    """Return how many turned around the time of the freeze, and how many of them have not worked since."""
    tripped = hour_of(freeze.tripped_at)
    first, last = tripped - HOUR * (rule.hub_window_hours - 1), tripped + HOUR * _SHORT
    counted = [one for hour, one in hub.hours.items() if first <= hour <= last]
    return max(freeze.turned, sum(one.turned for one in counted)), sum(one.left for one in counted)


def is_lifted(freeze: BreakerState, rule: Breaker, now: datetime) -> bool:
    """Return whether the policy lifts the freeze."""
    lifted = _lifted(rule, now)
    return lifted is not None and freeze.tripped_at < lifted


def _lifted(rule: Breaker, now: datetime) -> UtcDatetime | None:
    """A time to come lifts nothing: it would switch the breakers off."""
    return rule.lifted_before if rule.lifted_before and rule.lifted_before <= now else None


def is_hub_freeze_over(hub: Hub, freeze: BreakerState, now: datetime, rule: Breaker) -> bool:
    """Return whether plans may be carried out again. Time alone ends no freeze of everything."""
    if is_lifted(freeze, rule, now):
        return True
    # On its first day it cannot know what is usual, and would freeze again at once.
    is_new = not hub.hours or now - min(hub.hours) < timedelta(days=1)
    if is_new or now - freeze.tripped_at < timedelta(minutes=rule.hold_minutes):
        return False
    return assess_hub(hub, now, rule) is None and is_cause_gone(*left_of(hub, freeze, rule), rule)


def why_frozen(own: BreakerState | None, hub: Hub, now: datetime, rule: Breaker) -> str | None:
    """Return why plans of a target are frozen, by its own breaker or by that over all; `None` if not."""
    for freeze in (own, hub.freeze):
        if freeze is not None and not is_lifted(freeze, rule, now):
            return freeze.why
    # Counted a moment ago, and no sweep has said so yet.
    found = assess_hub(hub, now, rule)
    return found[1] if found else None
