"""How long the judgment itself takes: the product's rules over evidence that was already read."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta

from benchmarks.fleet import ACCOUNT, REGION, instance_id
from governor.core.instance import Instance, Target
from governor.evidence.model import Evidence, GpuReadings, MetricSource, Series, Window
from governor.policy.model.judging import IdleRule, Metrics
from governor.policy.model.policy import Policy
from governor.verdict.model import NO_HOLD, VerdictKind
from governor.verdict.rules.judge import judge

INSTANCES = 10_000
GPUS = 8
POINTS = 60
"""An hour, minute by minute."""
POLICY = Policy(idle=IdleRule(window_minutes=60), metrics=Metrics(period_seconds=60))
NOW = datetime(2026, 11, 20, 12, 2, tzinfo=UTC)
_FIGURES = ("power", "cpu", "network")
_ROUNDS = 3
_SEED = 1


def measure(idle_share: float = 0.5, instances: int = INSTANCES) -> float:
    """Seconds in which all of them are judged, each by its own readings: the best of three rounds.

    Raises:
        AssertionError: Others than those were judged idle, so that something else was measured.

    Args:
        idle_share: 0 to 1; of each other instance one GPU works. It hardly matters: for the advice
            that such an instance gets, all its readings are looked at, too.
        instances: How many there are.
    """
    fleet = _fleet(idle_share, instances)
    best = float("inf")
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        verdicts = [judge(instance, NO_HOLD, evidence, POLICY, NOW) for instance, evidence in fleet]
        best = min(best, time.perf_counter() - started)
        found = sum(verdict.kind is VerdictKind.IDLE for verdict in verdicts)
        if found != round(idle_share * instances):
            raise AssertionError(f"{found} of {instances} instances were judged idle")
    return best


def _fleet(idle_share: float, instances: int) -> list[tuple[Instance, Evidence]]:
    chance = random.Random(_SEED)  # noqa: S311 - made-up load, not a secret
    return [
        (_instance(number), _evidence(chance, works=number >= round(idle_share * instances)))
        for number in range(instances)
    ]


def _instance(number: int) -> Instance:
    return Instance(
        target=Target(ACCOUNT, REGION),
        instance_id=instance_id(number),
        instance_type="p4d.24xlarge",
        state="running",
        launch_time=NOW - timedelta(days=3),
        tags={"Purpose": "GPU-Workload"},
    )


def _evidence(chance: random.Random, *, works: bool) -> Evidence:
    end = NOW - timedelta(minutes=2)
    quiet = [_series(chance, 4.0) for _ in range(GPUS)]
    if works:
        quiet[chance.randrange(GPUS)] = _series(chance, 100.0)
    return Evidence(
        window=Window(end - timedelta(minutes=POINTS), end, timedelta(minutes=1)),
        source=MetricSource.PER_GPU,
        gpus=tuple(GpuReadings(str(gpu), series) for gpu, series in enumerate(quiet)),
        gpus_expected=GPUS,
        gpus_reporting=GPUS,
        power_percent_of_limit=12.0,
        cpu_percent=2.0,
        network_bytes_per_second=5_000.0,
        measured_percent=dict.fromkeys(_FIGURES, 100.0),
        last_measured=dict.fromkeys(_FIGURES, end),
        read=frozenset(_FIGURES),
    )


def _series(chance: random.Random, top: float) -> Series:
    """One reading in twenty is missing."""
    hole = chance.randrange(20)
    return tuple(None if point % 20 == hole else top * chance.random() for point in range(POINTS))
