"""The facts about an instance under a message."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from governor.alerts.model import IS_PREPAID, Alert, AlertKind, Severity
from tests.builders import NOW


@pytest.mark.parametrize(
    ("facts", "cost"),
    [
        ({}, None),
        ({"usd_per_hour": None}, "not known"),
        ({"usd_per_hour": "0"}, "storage only"),
        ({"usd_per_hour": "0", IS_PREPAID: True}, "prepaid"),
        ({"usd_per_hour": "1"}, "$24 a day while it runs"),
    ],
    ids=["not looked up", "not known", "stopped", "prepaid", "known"],
)
def test_the_cost_is_said_as_far_as_it_was_looked_up(
    facts: dict[str, Any], cost: str | None
) -> None:
    """A warning in haste must not call unknown what the next message names."""
    alert = Alert(
        AlertKind.SPOT_INTERRUPTION,
        Severity.WARNING,
        "123456789012",
        "us-east-1",
        "subject",
        (),
        "id",
        NOW,
        instance_id="i-0123456789abcdef0",
    )

    assert cost == dict(replace(alert, facts=facts).about.rows()).get("Cost")
