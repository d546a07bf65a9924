"""The documentation's search, as a reader's browser runs it in pages opened from a folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from scripts.environment import ENVIRONMENTS, ROOT
from tests.browser.visitor import Visitor

MKDOCS = ENVIRONMENTS["docs"][0] / "bin" / "mkdocs"
pytestmark = pytest.mark.skipif(
    not MKDOCS.exists(), reason="MkDocs is not installed: make env-docs"
)
QUIET_HOURS = "approvals.html#quiet-hours-and-working-hours-stop-asking-at-night"
FIRST_HITS = {
    "undo a stop": "console.html#undo-a-stop-start-an-instance-again",
    "undo stop": "console.html#undo-a-stop-start-an-instance-again",
    "how do I start an instance again?": "console.html#undo-a-stop-start-an-instance-again",
    "keep an instance": "console.html#answer-questions-keep-or-stop-instances",
    "approve link expired": "approvals.html#when-an-approval-link-expires",
    "quiet hours": QUIET_HOURS,
    "how do I stop asking at night": QUIET_HOURS,
    "working hours": QUIET_HOURS,
    "deploy": "lifecycle.html",
    "member accounts": "accounts.html",
    "freeze": "policy.html#see-and-end-a-freeze-or-raise-a-cap",
    "end a freeze": "policy.html#see-and-end-a-freeze-or-raise-a-cap",
    "pause everything": "policy.html#pause-everything",
    "exemption tag": "policy.html#the-exemption-tag-exempt-an-instance",
    "what does it cost": "money.html",
    "uninstall": "lifecycle.html#uninstall-remove-a-stack",
    "policy": "policy.html",
}
"""The place that each search finds first: a page, or the section that answers the question."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site."""
    folder = tmp_path_factory.mktemp("site")
    command = [str(MKDOCS), "build", "--strict", "--quiet", "-d", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return folder


def first_hit(visitor: Visitor, query: str) -> tuple[str, str]:
    """Return the page that a search finds first, and the first section that is listed below it."""
    page = visitor.page
    hits = page.locator(".md-search-result__item")
    # An index is built for each page that is opened, so the next search is made on the same one.
    # Its hits are known by an empty list before them.
    page.locator(".md-search__input").fill("")
    hits.first.wait_for(state="detached")
    page.locator(".md-search__input").click()
    page.keyboard.insert_text(query)
    page.keyboard.press("End")
    links = hits.first.locator("a.md-search-result__link")
    links.first.wait_for(state="attached")
    places = [_place(links.nth(number).get_attribute("href") or "") for number in range(2)]
    return places[0], places[1]


def _place(address: str) -> str:
    """Return the page and the anchor of an address, without the words to highlight there."""
    parts = urlsplit(address)
    name = Path(parts.path).name
    return f"{name}#{parts.fragment}" if parts.fragment else name


def test_a_question_finds_its_page(visitor: Visitor, site: Path) -> None:
    """In the words of a reader who does not know those of the page."""
    wrong = {}
    visitor.page.goto((site / "index.html").as_uri())
    for query, place in FIRST_HITS.items():
        hit = first_hit(visitor, query)
        if place not in hit:
            wrong[query] = hit

    assert {} == wrong
