"""The policy's sections `breaker` and `caps`: when plans freeze, and how many stops and
terminations an hour are allowed, with all defaults.

Every setting has its unit in its name and its default here. A figure that nobody would set is a
constant beside its rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from governor.core.settings import (
    Section,
    between,
    checked,
)
from governor.core.units import parse_iso


def _is_time(text: str) -> bool:
    """Return whether the text is a time in ISO 8601 with an offset, as `2026-12-24T09:00:00Z`."""
    try:
        return bool(parse_iso(text))
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Breaker(Section):
    """Limits that freeze all plans of an account and Region when too many instances change in one
    sweep."""

    turned_idle_percent: float = between(50.0, 1, 100)
    """Freeze if this percentage of the working instances turns idle in one sweep."""
    turned_silent_percent: float = between(50.0, 1, 100)
    """Freeze if this percentage of the publishing instances stops publishing metrics in one
    sweep."""
    minimum_instances: int = between(5, 1, 10_000)
    """A freeze needs at least this many changed instances in one sweep."""
    hold_minutes: int = between(180, 0, 10_080)
    """Minutes that a freeze lasts after the last sweep that would have caused it. If the policy
    acts without an approval, the freeze also lasts until most of the instances that caused it have
    been busy again or are stopped."""
    unusual_times_the_most: float | None = between(3.0, 1, 100)
    """Freeze if one sweep has more than this many times as many changed instances as any earlier
    sweep of the last two weeks. `null`: never."""
    hub_minimum_instances: int = between(10, 2, 10_000)
    """Freeze everything only if at least this many instances of all accounts together have turned
    idle or silent and have not worked since."""
    hub_times_the_usual: float = between(2.0, 1, 100)
    """Freeze everything if more than this many times as many instances turned idle or silent as in
    the same hours of any of the previous 14 days."""
    lift_freezes_before: str | None = checked(
        None, "it must be a time such as 2026-12-24T09:00:00Z", _is_time
    )
    """A time in quotes, such as "2026-12-24T09:00:00Z". It ends all freezes that began before this
    time. Instances that turned idle or silent before it no longer count. `null`: ends no freeze."""


@dataclass(frozen=True, slots=True)
class Caps(Section):
    """How many stops and terminations may begin in any 60 minutes. Approved actions above a cap
    wait.

    Caps limit what a mistake can do before people see it.
    """

    organization_actions_per_hour: int = between(20, 0, 10_000, "raised")
    """Stops and terminations in 60 minutes in all accounts. Keep it low enough that people can
    start all of them again."""
    account_actions_per_hour: int = between(5, 0, 10_000, "raised")
    """Stops and terminations in 60 minutes in one account. Keep it low, so that a mistake affects
    few instances of one team."""
    owner_actions_per_hour: int = between(5, 0, 10_000, "raised")
    """Stops and terminations in 60 minutes of one owner's instances. Keep it low, so that nobody
    loses everything at once."""
