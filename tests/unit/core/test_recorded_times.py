"""Recorded texts hold their times in UTC. People read them in their own zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from governor.core.units import in_utc, iso, times_in_zone

NOW = datetime(2026, 11, 27, 12, 2, tzinfo=UTC)
"""A Friday."""


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        (
            "worked until Fri Nov 27, 11:30 UTC",
            "Europe/Berlin",
            "worked until Fri 12:30 Berlin (11:30 UTC)",
        ),
        ("at 2026-11-27T11:30:00Z", "Europe/Berlin", "at Fri 12:30 Berlin (11:30 UTC)"),
        ("at 2026-11-27 11:30 UTC", "Europe/Berlin", "at Fri 12:30 Berlin (11:30 UTC)"),
        ("at 2026-11-27T11:30:00Z", "UTC", "at Fri 11:30 UTC"),
        ("since Mon Dec 31, 23:30 UTC.", "Asia/Tokyo", "since Mon Dec 31, 23:30 UTC."),
        ("i-0123456789abcdef0 of 2026-11-27", "Europe/Berlin", "i-0123456789abcdef0 of 2026-11-27"),
        ("", "Europe/Berlin", ""),
    ],
)
def test_a_recorded_time_is_read_in_the_zone_of_its_reader(
    text: str, zone: str, expected: str
) -> None:
    """December 31 is no Monday of these years: such a text stays as it is."""
    assert expected == times_in_zone(text, zone, NOW)
    assert expected == times_in_zone(expected, zone, NOW)


@pytest.mark.parametrize("days", [-170, -7, 0, 7, 170])
def test_a_time_without_a_year_is_the_nearest_one_of_its_weekday(days: int) -> None:
    """Also over the turn of a year."""
    moment = NOW + timedelta(days=days)

    in_words = times_in_zone(in_utc(moment), "Asia/Tokyo", NOW)
    assert in_words == times_in_zone(iso(moment), "Asia/Tokyo", NOW)
    assert "21:02 Tokyo (12:02 UTC)" in in_words


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize(
    "text",
    [
        "paid until 2028-11-27 09:00 UTC",
        "keep until 9999-12-31T23:59:59Z",
        "idle since 0001-01-01T00:00:00Z",
        "idle since 0000-01-01T00:00:00Z",
    ],
)
def test_a_time_far_away_stays_as_a_person_typed_it(text: str, zone: str) -> None:
    """Seen: the reason of a keep lost its year; with the year 9999, the outcome was never sent."""
    assert text == times_in_zone(text, zone, NOW)
