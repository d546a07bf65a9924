"""The breaker: when an unusual share of a fleet turns idle or silent at once, something else is wrong.

Pure: from what changed in one sweep to the reason for a freeze, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from governor.domain.policy import Breaker
from governor.domain.verdict import VerdictKind

_WORKING = (VerdictKind.BUSY, VerdictKind.PARTLY_IDLE)
_IDLE = (VerdictKind.IDLE, VerdictKind.MANAGED_ELSEWHERE, VerdictKind.FROZEN)


@dataclass(frozen=True, slots=True)
class Change:
    """One instance between two sweeps. `was_read`: its metrics were read in this sweep, and it worked."""

    before: VerdictKind | None
    after: VerdictKind
    was_read: bool


def assess(changes: Sequence[Change], rule: Breaker) -> str | None:
    """Why plans must freeze, or `None`.

    Idle: of all that worked at the last sweep, the share that turned idle in this one. Silent: of those that
    had data and were read now, the share that has none (only those: skipped ones tell nothing).
    """
    worked = [change for change in changes if change.before in _WORKING]
    turned = sum(change.after in _IDLE for change in worked)
    if turned >= rule.minimum_instances and 100 * turned >= rule.turned_idle_percent * len(worked):
        return f"{turned} of {len(worked)} working instances turned idle in one sweep"
    heard = [change for change in changes if change.was_read and change.before in (*_WORKING, *_IDLE)]
    silent = sum(change.after is VerdictKind.NO_DATA for change in heard)
    if is_outage(silent, len(heard), rule):
        return f"{silent} of {len(heard)} instances that published metrics fell silent in one sweep"
    return None


def is_outage(silent: int, whole: int, rule: Breaker) -> bool:
    """Whether so many silent ones of so many have one cause, and not one each."""
    return silent >= rule.minimum_instances and 100 * silent >= rule.turned_silent_percent * whole
