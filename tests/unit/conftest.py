"""Unused permissions of roles are only known when all use cases have run."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.run_tests import ROOMS_OF_USE_CASES

_AFTER_ALL = (
    "test_no_role_may_do_what_no_use_case_does",
    "test_a_role_reads_many_items_in_one_call_only_where_its_function_does",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs those tests last, and only in a session that drives every use case."""
    last = [item for item in items if item.name in _AFTER_ALL]
    here, chosen = Path(__file__).parent, {item.path for item in items}
    is_whole = all(
        path in chosen
        for folder in ROOMS_OF_USE_CASES
        for path in (here / folder).rglob("test_*.py")
    )
    items[:] = [item for item in items if item not in last] + (last if is_whole else [])
