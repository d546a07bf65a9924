"""The policy's sections `managed`, `events` and `health`: warnings of AWS, the health of GPUs, and
services that manage instances.

Every setting has its unit in its name and its default here. A figure that nobody would set is a
constant beside its rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from math import ceil

from governor.core.settings import (
    Mistake,
    Section,
    between,
    setting,
)
from governor.core.units import Percent


@dataclass(frozen=True, slots=True)
class Managed(Section):
    """Messages to the owner of an environment that another service runs, about its idle
    instances."""

    idle_for_minutes: int = between(60, 60, 43_200, "none")
    """Idle minutes after which an instance is reported. If `idle.window_minutes` is longer, that
    time applies instead."""
    tell_again_after_hours: int = between(24, 24, 8_760, "none")
    """Hours between two messages about the same environment."""
    tag_keys: tuple[str, ...] = setting((), "removed")
    """Additional tag keys that mark an instance as run by another service, in any letter case. GPU
    Governor notifies the owner and leaves the instance alone."""


@dataclass(frozen=True, slots=True)
class Events(Section):
    """How GPU Governor responds to events of EC2 and AWS Health."""

    checkpoint_on_spot_interruption: bool = True
    """Run the instance's own checkpoint hook when EC2 takes back a Spot instance, or the capacity
    of an interruptible reservation."""
    checkpoint_on_rebalance: bool = False
    """Also run the hook on a rebalance recommendation, although an interruption may never
    follow."""
    checkpoint_on_auto_scaling: bool = True
    """Run the hook when the Auto Scaling group terminates the instance and waits for a lifecycle
    hook."""
    completed_lifecycle_hooks: tuple[str, ...] = ()
    """Lifecycle hooks that wait only for GPU Governor. It completes them if there is nothing to
    save."""
    signal_gpu_processes: bool = False
    """Send SIGTERM to the processes on the GPU if an instance has no hook."""
    snapshot_data_volumes: bool = False
    """Start snapshots of the data volumes before an interruption."""
    mass_interruption_told_singly: int = between(5, 1, 1_000, "none")
    """Number of warnings in one zone, within 10 minutes of the first, that each get their own
    message. Further warnings share one."""
    compare_spot_prices: bool = setting(True, "none")
    """After a Spot warning, show where the same type is cheaper."""
    spot_price_regions: tuple[str, ...] = setting(("us-east-1", "us-west-2", "eu-west-1"), "none")
    """Regions to compare in addition to the instance's own. At most 20."""
    placement_scores: bool = setting(False, "none")
    """Also show how likely EC2 is to have the same GPUs in those Regions. This takes one more call
    for each warning."""
    remind_before_hours: int = between(24, 1, 336, "none")
    """The message about an announced date is repeated this many hours before it."""

    def contradictions(self) -> Iterator[Mistake]:
        """Yield the mistake that too many Regions are named; otherwise nothing."""
        if len(self.spot_price_regions) > 20:
            yield (
                ("spot_price_regions",),
                "names more than 20 Regions; each is a call at every warning",
            )


HEAT_AVERAGE = timedelta(minutes=5)
"""The time over which a check of health averages a reading."""
_CHECKS_OVERLAP = timedelta(minutes=30)
"""The time that two checks of health in a row both read. It is twice the 15 minutes by which a
check may start late, because its schedule asks so often whether one is due."""


@dataclass(frozen=True, slots=True)
class Health(Section):
    """Messages to the owner about the state of GPUs. They never lead to an action."""

    risk = "none"
    # Defaults are the product's figures, but for `throttled_above_percent` and `busy_from_percent`:
    # a tenth of the time is more than a peak, and 10% is where the low-utilization alarm ends.
    hot_above_celsius: float = between(85.0, 30, 120)
    """A GPU is hot if two averages of 5 minutes in a row are above this, in degrees Celsius."""
    throttled_above_percent: Percent = between(10.0, 0, 100)
    """A GPU is throttled if its clocks are lowered for more than this percentage of the time."""
    busy_from_percent: Percent = between(10.0, 0, 100)
    """A GPU is at work if its mean utilization is at least this percentage. The two limits below
    apply only to GPUs at work."""
    under_used_below_percent: Percent = between(70.0, 0, 100)
    """A GPU at work is under-used if its mean utilization is below this percentage."""
    straggler_above_points: float = between(20.0, 0, 100)
    """A GPU is a straggler if it is more than this many percentage points below the median of the
    other GPUs."""
    enabled: bool = True
    """Check the health of GPUs."""
    check_every_minutes: int = between(240, 5, 1_440)
    """Minutes between two checks of an account and Region. Each check reads 30 minutes more than
    that, so that no reading is missed."""
    advice_every_hours: int = between(168, 1, 8_760)
    """Hours between two messages of advice to an owner. Faults are sent at once."""

    @property
    def check_every(self) -> timedelta:
        """Return the time between two checks of health."""
        return timedelta(minutes=self.check_every_minutes)

    @property
    def window(self) -> timedelta:
        """Return the length of time that a check of health reads: the time between two checks and
        30 minutes, rounded up to whole 5 minutes."""
        return HEAT_AVERAGE * ceil((self.check_every + _CHECKS_OVERLAP) / HEAT_AVERAGE)
