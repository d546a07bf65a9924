"""Small PNGs for mail: the busiest GPU, with 0, 50 and 100 percent, times with their day, gaps as
gaps; and amounts by day.

Mail programs show no SVG. It has a ground of its own, so that its labels are read in light and
dark.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from itertools import groupby
from zoneinfo import ZoneInfo

from governor.domain.episode.episode import Episode
from governor.domain.evidence import busiest

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 716, 236, 66, 12, 196
"""In pixels, two a point on a phone of 390 points; the plot begins at the left, ends at the right
edge."""
_GROUND, _EDGE, _IDLE, _BUSY, _GAP, _THRESHOLD, _INK = range(7)
_PALETTE = (
    (0xFF, 0xFF, 0xFF),
    (0xD0, 0xD7, 0xDE),
    (0x6E, 0x77, 0x81),
    (0x1A, 0x7F, 0x37),
    (0xF6, 0xD5, 0xD2),
    (0xB4, 0x23, 0x18),
    (0x1B, 0x1F, 0x24),
)
_DASH, _LOWEST = 8, 4
"""Pixels; what is idle is still seen."""
_COLUMNS = bytes.fromhex(
    "0000000000 3e5149453e 00427f4000 4261514946 2141454b31 1814127f10 2745454539 "
    "3c4a494930 0171090503"
    "3649494936 064949291e 0036360000 7f09090901 7f020c027f 4649494931 01017f0101 "
    "3f4038403f 2054545478"
    "384444487f 3854545418 7f08040478 00447d4000 7c08040478 3844444438 7c08040408 "
    "043f444020 3c4040207c"
)
_LETTERS = {
    letter: _COLUMNS[5 * at : 5 * at + 5] for at, letter in enumerate(" 0123456789:FMSTWadehinortu")
}
"""Five columns of seven dots, the lowest bit on top: all that percents, days, times and `no data`
need."""
_DOT, _ADVANCE, _TALL = 3, 18, 21
"""Height of a letter, in pixels: on a phone as tall as a letter of 14 points."""


def evidence_png(episode: Episode) -> bytes:
    """Draw the last 24 hours, or the window that was judged where those could not be read."""
    drawn, below = episode.history or episode.evidence, episode.idle_below_percent
    window, series = drawn.window, busiest(drawn.gpus, drawn.window, below)
    canvas = [bytearray([_GROUND]) * _WIDTH for _ in range(_HEIGHT)]
    width = (_WIDTH - _LEFT) / max(1, len(series))
    for index, value in enumerate(series):
        left, right = (_LEFT + round(width * edge) for edge in (index, index + 1))
        color, top = _GAP, _TOP
        if value is not None:
            color, top = _BUSY if value >= below else _IDLE, min(_height(value), _BOTTOM - _LOWEST)
        _fill(canvas, color, left, right, top, _BOTTOM)
    for percent in (100, 50, 0):
        y = _height(percent)
        _fill(canvas, _EDGE, _LEFT, _WIDTH, y, y + 2)
        _write(canvas, str(percent), _LEFT - 8, y - _TALL // 2)
    for left in range(_LEFT, _WIDTH, 2 * _DASH):
        _fill(canvas, _THRESHOLD, left, left + _DASH, _height(below), _height(below) + 2)
    _name_gaps(canvas, series, width)
    middle, zone = window.start + window.length / 2, ZoneInfo(episode.time_zone)
    letters = len("Thu 05:00") * _ADVANCE
    for moment, end in (
        (window.start, _LEFT + letters),
        (middle, (_LEFT + _WIDTH + letters) // 2),
        (window.end, _WIDTH),
    ):
        _write(canvas, f"{moment.astimezone(zone):%a %H:%M}", end, _BOTTOM + 15)
    return _encoded(canvas)


def days_png(amounts: Sequence[Decimal], first: date) -> bytes:
    """Draw USD by day, from the `first` on; what is below zero is left out."""
    canvas = [bytearray([_GROUND]) * _WIDTH for _ in range(_HEIGHT)]
    highest = max(1, *(int(one) + 1 for one in amounts))
    width = (_WIDTH - _LEFT) / max(1, len(amounts))
    for percent in (100, 50, 0):
        y = _height(percent)
        _fill(canvas, _EDGE, _LEFT, _WIDTH, y, y + 2)
        _write(canvas, str(round(highest * percent / 100)), _LEFT - 8, y - _TALL // 2)
    for index, amount in enumerate(amounts):
        left, right = (_LEFT + round(width * (index + edge)) for edge in (0.1, 0.9))
        _fill(canvas, _BUSY, left, right, _height(max(0.0, 100 * float(amount) / highest)), _BOTTOM)
    letters = len("Mon 16") * _ADVANCE
    for day, end in ((first, _LEFT + letters), (first + timedelta(days=len(amounts) - 1), _WIDTH)):
        _write(canvas, f"{day:%a} {day.day}", end, _BOTTOM + 15)
    return _encoded(canvas)


def _height(percent: float) -> int:
    return _BOTTOM - round((_BOTTOM - _TOP) * min(100.0, percent) / 100)


def _name_gaps(canvas: Sequence[bytearray], series: Sequence[float | None], width: float) -> None:
    at = 0
    for is_gap, run in groupby(value is None for value in series):
        start, at = at, at + len(list(run))
        text = len("no data") * _ADVANCE
        if is_gap and (at - start) * width > text:
            middle = _LEFT + round((start + at) / 2 * width)
            _write(canvas, "no data", middle + text // 2, _height(75) - _TALL // 2)


def _write(canvas: Sequence[bytearray], text: str, end: int, top: int) -> None:
    for index, letter in enumerate(reversed(text)):
        left = end - (index + 1) * _ADVANCE
        for column, dots in enumerate(_LETTERS[letter]):
            for row in range(7):
                if dots >> row & 1:
                    x, y = left + column * _DOT, top + row * _DOT
                    _fill(canvas, _INK, x, x + _DOT, y, y + _DOT)


def _fill(
    canvas: Sequence[bytearray], color: int, left: int, right: int, top: int, bottom: int
) -> None:
    for row in range(top, bottom):
        canvas[row][left:right] = bytes([color]) * (right - left)


def _encoded(canvas: Sequence[bytearray]) -> bytes:
    """PNG with a palette of eight bits a pixel (W3C, Portable Network Graphics, 11)."""
    header = struct.pack(">IIBBBBB", len(canvas[0]), len(canvas), 8, 3, 0, 0, 0)
    palette = b"".join(bytes(color) for color in _PALETTE)
    rows = b"".join(b"\x00" + bytes(row) for row in canvas)
    chunks = (
        (b"IHDR", header),
        (b"PLTE", palette),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    sealed = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(sealed)
