"""The age of readings by the settings of the metrics. Tests of the recheck:
episode/test_freshness.py."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from governor.evidence.model import Evidence, Window
from governor.evidence.rules.figures import FIGURES
from governor.evidence.rules.freshness import (
    newest_reading_offset,
    unseen_minutes,
    why_never_fresh,
    why_stale,
)
from governor.policy.model.judging import Metrics, Vetoes
from governor.policy.model.policy import Mode, Policy
from tests.builders import NOW, make_evidence


@pytest.mark.parametrize(
    ("settings", "unasked", "minutes"),
    [
        ({}, False, 12),
        ({}, True, 6),
        ({"period_seconds": 60}, False, 8),
        ({"period_seconds": 60}, True, 6),
        ({"lag_seconds": 0}, False, 10),
        ({"collection_interval_seconds": 61}, True, 12),
        ({"collection_interval_seconds": 300}, True, 12),
        ({"collection_interval_seconds": 300, "lag_seconds": 600}, True, 15),
        ({"collection_interval_seconds": 300, "lag_seconds": 600}, False, 20),
        ({"lag_seconds": 30}, False, 11),
    ],
)
def test_work_is_seen_after_so_many_minutes(
    settings: dict[str, Any], unasked: bool, minutes: int
) -> None:
    """At the latest: the page says the same figure."""
    assert minutes == unseen_minutes(Metrics(**settings), unasked=unasked)


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({}, 0),
        ({"lag_seconds": 240}, 0),
        ({"lag_seconds": 241}, 1),
        ({"lag_seconds": 300}, 1),
        ({"lag_seconds": 301}, 2),
        ({"collection_interval_seconds": 300, "lag_seconds": 300}, 0),
        ({"collection_interval_seconds": 300, "lag_seconds": 301}, 2),
    ],
)
def test_a_policy_that_cannot_have_fresh_readings_is_named(
    settings: dict[str, Any], count: int
) -> None:
    """The lag stands for the time that CloudWatch takes."""
    assert count == len([*why_never_fresh(Policy(metrics=Metrics(**settings)))])


def test_a_policys_warning_names_its_settings_and_figures() -> None:
    """So that people know what to change."""
    agent = Metrics(lag_seconds=360, collection_interval_seconds=300)
    assert [
        "the newest GPU reading may be 11 min old (metrics.collection_interval_seconds: 300, "
        "metrics.lag_seconds: 360), and at most 10 min are allowed",
        "EC2's newest reading of CPU and network traffic may be 11 min old "
        "(metrics.lag_seconds: 360), and at most 10 min are allowed",
    ] == [*why_never_fresh(Policy(metrics=agent))]
    (gpus, _) = why_never_fresh(Policy(metrics=Metrics(lag_seconds=360)))
    assert (
        "may be 7 min old (metrics.collection_interval_seconds: 60, metrics.lag_seconds: 360)"
        in gpus
    )
    assert "at most 5 min are allowed" in gpus


MINUTE = timedelta(minutes=1)
UNASKED = Policy(mode=Mode.AUTO, vetoes=Vetoes(required=()))


def readings(*minutes: int) -> tuple[float | None, ...]:
    """A series of 20 minutes around `NOW`, with readings that begin so many minutes after it."""
    return tuple(1.0 if minute in minutes else None for minute in range(-10, 10))


@pytest.mark.parametrize(
    ("gpus", "offset"),
    [
        ([], 0),
        ([readings()], 0),
        ([readings(-1)], 0),
        ([readings(0)], 0),
        ([readings(-9, -3)], -2),
        ([readings(-6), readings(-3)], -2),
        ([readings(-3), readings(-6), readings()], -2),
        ([readings(3)], 3),
        ([readings(-6), readings(3)], 3),
    ],
)
def test_the_newest_reading_of_any_gpu_shows_how_wrong_the_clock_is(
    gpus: list[tuple[float | None, ...]], offset: int
) -> None:
    """`governor doctor` says so: readings that are dated ahead let nothing be done unasked."""
    window = Window(NOW - 10 * MINUTE, NOW + 10 * MINUTE, MINUTE)
    evidence = (
        make_evidence(*gpus, window=window) if gpus else make_evidence(window=window, gpus=())
    )

    assert offset * MINUTE == newest_reading_offset(evidence, NOW)


@pytest.mark.parametrize(
    ("minutes_ago", "is_new"),
    [
        ({}, True),
        ({"power": 5}, True),
        ({"power": 6}, False),
        ({"agentless": 10}, True),
        ({"agentless": 11}, False),
        ({"power": 6, "agentless": 10}, True),
        ({"power": 5, "agentless": 11}, True),
        ({"power": 6, "agentless": 11}, False),
    ],
)
def test_power_confirms_while_it_is_as_new_as_its_publisher_makes_it(
    minutes_ago: dict[str, int], is_new: bool
) -> None:
    """EC2 publishes its own figure every five minutes. One of two is enough; without any, the
    verdict says that power is missing."""
    why = why_stale(of_power(minutes_ago), UNASKED, NOW)

    assert is_new == (why is None)
    if why is not None:
        assert why.startswith(f"the newest reading of {FIGURES[next(iter(minutes_ago))].words} end")


def test_power_of_some_gpus_makes_no_old_power_new() -> None:
    """It confirms nothing, so that of all GPUs must be new."""
    evidence = of_power({"power": 0, "agentless": 11})
    some = replace(evidence, measured_percent={"power": 0.0, "agentless": 100.0})

    assert why_stale(evidence, UNASKED, NOW) is None
    assert "EC2's own GPUPowerUtilization" in (why_stale(some, UNASKED, NOW) or "")


def of_power(minutes_ago: dict[str, int]) -> Evidence:
    """One GPU with a new reading, and figures of power that ended so many minutes ago."""
    return make_evidence(
        readings(-1),
        window=Window(NOW - 10 * MINUTE, NOW + 10 * MINUTE, MINUTE),
        last_measured={figure: NOW - ago * MINUTE for figure, ago in minutes_ago.items()},
        measured_percent=dict.fromkeys(minutes_ago, 100.0),
    )


def test_a_figure_of_the_gpus_is_none_of_ec2s() -> None:
    """It is as fresh as they are."""
    vetoes = Vetoes(memory_used_percent=50, required=("memory",))
    assert 1 == len([*why_never_fresh(Policy(metrics=Metrics(lag_seconds=301), vetoes=vetoes))])


def test_figures_that_are_not_required_need_not_be_fresh() -> None:
    """They prove nothing either way."""
    policy = Policy(metrics=Metrics(lag_seconds=301), vetoes=Vetoes(required=()))
    assert 1 == len([*why_never_fresh(policy)])
