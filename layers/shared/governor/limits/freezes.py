"""Reasons to hold a step back for a while: a pause, a freeze, and the caps of 60 minutes.

This module only reads and counts nothing itself: `limits/store/caps.py` reserves room under a cap.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime
from governor.limits.model.breaker import BreakerState, Hub
from governor.limits.rules.breaker import why_frozen
from governor.limits.store.breaker import Breakers
from governor.limits.store.caps import ActionCaps
from governor.limits.store.pauses import Pauses
from governor.policy.model.brakes import Breaker, Caps
from governor.policy.ports import Policies

_ALL_ACCOUNTS = "ORGANIZATION"
"""The name of the cap of all accounts together. The other caps are named `ACCOUNT#<id>` and
`OWNER#<name>`."""
FREEZE_CHECKED = timedelta(minutes=15)
"""A step that a freeze holds back is checked again after this."""
_SHORTEST_WAIT = timedelta(minutes=1)
_LONGEST_SPACING = timedelta(hours=2)
_SPACING = 12
"""A step that has waited for hours waits at least a twelfth of that before the next check."""
_SPREAD = timedelta(minutes=10)
"""Steps that wait for the same room are spread over this time."""


def why_paused_or_frozen(
    breaker_store: Breakers, pause_store: Pauses, target: Target, rule: Breaker, now: datetime
) -> str | None:
    """Return why plans of the target may not be carried out: a pause or a freeze; `None` if there
    is neither. Raises: CloudError."""
    return why_paused(pause_store) or why_frozen_by_breaker(breaker_store, target, rule, now)


def why_paused(pause_store: Pauses) -> str | None:
    """Return who paused everything, and why; `None` if nothing is paused. Raises: CloudError."""
    pause = pause_store.pause()
    return None if pause is None else f"everything is {pause.why}"


def why_frozen_by_breaker(
    breaker_store: Breakers, target: Target, rule: Breaker, now: datetime
) -> str | None:
    """Return why a breaker freezes plans of the target; `None` if none does. Raises: CloudError."""
    why = why_frozen(breaker_store.breaker(target), breaker_store.hub(), now, rule)
    return None if why is None else f"plans are frozen: {why}"


def spaced(wait: timedelta, waited: timedelta) -> timedelta:
    """Return the time to the next check of a step: at least `wait`, and longer for a step that has
    `waited` for hours.

    Without longer waits, a week of checks would pass the 25,000 events that the history of an
    execution may have (`tests/unit/template/test_history.py`).
    """
    return max(wait, _SHORTEST_WAIT, min(_LONGEST_SPACING, waited / _SPACING))


def caps_of(account: str, owner: str, caps: Caps) -> Mapping[str, int]:
    """Return the caps that count an action in this account on an instance of this owner: by the
    name of each, how many actions it allows."""
    names = (_ALL_ACCOUNTS, f"ACCOUNT#{account}", f"OWNER#{owner}")
    return {cap: getattr(caps, _setting(cap)) for cap in names}


def _setting(cap: str) -> str:
    """Return the setting of `caps` that limits the cap of this name."""
    kind = cap.partition("#")[0]
    return f"{kind.lower()}_actions_per_hour"


def cap_reached(cap: str, most: int) -> str:
    """Return the sentence that the cap of this name is reached, which allows `most` actions."""
    kind, _, name = cap.partition("#")
    whose = "of all accounts"
    if kind == "ACCOUNT":
        whose = f"of account {name}"
    elif kind == "OWNER":
        whose = f"of the owner {name}"
    return (
        f"the cap of {most} stops and terminations in 60 minutes {whose} is reached "
        f"(caps.{_setting(cap)})"
    )


def time_to_room(room_at: UtcDatetime | None, now: datetime, name: str) -> timedelta:
    """Return how long a step waits for room under a cap.

    The step waits until enough actions have left the window (`room_at`), and some more by the hash
    of the execution's `name`, so that not all steps come at once.
    """
    if room_at is None:
        # The cap is 0, so only a change of the policy makes room.
        return FREEZE_CHECKED
    spread = _SPREAD * (zlib.crc32(name.encode()) / 2**32)
    return max(room_at - now, timedelta(0)) + spread


@dataclass(frozen=True, slots=True)
class ShowLimits:
    """Lists what is frozen, and how much of each cap is used."""

    breaker_store: Breakers
    pause_store: Pauses
    cap_store: ActionCaps
    policies: Policies
    clock: Clock

    def freezes(self, targets: Sequence[Target]) -> list[tuple[str, str, UtcDatetime | None]]:
        """Return each freeze: its place (`everything`, or account and Region), its reason, and its
        beginning; `None` if that is not recorded. A pause comes first.

        Return an empty list if nothing is frozen. Raises: CloudError.
        """
        pause = self.pause_store.pause()
        if pause is None:
            return self._by_breakers(targets)
        return [("everything", pause.why, pause.at), *self._by_breakers(targets)]

    def _by_breakers(self, targets: Sequence[Target]) -> list[tuple[str, str, UtcDatetime | None]]:
        """Return the freezes by the breaker over all targets, and by the breaker of each target,
        as `freezes` does."""
        rule = self.policies.base().policy.breaker
        now = self.clock.now()
        hub = self.breaker_store.hub()
        freezes: list[tuple[str, str, UtcDatetime | None]] = []
        why = why_frozen(None, hub, now, rule)
        if why:
            freezes.append(("everything", why, _tripped_at(hub.freeze)))
        for target, breaker in self.breaker_store.breakers(targets).items():
            why = why_frozen(breaker, Hub(), now, rule)
            if why:
                freezes.append((str(target), why, _tripped_at(breaker)))
        return freezes

    def caps(self) -> list[tuple[str, int, int]]:
        """Return the use of each cap, as `used_caps` does. Raises: CloudError."""
        return used_caps(self.cap_store, self.policies.base().policy.caps, self.clock.now())


def used_caps(cap_store: ActionCaps, caps: Caps, now: datetime) -> list[tuple[str, int, int]]:
    """Return each cap that counts actions now: its name, how many actions began in the last 60
    minutes, and how many may begin.

    The cap of all accounts comes first, also if it counts none. Raises: CloudError.
    """
    used = {_ALL_ACCOUNTS: 0, **cap_store.used(now)}
    in_order = sorted(used, key=lambda cap: (cap != _ALL_ACCOUNTS, cap))
    return [(cap, used[cap], getattr(caps, _setting(cap))) for cap in in_order]


def _tripped_at(breaker: BreakerState | None) -> UtcDatetime | None:
    """Return when the breaker tripped; `None` if it is not tripped."""
    return None if breaker is None else breaker.tripped_at
