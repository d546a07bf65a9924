"""Instances that were stopped or terminated have a row, made from the ledger."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.episode.model.episode import Outcome
from governor.fleet.model import STOPPED, TERMINATED
from governor.money.model.ledger import Ending
from governor.money.rules.closed import closed_row, is_still_stopped, stopped_rows
from tests.builders import NOW, make_entry

ENDED = {"ended_at": NOW - timedelta(hours=1)}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({**ENDED, "ended": Ending.STARTED}, False),
        ({**ENDED, "ended": Ending.UNDONE}, False),
        ({**ENDED, "ended": Ending.TERMINATED}, False),
        ({**ENDED, "ended": Ending.REPLACED}, True),
        ({**ENDED, "ended": Ending.REPLACED, "ours": False}, True),
        ({**ENDED, "ended": None}, False),
        ({"ours": False}, False),
        ({"outcome": Outcome.TERMINATED}, False),
    ],
)
def test_a_stop_lasts_until_the_instance_is_started_or_terminated(
    changes: dict[str, Any], expected: bool
) -> None:
    """Another instance in its place starts it no more than time does."""
    assert expected is is_still_stopped(make_entry(1, **changes))


def test_a_row_has_what_starting_again_costs() -> None:
    """The price of the instance, without the storage that is paid for in any case."""
    entry = make_entry(
        1,
        resource_name="notebook-1",
        saved_usd_per_hour=Decimal("5.60"),
        storage_usd_per_hour=Decimal("0.07"),
    )
    row = closed_row(entry)

    assert (STOPPED, "notebook-1", Decimal("5.67")) == (row.verdict, row.name, row.usd_per_hour)
    assert (entry.booked_at, entry.episode.execution_name) == (row.stopped_at, row.episode)
    assert "Stopped by GPU Governor." == row.reason


def test_a_termination_by_others_after_our_stop_is_told_apart() -> None:
    """With the time of the termination."""
    ended_at = NOW - timedelta(hours=1)
    row = closed_row(make_entry(1, ended_at=ended_at, ended=Ending.TERMINATED))

    assert (TERMINATED, ended_at) == (row.verdict, row.stopped_at)
    assert "Stopped by GPU Governor, then terminated by others." == row.reason


def test_the_newest_entry_of_an_instance_counts_and_running_ones_are_left_out() -> None:
    """One stop is stopped, one was terminated later, one runs."""
    later = NOW - timedelta(hours=1)
    entries = [
        make_entry(1),
        make_entry(2, outcome=Outcome.TERMINATED, booked_at=later),
        make_entry(2),
        make_entry(3),
    ]
    rows = stopped_rows(entries, {entries[-1].episode.instance_id})

    assert [entries[0].episode.instance_id] == [row.instance_id for row in rows]
    assert rows[0].instance_id == rows[0].name
