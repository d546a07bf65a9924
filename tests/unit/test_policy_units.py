"""`policy check` warns of a metric whose name says another unit than the one it is read in."""

from __future__ import annotations

import pytest

from cli.policy_advice import warnings
from governor.policy.document import parse_policy

_OTHER_UNITS = "is read as"


def unit_warnings_of(setting: str, name: str) -> list[str]:
    """Return the warnings about units of a policy with this metric."""
    text = f"metrics: {{profile: custom, namespace: Ours, utilization: ours, {setting}: {name}}}"
    return [one for one in warnings(parse_policy(text).base().policy) if _OTHER_UNITS in one]


@pytest.mark.parametrize(
    "name",
    [
        "gpu_power_percent",
        "gpu_power_pct",
        "gpu_power_ratio",
        "power_share",
        "gpu_power_kW",
        "power_draw_kw",
        "power_kilowatts",
        "power_mW",
        "GPUPowerUtilization",
        "GPUPowerPercent",
        "gpu_energy_joules",
    ],
)
def test_power_in_another_unit_than_watts_warns(name: str) -> None:
    """95% is read as 95 W, which a GPU with a limit of 300 W draws at rest."""
    (warning,) = unit_warnings_of("power_draw", name)

    assert warning.startswith(f"metrics.power_draw: {name} is read as watts, and its name says")


@pytest.mark.parametrize(
    ("setting", "name", "unit"),
    [
        ("memory_used", "gpu_memory_percent", "MiB"),
        ("memory_used", "gpu_memory_bytes", "MiB"),
        ("memory_used", "nvidia_smi_utilization_memory", "MiB"),
        ("encoder_utilization", "encoder_ratio", "percent"),
        ("decoder_utilization", "decoder_share", "percent"),
    ],
)
def test_other_figures_in_another_unit_warn(setting: str, name: str, unit: str) -> None:
    """A share of an encoder stays under the limit of 1%."""
    (warning,) = unit_warnings_of(setting, name)

    assert warning.startswith(f"metrics.{setting}: {name} is read as {unit}, and its name says")


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("power_draw", "gpu_power"),
        ("power_draw", "power_watts"),
        ("power_draw", "DCGM_FI_DEV_POWER_USAGE"),
        ("power_draw", "node_gpu_power_draw"),
        ("power_draw", "GPUPowerDraw"),
        ("power_draw", "nvidia_smi_power_draw"),
        ("memory_used", "gpu_memory_used"),
        ("memory_used", "DCGM_FI_DEV_FB_USED"),
        ("encoder_utilization", "encoder_utilization"),
    ],
)
def test_names_in_the_right_unit_do_not_warn(setting: str, name: str) -> None:
    """Publishers' own names are known."""
    assert [] == unit_warnings_of(setting, name)


@pytest.mark.parametrize("profile", ["agent", "container-insights", "dcgm", "neuron"])
def test_no_profile_warns_of_its_own_names(profile: str) -> None:
    """A profile knows its units."""
    policy = parse_policy(f"metrics: {{profile: {profile}}}").base().policy
    assert [] == [one for one in warnings(policy) if _OTHER_UNITS in one]
