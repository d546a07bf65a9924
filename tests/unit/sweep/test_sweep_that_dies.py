"""A sweep that dies while it reads: what goes on working is saved, and the next sweep reads the
rest."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from governor.evidence import gather_evidence
from tests.builders import NOW, TARGET
from tests.unit.worlds.fleet_world import UTILIZATION, FleetWorld

BUSY = [90.0] * 12


class Killed(BaseException):
    """The time-out of a function: nothing catches it."""


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a meter's parts be those of ten instances with one GPU each."""
    monkeypatch.setattr(gather_evidence, "SERIES_OF_A_PART", 10)


def killed_after(world: FleetWorld, reads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sweep that dies at its next read of metrics after so many."""
    real, left = world.metrics.read, iter(range(reads))

    def read(*given: Any) -> Any:
        if next(left, None) is None:
            raise Killed
        return real(*given)

    with monkeypatch.context() as patched:
        patched.setattr(world.metrics, "read", read)
        with pytest.raises(Killed):
            world.sweep()


def read_of(world: FleetWorld) -> set[str]:
    """Return whose utilization was read since the last question."""
    found = {
        dict(one.dimensions)["InstanceId"]
        for one in world.metrics.reads
        if one.metric == UTILIZATION
    }
    world.metrics.reads.clear()
    return found


def test_the_next_sweep_goes_on_where_one_died(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty that work, in three parts: each sweep dies in its second part, and the third one
    ends."""
    world = FleetWorld()
    ids = [world.add(number, BUSY, launch_time=NOW - timedelta(days=14)) for number in range(30)]
    for count in (10, 20):
        killed_after(world, 1, monkeypatch)
        assert 10 == len(read_of(world))
        assert count == len(world.state.observations(TARGET))

    assert {"busy": 30} == world.sweep().verdicts
    assert 10 == len(read_of(world))
    assert {*ids} == {*world.state.observations(TARGET)}
    assert {"busy": 30} == world.sweep(5).verdicts
    assert set() == read_of(world)


def test_those_that_the_dead_sweep_did_not_come_to_are_read_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where those that it read are due again."""
    world = FleetWorld()
    ids = [world.add(number, BUSY) for number in range(20)]
    world.sweep()
    read_of(world)
    world.clock.moment += timedelta(hours=1)
    killed_after(world, 1, monkeypatch)
    assert {*ids[:10]} == read_of(world)

    world.clock.moment += timedelta(hours=1)
    killed_after(world, 1, monkeypatch)
    assert {*ids[10:]} == read_of(world)


def test_whatever_something_follows_from_is_seen_by_the_next_sweep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is saved about those that turned idle, fell silent, or were started lately: the
    breaker counts them, people learn of the silence, and hours and savings are those of a sweep
    that did not die."""
    summaries, worlds = [], []
    for dies in (False, True):
        world = FleetWorld()
        ids = [world.add(number, BUSY) for number in range(20)]
        world.sweep()
        for one in ids[:8]:
            world.publish(one, [1.0] * 48)
        world.silence(ids[8])
        world.add(20, BUSY, launch_time=NOW - timedelta(hours=5))
        world.clock.moment += timedelta(hours=2)
        if dies:
            killed_after(world, 4, monkeypatch)
            seen = world.state.observations(TARGET)
            assert (
                NOW == min(one.at for one in seen.values()) < max(one.at for one in seen.values())
            )
            assert {"busy"} == {one.verdict for one in seen.values()}
        summary = world.sweep(5)
        summaries.append((summary.verdicts, summary.frozen, summary.problems))
        worlds.append(world)

    assert summaries[0] == summaries[1]
    plain, died = worlds
    assert [one.kind for one in plain.announcer.sent] == [one.kind for one in died.announcer.sent]
    assert plain.state.meter(TARGET, "2026-11") == died.state.meter(TARGET, "2026-11")


def test_a_small_fleet_is_saved_once() -> None:
    """At its end: parts are for those that take long."""
    world = FleetWorld()
    for number in range(9):
        world.add(number, BUSY)
    world.sweep()

    items = [key for _, key in world.state.memory.items if key.startswith("OBSERVATIONS#")]
    assert ["OBSERVATIONS#000"] == items
