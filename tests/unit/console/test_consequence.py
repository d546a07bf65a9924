"""Pages say what is true of their mode and of their prices."""

from __future__ import annotations

from decimal import Decimal

import pytest

from governor.console.views.fleet import fleet
from governor.console.views.savings import savings
from governor.policy.model.policy import Mode, Policy
from tests.console_world import ConsoleWorld, html, make_row


@pytest.mark.parametrize("mode", Mode)
def test_an_empty_month_speaks_of_the_mode_in_force(mode: Mode) -> None:
    """A fleet that asks read that in mode observe nothing is ever stopped."""
    page = html(savings, ConsoleWorld(policy=Policy(mode=mode)))

    assert "No stop or termination counts in" in page
    assert (mode is Mode.OBSERVE) == ("In mode observe, nothing is ever stopped" in page)
    assert "what is idle now</a>" in page


@pytest.mark.parametrize("price", [Decimal(0), Decimal("0.00"), None, Decimal("5.67")])
def test_prepaid_capacity_is_no_zero_in_the_fleet(price: Decimal | None) -> None:
    """0.00 reads as free, and it was paid in advance."""
    world = ConsoleWorld()
    world.keep(make_row(1, usd_per_hour=price))
    page = html(fleet, world)

    is_prepaid = price is not None and price == 0
    assert is_prepaid == ("<td>prepaid<" in page)
    assert ">0.00<" not in page
