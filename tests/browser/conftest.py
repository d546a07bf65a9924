"""Chromium of the operating system, driven by Playwright, before the stack of the integration
tests.

Skipped where either is absent: neither belongs to what the other tests need.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.visitor import Visitor
from tests.integration.conftest import scene, stage

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright

__all__ = ["scene", "stage"]

HERE = Path(__file__).parent
SIZES = ("desktop", "phone")
_DESKTOP = {"viewport": {"width": 1280, "height": 900}}
_PHONE = "Pixel 7"
"""A phone of Playwright's own list: 412 x 839 points, touch, a phone's user agent."""

NewVisitor = Callable[..., Visitor]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is in this folder, and skips what cannot run here with what to do."""
    missing = {
        "browser": _missing("playwright", needs_chromium=True),
        "fuzz": _missing("schemathesis"),
    }
    for item in items:
        if HERE not in item.path.parents:
            continue
        kind = "fuzz" if item.get_closest_marker("fuzz") else "browser"
        item.add_marker(getattr(pytest.mark, kind))
        if (reason := missing[kind]) is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


def _missing(package: str, *, needs_chromium: bool = False) -> str | None:
    if importlib.util.find_spec(package) is None:
        return f"{package} is not in this environment: run `make test-browser`"
    if needs_chromium and shutil.which("chromium") is None:
        return "Chromium is not installed: on Debian, `apt-get install chromium`"
    return None


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    """Its driver; it never fetches a browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """One Chromium a session; each visitor has a profile of their own in it."""
    # Its sandbox refuses to run as root, which is who runs tests in containers.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    launched = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
    yield launched
    launched.close()


@pytest.fixture(scope="session")
def tabs() -> dict[str, list[Page]]:
    """Windows that nobody uses, by the settings they were opened with: opening one costs more than
    a test."""
    return defaultdict(list)


@pytest.fixture
def new_visitor(
    playwright: Playwright, browser: Browser, tabs: dict[str, list[Page]]
) -> Iterator[NewVisitor]:
    """Makes people with a browser: `size` is one of `SIZES`, the rest is Playwright's of a
    context."""
    used: list[tuple[str, Visitor]] = []

    def make(size: str = "desktop", **settings: Any) -> Visitor:
        device = playwright.devices[_PHONE] if size == "phone" else _DESKTOP
        wanted = {**device, **settings}
        if not tabs[str(wanted)]:
            context = browser.new_context(**wanted)
            context.set_default_timeout(300_000)
            tabs[str(wanted)].append(context.new_page())
        page = tabs[str(wanted)].pop()
        page.set_viewport_size(wanted["viewport"])  # whoever used it may have changed it
        used.append((str(wanted), Visitor(page)))
        return used[-1][1]

    yield make
    for wanted, visitor in used:
        visitor.leave()
        tabs[wanted].append(visitor.page)


@pytest.fixture
def visitor(new_visitor: NewVisitor) -> Visitor:
    """One person, who looks at each page in a window of a phone's size, too."""
    found = new_visitor()
    found.also = ({"width": 412, "height": 839}, dict(_DESKTOP["viewport"]))
    return found
