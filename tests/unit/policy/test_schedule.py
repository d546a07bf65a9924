"""Nobody is asked in their quiet hours, and no time runs out in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.policy.model.acting import ApprovalRule
from governor.policy.model.contacts import Contact, Weekday
from governor.policy.rules.schedule import next_morning, next_working, schedule

OFFICE = Contact(
    emails=("a@example.com",),
    time_zone="Europe/Berlin",
    working_days=(Weekday.MON, Weekday.TUE, Weekday.WED, Weekday.THU, Weekday.FRI),
    working_from="09:00",
    working_until="18:00",
)
TOKYO = Contact(
    emails=("b@example.com",), time_zone="Asia/Tokyo", working_from="09:00", working_until="18:00"
)
WEEKDAYS = OFFICE.working_days
ALWAYS = Contact(emails=("c@example.com",))


def at(text: str) -> datetime:
    """A moment in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("2026-11-20T12:00", "2026-11-20T12:00"),  # a Friday, at work
        ("2026-11-20T07:59", "2026-11-20T08:00"),  # before nine in Berlin
        ("2026-11-20T17:00", "2026-11-23T08:00"),  # the week is over at six
        ("2026-11-21T12:00", "2026-11-23T08:00"),  # a Saturday
        ("2026-03-29T12:00", "2026-03-30T07:00"),  # the day summer time begins
        ("2026-10-24T12:00", "2026-10-26T08:00"),  # the weekend it ends
    ],
)
def test_a_question_waits_for_working_hours(moment: str, expected: str) -> None:
    """Hours of the time zone of those who are asked."""
    assert at(expected) == next_working(at(moment), (OFFICE,))


LONDON = Contact(
    emails=("d@example.com",),
    time_zone="Europe/London",
    working_from="09:00",
    working_until="17:00",
)


def test_of_several_the_hour_in_which_all_work_is_waited_for() -> None:
    """Nobody gets a message at night because a colleague elsewhere is at work."""
    assert at("2026-11-23T09:00") == next_working(at("2026-11-20T18:00"), (OFFICE, LONDON))


def test_where_all_never_work_at_once_the_first_is_waited_for() -> None:
    """Berlin's office ends before Tokyo's morning begins, and Tokyo's evening before Berlin's nine
    o'clock."""
    late = Contact(
        emails=("e@example.com",),
        time_zone="Asia/Tokyo",
        working_from="09:00",
        working_until="12:00",
    )
    assert at("2026-11-21T00:00") == next_working(at("2026-11-20T20:00"), (OFFICE, late))


@pytest.mark.parametrize("contacts", [(), (ALWAYS,)])
def test_without_quiet_hours_nothing_waits(contacts: tuple[Contact, ...]) -> None:
    """Nobody known, or somebody who always is at work."""
    planned = schedule(at("2026-11-21T03:00"), ApprovalRule(), contacts, ())
    hours = [
        (moment - planned.ask_at) / timedelta(hours=1)
        for moment in (planned.ask_at, planned.remind_at, planned.escalate_at, planned.expire_at)
    ]
    assert (at("2026-11-21T03:00"), [0, 4, 8, 24]) == (planned.ask_at, hours)


def test_a_weekend_lets_no_question_expire() -> None:
    """Asked on Friday evening: Monday, and every later stage in working hours."""
    planned = schedule(at("2026-11-20T18:00"), ApprovalRule(), (OFFICE,), ())

    assert at("2026-11-23T08:00") == planned.ask_at
    assert at("2026-11-23T12:00") == planned.remind_at
    assert at("2026-11-23T16:00") == planned.escalate_at
    assert at("2026-11-24T08:00") == planned.expire_at


@given(
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31)),  # noqa: DTZ001 - made aware below
    st.sampled_from([OFFICE, TOKYO, ALWAYS]),
)
def test_a_stage_is_never_early_and_never_in_quiet_hours(naive: datetime, contact: Contact) -> None:
    """Whenever it is opened, through every change of the clocks."""
    now = naive.replace(tzinfo=UTC)
    planned = schedule(now, ApprovalRule(), (contact,), ())
    times = [now, planned.ask_at, planned.remind_at, planned.escalate_at, planned.expire_at]

    assert sorted(times) == times
    for moment in times[1:]:
        assert moment == next_working(moment, (contact,))


@pytest.mark.parametrize(
    ("now", "zone", "days", "begins", "morning"),
    [
        ("2026-11-19T12:00", "Europe/Berlin", WEEKDAYS, "08:30", "2026-11-20T07:30"),
        ("2026-11-20T12:00", "Europe/Berlin", WEEKDAYS, "08:30", "2026-11-23T07:30"),
        ("2026-11-20T12:00", "Asia/Tokyo", tuple(Weekday), "00:00", "2026-11-21T00:00"),
        ("2026-11-20T12:00", "UTC", (Weekday.FRI,), "13:00", "2026-11-27T13:00"),
        ("2026-03-28T12:00", "Europe/Berlin", tuple(Weekday), "00:00", "2026-03-29T07:00"),
        ("2026-11-22T23:30", "Europe/Berlin", WEEKDAYS, "00:00", "2026-11-24T08:00"),
    ],
)
def test_the_next_working_morning_is_that_of_the_owner(
    now: str, zone: str, days: tuple[Weekday, ...], begins: str, morning: str
) -> None:
    """The beginning of their next working day, at nine where it has none; also across a change of
    clocks."""
    assert at(morning) == next_morning(at(now), zone, days, begins)


def test_no_question_outlives_the_key_of_its_link() -> None:
    """Whoever works one day a week gets less time, and a link that is good until the end."""
    mondays = Contact(emails=("m@example.com",), working_days=(Weekday.MON,))
    rule = ApprovalRule(
        remind_after_minutes=8_640, escalate_after_minutes=8_640, expire_after_minutes=11_520
    )
    now = at("2026-11-24T12:00")
    planned = schedule(now, rule, (mondays,), ())

    assert now + timedelta(days=29) == planned.expire_at
    assert planned.ask_at <= planned.remind_at <= planned.escalate_at <= planned.expire_at
