"""`make soak`: crash points, every story, storms, and then the table of what was proven.

Violations fail it. The last line is one JSON object.

It tries every third crash point, which meets each call with some of the faults; `--sample 1` tries
every one. Functions that do the same again and again are tried at a sample of their calls;
`--repetitions` tries all. `--scenario TEXT` tries scenarios with it in their names; `--storms N`
sails through so many storms, `--rounds N` through so many on the local cloud, with the real
handlers and state machines. How far it has come goes to standard error, once a minute.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

from tests.integration.weathered import played
from tests.soak.crashes import BY_NAME, Point, Violation, all_points, try_all
from tests.soak.parts import simulated
from tests.soak.promises import PROMISES, broken_promise, table
from tests.soak.storm import weathered

_SHARE = 150
"""Points that a process tries at once: some seconds of work."""
_SAMPLE = 3
"""One in so many crash points is tried: a run takes about half an hour on two quiet cores. The
faults of one call are five or six, so each call is tried with at least one of them."""
_STORMS = 60
_ROUNDS = 2
_TELL_SECONDS = 60.0
_ALWAYS = ExitStack()
Given = TypeVar("Given")
Result = TypeVar("Result")


@dataclass
class Tally:
    """The counts of what was tried, checked and broken."""

    tried: int = 0
    alike: int = 0
    violations: int = 0
    injected: Counter[str] = field(default_factory=Counter)
    times: Counter[str] = field(default_factory=Counter)
    """How often each promise was checked."""
    wrong: Counter[str] = field(default_factory=Counter)
    """How often each promise was broken."""

    def add(self, checked: Mapping[str, int], found: Sequence[str]) -> None:
        """Count what was checked in some runs, and what was wrong."""
        self.times.update(checked)
        self.wrong.update(_broken(found))
        self.violations += len(found)


def main(arguments: Sequence[str]) -> int:
    """Return the exit status: 1 when anything was broken."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--repetitions", action="store_true", help="leave no repeated call out")
    parser.add_argument("--sample", type=int, default=_SAMPLE, help="try every N-th crash point")
    parser.add_argument(
        "--scenario", default="", help="try scenarios with this in their names only"
    )
    parser.add_argument("--storms", type=int, default=_STORMS, help="how many storms")
    parser.add_argument(
        "--rounds", type=int, default=_ROUNDS, help="how many storms on the local cloud"
    )
    parser.add_argument("--processes", type=int, default=min(8, os.cpu_count() or 1))
    asked = parser.parse_args(arguments)
    began = time.monotonic()
    with simulated():
        every = all_points(with_repetitions=asked.repetitions)
        points = [one for one in every if asked.scenario in one.scenario][:: asked.sample]
    tally = Tally()
    with ProcessPoolExecutor(asked.processes, initializer=_prepare) as pool:
        _try_crash_points(pool, points, tally)
        _play_stories(pool, asked.scenario, tally)
        _say(f"{asked.storms} storms, after {time.monotonic() - began:.0f} s")
        _sail_through_storms(pool, asked.storms, tally)
    _say(f"{asked.rounds} storms on the local cloud, after {time.monotonic() - began:.0f} s")
    _sail_through_storms_on_the_local_cloud(asked.rounds, tally)
    _say(f"faults: {', '.join(f'{kind} {count}' for kind, count in tally.injected.most_common())}")
    is_whole = asked.sample <= _SAMPLE and not asked.scenario and asked.storms > 0
    _say_what_was_proven(tally, is_whole=is_whole)
    used = os.times()
    counts = {
        "promises": len(PROMISES),
        "crash_points": tally.tried,
        "faults_injected": sum(tally.injected.values()),
        "violations": tally.violations,
        "storms": asked.storms,
        "alike": tally.alike,
        "storms_on_the_local_cloud": asked.rounds,
        "seconds": round(time.monotonic() - began),
        "cpu_seconds": round(sum(used[:4])),
    }
    _say(json.dumps(counts))
    return int(tally.violations > 0)


def _try_crash_points(pool: ProcessPoolExecutor, points: Sequence[Point], tally: Tally) -> None:
    _say(f"{len(points)} crash points in {len({one.scenario for one in points})} scenarios")
    for share in _done(pool, try_all, list(shares(points)), "shares of the crash points"):
        tally.tried += share.points
        tally.alike += share.alike
        tally.times.update(share.checked)
        for one in share.violations:
            tally.add({}, one.what)
            _say(_told(one))


def _play_stories(pool: ProcessPoolExecutor, wanted: str, tally: Tally) -> None:
    """Play each story once where nothing fails."""
    names = [name for name in BY_NAME if wanted in name]
    for name, checked, found in _done(pool, played_without_faults, names, "stories"):
        tally.add(checked, found)
        for what in found:
            _say(f"{name}, where nothing fails: {what}")


def _sail_through_storms(pool: ProcessPoolExecutor, count: int, tally: Tally) -> None:
    for seed, faults, checked, found in _done(pool, weathered, range(count), "storms"):
        tally.injected.update(faults)
        tally.add(checked, found)
        for what in found:
            _say(f"storm {seed}: {what}")


def _sail_through_storms_on_the_local_cloud(count: int, tally: Tally) -> None:
    for seed in range(count):
        faults, found = played(seed)
        tally.injected.update(faults)
        tally.add({}, found)
        for what in found:
            _say(f"storm {seed} on the local cloud: {what}")


def _say_what_was_proven(tally: Tally, *, is_whole: bool) -> None:
    """Print the table; in a whole run, a promise that nothing has tested is a violation."""
    for line in table(tally.times, tally.wrong):
        _say(line)
    untested = sorted(PROMISES.keys() - tally.times.keys())
    if untested and is_whole:
        tally.violations += len(untested)
        _say(
            f"no run has tested {', '.join(untested)}: write a story for it (tests/soak/stories.py)"
        )


def _broken(violations: Iterable[str]) -> list[str]:
    """Return the names of the promises that these violations break."""
    names = [broken_promise(one) for one in violations]
    return [name for name in names if name is not None]


def played_without_faults(name: str) -> tuple[str, dict[str, int], list[str]]:
    """Return the story, how often each promise was checked in it, and what it broke."""
    story = BY_NAME[name]
    cloud = story.play()
    found = story.complaints(cloud, counts=cloud.checked)
    return name, dict(cloud.checked), found


def _prepare() -> None:
    """Prepare a process for its whole life: what is loaded now is never looked through for
    garbage."""
    _ALWAYS.enter_context(simulated())
    gc.freeze()


def _done(
    pool: ProcessPoolExecutor, work: Callable[[Given], Result], parts: Sequence[Given], name: str
) -> Iterator[Result]:
    """Return results as they come, and say from time to time how many there are."""
    began = last = time.monotonic()
    open_now: set[Future[Result]] = {pool.submit(work, part) for part in parts}
    while open_now:
        ready, open_now = wait(open_now, _TELL_SECONDS, FIRST_COMPLETED)
        yield from (one.result() for one in ready)
        if time.monotonic() - last >= _TELL_SECONDS:
            last = time.monotonic()
            count = len(parts) - len(open_now)
            sys.stderr.write(
                f"{count} of {len(parts)} {name} after {(last - began) / 60:.0f} min\n"
            )
            sys.stderr.flush()


def shares(points: Iterable[Point]) -> Iterator[Sequence[Point]]:
    """Equal parts of each scenario, from all over it; the faults of one call stay together."""
    for _, group in groupby(points, attrgetter("scenario")):
        calls = [list(faults) for _, faults in groupby(group, attrgetter("number"))]
        number = max(1, sum(map(len, calls)) // _SHARE)
        yield from (
            [point for call in calls[start::number] for point in call] for start in range(number)
        )


def _told(one: Violation) -> str:
    where = f"{one.point.scenario}, call {one.point.number} ({one.at}), {one.point.kind.value}"
    return f"{where}: {'; '.join(one.what)}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
