"""Reservations that stand empty: their owner is notified after a day of it, once a week, and
nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from governor.alerts.model import Alert, AlertKind, Severity
from governor.core.errors import AccessDenied, Throttled
from governor.policy.model.money import Advice, Prices
from governor.policy.model.notices import Health
from governor.policy.model.policy import Policy
from tests.builders import make_reservation
from tests.unit.worlds.health_world import HealthWorld

DAY = 24


def world_with(policy: Policy | None = None, **reservation: Any) -> HealthWorld:
    """One reservation of ada's, of which three of four stand empty."""
    world = HealthWorld(replace(policy or Policy(), health=Health(check_every_minutes=60)))
    world.ec2.held = [make_reservation(**reservation)]
    return world


def change(world: HealthWorld, **reservation: Any) -> None:
    world.ec2.held = [replace(world.ec2.held[0], **reservation)]


def sent_after(world: HealthWorld, hours: int) -> list[Alert]:
    """The messages of so many hourly checks."""
    for _ in range(hours):
        assert [] == world.check(60).problems
    return world.told()


def test_a_day_of_empty_capacity_is_said_once_a_week() -> None:
    world = world_with()
    assert [] == sent_after(world, DAY)
    (alert,) = sent_after(world, 1)

    assert (AlertKind.CAPACITY_EMPTY, Severity.INFO, "ada") == (
        alert.kind,
        alert.severity,
        alert.owner,
    )
    assert alert.subject.startswith(
        "3 of 4 reserved p5.48xlarge in 123456789012/us-east-1 are unused, $165/h"
    )
    text = "\n".join(alert.lines)
    assert "Right now, 3 of its 4 instances are unused" in text
    assert "(training) has not been full at any check since" in text
    assert "It belongs to account 123456789012, and runs until 2026-12-31 18:00 UTC" in text
    assert "costs $165 an hour at list price, $120,538 a month" in text
    assert "GPU Governor never cancels reservations" in text
    assert "165.12" == alert.facts["usd_per_hour"]
    assert [] == sent_after(world, 7 * DAY - 1)
    assert 1 == len(sent_after(world, 1))
    assert [] == world.ec2.calls


def test_a_full_hour_begins_it_anew() -> None:
    """Capacity that is used every night is not empty."""
    world = world_with()
    for _ in range(3):
        assert [] == sent_after(world, DAY - 1)
        change(world, available=0)
        assert [] == sent_after(world, 1)
        change(world, available=4)


def test_a_check_that_was_missed_does_not() -> None:
    world = world_with()
    assert [] == sent_after(world, DAY - 2)
    assert [] == world.check(120).problems
    assert 1 == len(sent_after(world, 2))


@pytest.mark.parametrize(
    ("reservation", "prices", "line"),
    [
        ({"is_block": True}, {}, "It is paid for in advance and cannot be canceled"),
        ({"ends_at": None}, {}, "without an end date"),
        ({"instance_type": "p5e.48xlarge"}, {}, "Its price is not known"),
        ({}, {"p5.48xlarge": Decimal(10)}, "costs $30 an hour"),
    ],
)
def test_what_is_known_of_it_is_said(
    reservation: dict[str, Any], prices: Mapping[str, Decimal], line: str
) -> None:
    """A price that is not known is none, and never 0."""
    policy = Policy(
        prices=Prices(usd_per_hour=prices), advice=Advice(empty_reservation_after_hours=1)
    )
    world = world_with(policy, **reservation)
    (alert,) = sent_after(world, 2)

    assert line in "\n".join(alert.lines)


def test_a_role_that_may_not_look_costs_nothing_else() -> None:
    """In member stacks of an earlier release; what fails for a while is a problem, and the check
    goes on."""
    world = world_with()
    world.add(1)
    world.ec2.failures["reservations"] = [
        AccessDenied("no", operation="ec2:DescribeCapacityReservations")
    ]
    assert ([], 1) == ((found := world.check()).problems, found.instances)
    world.ec2.failures["reservations"] = [Throttled("later")]
    assert ["Capacity Reservations: Throttled: later"] == world.check(60).problems
