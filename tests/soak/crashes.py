"""Crash points: every fault at every call of a port in every scenario, each in a run of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.soak.cloud import START, Cloud
from tests.soak.faults import CrashPoint, Kind, NoFaults
from tests.soak.invariants import episodes
from tests.soak.parts import simulated
from tests.soak.scenarios import SCENARIOS, Scenario

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
    "states.start",
    "states.answer",
    "sns.publish",
    "ses.send",
)
_FAULTS = [kind for kind in Kind if kind is not Kind.RIVALS]
_MAY_REPEAT = ("ses.send", "table.")
"""Calls of `deliver_alert` after which a message comes twice, because nothing says that it was sent: the
channel's answer is lost, or the record of it. Everything else must not repeat a message."""


@dataclass(frozen=True, order=True)
class Point:
    """One fault at one call of one scenario."""

    scenario: str
    number: int
    kind: Kind


@dataclass(frozen=True)
class Violation:
    """What a fault broke. `at` is the function and its call."""

    point: Point
    at: str
    what: tuple[str, ...]


def points(scenario: Scenario) -> Iterator[Point]:
    """All of a scenario. Others act only where something is about to change."""
    recorder = NoFaults()
    cloud = scenario.play(recorder)
    end = _end(cloud) + _AFTER_THE_END
    for number, (moment, name) in enumerate(recorder.calls, start=1):
        if moment > end:
            return
        for kind in [Kind.RIVALS] if scenario.rivals is not None else _FAULTS:
            if kind not in (Kind.TWICE, Kind.RIVALS) or name in _WRITES:
                yield Point(scenario.name, number, kind)


def all_points() -> list[Point]:
    """Of all scenarios."""
    with simulated():
        return [point for scenario in SCENARIOS for point in points(scenario)]


def _end(cloud: Cloud) -> datetime:
    ends = [one.closed_at for one in episodes(cloud) if one.closed_at is not None]
    return min(ends, default=START + timedelta(hours=3))


def tried(point: Point) -> Violation | None:
    """Play the scenario with this fault. Return what it broke, or `None`."""
    scenario = BY_NAME[point.scenario]
    fault = CrashPoint(point.number, point.kind)
    cloud = scenario.play(fault)
    if not fault.at:
        return Violation(point, "nowhere", ("the fault was never reached: the run is not deterministic",))
    function, _, call = fault.at.partition(" ")
    duplicates = function == "deliver_alert" and call.startswith(_MAY_REPEAT)
    found = scenario.complaints(cloud, duplicates=duplicates)
    return Violation(point, fault.at, tuple(found)) if found else None


def try_all(some: Iterable[Point]) -> list[Violation]:
    """Return what these faults broke."""
    with simulated():
        return [found for point in some if (found := tried(point)) is not None]


BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
