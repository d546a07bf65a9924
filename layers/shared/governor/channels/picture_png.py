"""The measurements as a small PNG for mail: a row a GPU, the threshold as a line, gaps drawn as gaps.

The page draws the same as SVG, which mail programs do not show. No text in it: the figures stand in the table
beside it, which also serves where pictures are blocked.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise

from governor.domain.evidence import Evidence, is_reading

_WIDTH, _TALL_ROW, _SHORT_ROW, _SPACE, _MARGIN = 560, 60, 28, 8, 6
_FEW = 2
_GROUND, _EDGE, _IDLE, _BUSY, _GAP, _THRESHOLD = range(6)
_PALETTE = (
    (0xFF, 0xFF, 0xFF),
    (0xD0, 0xD7, 0xDE),
    (0x6E, 0x77, 0x81),
    (0x1A, 0x7F, 0x37),
    (0xF6, 0xD5, 0xD2),
    (0xB4, 0x23, 0x18),
)
_DASH = 4


def evidence_png(evidence: Evidence, threshold_percent: float) -> bytes:
    """Utilization of every GPU over the window that was judged, in percent of its row's height."""
    drawn = [gpu.utilization for gpu in evidence.gpus]
    tall = _TALL_ROW if len(drawn) <= _FEW else _SHORT_ROW
    height = 2 * _MARGIN + max(1, len(drawn)) * (tall + _SPACE) - _SPACE
    canvas = [bytearray([_GROUND]) * (_WIDTH + 2 * _MARGIN) for _ in range(height)]
    for number, series in enumerate(drawn):
        _draw(canvas, _MARGIN + number * (tall + _SPACE), tall, series, threshold_percent)
    return _encoded(canvas)


def _draw(
    canvas: Sequence[bytearray], top: int, tall: int, series: Sequence[float | None], threshold: float
) -> None:
    edges = [_MARGIN + round(_WIDTH * index / max(1, len(series))) for index in range(len(series) + 1)]
    for value, (left, right) in zip(series, pairwise(edges), strict=True):
        color, bar = _GAP, tall
        if value is not None and is_reading(value):
            color = _BUSY if value >= threshold else _IDLE
            bar = max(1, round(tall * min(100.0, value) / 100))
        space = 1 if right - left > _DASH else 0
        for row in range(top + tall - bar, top + tall):
            canvas[row][left : right - space] = bytes([color]) * (right - space - left)
    line = top + tall - 1 - round((tall - 1) * min(100.0, threshold) / 100)
    for left in range(_MARGIN, _MARGIN + _WIDTH, 2 * _DASH):
        canvas[line][left : left + _DASH] = bytes([_THRESHOLD]) * _DASH
    for row in (top - 1, top + tall):
        canvas[row][_MARGIN : _MARGIN + _WIDTH] = bytes([_EDGE]) * _WIDTH


def _encoded(canvas: Sequence[bytearray]) -> bytes:
    """PNG with a palette of eight bits a pixel (W3C, Portable Network Graphics, 11)."""
    header = struct.pack(">IIBBBBB", len(canvas[0]), len(canvas), 8, 3, 0, 0, 0)
    palette = b"".join(bytes(color) for color in _PALETTE)
    rows = b"".join(b"\x00" + bytes(row) for row in canvas)
    chunks = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
