"""Series of GPUs: which GPU a dimension set names, and how two series of one GPU become one."""

from __future__ import annotations

from collections.abc import Sequence

from governor.domain.evidence import Series

Dimensions = tuple[tuple[str, str], ...]


def is_gpu(dimensions: Dimensions) -> bool:
    """Return whether a series is of a single GPU, not of the whole instance."""
    return any(name == "index" for name, _ in dimensions)


def gpu_label(dimensions: Dimensions) -> str:
    """Return the index of the GPU; `all` for the aggregate."""
    return dict(dimensions).get("index", "all")


def by_index(label: str) -> tuple[int, str]:
    """Order labels as numbers, so that 10 comes after 9."""
    return (int(label), "") if label.isdigit() else (-1, label)


def merged(left: Sequence[float | None] | None, right: Sequence[float | None]) -> Series:
    """Return the highest reading of each period. Holes are `None` or NaN.

    One GPU can be published under two dimension sets after a change of the publisher's configuration:
    together they are that GPU's readings. Written for speed: it runs for every reading of every GPU.
    """
    if left is None:
        return tuple(right)
    return tuple(
        [
            a if b is None or b != b or (a is not None and a >= b) else b
            for a, b in zip(left, right, strict=True)
        ]
    )
