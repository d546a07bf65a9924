"""A person before a real browser: opens links, presses buttons, and finds fault with what they
see."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from tests.browser.looks import LOOK_AT_MARKED, MARK

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Error, Frame, Page

_Seen = TypeVar("_Seen")
_HOW_IT_ENDS_SECONDS = 600
_PRESSABLE_POINTS = 24
"""The least that WCAG 2.2 wants of a target (2.5.8)."""

_OTHER_SCHEMES: Sequence[dict[str, Any]] = (
    {"color_scheme": "dark", "forced_colors": "none"},
    {"color_scheme": "light", "forced_colors": "active"},
)
"""Besides light."""
_COLORS_ALONE = {"runOnly": ["color-contrast", "link-in-text-block"]}
_BEYOND_COLORS = """() => {
    const isOfScheme = /prefers-color-scheme|forced-colors/;
    const isColor = /color|^background|^border|^outline|^fill|^stroke|opacity/;
    const found = [];
    const look = (rules, inScheme) => {
        for (const rule of rules) {
            const within = inScheme || isOfScheme.test(rule.conditionText ?? "");
            for (const name of within && rule.style ? rule.style : []) {
                const value = rule.style.getPropertyValue(name).trim();
                const isFine = name.startsWith("--") ? CSS.supports("color", value)
                                                     : isColor.test(name);
                if (!isFine) found.push(`${rule.selectorText} { ${name}: ${value} }`);
            }
            if (rule.cssRules) look(rule.cssRules, within);
        }
    };
    for (const sheet of document.styleSheets) look(sheet.cssRules, false);
    return found;
}"""
"""Finds what style rules for dark ground, or for forced colors, change besides colors and lines."""
_RUN_AXE = """async (options) => {
    const found = await window.axe.run(document, options);
    return {version: found.testEngine.version, violations: found.violations};
}"""
_OF_A_MAIL = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
_OF_A_PAGE_THAT_IS_GONE = ("Execution context was destroyed", "undefined (reading 'run')")
"""Faults of a look during which the page has gone. The second: axe-core was loaded into that
page."""


@dataclass
class Visitor:
    """One tab. What the browser complained about is kept in `complaints`.

    Pages are looked at in windows of the sizes in `also`, the last of which stays.
    """

    page: Page
    complaints: list[str] = field(default_factory=list)
    also: Sequence[dict[str, int]] = ()
    pages: int = 0
    """Pages that the tab has shown."""

    def __post_init__(self) -> None:
        self.page.on("console", self._note)
        self.page.on("pageerror", self._note_error)
        self.page.on("framenavigated", self._note_page)

    def leave(self) -> None:
        """Empties the tab for somebody else, who has no cookie of this one."""
        self.page.remove_listener("console", self._note)
        self.page.remove_listener("pageerror", self._note_error)
        self.page.remove_listener("framenavigated", self._note_page)
        self.page.unroute_all()
        self.page.goto("about:blank")
        self.page.emulate_media(color_scheme="null", forced_colors="null")
        for other in self.page.context.pages:
            if other is not self.page:
                other.close()
        self.page.context.clear_cookies()

    def _note_error(self, error: Error) -> None:
        self.complaints.append(str(error))

    def _note_page(self, _: Frame) -> None:
        self.pages += 1

    def _note(self, message: ConsoleMessage) -> None:
        # A status of 4xx is reported as a failed load; tests look at those themselves.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def open(self, link: str) -> int:
        """Opens a link; its status."""
        answer = self.page.goto(link)
        assert answer is not None
        return int(answer.status)

    def press(self, name: str) -> int:
        """Presses a button; the status of the page that follows."""
        with self.page.expect_navigation() as following:
            self.page.get_by_role("button", name=name, exact=True).click()
        return int(following.value.status)

    def unfold(self) -> None:
        """Opens everything that is folded, one after the other, as a person does."""
        asks_to_stop = self.page.locator(".ask")
        if asks_to_stop.count() and asks_to_stop.is_visible():
            asks_to_stop.click()
        folded = self.page.locator("details:not([open]) > summary")
        while folded.count():
            folded.first.click()

    def _of_one_page(self, look: Callable[[], _Seen]) -> _Seen:
        """Return what a look at one page sees: it looks again where the page has gone meanwhile, as
        a record does that loads itself anew."""
        from playwright.sync_api import Error

        while True:
            self.page.wait_for_load_state()
            before = self.pages
            try:
                return look()
            except (Error, AssertionError) as fault:
                is_of_the_page_before = any(text in str(fault) for text in _OF_A_PAGE_THAT_IS_GONE)
                if before == self.pages and not is_of_the_page_before:
                    raise

    def offered(self) -> list[str]:
        """Return what the buttons of the page say."""
        texts = self._of_one_page(self.page.get_by_role("button").all_inner_texts)
        return [" ".join(text.split()) for text in texts]

    def await_offered(self, *names: str) -> None:
        """Waits until these are the buttons of the page, in this order."""
        from playwright.sync_api import expect

        buttons = self.page.get_by_role("button")
        expect(buttons).to_have_text(list(names), timeout=_HOW_IT_ENDS_SECONDS * 1000)

    def text(self) -> str:
        """Return what the page says, as it is seen, with plain spaces in its times."""
        shown = self._of_one_page(lambda: str(self.page.locator("main").inner_text()))
        return shown.replace("\xa0", " ")

    def await_text(self, text: str | re.Pattern[str]) -> None:
        """Waits until the page says so by itself: the record refreshes without being asked."""
        self.page.get_by_text(text).first.wait_for(timeout=_HOW_IT_ENDS_SECONDS * 1000)

    def await_outcome(self, outcome: str) -> None:
        """Waits until the record names its outcome with its time, as in `Stopped Fri 12:02 UTC`."""
        self.await_text(re.compile(rf"{outcome} [A-Z][a-z]{{2}}\s\d\d:\d\d"))

    def focused(self, question: str) -> str:
        """Return what a function of JavaScript says of the element where the keyboard is."""
        return str(self.page.evaluate(f"({question})(document.activeElement)"))

    def assert_at_ease_in_every_scheme(self) -> None:
        """The same on light and dark ground, and in the colors that the system forces.

        Only colors and lines change with the scheme, so that axe-core looks at colors alone in the
        others.
        """
        self.page.emulate_media(color_scheme="light", forced_colors="none")
        self.assert_at_ease()
        more = self.page.evaluate(_BEYOND_COLORS)
        assert not more, f"a scheme changes more than colors: {more}"
        for settings in _OTHER_SCHEMES:
            self.page.emulate_media(**settings)
            self._in_each_window(_COLORS_ALONE)

    def assert_at_ease(self, *, is_mail: bool = False) -> None:
        """Nothing for axe-core to find, nothing wider than the screen, no button too small, no
        complaint.

        A mail is shown inside somebody else's page: landmarks, which are no part of WCAG, are that
        page's.
        """
        self._in_each_window(_OF_A_MAIL if is_mail else {})

    def _in_each_window(self, options: dict[str, Any]) -> None:
        """Look at the page in windows of all sizes, with these options of axe-core."""
        if not self.also:
            self._of_one_page(lambda: self._assert_at_ease(options))
        for size in self.also:
            self.page.set_viewport_size(size)  # type: ignore[arg-type]
            self._of_one_page(lambda: self._assert_at_ease(options))

    def _violations(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return what axe-core finds wrong with the page, and its version.

        Its script is parsed once a page, and nothing but the violations comes back: what passed
        would be most of the work. The contrast of texts that look alike is measured once.
        """
        from axe_playwright_python.base import AXE_SCRIPT

        if self.page.evaluate("window.axe === undefined"):
            self.page.evaluate(AXE_SCRIPT)
            self.page.evaluate(LOOK_AT_MARKED)
        self.page.evaluate(MARK)
        found: dict[str, Any] = self.page.evaluate(_RUN_AXE, options)
        return found

    def _assert_at_ease(self, options: dict[str, Any]) -> None:
        found = self._violations({"reporter": "no-passes", **options})
        faults = [
            f"{fault['id']}: {', '.join(str(node['target']) for node in fault['nodes'])}"
            for fault in found["violations"]
        ]
        assert not faults, f"axe-core {found['version']} on {self.page.title()}: {faults}"
        width = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert 0 >= width, f"the page is {width} points wider than the screen"
        # All at once: a record that goes on may take a button away between two looks.
        heights = self.page.get_by_role("button").evaluate_all(
            "all => all.map(one => one.getBoundingClientRect().height)"
        )
        assert [] == [height for height in heights if 0 < height < _PRESSABLE_POINTS]
        assert [] == self.complaints
