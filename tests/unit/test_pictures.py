"""The pictures of the docs show what the pages say now, and the docs show all of them."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from scripts.pictures import FOLDER, TEXT_KEY, Picture, pictures

DOCS = FOLDER.parent


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
    assert expected == {path.name for path in FOLDER.iterdir()}


def test_every_picture_is_shown_somewhere(shown: list[Picture]) -> None:
    """In the docs or the README."""
    pages = "".join(
        page.read_text(encoding="utf-8") for page in (DOCS.parent / "README.md", *DOCS.glob("*.md"))
    )
    assert {one.name for one in shown} == set(re.findall(r"images/([\w-]+)\.png", pages))
