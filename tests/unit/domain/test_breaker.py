"""The breaker trips on what looks like an outage, and not on a quiet evening."""

from __future__ import annotations

from governor.domain.breaker import Change, assess
from governor.domain.policy import Breaker
from governor.domain.verdict import VerdictKind as Kind

RULE = Breaker()


def changes(number: int, before: Kind | None, after: Kind, *, was_read: bool = True) -> list[Change]:
    """So many instances that changed alike."""
    return [Change(before, after, was_read)] * number


def test_half_the_working_fleet_turning_idle_at_once_trips() -> None:
    """An agent that reports zeros looks like this."""
    fleet = changes(5, Kind.BUSY, Kind.IDLE) + changes(5, Kind.BUSY, Kind.BUSY)

    assert assess(fleet, RULE) is not None
    assert assess(fleet + changes(1, Kind.BUSY, Kind.BUSY), RULE) is None


def test_a_handful_never_trips() -> None:
    """Four notebooks in the evening are no outage."""
    assert assess(changes(4, Kind.BUSY, Kind.IDLE), RULE) is None


def test_a_first_sweep_over_a_neglected_fleet_does_not_trip() -> None:
    """Nothing turned idle: it was so before anybody looked."""
    assert assess(changes(50, None, Kind.IDLE), RULE) is None


def test_silence_is_counted_among_those_that_were_read() -> None:
    """Skipped instances tell nothing about an outage."""
    silent = changes(5, Kind.BUSY, Kind.NO_DATA)
    skipped = changes(500, Kind.BUSY, Kind.BUSY, was_read=False)

    assert assess(silent + skipped, RULE) is not None
    assert assess(silent + changes(6, Kind.BUSY, Kind.BUSY), RULE) is None
