"""Everything that decides lies in what a phone of 390 x 844 shows first, with the hardest
content."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest

from governor.approvals.rules.approval import first_approval
from governor.approvals.rules.terms import BROADCAST
from governor.core.instance import Lifecycle, SpotRequestType
from governor.episode.rules.plan import draw_plan
from governor.evidence.model import GpuReadings
from governor.policy.model.acting import Action, PlanRule
from governor.policy.model.policy import Mode, Policy
from local.demo.site.banner import dressed, inside
from local.demo.site.front import Reply
from local.demo.site.messages import CHANNELS, ROOT
from local.demo.site.story import Progress, Step
from tests.browser.conftest import NewVisitor
from tests.builders import make_facts
from tests.unit.console import asking as console
from tests.unit.notify.test_digest_of_many import digest, instance_number
from tests.unit.notify.test_truth import episode_of, rendered
from tests.unit.web.test_gate import Gated
from tests.unit.web.test_site import World
from tests.unit.worlds.world import APPROVAL_ID

if TYPE_CHECKING:
    from playwright.sync_api import Page

    Window = Callable[..., Page]

LONG = "team-research-long-name-of-a-training-notebook-of-the-vision-group-0042"
OWNER = "platform-machine-learning-research-owners@subdomain.example.com"
BUSY, GAP, QUIET = (90.0,) * 100, (None,) * 20, (1.0,) * 80
HEIGHT, LEAST_LETTERS = 844, 11


def hard(world: World, **changes: Any) -> World:
    """Long names, a one-time Spot instance with sixteen GPUs, somebody logged in."""
    spot = replace(
        world.episode.instance,
        tags={"Name": LONG},
        instance_type="p4de.24xlarge",
        lifecycle=Lifecycle.SPOT,
    )
    facts = make_facts(spot, spot_request=SpotRequestType.ONE_TIME)
    day = episode_of().measurement.history
    assert day is not None
    gpus = tuple(
        GpuReadings(str(number), (*BUSY, *GAP, *BUSY[:88], *QUIET)) for number in range(16)
    )
    world.change(
        instance=spot,
        plan=draw_plan(facts, Policy(plan=PlanRule(action=Action.TERMINATE))),
        history=replace(day, gpus=gpus),
        evidence=replace(world.episode.measurement.evidence, gpus_expected=16),
        owner=OWNER,
        project="project-of-the-vision-group-with-a-long-name",
        time_zone="America/Argentina/Buenos_Aires",
        presence="Somebody was logged in 20 minutes ago (Session Manager).",
        **changes,
    )
    return world


def rehearsal() -> str:
    """Nobody is asked about it."""
    world = hard(World(Action.TERMINATE), mode=Mode.OBSERVE)
    world.state.put(first_approval(world.episode))
    return world.get().sent


def notice() -> str:
    """Mode auto, which can be held."""
    world = hard(World(Action.TERMINATE), mode=Mode.AUTO)
    world.state.put(first_approval(world.episode))
    return world.get().sent


def gated() -> str:
    """Somebody who must sign in first."""
    gate = Gated()
    hard(gate.world)
    return gate.ask("GET").sent


def in_console() -> str:
    """The same question, for an approver who has signed in."""
    site = console.Site()
    return str(site.ask(f"/questions/{APPROVAL_ID}", cookies=site.cookies())["body"])


CASES: dict[str, tuple[Callable[[], str], tuple[str, ...]]] = {
    "plain": (lambda: World().get().sent, ("Keep until", "Stop it…")),
    "console": (in_console, ("Keep until", "Stop it…")),
    "two people": (lambda: hard(World(people=2)).get().sent, ("Keep until", "Terminate it…")),
    "silence acts": (
        lambda: hard(World(), acts_on_silence=True).get().sent,
        ("Keep until", "Terminate it…"),
    ),
    "list": (lambda: hard(World(link_of=BROADCAST)).get().sent, ("Keep until", "cannot be used")),
    "sign-in": (gated, ("Sign in to decide",)),
    "rehearsal": (rehearsal, ()),
    "notice": (notice, ("Hold it", "Keep until")),
}


@pytest.fixture
def window(new_visitor: NewVisitor) -> Window:
    """Open windows of a width. A window is used again by the next test that wants one like it."""

    def opened(width: int) -> Page:
        return new_visitor("desktop", viewport={"width": width, "height": HEIGHT}).page

    return opened


@pytest.fixture
def phone(window: Window) -> Page:
    """A screen of 390 x 844 points."""
    return window(390)


@pytest.mark.parametrize("case", CASES)
def test_all_that_decides_is_seen_first(phone: Page, case: str) -> None:
    """Name, owner, cost, deadline and silence above the buttons, and both buttons on the screen."""
    make, buttons = CASES[case]
    phone.set_content(make())
    bar = phone.locator(".answers")
    top = HEIGHT
    if buttons:
        box = bar.bounding_box()
        assert box is not None
        top = int(box["y"])
    shown = [bar.get_by_text(text).first for text in buttons]
    for one, bottom in [
        *((phone.locator(part), top) for part in (".place", "h1", ".who", ".tiles", ".silence")),
        *((button, HEIGHT) for button in shown),
    ]:
        box = one.bounding_box()
        assert box is not None
        assert (box["y"] >= 0, box["y"] + box["height"] <= bottom) == (True, True), (
            case,
            str(one),
            box,
        )
    assert 0 >= phone.evaluate("document.documentElement.scrollWidth - window.innerWidth")


def test_the_chart_of_the_plain_question_is_seen_first(phone: Page) -> None:
    """And what is lost begins above the buttons, as in the picture that the page was made after."""
    world = World()
    world.change(history=episode_of().measurement.history)
    phone.set_content(world.get().sent)
    top = phone.locator(".answers").bounding_box()
    chart, lost = (phone.locator(part).first.bounding_box() for part in ("figure", ".lost"))

    assert top
    assert chart
    assert lost
    assert (chart["y"] + chart["height"] < top["y"], lost["y"] < top["y"]) == (True, True)


def test_the_banner_of_the_demo_leaves_the_chart_above_the_buttons(phone: Page) -> None:
    """With its legend, while no news stand in the banner."""
    world = World()
    world.change(history=episode_of().measurement.history)
    steps = (
        Step("See what is idle", "/fleet", is_done=True),
        Step("Stop one", "/questions", is_done=False),
        Step("See what it saved", "/savings", is_done=False),
    )
    messages = {f"{ROOT}/{channel}": f"{name} 12" for channel, name in CHANNELS.items()}
    banner = inside(Progress(steps, news=()), {"/": "Console", **messages}, "/")
    page = Reply(200, (), world.get().sent.encode())
    phone.set_content(dressed(page, banner).body.decode())
    buttons = phone.locator(".answers").bounding_box()
    chart = phone.locator("figure").first.bounding_box()

    assert buttons
    assert chart
    assert chart["y"] + chart["height"] < buttons["y"]


_TEXTS = """svg => [...svg.querySelectorAll("text")].map((text) => {
  const { x, y, width, height } = text.getBoundingClientRect();
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  return { x, y, width, height, letters: parseFloat(getComputedStyle(text).fontSize) * scale };
})"""
"""Where each text of a picture is, and how high its letters are."""


def test_the_texts_of_the_pictures_can_be_read(phone: Page) -> None:
    """At least 11 points high on any screen, and no label on another one; strips of sixteen GPUs,
    too."""
    phone.set_content(hard(World()).get().sent)
    for summary in phone.locator("main > details > summary").all():
        summary.click()
    for width in (360, 390, 1280):
        phone.set_viewport_size({"width": width, "height": HEIGHT})
        for number in range(2):
            texts = phone.locator(".picture").nth(number).evaluate(_TEXTS)
            letters = [text["letters"] for text in texts]
            assert round(min(letters), 1) >= LEAST_LETTERS, (width, letters)
            shown = [text for text in texts if text["width"] and text["height"]]
            assert not [pair for pair in combinations(shown, 2) if _overlap(*pair)], width


def test_forced_colors_keep_the_picture_and_the_buttons(phone: Page) -> None:
    """Use, idleness and missing data are told apart, and the button that stops can be read."""
    phone.emulate_media(forced_colors="active")
    phone.set_content(hard(World()).get().sent)

    def color(part: str, name: str) -> str:
        return str(phone.locator(part).first.evaluate(f"one => getComputedStyle(one)['{name}']"))

    phone.get_by_text("Every GPU, and the numbers").click()
    for picture in ("figure .picture", "details .picture"):
        kinds = {
            part: tuple(
                color(f"{picture} .{part}", name) for name in ("fill", "stroke", "strokeDasharray")
            )
            for part in ("busy", "idle", "gap")
        }
        assert 3 == len(set(kinds.values())), kinds
        # The reader's theme may have any colors: only text and ground are sure to differ.
        assert color("body", "color") == kinds["busy"][0]
        assert color("body", "backgroundColor") == kinds["idle"][0]
        assert 'url("#gap-pattern")' == kinds["gap"][0]
        assert color("body", "color") == kinds["idle"][1] == kinds["gap"][1]
    stop = [color("a.danger", name) for name in ("color", "backgroundColor")]
    assert 2 == len(set(stop)), stop
    squares = {
        part: phone.locator(f"figure .key.{part}").evaluate(
            "one => getComputedStyle(one, '::before').backgroundImage"
        )
        for part in ("idle", "gap")
    }
    assert ("none", True) == (squares["idle"], "gradient" in squares["gap"])
    keys = [re.sub(r"\s+", " ", one) for one in phone.locator("figure .key").all_inner_texts()]
    assert ["used", "under 5%", "no data", "idle time", "threshold"] == keys


@pytest.mark.parametrize(("case", "name"), [("notice", "Hold it"), ("sign-in", "Sign in")])
def test_forced_colors_keep_the_text_of_a_filled_button(phone: Page, case: str, name: str) -> None:
    """Browsers paint the ground behind such a text, so it must not have the color of the ground."""
    phone.emulate_media(forced_colors="active")
    phone.set_content(CASES[case][0]())
    button = phone.locator(".answers .button, .answers .first").filter(has_text=name).first

    color = button.evaluate("one => getComputedStyle(one).color")
    assert phone.evaluate("getComputedStyle(document.body).backgroundColor") != color


STOPPABLE = ("plain", "console", "two people", "silence acts")
_COVERED = """() => {
  const bar = document.querySelector(".answers").getBoundingClientRect();
  const parts = [...document.querySelectorAll("main > :not(.answers)")];
  return parts.filter((part) => {
    const box = part.getBoundingClientRect();
    return box.height && box.bottom > bar.top + 1 && box.top < bar.bottom - 1;
  }).map((part) => part.outerHTML.slice(0, 80));
}"""
"""The parts of the page that the bar with the answers covers."""


def serve(page: Page, body: str) -> None:
    """Show the page at an address of its own, so that its links to its own parts lead there."""
    page.route("**/*", lambda route: route.fulfill(content_type="text/html", body=body))
    page.goto("https://governor.example/q/1")


def position(page: Page) -> str:
    """Return how the bar with the answers is placed: `sticky` or `static`."""
    return str(page.locator(".answers").evaluate("bar => getComputedStyle(bar).position"))


@pytest.mark.parametrize("case", STOPPABLE)
def test_before_a_stop_one_button_is_red_and_one_cancels(phone: Page, case: str) -> None:
    """Two looked alike, and the first one closed the form. The bar covers nothing meanwhile."""
    make, buttons = CASES[case]
    serve(phone, make())
    bar = phone.locator(".answers")
    asks = bar.get_by_text(buttons[1])
    assert ("sticky", False) == (position(phone), bar.get_by_text("Cancel").is_visible())

    asks.click()

    red = bar.locator(".danger:visible")
    assert (1, "static") == (red.count(), position(phone))
    assert "button" == red.first.evaluate("one => one.localName")
    assert not asks.is_visible()
    ground = [
        bar.get_by_text("Cancel").evaluate("one => getComputedStyle(one).backgroundColor"),
        phone.evaluate("getComputedStyle(document.body).backgroundColor"),
    ]
    assert ground[0] == ground[1]
    box = red.first.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= HEIGHT

    bar.get_by_text("Cancel").click()

    assert (True, "sticky") == (asks.is_visible(), position(phone))
    assert 0 == bar.locator("button.danger:visible").count()


@pytest.mark.parametrize("case", STOPPABLE)
def test_with_text_of_twice_the_size_nothing_is_covered(phone: Page, case: str) -> None:
    """Wherever the reader is on the page, before and after Stop is pressed; and nothing is wider
    than the screen."""
    make, buttons = CASES[case]
    serve(phone, make())
    phone.add_style_tag(content="html { font-size: 200%; }")
    size = phone.locator(".silence").evaluate("one => parseFloat(getComputedStyle(one).fontSize)")
    assert size > 28

    _assert_nothing_is_covered(phone)
    phone.locator(".answers").get_by_text(buttons[1]).click()
    _assert_nothing_is_covered(phone)


def _assert_nothing_is_covered(page: Page) -> None:
    for width, height in ((1280, 900), (390, HEIGHT)):
        page.set_viewport_size({"width": width, "height": height})
        for part in (0, 0.3, 0.6, 1):
            page.evaluate(f"scrollTo(0, document.documentElement.scrollHeight * {part})")
            assert [] == page.evaluate(_COVERED), (width, part)
        wider = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert 0 >= wider, width


def test_a_mail_about_twelve_instances_is_short_on_a_phone(phone: Page) -> None:
    """It was 3,008 points high; its button comes before the instances."""
    episodes = [instance_number(number, acts=number < 4) for number in range(12)]
    phone.set_content(rendered(digest(episodes))["mail page"])

    assert 1500 > phone.evaluate("document.documentElement.scrollHeight")
    button = phone.get_by_role("link", name="Stop or keep them").bounding_box()
    assert button is not None
    assert button["y"] + button["height"] <= HEIGHT
    assert 0 >= phone.evaluate("document.documentElement.scrollWidth - window.innerWidth")


def _overlap(one: Any, other: Any) -> bool:
    return all(
        one[at] < other[at] + other[size] - 1 and other[at] < one[at] + one[size] - 1
        for at, size in (("x", "width"), ("y", "height"))
    )


LINES = """
(element) => {
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const lines = new Set();
  while (texts.nextNode()) {
    if (!texts.currentNode.data.trim()) continue;
    const range = document.createRange();
    range.selectNodeContents(texts.currentNode);
    for (const box of range.getClientRects()) lines.add(Math.round(box.bottom / 4));
  }
  return lines.size;
}
"""


@pytest.mark.parametrize("case", ["plain", "console", "silence acts"])
def test_the_keep_button_takes_two_lines_of_a_small_phone(window: Window, case: str) -> None:
    """Verb and time on the first, zone and cost on the second."""
    make, _ = CASES[case]
    page = window(360)
    page.set_content(make())
    keep = page.locator(".answers button:has(.under)").first
    label, under = keep.inner_text().replace("\xa0", " ").splitlines()

    assert label.startswith("Keep until ")
    assert under.partition(" (")[0] in ("UTC", "Buenos Aires")
    assert 2 == keep.evaluate(LINES)


@pytest.mark.parametrize("width", [360, 390, 768])
def test_no_id_breaks_after_its_hyphen(window: Window, width: int) -> None:
    """In a sentence. In a narrow column, one that is wider than the column has to."""
    page = window(width)
    page.set_content(World().get().sent)
    for folded in page.locator("details").all():
        folded.evaluate("one => one.open = true")
    ids = page.locator(":is(p, li) .id").all()

    assert {"us-east-1", "vol-0123456789abcdef0"} <= {one.inner_text() for one in ids}
    assert [] == [one.inner_text() for one in ids if one.evaluate(LINES) > 1]
    assert 0 >= page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
