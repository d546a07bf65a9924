"""The state of each instance: one word for it on every page and in every filter.

`State` is the one registry. The console counts, filters and colors by it, and nothing else may
define what is idle: that is `FleetRow.is_idle`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from governor.core.units import UtcDatetime
from governor.fleet.model import STOPPED, TERMINATED, UNGOVERNED, FleetRow
from governor.fleet.rules.kept import is_hold
from governor.verdict.model import Family, known_kind, partly_idle_text


class State(StrEnum):
    """The states of an instance, by the names that addresses, CSV and JSON use."""

    IDLE = "idle"
    """Idle by its measurements, whoever runs it and whatever holds plans back."""
    HELD = "held"
    """Idle, and somebody held the action, so nobody is asked for some time."""
    BUSY = "busy"
    PARTLY_IDLE = "partly-idle"
    NO_DATA = "no-data"
    TOO_YOUNG = "too-young"
    KEPT = "kept"
    EXEMPT = "exempt"
    STOPPED = "stopped"
    TERMINATED = "terminated"
    UNGOVERNED = "ungoverned"


WORDS: Mapping[State, str] = {
    State.IDLE: "idle",
    State.HELD: "held",
    State.BUSY: "busy",
    State.PARTLY_IDLE: partly_idle_text(None),
    State.NO_DATA: "no data",
    State.TOO_YOUNG: "too young",
    State.KEPT: "kept",
    State.EXEMPT: "exempt",
    State.STOPPED: "stopped by GPU Governor",
    State.TERMINATED: "terminated",
    State.UNGOVERNED: "ungoverned",
}
"""Words of each state, for people."""
_OF_FAMILY: Mapping[Family, State] = {
    Family.WORKING: State.BUSY,
    Family.IDLE: State.IDLE,
    Family.LEFT_ALONE: State.KEPT,
    Family.YOUNG: State.TOO_YOUNG,
    Family.UNKNOWN: State.NO_DATA,
}
"""States of the verdicts that have no state of their own name."""
_NAMES = frozenset(State)
_OF_OTHERS: Mapping[str, State] = {
    UNGOVERNED: State.UNGOVERNED,
    STOPPED: State.STOPPED,
    TERMINATED: State.TERMINATED,
}


def state_of(row: FleetRow, now: UtcDatetime) -> State:
    """Return the state of the row's instance. A verdict that this release does not know counts as
    `NO_DATA`: the instance cannot be judged."""
    if row.is_idle and _is_held(row, now):
        return State.HELD
    return state_of_verdict(row.verdict)


def state_of_verdict(verdict: str) -> State:
    """Return the state of instances with this stored verdict, `ungoverned` included; `NO_DATA` if
    this release does not know it."""
    other = _OF_OTHERS.get(verdict)
    if other is not None:
        return other
    kind = known_kind(verdict)
    if kind is None:
        return State.NO_DATA
    if kind.value in _NAMES:
        return State(kind.value)
    return _OF_FAMILY[kind.family]


def is_in(row: FleetRow, state: State, now: UtcDatetime) -> bool:
    """Return whether a filter by this state lists the row: it is in this state, or the filter is
    `IDLE` and the row is idle and held."""
    if state is State.IDLE:
        return row.is_idle
    return state_of(row, now) is state


def _is_held(row: FleetRow, now: UtcDatetime) -> bool:
    """Return whether somebody held the action on the instance, and that is not over."""
    if not is_hold(row.kept_because):
        return False
    return row.stays_until is None or row.stays_until > now
