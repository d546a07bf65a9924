"""Readings are found again, exactly, and nothing else is."""

from __future__ import annotations

from datetime import timedelta
from math import isnan
from pathlib import Path

import pytest

from governor.core.instance import Target
from governor.evidence.model import Window
from governor.evidence.ports import MetricQuery
from simulation.recording import PERIOD
from simulation.store import SeriesStore, StoreError
from tests.builders import TARGET
from tests.unit.simulation.builders import START, anywhere

WINDOW = Window(START, START + 3 * PERIOD, PERIOD)
DIMENSIONS = (("InstanceId", "i-1"),)
QUERY = MetricQuery("a", "GPU/EC2", "utilization", DIMENSIONS, "Maximum")
SILENT = MetricQuery("b", "GPU/EC2", "power", DIMENSIONS, "Maximum")


def test_what_was_put_in_is_there_after_it_was_opened_anew(tmp_path: Path) -> None:
    """With its holes; a series that published nothing is known to be silent."""
    path = tmp_path / "new" / "series.sqlite"
    store = SeriesStore(path, anywhere)
    store.put(TARGET, [QUERY, SILENT], WINDOW, {"a": (1.5, None, 0.1)})
    store.close()

    store = SeriesStore(path, anywhere)
    assert [] == store.missing(TARGET, [QUERY, SILENT], WINDOW)
    silent, (first, hole, last) = store.get(TARGET, [SILENT, QUERY], WINDOW)
    assert (1.5, True, 0.1) == (first, isnan(hole), last)
    assert [True] * 3 == [isnan(value) for value in silent]
    store.close()


def test_silence_is_asked_about_again_where_it_is_not_believed(tmp_path: Path) -> None:
    """Published readings stay known."""
    store = SeriesStore(tmp_path / "series.sqlite", anywhere)
    store.put(TARGET, [QUERY, SILENT], WINDOW, {"a": (1.5, None, 0.1)})

    assert [SILENT] == store.missing(
        TARGET, [QUERY, SILENT], WINDOW, believes_silence=lambda _: False
    )
    store.put(TARGET, [SILENT], WINDOW, {"b": (2.0, 2.0, 2.0)})
    assert [] == store.missing(TARGET, [QUERY, SILENT], WINDOW, believes_silence=lambda _: False)
    store.close()


def test_another_endpoint_is_another_world(tmp_path: Path) -> None:
    """A local cloud with an account of the same number must not answer for AWS."""
    path = tmp_path / "series.sqlite"
    local = SeriesStore(path, lambda _: "http://127.0.0.1:5000")
    local.put(TARGET, [QUERY], WINDOW, {})
    local.close()

    store = SeriesStore(path, anywhere)
    assert [QUERY] == store.missing(TARGET, [QUERY], WINDOW)
    store.close()


@pytest.mark.parametrize(
    ("target", "query", "window"),
    [
        (Target("210987654321", "us-east-1"), QUERY, WINDOW),
        (Target(TARGET.account, "eu-west-1"), QUERY, WINDOW),
        (TARGET, MetricQuery("a", "Other", "utilization", DIMENSIONS, "Maximum"), WINDOW),
        (TARGET, MetricQuery("a", "GPU/EC2", "utilization", DIMENSIONS, "Minimum"), WINDOW),
        (TARGET, QUERY, Window(START, START + timedelta(hours=3), timedelta(hours=1))),
    ],
    ids=["account", "region", "namespace", "statistic", "period"],
)
def test_another_question_is_not_answered_by_it(
    tmp_path: Path, target: Target, query: MetricQuery, window: Window
) -> None:
    """Every part of the question counts."""
    store = SeriesStore(tmp_path / "series.sqlite", anywhere)
    store.put(TARGET, [QUERY], WINDOW, {"a": (1.0, 2.0, 3.0)})
    assert [query] == store.missing(target, [query], window)
    with pytest.raises(KeyError):
        store.get(target, [query], window)
    store.close()


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    """It is not written over."""
    path = tmp_path / "series.sqlite"
    path.write_text(
        "a letter to somebody, longer than the header of a database would be, and kept as it is"
    )
    with pytest.raises(StoreError, match="give another --cache"):
        SeriesStore(path, anywhere)
