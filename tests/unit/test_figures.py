"""`make figures` counts what is there, and says what is over its target."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from scripts import density, figures
from scripts.figures import Figure


def test_plain_code_stands_first_with_its_goals() -> None:
    """Each of its figures, and none counts lines of files."""
    heading, rows = next(iter(figures.counted(figures.ROOT)))

    assert heading == "Plain code"
    assert list(density.GOALS) == [row.name for row in rows]
    assert all(row.target is not None for row in rows)


def test_code_is_not_words() -> None:
    """Nobody reads it as prose."""
    assert 3 == figures.words("one\n```sh\nmake demo\n```\ntwo three\n")


def test_figures_that_nobody_measured_are_not_run(tmp_path: Path) -> None:
    """Nor over, nor fine."""
    rows = {row.name: row for heading, rows in figures.counted(tmp_path) for row in rows}

    assert (
        "make demo                            not run        60 s" == str(rows["make demo"]).strip()
    )
    assert not rows["make demo"].is_over


def test_what_the_runs_have_left_is_read(tmp_path: Path) -> None:
    """Seconds by name, the cold start from the bench's own document."""
    build = tmp_path / "build"
    build.mkdir()
    (build / "demo.seconds").write_text("61\n")
    (build / "bench.json").write_text(json.dumps({"cold_start_over_same_clients_max": 1.25}))
    rows = {row.name: row for heading, rows in figures.counted(tmp_path) for row in rows}

    assert (61, True) == (rows["make demo"].value, rows["make demo"].is_over)
    assert str(rows["make demo"]).endswith("s        over")
    assert (1.25, False) == tuple(
        getattr(rows["cold start over the same clients"], name) for name in ("value", "is_over")
    )


def test_a_figure_at_its_target_is_fine() -> None:
    """At most is what targets say."""
    assert str(Figure("x", 1_200, 1_200)).endswith("1,200     1,200          ok")
    assert str(Figure("x", 1_201, 1_200)).endswith("over")


def test_a_reader_that_has_enough_ends_the_table_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make figures | head` closes the pipe."""
    monkeypatch.setattr(figures, "shown", lambda _: ["a line"])
    monkeypatch.setattr(figures, "counted", lambda _: ())
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert 0 == figures.main()
