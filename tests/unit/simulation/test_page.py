"""The page stands alone, draws what happened, and shows nothing as markup that others wrote."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser

from simulation.outcome import Replay
from simulation.page import page
from tests.builders import make_instance
from tests.unit.simulation.builders import BUSY, HOLE, IDLE, bins, make_recording, run

NASTY = "<script>alert(1)</script>\"'&"


def fleet(name: str = "mine", owner: str = "ann") -> Replay:
    """One instance that is stopped and hit, one that works, one that is hit at once."""
    instances = [
        make_instance(instance_id=f"i-{n:017x}", tags={"Owner": owner, "Name": f"{owner}-{n}"})
        for n in range(3)
    ]
    return replace(
        run(
            make_recording(bins((BUSY, 1), (IDLE, 8), (BUSY, 14), (HOLE, 1)), instance=instances[0]),
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
    text = page([fleet()], ["a note"])
    found = tags(text)
    assert set() == {"script", "link", "img", "iframe"} & {tag for tag, _ in found}
    assert [] == [(tag, name) for tag, given in found for name in given if name in ("src", "href", "style")]
    assert "://" not in text
    style = re.search(r"<style>(.*)</style>", text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    (policy,) = [given["content"] for tag, given in found if given.get("http-equiv")]
    assert f"default-src 'none'; style-src 'sha256-{digest}'" == policy
    assert "prefers-color-scheme: dark" in style[1]


def test_what_others_wrote_is_text() -> None:
    """Names of instances, owners and policies, and notes."""
    text = page([fleet(name=NASTY, owner=NASTY)], [NASTY])
    assert "script" not in {tag for tag, _ in tags(text)}
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_a_timeline_shows_questions_stops_and_hits() -> None:
    """In a lane for each policy; what is hit within the hour stands out."""
    text = page([fleet("one"), fleet("two")], [])
    kinds = [given.get("class") for tag, given in tags(text) if tag in ("rect", "text")]
    assert (4, 4, 2, 2) == tuple(map(kinds.count, ("asked", "stopped", "hit", "hit soon")))
    assert {"busy", "idle", "gap", "frame"} <= set(kinds)
    assert "stopped 2026-11-02T02:35:00Z until 2026-11-02T09:00:00Z" in text


def test_marks_stay_within_the_picture() -> None:
    """Even at the record's very end."""
    text = page([run(make_recording(bins((IDLE, 24))))], [])
    for tag, given in tags(text):
        if tag == "rect":
            assert 150 <= float(given["x"] or 0) <= 920
            assert float(given["x"] or 0) + float(given["width"] or 0) <= 922.5


def test_instances_without_a_question_stand_apart() -> None:
    """Where most is saved comes first, what nobody would ask about last."""
    text = page([fleet()], [])
    order = [text.index(f"<h3>ann-{number}</h3>") for number in (0, 2, 1)]
    assert sorted(order) == order
    assert text.index("Nothing to ask") < order[2]
    assert "No policy would have asked" in page([run(make_recording(bins((BUSY, 5))))], [])
