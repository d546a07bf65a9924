"""The picture of a mail: what a PNG reader sees."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from governor.channels.picture_png import (
    _DOT,
    _LETTER_ADVANCE,
    _LETTER_HEIGHT,
    _LETTERS,
    _PALETTE,
    evidence_png,
)
from governor.domain.evidence import Window
from governor.domain.history import History
from tests.builders import QUIET, make_evidence
from tests.unit.web.test_site import World

GROUND, EDGE, IDLE, BUSY, GAP, THRESHOLD, INK = range(7)
IN_PLOT = 100


def pixels(png: bytes) -> list[bytes]:
    """Rows of palette indices; checks every chunk on the way."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, place = {}, 8
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        kind, data = png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        (crc,) = struct.unpack(">I", png[place + 8 + length : place + 12 + length])
        assert zlib.crc32(kind + data) == crc
        chunks[kind] = data
        place += 12 + length
    width, height, depth, color, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (8, 3, 21) == (depth, color, len(chunks[b"PLTE"]))
    raw = zlib.decompress(chunks[b"IDAT"])
    rows = [raw[start : start + width + 1] for start in range(0, len(raw), width + 1)]
    assert height == len(rows)
    return [row[1:] for row in rows]


def colors(png: bytes) -> set[int]:
    """All that are used."""
    return {index for row in pixels(png) for index in row}


def drawn(
    *gpus: Sequence[float | None], day: bool = False, zone: str = "UTC", **changes: Any
) -> bytes:
    """The picture of an episode with these readings, in the window that was judged or in the day
    before."""
    evidence = make_evidence(*gpus, **changes)
    end = evidence.window.end
    window = Window(end - timedelta(hours=24), end, timedelta(hours=2))
    history = History(window, evidence.gpus) if day else None
    return evidence_png(replace(World(zone=zone).episode, evidence=evidence, history=history))


def test_a_quiet_gpu_is_grey_with_the_threshold_above_it() -> None:
    """No green and no gap."""
    assert {GROUND, EDGE, IDLE, THRESHOLD, INK} == colors(drawn(QUIET))


@pytest.mark.parametrize(("value", "color"), [(90.0, BUSY), (5.0, BUSY), (None, GAP), (-1.0, GAP)])
def test_work_and_gaps_have_colors_of_their_own(value: float | None, color: int) -> None:
    """A gap is never drawn as quiet."""
    assert color in colors(drawn((*QUIET[:-1], value)))


def test_one_gpu_at_work_is_work_and_one_unmeasured_a_gap() -> None:
    """As on the page: a GPU that nobody measured may have worked."""
    assert BUSY in colors(drawn(QUIET, (*QUIET[:-1], 90.0)))
    assert GAP in colors(drawn(QUIET, (*QUIET[:-1], None)))


@pytest.mark.parametrize("percent", [50.0, 100.0])
def test_the_height_of_a_bar_is_its_utilization(percent: float) -> None:
    """Between the lines of 0 and 100 percent, less the lines of 50 percent and the threshold."""
    column = [row[IN_PLOT] for row in pixels(drawn((percent,) * 12))]
    height = max(y for y, one in enumerate(column) if one == BUSY) - column.index(BUSY)
    assert abs(184 * percent / 100 - height) <= 4


@pytest.mark.parametrize("gpus", [1, 2, 8, 16])
def test_the_file_is_small(gpus: int) -> None:
    """For a phone on a slow line."""
    assert len(drawn(*[(10.0,) * 12] * gpus)) < 6_000


def test_evidence_without_gpus_is_an_empty_picture() -> None:
    """Not an error."""
    assert {GROUND, EDGE, THRESHOLD, INK} == colors(drawn(gpus=()))


def words(png: bytes) -> list[str]:
    """Return what is written in it, line by line, as somebody reads it: letter for letter."""
    rows, found = pixels(png), list[tuple[int, int, str]]()
    shapes = {columns: letter for letter, columns in _LETTERS.items() if any(columns)}
    for top in range(len(rows) - _LETTER_HEIGHT + 1):
        strokes = bytes(
            sum((rows[top + _DOT * row][x] == INK) << row for row in range(7))
            for x in range(len(rows[0]))
        )
        for left in range(len(strokes) - _LETTER_ADVANCE + 1):
            letter = shapes.get(strokes[left : left + 5 * _DOT : _DOT])
            if letter is None:
                continue
            whole = all(
                rows[top + y][left + x] != INK
                for y in range(_LETTER_HEIGHT)
                for x in range(5 * _DOT, _LETTER_ADVANCE)
            )
            # A letter is three pixels to a dot: a pixel further it is the same one.
            if whole and all(
                abs(top - y) >= _LETTER_HEIGHT or abs(left - x) >= _LETTER_ADVANCE
                for y, x, _ in found
            ):
                found.append((top, left, letter))
    lines: dict[int, list[tuple[int, str]]] = {}
    for top, left, letter in found:
        lines.setdefault(top, []).append((left, letter))
    return ["".join(letter for _, letter in sorted(line)) for _, line in sorted(lines.items())]


def test_its_axes_are_labelled_with_percent_and_dated_times() -> None:
    """Times of the last 24 hours where its owner lives, else of the window that was judged; gaps by
    their name."""
    times = "Thu13:00Fri01:00Fri13:00"
    assert ["100", "50", "0", times] == words(drawn(QUIET, day=True, zone="Europe/Berlin"))
    assert ["100", "50", "0", "Fri11:00Fri11:30Fri12:00"] == words(drawn(QUIET))
    gap = (*QUIET[:4], *[None] * 4, *QUIET[8:])
    assert ["100", "nodata", "50", "0", times] == words(drawn(gap, day=True, zone="Europe/Berlin"))


def test_it_is_read_on_light_and_dark_grounds() -> None:
    """It brings its own ground, without a hole in it, and its letters stand out from that."""
    png = drawn(QUIET)

    assert b"tRNS" not in png
    ink, ground = (sum(_PALETTE[index]) for index in (INK, GROUND))
    assert (ink < 150, ground) == (True, 765)
