"""The age of readings by the settings of the metrics. Tests of the recheck:
episode/test_freshness.py."""

from __future__ import annotations

from typing import Any

import pytest

from governor.evidence.rules.freshness import unseen_minutes, why_never_fresh
from governor.policy.model.judging import Metrics, Vetoes
from governor.policy.model.policy import Policy


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


def test_a_figure_of_the_gpus_is_none_of_ec2s() -> None:
    """It is as fresh as they are."""
    vetoes = Vetoes(memory_used_percent=50, required=("memory",))
    assert 1 == len([*why_never_fresh(Policy(metrics=Metrics(lag_seconds=301), vetoes=vetoes))])


def test_figures_that_are_not_required_need_not_be_fresh() -> None:
    """They prove nothing either way."""
    policy = Policy(metrics=Metrics(lag_seconds=301), vetoes=Vetoes(required=()))
    assert 1 == len([*why_never_fresh(policy)])
