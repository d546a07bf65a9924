"""Schedule of a question: asked, repeated and given up, never in the quiet hours of those who are
asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from governor.domain.policy.contacts import Contact, Weekday
from governor.domain.policy.policy import ApprovalRule
from governor.domain.units import UtcDatetime

_WEEK = tuple(Weekday)
_MIDNIGHT = "24:00"
_A_WEEK = timedelta(days=8)
_LONGEST_OPEN = timedelta(days=29)
"""The key of its link is accepted for 30 days at least; somebody who works one day a week gets less
time."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The times of a question, as planned when it was opened; each is after the one before."""

    ask_at: UtcDatetime
    remind_at: UtcDatetime
    escalate_at: UtcDatetime
    expire_at: UtcDatetime


def schedule(
    now: UtcDatetime, rule: ApprovalRule, asked: Sequence[Contact], escalated: Sequence[Contact]
) -> Schedule:
    """Return when each stage begins: when its time has come and its people work. The expiry, too,
    falls into working hours: time in which nobody could answer does not run out on anybody."""
    ask_at = next_working(now, asked)
    latest = now + _LONGEST_OPEN
    remind_at = next_working(ask_at + timedelta(minutes=rule.remind_after_minutes), asked)
    escalate_at = next_working(
        remind_at + timedelta(minutes=rule.escalate_after_minutes), (*asked, *escalated)
    )
    expire_at = next_working(
        escalate_at + timedelta(minutes=rule.expire_after_minutes), (*asked, *escalated)
    )
    return Schedule(
        *(min(moment, latest) for moment in (ask_at, remind_at, escalate_at, expire_at))
    )


def next_working(moment: UtcDatetime, contacts: Sequence[Contact]) -> UtcDatetime:
    """Return the moment, or when all of them next work; without such an hour in a week, the first
    of them."""
    candidate = moment
    while candidate - moment < _A_WEEK:
        latest = max((_next_working(candidate, contact) for contact in contacts), default=candidate)
        if latest == candidate:
            return candidate
        candidate = latest
    return min(_next_working(moment, contact) for contact in contacts)


def next_morning(now: UtcDatetime, zone: str, days: Sequence[Weekday], begins: str) -> UtcDatetime:
    """Return when the next working day after today begins there: at 09:00 where the day has no
    beginning."""
    today = now.astimezone(ZoneInfo(zone)).date()
    following = (today + timedelta(days=offset) for offset in range(1, 8))
    day = next(day for day in following if _WEEK[day.weekday()] in days)
    hour = time(9) if begins == "00:00" else time.fromisoformat(begins)
    return datetime.combine(day, hour, tzinfo=ZoneInfo(zone)).astimezone(UTC)


def _next_working(moment: UtcDatetime, contact: Contact) -> UtcDatetime:
    zone = ZoneInfo(contact.time_zone)
    first = moment.astimezone(zone).date()
    # Eight days: the same weekday of next week may be the only one.
    for offset in range(8):
        day = first + timedelta(days=offset)
        if _WEEK[day.weekday()] not in contact.working_days:
            continue
        start = datetime.combine(
            day, time.fromisoformat(contact.working_from), tzinfo=zone
        ).astimezone(UTC)
        until = contact.working_until
        last = day + timedelta(days=1) if until == _MIDNIGHT else day
        clock = time(0) if until == _MIDNIGHT else time.fromisoformat(until)
        if moment < datetime.combine(last, clock, tzinfo=zone).astimezone(UTC):
            return max(moment, start)
    raise AssertionError("a contact works on at least one day of the week")
