"""Schedule of a question: when it is sent, and the times of its reminder, its escalation and its
expiry, in the working hours that all people who are asked share, if there are any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from governor.core.units import UtcDatetime
from governor.policy.model.acting import ApprovalRule
from governor.policy.model.contacts import Contact, Weekday, WorkingHours

_WEEK = tuple(Weekday)
_MIDNIGHT = "24:00"
SEARCHED_FOR = timedelta(days=8)
"""How far ahead an hour is searched in which all contacts work."""
_LONGEST_OPEN = timedelta(days=29)
"""The key that signs its link is accepted for at least 30 days. Somebody who works one day a week
gets less time to answer."""


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
    """Return the times of a question that is opened `now`: each is the first moment, after the time
    that `rule` sets, at which all of its people work.

    `asked` are the people of the question and its reminder; `escalated` join them at the
    escalation. A question expires in working hours, too, so that somebody could still have
    answered. No time is more than 29 days away.
    """
    ask_at = next_working(now, asked)
    remind_at = next_working(ask_at + timedelta(minutes=rule.remind_after_minutes), asked)
    everybody = (*asked, *escalated)
    escalate_at = next_working(
        remind_at + timedelta(minutes=rule.escalate_after_minutes), everybody
    )
    expire_at = next_working(escalate_at + timedelta(minutes=rule.expire_after_minutes), everybody)
    latest = now + _LONGEST_OPEN
    return Schedule(
        ask_at=min(ask_at, latest),
        remind_at=min(remind_at, latest),
        escalate_at=min(escalate_at, latest),
        expire_at=min(expire_at, latest),
    )


def next_working(moment: UtcDatetime, contacts: Sequence[Contact | WorkingHours]) -> UtcDatetime:
    """Return `moment` if all contacts work then, else the end of their quiet hours: when they next
    all work at the same time.

    If there is no such time within eight days, return when the first of them works. Return `moment`
    if there are no contacts. A contact may be given by its working hours alone.
    """
    candidate = moment
    while candidate - moment < SEARCHED_FOR:
        # Move on to the time at which the last of them begins to work, until all work then.
        latest = max((_next_working(candidate, contact) for contact in contacts), default=candidate)
        if latest == candidate:
            return candidate
        candidate = latest
    return min(_next_working(moment, contact) for contact in contacts)


def next_morning(now: UtcDatetime, zone: str, days: Sequence[Weekday], begins: str) -> UtcDatetime:
    """Return when the next working day after today begins in this time zone, in UTC.

    `days` are the working days, at least one. `begins` is the local time at which they begin,
    `HH:MM`; `00:00` means that none is set, so the day begins at 09:00.
    """
    today = now.astimezone(ZoneInfo(zone)).date()
    next_days = (today + timedelta(days=offset) for offset in range(1, 8))
    day = next(day for day in next_days if _WEEK[day.weekday()] in days)
    hour = time(9) if begins == "00:00" else time.fromisoformat(begins)
    return datetime.combine(day, hour, tzinfo=ZoneInfo(zone)).astimezone(UTC)


def _next_working(moment: UtcDatetime, contact: Contact | WorkingHours) -> UtcDatetime:
    """Return `moment` if the contact works then, else when the contact next begins to work, in the
    contact's time zone. The contact must have at least one working day, as the policy demands."""
    zone = ZoneInfo(contact.time_zone)
    today = moment.astimezone(zone).date()
    # Eight days: the same weekday of next week may be the only one.
    for offset in range(8):
        day = today + timedelta(days=offset)
        if _WEEK[day.weekday()] not in contact.working_days:
            continue
        is_work_ahead = moment < _end_of_work(contact, day, zone)
        if is_work_ahead:
            begins = time.fromisoformat(contact.working_from)
            start = datetime.combine(day, begins, tzinfo=zone).astimezone(UTC)
            return max(moment, start)
    raise AssertionError("a contact works on at least one day of the week")


def _end_of_work(contact: Contact | WorkingHours, day: date, zone: ZoneInfo) -> UtcDatetime:
    """Return when the contact's working hours end on this day, in UTC: at `working_until` in the
    time zone, or at the midnight after the day for `24:00`."""
    if contact.working_until == _MIDNIGHT:
        next_day = day + timedelta(days=1)
        return datetime.combine(next_day, time(0), tzinfo=zone).astimezone(UTC)
    ends = time.fromisoformat(contact.working_until)
    return datetime.combine(day, ends, tzinfo=zone).astimezone(UTC)
