"""Files of tests are packed by the seconds that a table knows, and the table can be renewed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scripts import durations

ROOT = Path(__file__).parents[2]
_FILES = st.sets(st.text("abcdef", min_size=1, max_size=3), min_size=1, max_size=20)
_SECONDS = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3), st.floats(0, 1_000), max_size=20
)


@given(_FILES, _SECONDS, st.integers(1, 6))
@example({"a", "b"}, {"a": 0.0}, 2)
def test_each_file_is_in_exactly_one_part(
    files: set[str], known: dict[str, float], count: int
) -> None:
    """Whatever the table knows of them: no test is lost, and none runs twice."""
    parts = durations.packed(files, known, count)

    packed = [name for part in parts for name in part.files]
    assert sorted(packed) == sorted(files)
    assert len(parts) == min(count, len(files))
    assert all(part.files for part in parts)


@given(_FILES, _SECONDS, st.integers(1, 6))
def test_no_part_is_longer_than_the_shortest_by_more_than_one_file(
    files: set[str], known: dict[str, float], count: int
) -> None:
    """So that the last worker does not work alone for long."""
    parts = durations.packed(files, known, count)

    lengths = [part.seconds for part in parts]
    longest_file = max(durations.seconds_of(name, known) for name in files)
    assert max(lengths) - min(lengths) <= longest_file + 1e-6


def test_a_file_that_the_table_does_not_know_counts_as_a_middle_one() -> None:
    """A new file is neither free nor the longest."""
    assert 3 == durations.seconds_of("new", {"a": 1, "b": 3, "c": 90})
    assert durations.UNKNOWN_SECONDS == durations.seconds_of("new", {})


def test_a_record_replaces_its_groups_and_keeps_the_others(tmp_path: Path) -> None:
    """`make test` with a record says nothing of the tests in a browser. Files that are gone go."""
    path = tmp_path / "seconds.json"
    durations.write_table({"plain": {"gone.py": 1}, "browser": {"b.py": 2}}, path)

    durations.write_table({"plain": {"new.py": 3.04}}, path)

    assert {"plain": {"new.py": 3.0}, "browser": {"b.py": 2}} == durations.read_table(path)
    assert {} == durations.read_table(tmp_path / "none.json")


class Clock:
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Return its time."""
        return self.now


def test_a_file_is_not_charged_for_what_a_session_sets_up_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its first test may deploy the stack of all files: that is no reason to run it first."""
    clock = Clock()
    monkeypatch.setattr(durations, "time", clock)
    recorder = durations.SecondsByFile()

    for fixture_seconds in (30.0, 0.0):
        test = recorder.pytest_runtest_protocol(SimpleNamespace(nodeid="tests/test_a.py::test_b"))
        next(test)
        for scope, seconds in (("session", fixture_seconds), ("function", 2.0)):
            fixture = recorder.pytest_fixture_setup(SimpleNamespace(scope=scope))
            next(fixture)
            clock.now += seconds
            end(fixture)
        clock.now += 1.0
        end(test)

    assert {"tests/test_a.py": 6.0} == recorder.seconds


def end(hook: Generator[None, None, None]) -> None:
    """Let a hook do what it does afterwards."""
    with pytest.raises(StopIteration):
        hook.send(None)


def test_pytest_leaves_the_seconds_of_each_file_where_it_was_told(tmp_path: Path) -> None:
    """By the names that the packing uses. A file without a test to run took no time."""
    recorded = tmp_path / "seconds.json"
    for name in ("test_a.py", "test_b.py"):
        (tmp_path / name).write_text("def test_it(): pass\n")
    (tmp_path / "test_none.py").write_text("")
    pytest_alone = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", "."]
    plugins = ["-p", "scripts.durations", "-p", "no:cacheprovider"]

    subprocess.run(
        [*pytest_alone, *plugins, "test_a.py", "test_b.py", "test_none.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), durations.VARIABLE: str(recorded)},
        check=True,
        capture_output=True,
    )

    seconds = json.loads(recorded.read_text())
    assert {"test_a.py", "test_b.py", "test_none.py"} == seconds.keys()
    assert 0.0 == seconds["test_none.py"] < seconds["test_a.py"]
