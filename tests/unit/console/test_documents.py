"""The JSON of each page is what docs/openapi.yaml says, field by field, in both directions."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from governor.console.app import Console
from governor.episode.model.episode import EpisodeEnding, Outcome, Phase
from governor.wiring.console import VIEWS
from tests.builders import NOW
from tests.console_world import ConsoleWorld, asked, lively, make_episode
from tests.unit.console import entrance
from tests.unit.console.entrance import Entrance
from tests.unit.console.test_broken import POLICY, ROW, path, stored
from tests.unit.console.test_ungoverned import stored as found_by_scans
from tests.unit.web.test_openapi import DOCUMENT, problems

SCHEMAS = {
    "/": "Overview",
    "/fleet": "Fleet",
    "/instances/<account>/<region>/<instance_id>": "Instance",
    "/freezes": "ConsoleFreezes",
    "/kept": "LeftAlone",
    "/ungoverned": "Ungoverned",
    "/savings": "Savings",
    "/projects": "Projects",
    "/projects/<name>": "Project",
    "/questions": "Questions",
    "/questions/<approval_id>": "ConsoleQuestion",
}


def closed() -> ConsoleWorld:
    """As `stored`, and the episode was closed after a stop."""
    world = stored()
    row = replace(ROW, episode=None)
    episode = make_episode(
        asked(row), phase=Phase.CLOSED, ending=EpisodeEnding(Outcome.STOPPED, "approved", NOW)
    )
    world.state.put(replace(episode, progress=replace(episode.progress, steps_done={"stop": NOW})))
    world.keep(row)
    return world


def crowded() -> ConsoleWorld:
    """A fleet with stops of two months, some undone, some of a price that nobody knows; and
    `stored`."""
    world = lively()
    world.policy = POLICY
    rows = [row for page in world.reader.pages for row in page.rows]
    priced = [
        replace(row, usd_per_hour=None) if number % 5 else row for number, row in enumerate(rows)
    ]
    world.keep(*(replace(row, kept_because="unanswered") for row in priced))
    world.table.items.update({**stored().table.items, **world.table.items})
    scanned = found_by_scans().table.items
    world.table.items.update({key: item for key, item in scanned.items() if key[0] == "SCAN"})
    return world


@pytest.mark.parametrize("world_of", [stored, closed, crowded])
@pytest.mark.parametrize("rule", VIEWS)
def test_a_page_answers_the_document_that_is_described(rule: str, world_of: Any) -> None:
    """Documents of an open question, of one that is over, and of a whole fleet."""
    world = world_of()
    at = Entrance(world.table)
    at.clock.at = NOW
    console = Console(lambda: world.reader, at.doors, VIEWS)
    cookies = at.session("oidc:1", "ada@example.com", groups=("ops",))

    answered = entrance.ask(
        console, path(rule), cookies=cookies, headers={"accept": "application/json"}
    )

    assert 200 == answered["statusCode"]
    assert [] == problems(SCHEMAS[rule], json.loads(answered["body"]))
    table = entrance.ask(console, f"{path(rule).rstrip('/') or '/overview'}.csv", cookies=cookies)
    for body in (answered["body"], table["body"]):
        assert [] == re.findall(r"(?<![\w.])-?\d+\.\d{7,}(?![\w.])", body)


def test_every_page_has_a_schema_that_its_operation_names() -> None:
    described, others = (
        DOCUMENT["paths"][one]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        for one in ("/", "/{proxy}")
    )
    named = {one["$ref"].rpartition("/")[2] for one in described["anyOf"]}

    assert (set(VIEWS), named) == (set(SCHEMAS), set(SCHEMAS.values()))
    assert described == others
