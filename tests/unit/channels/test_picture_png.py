"""The picture of a mail: what a PNG reader sees."""

from __future__ import annotations

import struct
import zlib

import pytest

from governor.channels.picture_png import evidence_png
from tests.builders import QUIET, make_evidence

GROUND, EDGE, IDLE, BUSY, GAP, THRESHOLD = range(6)


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
    assert (8, 3, 18) == (depth, color, len(chunks[b"PLTE"]))
    raw = zlib.decompress(chunks[b"IDAT"])
    rows = [raw[start : start + width + 1] for start in range(0, len(raw), width + 1)]
    assert height == len(rows)
    return [row[1:] for row in rows]


def colors(png: bytes) -> set[int]:
    """All that are used."""
    return {index for row in pixels(png) for index in row}


def test_a_quiet_gpu_is_grey_with_the_threshold_above_it() -> None:
    """No green and no gap."""
    assert {GROUND, EDGE, IDLE, THRESHOLD} == colors(evidence_png(make_evidence(QUIET), 5.0))


@pytest.mark.parametrize(("value", "color"), [(90.0, BUSY), (5.0, BUSY), (None, GAP), (-1.0, GAP)])
def test_work_and_gaps_have_colors_of_their_own(value: float | None, color: int) -> None:
    """What was not measured is never drawn as quiet."""
    assert color in colors(evidence_png(make_evidence((*QUIET[:-1], value)), 5.0))


def test_the_height_of_a_bar_is_its_utilization() -> None:
    """Half of the row at 50 percent."""
    column = [row[20] for row in pixels(evidence_png(make_evidence((50.0,) * 12), 5.0))]
    assert 29 <= sum(index == BUSY for index in column) <= 30


@pytest.mark.parametrize("gpus", [1, 2, 8, 16])
def test_every_gpu_has_its_row_and_the_file_is_small(gpus: int) -> None:
    """For a phone on a slow line."""
    png = evidence_png(make_evidence(*[(10.0,) * 12] * gpus), 5.0)
    column = [row[20] for row in pixels(png)]

    assert 2 * gpus == sum(index == EDGE for index in column)
    assert len(png) < 4_000


def test_evidence_without_gpus_is_an_empty_picture() -> None:
    """Not an error."""
    assert {GROUND} == colors(evidence_png(make_evidence(gpus=()), 5.0))
