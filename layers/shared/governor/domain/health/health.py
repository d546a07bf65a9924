"""Health findings of one instance's GPUs: what was seen, since when, and what to do. They advise
and never act. Only readings make a finding: a hole neither proves nor clears anything."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean, median

from governor.domain.alerts.templates import said
from governor.domain.evidence import Series, Window, peak, readings
from governor.domain.instance import Instance
from governor.domain.policy.policy import HEAT_AVERAGE, Health
from governor.domain.units import Percent, UtcDatetime, iso


class FindingKind(StrEnum):
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
    CRITICAL = "critical"
    """Work on this GPU is lost or wrong, or soon will be."""
    WARNING = "warning"
    """It works, slower than it could."""
    ADVICE = "advice"


class Bottleneck(StrEnum):
    MEMORY_BOUND = "memory-bound"
    COMPUTE_BOUND = "compute-bound"
    INPUT_BOUND = "input-bound"
    """Neither: they wait for data, for the host or for each other."""


_DEFAULTS = Health()
HOT_AVERAGES = 2
_CRITICAL = (FindingKind.LOST, FindingKind.MEMORY_ERROR, FindingKind.MEMORY_REPAIR_FAILED)
_ADVICE = (FindingKind.UNDER_USED, FindingKind.BOTTLENECK)


@dataclass(frozen=True, slots=True)
class _Fault:
    """Reports of the hardware itself: a figure above zero, or an Xid error; one finding for
    both."""

    kind: FindingKind
    xid: int
    figure: str
    """The figure of `GpuFigures` that is above zero while it is so."""
    text: str
    is_counted: bool = False


_FAULTS = (
    _Fault(FindingKind.LOST, 79, "lost", "does not answer"),
    _Fault(
        FindingKind.MEMORY_ERROR,
        48,
        "ecc_uncorrected",
        "uncorrectable ECC errors since the driver was loaded",
        is_counted=True,
    ),
    _Fault(FindingKind.MEMORY_REPAIR_FAILED, 64, "repair_failed", "memory could not be repaired"),
    _Fault(
        FindingKind.MEMORY_REPAIR_PENDING,
        63,
        "repair_pending",
        "a repair of memory waits for a reset",
    ),
)
KNOWN_XIDS = tuple(sorted(fault.xid for fault in _FAULTS))
"""The Xid errors that make a finding. Source: NVIDIA's list of Xid errors."""


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """The figures of one GPU over the window: one value a period, `None` where none came.
    Utilizations and the throttle series are means in percent (of time), temperature is a mean in
    degrees Celsius, ECC counts errors since the driver was loaded; the repair and `lost` series are
    above 0 while it is so."""

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
    """One thing to know about some GPUs of an instance. It may have been so for longer than
    `since`."""

    kind: FindingKind
    gpus: tuple[str, ...]
    seen: str
    since: UtcDatetime
    errors: int = field(default=0, kw_only=True)
    bottleneck: Bottleneck | None = field(default=None, kw_only=True)

    @property
    def severity(self) -> Severity:
        if self.kind in _CRITICAL:
            return Severity.CRITICAL
        return Severity.ADVICE if self.kind in _ADVICE else Severity.WARNING

    @property
    def advice(self) -> str:
        return "".join(said("health advice", {"kind": self.bottleneck or self.kind}))

    @property
    def about(self) -> str:
        return f"GPU{'s' if len(self.gpus) > 1 else ''} {', '.join(self.gpus)}: {self.seen}"


@dataclass(frozen=True, slots=True)
class InstanceFinding:
    instance: Instance
    finding: Finding

    @property
    def is_fault(self) -> bool:
        return self.finding.severity is not Severity.ADVICE

    @property
    def is_worth_sending(self) -> bool:
        """Leave out that GPUs are used well: `governor health` shows it."""
        return self.finding.bottleneck is not Bottleneck.COMPUTE_BOUND

    @property
    def keys(self) -> tuple[str, ...]:
        """Return what identifies the finding once it was sent: each GPU, counted errors by their
        doublings, and the start of the instance. One with a new key has got worse."""
        instance, finding = self.instance, self.finding
        started = int(instance.launch_time.timestamp())
        level = finding.errors.bit_length()
        return tuple(
            f"{instance.instance_id}#{started}#{finding.kind.value}#{gpu}#{level}"
            for gpu in finding.gpus
        )

    @property
    def document(self) -> dict[str, object]:
        finding = self.finding
        return {
            "instance_id": self.instance.instance_id,
            "kind": finding.kind.value,
            "severity": finding.severity.value,
            "gpus": list(finding.gpus),
            "seen": finding.seen,
            "since": iso(finding.since),
            "advice": finding.advice,
            "bottleneck": finding.bottleneck.value if finding.bottleneck else None,
        }


def sent_findings(
    keys: Iterable[str], instance_id: str, launched_at: UtcDatetime
) -> dict[str, list[str]]:
    """Return the GPUs by the kind of each fault that was sent about this start of an instance, and
    lasts."""
    start, found = (
        f"{instance_id}#{int(launched_at.timestamp())}#",
        defaultdict[str, list[str]](list),
    )
    for key in sorted(one.removeprefix(start) for one in keys if one.startswith(start)):
        kind, _, gpu = key.rpartition("#")[0].partition("#")
        if gpu not in found[kind]:
            found[kind].append(gpu)
    return found


def health_findings(
    window: Window, gpus: Sequence[GpuFigures], rule: Health = _DEFAULTS
) -> tuple[Finding, ...]:
    """All findings about one instance, highest severity first. Heat is judged period by period."""
    faults = [finding for gpu in gpus for finding in _faults(window, gpu)]
    # A GPU that is lost or broken explains its own slowness: speed is judged for the others.
    broken = {
        name for finding in faults if finding.severity is Severity.CRITICAL for name in finding.gpus
    }
    sound = [gpu for gpu in gpus if gpu.gpu not in broken]
    slow = [finding for gpu in gpus for finding in _heat(window, gpu, rule)]
    found = [*faults, *slow, *_speed(window, sound, rule)]
    return tuple(sorted(found, key=lambda finding: list(Severity).index(finding.severity)))


def _faults(window: Window, gpu: GpuFigures) -> Iterator[Finding]:
    for fault in _FAULTS:
        figure: Series = getattr(gpu, fault.figure)
        xids = gpu.xids.get(fault.xid, ())
        reported, began = first_above_zero(window, xids), first_above_zero(window, figure)
        times, most = int(sum(readings(xids))), int(peak(figure) or 0)
        seen = []
        if reported is not None:
            seen.append(f"Xid {fault.xid} {'once' if times == 1 else f'{times} times'}")
        if began is not None:
            seen.append(f"{most} {fault.text}" if fault.is_counted else fault.text)
        since = [moment for moment in (reported, began) if moment is not None]
        if since:
            errors = most if fault.is_counted else 0
            yield Finding(fault.kind, (gpu.gpu,), ", ".join(seen), min(since), errors=errors)


def _heat(window: Window, gpu: GpuFigures, rule: Health) -> Iterator[Finding]:
    if (hot := _hot_since(window, gpu.temperature_celsius, rule)) is not None:
        seen = (
            f"over {rule.hot_above_celsius:g} C for {HOT_AVERAGES} averages of "
            f"{HEAT_AVERAGE.seconds} s (highest {peak(gpu.temperature_celsius):.0f} C)"
        )
        yield Finding(FindingKind.HOT, (gpu.gpu,), seen, hot)
    series = {"heat": gpu.thermal_throttle, "the board": gpu.hardware_slowdown}
    means = _means(window, series, rule)
    shares = {by: share for by, share in means.items() if share > rule.throttled_above_percent}
    moments = [
        moment for by in shares if (moment := first_above_zero(window, series[by])) is not None
    ]
    if moments:
        by_whom = " and ".join(f"{by} {share:.0f}% of the time" for by, share in shares.items())
        yield Finding(
            FindingKind.THROTTLED, (gpu.gpu,), f"clocks lowered by {by_whom}", min(moments)
        )


def _hot_since(window: Window, series: Series, rule: Health) -> UtcDatetime | None:
    """The beginning of the first run of averages over the limit that is long enough."""
    run = 0
    for index, average in enumerate(series):
        run = run + 1 if average is not None and average > rule.hot_above_celsius else 0
        if run == HOT_AVERAGES:
            return window.bin_end(index) - run * window.period
    return None


def _speed(window: Window, gpus: Sequence[GpuFigures], rule: Health) -> Iterator[Finding]:
    """Yield what GPUs at work could do better. Nothing is said of GPUs that were not measured."""
    means = _means(window, {gpu.gpu: gpu.utilization for gpu in gpus}, rule)
    traffic = _means(window, {gpu.gpu: gpu.memory_utilization for gpu in gpus}, rule)
    gaps = _straggler_gaps(means, rule)
    if gaps:
        peers = median(value for name, value in means.items() if name not in gaps)
        slow = [means[name] for name in gaps]
        low, high = f"{min(slow):.0f}", f"{max(slow):.0f}"
        seen = (
            f"at {low if low == high else f'{low} to {high}'}% on average where the peers have "
            f"{peers:.0f}%, up to {max(gaps.values()):.0f} points under them"
        )
        yield Finding(FindingKind.STRAGGLER, tuple(gaps), seen, window.start)
    working = tuple(
        name
        for name, value in means.items()
        if value >= rule.busy_from_percent and name not in gaps
    )
    if not working:
        return
    compute, least = fmean(means[name] for name in working), rule.under_used_below_percent
    if compute < least:
        seen = (
            f"at work, at {compute:.0f}% on average ({least:g}% is the least that is "
            "worth its price)"
        )
        yield Finding(FindingKind.UNDER_USED, working, seen, window.start)
    if all(name in traffic for name in working):
        bandwidth = fmean(traffic[name] for name in working)
        bound = classify_bottleneck(compute, bandwidth, rule)
        seen = f"{bound.value}: compute {compute:.0f}%, memory traffic {bandwidth:.0f}%"
        yield Finding(FindingKind.BOTTLENECK, working, seen, window.start, bottleneck=bound)


def _straggler_gaps(means: Mapping[str, float], rule: Health) -> dict[str, float]:
    """Points of each GPU under the median of the others, where that is far. Only where the others
    work."""
    gaps: dict[str, float] = {}
    for name, value in means.items():
        peers = [other for peer, other in means.items() if peer != name]
        middle = median(peers) if peers else 0.0
        if middle >= rule.busy_from_percent and middle - value > rule.straggler_above_points:
            gaps[name] = middle - value
    return gaps


def classify_bottleneck(compute: Percent, memory: Percent, rule: Health = _DEFAULTS) -> Bottleneck:
    if (
        memory > rule.memory_bound_memory_above_percent
        and compute < rule.memory_bound_compute_below_percent
    ):
        return Bottleneck.MEMORY_BOUND
    if compute > rule.compute_bound_above_percent:
        return Bottleneck.COMPUTE_BOUND
    return Bottleneck.INPUT_BOUND


def _means(window: Window, series: Mapping[str, Series], rule: Health) -> dict[str, float]:
    """The means to believe: those of series that were measured for enough of the window."""
    least = rule.minimum_coverage_percent * window.bins
    measured = {name: readings(one) for name, one in series.items()}
    return {
        name: sum(values) / len(values)
        for name, values in measured.items()
        if values and 100 * len(values) >= least
    }


def first_above_zero(window: Window, series: Series) -> UtcDatetime | None:
    found = (index for index, value in enumerate(series) if value is not None and value > 0)
    return next((window.start + window.period * index for index in found), None)
