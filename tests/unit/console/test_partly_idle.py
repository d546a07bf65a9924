"""A partly idle instance says how many of its GPUs are idle, in words, in CSV and in JSON."""

from __future__ import annotations

import csv
import json
from io import StringIO
from typing import Any

import pytest

from governor.console import formats
from governor.console.views.figures import href
from governor.console.views.fleet import fleet
from governor.verdict.model import IdleParts
from tests.console_world import ConsoleWorld, html, make_row, view_of

SEVEN_OF_EIGHT = IdleParts(7, 8, "GPU")
ROW = make_row(
    1, verdict="partly-idle", idle_since=None, hours=(96,) * 24, idle_parts=SEVEN_OF_EIGHT
)
OF_AN_EARLIER_RELEASE = make_row(2, verdict="partly-idle", idle_since=None, hours=(96,) * 24)
BUSY = make_row(3, verdict="busy", idle_since=None, hours=(96,) * 24)


@pytest.fixture
def world() -> ConsoleWorld:
    """The three rows."""
    world = ConsoleWorld()
    world.keep(ROW, OF_AN_EARLIER_RELEASE, BUSY)
    return world


def test_every_page_that_lists_it_says_how_many_gpus_are_idle(world: ConsoleWorld) -> None:
    """The peak of the busiest GPU reads as a share that is idle, so no page has it there."""
    texts = []
    for path in ("/fleet", "/projects/vision", href(ROW)):
        view, named = view_of(path)
        texts.append(html(view, world, None, path, **named))

    for text in texts:
        assert ">partly idle: <wbr>7 of 8 <wbr>GPUs<" in text
        assert "partly idle 96%" not in text
        assert "peak" not in text
    assert ">partly idle<" in texts[0]
    assert ">busy 96%<" in texts[0]


def test_csv_and_json_have_the_numbers_and_nothing_where_they_are_not_known(
    world: ConsoleWorld,
) -> None:
    """In columns of their own, so that nobody must read a sentence."""
    page = fleet(world.asked(sort="name"))
    rows = list(csv.DictReader(StringIO(formats.as_csv(page, "", is_whole=True).body)))
    document: Any = json.loads(str(formats.as_json(200, page.document).body))

    names = ("idle_parts", "all_parts", "part_name")
    assert [("7", "8", "GPU"), ("", "", ""), ("", "", "")] == [
        tuple(row[name] for name in names) for row in rows
    ]
    assert [(7, 8, "GPU"), (None, None, None), (None, None, None)] == [
        tuple(row[name] for name in names) for row in document["instances"]
    ]
    assert ["state", "is_idle", *names] == list(rows[0])[-5:]
