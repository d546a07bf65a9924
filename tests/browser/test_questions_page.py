"""The Questions page in a real browser: a bar that adds up, short on a phone, and whole without
scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

import pytest

from governor.episode.ports import UndoAnswer
from tests.browser.conftest import NewVisitor
from tests.browser.visitor import Visitor
from tests.unit.console.asking import OTHER, Site
from tests.unit.console.test_undo import instance_of, stopped

if TYPE_CHECKING:
    from playwright.sync_api import Route

SITE = "https://console.example"
NAMES = ("notebook", "trainer-of-the-large-model", "x" * 250, "مثيل للتدريب", "\U0001f680")


def serve(visitor: Visitor, site: Site) -> None:
    """Answer whatever the visitor opens and sends, with the session of an approver."""
    cookies = site.cookies()

    def answer(route: Route) -> None:
        parts = urlsplit(route.request.url)
        form = dict(parse_qsl(route.request.post_data or "", keep_blank_values=True))
        address = f"{parts.path}?{parts.query}" if parts.query else parts.path
        found = site.ask(address, route.request.method, cookies=cookies, form=form)
        if found["statusCode"] == 303:  # Chromium would follow it past this
            found = site.ask(found["headers"]["Location"], cookies=cookies)
        route.fulfill(status=found["statusCode"], headers=found["headers"], body=found["body"])

    visitor.page.route("**/*", answer)


@pytest.mark.parametrize("size", ["desktop", "phone"])
@pytest.mark.parametrize("address", ["/questions", f"/questions/{OTHER}"])
def test_the_page_is_at_ease(new_visitor: NewVisitor, address: str, size: str) -> None:
    visitor, site = new_visitor(size), Site()
    site.ask_more(7, NAMES)
    serve(visitor, site)

    assert 200 == visitor.open(SITE + address)
    visitor.assert_at_ease_in_every_scheme()


def test_fifty_rows_are_short_on_a_phone(new_visitor: NewVisitor) -> None:
    """Under 5,000 points, whatever the instances are called; the bar is in sight from the start."""
    visitor, site = new_visitor("phone", viewport={"width": 390, "height": 844}), Site()
    site.ask_more(60, NAMES)
    serve(visitor, site)
    visitor.open(SITE + "/questions")

    assert 5000 > visitor.page.evaluate("document.documentElement.scrollHeight")
    bar = visitor.page.locator(".several").bounding_box()
    assert bar is not None
    assert 844 >= bar["y"] + bar["height"]
    losses = visitor.page.locator("p:has(.loss)")
    assert losses.count()
    assert losses.evaluate_all("all => all.every((one) => one.scrollWidth <= one.clientWidth)")


def test_the_bar_adds_up_what_is_ticked(new_visitor: NewVisitor) -> None:
    visitor, site = new_visitor("desktop"), Site()
    site.ask_more(40)
    serve(visitor, site)
    visitor.open(SITE + "/questions")
    keep = visitor.page.get_by_role("button", name="Keep", exact=True)

    assert keep.is_disabled()
    for name in ("notebook-39", "notebook-36"):
        visitor.page.get_by_label(name).check()
    assert "2 selected, $600 a day" in visitor.text()
    assert 200 == visitor.press("Keep")
    assert 2 == visitor.text().count(": Recorded: ")


def test_without_scripts_the_same_is_answered(new_visitor: NewVisitor) -> None:
    visitor, site = new_visitor("phone", java_script_enabled=False), Site()
    serve(visitor, site)
    visitor.open(SITE + "/questions")

    visitor.page.locator("input[type=checkbox][name^=pick]").first.check()
    assert 200 == visitor.press("Keep")
    assert 1 == visitor.text().count(": Recorded: ")


@pytest.mark.parametrize(
    ("size", "scripts"), [("desktop", True), ("phone", True), ("phone", False)]
)
def test_a_stop_is_undone_on_the_page_of_the_instance(
    new_visitor: NewVisitor, size: str, scripts: bool
) -> None:
    """Without scripts, too; where it cannot be started now, the page says why and offers it
    again."""
    visitor, site = new_visitor(size, java_script_enabled=scripts), stopped()
    serve(visitor, site)
    visitor.open(SITE + instance_of(site))
    if scripts:  # axe-core is one
        visitor.assert_at_ease()

    site.undoer.answer = UndoAnswer(False, "EC2 has no free capacity")
    visitor.page.get_by_text("Start it again…").click()
    assert 409 == visitor.press("Start it: $24 a day")
    assert "Not started: EC2 has no free capacity." in visitor.text()
    visitor.open(SITE + instance_of(site))
    site.undoer.answer = UndoAnswer(True, "")
    visitor.page.get_by_text("Start it again…").click()
    assert 200 == visitor.press("Start it: $24 a day")
    assert 2 == len(site.undoer.asked)


def test_in_forced_colors_a_disabled_button_has_the_color_of_the_system_for_it(
    new_visitor: NewVisitor,
) -> None:
    """It was made paler still, so that nobody could read it."""
    visitor, site = new_visitor("desktop"), Site()
    site.ask_more(2)
    serve(visitor, site)
    visitor.page.emulate_media(forced_colors="active")
    visitor.open(SITE + "/questions")
    keep = visitor.page.get_by_role("button", name="Keep", exact=True)

    assert keep.is_disabled()
    assert "1" == keep.evaluate("one => getComputedStyle(one).opacity")
