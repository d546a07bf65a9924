"""Each instance has one state, and idle has one meaning."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from governor.fleet.model import STOPPED, TERMINATED, UNGOVERNED, part_of
from governor.fleet.rules.kept import KeepReason, KeptInstance
from governor.fleet.rules.states import WORDS, State, is_in, state_of
from governor.verdict.model import Family, VerdictKind
from tests.builders import NOW
from tests.console_world import make_row

LATER = NOW + timedelta(hours=1)
HELD = {"kept_because": KeepReason.HOLD.value, "stays_until": LATER}


IDLE_STATES = (State.IDLE, State.HELD)
"""Both are idle: an idle instance stays idle while somebody holds the action."""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"verdict": "idle"}, State.IDLE),
        ({"verdict": "resting"}, State.IDLE),
        ({"verdict": "managed-elsewhere"}, State.IDLE),
        ({"verdict": "frozen"}, State.IDLE),
        ({"verdict": "idle", **HELD}, State.HELD),
        ({"verdict": "idle", **HELD, "stays_until": None}, State.HELD),
        ({"verdict": "idle", **HELD, "stays_until": NOW}, State.IDLE),
        ({"verdict": "busy", **HELD}, State.BUSY),
        ({"verdict": "snoozed"}, State.KEPT),
        ({"verdict": "exempt"}, State.EXEMPT),
        ({"verdict": "unheard-of"}, State.NO_DATA),
        ({"verdict": UNGOVERNED}, State.UNGOVERNED),
        ({"verdict": STOPPED}, State.STOPPED),
        ({"verdict": TERMINATED}, State.TERMINATED),
    ],
)
def test_each_instance_has_one_state(changes: dict[str, Any], expected: State) -> None:
    """With a word of its own, and one filter that lists it; a held one is idle, too."""
    row = make_row(1, **changes)
    listed_by = {state for state in State if is_in(row, state, NOW)}

    assert expected is state_of(row, NOW)
    assert WORDS[expected]
    assert ({expected, State.IDLE} if expected is State.HELD else {expected}) == listed_by
    assert row.is_idle == (expected in IDLE_STATES)


@pytest.mark.parametrize("kind", VerdictKind)
def test_idle_has_one_meaning(kind: VerdictKind) -> None:
    """For the row, the state, the list of what is kept, and the costs of a day."""
    row = make_row(1, verdict=kind.value)
    is_idle = kind.family is Family.IDLE

    assert is_idle == row.is_idle == (state_of(row, NOW) in IDLE_STATES)
    assert is_idle == is_in(row, State.IDLE, NOW) == KeptInstance(row).is_idle
    assert is_idle == (part_of(kind) == "idle")
