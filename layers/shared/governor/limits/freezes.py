"""Reasons to hold a step back for a while: a pause, a freeze, and a full cap.

This module only reads and counts nothing itself: `limits/store/caps.py` reserves room under a cap.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime
from governor.limits.model.breaker import BreakerState, Hub
from governor.limits.rules.breaker import why_frozen
from governor.limits.store.breaker import Breakers
from governor.limits.store.caps import ActionCaps
from governor.limits.store.pauses import Pauses
from governor.policy.model.limits import Breaker, Caps
from governor.policy.ports import Policies

_ALL_ACCOUNTS = "ORGANIZATION"
"""The name of the cap of all accounts together. The other caps are named `ACCOUNT#<id>` and
`OWNER#<name>`."""
FREEZE_CHECKED = timedelta(minutes=15)
"""A step that a freeze holds back is checked again after this."""
_SHORTEST_WAIT = timedelta(minutes=1)
_LONGEST_SPACING = timedelta(hours=3)
_CHECKS_IN_TIME_WAITED = 12
"""A step that has waited for hours waits at least a twelfth of that before the next check."""
_SPREAD = timedelta(minutes=10)
"""Steps that wait for the same room are spread over this time."""


def why_paused_or_frozen(
    breaker_store: Breakers, pause_store: Pauses, target: Target, rule: Breaker, now: datetime
) -> str | None:
    """Return why plans of the target may not be carried out now: a pause, else a freeze, as in
    `everything is paused by alice@example.com`. Return `None` if there is neither. `rule` is the
    policy's `breaker`. Raises: CloudError if the table cannot be read."""
    return why_paused(pause_store) or why_frozen_by_breaker(breaker_store, target, rule, now)


def why_paused(pause_store: Pauses) -> str | None:
    """Return who paused everything, and why, as in `everything is paused by alice@example.com`;
    `None` if nothing is paused. Raises: CloudError if the pause cannot be read."""
    pause = pause_store.pause()
    if pause is None:
        return None
    return f"everything is {pause.why}"


def why_frozen_by_breaker(
    breaker_store: Breakers, target: Target, rule: Breaker, now: datetime
) -> str | None:
    """Return why a breaker freezes plans of the target, its own or the one over all targets, as a
    text that begins with `plans are frozen: `. Return `None` if neither does. `rule` is the
    policy's `breaker`. Raises: CloudError if a breaker cannot be read."""
    why = why_frozen(breaker_store.breaker(target), breaker_store.hub(), now, rule)
    if why is None:
        return None
    return f"plans are frozen: {why}"


def wait_before_next_check(wait: timedelta, waited: timedelta) -> timedelta:
    """Return how long a step or a question waits for its next check: the longest of `wait`, a
    minute, and a twelfth of the time that it has `waited` already, which counts up to 3 hours.

    Without longer waits, a week of checks would pass the 25,000 events that the history of an
    execution may have (`tests/unit/template/test_history.py`).
    """
    return max(wait, _SHORTEST_WAIT, min(_LONGEST_SPACING, waited / _CHECKS_IN_TIME_WAITED))


def caps_of(account: str, owner: str, caps: Caps) -> Mapping[str, int]:
    """Return the caps that count an action in this account on an instance of this owner: by the
    name of each cap, such as `ACCOUNT#123456789012`, how many actions in 60 minutes it allows."""
    names = (_ALL_ACCOUNTS, f"ACCOUNT#{account}", f"OWNER#{owner}")
    return {cap: _actions_allowed(caps, cap) for cap in names}


def _actions_allowed(caps: Caps, cap: str) -> int:
    """Return how many actions in 60 minutes the cap of this name allows."""
    allowed: int = getattr(caps, _setting(cap))
    return allowed


def _setting(cap: str) -> str:
    """Return the setting of `caps` for the cap of this name: `account_actions_per_hour` for
    `ACCOUNT#123456789012`."""
    kind = cap.partition("#")[0]
    return f"{kind.lower()}_actions_per_hour"


def cap_reached_text(cap: str, most: int) -> str:
    """Return the text that the cap of this name, which allows `most` actions, is reached. The name
    is `OWNER#alice`, `ACCOUNT#123456789012`, or that of the cap of all accounts."""
    kind, _, name = cap.partition("#")
    whose = "for all accounts"
    if kind == "ACCOUNT":
        whose = f"for account {name}"
    elif kind == "OWNER":
        whose = f"for the owner {name}"
    return (
        f"the cap of {most} stops and terminations in 60 minutes {whose} has been reached "
        f"(caps.{_setting(cap)})"
    )


def wait_for_room(room_at: UtcDatetime | None, now: datetime, execution_name: str) -> timedelta:
    """Return how long a step waits for room under a cap: until `room_at`, when enough actions have
    left the window, and up to 10 minutes more by the hash of its `execution_name`, so that not all
    steps come at once.

    `room_at` is `None` if waiting does not help, since the cap is 0. The step is then checked again
    after `FREEZE_CHECKED`.
    """
    if room_at is None:
        # The cap is 0, so only a change of the policy makes room.
        return FREEZE_CHECKED
    # A CRC-32 has 32 bits, so this is at least 0 and less than 1.
    share_of_spread = zlib.crc32(execution_name.encode()) / 2**32
    return max(room_at - now, timedelta(0)) + _SPREAD * share_of_spread


class StandingFreeze(NamedTuple):
    """A pause or a freeze that holds plans back now."""

    place: str
    """`everything`, or account and Region, as in `123456789012/us-east-1`."""
    why: str
    since: UtcDatetime | None
    """When it began; `None` if no sweep has recorded that yet."""


class CapUse(NamedTuple):
    """How much of one cap is used."""

    cap: str
    """Its name: `ORGANIZATION`, `ACCOUNT#<id>` or `OWNER#<name>`."""
    used: int
    """How many stops and terminations began in the last 60 minutes."""
    most: int
    """How many may begin in 60 minutes."""


@dataclass(frozen=True, slots=True)
class ShowLimits:
    """Lists what is frozen, and how much of each cap is used."""

    breaker_store: Breakers
    pause_store: Pauses
    cap_store: ActionCaps
    policies: Policies
    clock: Clock

    def freezes(self, targets: Sequence[Target]) -> list[StandingFreeze]:
        """Return the pause, if there is one, then each freeze: of everything, then of these
        targets. Return an empty list if nothing is paused or frozen. Raises: CloudError."""
        pause = self.pause_store.pause()
        if pause is None:
            return self._by_breakers(targets)
        paused = StandingFreeze("everything", pause.why, pause.at)
        return [paused, *self._by_breakers(targets)]

    def _by_breakers(self, targets: Sequence[Target]) -> list[StandingFreeze]:
        """Return the freeze of everything, and the freeze of each of these targets; empty if there
        are none. A freeze that the policy has lifted is left out. A breaker that would freeze
        everything now counts, too, even if no sweep has recorded that. Raises: CloudError."""
        rule = self.policies.base().policy.breaker
        now = self.clock.now()
        hub = self.breaker_store.hub()
        freezes: list[StandingFreeze] = []
        why = why_frozen(None, hub, now, rule)
        if why:
            freezes.append(StandingFreeze("everything", why, _tripped_at(hub.freeze)))
        for target, breaker in self.breaker_store.breakers(targets).items():
            # An empty hub, as the freeze of everything is in the list already.
            why = why_frozen(breaker, Hub(), now, rule)
            if why:
                freezes.append(StandingFreeze(str(target), why, _tripped_at(breaker)))
        return freezes

    def caps(self) -> list[CapUse]:
        """Return the use of the cap of all accounts, also if it is not used, then of each cap of an
        account or an owner under which an action of the last 60 minutes counts. Raises:
        CloudError."""
        return used_caps(self.cap_store, self.policies.base().policy.caps, self.clock.now())


def used_caps(cap_store: ActionCaps, caps: Caps, now: datetime) -> list[CapUse]:
    """Return the use of the cap of all accounts, also if it is not used, then of each other cap
    under which an action of the last 60 minutes counts, in order of their names. Raises: CloudError
    if a count cannot be read."""
    used = {_ALL_ACCOUNTS: 0, **cap_store.used(now)}
    in_order = sorted(used, key=lambda cap: (cap != _ALL_ACCOUNTS, cap))
    return [CapUse(cap, used[cap], _actions_allowed(caps, cap)) for cap in in_order]


def _tripped_at(breaker: BreakerState | None) -> UtcDatetime | None:
    """Return when the breaker tripped; `None` if it is not tripped."""
    if breaker is None:
        return None
    return breaker.tripped_at
