"""The visitor of these tests: what is read is of one page, also where a page loads itself anew
meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import NewVisitor

if TYPE_CHECKING:
    from playwright.sync_api import Route

ADDRESS = "http://record.test/"
PAGE = '<!doctype html><html lang="en"><title>Record</title><main><h1>{}</h1></main>{}'
GOES = "<script>Object.defineProperty(window, 'axe', {set() { location.reload(); }})</script>"
"""The page goes while it is looked at: axe-core has been put into it, and has not run yet."""


def test_a_page_that_loads_itself_anew_is_looked_at_again(new_visitor: NewVisitor) -> None:
    """The second page is the one that counts."""
    visitor, pages = new_visitor(), [PAGE.format("Stopping", GOES), PAGE.format("Stopped", "")]
    shown: list[str] = []

    def answer(route: Route) -> None:
        shown.append(pages[min(len(shown), 1)])
        route.fulfill(body=shown[-1], content_type="text/html")

    visitor.page.route(ADDRESS, answer)
    visitor.open(ADDRESS)

    visitor.assert_at_ease()

    assert pages == shown
    assert "Stopped" == visitor.text()


def test_a_fault_of_a_page_that_stays_is_found(new_visitor: NewVisitor) -> None:
    """Nothing is looked at again where the page did not go."""
    visitor = new_visitor()
    body = PAGE.format('<img src="data:,">', "")
    visitor.page.route(ADDRESS, lambda route: route.fulfill(body=body, content_type="text/html"))
    visitor.open(ADDRESS)

    with pytest.raises(AssertionError, match="image-alt"):
        visitor.assert_at_ease()


@pytest.mark.parametrize("condition", ["prefers-color-scheme: dark", "forced-colors: active"])
def test_a_scheme_that_changes_more_than_colors_is_found(
    new_visitor: NewVisitor, condition: str
) -> None:
    """In the other schemes axe-core looks at colors alone."""
    visitor = new_visitor()
    style = f"<style>@media ({condition}) {{ h1 {{ color: black; display: block; }} }}</style>"
    visitor.page.set_content(PAGE.format("Record", style))

    with pytest.raises(AssertionError, match="display: block"):
        visitor.assert_at_ease_in_every_scheme()
