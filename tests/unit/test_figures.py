"""`make figures` counts what is there, and says what is over its target."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts import figures
from scripts.figures import LAYER, ROOMS, Figure, Room


def test_a_file_that_two_patterns_name_is_counted_once(tmp_path: Path) -> None:
    """And folders that do not exist have no lines."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.py").write_text("1\n2\n")

    assert 2 == figures.lines(tmp_path, Room("x", ("a/*.py", "**/one.py", "nowhere/**/*.py")))


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name.strip())
def test_every_room_is_found(room: Room) -> None:
    """A room whose files have moved would have no lines, and look small."""
    assert figures.lines(figures.ROOT, room) > 100


def test_the_layer_is_counted_whole() -> None:
    """All of its modules, in whatever folder."""
    modules = [
        path for path in (figures.ROOT / LAYER).rglob("*.py") if "__pycache__" not in path.parts
    ]

    assert figures.lines(figures.ROOT, ROOMS[0]) == sum(
        path.read_text().count("\n") for path in modules
    )


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
