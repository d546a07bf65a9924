"""The pictures of the docs show what the pages say now, and the docs show all of them."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from scripts.pictures import FOLDER, TEXT_KEY, Picture, pictures

SHOWN = pictures()
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


@pytest.mark.parametrize("picture", SHOWN, ids=lambda one: one.name)
def test_a_picture_shows_what_its_page_says_now(picture: Picture) -> None:
    """`make screenshots` takes them anew; the text beside them says what has changed."""
    kept = (FOLDER / f"{picture.page}.txt").read_text(encoding="utf-8")
    assert picture.text.splitlines() == kept.splitlines()
    assert picture.digest == text_entries(FOLDER / f"{picture.name}.png").get(TEXT_KEY)


def test_no_picture_is_left_over() -> None:
    """Of pages that are gone."""
    expected = {f"{one.name}.png" for one in SHOWN} | {f"{one.page}.txt" for one in SHOWN}
    assert expected == {path.name for path in FOLDER.iterdir()}


def test_every_picture_is_shown_somewhere() -> None:
    """In the docs or the README."""
    pages = [DOCS.parent / "README.md", *DOCS.glob("*.md")]
    named = {
        name
        for page in pages
        for name in re.findall(r"images/([\w-]+)\.png", page.read_text(encoding="utf-8"))
    }
    assert {one.name for one in SHOWN} == named
