"""The console's views in a real browser: at a desk and with a phone, in every scheme, without
scripts.

Their pages are answered from memory, with the headers they are sent with: no stack is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from governor.approvals.model.terms import Grant, Rank
from governor.console import formats
from governor.console.page import Caller
from governor.limits.model.breaker import BreakerState
from tests.browser.conftest import NewVisitor
from tests.browser.visitor import Visitor
from tests.builders import NOW
from tests.console_world import (
    EVERYTHING,
    TARGETS,
    VIEWS,
    ConsoleWorld,
    caller,
    lively,
    make_row,
    many_rows,
    sent,
    view_of,
)

if TYPE_CHECKING:
    from playwright.sync_api import Route

SITE = "https://console.example"
ROWS = 20
"""Instances: each verdict, each owner and each type are among them. More would be more of the
same."""
DAYS = 40
"""Days with costs: this month and the one before."""
DAYS_A_STOP = 4
NARROWEST = {"width": 390, "height": 844}
NAMES = ("x" * 300, "مثيل للتدريب", "\U0001f680\U0001f469\u200d\U0001f52c")
"""300 characters without a space, right-to-left and emoji."""


def serve(visitor: Visitor, world: ConsoleWorld, who: Caller | None = None) -> None:
    """Answer whatever the visitor opens from this world."""

    def answer(route: Route) -> None:
        parts = urlsplit(route.request.url)
        view, named = view_of(parts.path)
        query = dict(parse_qsl(parts.query))
        body = sent(view, world, who, parts.path, **query, **named)
        headers = dict(formats.answer(200, "").headers)
        route.fulfill(status=200, headers=headers, body=body)

    visitor.page.route("**/*", answer)


@pytest.fixture(scope="module")
def frozen() -> ConsoleWorld:
    """A fleet under freezes, with names of any kind. Tests look at it, and change nothing."""
    world = lively(ROWS, DAYS, DAYS_A_STOP)
    odd = [
        make_row(90 + number, name=one, owner=one, project=one) for number, one in enumerate(NAMES)
    ]
    world.keep(*many_rows(ROWS), *odd)
    cause = BreakerState(NOW, "17 of 20 working instances turned idle in one sweep")
    world.state.begin_hub_freeze(cause)
    world.state.set_breaker(TARGETS[0], cause)
    return world


@pytest.fixture(scope="module")
def fleet() -> ConsoleWorld:
    """A plain fleet. Tests look at it, and change nothing."""
    return lively(ROWS, DAYS, DAYS_A_STOP)


@pytest.mark.parametrize("address", VIEWS)
@pytest.mark.parametrize(
    ("size", "settings"), [("desktop", {}), ("phone", {"viewport": NARROWEST})]
)
def test_each_view_is_at_ease(
    new_visitor: NewVisitor, frozen: ConsoleWorld, size: str, settings: Any, address: str
) -> None:
    """Nothing for axe-core, nothing wider than the screen, no complaint about the security policy,
    whatever instances are called: on the narrowest phone, too."""
    visitor = new_visitor(size, **settings)
    serve(visitor, frozen, caller(grants=(Grant(Rank.ADMIN, EVERYTHING),)))

    assert 200 == visitor.open(SITE + address)
    visitor.assert_at_ease_in_every_scheme()


@pytest.mark.parametrize("address", VIEWS)
def test_each_view_is_at_ease_for_a_viewer(
    new_visitor: NewVisitor, frozen: ConsoleWorld, address: str
) -> None:
    """Pages have notes where an admin has buttons. Colors are those of an admin's pages."""
    visitor = new_visitor("desktop")
    serve(visitor, frozen, caller(grants=(Grant(Rank.VIEWER, EVERYTHING),)))

    assert 200 == visitor.open(SITE + address)
    visitor.assert_at_ease()


def test_the_fleet_is_filtered_by_keyboard_without_scripts(
    new_visitor: NewVisitor, fleet: ConsoleWorld
) -> None:
    """A search, the Enter key, and what was asked for is in the address and still in its field."""
    visitor = new_visitor("desktop", java_script_enabled=False)
    serve(visitor, fleet)
    visitor.open(SITE + "/fleet")

    visitor.page.get_by_label("Search").fill("train")
    visitor.page.keyboard.press("Enter")
    visitor.page.wait_for_url("**q=train**")

    assert "train" == visitor.page.get_by_label("Search").input_value()
    assert "notebook-" not in visitor.page.locator("tbody").inner_text()


def test_filters_unfold_without_scripts_and_are_named_when_folded(
    new_visitor: NewVisitor, fleet: ConsoleWorld
) -> None:
    """They stand in line, and what was chosen is in the address."""
    visitor = new_visitor("desktop", java_script_enabled=False)
    serve(visitor, fleet)
    visitor.open(SITE + "/fleet")
    state = visitor.page.get_by_label("State")
    assert not state.is_visible()

    visitor.page.locator("summary", has_text="Filters").press("Enter")
    fields = visitor.page.locator(".fields :is(input, select)")
    tops = [field.evaluate("one => one.getBoundingClientRect().top") for field in fields.all()]
    assert 1 == len(set(tops[:5]))
    state.select_option("busy")
    visitor.page.get_by_role("button", name="Show these").click()
    visitor.page.wait_for_url("**state=busy**")

    assert "Filters: state busy" == visitor.page.locator("summary").inner_text()
    assert "idle" not in visitor.page.locator("tbody").inner_text()


def test_tables_are_cards_on_a_phone_and_keep_their_units(
    new_visitor: NewVisitor, fleet: ConsoleWorld
) -> None:
    """Without a head above them, figures say what they count."""
    visitor = new_visitor("phone")
    serve(visitor, fleet)
    visitor.open(SITE + "/")
    row = visitor.page.locator("table.fleet tbody tr").first

    assert "block" == row.evaluate("one => getComputedStyle(one).display")
    price = row.locator("td:nth-last-child(2) .rate")
    assert '" a day"' == price.evaluate("one => getComputedStyle(one, '::after').content")


def test_amounts_kept_say_their_unit_on_a_phone(
    new_visitor: NewVisitor, fleet: ConsoleWorld
) -> None:
    """The head of the table is hidden there."""
    visitor = new_visitor("phone")
    serve(visitor, fleet)
    visitor.open(SITE + "/kept")
    amounts = visitor.page.locator("main table.cards tr > td:last-child.day")
    units = amounts.evaluate_all(
        "all => all.map((one) => getComputedStyle(one, '::after').content)"
    )

    assert {'" a day"'} == set(units)
