"""The look at one instance sees work of this minute, by whichever series it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.core.errors import Unavailable
from governor.core.instance import Lifecycle, Target
from governor.evidence.model import Series, Window
from governor.evidence.ports import MetricAnswer, MetricQuery
from governor.policy.model.judging import IdleRule, Metrics, names_of_profile
from governor.policy.model.profiles import ProfileName
from governor.verdict.model import Verdict, VerdictKind
from tests.builders import NOW, ago
from tests.twins import Dimensions, MemoryMetrics
from tests.unit.worlds.metric_layouts import CONTAINER_INSIGHTS, DCGM, NEURON, Layout
from tests.unit.worlds.world import World

UTILIZATION = "nvidia_smi_utilization_gpu"
MEMORY = "nvidia_smi_memory_used"


@dataclass
class Bursts(MemoryMetrics):
    """Adds one reading of 90 (%) at a moment to some series, seen by every window that holds the
    moment."""

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

    def _bursts(self, queries: Sequence[MetricQuery], window: Window) -> Mapping[str, Series]:
        if not window.start <= self.at < window.end:
            return {}
        index = int((self.at - window.start) / window.period)
        values: list[float | None] = []
        for place in range(window.bins):
            quiet = 1.0 if window.bin_end(place) <= NOW else None
            values.append(self.burst if place == index else quiet)
        return {
            query.key: tuple(values)
            for query in queries
            if query.metric == self.metric and tuple(sorted(query.dimensions)) in self.series
        }


def world_with(bursts: Bursts, changes: dict[str, Any] | None = None, **settings: Any) -> World:
    """A quiet instance whose readings come from `bursts`; the world's own are moved over."""
    world = World(changes=changes or {})
    bursts.now = world.clock.now
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


@pytest.mark.parametrize(
    ("layout", "profile"),
    [
        (CONTAINER_INSIGHTS, ProfileName.CONTAINER_INSIGHTS),
        (DCGM, ProfileName.DCGM),
        (NEURON, ProfileName.NEURON),
    ],
)
def test_a_recheck_reads_by_the_profile_of_the_policy(layout: Layout, profile: ProfileName) -> None:
    """Every device or core, and one of them that works since the window ended."""
    names = Metrics(**names_of_profile(profile), profile=profile)  # type: ignore[arg-type]
    bursts = Bursts(at=ago(minutes=1), metric=layout.utilization)
    changes = {"instance_type": layout.instance_type}
    world = world_with(bursts, metrics=names, changes=changes)
    own_id = world.instance.instance_id
    layout.publish(bursts, own_id, [0.5] * layout.parts, bins=96)
    assert VerdictKind.IDLE is verdict_of(world).kind

    last = layout.parts - 1
    busy_part = layout.dimensions(own_id, last, layout.instance_type)  # type: ignore[operator]
    bursts.series = {tuple(sorted(busy_part.items()))}
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
        ("nvidia_smi_power_draw", 250.0, 1, "power draw reached 83.3%"),
        ("CPUUtilization", 90.0, 4, "CPU reached 90.0%"),
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


@pytest.mark.parametrize("minutes", [1, 8, 15, 19])
def test_the_look_at_the_last_minutes_leaves_no_gap(minutes: int) -> None:
    """A policy may leave out more than the default; what its window leaves out is looked at all the
    same."""
    bursts = Bursts(at=ago(minutes=minutes))
    world = world_with(bursts, metrics=Metrics(lag_seconds=900))
    bursts.series = {own(world)}

    assert VerdictKind.BUSY is verdict_of(world).kind


@pytest.mark.parametrize("seconds", [901, 3600])
def test_a_lag_that_hides_the_last_minutes_is_never_enough(seconds: int) -> None:
    """No required figure could be measured lately enough, so nothing is asked and nothing is
    done."""
    verdict = verdict_of(world_with(Bursts(at=ago(days=30)), metrics=Metrics(lag_seconds=seconds)))

    assert VerdictKind.NO_DATA is verdict.kind
    assert f"metrics.lag_seconds is {seconds}" in verdict.reason


@pytest.mark.parametrize("ahead", [1, 5, 7])
def test_work_of_an_agent_whose_clock_is_fast_is_seen(ahead: int) -> None:
    """It dates its newest readings after now."""
    bursts = Bursts(at=NOW + timedelta(minutes=ahead))
    world = world_with(bursts)
    bursts.series = {own(world)}

    assert VerdictKind.BUSY is verdict_of(world).kind


def released(at: datetime, **settings: Any) -> Verdict:
    """The verdict on one that worked three hours ago and released its memory, loaded again at a
    moment."""
    loaded = Bursts(at=at, metric=MEMORY, burst=20_000.0)
    world = world_with(loaded, **settings)
    loaded.publish(UTILIZATION, dict(own(world)), [90.0] + [1.0] * 35)
    loaded.publish(MEMORY, dict(own(world)), [1.0] * 48)
    loaded.series = {own(world)}
    return verdict_of(world)


def test_released_memory_shortens_the_proof() -> None:
    """Without this, the refusals below would prove nothing."""
    assert VerdictKind.IDLE is released(ago(days=30)).kind
    assert VerdictKind.IDLE is released(ago(days=30), metrics=Metrics(lag_seconds=600)).kind


@pytest.mark.parametrize("minutes", [1, 2])
def test_memory_that_is_held_again_ends_the_shorter_proof(minutes: int) -> None:
    """A model was loaded since the window ended: the job has not gone."""
    verdict = released(ago(minutes=minutes))

    assert (
        VerdictKind.NO_DATA,
        "GPU memory is held again (87.4%), so 3 h of idle time is required",
    ) == (
        verdict.kind,
        verdict.reason,
    )


def test_memory_held_now_does_not_end_the_whole_proof() -> None:
    """Idle for the longer time, an instance may hold memory, as long as the policy does not veto
    it."""
    loaded = Bursts(at=ago(minutes=1), metric=MEMORY, burst=20_000.0)
    world = world_with(loaded)
    loaded.series = {own(world)}

    assert VerdictKind.IDLE is verdict_of(world).kind


def test_a_lag_that_hides_what_memory_is_held_ends_the_shorter_proof() -> None:
    """Released 10 minutes ago or more is not released now."""
    assert VerdictKind.BUSY is released(ago(days=30), metrics=Metrics(lag_seconds=601)).kind


def test_periods_of_an_hour_are_never_enough() -> None:
    """They cannot show that idleness lasts up to now, so nothing is asked and nothing is done."""
    hourly = Metrics(period_seconds=3600)
    verdict = verdict_of(
        world_with(Bursts(at=ago(days=30)), metrics=hourly, idle=IdleRule(window_minutes=240))
    )

    assert VerdictKind.NO_DATA is verdict.kind
    assert "metrics.period_seconds is 3600" in verdict.reason


def test_a_lag_does_not_make_a_required_figure_new_enough() -> None:
    """Last measured 22 minutes ago: late, although no longer than 5 minutes before the window's
    end."""
    world = world_with(Bursts(at=ago(days=30)), metrics=Metrics(lag_seconds=900))
    assert VerdictKind.IDLE is verdict_of(world).kind

    world.inspect.gather.metrics.publish("CPUUtilization", dict(own(world)), [1.0] * 47 + [None])  # type: ignore[attr-defined]

    assert (VerdictKind.NO_DATA, True) == (verdict_of(world).kind, verdict_of(world).is_late)


@pytest.mark.parametrize("lifecycle", [Lifecycle.CAPACITY_BLOCK, Lifecycle.SCHEDULED])
def test_what_is_paid_in_advance_costs_in_a_question_what_it_costs_in_the_fleet(
    lifecycle: Lifecycle,
) -> None:
    """One more hour adds nothing to the bill, whatever the list price of the type is."""
    world = World()
    _, plan, price = world.inspect.plan(
        replace(world.instance, lifecycle=lifecycle), world.policies.policy
    )

    assert (Decimal(0), "its capacity is paid for, used or not") == (
        price.usd_per_hour,
        price.source,
    )
    assert not plan.saving.saved_usd_per_day
