"""The day before: since when an instance is idle, told without overstating it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from governor.aws.record_codec import read_all, written
from governor.evidence.model import GpuReadings, Series, Window
from governor.evidence.rules.history import History, IdleSpan, idle_span
from tests.builders import NOW

DAY = Window(NOW - timedelta(hours=24), NOW, timedelta(hours=4))
LONG_AGO = NOW - timedelta(days=9)


def history(*gpus: Series) -> History:
    """One day in six bins."""
    return History(DAY, tuple(GpuReadings(str(n), series) for n, series in enumerate(gpus)))


def test_idle_since_the_end_of_the_last_work_of_any_gpu() -> None:
    """The other GPU's quiet does not count."""
    quiet, worked = (1.0,) * 6, (1.0, 1.0, 5.0, 1.0, 1.0, 1.0)

    span = idle_span(history(quiet, worked), 5.0, LONG_AGO)

    assert IdleSpan(DAY.start + timedelta(hours=12), at_least=False) == span


def test_a_day_without_work_is_at_least_a_day() -> None:
    """More is not known."""
    assert IdleSpan(DAY.start, at_least=True) == idle_span(history((1.0,) * 6), 5.0, LONG_AGO)


def test_nothing_is_idle_before_it_was_launched() -> None:
    """An instance younger than the day has been idle since its start at most, and that is exact."""
    launch = NOW - timedelta(hours=3)

    assert IdleSpan(launch, at_least=False) == idle_span(history((None,) * 5 + (1.0,)), 5.0, launch)


@pytest.mark.parametrize(
    "other", [(1.0,) * 6, (1.0, 1.0, 1.0, None, 1.0, 1.0), (99.0, 99.0, 99.0, None, 1.0, 1.0)]
)
def test_what_lies_before_a_hole_is_not_called_idle(other: Series) -> None:
    """A hole of any GPU, whatever was measured before it: people would be told of idleness that
    nobody saw."""
    holed = (1.0, 1.0, 1.0, None, 1.0, 1.0)

    assert IdleSpan(NOW - timedelta(hours=8), at_least=True) == idle_span(
        history(other, holed), 5.0, LONG_AGO
    )


def test_a_short_hole_is_part_of_an_idle_stretch() -> None:
    """Up to 15 minutes, as for the question itself; one minute more is not."""
    window = Window(NOW - timedelta(hours=1), NOW, timedelta(minutes=5))
    short: Series = (99.0, 1.0, 1.0, None, None, None, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    longer: Series = (99.0, 1.0, None, None, None, None, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)

    def span(series: Series) -> IdleSpan | None:
        return idle_span(History(window, (GpuReadings("0", series),)), 5.0, LONG_AGO)

    assert IdleSpan(NOW - timedelta(minutes=55), at_least=False) == span(short)
    assert IdleSpan(NOW - timedelta(minutes=30), at_least=True) == span(longer)


@pytest.mark.parametrize("series", [(None,) * 6, (-1.0,) * 6, (1.0,) * 5 + (None,)])
def test_nothing_measured_is_nothing_known(series: Series) -> None:
    """Neither work nor idleness follows from silence."""
    assert idle_span(history(series), 5.0, LONG_AGO) is None


def test_a_history_is_written_down_without_loss() -> None:
    """Gaps stay gaps."""
    full = History(
        DAY, (GpuReadings("all", (1.25, None, 99.0, 0.0, 0.0, 0.0)),), (50.0,) * 6, (None,) * 6
    )

    assert [full] == list(read_all(History, [written(full)]))
