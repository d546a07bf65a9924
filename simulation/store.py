"""Stores readings on disk: an interrupted back-test continues where it stopped, and a second one
costs nothing.

It is one SQLite file. Only past readings are stored, which do not change any more. This module does
not know AWS.
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from math import nan
from pathlib import Path

from evaluation.bins import holes
from governor.core.instance import Target
from governor.core.units import iso
from governor.evidence.model import Series, Window
from governor.evidence.ports import MetricQuery

_TABLE = """
CREATE TABLE IF NOT EXISTS series (
    place TEXT NOT NULL, "window" TEXT NOT NULL, query TEXT NOT NULL, readings BLOB,
    PRIMARY KEY (place, "window", query)
) WITHOUT ROWID
"""


class StoreError(Exception):
    """The file cannot be used; the message says why and what to do."""


class SeriesStore:
    """Series by endpoint, target, window and query, also those that published nothing."""

    def __init__(self, path: Path, endpoint_of: Callable[[Target], str]) -> None:
        """Open the file, and create it if there is none.

        Args:
            path: of the file.
            endpoint_of: returns the endpoint that a target's readings come from. A local cloud has
                accounts of the same numbers.

        Raises:
            StoreError: it cannot be created, or is something else.
        """
        self._endpoint_of = endpoint_of
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path)
            with self._connection:
                self._connection.execute(_TABLE)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"{path} cannot be used ({error}): give another --cache, or delete it"
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def missing(
        self,
        target: Target,
        queries: Sequence[MetricQuery],
        window: Window,
        *,
        believes_silence: Callable[[MetricQuery], bool] = lambda _: True,
    ) -> list[MetricQuery]:
        """Return the queries that are not stored yet, and those whose stored silence is not
        believed."""
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(
                'SELECT query, readings IS NULL FROM series WHERE place = ? AND "window" = ?',
                (self._place(target), _window(window)),
            )
            is_silent_by_name: dict[str, int] = dict(cursor)
        missing = []
        for query in queries:
            is_silent = is_silent_by_name.get(_name(query))
            if is_silent is None or (is_silent and not believes_silence(query)):
                missing.append(query)
        return missing

    def put(
        self,
        target: Target,
        queries: Sequence[MetricQuery],
        window: Window,
        answers: Mapping[str, Series],
    ) -> None:
        """Store the answers to these queries, by their keys; a query without an answer published
        nothing."""
        place = self._place(target)
        window_name = _window(window)
        rows = []
        for query in queries:
            readings = _packed(answers.get(query.key))
            rows.append((place, window_name, _name(query), readings))
        with self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO series VALUES (?, ?, ?, ?)", rows)

    def get(
        self, target: Target, queries: Sequence[MetricQuery], window: Window
    ) -> list[array[float]]:
        """Return the series in the order of the queries, with NaN for holes.

        Raises:
            KeyError: one was never stored.
        """
        names = [_name(query) for query in queries]
        marks = ", ".join("?" * len(names))
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(
                "SELECT query, readings FROM series "  # noqa: S608 - the marks are question marks
                f'WHERE place = ? AND "window" = ? AND query IN ({marks})',
                (self._place(target), _window(window), *names),
            )
            readings_by_name: dict[str, bytes | None] = dict(cursor)
        return [_unpacked(readings_by_name[name], window) for name in names]

    def _place(self, target: Target) -> str:
        return f"{self._endpoint_of(target)} {target.account}/{target.region}"


def _window(window: Window) -> str:
    return f"{iso(window.start)}/{iso(window.end)}/{int(window.period.total_seconds())}"


@lru_cache(maxsize=65_536)
def _name(query: MetricQuery) -> str:
    return json.dumps([query.namespace, query.metric, query.dimensions, query.statistic])


def _unpacked(readings: bytes | None, window: Window) -> array[float]:
    if readings is None:
        return holes(window.bins)
    return array("d", readings)


def _packed(series: Series | None) -> bytes | None:
    if series is None:
        return None
    return array("d", (nan if value is None else value for value in series)).tobytes()
