"""The pictures of the docs show what the pages say now, and the docs show all of them."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts.pictures import FOLDER, TEXT_KEY, Picture, pictures

DOCS = FOLDER.parent
DRAWN = sorted(FOLDER.glob("*.svg"))
"""Pictures that are drawn by hand."""
_SVG = "{http://www.w3.org/2000/svg}"


def text_entries(path: Path) -> dict[str, str]:
    """The entries of text in a PNG file. Source: PNG specification, chunk tEXt."""
    data, at, found = path.read_bytes(), 8, {}
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        if kind == b"tEXt":
            key, _, value = data[at + 8 : at + 8 + length].partition(b"\0")
            found[key.decode("latin-1")] = value.decode("latin-1")
        at += 12 + length
    return found


@pytest.fixture(scope="module")
def shown() -> list[Picture]:
    """Return the pictures as they would be taken now."""
    return pictures()


def test_a_picture_shows_what_its_page_says_now(shown: list[Picture]) -> None:
    """`make screenshots` takes them anew; the text beside them says what has changed."""
    for picture in shown:
        kept = (FOLDER / f"{picture.page}.txt").read_text(encoding="utf-8")
        assert picture.text.splitlines() == kept.splitlines(), picture.name
        assert picture.digest == text_entries(FOLDER / f"{picture.name}.png").get(TEXT_KEY), (
            picture.name
        )


def test_no_picture_is_left_over(shown: list[Picture]) -> None:
    """Pictures of pages that are gone."""
    expected = {f"{one.name}.png" for one in shown} | {f"{one.page}.txt" for one in shown}
    found = {path.name for path in FOLDER.iterdir()}
    assert expected == found - {path.name for path in DRAWN}


def test_every_picture_is_shown_somewhere(shown: list[Picture]) -> None:
    """In the docs or the README."""
    pages = "".join(
        page.read_text(encoding="utf-8") for page in (DOCS.parent / "README.md", *DOCS.glob("*.md"))
    )
    assert {one.name for one in shown} == set(re.findall(r"images/([\w-]+)\.png", pages))


@pytest.mark.parametrize("path", DRAWN, ids=lambda path: path.name)
def test_a_drawn_picture_says_in_words_what_it_shows(path: Path) -> None:
    """Its text is text, and where it is shown it has a text of its own for those who do not see."""
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("*.md"))
    shown = re.findall(rf"!\[([^\]]+)\]\(images/{path.name}\)", pages)

    assert len(root.findall(f".//{_SVG}text")) > 5
    assert root.findtext(f"{_SVG}title")
    assert root.findtext(f"{_SVG}desc")
    assert shown
    assert all(len(words) > 40 for words in shown)


@pytest.mark.parametrize("path", DRAWN, ids=lambda path: path.name)
def test_a_drawn_picture_suits_dark_pages_and_loads_nothing(path: Path) -> None:
    """Each class that has a color has another one in the dark."""
    text = path.read_text(encoding="utf-8")
    light, _, dark = text.partition("@media (prefers-color-scheme: dark)")
    classes = set(re.findall(r"(\.[a-z]+) \{ (?:fill|stroke): #", light))

    assert {".card", ".box"} <= classes
    assert classes <= set(re.findall(r"(\.[a-z]+) \{", dark))
    assert [] == re.findall(r"(?:href|src)=|url\((?!#)|@import|<script|<image", text)


def test_no_page_has_a_diagram_that_a_script_draws() -> None:
    """The site loads no renderer."""
    assert len(DRAWN) > 1
    assert [] == [
        page.name for page in DOCS.rglob("*.md") if "```mermaid" in page.read_text(encoding="utf-8")
    ]
