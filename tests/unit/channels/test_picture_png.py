"""The picture of a mail: what a PNG reader sees."""

from __future__ import annotations

import struct
import zlib

import pytest

from governor.channels.picture_png import _ADVANCE, _DOT, _LETTERS, _PALETTE, _TALL, evidence_png
from tests.builders import QUIET, make_evidence

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


def test_a_quiet_gpu_is_grey_with_the_threshold_above_it() -> None:
    """No green and no gap."""
    assert {GROUND, EDGE, IDLE, THRESHOLD, INK} == colors(evidence_png(make_evidence(QUIET), 5.0))


@pytest.mark.parametrize(("value", "color"), [(90.0, BUSY), (5.0, BUSY), (None, GAP), (-1.0, GAP)])
def test_work_and_gaps_have_colors_of_their_own(value: float | None, color: int) -> None:
    """What was not measured is never drawn as quiet."""
    assert color in colors(evidence_png(make_evidence((*QUIET[:-1], value)), 5.0))


def test_the_height_of_a_bar_is_its_utilization() -> None:
    """Half of the row at 50 percent."""
    column = [row[IN_PLOT] for row in pixels(evidence_png(make_evidence((50.0,) * 12), 5.0))]
    assert 29 <= sum(index == BUSY for index in column) <= 30


@pytest.mark.parametrize("gpus", [1, 2, 8, 16])
def test_every_gpu_has_its_row_and_the_file_is_small(gpus: int) -> None:
    """For a phone on a slow line."""
    png = evidence_png(make_evidence(*[(10.0,) * 12] * gpus), 5.0)
    column = [row[IN_PLOT] for row in pixels(png)]

    assert 2 * gpus == sum(index == EDGE for index in column)
    assert len(png) < 4_000


def test_evidence_without_gpus_is_an_empty_picture() -> None:
    """Not an error."""
    assert {GROUND, INK} == colors(evidence_png(make_evidence(gpus=()), 5.0))


def words(png: bytes) -> list[str]:
    """What is written in it, line by line, as somebody reads it: letter for letter."""
    rows, found = pixels(png), list[tuple[int, int, str]]()
    shapes = {columns: letter for letter, columns in _LETTERS.items()}
    for top in range(len(rows) - _TALL + 1):
        strokes = bytes(
            sum((rows[top + _DOT * row][x] == INK) << row for row in range(7)) for x in range(len(rows[0]))
        )
        for left in range(len(strokes) - _ADVANCE + 1):
            letter = shapes.get(strokes[left : left + 5 * _DOT : _DOT])
            if letter is None:
                continue
            whole = all(rows[top + y][left + x] != INK for y in range(_TALL) for x in (10, 11))
            # A letter is two pixels to a dot: a pixel further it is the same one.
            if whole and all(abs(top - y) >= _TALL or abs(left - x) >= _ADVANCE for y, x, _ in found):
                found.append((top, left, letter))
    lines: dict[int, list[tuple[int, str]]] = {}
    for top, left, letter in found:
        lines.setdefault(top, []).append((left, letter))
    return ["".join(letter for _, letter in sorted(line)) for _, line in sorted(lines.items())]


def test_its_axes_and_rows_are_labelled() -> None:
    """Percent, the name of each GPU, and when it began and ended where its owner lives."""
    read = words(evidence_png(make_evidence(QUIET), 5.0, "Europe/Berlin"))
    assert ["100", "GPU0", "0", "12:0013:00"] == read

    read = words(evidence_png(make_evidence(*[QUIET] * 16), 5.0))
    assert [*(f"GPU{number}" for number in range(16)), "11:0012:00"] == read


def test_it_is_read_on_light_and_dark_grounds() -> None:
    """It brings its own ground, without a hole in it, and its letters stand out from that."""
    png = evidence_png(make_evidence(QUIET), 5.0)

    assert b"tRNS" not in png
    ink, ground = (sum(_PALETTE[index]) for index in (INK, GROUND))
    assert (ink < 150, ground) == (True, 765)
