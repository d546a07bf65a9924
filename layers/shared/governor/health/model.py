"""Records of findings about the health of GPUs: lost, ECC and other memory errors, hot, throttled,
stragglers, bottlenecks.

Records only: `health.rules` makes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from governor.core.instance import Instance
from governor.core.units import UtcDatetime
from governor.evidence.model import Series


class FindingKind(StrEnum):
    """The kinds of findings."""

    LOST = "lost"
    """A GPU does not answer, or reported Xid 79."""
    MEMORY_ERROR = "memory-error"
    """Uncorrectable ECC errors: Xid 48, or counted by the driver."""
    MEMORY_REPAIR_FAILED = "memory-repair-failed"
    """Xid 64, or the driver reports a failed repair."""
    MEMORY_REPAIR_PENDING = "memory-repair-pending"
    """Xid 63, or the driver reports a pending repair."""
    HOT = "hot"
    THROTTLED = "throttled"
    STRAGGLER = "straggler"
    UNDER_USED = "under-used"
    BOTTLENECK = "bottleneck"


class Severity(StrEnum):
    """The severity of a finding, the highest first."""

    CRITICAL = "critical"
    """Work on this GPU is lost or wrong, or soon will be."""
    WARNING = "warning"
    """The GPU works, but slower than it could."""
    ADVICE = "advice"


class Bottleneck(StrEnum):
    """The part that limits GPUs at work."""

    MEMORY_BOUND = "memory-bound"
    COMPUTE_BOUND = "compute-bound"
    INPUT_BOUND = "input-bound"
    """The GPUs wait for data, for the host or for each other."""


_CRITICAL = (FindingKind.LOST, FindingKind.MEMORY_ERROR, FindingKind.MEMORY_REPAIR_FAILED)
_ADVICE = (FindingKind.UNDER_USED, FindingKind.BOTTLENECK)


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """The figures of one GPU over the window: one value a period, `None` without a reading.

    Utilizations and the throttle series are means in percent (of time), temperature is a mean in
    degrees Celsius, and ECC counts errors since the driver was loaded. The repair and `lost` series
    are above 0 while the fault lasts.
    """

    gpu: str
    """The index, as in the metric's dimension `index`; no two of an instance have the same."""
    utilization: Series = ()
    memory_utilization: Series = ()
    """Share of time in which device memory was read or written, not how full it is."""
    temperature_celsius: Series = ()
    thermal_throttle: Series = ()
    hardware_slowdown: Series = ()
    """Clocks lowered by the board itself: heat, or the power brake of the host."""
    ecc_uncorrected: Series = ()
    repair_pending: Series = ()
    repair_failed: Series = ()
    lost: Series = ()
    xids: Mapping[int, Series] = field(default_factory=dict)
    """By the number of an Xid error: how often the driver reported it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact about some GPUs of an instance. `since` is its first reading; the fault itself may
    have begun before."""

    kind: FindingKind
    gpus: tuple[str, ...]
    seen: str
    since: UtcDatetime
    errors: int = field(default=0, kw_only=True)
    bottleneck: Bottleneck | None = field(default=None, kw_only=True)

    @property
    def severity(self) -> Severity:
        """Return how severe the finding is, which its kind alone decides."""
        if self.kind in _CRITICAL:
            return Severity.CRITICAL
        if self.kind in _ADVICE:
            return Severity.ADVICE
        return Severity.WARNING

    @property
    def about(self) -> str:
        """Return the GPUs and what was seen of them, such as `GPUs 3, 5: does not answer`."""
        word = "GPUs" if len(self.gpus) > 1 else "GPU"
        return f"{word} {', '.join(self.gpus)}: {self.seen}"


@dataclass(frozen=True, slots=True)
class InstanceFinding:
    """A finding with the instance that it is about."""

    instance: Instance
    finding: Finding

    @property
    def is_fault(self) -> bool:
        """Return whether the finding is a fault; if not, it is advice."""
        return self.finding.severity is not Severity.ADVICE

    @property
    def is_worth_sending(self) -> bool:
        """Return whether people are notified of the finding. They are of all but a compute-bound
        bottleneck, which means that GPUs are used well: only `governor health` shows that."""
        return self.finding.bottleneck is not Bottleneck.COMPUTE_BOUND

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys under which the finding is stored once it was sent, one for each GPU:
        `<instance>#<start>#<kind>#<GPU>#<level>`, as `i-0abc#1764849600#hot#3#0`.

        The level changes when the number of errors doubles: a finding with a new key has become
        worse.
        """
        finding = self.finding
        instance_id = self.instance.instance_id
        started = int(self.instance.launch_time.timestamp())
        level = finding.errors.bit_length()
        start = f"{instance_id}#{started}#{finding.kind.value}"
        return tuple(f"{start}#{gpu}#{level}" for gpu in finding.gpus)
