"""The measurements as a small PNG for mail: a row a GPU, the threshold as a line, gaps drawn as gaps.

The page draws them as SVG, which mail programs do not show. It has a ground of its own, so that its labels
are read in light and dark; its figures stand in the table beside it, too, where pictures are blocked.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise
from zoneinfo import ZoneInfo

from governor.domain.evidence import Evidence, is_reading

_WIDTH, _TALL_ROW, _SHORT_ROW, _SPACE, _MARGIN = 500, 60, 28, 8, 6
_LEFT, _FOOT = 84, 24
"""Room for the labels of the rows, and of the times."""
_FEW = 2
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
_DASH = 4
_COLUMNS = bytes.fromhex(
    "3e5149453e 00427f4000 4261514946 2141454b31 1814127f10 2745454539 3c4a494930 0171090503"
    "3649494936 064949291e 0036360000 0201510906 3e4149497a 7f09090906 3f4040403f 4854545420"
)
_LETTERS = {letter: _COLUMNS[5 * at : 5 * at + 5] for at, letter in enumerate("0123456789:?GPUs")}
"""Five columns of seven dots, the lowest bit on top."""
_DOT, _ADVANCE, _TALL = 2, 12, 14
"""Of a letter, in pixels."""


def evidence_png(evidence: Evidence, threshold_percent: float, time_zone: str = "UTC") -> bytes:
    """Utilization of every GPU over the window that was judged, in percent of its row's height."""
    gpus, window = evidence.gpus, evidence.window
    tall = _TALL_ROW if len(gpus) <= _FEW else _SHORT_ROW
    bottom = 2 * _MARGIN + max(1, len(gpus)) * (tall + _SPACE) - _SPACE
    canvas = [bytearray([_GROUND]) * (_LEFT + _WIDTH + _MARGIN) for _ in range(bottom + _FOOT)]
    for number, gpu in enumerate(gpus):
        top = _MARGIN + number * (tall + _SPACE)
        _draw(canvas, top, tall, gpu.utilization, threshold_percent)
        if len(gpus) <= _FEW:
            _write(canvas, "100", _LEFT - _MARGIN, top)
            _write(canvas, "0", _LEFT - _MARGIN, top + tall - _TALL)
        label = "GPUs" if gpu.gpu == "all" else f"GPU{gpu.gpu if gpu.gpu.isdecimal() else '?'}"
        _write(canvas, label, _LEFT - _MARGIN, top + (tall - _TALL) // 2)
    for moment, end in ((window.start, _LEFT + 5 * _ADVANCE), (window.end, _LEFT + _WIDTH)):
        _write(canvas, f"{moment.astimezone(ZoneInfo(time_zone)):%H:%M}", end, bottom + 2)
    return _encoded(canvas)


def _write(canvas: Sequence[bytearray], text: str, end: int, top: int) -> None:
    """Write a text that ends there; of a long one its end."""
    for index, letter in enumerate(reversed(text[-end // _ADVANCE :])):
        left = end - (index + 1) * _ADVANCE
        for column, dots in enumerate(_LETTERS[letter]):
            for row in range(7):
                if dots >> row & 1:
                    for y in range(top + row * _DOT, top + row * _DOT + _DOT):
                        x = left + column * _DOT
                        canvas[y][x : x + _DOT] = bytes([_INK]) * _DOT


def _draw(
    canvas: Sequence[bytearray], top: int, tall: int, series: Sequence[float | None], threshold: float
) -> None:
    edges = [_LEFT + round(_WIDTH * index / max(1, len(series))) for index in range(len(series) + 1)]
    for value, (left, right) in zip(series, pairwise(edges), strict=True):
        color, bar = _GAP, tall
        if value is not None and is_reading(value):
            color = _BUSY if value >= threshold else _IDLE
            bar = max(1, round(tall * min(100.0, value) / 100))
        space = 1 if right - left > _DASH else 0
        for row in range(top + tall - bar, top + tall):
            canvas[row][left : right - space] = bytes([color]) * (right - space - left)
    line = top + tall - 1 - round((tall - 1) * min(100.0, threshold) / 100)
    for left in range(_LEFT, _LEFT + _WIDTH, 2 * _DASH):
        canvas[line][left : left + _DASH] = bytes([_THRESHOLD]) * _DASH
    for row in (top - 1, top + tall):
        canvas[row][_LEFT : _LEFT + _WIDTH] = bytes([_EDGE]) * _WIDTH


def _encoded(canvas: Sequence[bytearray]) -> bytes:
    """PNG with a palette of eight bits a pixel (W3C, Portable Network Graphics, 11)."""
    header = struct.pack(">IIBBBBB", len(canvas[0]), len(canvas), 8, 3, 0, 0, 0)
    palette = b"".join(bytes(color) for color in _PALETTE)
    rows = b"".join(b"\x00" + bytes(row) for row in canvas)
    chunks = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
