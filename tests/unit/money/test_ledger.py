"""The ledger: what counts from when, what it is in cash, and what is said of a month that is not
over."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.core.instance import Lifecycle
from governor.core.units import UtcDatetime
from governor.episode.model.plan import Price
from governor.money.model.ledger import Cash
from governor.money.rules.ledger import (
    billed_until,
    cash_of,
    is_provisional,
    saved_in,
    sum_saved,
    working_morning,
)
from governor.policy.model.contacts import Weekday
from tests.builders import NOW, make_entry, make_instance
from tests.unit.aws.state_samples import episode

COUNTS_FOR = timedelta(days=30)
PRICE = Price(Decimal("5.67"), "list price")
NOTHING, WHOLE = Cash(Decimal(0), Decimal(0)), Cash(Decimal("5.67"), Decimal("5.67"))


@pytest.mark.parametrize(
    ("changes", "is_committed", "cash"),
    [
        ({}, True, Cash(Decimal(0), Decimal("5.67"))),
        ({}, False, WHOLE),
        ({"lifecycle": Lifecycle.SPOT}, True, WHOLE),
        ({"lifecycle": Lifecycle.CAPACITY_BLOCK}, False, NOTHING),
        ({"lifecycle": Lifecycle.SCHEDULED}, False, NOTHING),
        ({"host_id": "h-1"}, False, NOTHING),
        ({"capacity_reservation_id": "cr-1"}, False, NOTHING),
    ],
    ids=str,
)
def test_what_is_paid_for_anyway_is_no_cash(
    changes: dict[str, object], is_committed: bool, cash: Cash
) -> None:
    """A reservation is charged whether used or not; of a commitment nobody can tell from here."""
    assert cash == cash_of(make_instance(**changes), PRICE, is_committed=is_committed)


def test_without_a_price_there_is_no_cash() -> None:
    """Unknown is never zero."""
    assert cash_of(make_instance(), Price(None, "unknown"), is_committed=False) is None


# Hypothesis draws naive times alone.
FIRST, LAST = (datetime(year, 1, 1, tzinfo=UTC).replace(tzinfo=None) for year in (2026, 2028))
LAUNCH = datetime(2026, 11, 20, 9, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("platform", "ran", "billed"),
    [
        ("Linux/UNIX", timedelta(seconds=20), timedelta(seconds=60)),
        ("Linux/UNIX", timedelta(seconds=61), timedelta(seconds=61)),
        ("Windows", timedelta(minutes=90), timedelta(minutes=90)),
        ("SUSE Linux", timedelta(seconds=1), timedelta(hours=1)),
        ("SUSE Linux", timedelta(minutes=61), timedelta(hours=2)),
        ("SUSE Linux", timedelta(hours=2), timedelta(hours=2)),
    ],
)
def test_a_start_is_billed_for_at_least_a_minute_or_an_hour(
    platform: str, ran: timedelta, billed: timedelta
) -> None:
    """Nothing is saved before that is over."""
    instance = make_instance(platform=platform, launch_time=LAUNCH)
    assert LAUNCH + billed == billed_until(instance, LAUNCH + ran)

    entry = make_entry(booked_at=LAUNCH + ran, saves_from=LAUNCH + billed, ended_at=LAUNCH + billed)
    assert Decimal(0) == saved_in(entry, LAUNCH, LAUNCH + timedelta(days=1), COUNTS_FOR)


@pytest.mark.parametrize(
    ("at", "morning"),
    [
        ("2026-11-20T02:00", "2026-11-20T08:00"),  # a Friday before its beginning, 09:00 in Berlin
        ("2026-11-20T08:00", "2026-11-23T08:00"),
        ("2026-11-21T12:00", "2026-11-23T08:00"),
        ("2026-03-27T20:00", "2026-03-30T07:00"),  # the clocks went forward on that Sunday
    ],
)
def test_people_would_have_done_it_on_their_next_working_morning(at: str, morning: str) -> None:
    """Later the same day, or after the weekend."""
    days = tuple(Weekday)[:5]
    berlin = replace(
        episode(1, "approval-1", "i-1"),
        asking=replace(
            episode(1, "approval-1", "i-1").asking,
            time_zone="Europe/Berlin",
            working_days=days,
            working_from="09:00",
        ),
    )
    assert moment(morning) == working_morning(berlin, moment(at))


@pytest.mark.parametrize(
    ("at", "morning"),
    [
        ("2026-03-29T22:30:00Z", "2026-03-30T07:00:00Z"),
        ("2026-03-28T23:30:00Z", "2026-03-29T07:00:00Z"),
        ("2026-10-25T23:30:00Z", "2026-10-26T08:00:00Z"),
        ("2026-10-24T22:30:00Z", "2026-10-25T08:00:00Z"),
    ],
)
def test_a_day_of_23_or_25_hours_skips_no_morning(at: str, morning: str) -> None:
    """The first hour after the day on which the clocks change: the next morning is hours away, and
    a whole day more would overstate the conservative figure."""
    one = episode(1, "approval-1", "i-1")
    asking = replace(one.asking, time_zone="Europe/Berlin", working_days=tuple(Weekday))
    berlin = replace(one, asking=replace(asking, working_from="09:00"))
    assert moment(morning) == working_morning(berlin, moment(at))


def test_what_was_saved_by_the_morning_is_the_conservative_figure() -> None:
    """Two hours of it, where the instance stays away for ten."""
    hours = timedelta(hours=1)
    entry = make_entry(
        booked_at=NOW - 10 * hours,
        morning=NOW - 8 * hours,
        cash_low_usd_per_hour=Decimal("-0.03"),
        cash_high_usd_per_hour=Decimal("4.00"),
    )
    saved = sum_saved([entry], NOW - COUNTS_FOR, NOW, COUNTS_FOR)

    assert Decimal("5.67") * 10 == saved.net_usd
    assert (Decimal("-0.3"), Decimal(40), Decimal("11.34")) == (
        saved.cash_low_usd,
        saved.cash_high_usd,
        saved.by_morning_usd,
    )


def test_an_entry_of_an_earlier_release_may_be_any_cash() -> None:
    """From nothing to the list price; its morning is not known, so it is in no conservative
    figure."""
    saved = sum_saved([make_entry()], NOW - COUNTS_FOR, NOW, COUNTS_FOR)

    assert (Decimal(0), saved.net_usd, Decimal(0)) == (
        saved.cash_low_usd,
        saved.cash_high_usd,
        saved.by_morning_usd,
    )


@given(
    st.datetimes(FIRST, LAST).map(lambda one: one.replace(tzinfo=UTC)),
    st.timedeltas(timedelta(0), timedelta(days=60)),
    st.timedeltas(timedelta(0), timedelta(days=90)),
)
def test_the_months_of_a_saving_add_up_to_it(
    booked: UtcDatetime, lasted: timedelta, later: timedelta
) -> None:
    """Over the ends of months and years, to the last digit an hour can be divided into."""
    entry = make_entry(booked_at=booked, saves_from=booked, ended_at=booked + lasted)
    middle, end = booked + later, booked + timedelta(days=100)
    parts = [saved_in(entry, booked, middle, COUNTS_FOR), saved_in(entry, middle, end, COUNTS_FOR)]
    whole = saved_in(entry, booked, end, COUNTS_FOR)

    assert whole is not None
    assert abs(sum(one for one in parts if one is not None) - whole) < Decimal("1e-12")


def test_a_month_is_provisional_until_the_15th_of_the_next() -> None:
    """Its bill is final by then, as far as bills ever are."""
    assert is_provisional("2026-12", datetime(2027, 1, 14, 23, 59, tzinfo=UTC))
    assert not is_provisional("2026-12", datetime(2027, 1, 15, tzinfo=UTC))


def moment(text: str) -> UtcDatetime:
    """A time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
