"""The breakers: when an unusual share of a fleet turns idle or silent at once, something else is
wrong. Pure: from what changed to the reason for a freeze, or none, and to its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from governor.domain.policy.policy import Breaker, Mode, Policy
from governor.domain.sweep.verdict import IDLE, WORKING, YOUNG, VerdictKind
from governor.domain.units import UtcDatetime, parse_iso

_HISTORY, _DAYS_NEEDED = timedelta(days=14), 3
"""The days whose sweeps a sweep is compared with, and how many of them must be known."""


@dataclass(frozen=True, slots=True)
class BreakerState:
    """Freeze of a target's destructive plans: since when and why."""

    tripped_at: UtcDatetime
    why: str
    told_at: UtcDatetime | None = None
    """Time of the last notification; `None` until a channel has accepted the message."""
    turned: int = 0
    """How many instances turned idle or silent at once."""
    held: frozenset[str] = frozenset()
    """Those of them that were not seen at work since, by instance id."""


@dataclass(frozen=True, slots=True)
class Change:
    """One instance between two sweeps. `last_known` is the newest real verdict before: neither a
    failed read nor a keep may hide what an instance turned from. `was_read`: its metrics were read,
    and it worked."""

    instance_id: str
    before: VerdictKind | None
    last_known: VerdictKind | None
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
    """One sweep in numbers: `idle` of those that `worked` before; `silent` of those with data
    before that were `heard` now. `who` turned idle or silent; `unused` are idle and have not worked
    since their start."""

    worked: int
    idle: int
    heard: int
    silent: int
    who: frozenset[str] = frozenset()
    unused: frozenset[str] = frozenset()

    @property
    def counted(self) -> frozenset[str]:
        """Whom the breaker over all targets counts."""
        return self.who | self.unused


def count_turned(changes: Sequence[Change]) -> Turned:
    known = [change for change in changes if change.after is not VerdictKind.NO_DATA]
    worked = [change for change in known if change.last_known in WORKING]
    heard = [change for change in changes if change.was_read and change.before in (*WORKING, *IDLE)]
    idle = {change.instance_id for change in worked if change.after in IDLE}
    silent = {change.instance_id for change in heard if change.after is VerdictKind.NO_DATA}
    unused = {
        change.instance_id
        for change in known
        if change.last_known in YOUNG and change.after in IDLE
    }
    return Turned(
        len(worked), len(idle), len(heard), len(silent), frozenset(idle | silent), frozenset(unused)
    )


def acts_unasked(policy: Policy) -> bool:
    """Return whether it may come to a stop under this policy although nobody has said yes."""
    return policy.mode is Mode.AUTO or (
        policy.mode is Mode.ASK and policy.approval.on_expiry == "act"
    )


def is_cause_gone(turned: int, left: int, rule: Breaker) -> bool:
    """Return whether so many of those that `turned` have worked since, or were put away, that the
    rest may be acted on unasked. The share that trips the breaker also keeps it open."""
    return not _is_share(left, turned, rule.turned_idle_percent, rule)


def is_freeze_over(
    frozen_for: timedelta, turned: int, left: int, rule: Breaker, *, unasked: bool
) -> bool:
    """Return whether plans may go on; never by time alone where some would be acted on
    `unasked`."""
    held_long_enough = frozen_for >= timedelta(minutes=rule.hold_minutes)
    return held_long_enough and (not unasked or is_cause_gone(turned, left, rule))


def assess(turned: Turned, rule: Breaker, history: Sequence[SweepDay] = ()) -> str | None:
    """Return why plans must freeze, or `None`: so large a share of the fleet, or far more than any
    sweep has seen in the days of `history`, if they are enough to know the fleet by."""
    idle, silent, heard = turned.idle, turned.silent, turned.heard
    many_idle = f"{idle} of {turned.worked} working instances turned idle in one sweep"
    many_silent = f"{silent} of {heard} instances that published metrics fell silent in one sweep"
    if _is_share(idle, turned.worked, rule.turned_idle_percent, rule):
        return many_idle
    if is_outage(silent, heard, rule):
        return many_silent
    times = rule.unusual_times_the_most
    if times is None or len(history) < _DAYS_NEEDED:
        return None
    most_idle, most_silent = (
        max(day.most_idle for day in history),
        max(day.most_silent for day in history),
    )
    # The largest of many sweeps is a bound that the next one seldom passes, whatever their
    # distribution.
    for count, most, what in ((idle, most_idle, many_idle), (silent, most_silent, many_silent)):
        if count >= rule.minimum_instances and count > times * most:
            return f"{what}; the most in a sweep of the last {len(history)} days was {most}"
    return None


def remember(history: Sequence[SweepDay], today: date, turned: Turned) -> tuple[SweepDay, ...]:
    """The history with this sweep in it, oldest day first. What froze the plans is learnt, too."""
    first = today - _HISTORY
    days = {one.day: one for one in history if first <= one.day <= today}
    known = days.get(today, SweepDay(today, 0, 0))
    days[today] = SweepDay(
        today, max(known.most_idle, turned.idle), max(known.most_silent, turned.silent)
    )
    return tuple(days[day] for day in sorted(days))


def is_outage(silent: int, whole: int, rule: Breaker) -> bool:
    """Return whether so many silent ones of so many have one cause, and not one each."""
    return _is_share(silent, whole, rule.turned_silent_percent, rule)


def _is_share(count: int, whole: int, percent: float, rule: Breaker) -> bool:
    return count >= rule.minimum_instances and 100 * count >= percent * whole


# The breaker over all accounts and Regions counts by the hour who turned idle or silent and stays
# so. It knows no size of the fleet: what turns at the same hours of other days is usual, far more
# has one cause.

HOUR = timedelta(hours=1)
DAYS_KEPT = 15
"""Days of counts that are compared, so many that holidays hide no habit, and the window before
them."""
_DAYS_COMPARED = 14
_NEW_FOR = timedelta(days=2)
"""One day of counts is no habit yet: a freeze lasts until two are known, and is learnt from until
then."""
_LONG, _SHORT = 12, 2
"""Hours of the two windows: an outage in a quiet hour stands out of the shorter, and not of half a
day."""
_SHIFTS = (-1, 0, 1)
"""Hours by which habits move, as when clocks change."""


@dataclass(frozen=True, slots=True)
class HourCount:
    """How many instances turned in an hour, and how many of them have worked since."""

    turned: int = 0
    back: int = 0

    @property
    def left(self) -> int:
        return max(0, self.turned - self.back)


@dataclass(frozen=True, slots=True)
class Hub:
    """Counts by the hour's begin, and the freeze that stands."""

    hours: Mapping[UtcDatetime, HourCount] = field(default_factory=dict)
    freeze: BreakerState | None = None
    first: UtcDatetime | None = None
    """The hour of the first count, kept when that is forgotten: quiet weeks make nothing new."""


def hour_of(at: datetime) -> UtcDatetime:
    return at.replace(minute=0, second=0, microsecond=0)


def assess_hub(hub: Hub, now: datetime, rule: Breaker) -> tuple[int, str] | None:
    """Return how many turned, and why everything must freeze; `None` when it must not."""
    lifted, this = _lifted(rule, now), hour_of(now)
    for length in (_SHORT, _LONG):
        hours = [this - HOUR * back for back in range(length)]
        counted = [
            hub.hours[one] for one in hours if one in hub.hours and (not lifted or one >= lifted)
        ]
        left = sum(one.left for one in counted)
        if left < rule.hub_minimum_instances:
            continue
        usual = _usual(hub, hours)
        if left > rule.hub_times_the_usual * usual:
            return left, (
                f"{left} instances of all accounts turned idle or silent in {length} h "
                "and have not worked "
                f"since; in the same hours of the two weeks before, {usual} turned at the most"
            )
    return None


def _usual(hub: Hub, hours: list[datetime]) -> int:
    """Return the most that turned in the same hours of one of the days before."""
    turned = {hour: one.turned for hour, one in hub.hours.items()}
    compared = [
        timedelta(days=day) - HOUR * shift
        for day in range(1, _DAYS_COMPARED + 1)
        for shift in _SHIFTS
    ]
    return max(sum(turned.get(hour - back, 0) for hour in hours) for back in compared)


def left_of(hub: Hub, freeze: BreakerState) -> tuple[int, int]:
    """Return how many turned around the time of the freeze, and how many of them have not worked
    since."""
    counted = [hub.hours[hour] for hour in hours_around(hub, freeze)]
    return max(freeze.turned, sum(one.turned for one in counted)), sum(one.left for one in counted)


def still_counted(hub: Hub, now: datetime) -> dict[datetime, int]:
    """Return by the hour how many have not worked since, of those whom a new freeze would count."""
    hours = (hour_of(now) - HOUR * back for back in range(_LONG))
    return {one: hub.hours[one].left for one in hours if one in hub.hours and hub.hours[one].left}


def is_lifted(freeze: BreakerState, rule: Breaker, now: datetime) -> bool:
    lifted = _lifted(rule, now)
    return lifted is not None and freeze.tripped_at < lifted


def _lifted(rule: Breaker, now: datetime) -> UtcDatetime | None:
    """A time to come lifts nothing: it would switch the breakers off."""
    lifted = parse_iso(rule.lift_freezes_before) if rule.lift_freezes_before else None
    return lifted if lifted and lifted <= now else None


def is_new(hub: Hub, now: datetime) -> bool:
    return hub.first is None or now - hub.first < _NEW_FOR


def hours_around(hub: Hub, freeze: BreakerState) -> list[UtcDatetime]:
    tripped = hour_of(freeze.tripped_at)
    first, last = tripped - HOUR * (_LONG - 1), tripped + HOUR * _SHORT
    return [hour for hour in hub.hours if first <= hour <= last]


def is_hub_freeze_over(hub: Hub, freeze: BreakerState, now: datetime, rule: Breaker) -> bool:
    """Return whether plans may be carried out again. Time alone ends no freeze of everything."""
    if is_lifted(freeze, rule, now):
        return True
    # In its first days it cannot know what is usual, and would freeze again at once.
    if is_new(hub, now) or now - freeze.tripped_at < timedelta(minutes=rule.hold_minutes):
        return False
    return assess_hub(hub, now, rule) is None and is_cause_gone(*left_of(hub, freeze), rule)


def why_frozen(own: BreakerState | None, hub: Hub, now: datetime, rule: Breaker) -> str | None:
    """Return why plans of a target are frozen, by its own breaker or by that over all; `None` if
    not."""
    for freeze in (own, hub.freeze):
        if freeze is not None and not is_lifted(freeze, rule, now):
            return freeze.why
    # Counted a moment ago, and no sweep has said so yet.
    found = assess_hub(hub, now, rule)
    return found[1] if found else None
