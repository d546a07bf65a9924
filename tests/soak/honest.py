"""`make soak-honest`: plants each bug of `bugs.py`, and fails unless the soak's own stories catch
it.

A bug is caught when the invariant that is named for it is broken: an exception in the product, or a
story that ends elsewhere, is not enough. Then the same story is played once more, with the same
fault and without the bug. If the invariant is broken there, too, the bug is not caught: such a
story would catch anything. Each bug has a process of its own, with 60 s of processor time for both.
The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection

from tests.soak.bugs import BUGS, Bug
from tests.soak.crashes import BY_NAME, Point, points, runs
from tests.soak.faults import NoFaults
from tests.soak.parts import simulated
from tests.soak.promises import broken_promise
from tests.soak.scenarios import Scenario

CPU_SECONDS = 60
_FIRST = ("recheck_episode", "put_away", "take_snapshot")
"""Functions whose calls are tried first: a guard that is missing shows there."""

Points = tuple[list[Point], list[Point]]
"""The faults to try first, and the others; both empty where a story is played as it is told."""


@dataclass(frozen=True)
class Found:
    """The end of a bug. `promise` is the broken one; `None`: nothing noticed the bug."""

    bug: str
    promise: str | None
    story: str
    seconds: float
    why: str = ""


def main(arguments: Sequence[str]) -> int:
    """Return the exit status: 1 unless every bug is caught."""
    parser = argparse.ArgumentParser(prog="soak-honest", description=__doc__)
    parser.add_argument("--bug", default="", help="plant bugs with this in their names only")
    parser.add_argument("--processes", type=int, default=min(8, os.cpu_count() or 1))
    asked = parser.parse_args(arguments)
    planted = [bug for bug in BUGS if asked.bug in bug.name]
    caught = 0
    with ThreadPoolExecutor(asked.processes) as pool:
        for found in pool.map(_in_a_process, planted):
            caught += found.promise is not None
            _say(_told(found))
    _say(json.dumps({"planted": len(planted), "caught": caught}))
    return int(caught < len(planted))


def _told(found: Found) -> str:
    if found.promise is None:
        return (
            f"NOT CAUGHT: {found.bug} ({found.why or 'no story breaks a promise'}), "
            f"{found.seconds:.1f} s"
        )
    return f"{found.promise}: {found.bug}, by '{found.story}', {found.seconds:.1f} s"


def _in_a_process(bug: Bug) -> Found:
    """Return what became of a bug that is planted in a process of its own."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_plant_and_send, args=(bug.name, sender))
    process.start()
    sender.close()
    try:
        found: Found = receiver.recv()
    except EOFError:
        found = Found(
            bug.name, None, "", CPU_SECONDS, f"it took more than {CPU_SECONDS} s, or crashed"
        )
    process.join()
    return found


def _plant_and_send(name: str, sender: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    (bug,) = [one for one in BUGS if one.name == name]
    sender.send(caught(bug))


@dataclass(frozen=True)
class Played:
    """A way to play a story: with one fault, or as it is told."""

    story: Scenario
    point: Point | None = None


@dataclass(frozen=True)
class Searched:
    """The end of a search."""

    broken_in: Played | None
    """Where the promise was broken first; `None`: nowhere."""
    other: str = ""
    """The last complaint about something else; empty where there was none."""


def caught(bug: Bug) -> Found:
    """Plant a bug and play its stories until its promise is broken. Raises: NotPlanted."""
    began = time.process_time()
    with simulated():
        # The course of each story is that of the product as it is.
        stories = [BY_NAME[name] for name in bug.stories]
        tried = [(story, _points_of(story, bug)) for story in stories]
        with ExitStack() as planted:
            for change in bug.changes:
                planted.enter_context(change.planted())
            searched = _search(bug.promise, tried)
    where = searched.broken_in
    if where is None:
        return Found(bug.name, None, "", time.process_time() - began, searched.other)
    # Simulated anew: what was parsed and wired with the bug is forgotten.
    with simulated():
        is_broken_anyway = _breaks(bug.promise, where)
    seconds = time.process_time() - began
    if is_broken_anyway:
        why = f"'{where.story.name}' breaks {bug.promise} without the bug, too"
        return Found(bug.name, None, where.story.name, seconds, why)
    return Found(bug.name, bug.promise, where.story.name, seconds)


def _search(promise: str, tried: Sequence[tuple[Scenario, Points]]) -> Searched:
    """Return where a promise is broken first, with the bug that is planted now."""
    other = ""
    for story, some in tried:
        for played, violation in _violations(story, some):
            if broken_promise(violation) == promise:
                return Searched(played)
            other = violation
    return Searched(None, other)


def _breaks(promise: str, played: Played) -> bool:
    """Return whether the promise is broken in this story, with the same fault, in the product as it
    is."""
    points_tried = [] if played.point is None else [played.point]
    found = _violations(played.story, (points_tried, []))
    return any(broken_promise(violation) == promise for _, violation in found)


def _points_of(story: Scenario, bug: Bug) -> Points:
    """Return the faults to try first, which tell most, and the others; none where the story shows
    it."""
    first: list[Point] = []
    others: list[Point] = []
    if story.rivals is None and not bug.kinds:
        return first, others
    recorder = NoFaults()
    story.play(recorder)
    for point in points(story):
        _, call, function = recorder.calls[point.number - 1]
        is_kind = not bug.kinds or point.kind.value in bug.kinds
        if is_kind and f"{function} {call}".startswith(bug.calls):
            (first if function in _FIRST else others).append(point)
    return first, others


def _violations(story: Scenario, parts: Points) -> Iterator[tuple[Played, str]]:
    """Yield what is wrong with the story as it is told, or with a fault at each of these points."""
    if not any(parts):
        for what in story.complaints(story.play()):
            yield Played(story), what
    for part in parts:
        for end in runs(story, part):
            violation = end.violation()
            for what in violation.what if violation is not None else ():
                yield Played(story, end.point), what


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
