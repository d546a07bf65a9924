"""The look at one instance sees work of this minute, by whichever series it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from governor.domain.evidence import Window
from governor.domain.instance import Target
from governor.domain.policy import IdleRule, Metrics
from governor.domain.verdict import Verdict, VerdictKind
from governor.errors import Unavailable
from governor.ports import MetricAnswer, MetricQuery
from tests.builders import NOW, ago
from tests.twins import Dimensions, MemoryMetrics
from tests.unit.usecases.world import World

UTILIZATION = "nvidia_smi_utilization_gpu"


@dataclass
class Bursts(MemoryMetrics):
    """Adds one reading of 90 (%) at a moment to some series, seen by every window that holds the moment."""

    at: datetime = NOW
    series: set[Dimensions] = field(default_factory=set)
    metric: str = UTILIZATION
    burst: float = 90.0
    broken_by_minute: str | None = None

    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        """As the port says."""
        answer = super().read(target, queries, window)
        by_minute = window.period == timedelta(minutes=1)
        if by_minute and self.broken_by_minute is not None:
            return MetricAnswer({}, {query.key: self.broken_by_minute for query in queries})
        return MetricAnswer({**answer.series, **self._bursts(queries, window)}, answer.problems)

    def _bursts(self, queries: Sequence[MetricQuery], window: Window) -> Mapping[str, tuple[float, ...]]:
        if not window.start <= self.at < window.end:
            return {}
        index = int((self.at - window.start) / window.period)
        values = tuple(self.burst if place == index else 1.0 for place in range(window.bins))
        return {
            query.key: values
            for query in queries
            if query.metric == self.metric and tuple(sorted(query.dimensions)) in self.series
        }


def world_with(bursts: Bursts, **settings: Any) -> World:
    """A quiet instance whose readings come from `bursts`; the world's own are moved over."""
    world = World()
    world.policies.policy = replace(world.policies.policy, **settings)
    bursts.published |= world.metrics.published
    world.inspect = replace(world.inspect, gather=replace(world.inspect.gather, metrics=bursts))
    return world


def verdict_of(world: World) -> Verdict:
    """As the instance is judged now."""
    verdict, _ = world.inspect.judge(world.instance, world.policies.policy, NOW)
    return verdict


def own(world: World) -> Dimensions:
    """The dimensions of the aggregate."""
    return (("InstanceId", world.instance.instance_id),)


def by_gpu(world: World) -> Dimensions:
    """The dimensions of the only GPU, on an agent that publishes no aggregate."""
    return (("InstanceId", world.instance.instance_id), ("index", "0"), ("name", "A10G"))


def test_a_quiet_instance_is_idle() -> None:
    """Without this, the refusals below would prove nothing."""
    assert VerdictKind.IDLE is verdict_of(world_with(Bursts(at=ago(days=30)))).kind


def test_work_of_the_last_minute_is_seen_in_the_aggregate() -> None:
    """The window of the evidence ends before it."""
    bursts = Bursts(at=ago(minutes=1))
    world = world_with(bursts)
    bursts.series = {own(world)}

    assert VerdictKind.BUSY is verdict_of(world).kind


def test_work_of_the_last_minute_is_seen_gpu_by_gpu() -> None:
    """Agents that publish no aggregate are asked by the series they do publish."""
    bursts = Bursts(at=ago(minutes=1))
    world = world_with(bursts)
    bursts.published.pop((UTILIZATION, own(world)))
    bursts.publish(UTILIZATION, dict(by_gpu(world)), [1.0] * 48)
    bursts.series = {by_gpu(world)}

    assert VerdictKind.BUSY is verdict_of(world).kind


@pytest.mark.parametrize(
    ("metric", "burst", "minutes", "reason"),
    [
        ("nvidia_smi_power_draw", 250.0, 1, "power draw reached 83.3 %"),
        ("CPUUtilization", 90.0, 4, "CPU reached 90.0 %"),
        ("NetworkIn", 6e8, 4, "network traffic reached 2.00 MB/s"),
    ],
)
def test_work_of_the_last_minutes_is_seen_in_every_figure(
    metric: str, burst: float, minutes: int, reason: str
) -> None:
    """Data is loaded, or a kernel spins, before a GPU's utilization moves."""
    bursts = Bursts(at=ago(minutes=minutes), metric=metric, burst=burst)
    world = world_with(bursts, metrics=Metrics(lag_seconds=600))
    bursts.series = {own(world)}

    assert (VerdictKind.BUSY, f"work began in the last minutes: {reason}") == (
        verdict_of(world).kind,
        verdict_of(world).reason,
    )


def test_the_last_minutes_that_cannot_be_read_are_not_taken_for_quiet() -> None:
    """Waiting is right then."""
    world = world_with(Bursts(at=ago(days=30), broken_by_minute="Throttling"))

    with pytest.raises(Unavailable, match="Throttling"):
        verdict_of(world)


@pytest.mark.parametrize("minutes", [1, 15, 25])
def test_the_look_at_the_last_minutes_leaves_no_gap(minutes: int) -> None:
    """A policy may leave out more than the default; what its window leaves out is looked at all the same."""
    bursts = Bursts(at=ago(minutes=minutes))
    world = world_with(bursts, metrics=Metrics(lag_seconds=1800))
    bursts.series = {own(world)}

    assert VerdictKind.BUSY is verdict_of(world).kind


def test_periods_of_an_hour_are_never_enough() -> None:
    """They cannot show that idleness lasts up to now, so nothing is asked and nothing is done."""
    hourly = Metrics(period_seconds=3600)
    verdict = verdict_of(
        world_with(Bursts(at=ago(days=30)), metrics=hourly, idle=IdleRule(window_minutes=240))
    )

    assert VerdictKind.NO_DATA is verdict.kind
    assert "metrics.period_seconds is 3600" in verdict.reason
