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


_CELL = "<p>as plain as others</p>"
_OF_TEXTS = """<!doctype html><html lang="en"><title>Texts</title>
<style>body {{ color: #000; background: #fff }} {}</style><main><h1>Texts</h1>{}</main>"""


@pytest.mark.parametrize(
    ("style", "body"),
    [
        ("", _CELL + '<p style="color: #bbb">too faint</p>'),
        (".late { color: #bbb }", _CELL + '<p class="late">too faint</p>'),
        ("p:nth-child(4) { background: #222 }", _CELL * 5),
        ("@media (prefers-color-scheme: dark) { p + p + p { color: #bbb } }", _CELL * 3),
        ("p { color: #bbb }", "<p hidden>too faint</p><p>too faint</p>"),
        ("p { color: #bbb }", "<p>-</p><p>too faint</p>"),
        ("label { color: #bbb }", "<label>Off <input disabled></label><label>On <input></label>"),
        (
            "button { color: #bbb; background: #fff }",
            "<button disabled>Off</button><button>On</button>",
        ),
        (".box { background: #222 }", f'<div>{_CELL}</div><div class="box">{_CELL}</div>'),
        ("i { position: absolute; left: 0; color: #bbb }", f"{_CELL}<i>ab</i>"),
    ],
)
def test_a_faint_text_among_others_is_found(new_visitor: NewVisitor, style: str, body: str) -> None:
    """The contrast of texts that look alike is measured once; each of these looks different from
    the one before it."""
    visitor = new_visitor()
    visitor.page.set_content(_OF_TEXTS.format(style, body))

    with pytest.raises(AssertionError, match="color-contrast"):
        visitor.assert_at_ease_in_every_scheme()
