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
from tests.browser.conftest import NewVisitor
from tests.browser.test_views import SITE
from tests.browser.visitor import Visitor
from tests.console_world import EVERYTHING, VIEWS, ConsoleWorld, caller, lively
from tests.unit.console.asking import OTHER, Site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

SIZES = [(1280, 900), (412, 839)]
NARROW = (320, 360)
"""Widths of small phones in points."""
BROKEN = r"""
(pattern) => {
  const broken = [];
  const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    if (node.parentElement.closest("svg, option, .named")) continue;
    for (const found of node.data.matchAll(new RegExp(pattern, "g"))) {
      const range = document.createRange();
      range.setStart(node, found.index);
      range.setEnd(node, found.index + found[0].length);
      const boxes = [...range.getClientRects()].filter((box) => box.width > 0);
      if (new Set(boxes.map((box) => Math.round(box.top / 4))).size > 1) broken.push(found[0]);
    }
  }
  return broken;
}
"""
"""Return the texts of the page that match a pattern and take more than one line."""
ID = r"\b(i|vol)-[0-9a-f]{17}"
TIME = r"([A-Z][a-z]{2}\u00a0)?\d\d:\d\d(\u00a0[A-Z]\w+)?"
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


@pytest.mark.parametrize("width", NARROW)
def test_no_id_of_a_question_breaks_on_a_small_phone(new_visitor: NewVisitor, width: int) -> None:
    """Somebody types it to terminate the instance. The text has its usual size."""
    visitor = new_visitor("phone", viewport={"width": width, "height": 800})
    test_questions_page.serve(visitor, Site())

    assert 200 == visitor.open(f"{SITE}/questions/{OTHER}")
    visitor.unfold()
    assert ["i-0fedcba9876543210"] * 2 == visitor.page.locator(".id:visible").evaluate_all(
        "all => all.map((one) => one.innerText).filter((text) => text.startsWith('i-'))"
    )
    assert [] == visitor.page.evaluate(BROKEN, ID)
    assert 0 >= visitor.page.evaluate("document.documentElement.scrollWidth - innerWidth")


@pytest.mark.parametrize("width", NARROW)
def test_no_id_of_a_question_breaks_in_big_text(reader: Visitor, width: int) -> None:
    """Its text is as large as fits, and larger than usual."""
    reader.page.set_viewport_size({"width": width, "height": 800})
    test_questions_page.serve(reader, Site())

    assert 200 == reader.open(f"{SITE}/questions/{OTHER}")
    reader.unfold()
    assert 2 == reader.page.locator(".id:visible", has_text="i-0fedcba9876543210").count()
    assert [] == reader.page.evaluate(BROKEN, ID)
    sizes = reader.page.locator(".id:visible").evaluate_all(
        "all => all.map((one) => parseFloat(getComputedStyle(one).fontSize))"
    )
    assert min(sizes) > USUAL, sizes
    assert 0 >= reader.page.evaluate("document.documentElement.scrollWidth - innerWidth")


@pytest.mark.parametrize("address", VIEWS)
@pytest.mark.parametrize("width", NARROW)
def test_no_id_of_a_view_breaks_in_big_text(
    reader: Visitor, fleet: ConsoleWorld, width: int, address: str
) -> None:
    reader.page.set_viewport_size({"width": width, "height": 800})
    test_views.serve(reader, fleet, caller(grants=(Grant(Rank.ADMIN, EVERYTHING),)))

    assert 200 == reader.open(SITE + address)
    assert [] == reader.page.evaluate(BROKEN, ID)


@pytest.mark.parametrize("width", NARROW)
def test_no_time_of_a_question_breaks_in_big_text(reader: Visitor, width: int) -> None:
    """Not even inside its zone, without scrolling to the side."""
    reader.page.set_viewport_size({"width": width, "height": 800})
    test_questions_page.serve(reader, Site())

    assert 200 == reader.open(f"{SITE}/questions/{OTHER}")
    reader.unfold()
    assert "21:02\u00a0UTC" in reader.page.locator("main").inner_text()
    assert [] == reader.page.evaluate(BROKEN, TIME)
    assert 0 >= reader.page.evaluate("document.documentElement.scrollWidth - innerWidth")


@pytest.mark.parametrize("width", NARROW)
@pytest.mark.parametrize("big_by", ["browser", "page"])
def test_names_of_questions_are_whole_in_big_text(
    reader: Visitor, new_visitor: NewVisitor, big_by: str, width: int
) -> None:
    """They break at their hyphens alone. A style of the page, unlike a setting of the browser,
    leaves the widths at which the layout changes as they are."""
    visitor = reader if big_by == "browser" else new_visitor("desktop")
    visitor.page.set_viewport_size({"width": width, "height": 800})
    site = Site()
    site.ask_more(6, ("idle-eight", "notebook", "trainer-of-the-large-model"))
    test_questions_page.serve(visitor, site)

    assert 200 == visitor.open(f"{SITE}/questions")
    if big_by == "page":
        visitor.page.evaluate(f"document.documentElement.style.fontSize = '{TWICE}px'")
    assert [] == visitor.page.evaluate(BROKEN, "idle|eight|notebook|trainer|large|model")
    assert visitor.page.locator(".question :is(label, strong)").evaluate_all(
        "all => all.every((one) => one.scrollWidth <= one.clientWidth"
        " && one.scrollHeight <= one.clientHeight + 1)"
    )
    if big_by == "browser":
        assert 0 >= visitor.page.evaluate("document.documentElement.scrollWidth - innerWidth")
