"""Draws small PNGs for mail: the busiest GPU over a day with its gaps, and amounts by day.

Mail programs show no SVG. A picture has its own background, so that its labels can be read in light
and dark mode.
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
from governor.domain.evidence import Window, busiest

# In pixels, two a point on a phone of 390 points. The plot ends at the right edge.
_WIDTH = 716
_HEIGHT = 236
_LEFT = 66
_TOP = 12
_BOTTOM = 196
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
_DASH = 8
_LOWEST_BAR = 4
"""In pixels: the bar of an idle GPU can still be seen."""
_COLUMNS = bytes.fromhex(
    "0000000000 3e5149453e 00427f4000 4261514946 2141454b31 1814127f10 2745454539 "
    "3c4a494930 0171090503"
    "3649494936 064949291e 0036360000 7f09090901 7f020c027f 4649494931 01017f0101 "
    "3f4038403f 2054545478"
    "384444487f 3854545418 7f08040478 00447d4000 7c08040478 3844444438 7c08040408 "
    "043f444020 3c4040207c"
)
_LETTERS = {
    letter: _COLUMNS[5 * index : 5 * index + 5]
    for index, letter in enumerate(" 0123456789:FMSTWadehinortu")
}
"""The letters that percents, days, times and `no data` need, each as five columns of seven dots.
The lowest bit is the top dot."""
# In pixels. A letter is as tall as one of 14 points on a phone.
_DOT = 3
_LETTER_ADVANCE = 18
_LETTER_HEIGHT = 21


def evidence_png(episode: Episode) -> bytes:
    """Draw the last 24 hours, or the window that was judged if those could not be read."""
    drawn = episode.history or episode.evidence
    window = drawn.window
    below = episode.idle_below_percent
    series = busiest(drawn.gpus, window, below)
    canvas = _empty_canvas()
    bar_width = (_WIDTH - _LEFT) / max(1, len(series))
    for index, percent in enumerate(series):
        left = _LEFT + round(bar_width * index)
        right = _LEFT + round(bar_width * (index + 1))
        color, top = _bar_color_and_top(percent, below)
        _fill(canvas, color, left, right, top, _BOTTOM)
    _draw_scale(canvas, 100)
    threshold_y = _height(below)
    for left in range(_LEFT, _WIDTH, 2 * _DASH):
        _fill(canvas, _THRESHOLD, left, left + _DASH, threshold_y, threshold_y + 2)
    _name_gaps(canvas, series, bar_width)
    _draw_times(canvas, window, ZoneInfo(episode.time_zone))
    return _encoded(canvas)


def days_png(amounts: Sequence[Decimal], first: date) -> bytes:
    """Draw USD by day, from the `first` day on. An amount below zero has no bar."""
    canvas = _empty_canvas()
    highest = max(1, *(int(amount) + 1 for amount in amounts))
    day_width = (_WIDTH - _LEFT) / max(1, len(amounts))
    _draw_scale(canvas, highest)
    for index, amount in enumerate(amounts):
        left = _LEFT + round(day_width * (index + 0.1))
        right = _LEFT + round(day_width * (index + 0.9))
        percent = max(0.0, 100 * float(amount) / highest)
        _fill(canvas, _BUSY, left, right, _height(percent), _BOTTOM)
    last = first + timedelta(days=len(amounts) - 1)
    _draw_day(canvas, first, _LEFT + len("Mon 16") * _LETTER_ADVANCE)
    _draw_day(canvas, last, _WIDTH)
    return _encoded(canvas)


def _empty_canvas() -> list[bytearray]:
    return [bytearray([_GROUND]) * _WIDTH for _ in range(_HEIGHT)]


def _bar_color_and_top(percent: float | None, below: float) -> tuple[int, int]:
    """Return the color and the upper edge of a bar; a gap is as tall as the plot."""
    if percent is None:
        return _GAP, _TOP
    color = _BUSY if percent >= below else _IDLE
    return color, min(_height(percent), _BOTTOM - _LOWEST_BAR)


def _draw_scale(canvas: Sequence[bytearray], highest: int) -> None:
    """Draw a line with its figure at the highest value, its half and zero."""
    for percent in (100, 50, 0):
        y = _height(percent)
        _fill(canvas, _EDGE, _LEFT, _WIDTH, y, y + 2)
        figure = round(highest * percent / 100)
        _write(canvas, str(figure), _LEFT - 8, y - _LETTER_HEIGHT // 2)


def _draw_times(canvas: Sequence[bytearray], window: Window, zone: ZoneInfo) -> None:
    """Draw the start, the middle and the end of the window below the plot."""
    width = len("Thu 05:00") * _LETTER_ADVANCE
    middle = window.start + window.length / 2
    ends = (
        (window.start, _LEFT + width),
        (middle, (_LEFT + _WIDTH + width) // 2),
        (window.end, _WIDTH),
    )
    for moment, end in ends:
        _write(canvas, f"{moment.astimezone(zone):%a %H:%M}", end, _BOTTOM + 15)


def _draw_day(canvas: Sequence[bytearray], day: date, end: int) -> None:
    _write(canvas, f"{day:%a} {day.day}", end, _BOTTOM + 15)


def _height(percent: float) -> int:
    """Return the y of a percentage; 100 is the upper edge of the plot."""
    return _BOTTOM - round((_BOTTOM - _TOP) * min(100.0, percent) / 100)


def _name_gaps(
    canvas: Sequence[bytearray], series: Sequence[float | None], bar_width: float
) -> None:
    """Write `no data` into each gap that has room for it."""
    text_width = len("no data") * _LETTER_ADVANCE
    start = 0
    for is_gap, run in groupby(value is None for value in series):
        end = start + len(list(run))
        if is_gap and (end - start) * bar_width > text_width:
            middle = _LEFT + round((start + end) / 2 * bar_width)
            top = _height(75) - _LETTER_HEIGHT // 2
            _write(canvas, "no data", middle + text_width // 2, top)
        start = end


def _write(canvas: Sequence[bytearray], text: str, end: int, top: int) -> None:
    """Write a text that ends at the x of `end`."""
    for index, letter in enumerate(reversed(text)):
        _write_letter(canvas, letter, end - (index + 1) * _LETTER_ADVANCE, top)


def _write_letter(canvas: Sequence[bytearray], letter: str, left: int, top: int) -> None:
    for column, dots in enumerate(_LETTERS[letter]):
        for row in range(7):
            if dots >> row & 1:
                x = left + column * _DOT
                y = top + row * _DOT
                _fill(canvas, _INK, x, x + _DOT, y, y + _DOT)


def _fill(
    canvas: Sequence[bytearray], color: int, left: int, right: int, top: int, bottom: int
) -> None:
    for row in range(top, bottom):
        canvas[row][left:right] = bytes([color]) * (right - left)


def _encoded(canvas: Sequence[bytearray]) -> bytes:
    """Return a PNG with a palette of eight bits a pixel (W3C, Portable Network Graphics, 11)."""
    header = struct.pack(">IIBBBBB", len(canvas[0]), len(canvas), 8, 3, 0, 0, 0)
    palette = b"".join(bytes(color) for color in _PALETTE)
    rows = b"".join(b"\x00" + bytes(row) for row in canvas)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", header),
            _chunk(b"PLTE", palette),
            _chunk(b"IDAT", zlib.compress(rows, 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    length = struct.pack(">I", len(content))
    checksum = struct.pack(">I", zlib.crc32(kind + content))
    return length + kind + content + checksum
