"""Every tile links to the list that sums to it. The tiles are read from the pages, so a new tile
without a list, or with another sum, fails here."""

from __future__ import annotations

import csv
import html as markup
import io
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import NamedTuple

import pytest

from governor.console.app import Console
from governor.core.units import usd
from governor.episode.model.episode import Outcome
from governor.fleet.rules.kept import KeepReason
from governor.wiring.console import VIEWS
from tests.builders import NOW, make_entry
from tests.console_world import ConsoleWorld, make_row
from tests.unit.console import entrance
from tests.unit.console.entrance import Entrance
from tests.unit.console.test_broken import stored

PAGES = ("/", "/projects/vision")
_COUNT = re.compile(r"\d+ (?:\w+ )?(?:instance|question|idle|stopped|silent)")
"""A number of things that have a list."""
CSV_OF = {"/": "/overview.csv"}


class Tile(NamedTuple):
    """One tile of a page: its heading, where its figure leads, its whole text, its links to lists
    with the numbers that they name, and the text that is no link."""

    heading: str
    href: str
    text: str
    links: list[tuple[str, str]]
    unlinked: str


class Site:
    """The console over a world, for somebody who sees everything."""

    def __init__(self, world: ConsoleWorld) -> None:
        at = Entrance(world.table)
        at.clock.at = NOW
        self.console = Console(lambda: world.reader, at.doors, VIEWS)
        self.cookies = at.session("oidc:1", "ada@example.com", groups=("ops",))

    def get(self, address: str) -> str:
        """Return the page or CSV at an address, which must be there."""
        answered = entrance.ask(self.console, address, cookies=self.cookies)
        assert 200 == answered["statusCode"], address
        return str(answered["body"])

    def rows(self, address: str) -> list[dict[str, str]]:
        """Return the rows of the list at an address, as its CSV has them."""
        path, _, query = address.partition("?")
        found = self.get(f"{CSV_OF.get(path, f'{path}.csv')}?{query}")
        return list(csv.DictReader(io.StringIO(found)))


def tiles_of(page: str) -> list[Tile]:
    """Return the tiles of a page of HTML. Each must have a link at its figure."""
    tiles = []
    for part in re.findall(r"<div>(<dt>.*?)</div>", page.split('<dl class="tiles">')[1], re.S):
        heading = re.findall(r"<dt>(.*?)</dt>", part)[0]
        figure = re.findall(r'<dd class="figure[^"]*">(.*?)</dd>', part, re.S)[0]
        link = re.match(r'<a href="([^"]+)">', figure)
        assert link is not None, f"the tile {heading!r} leads to no list"
        text = _without_tags(part)
        links = re.findall(r'<a href="(/(?:fleet|questions)[^"]*)">(\d+) ', part)
        unlinked = _without_tags(re.sub(r"<a .*?</a>", " ", part))
        tiles.append(Tile(heading, markup.unescape(link[1]), text, links, unlinked))
    assert tiles
    return tiles


def _without_tags(part: str) -> str:
    """Return the text of a part of a page."""
    return " ".join(re.sub(r"<[^>]+>", " ", part).split())


def day_of(rows: list[dict[str, str]]) -> str:
    """Return what a day of these instances costs, as pages write it."""
    prices = [Decimal(row["usd_per_hour"]) for row in rows if row["usd_per_hour"]]
    return usd(sum(prices, Decimal(0)) * 24)


def of_fleet(site: Site, tile: Tile) -> list[str]:
    """The number of instances, and their price of a day."""
    rows = site.rows(tile.href)
    return [f"{len(rows)} ", f"{day_of(rows)} a day"]


def of_questions(site: Site, tile: Tile) -> list[str]:
    """The number of questions, and what their instances cost a day."""
    rows = site.rows(tile.href)
    total = sum((Decimal(row["usd_per_day"]) for row in rows), Decimal(0))
    return [f"{len(rows)} question", f"{usd(total)} a day"]


def of_savings(site: Site, tile: Tile) -> list[str]:
    """The net saving, the stops and terminations of the month, and those undone."""
    rows = site.rows(tile.href)
    total = sum((Decimal(row["x_NetSavedUsd"]) for row in rows), Decimal(0))
    actions = [row for row in rows if is_action_of_this_month(row)]
    undone = sum(row["x_FalseStop"] == "True" for row in rows)
    return [usd(total), f"{len(actions)} stops and terminations", f"{undone} undone"]


def is_action_of_this_month(row: dict[str, str]) -> bool:
    """Return whether an entry of the ledger is a stop or a termination by GPU Governor in the month
    of `NOW`."""
    is_action = row["x_Outcome"] in ("stopped", "terminated") and row["x_Ours"] == "True"
    return is_action and row["x_BookedAt"].startswith(f"{NOW:%Y-%m}")


LISTS: Mapping[str, Callable[[Site, Tile], list[str]]] = {
    "/fleet": of_fleet,
    "/questions": of_questions,
    "/savings": of_savings,
}


def fleet_of_all_states() -> ConsoleWorld:
    """Instances in every state, managed, frozen and held ones among the idle; some stopped, one
    terminated."""
    world = stored()
    [page] = world.reader.pages
    more = [
        make_row(10, verdict="managed-elsewhere", managed_by="Amazon EKS"),
        make_row(11, verdict="frozen", usd_per_hour=Decimal("5.67")),
        make_row(12, kept_because=KeepReason.HOLD.value, quiet_until=None),
        make_row(13, verdict="snoozed", idle_since=None),
        make_row(14, verdict="busy", idle_since=None),
        make_row(15, verdict="unheard-of", idle_since=None),
        make_row(16, usd_per_hour=None),
    ]
    world.keep(*page.rows, *more)
    world.book(make_entry(20), make_entry(21, saved_usd_per_hour=Decimal("1.20")))
    undone_at = NOW.replace(minute=0)
    world.book(make_entry(14, booked_at=undone_at, ended_at=undone_at, false_stop=True, ours=True))
    world.book(
        make_entry(30, outcome=Outcome.TERMINATED),
        make_entry(31, booked_at=NOW - timedelta(days=25)),
        make_entry(32, outcome=Outcome.KEPT, ours=False),
        make_entry(33, outcome=Outcome.STOPPED, ours=False),
    )
    return world


@pytest.mark.parametrize("address", PAGES)
def test_every_tile_leads_to_the_list_that_sums_to_it(address: str) -> None:
    """Number and amount: both are those of the list's own rows."""
    site = Site(fleet_of_all_states())
    page = site.get(address)
    for tile in tiles_of(page):
        assert not _COUNT.search(tile.unlinked), f"{tile.unlinked!r} leads to no list"
        for href, number in tile.links:
            assert int(number) == len(site.rows(markup.unescape(href))), (tile, href)
        if tile.href.startswith("#"):
            assert_sum_on_page(page, tile)
            continue
        for expected in LISTS[tile.href.partition("?")[0]](site, tile):
            assert expected in tile.text, (tile, expected)


def assert_sum_on_page(page: str, tile: Tile) -> None:
    """A tile that leads to a table of its page: one of the table's columns sums to its figure, or
    it is the budget, of which the table shows what is spent."""
    assert f'id="{tile.href[1:]}"' in page
    table = page.split(f'id="{tile.href[1:]}"')[1].split("</table>")[0]
    if tile.heading == "Budget":
        assert "$ spent" in table
        return
    lines = re.findall(r"<tr><td>.*?</td>(.*?)</tr>", table)
    cells = [re.findall(r">([\d.,-]+|not measured)</td>", line) for line in lines]
    sums = [sum(map(amount_in, column), Decimal(0)) for column in zip(*cells, strict=True)]
    assert any(f"{usd(amount)} " in tile.text for amount in sums), (tile, sums)


def amount_in(cell: str) -> Decimal:
    """No sum includes amounts that were not measured."""
    return Decimal(0) if cell == "not measured" else Decimal(cell.replace(",", ""))


def test_the_table_of_every_page_with_tiles_is_looked_at() -> None:
    """No page has tiles that this file does not read."""
    site = Site(fleet_of_all_states())
    for rule in VIEWS:
        if "<" not in rule and rule not in PAGES:
            assert '<dl class="tiles">' not in site.get(rule), rule


def test_idle_is_the_same_set_on_tile_pill_filter_and_csv() -> None:
    """Managed, frozen and held instances are idle on all four, or on none."""
    site = Site(fleet_of_all_states())
    whole = site.rows("/fleet")
    idle = site.rows("/fleet?state=idle")
    names = {row["name"] for row in idle}
    page = site.get("/fleet")
    pilled = {
        markup.unescape(name)
        for name, kind in re.findall(r"<bdi>([^<]+)</bdi></a><td>.*?<i class=(\w+)>", page)
        if kind == "bad"
    }
    [idle_tile] = [tile for tile in tiles_of(site.get("/")) if tile.heading == "Idle right now"]

    assert names == {row["name"] for row in whole if row["is_idle"] == "True"} == pilled
    assert {"notebook-10", "notebook-11", "notebook-12", "notebook-16"} <= names
    assert f"{len(idle)} of " in idle_tile.text
    assert f'<option value="idle">idle ({len(idle)})</option>' in page
    assert ["held"] == [row["state"] for row in whole if row["name"] == "notebook-12"]


def test_idle_instances_are_counted_of_the_same_instances_on_tile_and_list() -> None:
    """Both count running instances: a stopped one is in neither number."""
    site = Site(fleet_of_all_states())
    [tile] = [tile for tile in tiles_of(site.get("/")) if tile.heading == "Idle right now"]
    [of_tile] = re.findall(r"\d+ of \d+ instances", tile.text)
    listed = _without_tags(site.get("/fleet?state=idle"))
    [of_list] = re.findall(r"\d+ of \d+ instances", listed)
    running = site.rows("/fleet?state=running")

    assert of_tile == of_list
    assert of_tile.endswith(f" of {len(running)} instances")


@pytest.mark.parametrize("old", ["idle", "managed-elsewhere", "frozen"])
def test_an_address_of_an_earlier_release_lists_the_same_idle_instances(old: str) -> None:
    """It named verdicts."""
    site = Site(fleet_of_all_states())

    assert site.rows("/fleet?state=idle") == site.rows(f"/fleet?verdict={old}")
