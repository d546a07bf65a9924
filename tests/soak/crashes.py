"""Crash points: every fault at every call of a port in every scenario, each in a run of its own.

What comes before the fault is the same in all runs of a scenario. It is followed once, and each run
begins with a copy of the world from just before the event that makes the call.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from itertools import chain

from tests.soak import cloud as simulation
from tests.soak.cloud import START, Cloud
from tests.soak.faults import CrashPoint, Kind, NoFaults
from tests.soak.invariants import episodes
from tests.soak.scenarios import HOURS, Scenario
from tests.soak.stories import ALL_STORIES

_AFTER_THE_END = timedelta(minutes=25)
"""Calls are tried until so long after the first episode ended: two sweeps, and all messages."""
_WRITES = (
    "table.write",
    "table.transact",
    "ec2.stop",
    "ec2.terminate",
    "ec2.create",
    "ec2.prepare",
    "ec2.start",
    "ec2.delete",
    "states.start",
    "states.answer",
    "sns.publish",
    "ses.send",
)
_FAULTS = [kind for kind in Kind if kind is not Kind.RIVALS]
_REPEATS_ITSELF = frozenset({"check_progress", "sweep_target", "deliver_alert", "expire_snapshots"})
"""Functions that do the same again and again while time passes."""
_FIRST_TIMES = 2
"""So often each of their calls is tried, before only a sample of them is."""
_SAMPLED = 13
"""One in thirteen of their later calls is tried: a prime, so that the sample meets all of
them."""
_EVERY_RIVAL = 7
"""Everybody else acts at every seventh of their calls."""
_MAY_REPEAT = ("ses.send", "table.", "kms.generate_mac")
"""Calls of `deliver_alert` after which a message comes twice, because nothing says that it was
sent: the channel's answer is lost, or the record of it, which is sealed. Everything else must not
repeat a message."""


@dataclass(frozen=True, order=True)
class Point:
    """One fault at one call of one scenario."""

    scenario: str
    number: int
    kind: Kind


@dataclass(frozen=True)
class Violation:
    """The damage of a fault. `at` is the function and its call."""

    point: Point
    at: str
    what: tuple[str, ...]


def points(scenario: Scenario) -> tuple[Point, ...]:
    """All of a scenario, played once for them. Others act only where something is about to
    change."""
    return tuple(point for _, point in _points_now(scenario))


def without_repetitions(scenario: Scenario) -> tuple[Point, ...]:
    """Return its points without most of the calls that do the same again and again."""
    return tuple(point for is_repetition, point in _points_now(scenario) if not is_repetition)


def _points_now(scenario: Scenario) -> tuple[tuple[bool, Point], ...]:
    """Return each point, and whether its call repeats others that are tried, by the definition that
    executions follow now: a test may have put another one in its place."""
    return _points(scenario.name, json.dumps(simulation.definition()))


@cache
def _points(name: str, _definition: str) -> tuple[tuple[bool, Point], ...]:
    """Return the points of the story of this name, played once for each definition."""
    return tuple(_calls_and_kinds(BY_NAME[name]))


def _calls_and_kinds(scenario: Scenario) -> Iterator[tuple[bool, Point]]:
    times: Counter[tuple[str, str]] = Counter()
    recorder = NoFaults()
    cloud = scenario.play(recorder)
    end = _end(scenario, cloud) + _AFTER_THE_END
    for number, (moment, name, function) in enumerate(recorder.calls, start=1):
        if moment > end:
            return
        if scenario.tries_in and function not in scenario.tries_in:
            continue
        times[function, name] += 1
        is_repetition = function in _REPEATS_ITSELF and _is_left_out(times[function, name])
        for kind in [Kind.RIVALS] if scenario.rivals is not None else _FAULTS:
            if kind is Kind.RIVALS and scenario.rivals_everywhere:
                is_tried = function not in _REPEATS_ITSELF or number % _EVERY_RIVAL == 0
            else:
                is_tried = kind not in (Kind.TWICE, Kind.RIVALS) or name in _WRITES
            if is_tried:
                yield is_repetition, Point(scenario.name, number, kind)


def _is_left_out(times: int) -> bool:
    return times > _FIRST_TIMES and times % _SAMPLED != 0


def all_points(*, with_repetitions: bool = False) -> list[Point]:
    """Return those of all scenarios."""
    chosen = points if with_repetitions else without_repetitions
    return [point for scenario in ALL_STORIES for point in chosen(scenario)]


def _end(scenario: Scenario, cloud: Cloud) -> datetime:
    ends = [
        one.ending.at for one in episodes(cloud) if one.ending is not None and one.ending.at > START
    ]
    return min(ends, default=START + timedelta(hours=scenario.hours_of_faults))


@dataclass(frozen=True)
class Tried:
    """How many faults were tried, how many of them needed no run to the end of their own, and what
    broke."""

    points: int
    alike: int
    violations: tuple[Violation, ...]
    checked: Counter[str]
    """How often each promise was checked."""


def try_all(some: Iterable[Point]) -> Tried:
    """Return what these faults broke."""
    by_scenario: dict[str, list[Point]] = defaultdict(list)
    for point in some:
        by_scenario[point.scenario].append(point)
    tried = alike = 0
    violations = []
    checked: Counter[str] = Counter()
    for end in chain.from_iterable(runs(BY_NAME[name], own) for name, own in by_scenario.items()):
        tried += 1
        alike += end.is_alike
        if not end.is_alike:
            checked.update(end.cloud.checked)
        if (found := end.violation()) is not None:
            violations.append(found)
    return Tried(tried, alike, tuple(violations), checked)


@dataclass(frozen=True)
class End:
    """How a story ended after a fault: `complaints` are what is wrong then."""

    point: Point
    at: str
    cloud: Cloud
    complaints: tuple[str, ...]
    is_alike: bool = False
    """The world was the same as that of another fault at this call, whose end it is."""

    def violation(self) -> Violation | None:
        """Return what is wrong, if anything is."""
        if not self.at:
            why = "the fault was never reached: the run is not deterministic"
            return Violation(self.point, "nowhere", (why,))
        return Violation(self.point, self.at, self.complaints) if self.complaints else None


def runs(scenario: Scenario, some: Iterable[Point]) -> Iterator[End]:
    """The end of the story for each of these faults.

    After some faults of a call the world is the same, byte by byte, as after another one: a read
    that failed before it was done, and one whose answer was lost. When such a fault is over, all
    that follows comes from that world alone, so there is one end for both.
    """
    recorder, seen, kept = NoFaults(), 0, b""
    cloud = scenario.begin(recorder)
    left = deque(sorted(some))
    for _ in chain(cloud.steps(scenario.at_least_hours * HOURS), [None]):
        # What has just happened made the calls after `seen`, and the copy is from before it.
        ends: dict[tuple[int, bytes], End] = {}
        while left and left[0].number <= len(recorder.calls):
            point = left.popleft()
            fault = CrashPoint(point.number, point.kind, seen)
            after = Cloud.revived(kept, fault)
            after.step()
            world = (point.number, after.kept()) if fault.is_over(after.moment) else None
            if world in ends:
                yield replace(ends[world], point=point, is_alike=True)
                continue
            end = _finished(scenario, point, fault, after)
            if world is not None:
                ends[world] = end
            yield end
        if not left:
            return
        seen, kept = len(recorder.calls), cloud.kept()
    yield from (End(point, "", cloud, ()) for point in left)


def _finished(scenario: Scenario, point: Point, fault: CrashPoint, cloud: Cloud) -> End:
    scenario.finish(cloud)
    function, _, call = fault.at.partition(" ")
    duplicates = function == "deliver_alert" and call.startswith(_MAY_REPEAT)
    complaints = scenario.complaints(cloud, duplicates=duplicates, counts=cloud.checked)
    return End(point, fault.at, cloud, tuple(complaints))


BY_NAME = {scenario.name: scenario for scenario in ALL_STORIES}
