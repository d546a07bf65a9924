"""Judges the health of GPUs: which Xid error, ECC error, temperature or throttling is a fault, and
what limits their speed.

Findings advise and never act. A finding needs readings: a period without one neither makes a
finding nor ends it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from governor.core.units import Percent, UtcDatetime, minutes
from governor.evidence.model import Series, Window
from governor.evidence.rules.series import peak, readings
from governor.health.model import Bottleneck, Finding, FindingKind, GpuFigures, Severity
from governor.policy.model.notices import HEAT_AVERAGE, Health

_SEVERITIES = list(Severity)
"""The highest first."""
_DEFAULTS = Health()
HOT_AVERAGES = 2
"""How many averages in a row must be hot before a GPU counts as hot."""
# The product's figures of the bottleneck hint: memory over 80% and compute under 50% is
# memory-bound, compute over 90% is compute-bound, and everything else waits for data.
MEMORY_BOUND_MEMORY_ABOVE_PERCENT = 80.0
MEMORY_BOUND_COMPUTE_BELOW_PERCENT = 50.0
COMPUTE_BOUND_ABOVE_PERCENT = 90.0
MINIMUM_COVERAGE_PERCENT = 80.0
"""Share of the window that must be measured before a mean is used: the default of
`idle.minimum_coverage_percent`, because less says as little about work as about idleness."""


@dataclass(frozen=True, slots=True)
class _Fault:
    """A fault that the hardware reports by a figure above zero or by an Xid error.

    Both together make one finding.
    """

    kind: FindingKind
    xid: int
    figure: str
    """The series of `GpuFigures` that is above zero while the fault lasts."""
    text: str
    is_counted: bool = False
    """True if the figure counts errors."""


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
        "a memory repair waits for a reset",
    ),
)


KNOWN_XIDS = tuple(sorted(fault.xid for fault in _FAULTS))
"""The Xid errors that make a finding. Source: NVIDIA's list of Xid errors."""


def sent_findings(
    keys: Iterable[str], instance_id: str, launched_at: UtcDatetime
) -> dict[str, list[str]]:
    """Return the GPUs of each kind of fault, as `{"hot": ["0", "3"]}`, that was sent about the run
    of this instance since `launched_at`; empty if none was.

    `keys` are known keys in the form of `InstanceFinding.keys`. Others are left out.
    """
    prefix = f"{instance_id}#{int(launched_at.timestamp())}#"
    keys_of_start = [key for key in keys if key.startswith(prefix)]
    gpus_by_kind: dict[str, list[str]] = defaultdict(list)
    for key in sorted(keys_of_start):
        kind_and_gpu, _, _ = key.removeprefix(prefix).rpartition("#")
        kind, _, gpu = kind_and_gpu.partition("#")
        if gpu not in gpus_by_kind[kind]:
            gpus_by_kind[kind].append(gpu)
    return gpus_by_kind


def health_findings(
    window: Window, gpus: Sequence[GpuFigures], rule: Health = _DEFAULTS
) -> tuple[Finding, ...]:
    """Return all findings about the GPUs of one instance, highest severity first; empty if there
    are none. The speed of a GPU with a critical finding is not judged. `rule` are the policy's
    settings; without it, their defaults."""
    findings: list[Finding] = []
    for gpu in gpus:
        findings.extend(_faults(window, gpu))
    # A GPU that is lost or broken explains its own slowness: speed is judged for the others.
    broken: set[str] = set()
    for finding in findings:
        if finding.severity is Severity.CRITICAL:
            broken.update(finding.gpus)
    for gpu in gpus:
        findings.extend(_heat(window, gpu, rule))
    unbroken = [gpu for gpu in gpus if gpu.gpu not in broken]
    findings.extend(_speed(window, unbroken, rule))
    return tuple(sorted(findings, key=lambda finding: _SEVERITIES.index(finding.severity)))


def _faults(window: Window, gpu: GpuFigures) -> Iterator[Finding]:
    """Yield a finding for each kind of fault that the hardware of one GPU reports, by an Xid error,
    a figure above zero, or both, since the earlier of them; with the number of errors where the
    fault is counted. Yield nothing if it reports none."""
    for fault in _FAULTS:
        figure: Series = getattr(gpu, fault.figure)
        xids = gpu.xids.get(fault.xid, ())
        since: list[UtcDatetime] = []
        texts: list[str] = []
        reported_at = first_above_zero(window, xids)
        if reported_at is not None:
            times = int(sum(readings(xids)))
            how_often = "once" if times == 1 else f"{times} times"
            since.append(reported_at)
            texts.append(f"Xid {fault.xid} {how_often}")
        errors = 0
        text = fault.text
        if fault.is_counted:
            errors = int(peak(figure) or 0)
            text = f"{errors} {fault.text}"
        figure_since = first_above_zero(window, figure)
        if figure_since is not None:
            since.append(figure_since)
            texts.append(text)
        if since:
            yield Finding(fault.kind, (gpu.gpu,), ", ".join(texts), min(since), errors=errors)


def _heat(window: Window, gpu: GpuFigures, rule: Health) -> Iterator[Finding]:
    """Yield up to two findings about one GPU: that it was hot for long enough, and that its clocks
    were lowered, because of heat or by the board, for more of the window than the policy allows."""
    hot_since = _hot_since(window, gpu.temperature_celsius, rule)
    if hot_since is not None:
        seen = (
            f"over {rule.hot_above_celsius:g} °C for {minutes(HOT_AVERAGES * HEAT_AVERAGE)} min "
            f"(highest {peak(gpu.temperature_celsius):.0f} °C)"
        )
        yield Finding(FindingKind.HOT, (gpu.gpu,), seen, hot_since)

    series_by_cause = {"heat": gpu.thermal_throttle, "the board": gpu.hardware_slowdown}
    since: list[UtcDatetime] = []
    causes: list[str] = []
    for cause, share in _means(window, series_by_cause).items():
        if share <= rule.throttled_above_percent:
            continue
        causes.append(f"{cause} {share:.0f}% of the time")
        throttled_since = first_above_zero(window, series_by_cause[cause])
        if throttled_since is not None:
            since.append(throttled_since)
    if since:
        seen = f"clocks lowered by {' and '.join(causes)}"
        yield Finding(FindingKind.THROTTLED, (gpu.gpu,), seen, min(since))


def _hot_since(window: Window, series: Series, rule: Health) -> UtcDatetime | None:
    """Return the beginning of the first `HOT_AVERAGES` hot averages in a row; `None` if there are
    none. A period without a reading ends a row.
    """
    hot_averages = 0
    for index, average in enumerate(series):
        if average is not None and average > rule.hot_above_celsius:
            hot_averages += 1
        else:
            hot_averages = 0
        if hot_averages == HOT_AVERAGES:
            return window.bin_end(index) - hot_averages * window.period
    return None


def _speed(window: Window, gpus: Sequence[GpuFigures], rule: Health) -> Iterator[Finding]:
    """Yield findings about the speed of the GPUs of one instance: stragglers first, then how well
    the other working GPUs are used. GPUs without enough readings are left out."""
    utilization = _means(window, {gpu.gpu: gpu.utilization for gpu in gpus})
    traffic = _means(window, {gpu.gpu: gpu.memory_utilization for gpu in gpus})
    gaps = _straggler_gaps(utilization, rule)
    if gaps:
        seen = _straggler_text(utilization, gaps)
        yield Finding(FindingKind.STRAGGLER, tuple(gaps), seen, window.start)

    peers = {name: mean for name, mean in utilization.items() if name not in gaps}
    working = {name: mean for name, mean in peers.items() if mean >= rule.busy_from_percent}
    if working:
        yield from _usage(window, working, traffic, rule)


def _usage(
    window: Window, utilization: Mapping[str, float], traffic: Mapping[str, float], rule: Health
) -> Iterator[Finding]:
    """Yield that working GPUs are used too little, if they are; and what limits them, if all of
    them have enough readings of memory `traffic`.

    Both mappings hold means in percent by GPU; `utilization` names the working GPUs, at least one.
    """
    working = tuple(utilization)
    compute = fmean(utilization.values())
    least = rule.under_used_below_percent
    if compute < least:
        seen = (
            f"working at {compute:.0f}% on average ({least:g}% is the least that justifies the "
            "price)"
        )
        yield Finding(FindingKind.UNDER_USED, working, seen, window.start)
    if all(name in traffic for name in working):
        bandwidth = fmean(traffic[name] for name in working)
        bottleneck = classify_bottleneck(compute, bandwidth)
        seen = f"{bottleneck.value}: compute {compute:.0f}%, memory traffic {bandwidth:.0f}%"
        yield Finding(FindingKind.BOTTLENECK, working, seen, window.start, bottleneck=bottleneck)


def _straggler_gaps(means: Mapping[str, float], rule: Health) -> dict[str, float]:
    """Return how many percentage points each straggler is under the median of the other GPUs; empty
    if there is none, as for a single GPU.

    A GPU is a straggler if that is more than the policy allows, and the others work. `means` are
    percentages by GPU.
    """
    gaps: dict[str, float] = {}
    for name, mean in means.items():
        peers = [peer_mean for peer, peer_mean in means.items() if peer != name]
        if not peers:
            continue
        peer_median = median(peers)
        gap = peer_median - mean
        if peer_median >= rule.busy_from_percent and gap > rule.straggler_above_points:
            gaps[name] = gap
    return gaps


def _straggler_text(means: Mapping[str, float], gaps: Mapping[str, float]) -> str:
    """Return how stragglers, the keys of `gaps`, compare with the other GPUs of their instance,
    such as `at 40% on average, up to 55 points below the other GPUs (95%)`. There must be at least
    one straggler, and one GPU of `means` that is none."""
    peers = median(mean for name, mean in means.items() if name not in gaps)
    slow_means = [means[name] for name in gaps]
    lowest = f"{min(slow_means):.0f}"
    highest = f"{max(slow_means):.0f}"
    speed = lowest if lowest == highest else f"{lowest} to {highest}"
    return (
        f"at {speed}% on average, up to {max(gaps.values()):.0f} points below the other GPUs "
        f"({peers:.0f}%)"
    )


def classify_bottleneck(compute: Percent, memory: Percent) -> Bottleneck:
    """Return which part limits GPUs with these means in percent: `compute` is utilization, `memory`
    is the share of time with memory traffic. If it is neither memory nor the GPU itself, it is the
    input."""
    is_memory_busy = memory > MEMORY_BOUND_MEMORY_ABOVE_PERCENT
    if is_memory_busy and compute < MEMORY_BOUND_COMPUTE_BELOW_PERCENT:
        return Bottleneck.MEMORY_BOUND
    if compute > COMPUTE_BOUND_ABOVE_PERCENT:
        return Bottleneck.COMPUTE_BOUND
    return Bottleneck.INPUT_BOUND


def _means(window: Window, series: Mapping[str, Series]) -> dict[str, float]:
    """Return the mean of each series by its name. A series with readings for less than 80% of the
    window is left out."""
    least = MINIMUM_COVERAGE_PERCENT * window.bins
    means: dict[str, float] = {}
    for name, values in series.items():
        measured = readings(values)
        if measured and 100 * len(measured) >= least:
            means[name] = sum(measured) / len(measured)
    return means


def first_above_zero(window: Window, series: Series) -> UtcDatetime | None:
    """Return the start of the first period with a value above zero; `None` if there is none."""
    for index, value in enumerate(series):
        if value is not None and value > 0:
            return window.start + window.period * index
    return None
