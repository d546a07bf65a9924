"""Pages say what is true of their mode and of their prices."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from cli.report import shown, shown_kept
from governor.alerts.model import UNASSIGNED, Owner
from governor.console.views.fleet import fleet
from governor.console.views.kept import kept
from governor.console.views.overview import overview
from governor.console.views.savings import savings
from governor.episode.model.episode import Outcome
from governor.fleet.rules.kept import kept_list
from governor.money.messages import report_alert
from governor.money.model.ledger import PREPAID_SOURCE, LedgerEntry
from governor.money.rules.report import report
from governor.policy.model.policy import Mode, Policy
from tests.builders import NOW, make_entry
from tests.console_world import TARGETS, ConsoleWorld, asked, html, make_row

OWNER = Owner(UNASSIGNED, UNASSIGNED)


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


def of_capacity_block() -> LedgerEntry:
    """The ledger's entry of an idle Capacity Block, which is only reported."""
    return make_entry(
        4,
        outcome=Outcome.TOLD,
        ours=False,
        ended_at=NOW,
        price_source=PREPAID_SOURCE,
        cost_before_usd_per_hour=Decimal("0.02"),
        cost_after_usd_per_hour=Decimal("0.02"),
        saved_usd_per_hour=Decimal(0),
    )


def test_prepaid_capacity_with_storage_of_its_own_has_a_saving() -> None:
    """Its row adds up with the totals, which count the amount."""
    entry = of_capacity_block()

    assert entry.is_prepaid
    assert not replace(entry, saved_usd_per_hour=Decimal("-0.01")).is_prepaid


def with_prepaid_capacity() -> ConsoleWorld:
    """A Capacity Block, which is only reported, with an instance of unknown price beside it."""
    world = ConsoleWorld()
    prepaid = make_row(4, usd_per_hour=Decimal(0), kept_because="report-only")
    world.keep(asked(prepaid), make_row(5, usd_per_hour=None, kept_because="manager"))
    world.book(of_capacity_block())
    return world


def test_prepaid_capacity_is_no_zero_on_any_page() -> None:
    """Also in the sum of a reason. A sum of unknown prices is no zero, either."""
    world = with_prepaid_capacity()
    left_alone = html(kept, world, path="/kept")
    by_reason, _, by_instance = left_alone.partition("Instances, most expensive first")

    for part in (html(savings, world), html(overview, world), by_reason, by_instance):
        assert 1 == part.count('<td class="number">prepaid</td>')
    assert "$0.00</td>" not in left_alone
    assert '<td class="number">unknown</td>' in by_reason


def test_prepaid_capacity_is_no_zero_in_reports() -> None:
    """By mail and on the command line. The CSV has a number, for programs."""
    kept_now = kept_list(with_prepaid_capacity().reader.pages, NOW, lambda _: True)
    days = timedelta(days=9)
    month = report([of_capacity_block()], [], NOW - days, NOW, NOW, days, kept_now)
    alert = report_alert(month, "month-2026-11", TARGETS[0], NOW, OWNER, is_everything=True)
    [row] = csv.DictReader(io.StringIO(shown(month, "csv", alert)))

    assert re.search(r"only reported .* prepaid$", shown(month, "table", alert), re.MULTILINE)
    assert re.search(r" idle +prepaid$", shown_kept(kept_now, "table"), re.MULTILINE)
    assert 1 == sum(": 1 instance, prepaid, idle" in line for line in alert.lines)
    assert 0 == Decimal(row["x_NetSavedUsd"])
