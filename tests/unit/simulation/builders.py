"""Made-up recordings: utilization by bin, everything else quiet."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import isnan, nan
from typing import Any

from evaluation.bins import holes
from governor.core.instance import Instance, Shape, Target
from governor.episode.model.plan import Price
from governor.evidence.model import MetricSource, Window
from governor.policy.model.acting import ApprovalRule
from governor.policy.model.judging import IdleRule
from governor.policy.model.policy import Policy
from simulation.outcome import Replay
from simulation.recording import PERIOD, Figures, Recording, replayed_figures
from simulation.replay import replay
from tests.builders import make_instance
from tests.twins import StaticPolicies

START = datetime(2026, 11, 2, tzinfo=UTC)
SHAPE = Shape("g5.xlarge", "NVIDIA A10G", 1, 22888, 300, "1x250")
HOUR = 12
BUSY, IDLE, HOLE = 80.0, 1.0, nan


def bins(*stretches: tuple[float, float]) -> list[float]:
    """Hours of a value, one stretch after the other."""
    return [value for value, hours in stretches for _ in range(round(hours * HOUR))]


def make_recording(
    utilization: Sequence[float],
    *,
    cpu: Sequence[float] | None = None,
    instance: Instance | None = None,
    price: str | None = "1.0",
    **changes: Any,
) -> Recording:
    """One GPU by its aggregate. CPU and network are quiet wherever utilization was measured."""
    instance = instance or make_instance(launch_time=START - timedelta(days=30))
    names = Policy().metrics
    dimensions = (("InstanceId", instance.instance_id),)
    util = array("d", utilization)
    alive = array("d", (nan if value != value else 1.0 for value in util))
    processor = array("d", cpu) if cpu is not None else alive
    # Quiet GPUs at 10% of the 300 W of an A10G, where the agent publishes.
    watts = array("d", [value if isnan(value) else 30.0 for value in util])
    recording = Recording(
        instance=instance,
        shape=SHAPE,
        span=Window(START, START + len(util) * PERIOD, PERIOD),
        source=MetricSource.AGGREGATE,
        sets=(dimensions,),
        series={
            (names.utilization, dimensions, "Maximum"): util,
            (names.power_draw, dimensions, "Maximum"): watts,
            ("CPUUtilization", dimensions, "Average"): processor,
            ("NetworkIn", dimensions, "Sum"): alive,
            ("NetworkOut", dimensions, "Sum"): alive,
        },
        figures=Figures(
            util,
            {
                **{figure: holes(len(util)) for figure in replayed_figures()},
                "power": array("d", [value / 3 for value in watts]),
                "cpu": processor,
                "network": alive,
            },
        ),
        price=Price(None if price is None else Decimal(price), "made up"),
    )
    return replace(recording, **changes)


def with_memory(recording: Recording, percent: Sequence[float]) -> Recording:
    """The same, and so much of the GPU's memory is held."""
    whole = SHAPE.memory_mib_each
    assert whole is not None
    key = (Policy().metrics.memory_used, recording.sets[0], "Maximum")
    values = array("d", [value * whole / 100 for value in percent])
    by_name = {**recording.figures.by_name, "memory": array("d", percent)}
    figures = replace(recording.figures, by_name=by_name)
    return replace(recording, series={**recording.series, key: values}, figures=figures)


def by_window(**settings: Any) -> Policy:
    """A policy that asks as soon as the idle window is idle, for tests that are exact about
    times."""
    minutes = settings.setdefault("idle", IdleRule()).window_minutes
    rule = replace(
        settings.pop("approval", ApprovalRule()),
        ask_after_minutes=minutes,
        ask_after_released_minutes=minutes,
    )
    return Policy(approval=rule, **settings)


def anywhere(_: Target) -> str:
    """An endpoint for stores of made-up readings."""
    return "https://monitoring.example.com"


def run(
    *recordings: Recording, policy: Policy | None = None, delay: timedelta = timedelta(minutes=30)
) -> Replay:
    """A replay of one policy for all."""
    return replay("test", StaticPolicies(policy or by_window()), recordings, approval_delay=delay)


def at(hours: float) -> datetime:
    """So many hours after the record's begin."""
    return START + timedelta(hours=hours)
