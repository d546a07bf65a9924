"""The number of series that a metric profile expects of an instance, and the units of its readings:
percent or a share, MiB or bytes.

The profiles themselves are in `policy.model.profiles`. This module reads and judges nothing. Cores
of a Neuron device: the pages on Inferentia, Inferentia2, Trainium, Trainium2 and Trainium3 of the
Neuron documentation, as of 2026-11.
"""

from __future__ import annotations

from collections.abc import Mapping

from governor.core.catalog import shape_of
from governor.core.instance import Shape
from governor.evidence.model import Series
from governor.policy.model.judging import Metrics
from governor.policy.model.profiles import (
    GPU,
    NEURON_CORE,
    MetricProfile,
    Part,
    ProfileName,
    UtilizationScale,
    profile_of_names,
)

CORES_OF_A_DEVICE: Mapping[str, int] = {
    "AWS Inferentia": 4,
    "AWS Inferentia2": 2,
    "AWS Trainium": 2,
    "AWS Trainium2": 8,
    "AWS Trainium3": 8,
}
"""NeuronCores of one device, by the name of the accelerator in the catalog. From Trainium2 on,
software may join two of them to one logical core. The physical number stays right for a proof: if
fewer publish, some may work unseen."""


def expected_count(shape: Shape | None, profile: MetricProfile | None) -> int | None:
    """Return how many series of utilization an instance of this type publishes: one for each of its
    devices, for each core of them if the profile says so, or as many for each as it says. Return
    `None` if that is not known."""
    if shape is None or shape.accelerator_count is None:
        return None
    if profile is None:
        return shape.accelerator_count
    if profile.part is Part.DEVICE:
        return shape.accelerator_count * profile.series_per_device
    cores = CORES_OF_A_DEVICE.get(shape.accelerator)
    return None if cores is None else shape.accelerator_count * cores


def part_word_of_type(instance_type: str) -> str:
    """Return the word for one part that an instance of this type publishes: `NeuronCore` for types
    with Neuron devices, whose publishers all send figures of cores; else `GPU`."""
    shape = shape_of(instance_type)
    has_cores = shape is not None and shape.accelerator in CORES_OF_A_DEVICE
    return NEURON_CORE if has_cores else GPU


def percent_factor(names: Metrics, profile: MetricProfile | None) -> float:
    """Return the factor that turns a reading of utilization into percent. It is 1 for a metric that
    is not the profile's own: the policy says that such a metric is in percent."""
    if profile is None or names.utilization != profile.utilization:
        return 1.0
    return profile.percent_per_unit


def in_percent(series: Series, names: Metrics) -> Series:
    """Return the readings of utilization in percent, by the profile of the policy."""
    factor = percent_factor(names, profile_of_names(names))
    if factor == 1.0:
        return series
    percent: list[float | None] = []
    for value in series:
        percent.append(None if value is None else value * factor)
    return tuple(percent)


def memory_factor(shape: Shape | None, names: Metrics, profile: MetricProfile | None) -> float:
    """Return the factor that turns a reading of memory into MiB of a whole device: a core, or one
    of several series, has only its part of the memory of its device. Without a profile, it is 1. A
    metric that is not the profile's own is in MiB."""
    if profile is None:
        return 1.0
    mib_per_unit = 1.0
    if names.memory_used == profile.memory:
        mib_per_unit = profile.mib_per_unit
    parts = profile.series_per_device
    if shape is not None and profile.part is Part.CORE:
        parts = CORES_OF_A_DEVICE.get(shape.accelerator, 1)
    return mib_per_unit * parts


def is_in_a_known_unit(names: Metrics) -> bool:
    """Return whether the policy names a profile other than the default, and its own metric of
    utilization, or says that a metric of a team's own is a share: its unit is known then, and need
    not be guessed from the readings."""
    if names.profile is ProfileName.CUSTOM:
        # A wrong `percent` would make a busy GPU look idle, so the readings must prove it.
        return names.utilization_scale is UtilizationScale.SHARE
    profile = profile_of_names(names)
    if profile is None or profile.name is ProfileName.AGENT:
        return False
    return names.utilization == profile.utilization
