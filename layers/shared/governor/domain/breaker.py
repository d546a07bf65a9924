"""The breaker: when an unusual share of a fleet turns idle or silent at once, something else is wrong.

Pure: from what changed in one sweep to the reason for a freeze, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from governor.domain.policy import Breaker
from governor.domain.verdict import WORKING, VerdictKind

_IDLE = (VerdictKind.IDLE, VerdictKind.MANAGED_ELSEWHERE, VerdictKind.FROZEN)


@dataclass(frozen=True, slots=True)
class Change:
    """One instance between two sweeps. `was_read`: its metrics were read in this sweep, and it worked."""

    before: VerdictKind | None
    after: VerdictKind
    was_read: bool


@dataclass(frozen=True, slots=True)
class SweepDay:
    """The most that turned idle, and the most that fell silent, in one sweep of a day (UTC)."""

    day: date
    most_idle: int
    most_silent: int


@dataclass(frozen=True, slots=True)
class Turned:
    """One sweep in numbers.

    `idle` of those that `worked` at the sweep before; `silent` of those that had data then and were `heard`
    in this one: skipped ones tell nothing.
    """

    worked: int
    idle: int
    heard: int
    silent: int


def count_turned(changes: Sequence[Change]) -> Turned:
    """What changed since the sweep before."""
    worked = [change for change in changes if change.before in WORKING]
    heard = [change for change in changes if change.was_read and change.before in (*WORKING, *_IDLE)]
    return Turned(
        worked=len(worked),
        idle=sum(change.after in _IDLE for change in worked),
        heard=len(heard),
        silent=sum(change.after is VerdictKind.NO_DATA for change in heard),
    )


def assess(turned: Turned, rule: Breaker, history: Sequence[SweepDay] = ()) -> str | None:
    """Why plans must freeze, or `None`: so large a share of the fleet, or far more than any sweep has seen.

    `history` are the days before; what they hold is compared only when they are enough to know the fleet by.
    """
    idle, silent = turned.idle, turned.silent
    if idle >= rule.minimum_instances and 100 * idle >= rule.turned_idle_percent * turned.worked:
        return f"{idle} of {turned.worked} working instances turned idle in one sweep"
    if is_outage(silent, turned.heard, rule):
        return f"{silent} of {turned.heard} instances that published metrics fell silent in one sweep"
    if len(history) < rule.history_days_needed:
        return None
    usual_idle = max(day.most_idle for day in history)
    usual_silent = max(day.most_silent for day in history)
    known = f"; the most in a sweep of the last {len(history)} days was"
    if _is_unusual(idle, usual_idle, rule):
        return f"{idle} of {turned.worked} working instances turned idle in one sweep{known} {usual_idle}"
    if _is_unusual(silent, usual_silent, rule):
        return (
            f"{silent} of {turned.heard} instances that published metrics fell silent in one sweep"
            f"{known} {usual_silent}"
        )
    return None


def _is_unusual(count: int, usual: int, rule: Breaker) -> bool:
    """The largest of many sweeps is a bound that the next one seldom passes, whatever their distribution."""
    times = rule.unusual_times_the_most
    return times is not None and count >= rule.minimum_instances and count > times * usual


def remember(history: Sequence[SweepDay], today: date, turned: Turned, rule: Breaker) -> tuple[SweepDay, ...]:
    """The history with this sweep in it, oldest day first. What froze the plans is learnt, too: should it
    come again it is known, and the shares still hold.
    """
    first = today - timedelta(days=rule.history_days)
    days = {one.day: one for one in history if first <= one.day <= today}
    known = days.get(today, SweepDay(today, 0, 0))
    days[today] = SweepDay(today, max(known.most_idle, turned.idle), max(known.most_silent, turned.silent))
    return tuple(days[day] for day in sorted(days))


def is_outage(silent: int, whole: int, rule: Breaker) -> bool:
    """Whether so many silent ones of so many have one cause, and not one each."""
    return silent >= rule.minimum_instances and 100 * silent >= rule.turned_silent_percent * whole
