"""`make up` as a stranger meets it: one URL, and nothing else to go by."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.demo.site.messages import CHANNELS
from tests.browser.conftest import NewVisitor
from tests.browser.visitor import Visitor

ROOT = Path(__file__).parents[2]
EXPORTS = ROOT / "build" / "up.env"
PAGES = (
    "/",
    "/fleet?state=idle",
    "/questions",
    "/savings",
    *(f"/simulated/{name}" for name in CHANNELS),
)
DESK, PHONE = {"width": 1280, "height": 900}, {"width": 412, "height": 839}
# A shell starts what runs in its background with SIGINT ignored, as what that starts in turn has
# it.
STARTED = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("cli.up", run_name="__main__")
"""
MOST_PRESSES = 6
"""From the URL to the saving: a stranger needs two minutes for that many, the waiting included."""


class Stranger:
    """Follows what the pages say, and counts what was pressed."""

    def __init__(self, visitor: Visitor, url: str) -> None:
        self.visitor, self.presses = visitor, 0
        visitor.open(url)

    def follow(self, step: str) -> None:
        """A step of the banner."""
        self.presses += 1
        with self.visitor.page.expect_navigation():
            self.visitor.page.locator("#simulated").get_by_role("link", name=step).click()

    def tick(self, name: str) -> None:
        self.presses += 1
        self.visitor.page.get_by_role("checkbox", name=name).check()

    def press(self, name: str) -> None:
        self.presses += 1
        assert 200 == self.visitor.press(name)

    def news(self, pattern: str) -> re.Match[str]:
        """Return what the banner comes to say by itself."""
        where = self.visitor.page.locator("#simulated .news", has_text=re.compile(pattern))
        where.wait_for()
        found = re.search(pattern, where.inner_text())
        assert found is not None
        return found


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Yield the address that `make up` prints; then Ctrl-C ends it, and nothing is left behind."""
    with subprocess.Popen(
        [sys.executable, "-c", STARTED],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'layers/shared'}:{ROOT}", "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if "in a browser" in line:
                break
        printed = re.findall(r"http://\S+", "".join(said))
        assert 1 == len(printed), said
        yield printed[0]
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert (0, True) == (process.wait(), rest.endswith("\nended\n")), rest
    assert not EXPORTS.exists()


@pytest.mark.parametrize("page", PAGES)
def test_each_page_is_at_ease_under_the_banner(
    new_visitor: NewVisitor, url: str, page: str
) -> None:
    """At a desk in daylight, and dark on a phone. Nobody has to sign in, and every page says that
    it is simulated."""
    visitor = new_visitor()
    assert 200 == visitor.open(url.rstrip("/") + page)
    assert (
        "Simulated on this machine" in visitor.page.locator("#simulated").inner_text().capitalize()
    )
    for size, scheme in ((DESK, "light"), (PHONE, "dark")):
        visitor.page.set_viewport_size(size)
        visitor.page.emulate_media(color_scheme=scheme)
        visitor.assert_at_ease()


@pytest.mark.parametrize("channel", ["mail", "slack", "teams"])
def test_a_link_in_a_message_opens_its_page(
    new_visitor: NewVisitor, url: str, channel: str
) -> None:
    """Under the banner, in the whole window, without a session; a mail has its chart."""
    visitor = new_visitor("desktop")
    visitor.open(f"{url}simulated/{channel}")
    page = visitor.page
    subject = re.compile("notebook-1 keeps running unless you stop it")
    page.get_by_role("link", name=subject).first.click()
    message = page.frame_locator("iframe")
    if channel == "mail":
        assert message.get_by_role("img", name="Busiest GPU by hour").is_visible()
    with page.expect_navigation(url=re.compile("/q/")) as opened:
        message.get_by_role("link").first.click()
    assert (200, True) == (opened.value.status, page.locator("#simulated").is_visible())
    assert "notebook-1" in page.locator("main").inner_text()


def test_a_stranger_stops_the_most_expensive_idle_machine_and_says_what_it_saved(
    new_visitor: NewVisitor, url: str
) -> None:
    """By the three steps of the banner, in few presses; the page of the instance says so, too."""
    stranger = Stranger(new_visitor("desktop"), url)
    page = stranger.visitor.page
    stranger.follow("See what is idle")
    name = page.locator("tbody tr a").first.inner_text()

    stranger.follow("Stop one")
    stranger.tick(name)
    stranger.tick("I accept that data on local disks is lost for good")
    stranger.press("Stop")
    assert f"{name}: Recorded: approved" in stranger.visitor.text()
    saved = stranger.news(rf"{name} is stopped: it saves (\$\d+) a day")[1]
    stranger.follow("See what it saved")

    assert ("$526", MOST_PRESSES) == (saved, stranger.presses)
    assert 3 == page.locator("#simulated .steps .done").count()
    page.locator("#simulated .news a").click()
    assert "still counts" in page.locator("main").inner_text()
    ledger = f"{url}savings"
    assert 200 == stranger.visitor.open(ledger)
    assert "Still counts" in stranger.visitor.text()


def test_a_session_that_has_ended_is_followed_by_a_new_one(
    new_visitor: NewVisitor, url: str
) -> None:
    """A bookmark goes on working, whatever became of the session."""
    visitor = new_visitor("desktop")
    visitor.open(url)
    visitor.press("Sign out")
    assert "Signed out" in visitor.text()
    assert 200 == visitor.open(f"{url}fleet")
    [before] = visitor.page.context.cookies()
    visitor.page.context.add_cookies([{**before, "value": "forged"}])
    assert 200 == visitor.open(f"{url}savings")
