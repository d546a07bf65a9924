"""Telemetry that does not suffice is found before anybody relies on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cli.telemetry import Health, findings, health_of
from governor.core.catalog import accelerated_types, shape_of
from governor.evidence.model import Evidence, GpuReadings, MetricSource
from governor.policy.model.judging import Vetoes
from governor.policy.model.policy import Policy
from tests.builders import POLICY, QUIET, make_evidence, make_instance

EIGHT = make_evidence(*[QUIET] * 8, aggregate=QUIET)


def aggregate(**changes: Any) -> Evidence:
    """Eight GPUs in one series."""
    plain = {
        "source": MetricSource.AGGREGATE,
        "gpus": (GpuReadings("all", QUIET),),
        "gpus_expected": 8,
        "gpus_reporting": 8,
    }
    return make_evidence(QUIET, **{**plain, **changes})


OTHERS = ("f2.6xlarge", "vt1.3xlarge")
NO_METRICS = Evidence(EIGHT.window, MetricSource.NONE)
LOST = make_evidence(*[QUIET] * 7, gpus_expected=8, aggregate=QUIET)


@pytest.mark.parametrize("instance_type", [*accelerated_types(), *OTHERS])
@pytest.mark.parametrize("evidence", [NO_METRICS, LOST])
def test_the_vendor_of_the_catalog_decides_the_advice(
    instance_type: str, evidence: Evidence
) -> None:
    """The publishers of this project measure NVIDIA GPUs only."""
    shape = shape_of(instance_type)
    found = findings(make_instance(instance_type=instance_type), evidence, None, POLICY)
    advice = found[0].advice.lower()

    is_nvidia = shape is not None and shape.vendor == "NVIDIA"
    words = ("nvidia", "mig mode", "deploy stacks/telemetry.yaml")
    assert is_nvidia == any(word in advice for word in words)
    if evidence is NO_METRICS and shape is not None and not is_nvidia:
        assert f"do not measure {shape.accelerator}" in found[0].advice


@pytest.mark.parametrize("evidence", [make_evidence(QUIET), EIGHT, aggregate()])
def test_what_suffices_is_right(evidence: Evidence) -> None:
    """One GPU, several with their aggregate, an aggregate alone."""
    assert () == findings(make_instance(), evidence, None, POLICY)
    assert Health.RIGHT is health_of(())


@pytest.mark.parametrize(
    ("evidence", "health", "seen", "advice"),
    [
        (
            Evidence(EIGHT.window, MetricSource.NONE),
            Health.SILENT,
            "no nvidia_smi_utilization_gpu",
            "stacks/telemetry.yaml",
        ),
        (
            Evidence(EIGHT.window, MetricSource.NONE, read_problem="AccessDenied"),
            Health.WRONG,
            "AccessDenied",
            "allow cloudwatch",
        ),
        (make_evidence((*QUIET[:6], *[None] * 6)), Health.WRONG, "GPU 0 50%", "restarts"),
        (
            make_evidence(*[QUIET] * 7, gpus_expected=8, aggregate=QUIET),
            Health.WRONG,
            "7 of 8",
            "MIG",
        ),
        (aggregate(gpus_reporting=40), Health.WRONG, "40 of 8", "collection_interval_seconds"),
        (
            make_evidence(QUIET, gpus_expected=None),
            Health.WRONG,
            "the catalog does not say how many",
            "update",
        ),
        (
            make_evidence(QUIET, measured_percent={"cpu": 100.0, "power": 100.0}),
            Health.WRONG,
            "long enough: network",
            "EC2",
        ),
        (
            make_evidence(*[QUIET] * 8),
            Health.COSTLY,
            "read GPU by GPU (8 series)",
            "aggregation_dimensions",
        ),
    ],
)
def test_what_does_not_is_said_with_what_to_do(
    evidence: Evidence, health: Health, seen: str, advice: str
) -> None:
    """One finding each."""
    (finding,) = findings(make_instance(), evidence, None, POLICY)

    assert (health, True, True) == (finding.health, seen in finding.seen, advice in finding.advice)


def test_the_worst_comes_first() -> None:
    """Several may hold at once."""
    evidence = make_evidence(*[(*QUIET[:6], *[None] * 6)] * 2)
    found = findings(make_instance(), evidence, None, POLICY)

    assert [Health.WRONG, Health.COSTLY] == [finding.health for finding in found]
    assert Health.WRONG is health_of(found)


def test_a_figure_that_the_policy_does_not_require_is_not_missed() -> None:
    """Only what stands in the way of a verdict is wrong."""
    policy = replace(Policy(), vetoes=Vetoes(required=("cpu",)))
    measured = {"cpu": 100.0, "power": 100.0}
    evidence = make_evidence(QUIET, measured_percent=measured)
    assert () == findings(make_instance(), evidence, None, policy)
