"""Readers whose browser shows text of twice the usual size: every page of the console grows with
it, and none is wider than the screen.

The size is a setting of the browser, as in its preferences, so it needs a Chromium of its own. A
style of the page would not change the widths at which tables become cards.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from governor.approvals.model.terms import Grant, Rank
from tests.browser import test_questions_page, test_views
from tests.browser.test_views import SITE
from tests.browser.visitor import Visitor
from tests.console_world import EVERYTHING, VIEWS, ConsoleWorld, caller, lively
from tests.unit.console.asking import OTHER, Site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

SIZES = [(1280, 900), (412, 839)]
USUAL, TWICE = 16, 32
"""The size of text in points that browsers have at first, and that of these readers."""


@pytest.fixture(scope="module")
def browser_of_big_text(playwright: Playwright) -> Iterator[Browser]:
    """One Chromium with text of twice the usual size."""
    arguments = [f"--blink-settings=defaultFontSize={TWICE}"]
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")
    launched = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
    yield launched
    launched.close()


@pytest.fixture
def reader(browser_of_big_text: Browser) -> Iterator[Visitor]:
    """Somebody with that Chromium."""
    context = browser_of_big_text.new_context()
    yield Visitor(context.new_page())
    context.close()


@pytest.fixture(scope="module")
def fleet() -> ConsoleWorld:
    """A fleet with costs and stops. Tests look at it, and change nothing."""
    return lively(20, 40, 4)


def assert_page_grows_and_fits(reader: Visitor) -> None:
    """The text has twice its size, and nothing is wider than the screen or cut off at its edge."""
    for width, height in SIZES:
        reader.page.set_viewport_size({"width": width, "height": height})
        size = reader.page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)")
        assert size >= TWICE * 15 / USUAL
        wider = reader.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert 0 >= wider, f"{width}: the page is {wider} points wider than the screen"
    assert [] == reader.complaints


@pytest.mark.parametrize("address", VIEWS)
def test_a_view_grows_with_the_text_and_fits(
    reader: Visitor, fleet: ConsoleWorld, address: str
) -> None:
    test_views.serve(reader, fleet, caller(grants=(Grant(Rank.ADMIN, EVERYTHING),)))

    assert 200 == reader.open(SITE + address)
    assert_page_grows_and_fits(reader)


@pytest.mark.parametrize("address", ["/questions", f"/questions/{OTHER}"])
def test_questions_grow_with_the_text_and_fit(reader: Visitor, address: str) -> None:
    """Boxes to check grow, too."""
    site = Site()
    site.ask_more(7)
    test_questions_page.serve(reader, site)

    assert 200 == reader.open(SITE + address)
    assert_page_grows_and_fits(reader)
    boxes = reader.page.locator("input[type=checkbox]:visible").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().width)"
    )
    assert all(width >= 26 for width in boxes), boxes
