"""A replay follows the product's rules for a second figure and for the scale of utilization: one
that skips sweeps finds the same as one that looks at every sweep."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.core.instance import Shape
from governor.policy.model.acting import ApprovalRule, PlanRule
from governor.policy.model.judging import IdleRule, SecondFigure, Vetoes
from governor.policy.model.policy import Mode, Policy
from simulation.outcome import InstanceResult, Replay
from simulation.recording import Recording
from tests.unit.simulation.builders import BUSY, HOLE, IDLE, SHAPE, bins, make_recording, run

QUIET_WATTS = 30.0
"""10% of the limit of the A10G that the made-up instances have."""
LIMIT_WATTS = 300.0
OWN_NAME = "gpu_load"


def with_power(recording: Recording, watts: Sequence[float]) -> Recording:
    """The same, and the GPU draws so much power."""
    key = (Policy().metrics.power_draw, recording.sets[0], "Maximum")
    percent = array("d", [value * 100 / LIMIT_WATTS for value in watts])
    figures = replace(recording.figures, by_name={**recording.figures.by_name, "power": percent})
    series = {**recording.series, key: array("d", watts)}
    return replace(recording, series=series, figures=figures)


def named(recording: Recording, utilization: str) -> Recording:
    """The same, with utilization under another name."""
    old = Policy().metrics.utilization
    series = {}
    for (metric, dimensions, statistic), values in recording.series.items():
        name = utilization if metric == old else metric
        series[name, dimensions, statistic] = values
    names = replace(Policy().metrics, utilization=utilization)
    return replace(recording, series=series, names=names)


def required(**settings: object) -> Policy:
    """A policy that calls nothing idle without power, and asks after 3 hours."""
    idle = IdleRule(second_figure=SecondFigure.REQUIRED)
    rule = ApprovalRule(ask_after_minutes=180, ask_after_released_minutes=180)
    return Policy(idle=idle, approval=rule, **settings)  # type: ignore[arg-type]


def looking_at_every_sweep(recording: Recording, policy: Policy) -> Replay:
    """A replay that skips no sweep of an idle instance."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simulation.replay._known", lambda *_: None)
        patch.setattr("simulation.replay._bins_until_worth_proving", lambda *_: 1)
        return run(recording, policy=policy)


def only(recording: Recording, policy: Policy) -> InstanceResult:
    """Return the result of the one instance."""
    return run(recording, policy=policy).results[0]


def test_quiet_power_lets_an_idle_instance_be_stopped() -> None:
    """The other tests change the power of this one."""
    utilization = bins((BUSY, 1), (IDLE, 10))
    power = bins((200.0, 1), (QUIET_WATTS, 10))
    result = only(with_power(make_recording(utilization), power), required())

    assert 1 == len([event for event in result.events if event.stop])


@pytest.mark.parametrize("watts", [0.0, 0.25, 2.0, 3.0], ids=str)
def test_power_that_no_gpu_draws_counts_as_time_without_data(watts: float) -> None:
    """1% of the limit, or 2 W, is not measured: the sweeps say no data, as live."""
    utilization = bins((BUSY, 1), (IDLE, 10))
    power = bins((200.0, 1), (QUIET_WATTS, 2), (watts, 4), (QUIET_WATTS, 4))
    recording = with_power(make_recording(utilization), power)

    found = run(recording, policy=required())

    assert looking_at_every_sweep(recording, required()) == found
    assert found.results[0].no_data > timedelta(hours=3)


def test_power_from_40_percent_on_confirms_nothing() -> None:
    """However high the policy's own limit is: the sweeps say no data, as live."""
    utilization = bins((BUSY, 1), (IDLE, 10))
    power = bins((200.0, 1), (QUIET_WATTS, 2), (0.4 * LIMIT_WATTS, 4), (QUIET_WATTS, 4))
    recording = with_power(make_recording(utilization), power)
    policy = required(vetoes=Vetoes(power_percent_of_limit=90))

    found = run(recording, policy=policy)

    assert looking_at_every_sweep(recording, policy) == found
    assert found.results[0].no_data > timedelta(hours=3)


PERIODS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.3, IDLE, 1.01, 2.0, 3.0, BUSY, HOLE]),
        st.sampled_from([0.0, 3.0, QUIET_WATTS, QUIET_WATTS, 130.0, 280.0, HOLE]),
        st.integers(1, 30),
    ),
    min_size=1,
    max_size=12,
)


@given(
    periods=PERIODS,
    mode=st.sampled_from([Mode.ASK, Mode.AUTO]),
    second=st.sampled_from(list(SecondFigure)),
    limit=st.sampled_from([40.0, 90.0, None]),
    utilization=st.sampled_from(
        [Policy().metrics.utilization, OWN_NAME, "gpu_ratio", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"]
    ),
)
def test_what_is_skipped_would_have_found_the_same(
    periods: list[tuple[float, float, int]],
    mode: Mode,
    second: SecondFigure,
    limit: float | None,
    utilization: str,
) -> None:
    """Whatever power and utilization are, under every kind of name."""
    values = [value for value, _, count in periods for _ in range(count)]
    watts = [power for _, power, count in periods for _ in range(count)]
    shape = Shape(SHAPE.instance_type, SHAPE.accelerator, 1, SHAPE.memory_mib_each, 300)
    cpu = [1.0] * len(values)
    recording = named(with_power(make_recording(values, shape=shape, cpu=cpu), watts), utilization)
    policy = Policy(
        mode=mode,
        idle=IdleRule(second_figure=second),
        vetoes=Vetoes(power_percent_of_limit=limit),
        plan=PlanRule(local_disks_may_be_lost_unasked=True),
        metrics=replace(Policy().metrics, utilization=utilization),
    )

    assert looking_at_every_sweep(recording, policy) == run(recording, policy=policy)
