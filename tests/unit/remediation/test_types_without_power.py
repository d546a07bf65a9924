"""Instance types whose power limit nobody knows: docs/policy.md names them, and what follows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from governor.core.catalog import accelerated_types, shape_of
from tests.unit.remediation.test_small_numbers import (
    NO_DATA,
    ONE_GPU,
    STOPPED,
    TRUSTED,
    UTILIZATION,
    Published,
    outcomes,
)

_POLICY = Path(__file__).parents[3] / "docs/policy.md"
TYPE = "g7e.2xlarge"
QUIET = [Published(UTILIZATION, 1.0, ONE_GPU)]


def families_without_limit() -> list[str]:
    """Return the families of NVIDIA types without a power limit in the catalog."""
    families = set()
    for instance_type in accelerated_types():
        shape = shape_of(instance_type)
        assert shape is not None
        if shape.vendor == "NVIDIA" and shape.board_power_watts is None:
            family, _, _ = instance_type.partition(".")
            families.add(family)
    return sorted(families)


def test_the_docs_name_the_types_without_a_power_limit() -> None:
    """In the sentence and in the override."""
    text = " ".join(_POLICY.read_text().split())
    families = families_without_limit()
    sentence = ", ".join(f"`{family}`" for family in families)

    assert f"types without a known power limit: {sentence}." in text
    assert f"instance_families: [{', '.join(families)}]" in text


def test_a_type_without_a_power_limit_is_judged_without_power() -> None:
    """As the docs say: power in watts proves nothing there, high or low."""
    assert STOPPED == outcomes(QUIET, instance_type=TYPE)


@pytest.mark.parametrize(("percent", "is_stopped"), [(39.9, True), (40.0, False)])
def test_ec2_power_keeps_a_type_without_a_power_limit(percent: float, *, is_stopped: bool) -> None:
    """EC2's figure is in percent already."""
    series = [*QUIET, Published("GPUPowerUtilization", percent, {"GpuId": "0"})]

    assert is_stopped is outcomes(series, instance_type=TYPE).is_stopped


def test_a_metric_that_may_be_frozen_is_no_data_without_a_power_limit() -> None:
    """Nothing confirms its zeros."""
    metric = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
    names = replace(TRUSTED, utilization=metric)

    assert NO_DATA == outcomes([Published(metric, 0.0)], instance_type=TYPE, names=names)
