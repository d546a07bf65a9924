"""`make figures`: how plain the code is, how slow the runs are, and how many words the pages have.

The figures of the code are beside their goals (`scripts/density.py`); nobody is asked to keep under
a number of lines. Seconds have targets; they are those that `make demo APPROVE=auto`, `test`,
`evaluate` and `bench` have left in `build/`, and "not run" stands for the others.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts import density

ROOT = Path(__file__).resolve().parent.parent
TARGET_SECONDS = {"demo": 60, "test": 300, "evaluate": 60}
"""By goal of make, on two quiet cores."""
COLD_START_RATIO = 1.3


PAGES = ("README.md", "docs/**/*.md", "agent/README.md", "local/**/*.md")


@dataclass(frozen=True)
class Figure:
    """One figure beside its target. Without a target it informs; without a value it is unknown."""

    name: str
    value: float | None
    target: float | None
    unit: str = ""

    @property
    def is_over(self) -> bool:
        """Return whether the target is missed."""
        return self.value is not None and self.target is not None and self.value > self.target

    def __str__(self) -> str:
        value = "not run" if self.value is None else f"{self.value:,.10g}"
        target = "" if self.target is None else f"{self.target:,.10g}"
        verdict = (
            "over" if self.is_over else "" if self.target is None or self.value is None else "ok"
        )
        return f"  {self.name:<34} {value:>9} {target:>9} {self.unit:<8} {verdict}".rstrip()


def words(text: str) -> int:
    """Words of a page, without its code blocks and the borders of its tables."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return sum(1 for word in prose.split() if word.strip("|-"))


def pages(root: Path) -> dict[str, int]:
    """Words by page."""
    found = {path for pattern in PAGES for path in root.glob(pattern)}
    return {
        path.relative_to(root).as_posix(): words(path.read_text(encoding="utf-8"))
        for path in sorted(found)
    }


def seconds(build: Path, name: str) -> float | None:
    """Return what the last run took."""
    path = build / f"{name}.seconds"
    return float(path.read_text(encoding="utf-8")) if path.exists() else None


def cold_start(build: Path) -> float | None:
    """The slowest function over a handler with the same imports and clients, in the last bench."""
    path = build / "bench.json"
    if not path.exists():
        return None
    found = json.loads(path.read_text(encoding="utf-8")).get("cold_start_over_same_clients_max")
    return None if found is None else float(found)


def counted(root: Path) -> Iterator[tuple[str, list[Figure]]]:
    """All that can be read without running anything, by heading."""
    plain = density.measure([root / place for place in density.PLACES])
    yield (
        "Plain code",
        [
            Figure(name, round(value, 2), density.GOALS[name])
            for name, value in plain.figures().items()
        ],
    )
    long = pages(root)
    yield "Words a page", [Figure(name, count, None) for name, count in long.items()]
    build = root / "build"
    yield (
        "Seconds, at the last run",
        [
            *(
                Figure(f"make {name}", seconds(build, name), target, "s")
                for name, target in TARGET_SECONDS.items()
            ),
            Figure("cold start over the same clients", cold_start(build), COLD_START_RATIO, "x"),
        ],
    )


def shown(figures: Iterable[tuple[str, list[Figure]]]) -> Iterator[str]:
    """The table."""
    for heading, rows in figures:
        yield f"{heading:<36} {'is':>9} {'target':>9}"
        yield from map(str, rows)


def main() -> int:
    """Always 0: a target that is missed is for people to weigh."""
    try:
        for line in shown(counted(ROOT)):
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        # A reader such as `head` has enough. Python flushes once more when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
