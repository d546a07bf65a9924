"""The readings that a row keeps, and the part of the costs that a verdict belongs to."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from governor.evidence.model import Evidence, GpuReadings, MetricSource, Series, Window
from governor.fleet.model import HOURS, NOT_MEASURED, Hours, hours_of, part_of
from governor.verdict.model import VerdictKind
from tests.builders import NOW


def read(end: datetime, *gpus: Series, minutes: int = 5, aggregate: Series = ()) -> Evidence:
    """The evidence of some GPUs up to this moment."""
    period = timedelta(minutes=minutes)
    window = Window(end - period * len(gpus[0]), end, period)
    readings = tuple(GpuReadings(str(index), series) for index, series in enumerate(gpus))
    return Evidence(window, MetricSource.PER_GPU, readings, aggregate)


def at(hour: int, minute: int = 0) -> datetime:
    """On the day of the sweep."""
    return NOW.replace(hour=hour, minute=minute, second=0, microsecond=0)


def newest(hours: Hours, count: int) -> Hours:
    """The newest of them; there must be a day's worth."""
    assert HOURS == len(hours)
    return hours[-count:]


def test_the_highest_reading_of_any_gpu_counts_for_its_hour() -> None:
    """A window that spans two hours fills both; a hole, -1 and NaN measure nothing."""
    evidence = read(at(12, 10), (3.4, *[1.0] * 9, -1.0, float("nan")), (*[None] * 10, 96.6, 2.0))

    assert (None, 3, 97) == newest(hours_of(NOT_MEASURED, 0, [evidence], at(12, 12)), 3)


def test_the_aggregate_counts_beside_the_gpus() -> None:
    """As it does in a verdict."""
    evidence = read(at(12, 10), (1.0, 1.0), aggregate=(80.0, 1.0))

    assert (80,) == newest(hours_of(NOT_MEASURED, 0, [evidence], at(12, 12)), 1)


def test_hours_are_carried_over_and_pass() -> None:
    """Hours that were not read again stay; older ones than a day go."""
    past = tuple(range(HOURS))

    assert past == hours_of(past, 0, [], at(12))
    assert (*range(3, HOURS), None, None, None) == hours_of(past, 3, [], at(15))
    assert NOT_MEASURED == hours_of(past, HOURS, [], at(12))


def test_an_hour_read_in_parts_keeps_its_highest_reading() -> None:
    """Five minutes of a lower reading take nothing back."""
    morning = hours_of(NOT_MEASURED, 0, [read(at(12, 10), (70.0, 60.0))], at(12, 12))

    assert (70,) == newest(hours_of(morning, 0, [read(at(12, 20), (5.0, 5.0))], at(12, 22)), 1)


def test_a_longer_window_fills_the_hours_before() -> None:
    """The proof of a question looks back for hours; what lies before a day is left out."""
    long = read(at(12), tuple(float(hour) for hour in range(30)), minutes=60)

    assert (*range(7, 30), None) == hours_of(NOT_MEASURED, 0, [long], at(12, 2))


@pytest.mark.parametrize("kind", VerdictKind)
def test_every_verdict_has_its_part(kind: VerdictKind) -> None:
    """Frozen and managed ones are idle. What is kept was idle before; what is exempt may never
    be."""
    parts = {
        "used": {"busy", "partly-idle"},
        "idle": {"idle", "managed-elsewhere", "frozen"},
        "kept": {"snoozed"},
        "unmeasured": {"no-data", "too-young", "exempt"},
    }

    assert kind in parts[part_of(kind)]
    assert "unmeasured" == part_of(None)
