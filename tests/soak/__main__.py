"""`make soak`: every crash point, then storms; the last line is one JSON object, and violations fail it.

`--sample N` tries every N-th crash point only; `--storms N` sails through so many storms.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.soak.crashes import Point, Violation, all_points, try_all
from tests.soak.storm import weathered

_CHUNK = 100
_STORMS = 120


def main(arguments: Sequence[str]) -> int:
    """Return the exit status: 1 when anything was broken."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--sample", type=int, default=1, help="try every N-th crash point")
    parser.add_argument("--storms", type=int, default=_STORMS, help="how many storms")
    parser.add_argument("--processes", type=int, default=min(8, os.cpu_count() or 1))
    asked = parser.parse_args(arguments)
    began = time.monotonic()
    points = all_points()[:: asked.sample]
    injected: Counter[str] = Counter()
    violations = 0
    with ProcessPoolExecutor(asked.processes) as pool:
        _say(f"{len(points)} crash points in {len({one.scenario for one in points})} scenarios")
        for broken in pool.map(try_all, _chunks(points)):
            violations += sum(len(one.what) for one in broken)
            for one in broken:
                _say(_told(one))
        _say(f"{asked.storms} storms, after {time.monotonic() - began:.0f} s")
        for seed, (faults, found) in enumerate(pool.map(weathered, range(asked.storms))):
            injected.update(faults)
            violations += len(found)
            for what in found:
                _say(f"storm {seed}: {what}")
    _say(f"faults: {', '.join(f'{kind} {count}' for kind, count in injected.most_common())}")
    counts = {
        "crash_points": len(points),
        "faults_injected": sum(injected.values()),
        "violations": violations,
        "storms": asked.storms,
        "seconds": round(time.monotonic() - began),
    }
    _say(json.dumps(counts))
    return int(violations > 0)


def _chunks(points: Sequence[Point]) -> Iterator[Sequence[Point]]:
    # Not in order: the runs of one scenario take about as long as each other, those of two do not.
    number = max(1, len(points) // _CHUNK)
    return (points[start::number] for start in range(number))


def _told(one: Violation) -> str:
    where = f"{one.point.scenario}, call {one.point.number} ({one.at}), {one.point.kind.value}"
    return f"{where}: {'; '.join(one.what)}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
