"""A sample of what `make soak` tries: faults at calls of the whole system, on simulated time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.soak.crashes import all_points, try_all
from tests.soak.invariants import episodes
from tests.soak.parts import simulated
from tests.soak.scenarios import SCENARIOS, Scenario
from tests.soak.storm import Weather

_EVERY = 307
"""A prime, so that the sample meets every kind of fault and every part of a run."""


@pytest.fixture(autouse=True)
def _simulated() -> Iterator[None]:
    with simulated():
        yield


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_each_story_goes_its_way_when_nothing_fails(scenario: Scenario) -> None:
    """Or its crash points would prove nothing about it."""
    cloud = scenario.play()

    assert scenario.outcome is episodes(cloud)[0].outcome
    assert [] == scenario.complaints(cloud)


def test_no_sampled_crash_point_breaks_an_invariant() -> None:
    """Errors, deaths and outages at calls of a port, one a run; then sweeps repair."""
    sample = all_points()[::_EVERY]

    assert len(sample) > 60
    assert [] == try_all(sample)


@pytest.mark.parametrize("seed", range(2))
def test_a_fleet_comes_through_a_storm(seed: int) -> None:
    """Faults on a fifth of all calls, outages, poison, rivals; when all is quiet again, all is right."""
    weather = Weather(seed)

    assert [] == weather.run()
    assert sum(weather.faults.injected.values()) > 500
