"""The progress of a read on standard error: a bar in a terminal, else one line at the end."""

from __future__ import annotations

import sys

_WIDTH = 30


def show(label: str, done: int, total: int, unit: str = "calls") -> None:
    """Draw the bar again. Outside a terminal, print only the end; print nothing if there is nothing
    to do."""
    if not total:
        return
    if sys.stderr.isatty():
        filled = _WIDTH * done // total
        bar = "#" * filled + "-" * (_WIDTH - filled)
        end = "\n" if done == total else ""
        print(f"\r{label}: [{bar}] {done}/{total} {unit}", end=end, file=sys.stderr, flush=True)
    elif done == total:
        print(f"{label}: {total} {unit}", file=sys.stderr)
