"""Money: Decimal all the way, rounded half up only where it is shown, and unknown is never zero."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.core.episode_ref import EpisodeRef
from governor.core.units import HOURS_PER_MONTH, as_utc, iso, money, parse_iso
from governor.episode.model.episode import Outcome
from governor.episode.model.plan import Saving
from governor.money.model.ledger import LedgerEntry
from governor.money.rules.ledger import is_false_stop, saved_in
from tests.builders import NOW, ago, make_instance

INSTANCE = make_instance()
REF = EpisodeRef("123456789012", "us-east-1", INSTANCE.instance_id, INSTANCE.launch_time, 1)
ENTRY = LedgerEntry(
    episode=REF,
    outcome=Outcome.STOPPED,
    instance_type="g5.xlarge",
    owner="ml-platform",
    project="vision",
    price_source="list price",
    booked_at=ago(hours=10),
    cost_before_usd_per_hour=Decimal("1.10"),
    cost_after_usd_per_hour=Decimal("0.10"),
    saved_usd_per_hour=Decimal("1.00"),
)


def saved_so_far(entry: LedgerEntry, now: datetime) -> Decimal | None:
    """USD saved since the booking, whatever its age."""
    return saved_in(entry, entry.booked_at, now, timedelta(days=3650))


amounts = st.decimals(-100_000, 100_000, places=6)


@pytest.mark.parametrize(
    ("text", "amount", "places"),
    [
        ("1,320.96", "1320.96", 2),
        ("0.01", "0.005", 2),
        ("-0.01", "-0.005", 2),
        ("0.00", "-0.004", 2),
        ("0.00", "0", 2),
        ("1.0060", "1.006", 4),
        ("55", "54.5", 0),
    ],
)
def test_amounts_are_shown_rounded_half_up(text: str, amount: str, places: int) -> None:
    """Commercial rounding, thousands apart, and no minus in front of nothing."""
    assert text == money(Decimal(amount), places)


def test_a_month_has_the_hours_of_the_price_pages() -> None:
    """365 days of 24 hours in twelve months."""
    assert Decimal(365 * 24) / 12 == HOURS_PER_MONTH


@given(amounts, amounts)
def test_saved_is_before_minus_after(before: Decimal, after: Decimal) -> None:
    """To the last digit, an hour and a day."""
    saving = Saving(before, after)

    assert before - after == saving.saved_usd_per_hour
    assert (before - after) * 24 == saving.saved_usd_per_day


@pytest.mark.parametrize(
    ("before", "after"), [(None, Decimal(1)), (Decimal(1), None), (None, None)]
)
def test_unknown_money_is_unknown_and_not_zero(
    before: Decimal | None, after: Decimal | None
) -> None:
    """One unknown figure makes the difference unknown."""
    saving = Saving(before, after)

    assert saving.saved_usd_per_hour is None
    assert saving.saved_usd_per_day is None
    assert saved_so_far(replace(ENTRY, saved_usd_per_hour=None), NOW) is None


def test_a_saving_grows_until_it_ends() -> None:
    """Ten hours at a dollar; then what the end says, whatever time it is."""
    ended = replace(ENTRY, ended_at=ENTRY.booked_at + timedelta(hours=4))

    assert Decimal(10) == saved_so_far(ENTRY, NOW)
    assert Decimal(4) == saved_so_far(ended, NOW)


def test_nothing_is_saved_before_the_booking() -> None:
    """A clock that runs behind books no negative saving."""
    assert Decimal(0) == saved_so_far(ENTRY, ENTRY.booked_at - timedelta(seconds=1))


@given(st.integers(0, 10**12))
def test_time_never_goes_through_a_float(microseconds: int) -> None:
    """A dollar an hour for so many microseconds is exactly that many parts of an hour."""
    now = ENTRY.booked_at + timedelta(microseconds=microseconds)

    assert Decimal(microseconds) / Decimal(3_600_000_000) == saved_so_far(ENTRY, now)


@pytest.mark.parametrize(
    ("expected", "outcome", "minutes"),
    [
        (True, Outcome.STOPPED, 59),
        (True, Outcome.STOPPED, 60),
        (False, Outcome.STOPPED, 61),
        (False, Outcome.TERMINATED, 1),
    ],
)
def test_a_stop_undone_in_time_counts_as_false(
    expected: bool, outcome: Outcome, minutes: int
) -> None:
    """The limit itself still counts; what was terminated cannot be undone."""
    entry = replace(ENTRY, outcome=outcome)

    assert expected is is_false_stop(
        entry, entry.booked_at + timedelta(minutes=minutes), timedelta(minutes=60)
    )


def test_a_time_without_a_zone_is_refused() -> None:
    """It names no moment."""
    with pytest.raises(ValueError, match="time zone"):
        as_utc(datetime(2026, 11, 20, 12))  # noqa: DTZ001 - naive on purpose
    with pytest.raises(ValueError, match="time zone"):
        parse_iso("2026-11-20T12:00:00")


@given(
    st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.timezones())  # noqa: DTZ001 - bounds
)
def test_times_are_written_in_utc_and_read_back(moment: datetime) -> None:
    """Whatever zone they came in; to the second."""
    text = iso(moment)

    assert as_utc(moment).replace(microsecond=0) == parse_iso(text)
    assert text.endswith("Z")
