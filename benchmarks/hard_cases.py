"""Twenty instances about which it is easy to be wrong: 18 that nobody should stop, and two that are
idle.

Ordinary idle ones do nothing for weeks; each of these differs from them by what its name says.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.fleet import AGENTLESS, GPU_METRICS, MEMORY, POWER, UTILIZATION, Host

Sample = Callable[[str, int | None, int], float | None]
_IDLE = {UTILIZATION: 0.4, MEMORY: 0.0, POWER: 30.0, GPU_METRICS[1]: 0.1, GPU_METRICS[4]: 35.0}
_OF_EC2 = {"CPUUtilization": 1.5, "NetworkIn": 1e6, "NetworkOut": 1e6, AGENTLESS: 10.0}


def _idle(metric: str, *_: object) -> float | None:
    return {**_IDLE, **_OF_EC2}.get(metric)


def _but(
    metric: str, value: float | None, *, when: Callable[[int | None, int], bool] = lambda *_: True
) -> Sample:
    """As an idle one, but that metric, where the GPU and the minute say so."""

    def sample(asked: str, gpu: int | None, minutes_ago: int) -> float | None:
        if asked == metric and when(gpu, minutes_ago):
            return value
        return _idle(asked)

    return sample


def _silent(when: Callable[[int | None, int], bool]) -> Sample:
    """As an idle one, but the agent publishes nothing where the GPU and the minute say so."""

    def sample(asked: str, gpu: int | None, minutes_ago: int) -> float | None:
        silent = asked in _IDLE and when(gpu, minutes_ago)
        return None if silent else _idle(asked)

    return sample


def _publishes_work(metric: str, *_: object) -> float | None:
    return 12.0 if metric == "StepsPerSecond" else _idle(metric)


HARD_CASES = (
    Host(
        "bursty: two minutes of work every fifty",
        _but(UTILIZATION, 90.0, when=lambda _, ago: ago % 50 < 2),
    ),
    Host("one GPU of eight works", _but(UTILIZATION, 30.0, when=lambda gpu, _: gpu == 5), gpus=8),
    Host("the CPU prepares data", _but("CPUUtilization", 85.0)),
    Host("data is downloaded", _but("NetworkIn", 6e9)),
    Host("the GPU draws power without utilization", _but(POWER, 210.0)),
    Host(
        "a job publishes its steps", _publishes_work, published=(("MLTraining", "StepsPerSecond"),)
    ),
    Host("works again since four minutes", _but(UTILIZATION, 90.0, when=lambda _, ago: ago < 9)),
    Host("silent", _silent(lambda *_: True)),
    Host("the agent died 70 minutes ago", _silent(lambda _, ago: ago < 70)),
    Host("the agent runs since 20 minutes", _silent(lambda _, ago: ago > 20)),
    Host("40 minutes without readings", _silent(lambda _, ago: 60 < ago < 100)),
    Host("one GPU of eight is not measured", _silent(lambda gpu, _: gpu == 3), gpus=8),
    Host(
        "per GPU only, one of eight works",
        _but(UTILIZATION, 60.0, when=lambda gpu, _: gpu == 2),
        gpus=8,
        aggregates=False,
    ),
    Host("snoozed by an answer", _idle, tags={"keep-until": "2099-01-01"}),
    Host("exempt", _idle, tags={"GpuGovernor": "exempt"}),
    Host("member of an Auto Scaling group", _idle, tags={"aws:autoscaling:groupName": "training"}),
    Host("node of Karpenter", _idle, tags={"karpenter.sh/nodepool": "gpu"}),
    Host("started 20 minutes ago", _idle, up_minutes=20),
    Host("idle, per GPU only", _idle, gpus=8, aggregates=False, is_idle=True),
    Host(
        "idle, an aggregate with another dimension",
        _idle,
        named={"InstanceType": "g5.xlarge"},
        is_idle=True,
    ),
)
"""Custodian reads a snooze from its tag; ours is an answer in the table, and the tag means nothing
to it."""
