"""Defines the readings of a GPU. A figure that was not measured is absent; it is never zero.

This is plain data: the module knows neither NVML nor CloudWatch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Figure(Enum):
    """One figure of one GPU, with its unit."""

    UTILIZATION = "utilization"
    """Percent of time in which any kernel ran."""
    MEMORY_UTILIZATION = "memory-utilization"
    """Percent of time in which device memory was read or written."""
    ENCODER_UTILIZATION = "encoder-utilization"
    """Percent of time in which the video encoder worked."""
    DECODER_UTILIZATION = "decoder-utilization"
    """Percent of time in which the video decoder worked."""
    MEMORY_USED = "memory-used"
    """MiB in use, without what the driver reserves where it tells them apart."""
    MEMORY_FREE = "memory-free"
    """MiB."""
    MEMORY_TOTAL = "memory-total"
    """MiB."""
    TEMPERATURE = "temperature"
    """Degrees Celsius of the GPU die."""
    POWER_DRAW = "power-draw"
    """W."""
    POWER_LIMIT = "power-limit"
    """W, as enforced now."""
    SM_CLOCK = "sm-clock"
    """MHz."""
    MEMORY_CLOCK = "memory-clock"
    """MHz."""
    THERMAL_THROTTLE = "thermal-throttle"
    """100 while clocks are lowered for heat, else 0: its mean is a share of time."""
    POWER_THROTTLE = "power-throttle"
    """100 while clocks are lowered for the power limit, else 0."""
    HARDWARE_SLOWDOWN = "hardware-slowdown"
    """100 while the board lowers clocks (heat, power brake), else 0."""
    ECC_CORRECTED = "ecc-corrected"
    """Errors since the driver was loaded."""
    ECC_UNCORRECTED = "ecc-uncorrected"
    """Errors since the driver was loaded."""
    MEMORY_REPAIR_PENDING = "memory-repair-pending"
    """1 while a row remapping or page retirement waits for a reset, else 0."""
    MEMORY_REPAIR_FAILED = "memory-repair-failed"
    """1 after a row remapping failed, else 0."""
    PROCESSES = "processes"
    """Compute processes that hold the GPU."""
    MIG_ENABLED = "mig-enabled"
    """1 while the GPU is split by MIG; absent otherwise."""
    LOST = "lost"
    """1 while the GPU does not answer (Xid 79 and its like), else 0."""


@dataclass(frozen=True)
class Gpu:
    """One GPU. `index`, `name` and `arch` are as nvidia-smi prints them, and are dimensions of its
    metrics."""

    index: int
    name: str
    arch: str
    uuid: str


@dataclass(frozen=True)
class Sample:
    """The readings of one GPU at one moment.

    `xids` are the Xid numbers reported since the last sample, oldest first. `None` means that the
    driver does not report them, which is not the same as no errors.
    """

    gpu: Gpu
    figures: Mapping[Figure, float] = field(default_factory=dict)
    xids: tuple[int, ...] | None = None
