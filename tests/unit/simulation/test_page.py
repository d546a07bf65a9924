"""The page stands alone, draws what happened, and shows nothing as markup that others wrote."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

from simulation.outcome import Replay
from simulation.page import page
from tests.builders import make_instance
from tests.unit.simulation.builders import BUSY, HOLE, IDLE, bins, make_recording, run

MADE_AT = datetime(2026, 11, 20, 9, 5, tzinfo=UTC)
NASTY = "<script>alert(1)</script>\"'&"


def fleet(name: str = "mine", owner: str = "ann") -> Replay:
    """One instance that is stopped and hit, one that works, one that is hit at once."""
    instances = [
        make_instance(instance_id=f"i-{n:017x}", tags={"Owner": owner, "Name": f"{owner}-{n}"})
        for n in range(3)
    ]
    return replace(
        run(
            make_recording(
                bins((BUSY, 1), (IDLE, 8), (BUSY, 14), (HOLE, 1)), instance=instances[0]
            ),
            make_recording(bins((BUSY, 24)), instance=instances[1]),
            make_recording(bins((BUSY, 20), (IDLE, 2), (BUSY, 2)), instance=instances[2]),
        ),
        name=name,
    )


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def tags(text: str) -> list[tuple[str, dict[str, str | None]]]:
    """Every element with its attributes."""
    parser = _Tags()
    parser.feed(text)
    return parser.found


def test_the_page_needs_nothing_but_itself() -> None:
    """No script, no address, no inline style; the style sheet is allowed by its hash."""
    text = page([fleet()], ["a note"], MADE_AT)
    found = tags(text)
    assert set() == {"script", "link", "img", "iframe"} & {tag for tag, _ in found}
    assert [] == [
        (tag, name) for tag, given in found for name in given if name in ("src", "href", "style")
    ]
    assert "://" not in text
    style = re.search(r"<style>(.*)</style>", text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    (policy,) = [given["content"] for tag, given in found if given.get("http-equiv")]
    assert f"default-src 'none'; style-src 'sha256-{digest}'" == policy
    assert "prefers-color-scheme: dark" in style[1]


def test_what_others_wrote_is_text() -> None:
    """Names of instances, owners and policies, and notes."""
    text = page([fleet(name=NASTY, owner=NASTY)], [NASTY], MADE_AT)
    assert "script" not in {tag for tag, _ in tags(text)}
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_a_timeline_shows_questions_stops_and_hits() -> None:
    """In a lane for each policy; what is hit within the hour stands out."""
    text = page([fleet("one"), fleet("two")], [], MADE_AT)
    kinds = [given.get("class") for tag, given in tags(text) if tag in ("rect", "text", "path")]
    assert (4, 4, 2, 2) == tuple(map(kinds.count, ("asked", "stopped", "hit", "hit soon")))
    assert {"busy", "idle", "gap", "frame"} <= set(kinds)
    assert "stopped Nov 2, 02:35 until Nov 2, 09:00" in text


def test_marks_stay_within_the_picture() -> None:
    """Even at the record's very end; as wide as the screen, so in percent."""
    text = page([run(make_recording(bins((IDLE, 24))))], [], MADE_AT)
    rects = [given for tag, given in tags(text) if tag == "rect"]
    assert {"frame", "asked", "stopped"} == {given["class"] for given in rects}
    for given in rects:
        x, width = (float((given[name] or "").removesuffix("%")) for name in ("x", "width"))
        assert 0 <= x <= x + width <= 100.1


def test_instances_without_a_question_stand_apart() -> None:
    """The largest saving comes first, what nobody would ask about last."""
    text = page([fleet()], [], MADE_AT)
    order = [text.index(f"<h3>ann-{number}</h3>") for number in (0, 2, 1)]
    assert sorted(order) == order
    assert text.index("Nothing to ask") < order[2]
    assert "No policy would have asked" in page([run(make_recording(bins((BUSY, 5))))], [], MADE_AT)


def test_the_page_leads_with_the_outcome_and_says_of_when_it_is() -> None:
    """The largest saving comes first; period, versions and the day it was made are above the
    figures."""
    more = fleet("more")
    never = [replace(result, events=()) for result in more.results]
    text = page([replace(more, name="less", results=tuple(never)), more], [], MADE_AT)
    heading = re.search(r"<h1>(.*?)</h1>", text)
    assert heading is not None
    assert (
        "more would have saved $6.79; 1 of 2 stops hit work that resumed within an hour."
        == heading[1]
    )
    assert "<p>less would have stopped nothing.</p>" in text
    assert "Back-test of Nov 2 to Nov 2, 2026 (UTC)" in text
    assert "more: mode observe (replayed as ask), policy version" in text
    assert "Made Nov 20, 2026 09:05 UTC." in text


def test_the_chart_shows_what_more_saving_costs() -> None:
    """A point a policy; of one policy, those with other waits too, and no chart of a single
    point."""
    assert "Saving and undone stops" not in page([fleet()], [], MADE_AT)
    waits = [replace(fleet(), name="2 h"), replace(fleet(), name=NASTY)]
    text = page([fleet()], [], MADE_AT, waits)
    points = [given["class"] for tag, given in tags(text) if tag == "circle"]
    assert ["point given", "point", "point"] == points
    assert "the same policy with other waits" in text
    assert "1 of 2 (50.0%)" in text
    assert "Each point is a policy." in page([fleet("one"), fleet("two")], [], MADE_AT)


def test_filters_need_no_script() -> None:
    """A style rule for each choice, by classes that the instances carry; owners go by number, not
    by name."""
    one = fleet()
    owned = [
        replace(result, owner=owner)
        for result, owner in zip(one.results, ("a", "b", "b"), strict=True)
    ]
    text = page([replace(one, results=tuple(owned))], [], MADE_AT)
    found = tags(text)
    classes = [set((given.get("class") or "").split()) for tag, given in found if tag == "section"]
    assert [{"owner0", "stopped", "later"}, {"owner1", "stopped", "soon"}, {"owner1"}] == classes
    values = [given.get("value") for tag, given in found if tag == "option"]
    assert ["", "0", "1"] == values
    for rule in (
        "#show-soon:checked) section:not(.soon)",
        "#owner [value='1']:checked) section:not(.owner1)",
    ):
        assert f"main:has({rule}" in text
    for label in ("Something to ask (2)", "Stopped (2)", "Hit work within 1 h (1)", "All (3)"):
        assert label in text
