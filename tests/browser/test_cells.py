"""Cells of tables break between words alone, on each page with a table and at each usual width.

The browser measures the lines of each text. Only the names that people give may take two lines:
at a hyphen or another mark, or anywhere if they are longer than a cell can be. Commands to copy may
take several.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from math import ceil, floor
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from cli.scan.page import page_html
from governor.approvals.model.terms import Grant, Rank
from governor.fleet.model import UNGOVERNED
from governor.money.rules.closed import closed_row
from governor.scan.model import Finding, Judgment, Report, Strength
from governor.verdict.model import IdleParts
from scripts.scan_example import report
from tests.browser.conftest import NewVisitor
from tests.browser.visitor import Visitor
from tests.builders import NOW, make_entry
from tests.console_world import (
    EVERYTHING,
    INSTANCE,
    TARGETS,
    VIEWS,
    ConsoleWorld,
    asked,
    caller,
    lively,
    make_episode,
    make_row,
    many_rows,
    sent,
    view_of,
)
from tests.unit.console.asking import OTHER, Site
from tests.unit.console.test_ungoverned import UNUSED, found, scanned
from tests.unit.web.test_site import World

if TYPE_CHECKING:
    from PIL.Image import Image
    from playwright.sync_api import Page, Route

WIDTHS = (768, 1024, 1280, 1440)
CARDS_BELOW = 1024
SITE = "https://console.example"
COMMAND = (
    "aws sagemaker describe-app --region us-east-1 --domain-id d-a1b2c3d4e5f6 "
    "--space-name bob-space --app-type JupyterLab --app-name default"
)
PAGES = (*VIEWS, "/fleet?verdict=ungoverned", "/fleet?q=notebook")

MEASURE = r"""
() => {
  const spaces = "[ \\u00a0]";
  const whole = [
    "\\S+",
    `\\d+${spaces}(h|min|days?)(${spaces}\\d+${spaces}min)?(?![a-z])`,
    `[A-Z][a-z]{2}(${spaces}[A-Z][a-z]{2}${spaces}\\d{1,2},)?${spaces}\\d\\d:\\d\\d(${spaces}[A-Z]\\w+)?`,
    `\\d\\d:\\d\\d${spaces}[A-Z]\\w+`,
    `[A-Z][a-z]{2}${spaces}[A-Z][a-z]{2}${spaces}\\d{1,2},`,
    `[A-Z][a-z]{2}${spaces}\\d{1,2}(?!\\d)`,
    `\\d[\\d,.]*${spaces}(USD|instances?|stops?)`,
  ].map((pattern) => new RegExp(pattern, "g"));
  const pieces = /[^\s\-_./@:=]{1,16}(?![^\s\-_./@:=])[\-_./@:=]?/g;
  const faults = [];
  for (const cell of document.querySelectorAll("td, th, caption")) {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const node = texts.currentNode;
      const isName = node.parentElement.closest("bdi") !== null;
      if (node.parentElement.closest("code")) continue;
      for (const pattern of isName ? [pieces] : whole) {
        for (const found of node.data.matchAll(pattern)) {
          const before = node.data[found.index - 1];
          if (isName && before && /[^\s\-_./@:=]/.test(before)) continue;
          const range = document.createRange();
          range.setStart(node, found.index);
          range.setEnd(node, found.index + found[0].length);
          const boxes = [...range.getClientRects()].filter((box) => box.width > 0);
          const lines = new Set(boxes.map((box) => Math.round(box.top / 4)));
          if (lines.size > 1) faults.push(`${found[0]} in ${cell.textContent.trim()}`);
        }
      }
    }
  }
  return faults;
}
"""
RAGGED = r"""
() => {
  const isNumber = /^(-?\$?\d[\d,.]*%?( ?of ?\d+)?|\d+ (h|min|days?)( \d+ min)?)$/;
  const isAccount = /^\d{12}$/;
  const isNothing = /^(|unknown|not sent yet)$/;
  const faults = [];
  for (const table of document.querySelectorAll("table")) {
    const rows = [...table.querySelectorAll("tbody tr")];
    const heads = [...table.querySelectorAll("thead th")];
    heads.forEach((head, column) => {
      const cells = rows.map((row) => row.cells[column]).filter(Boolean);
      const texts = cells.map((cell) => cell.innerText.replace(/\s/g, " ").trim());
      const numbers = texts.filter((text) => isNumber.test(text) && !isAccount.test(text));
      if (!numbers.length || !texts.every((text) => isNumber.test(text) || isNothing.test(text)))
        return;
      for (const cell of [head, ...cells])
        if (!["right", "end"].includes(getComputedStyle(cell).textAlign))
          faults.push(`${head.textContent}: ${cell.innerText}`);
    });
  }
  return [...new Set(faults)];
}
"""


@pytest.fixture(scope="module")
def fleet() -> ConsoleWorld:
    """A fleet with everything that a table can hold: long names, instances that nobody governs,
    an episode with its GPUs, unknown prices, and limits in use. Tests look at it, and change
    nothing."""
    world = lively()
    place = INSTANCE.rsplit("/", 1)[1]
    rows = [asked(row) if row.instance_id == place else row for row in many_rows(41)]
    long_names = {
        "name": "team-research-long-name-of-a-training-notebook-of-the-vision-group-0042",
        "owner": "platform-machine-learning-research-owners@subdomain.example.com",
        "project": "x" * 300,
    }
    rows.append(make_row(71, **long_names))
    rows.append(make_row(72, usd_per_hour=None, verdict="managed-elsewhere", managed_by="ECS"))
    rows.append(make_row(73, quiet_until=NOW + timedelta(days=9, hours=3), is_reported=True))
    works = {"verdict": "partly-idle", "idle_since": None, "instance_type": "trn2.48xlarge"}
    rows.append(make_row(74, **works, idle_parts=IdleParts(127, 128, "NeuronCore")))
    stopped = make_row(75)
    stop = make_entry(1, episode=make_episode(stopped).ref, resource_name=stopped.instance_id)
    rows.append(closed_row(stop))
    loose = {"verdict": UNGOVERNED, "idle_since": None, "instance_type": "p4de.24xlarge"}
    rows.append(make_row(81, **loose))
    rows.append(make_row(82, **loose, created_by="arn:aws:sts::123456789012:assumed-role/a/b"))
    world.keep(*rows)
    for row in rows:
        if row.instance_id == place:
            episode = make_episode(row)
            world.state.put(replace(episode, ref=replace(episode.ref, number=1)))
    caps = {"ORGANIZATION": 9, "OWNER#ml-team": 9}
    world.state.reserve("first", "stop", caps, NOW - timedelta(minutes=9), "x")
    space = "d-a1b2c3d4e5f6/the-space-of-the-vision-group-0042/JupyterLab/default"
    app = replace(found("bob-space", UNUSED, "7.09", creator="bob"), command=COMMAND)
    app = replace(app, resource=replace(app.resource, resource_id=space))
    used = "Utilization reached 97.8% in the last 24 h, last at Sat Nov 28, 03:00 UTC (the agent)."
    busy = replace(UNUSED, evidence=used)
    parts = IdleParts(7, 8, "GPU")
    partly_idle = Judgment(Finding.PARTLY_IDLE, Strength.STRONG, used, idle_parts=parts)
    others = (found("search", busy, "70.5"), found("train", partly_idle, "32.77"))
    scanned(world, TARGETS[0], app, *others)
    return world


def at_a_desk(new_visitor: NewVisitor) -> Visitor:
    """Return somebody whose window these tests alone change."""
    return new_visitor("desktop", viewport={"width": WIDTHS[-1], "height": 900})


def serve(visitor: Visitor, world: ConsoleWorld, zone: str = "Europe/Berlin") -> None:
    """Answer whatever the visitor opens from this world, for an admin of everything in this time
    zone."""
    admin = caller(grants=(Grant(Rank.ADMIN, EVERYTHING),), zone=zone)

    def answer(route: Route) -> None:
        parts = urlsplit(route.request.url)
        view, named = view_of(parts.path)
        query = dict(parse_qsl(parts.query))
        body = sent(view, world, admin, parts.path, **query, **named)
        route.fulfill(status=200, content_type="text/html; charset=utf-8", body=body)

    visitor.page.route("**/*", answer)


def assert_whole(visitor: Visitor) -> None:
    """No text of a cell is broken, and nothing is wider than the screen, at each width."""
    visitor.unfold()
    for width in WIDTHS:
        visitor.page.set_viewport_size({"width": width, "height": 900})
        assert [] == visitor.page.evaluate(MEASURE), width
        wider = visitor.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert 0 >= wider, width
        if width >= CARDS_BELOW:
            assert [] == visitor.page.evaluate(RAGGED), width


def with_a_partly_idle_row(scan: Report) -> Report:
    """Return the report with an instance of which most NeuronCores are idle."""
    parts = IdleParts(127, 128, "NeuronCore")
    partly_idle = replace(UNUSED, finding=Finding.PARTLY_IDLE, idle_parts=parts)
    return replace(scan, rows=(*scan.rows, replace(scan.rows[0], judgment=partly_idle)))


@pytest.mark.parametrize("address", PAGES)
def test_no_cell_of_the_console_breaks_a_word_or_a_number(
    new_visitor: NewVisitor, fleet: ConsoleWorld, address: str
) -> None:
    """Types, accounts, times and amounts stay on one line, and numbers end at the right."""
    visitor = at_a_desk(new_visitor)
    serve(visitor, fleet)
    visitor.open(SITE + address)
    assert_whole(visitor)


def test_the_fleet_fits_in_a_zone_of_a_long_name(
    new_visitor: NewVisitor, fleet: ConsoleWorld
) -> None:
    """Its last column is the narrowest that holds times with the name of a city."""
    visitor = at_a_desk(new_visitor)
    serve(visitor, fleet, "America/Argentina/Buenos_Aires")
    visitor.open(f"{SITE}/fleet")
    assert_whole(visitor)


@pytest.mark.parametrize("address", ["/questions", f"/questions/{OTHER}"])
def test_no_cell_of_a_question_breaks_a_word_or_a_number(
    new_visitor: NewVisitor, address: str
) -> None:
    visitor, site = at_a_desk(new_visitor), Site()
    site.ask_more(7)
    visitor.page.set_content(site.ask(address, cookies=site.cookies())["body"])
    assert_whole(visitor)


@pytest.mark.parametrize(
    "make", [lambda: World().get().sent, lambda: page_html(with_a_partly_idle_row(report()))]
)
def test_no_cell_of_a_linked_page_or_of_a_scan_breaks_a_word_or_a_number(
    new_visitor: NewVisitor, make: Any
) -> None:
    visitor = at_a_desk(new_visitor)
    visitor.page.set_content(make())
    assert_whole(visitor)


def test_the_measure_finds_a_broken_cell(new_visitor: NewVisitor) -> None:
    """A type, a time and a price that are too long for their cells are faults; a long name and a
    text of several words are none."""
    visitor = at_a_desk(new_visitor)
    cells = ["p4d.24xlarge", "Sat 04:02 UTC", "6 h 40 min", "a text of words"]
    body = "".join(f"<td style='width:4em;overflow-wrap:anywhere'>{text}" for text in cells)
    names = "<td style='overflow-wrap:anywhere'><bdi>a-name-of-many-parts</bdi>"
    visitor.page.set_content(
        f"<style>table{{table-layout:fixed;width:20em}}</style><table><tr>{body}{names}</table>"
    )
    faults = visitor.page.evaluate(MEASURE)
    assert {"p4d.24xlarge", "Sat 04:02 UTC", "04:02 UTC", "6 h 40 min"} == {
        fault.partition(" in ")[0] for fault in faults
    }


def test_tables_are_cards_below_1024_points(new_visitor: NewVisitor, fleet: ConsoleWorld) -> None:
    visitor = at_a_desk(new_visitor)
    serve(visitor, fleet)
    visitor.open(f"{SITE}/fleet")
    row = visitor.page.locator("table.fleet tbody tr").first
    shown_as = {}
    for width in WIDTHS:
        visitor.page.set_viewport_size({"width": width, "height": 900})
        shown_as[width] = row.evaluate("one => getComputedStyle(one).display")
    expected = {width: "block" if width < CARDS_BELOW else "table-row" for width in WIDTHS}
    assert expected == shown_as


@pytest.mark.parametrize("address", ["/", "/kept", "/savings"])
def test_no_line_of_a_card_begins_with_a_dot(
    new_visitor: NewVisitor, fleet: ConsoleWorld, address: str
) -> None:
    """Dots stand between the cells of a line, and nothing is drawn before its first cell."""
    visitor = at_a_desk(new_visitor)
    serve(visitor, fleet)
    visitor.open(SITE + address)
    for width in (390, 768):
        visitor.page.set_viewport_size({"width": width, "height": 900})
        rows = visitor.page.evaluate(_ROWS_OF_CARDS)
        picture = whole_page(visitor.page)
        dotted = [row["text"] for row in rows if not is_plain(picture, row["ahead"])]
        assert [] == dotted, width
        assert any(row["wrapped"] for row in rows), f"no line of {address} is wrapped"


@pytest.mark.parametrize("address", VIEWS)
def test_no_card_ends_with_a_dot(
    new_visitor: NewVisitor, fleet: ConsoleWorld, address: str
) -> None:
    """A cell without words or a picture takes no place, and so no dot stands before it."""
    visitor = at_a_desk(new_visitor)
    serve(visitor, fleet)
    visitor.open(SITE + address)
    visitor.page.set_viewport_size({"width": 390, "height": 900})

    assert [] == visitor.page.evaluate(_SHOWN_EMPTY_CELLS)


_SHOWN_EMPTY_CELLS = """
() => [...document.querySelectorAll(".cards tbody td")]
  .filter((cell) => getComputedStyle(cell).display !== "none")
  .filter((cell) => !cell.innerText.trim() && !cell.querySelector("svg"))
  .map((cell) => cell.parentElement.innerText)
"""
"""Gives the text of each row in which a cell without content takes a place."""

_ROWS_OF_CARDS = """
() => [...document.querySelectorAll(".cards tbody tr")].map((row) => {
  const range = document.createRange();
  range.selectNodeContents(row.cells[0]);
  const name = range.getBoundingClientRect();
  const box = row.getBoundingClientRect();
  const lefts = [...row.cells].slice(1).map((cell) => cell.getBoundingClientRect().left);
  const first = Math.min(...lefts);
  return {
    text: row.innerText,
    wrapped: lefts.filter((left) => left === first).length > 1,
    ahead: [name.left - 15, box.top + scrollY + 1, name.left - 3, box.bottom + scrollY - 2],
  };
})
"""
"""Gives the text of each row, whether its cells take several lines, and where the ground before its
lines is."""


def whole_page(page: Page) -> Image:
    """Return a picture of the whole page."""
    from PIL.Image import open as opened

    picture = opened(io.BytesIO(page.screenshot(full_page=True)))
    return picture.convert("RGB")


def is_plain(picture: Image, box: Sequence[float]) -> bool:
    """Return whether a part of a picture has one color: that of the ground, where nothing
    stands."""
    left, top, right, bottom = box
    part = picture.crop((ceil(left), ceil(top), floor(right), floor(bottom)))
    colors = part.getcolors()
    return colors is not None and len(colors) == 1
