"""The frame of each page: the ways to other pages, past the navigation, and onto paper."""

from __future__ import annotations

import re

import pytest

from governor.console.formats import TEMPLATES, answer
from governor.core.units import iso
from governor.web.responses import HEADERS, policy_of
from tests.console_world import VIEWS, html, lively, view_of
from tests.unit.console.asking import Site
from tests.unit.web.test_site import ID, LATER, DigestWorld, World


def page(address: str) -> str:
    view, named = view_of(address)
    return html(view, lively(), None, address, **named)


@pytest.mark.parametrize("address", VIEWS)
def test_the_first_link_of_a_page_skips_the_navigation(address: str) -> None:
    """It leads to what the page is about, which takes the focus."""
    text = page(address)
    first = re.search(r"<a [^>]*>", text)
    assert first
    assert '<a class="skip" href="#main">' == first[0]
    assert 1 == text.count('<main id="main" tabindex="-1">')


def test_the_navigation_has_every_page_of_its_own() -> None:
    """The lists of kept instances and of freezes, too; the page that is shown is marked."""
    text = page("/freezes").partition("<main")[0]
    places = re.findall(r'<a href="(/[a-z]*)"', text)
    assert {"/", "/fleet", "/ungoverned", "/questions", "/kept"} <= set(places)
    assert {"/savings", "/projects", "/freezes"} <= set(places)
    assert '<a href="/freezes" aria-current="page">Freezes</a>' in text


def test_each_page_says_which_deployment_it_shows() -> None:
    """The name of the stack, with the name that its operator gives it."""
    assert '<p class="about">governor · mode' in page("/")


def test_each_page_has_an_icon_that_loads_nothing() -> None:
    """It is in the page, and the policy allows images that are in the page, and no others."""
    icon = '<link rel="icon" href="data:image/svg+xml,'
    for text in (page("/"), World().get().body):
        assert icon in text
    for policy in (
        HEADERS["Content-Security-Policy"],
        answer(200, "").headers["Content-Security-Policy"],
        policy_of(""),
    ):
        assert "img-src data:;" in policy
        assert "default-src 'none'" in policy


def test_each_link_to_a_question_names_its_instance() -> None:
    """A list of links by a screen reader says where each one goes."""
    site = Site()
    text = site.ask("/questions", cookies=site.cookies())["body"]
    links = re.findall(
        r'<a href="/questions/[^"?]+">Open<span class="named"> ([^<]+)</span></a>', text
    )
    assert 2 == len(set(links))
    assert "Open it" not in text


def test_paper_shows_the_page_and_no_controls() -> None:
    """In both style sheets: black on white, everything unfolded that a browser can unfold."""
    for style in (str(TEMPLATES.globals["style"]), World().get().body):
        printed = style.partition("@media print")[2]
        assert "display: none" in printed
        assert "color-scheme: light" in printed


def test_each_link_of_an_answered_list_names_its_instance() -> None:
    """One of the questions of a message is answered, the others wait."""
    world = DigestWorld()
    form = {"keep_until": iso(LATER), f"pick-{ID}": "yes"}
    text = world.post("keep", None, **form).body

    assert re.search(r'<a href="[^"]+">Open<span class="named"> [^<]+</span></a></p>', text)
    assert ">Open it</a>" not in text
