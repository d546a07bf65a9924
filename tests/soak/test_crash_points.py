"""A small sample of what `make soak` tries: faults at calls of the whole system.

Time is simulated.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pytest

from tests.soak import cloud as simulation
from tests.soak.__main__ import shares
from tests.soak.cloud import START, Cloud
from tests.soak.crashes import Point, points, runs, try_all, without_repetitions
from tests.soak.faults import CrashPoint, Kind, NoFaults
from tests.soak.invariants import episodes
from tests.soak.parts import simulated
from tests.soak.scenarios import SCENARIOS, Scenario
from tests.soak.stories import ALL_STORIES
from tests.soak.storm import Weather
from tests.soak.test_definition_before import BEFORE

_PLACE = 1019
"""A prime, so that the sample meets every kind of fault and every part of a run."""
_IN_FULL = [(one, 74 * number) for number, one in enumerate(SCENARIOS[::18])]
"""Scenarios, and from which point on they are played from their beginnings as well."""


@pytest.fixture(scope="module", autouse=True)
def _simulated() -> Iterator[None]:
    with simulated():
        yield


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_each_story_goes_its_way_when_nothing_fails(scenario: Scenario) -> None:
    """Or its crash points would prove nothing about it."""
    cloud = scenario.play()

    of_the_story = [one for one in episodes(cloud) if one.opened_at >= START]
    assert scenario.outcome is (of_the_story[0].outcome if of_the_story else None)
    assert [] == scenario.complaints(cloud)


def _sample() -> Iterator[Point]:
    """Yield a crash point of every ninth story, each in another part of its story."""
    for number, story in enumerate(ALL_STORIES[::9]):
        of_the_story = without_repetitions(story)
        if of_the_story:
            yield of_the_story[_PLACE * number % len(of_the_story)]


def test_no_sampled_crash_point_breaks_an_invariant() -> None:
    """Errors, deaths and outages at calls of a port, one a run; then sweeps repair."""
    sample = list(_sample())

    assert len(sample) > 15
    assert {point.kind for point in sample} >= set(Kind) - {Kind.TWICE}
    assert () == try_all(sample).violations


def test_repeated_calls_are_sampled_and_each_kind_of_call_is_tried() -> None:
    """A whole run takes all of them; the default one leaves out only what repeats itself."""
    for scenario in SCENARIOS[:3]:
        recorder = NoFaults()
        scenario.play(recorder)
        calls = [(function, name) for _, name, function in recorder.calls]

        every = points(scenario)
        sampled = without_repetitions(scenario)
        left_out = {calls[point.number - 1][0] for point in set(every) - set(sampled)}

        assert left_out <= {"check_progress", "sweep_target", "deliver_alert", "expire_snapshots"}
        tried = {calls[point.number - 1] for point in sampled}
        assert {calls[point.number - 1] for point in every} == tried


def test_each_definition_has_crash_points_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that plays another definition in the same process left its points to those after
    it."""
    scenario = SCENARIOS[0]
    points_now = points(scenario)
    with monkeypatch.context() as patched:
        patched.setattr(simulation, "definition", lambda: BEFORE)
        points_before = points(scenario)

    assert points_now != points_before
    assert points_now == points(scenario)


def test_a_run_from_a_copy_ends_as_a_whole_run_does() -> None:
    """Runs of crash points begin in the middle of the story, and some share an end."""
    sample = [(scenario, points(scenario)[number : number + 6]) for scenario, number in _IN_FULL]
    ends = [(scenario, end) for scenario, some in sample for end in runs(scenario, some)]

    for scenario, end in ends:
        fault = CrashPoint(end.point.number, end.point.kind)
        whole = scenario.play(fault)
        assert (fault.at, _left(whole)) == (end.at, _left(end.cloud)), end.point
    assert any(end.is_alike for _, end in ends)


def _left(cloud: Cloud) -> tuple[object, ...]:
    instances = cloud.ec2.instances, cloud.ec2.snapshots
    return cloud.moment, cloud.memory.items, cloud.mails, cloud.deeds, cloud.presses, instances


def test_shares_hold_each_crash_point_once_and_the_faults_of_a_call_together() -> None:
    """Or some would not be tried, or could not share their end."""
    everything = [point for scenario in SCENARIOS[:3] for point in points(scenario)]

    order = {point: place for place, point in enumerate(everything)}
    parts = list(shares(everything))

    assert everything == sorted(chain.from_iterable(parts), key=order.__getitem__)
    calls = [{(point.scenario, point.number) for point in part} for part in parts]
    assert sum(map(len, calls)) == len(set().union(*calls))


def test_a_fleet_comes_through_a_storm() -> None:
    """Faults on a fifth of all calls, outages, poison, rivals; when all is quiet again, all is
    right. `make soak` sails through sixty storms.

    In this one, somebody opens the page while a call to EC2 has no answer, to hold it.
    """
    weather = Weather(4)

    assert [] == weather.run()
    assert sum(weather.faults.injected.values()) > 500
