"""Ends the savings of an instance that runs again. Told by an event, or seen by the sweep when none came.

This module must not know who noticed; the first to settle an entry wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from governor.domain.episode.episode import Outcome
from governor.domain.money.ledger import LedgerEntry, is_false_stop
from governor.domain.units import UtcDatetime
from governor.stores import Ledger


def settle_restart(
    state: Ledger, entries: Sequence[LedgerEntry], at: UtcDatetime, false_within: timedelta
) -> list[str]:
    """Settles those of the instance's open entries that were booked before it ran again; says what was done.

    Raises:
        CloudError: the state table could not be reached; repeat it.
    """
    done = []
    for entry in ended_by(entries, at):
        false_stop = is_false_stop(entry, at, false_within)
        if state.settle_entry(entry, at, false_stop=false_stop):
            done.append("false stop booked" if false_stop else "saving settled")
    return done


def ended_by(entries: Sequence[LedgerEntry], at: UtcDatetime) -> list[LedgerEntry]:
    """The stops among them that were booked by then: what happens to the instance then ends their savings."""
    return [one for one in entries if one.booked_at <= at and one.outcome is Outcome.STOPPED]
