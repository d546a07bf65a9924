"""Health findings of one instance's GPUs: what was seen, since when, and what to do.

Findings advise and never act. Only readings make a finding: a hole neither proves nor clears anything. Where
readings come from, who is notified and how often is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from statistics import median
from typing import assert_never

from governor.domain.evidence import Series, Window, is_reading, mean, peak
from governor.domain.policy.policy import Health
from governor.domain.units import Percent, UtcDatetime, iso


class FindingKind(StrEnum):
    """What is wrong, or could be better."""

    LOST = "lost"
    """A GPU does not answer, or reported Xid 79."""
    MEMORY_ERROR = "memory-error"
    """Uncorrectable ECC errors: Xid 48, or counted by the driver."""
    MEMORY_REPAIR_FAILED = "memory-repair-failed"
    """Xid 64, or the driver says so."""
    MEMORY_REPAIR_PENDING = "memory-repair-pending"
    """Xid 63, or the driver says so."""
    HOT = "hot"
    THROTTLED = "throttled"
    STRAGGLER = "straggler"
    UNDER_USED = "under-used"
    BOTTLENECK = "bottleneck"


class Severity(StrEnum):
    """How soon somebody should look."""

    CRITICAL = "critical"
    """Work on this GPU is lost or wrong, or soon will be."""
    WARNING = "warning"
    """It works, slower than it could."""
    ADVICE = "advice"


class Bottleneck(StrEnum):
    """What holds back GPUs at work."""

    MEMORY_BOUND = "memory-bound"
    COMPUTE_BOUND = "compute-bound"
    INPUT_BOUND = "input-bound"
    """Neither: they wait for data, for the host or for each other."""


DEFAULT_THRESHOLDS = Health()


@dataclass(frozen=True, slots=True)
class Xid:
    """One kind of Xid error that the driver reported: how often in the window, and when first."""

    number: int
    times: int
    first: UtcDatetime


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """The figures of one GPU over the window; every series has one value a period, `None` where none came.

    Utilizations and the throttle series are means in percent (of time), temperature is a mean in degrees
    Celsius, ECC counts errors since the driver was loaded, the repair and `lost` series are above 0 while
    it is so.
    """

    gpu: str
    """The index, as in the metric's dimension `index`."""
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
    xids: tuple[Xid, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know about some GPUs of an instance.

    `since` is the earliest moment in the window at which it is known to have been so; it may be older.
    """

    kind: FindingKind
    severity: Severity
    gpus: tuple[str, ...]
    seen: str
    since: UtcDatetime
    advice: str
    errors: int = field(default=0, kw_only=True)
    """How many errors were counted, where the driver counts them."""
    bottleneck: Bottleneck | None = field(default=None, kw_only=True)

    @property
    def about(self) -> str:
        """Which GPUs, and what was seen of them."""
        return f"{_gpus(self.gpus)}: {self.seen}"

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        return f"{self.about}; seen since {iso(self.since)}. {self.advice}"


def health_findings(
    window: Window, gpus: Sequence[GpuFigures], thresholds: Health = DEFAULT_THRESHOLDS
) -> tuple[Finding, ...]:
    """All findings about the GPUs of one instance, the highest severity first.

    Raises:
        ValueError: a series is longer than the window, two entries name the same GPU, or
            `hot_average_seconds` is no multiple of the window's period.
    """
    _check(window, gpus, thresholds)
    faults = [finding for gpu in gpus for finding in _faults(window, gpu)]
    # A GPU that is lost or broken explains its own slowness: speed is judged for the others.
    broken = {name for finding in faults if finding.severity is Severity.CRITICAL for name in finding.gpus}
    sound = [gpu for gpu in gpus if gpu.gpu not in broken]
    slow = [finding for gpu in gpus for finding in _heat(window, gpu, thresholds)]
    found = [*faults, *slow, *_speed(window, sound, thresholds)]
    return tuple(sorted(found, key=lambda finding: _RANK[finding.severity]))


_RANK = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.ADVICE: 2}

_MOVE = (
    "a stop and start usually moves the instance to another host; it wipes local disks, and the type may not "
    "be available again at once"
)
_REPLACE = f"Save what can be saved, drain the instance and replace it: {_MOVE}. A reboot keeps the hardware."


@dataclass(frozen=True, slots=True)
class _Fault:
    """What the hardware itself reports: a figure above zero, or an Xid error; one finding for both."""

    kind: FindingKind
    severity: Severity
    xid: int
    figure: str
    """The figure of `GpuFigures` that is above zero while it is so."""
    text: str
    advice: str
    is_counted: bool = False


_FAULTS = (
    _Fault(
        FindingKind.LOST,
        Severity.CRITICAL,
        79,
        "lost",
        "does not answer",
        f"What ran on it has failed. {_REPLACE}",
    ),
    _Fault(
        FindingKind.MEMORY_ERROR,
        Severity.CRITICAL,
        48,
        "ecc_uncorrected",
        "uncorrectable ECC errors since the driver was loaded",
        f"Distrust results since then and resume from a checkpoint before it. Should it come again: {_MOVE}.",
        is_counted=True,
    ),
    _Fault(
        FindingKind.MEMORY_REPAIR_FAILED,
        Severity.CRITICAL,
        64,
        "repair_failed",
        "memory could not be repaired",
        _REPLACE,
    ),
    _Fault(
        FindingKind.MEMORY_REPAIR_PENDING,
        Severity.WARNING,
        63,
        "repair_pending",
        "a repair of memory waits for a reset",
        "Reset the GPU or reboot between jobs, so that the driver repairs the memory.",
    ),
)
KNOWN_XIDS = tuple(sorted(fault.xid for fault in _FAULTS))
"""The Xid errors that make a finding. Source: NVIDIA's list of Xid errors."""


def _faults(window: Window, gpu: GpuFigures) -> Iterable[Finding]:
    for fault in _FAULTS:
        series: Series = getattr(gpu, fault.figure)
        reported = [event for event in gpu.xids if event.number == fault.xid and event.times > 0]
        first, most = first_above_zero(window, series), peak(series) or 0
        if not reported and first is None:
            continue
        seen = [f"Xid {fault.xid} {_times(sum(event.times for event in reported))}"] if reported else []
        if first is not None:
            seen.append(f"{most:.0f} {fault.text}" if fault.is_counted else fault.text)
        since = min([event.first for event in reported] + ([first] if first is not None else []))
        errors = int(most) if fault.is_counted else 0
        seen_text = ", ".join(seen)
        yield Finding(fault.kind, fault.severity, (gpu.gpu,), seen_text, since, fault.advice, errors=errors)


def _heat(window: Window, gpu: GpuFigures, thresholds: Health) -> Iterable[Finding]:
    hot = _hot_since(window, gpu.temperature_celsius, thresholds)
    if hot is not None:
        yield Finding(
            FindingKind.HOT,
            Severity.WARNING,
            (gpu.gpu,),
            f"over {thresholds.hot_above_celsius:g} C for {thresholds.hot_periods} averages of "
            f"{thresholds.hot_average_seconds} s (highest {peak(gpu.temperature_celsius):.0f} C)",
            hot,
            "Lower its power limit or its load; if peers with the same load are cool, the cooling of this "
            f"host may be at fault: {_MOVE}.",
        )
    reasons = [
        (name, share, series)
        for name, series in (("heat", gpu.thermal_throttle), ("the board", gpu.hardware_slowdown))
        if (share := _believed(window, series, thresholds)) is not None
        and share > thresholds.throttled_above_percent
    ]
    if reasons:
        moments = [moment for _, _, s in reasons if (moment := first_above_zero(window, s)) is not None]
        yield Finding(
            FindingKind.THROTTLED,
            Severity.WARNING,
            (gpu.gpu,),
            "clocks lowered by "
            + " and ".join(f"{name} {share:.0f} % of the time" for name, share, _ in reasons),
            min(moments),
            "It computes slower than its peers and holds up collective operations. Check temperature and "
            f"power. Where it lasts: {_MOVE}.",
        )


def _hot_since(window: Window, series: Series, thresholds: Health) -> UtcDatetime | None:
    """The beginning of the first run of averages over the limit that is long enough."""
    bins = timedelta(seconds=thresholds.hot_average_seconds) // window.period
    run = 0
    for start in range(0, len(series), bins):
        average = mean(series[start : start + bins])
        run = run + 1 if average is not None and average > thresholds.hot_above_celsius else 0
        if run == thresholds.hot_periods:
            return _bin_start(window, start - (run - 1) * bins)
    return None


def _speed(window: Window, gpus: Sequence[GpuFigures], thresholds: Health) -> Iterable[Finding]:
    """What GPUs at work could do better. Nothing is said of GPUs that were not measured."""
    means = {
        gpu.gpu: value
        for gpu in gpus
        if (value := _believed(window, gpu.utilization, thresholds)) is not None
    }
    gaps = _straggler_gaps(means, thresholds)
    if gaps:
        peers = median(value for name, value in means.items() if name not in gaps)
        yield Finding(
            FindingKind.STRAGGLER,
            Severity.WARNING,
            tuple(gaps),
            f"at {_range([means[name] for name in gaps])} on average where the peers have {peers:.0f} %, "
            f"up to {max(gaps.values()):.0f} points under them",
            window.start,
            "Where GPUs work together, all go at the pace of the slowest. Check clocks and temperature, how "
            "the data is divided, and whether the job uses every GPU.",
        )
    working = {
        name: value
        for name, value in means.items()
        if value >= thresholds.busy_from_percent and name not in gaps
    }
    if not working:
        return
    memory = [
        value
        for gpu in gpus
        if gpu.gpu in working and (value := _believed(window, gpu.memory_utilization, thresholds)) is not None
    ]
    compute = sum(working.values()) / len(working)
    if compute < thresholds.under_used_below_percent:
        yield Finding(
            FindingKind.UNDER_USED,
            Severity.ADVICE,
            tuple(working),
            f"at work, at {compute:.0f} % on average ({thresholds.under_used_below_percent:g} % is the least "
            "that is worth its price)",
            window.start,
            "Larger batches, more workers that feed data, or a smaller type would do.",
        )
    if len(memory) == len(working):
        bandwidth = sum(memory) / len(memory)
        kind = classify_bottleneck(compute, bandwidth, thresholds)
        yield Finding(
            FindingKind.BOTTLENECK,
            Severity.ADVICE,
            tuple(working),
            f"{kind.value}: compute {compute:.0f} %, memory traffic {bandwidth:.0f} %",
            window.start,
            _bottleneck_advice(kind),
            bottleneck=kind,
        )


def _straggler_gaps(means: dict[str, float], thresholds: Health) -> dict[str, float]:
    """Of each GPU far under the median of the others: by how many points. Only where the others work."""
    gaps: dict[str, float] = {}
    for name, value in means.items():
        peers = [other for peer, other in means.items() if peer != name]
        if not peers or (middle := median(peers)) < thresholds.busy_from_percent:
            continue
        if middle - value > thresholds.straggler_above_points:
            gaps[name] = middle - value
    return gaps


def classify_bottleneck(
    compute: Percent, memory: Percent, thresholds: Health = DEFAULT_THRESHOLDS
) -> Bottleneck:
    """What holds back GPUs at work, from mean utilization and mean memory traffic."""
    if (
        memory > thresholds.memory_bound_memory_above_percent
        and compute < thresholds.memory_bound_compute_below_percent
    ):
        return Bottleneck.MEMORY_BOUND
    if compute > thresholds.compute_bound_above_percent:
        return Bottleneck.COMPUTE_BOUND
    return Bottleneck.INPUT_BOUND


def _bottleneck_advice(kind: Bottleneck) -> str:
    match kind:
        case Bottleneck.MEMORY_BOUND:
            return "Fuse kernels, use lower precision, or a type with more memory bandwidth."
        case Bottleneck.COMPUTE_BOUND:
            return "The GPUs are used well; only more or faster ones would make it faster."
        case Bottleneck.INPUT_BOUND:
            return "Look at data loading, host CPU, storage and network: the GPUs wait for something else."
    assert_never(kind)


def _believed(window: Window, series: Series, thresholds: Health) -> float | None:
    """The mean, where enough of the window was measured."""
    readings = sum(map(is_reading, series))
    if not readings or 100 * readings < thresholds.minimum_coverage_percent * window.bins:
        return None
    return mean(series)


def first_above_zero(window: Window, series: Series) -> UtcDatetime | None:
    """Return the beginning of the first period with a reading above zero."""
    found = (index for index, value in enumerate(series) if value is not None and value > 0)
    return next((_bin_start(window, index) for index in found), None)


def _bin_start(window: Window, index: int) -> UtcDatetime:
    return window.start + window.period * index


def _check(window: Window, gpus: Sequence[GpuFigures], thresholds: Health) -> None:
    average = timedelta(seconds=thresholds.hot_average_seconds)
    if window.period <= timedelta(0) or average % window.period:
        raise ValueError(
            f"the window's period is {window.period}; hot_average_seconds ({thresholds.hot_average_seconds}) "
            "must be a multiple of it"
        )
    names = [gpu.gpu for gpu in gpus]
    if len(set(names)) != len(names):
        raise ValueError(f"GPUs {', '.join(names)}: each may be named once")
    for gpu in gpus:
        for name in GpuFigures.__slots__:
            series = getattr(gpu, name)
            if name not in ("gpu", "xids") and len(series) > window.bins:
                raise ValueError(
                    f"GPU {gpu.gpu}: {name} has {len(series)} values, the window only {window.bins} periods"
                )


def _gpus(names: tuple[str, ...]) -> str:
    return f"GPU{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.0f}", f"{max(values):.0f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
