"""A world that was opened before is copied: the copy is what opening leaves, and nobody else's."""

from __future__ import annotations

from typing import Any

import pytest

from governor.policy.model.acting import Action
from governor.policy.model.policy import Mode
from tests.unit.worlds.world import OPENED_BEFORE, World


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"decide": False},
        {"action": Action.TERMINATE},
        {"mode": Mode.AUTO},
        {"decide": False, "on_expiry": "act"},
    ],
)
def test_a_copy_is_what_opening_leaves(given: dict[str, Any]) -> None:
    OPENED_BEFORE.clear()
    opened = World(**given).state.items

    assert opened
    assert opened == World(**given).state.items


def test_what_one_test_changes_no_other_sees() -> None:
    changed = World().state.items
    other = World().state.items
    for item in changed.values():
        item.clear()

    assert all(other.values())
    assert other == World().state.items


def test_other_values_open_another_world() -> None:
    assert World().state.items != World(decide=False).state.items
