"""How far a read has come, on standard error: a bar for people, one line at the end elsewhere."""

from __future__ import annotations

import sys

_WIDTH = 30


def show(label: str, done: int, total: int, unit: str = "calls") -> None:
    """Draws the bar anew. Where nobody looks, only the end is said; nothing to do is not said at
    all."""
    if not total:
        return
    if sys.stderr.isatty():
        filled = _WIDTH * done // total
        bar = "#" * filled + "-" * (_WIDTH - filled)
        end = "\n" if done == total else ""
        print(f"\r{label}: [{bar}] {done}/{total} {unit}", end=end, file=sys.stderr, flush=True)
    elif done == total:
        print(f"{label}: {total} {unit}", file=sys.stderr)
