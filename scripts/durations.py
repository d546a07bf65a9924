"""How long the tests of each file take, and files packed by it into parts of equal length.

The table is `tests/seconds.json`: by group of `scripts/run_tests.py`, then by file or check.
`make check-all RECORD=1` writes it again, and `make test RECORD=1` a part of it. A file that the
table does not know counts as one of middle length, so the table may be old: then parts are less
even, and nothing else.
As a plugin of pytest this module writes the seconds of one process to the file that
`GOVERNOR_TEST_SECONDS` names.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TABLE = Path(__file__).resolve().parent.parent / "tests" / "seconds.json"
VARIABLE = "GOVERNOR_TEST_SECONDS"
UNKNOWN_SECONDS = 2.0
"""The weight of a file in a group of which nothing is known."""

Table = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Part:
    """Files that one process tests."""

    files: tuple[str, ...]
    seconds: float


def read_table(path: Path = TABLE) -> Table:
    """Return the seconds by group and file; empty if there is no table."""
    if not path.exists():
        return {}
    table: Table = json.loads(path.read_text(encoding="utf-8"))
    return table


def write_table(recorded: Table, path: Path = TABLE) -> None:
    """Replace the groups that were recorded, and keep the others."""
    groups = {**read_table(path), **recorded}
    rounded = {
        group: {name: round(seconds, 1) for name, seconds in sorted(files.items())}
        for group, files in sorted(groups.items())
    }
    path.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")


def seconds_of(name: str, known: Mapping[str, float]) -> float:
    """Return what the table says of a file or check; a middle weight if it does not know it."""
    if name in known:
        return known[name]
    if not known:
        return UNKNOWN_SECONDS
    return statistics.median(known.values())


def packed(files: Collection[str], known: Mapping[str, float], count: int) -> list[Part]:
    """Return so many parts of about the same length; each file is in exactly one of them.

    The longest file goes first, and each file goes to the part that is shortest so far. Files
    stay in the order of their names within a part. No part is empty.
    """
    weights = {name: seconds_of(name, known) for name in files}
    longest_first = sorted(weights, key=lambda name: (-weights[name], name))
    totals = [0.0] * min(count, len(longest_first))
    chosen: list[list[str]] = [[] for _ in totals]
    for name in longest_first:
        # Files that take no time would all go to the first part, and leave another empty.
        shortest = min(range(len(totals)), key=lambda part: (totals[part], len(chosen[part])))
        totals[shortest] += weights[name]
        chosen[shortest].append(name)
    return [
        Part(tuple(sorted(names)), seconds) for names, seconds in zip(chosen, totals, strict=True)
    ]


class SecondsByFile:
    """Measures the tests of each file. What a session sets up once counts for no file.

    A file that was named and had no test to run took no time, and is recorded so.
    """

    def __init__(self, named: Sequence[str] = ()) -> None:
        files = [name for name in named if name.endswith(".py")]
        self.seconds: defaultdict[str, float] = defaultdict(float, dict.fromkeys(files, 0.0))
        self._in_session_fixtures = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        """Notes how long a fixture of the whole session takes."""
        began = time.monotonic()
        try:
            return (yield)
        finally:
            if fixturedef.scope == "session":
                self._in_session_fixtures += time.monotonic() - began

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Generator[None, Any, Any]:
        """Adds the time of one test to its file."""
        self._in_session_fixtures = 0.0
        began = time.monotonic()
        try:
            return (yield)
        finally:
            file = item.nodeid.partition("::")[0]
            self.seconds[file] += time.monotonic() - began - self._in_session_fixtures

    def pytest_sessionfinish(self) -> None:
        """Writes the seconds where the caller reads them."""
        Path(os.environ[VARIABLE]).write_text(json.dumps(self.seconds), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Measures, where pytest was told to (`-p scripts.durations`)."""
    config.pluginmanager.register(SecondsByFile(config.args))
