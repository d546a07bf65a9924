"""Ends the savings of an instance that runs again. Told by an event, or seen by the sweep when none came.

This module must not know who noticed; the first to settle an entry wins.
"""

from __future__ import annotations

from datetime import timedelta

from governor.domain.episode import Outcome
from governor.domain.instance import Target
from governor.domain.ledger import is_false_stop
from governor.domain.units import UtcDatetime
from governor.ports import StateTable


def settle_restart(
    state: StateTable, target: Target, instance_id: str, at: UtcDatetime, false_within: timedelta
) -> list[str]:
    """Settles every open stop of the instance that was booked before it ran again; says what was done.

    Raises:
        CloudError: the state table could not be reached; repeat it.
    """
    done = []
    for entry in state.open_entries(target, instance_id):
        if entry.booked_at > at or entry.outcome is not Outcome.STOPPED:
            continue
        false_stop = is_false_stop(entry, at, false_within)
        if state.settle_entry(entry, at, false_stop=false_stop):
            done.append("false stop booked" if false_stop else "saving settled")
    return done
