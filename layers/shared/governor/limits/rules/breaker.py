"""The breakers: they freeze plans when unusually many instances turn idle or silent at once,
because one cause, such as a broken agent, is then likelier than real idleness.

The functions have no side effects: they say why to freeze, or when a freeze ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

from governor.core.units import UtcDatetime, parse_iso
from governor.limits.model.breaker import BreakerState, Change, Hub, SweepDay, Turned
from governor.policy.model.limits import Breaker
from governor.policy.model.policy import Mode, Policy
from governor.verdict.model import IDLE, WORKING, YOUNG, VerdictKind

_HISTORY = timedelta(days=14)
"""A sweep is compared with the sweeps of this time before it."""
_DAYS_NEEDED = 3
"""How many days of that history must be known."""
HOUR = timedelta(hours=1)
DAYS_KEPT = 15
"""How many days of counts are kept: those that are compared, and the window before them."""
_DAYS_COMPARED = 14
"""So many that holidays hide no habit."""
_NEW_FOR = timedelta(days=2)
"""One day of counts is no habit yet: until two are known a freeze lasts, and still counts as
usual."""
_REMIND = timedelta(hours=24)
"""How often people are reminded of a freeze that lasts."""
_LONG_HOURS = 12
"""The hours of the longer window."""
_SHORT_HOURS = 2
"""The hours of the shorter window: an outage in a quiet hour stands out in it, but not in half a
day."""
_SHIFT_HOURS = (-1, 0, 1)
"""Hours by which habits may move, for example when clocks change."""


class ReasonToFreeze(NamedTuple):
    """The reason to freeze everything."""

    turned: int
    """How many instances of all targets turned idle or silent, and have not worked since."""
    why: str
    """The reason as a sentence without a full stop."""


class TurnedAround(NamedTuple):
    """The instances that turned idle or silent around the time of a freeze of everything."""

    turned: int
    left: int
    """How many of them have not worked since."""


def turned_in_sweep(changes: Sequence[Change]) -> Turned:
    """Return how many instances turned idle or silent in this sweep, and which. Without changes all
    numbers are 0. An instance is

    - silent if it worked or was idle before, and its metrics were read now and there were none;
    - idle if it worked when it was last measured, and is idle now;
    - unused if it was too young to be judged when it was last measured, and is idle now.
    """
    worked = 0
    measured = 0
    idle_ids: set[str] = set()
    silent_ids: set[str] = set()
    unused_ids: set[str] = set()
    for change in changes:
        is_silent = change.after is VerdictKind.NO_DATA
        if change.was_read and change.before in (*WORKING, *IDLE):
            measured += 1
            if is_silent:
                silent_ids.add(change.instance_id)
        if is_silent:
            continue
        is_idle = change.after in IDLE
        if change.last_known in WORKING:
            worked += 1
            if is_idle:
                idle_ids.add(change.instance_id)
        if change.last_known in YOUNG and is_idle:
            unused_ids.add(change.instance_id)
    return Turned(
        worked=worked,
        idle=len(idle_ids),
        measured=measured,
        silent=len(silent_ids),
        turned_ids=frozenset(idle_ids | silent_ids),
        unused_ids=frozenset(unused_ids),
    )


def acts_unasked(policy: Policy) -> bool:
    """Return whether this policy may stop an instance although nobody has approved it."""
    if policy.mode is Mode.AUTO:
        return True
    return policy.mode is Mode.ASK and policy.approval.on_expiry == "act"


def is_cause_gone(turned: int, left: int, rule: Breaker) -> bool:
    """Return whether the common cause of a freeze seems gone, so that plans may act unasked again.

    `turned` is how many instances turned idle or silent, `left` how many of them have not worked
    since and are not stopped or terminated. The cause is gone if `left` is too small a share of
    `turned` to trip the breaker (`rule.turned_idle_percent` and `rule.minimum_instances`).
    """
    return not _is_share(left, turned, rule.turned_idle_percent, rule)


def is_freeze_over(
    frozen_for: timedelta, turned: int, left: int, rule: Breaker, *, unasked: bool
) -> bool:
    """Return whether the freeze of a target ends by itself: it has lasted for `rule.hold_minutes`,
    and, if some plans act `unasked`, its cause is gone. `turned` and `left` are those of
    `is_cause_gone`."""
    held_long_enough = frozen_for >= timedelta(minutes=rule.hold_minutes)
    return held_long_enough and (not unasked or is_cause_gone(turned, left, rule))


def why_freeze_target(
    turned: Turned, rule: Breaker, history: Sequence[SweepDay] = ()
) -> str | None:
    """Return why plans of a target must freeze, as a sentence without a full stop; `None` if they
    need not.

    Plans freeze if too large a share of the fleet turned in this sweep, or far more instances than
    in any sweep of `history`. A `history` of fewer than three days is not compared.
    """
    many_idle = f"{turned.idle} of {turned.worked} working instances turned idle in one sweep"
    many_silent = (
        f"{turned.silent} of {turned.measured} instances that published metrics fell silent "
        "in one sweep"
    )
    if _is_share(turned.idle, turned.worked, rule.turned_idle_percent, rule):
        return many_idle
    if is_outage(turned.silent, turned.measured, rule):
        return many_silent
    if len(history) < _DAYS_NEEDED:
        return None
    # The largest of many sweeps is a bound that the next one seldom passes, whatever their
    # distribution.
    most_idle = max(day.most_idle for day in history)
    most_silent = max(day.most_silent for day in history)
    if _is_unusual(turned.idle, most_idle, rule):
        return f"{many_idle}; {_most_before(most_idle, history)}"
    if _is_unusual(turned.silent, most_silent, rule):
        return f"{many_silent}; {_most_before(most_silent, history)}"
    return None


def _is_unusual(count: int, most_before: int, rule: Breaker) -> bool:
    """Return whether `count` is more than `rule.unusual_times_the_most` times `most_before`, the
    most in any earlier sweep.

    Return false for fewer than `rule.minimum_instances`, and if the policy sets no such factor.
    """
    times = rule.unusual_times_the_most
    if times is None or count < rule.minimum_instances:
        return False
    return count > times * most_before


def _most_before(most: int, history: Sequence[SweepDay]) -> str:
    """Return the end of a sentence: `most`, the most instances of one sweep of this history that
    turned idle, or that fell silent."""
    return f"the most in a sweep of the last {len(history)} days was {most}"


def history_with(history: Sequence[SweepDay], today: date, turned: Turned) -> tuple[SweepDay, ...]:
    """Return the history with this sweep added to its day (`today`), oldest day first, without days
    that are more than 14 days old.

    Each day holds the most that turned in one of its sweeps. A sweep that froze the plans is added,
    too.
    """
    first_day = today - _HISTORY
    days: dict[date, SweepDay] = {}
    for known in history:
        if first_day <= known.day <= today:
            days[known.day] = known
    today_before = days.get(today, SweepDay(today, 0, 0))
    days[today] = SweepDay(
        today,
        max(today_before.most_idle, turned.idle),
        max(today_before.most_silent, turned.silent),
    )
    return tuple(days[day] for day in sorted(days))


def is_outage(silent: int, published: int, rule: Breaker) -> bool:
    """Return whether so many of the instances that `published` metrics are silent that they must
    have one cause (`rule.turned_silent_percent`). It is false for fewer than
    `rule.minimum_instances`."""
    return _is_share(silent, published, rule.turned_silent_percent, rule)


def _is_share(count: int, whole: int, percent: float, rule: Breaker) -> bool:
    """Return whether `count` is at least this many percent of `whole`, and at least
    `rule.minimum_instances`."""
    return count >= rule.minimum_instances and 100 * count >= percent * whole


def hour_of(at: datetime) -> UtcDatetime:
    """Return the start of the clock hour of this time."""
    return at.replace(minute=0, second=0, microsecond=0)


def why_freeze_everything(hub: Hub, now: datetime, rule: Breaker) -> ReasonToFreeze | None:
    """Return how many instances turned, and why everything must freeze; `None` if nothing need
    freeze.

    Everything freezes if, in the last 2 or the last 12 hours, at least `rule.hub_minimum_instances`
    turned and have not worked since, and that is more than `rule.hub_times_the_usual` times the
    most that turned in the same hours of one of the last 14 days. Hours that began before
    `rule.lift_freezes_before` are not counted.
    """
    lifted = _lifts_freezes_before(rule, now)
    for length in (_SHORT_HOURS, _LONG_HOURS):
        hours = _hours_up_to(now, length)
        left = _left_since(hub, hours, lifted)
        if left < rule.hub_minimum_instances:
            continue
        usual = _usual(hub, hours)
        if left > rule.hub_times_the_usual * usual:
            why = (
                f"{left} instances in all accounts turned idle or silent within {length} h and "
                "have not worked since; the most in the same hours of any day of the last two "
                f"weeks was {usual}"
            )
            return ReasonToFreeze(left, why)
    return None


def _hours_up_to(now: datetime, length: int) -> list[UtcDatetime]:
    """Return the starts of the last `length` hours, newest first, beginning with this hour."""
    this_hour = hour_of(now)
    return [this_hour - HOUR * hours_ago for hours_ago in range(length)]


def _left_since(hub: Hub, hours: list[UtcDatetime], since: UtcDatetime | None) -> int:
    """Return how many instances turned in these hours and have not worked since.

    Hours that began before `since` do not count; `None` means that all count.
    """
    left = 0
    for hour in hours:
        is_too_early = since is not None and hour < since
        if hour in hub.hours and not is_too_early:
            left += hub.hours[hour].left
    return left


def _usual(hub: Hub, hours: list[datetime]) -> int:
    """Return the most instances that turned in all of these hours together on any of the last 14
    days, at the same time or an hour earlier or later; 0 if none did."""
    turned_by_hour = {hour: count.turned for hour, count in hub.hours.items()}
    usual = 0
    for day in range(1, _DAYS_COMPARED + 1):
        for shift_hours in _SHIFT_HOURS:
            earlier_by = timedelta(days=day) - HOUR * shift_hours
            turned = sum(turned_by_hour.get(hour - earlier_by, 0) for hour in hours)
            usual = max(usual, turned)
    return usual


def turned_around(hub: Hub, freeze: BreakerState) -> TurnedAround:
    """Return how many instances turned from 11 hours before this freeze of everything to 2 hours
    after it, and how many of them have not worked since. The first is no less than the number that
    the freeze itself counted."""
    counts = [hub.hours[hour] for hour in hours_around(hub, freeze)]
    turned = sum(count.turned for count in counts)
    left = sum(count.left for count in counts)
    return TurnedAround(max(freeze.turned, turned), left)


def counted_by_new_freeze(hub: Hub, now: datetime) -> dict[datetime, int]:
    """Return how many instances a freeze that begins at `now` would count, by the start of the hour
    in which they turned: those of the last 12 hours that have not worked since. Hours without such
    instances are left out; empty if there are none."""
    left_by_hour: dict[datetime, int] = {}
    for hour in _hours_up_to(now, _LONG_HOURS):
        if hour in hub.hours and hub.hours[hour].left:
            left_by_hour[hour] = hub.hours[hour].left
    return left_by_hour


def is_lifted_by_policy(freeze: BreakerState, rule: Breaker, now: datetime) -> bool:
    """Return whether the policy has lifted this freeze: it began before `rule.lift_freezes_before`,
    and that time has come."""
    lifted_before = _lifts_freezes_before(rule, now)
    return lifted_before is not None and freeze.tripped_at < lifted_before


def _lifts_freezes_before(rule: Breaker, now: datetime) -> UtcDatetime | None:
    """Return the time before which the policy lifts freezes; `None` if it names none, or one in the
    future."""
    if not rule.lift_freezes_before:
        return None
    lifted_before = parse_iso(rule.lift_freezes_before)
    # A time in the future lifts nothing: it would switch the breakers off.
    if lifted_before > now:
        return None
    return lifted_before


def are_counts_new(hub: Hub, now: datetime) -> bool:
    """Return whether the counts over all targets are too young to show what is usual: fewer than
    two days old, or there are none."""
    return hub.first is None or now - hub.first < _NEW_FOR


def hours_around(hub: Hub, freeze: BreakerState) -> list[UtcDatetime]:
    """Return the starts of the counted hours whose instances may have caused this freeze of
    everything, or turned soon after it: from 11 hours before the hour of the freeze to 2 hours
    after it; empty if there are none."""
    tripped_hour = hour_of(freeze.tripped_at)
    first = tripped_hour - HOUR * (_LONG_HOURS - 1)
    last = tripped_hour + HOUR * _SHORT_HOURS
    return [hour for hour in hub.hours if first <= hour <= last]


def is_hub_freeze_over(hub: Hub, freeze: BreakerState, now: datetime, rule: Breaker) -> bool:
    """Return whether the freeze of everything ends: the policy has lifted it, or it has lasted for
    `rule.hold_minutes`, the counts would not freeze everything again, and its cause is gone. While
    the counts are too young to show what is usual, only the policy ends it."""
    if is_lifted_by_policy(freeze, rule, now):
        return True
    if are_counts_new(hub, now):
        # The breaker cannot know yet how many are usual, and would freeze again at once.
        return False
    if now - freeze.tripped_at < timedelta(minutes=rule.hold_minutes):
        return False
    if why_freeze_everything(hub, now, rule) is not None:
        return False
    around = turned_around(hub, freeze)
    return is_cause_gone(around.turned, around.left, rule)


def due_message(freeze: BreakerState, now: datetime) -> int | None:
    """Return the number of the message about this freeze that is due now: 0 for the first one, 1 or
    more for a reminder, which is due once a day. Return `None` if people were notified within the
    last day."""
    if freeze.told_at is None:
        return 0
    if now - freeze.told_at < _REMIND:
        return None
    return max(1, (now - freeze.tripped_at) // _REMIND)


def why_frozen(
    target_freeze: BreakerState | None, hub: Hub, now: datetime, rule: Breaker
) -> str | None:
    """Return why plans of a target are frozen, by the `target_freeze` or by the freeze of
    everything, or because the newest counts of the `hub` demand one; `None` if they are not frozen.

    `target_freeze` is `None` if the breaker of the target is not tripped. A freeze that the policy
    has lifted does not count.
    """
    for freeze in (target_freeze, hub.freeze):
        if freeze is not None and not is_lifted_by_policy(freeze, rule, now):
            return freeze.why
    # The newest counts may already be too many, before a sweep has recorded the freeze.
    reason = why_freeze_everything(hub, now, rule)
    if reason is None:
        return None
    return reason.why
