"""Where the policy's detector asks the past, it may ask for a longer proof, and for nothing less."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from governor.contracts.policy import parse_policy
from governor.domain.evidence import Window
from governor.domain.instance import Target
from governor.domain.policy import Policy
from governor.errors import PolicyError
from governor.ports import MetricAnswer, MetricQuery
from tests.builders import TARGET
from tests.unit.usecases.builders import opener, ref_of
from tests.unit.usecases.fleet_world import FleetWorld

PAST = timedelta(days=14)
BINS = int(PAST / timedelta(minutes=5))
SURVIVAL = Policy(detector="survival")
UTILIZATION = "nvidia_smi_utilization_gpu"
BURSTY = [90.0, *[0.0] * 30]
"""Work, then two and a half hours of nothing, then work again, for two weeks."""


def world_of(past: Sequence[float | None], policy: Policy = SURVIVAL) -> tuple[FleetWorld, str]:
    """One instance with these readings up to now, one in five minutes; CPU and network are quiet."""
    world = FleetWorld(policy)
    instance_id = world.add(1)
    world.change(instance_id, launch_time=world.clock.now() - PAST)
    world.metrics.publish(UTILIZATION, {"InstanceId": instance_id}, list(past))
    return world, instance_id


def ending_idle(minutes: int) -> list[float | None]:
    """The bursty past, with so many idle minutes at its end."""
    idle = minutes // 5
    past = (BURSTY * (BINS // len(BURSTY) + 1))[: BINS - idle - 1]
    return [*past, 90.0, *[0.0] * idle]


def test_a_pause_like_all_its_earlier_ones_is_not_idle_yet() -> None:
    """Work resumes within three hours, as it always did; the rule of an hour alone would ask."""
    world, instance_id = world_of(ending_idle(70))
    world.sweep()
    assert ("too-young", {}) == (world.verdict(instance_id), world.workflow.executions)
    assert "needed" in world.state.observations(TARGET)[instance_id].reason

    rule, same = world_of(ending_idle(70), Policy())
    rule.sweep()
    assert "idle" == rule.verdict(same)


def test_what_is_idle_for_longer_than_its_past_ever_was_is_idle() -> None:
    """Asked about, with the reason of the past."""
    world, instance_id = world_of(ending_idle(360))
    world.sweep()

    assert "idle" == world.verdict(instance_id)
    opened = opener(world)(ref_of(world, instance_id))
    assert opened.episode is not None
    assert "4 more hours stay idle" in opened.episode.reason or "are asked" in opened.episode.reason


def test_the_past_never_makes_a_working_instance_idle() -> None:
    """It is asked only about what the rules have proved."""
    world, instance_id = world_of([*[0.0] * (BINS - 1), 90.0])
    world.sweep()
    assert "busy" == world.verdict(instance_id)


def test_a_past_that_cannot_be_read_proves_nothing() -> None:
    """Tried again, not guessed."""
    world, instance_id = world_of(ending_idle(360))
    read = world.metrics.read

    def only_the_present(target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        if window.end - window.start < PAST:
            return read(target, queries, window)
        return MetricAnswer({}, {query.key: "Throttling" for query in queries})

    world.metrics.read = only_the_present  # type: ignore[method-assign]
    world.sweep()
    assert "no-data" == world.verdict(instance_id)


def test_a_short_past_asks_for_the_detectors_own_minimum() -> None:
    """Two hours where nothing is known."""
    holes: list[float | None] = [None] * (BINS - 20)
    young, first = world_of([*holes, *[0.0] * 20])
    young.sweep()
    assert "too-young" == young.verdict(first)

    old, second = world_of([*[None] * (BINS - 30), *[0.0] * 30])
    old.sweep()
    assert "idle" == old.verdict(second)


def test_the_detector_is_made_for_one_threshold() -> None:
    """Another one would be another detector."""
    with pytest.raises(PolicyError, match="utilization_below_percent: 5"):
        parse_policy("detector: survival\nidle: {utilization_below_percent: 10}")
