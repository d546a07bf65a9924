"""Readings on disk, so that an interrupted back-test goes on where it was and a second one costs nothing.

One SQLite file. Only the past is put in, which does not change any more. This module must not know AWS.
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Mapping, Sequence
from contextlib import closing
from math import nan
from pathlib import Path

from governor.domain.evidence import Series, Window
from governor.domain.instance import Target
from governor.domain.units import iso
from governor.ports import MetricQuery
from simulation.recording import holes

_TABLE = """
CREATE TABLE IF NOT EXISTS series (
    place TEXT NOT NULL, "window" TEXT NOT NULL, query TEXT NOT NULL, readings BLOB,
    PRIMARY KEY (place, "window", query)
) WITHOUT ROWID
"""


class StoreError(Exception):
    """The file cannot be used; the message says why and what to do."""


class SeriesStore:
    """Series by target, window and query. A series that published nothing is known, too."""

    def __init__(self, path: Path) -> None:
        """Opens the file, and makes it where there is none.

        Raises:
            StoreError: it cannot be made, or is something else.
        """
        self._path = path
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
        """Closes the file."""
        self._connection.close()

    def missing(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> list[MetricQuery]:
        """Those of the queries that must be read yet."""
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(
                'SELECT query FROM series WHERE place = ? AND "window" = ?', (_place(target), _window(window))
            )
            known = {row[0] for row in cursor}
        return [query for query in queries if _name(query) not in known]

    def put(
        self,
        target: Target,
        queries: Sequence[MetricQuery],
        window: Window,
        answers: Mapping[str, Series],
    ) -> None:
        """Keeps the answers to these queries, by their keys; one without an answer published nothing."""
        place, name = _place(target), _window(window)
        rows = [(place, name, _name(query), _packed(answers.get(query.key))) for query in queries]
        with self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO series VALUES (?, ?, ?, ?)", rows)

    def get(self, target: Target, query: MetricQuery, window: Window) -> array[float]:
        """The series, with NaN for holes.

        Raises:
            KeyError: it was never put in.
        """
        found = self._connection.execute(
            'SELECT readings FROM series WHERE place = ? AND "window" = ? AND query = ?',
            (_place(target), _window(window), _name(query)),
        ).fetchone()
        if found is None:
            raise KeyError(query)
        if found[0] is None:
            return holes(window.bins)
        readings = array("d")
        readings.frombytes(found[0])
        return readings


def _place(target: Target) -> str:
    return f"{target.account}/{target.region}"


def _window(window: Window) -> str:
    return f"{iso(window.start)}/{iso(window.end)}/{int(window.period.total_seconds())}"


def _name(query: MetricQuery) -> str:
    return json.dumps([query.namespace, query.metric, query.dimensions, query.statistic])


def _packed(series: Series | None) -> bytes | None:
    if series is None:
        return None
    return array("d", (nan if value is None else value for value in series)).tobytes()
