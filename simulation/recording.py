"""A recording of one instance's metrics in bins of 5 minutes, and a metric reader that answers from
it.

The reader speaks the product's own port, so that a replay gathers evidence by the product's own
code. Holes are NaN in here and `None` outside. This module does not know verdicts, or where
readings come from.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import reduce
from math import inf, isnan, nan

from evaluation.bins import (
    BIN_SECONDS,
    CARRIED_HOLE_BINS,
    above,
    all_of,
    any_of,
    holes,
    lasting,
    measured,
    reaching,
    without,
)
from governor.core.instance import Instance, Protection, Shape, SpotRequestType, Target
from governor.core.units import UtcDatetime
from governor.episode.model.plan import Price
from governor.evidence.model import MetricSource, Series, Window
from governor.evidence.ports import Listed, MetricAnswer, MetricQuery, SeriesFilter
from governor.evidence.rules.figures import (
    FIGURES,
    can_be_replayed,
    implausible_power_watts,
    limit_of,
    metrics_of,
)
from governor.evidence.rules.profiles import expected_count, is_in_a_known_unit, memory_factor
from governor.evidence.rules.series import Dimensions, gpu_label, merged
from governor.policy.model.acting import RELEASED_FOR
from governor.policy.model.judging import Metrics, SecondFigure
from governor.policy.model.policy import Policy
from governor.policy.model.profiles import profile_of_names
from governor.verdict.rules.second_figure import (
    are_people_asked,
    busy_share_of,
    confirms_below,
    has_power_limit,
    needs_power_for_scale,
    shares_end_at,
)

PERIOD = timedelta(seconds=BIN_SECONDS)
"""CloudWatch keeps readings of this period for 63 days; the sweep runs as often."""

SeriesKey = tuple[str, Dimensions, str]
"""Metric, dimensions, statistic."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Signs of work, a value a bin; NaN where nothing was published. The utilization is that of the
    busiest GPU, in percent."""

    utilization: array[float]
    by_name: Mapping[str, array[float]]
    """The figures of `FIGURES` that can be replayed, in the units of their limits."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Readings of one instance over `span`, and EC2's present facts about it.

    `series` holds what the product would read; `figures` sums it up, to look ahead.
    """

    instance: Instance
    shape: Shape | None
    span: Window
    source: MetricSource
    sets: tuple[Dimensions, ...]
    series: Mapping[SeriesKey, array[float]]
    figures: Figures
    price: Price
    protection: Protection = Protection()
    spot_request: SpotRequestType | None = None
    names: Metrics | None = None
    """The metrics that were read; `None` takes one series for each GPU."""
    runs: tuple[tuple[int, int], ...] = field(init=False)
    """Stretches of bins `[start, end)` in which the instance ran."""
    _measured: dict[str, bytes] = field(init=False, compare=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        stretches = _stretches(self.series.values(), self.span.bins)
        launched = self._index(self.instance.launch_time)
        object.__setattr__(self, "runs", tuple(_split(stretches, launched)))

    def time(self, index: int) -> UtcDatetime:
        """Return when the bin with that index begins."""
        return self.span.start + index * PERIOD

    @property
    def is_silent(self) -> bool:
        """Return whether no GPU has a reading in all of it."""
        return not any(value >= 0 for value in self.figures.utilization)

    @property
    def unheard_bins(self) -> int:
        """How many bins it ran, by what EC2 knows, while it published nothing at all."""
        launched = min(max(0, self._index(self.instance.launch_time)), self.span.bins)
        published = sum(max(0, end - max(start, launched)) for start, end in self.runs)
        return self.span.bins - launched - published

    def measured(self, metric: str) -> bytes:
        """Return 1 for every bin in which every GPU was measured: a GPU that is never measured may
        work all the time.

        The aggregate of several GPUs counts as all of them.
        """
        if metric not in self._measured:
            gpus = self._by_gpu(metric)
            has_hidden_gpu = self._has_hidden_gpu(len(gpus))
            parts = [] if has_hidden_gpu else list(map(measured, gpus.values()))
            self._measured[metric] = all_of(parts, self.span.bins)
        return self._measured[metric]

    def _has_hidden_gpu(self, published: int) -> bool:
        """Return whether fewer GPUs publish than the type has, where they publish one by one."""
        is_by_gpu = self.source is MetricSource.PER_GPU
        return is_by_gpu and published < (self._part_count or 0)

    @property
    def _part_count(self) -> int | None:
        """Return how many GPUs, or cores, of the type publish; `None` if that is not known."""
        if self.names is None:
            return self.shape.accelerator_count if self.shape else None
        return expected_count(self.shape, profile_of_names(self.names))

    def steady(self, policy: Policy) -> bytes:
        """Return 1 for every bin that leaves a proof of idleness as it is: everything that it needs
        was measured, and nothing works."""
        names = policy.metrics
        parts = [self.measured(names.utilization)]
        required: set[str] = set()
        for figure in policy.vetoes.required:
            required.update(metrics_of(figure, names))
        for (metric, _, _), values in self.series.items():
            if metric in required:
                parts.append(measured(values))
        if self.source is MetricSource.AGGREGATE and self._part_count != 1:
            parts += self._bins_with_all_samples(names)
        if self._needs_power(policy):
            parts.append(self._power_confirms(policy))
        steady = without(all_of(parts, self.span.bins), self.activity(policy))
        return without(steady, self._bins_in_doubt(policy))

    def _power_confirms(self, policy: Policy) -> bytes:
        """Return 1 for every bin in which the power of every GPU was measured, and is neither too
        low nor too high to confirm idleness."""
        power_by_gpu = self._by_gpu(*metrics_of("power", policy.metrics))
        gpus = self._by_gpu(policy.metrics.utilization)
        if not power_by_gpu.keys() >= gpus.keys() or self._has_hidden_gpu(len(gpus)):
            return bytes(self.span.bins)
        implausible_watts = implausible_power_watts(self.shape)
        is_plausible = [above(power_by_gpu[gpu], implausible_watts) for gpu in gpus]
        too_high = reaching(self.figures.by_name["power"], confirms_below(policy))
        return without(all_of(is_plausible, self.span.bins), too_high)

    def _needs_power(self, policy: Policy) -> bool:
        """Return whether power must be measured for a question, or for mode auto to act."""
        is_required = policy.idle.second_figure is SecondFigure.REQUIRED
        is_needed = is_required or not are_people_asked(self.instance, policy)
        return is_needed and has_power_limit(self.instance.instance_type)

    def _bins_in_doubt(self, policy: Policy) -> bytes:
        """Return 1 for every bin that ends a window in which utilization may be a share from 0 to 1
        or frozen.

        The other readings of such a window may settle that, and leave it before the reading in
        doubt does. So all bins count until the window has passed.
        """
        names = policy.metrics
        in_doubt = []
        if needs_power_for_scale(names):
            in_doubt.append(without(bytes([1]) * self.span.bins, self._power_confirms(policy)))
        if not is_in_a_known_unit(names):
            for values in self._maxima(names.utilization).values():
                no_shares = reaching(values, shares_end_at(names))
                in_doubt.append(without(reaching(values, busy_share_of(policy)), no_shares))
        return lasting(any_of(in_doubt, self.span.bins), policy.window // PERIOD + 1)

    def _bins_with_all_samples(self, names: Metrics) -> list[bytes]:
        """Return 1 for every bin in which all GPUs of an aggregate published; 0 for all bins if
        nothing says so."""
        samples = (self._part_count or inf) * PERIOD.total_seconds()
        samples /= names.collection_interval_seconds
        parts = []
        for (_, _, statistic), values in self.series.items():
            if statistic == "SampleCount":
                parts.append(reaching(values, samples))
        return parts or [bytes(self.span.bins)]

    def released(self, policy: Policy) -> bytes:
        """Return 1 for every bin by whose end every GPU's memory has been released for long
        enough."""
        rule = policy.approval
        memory_mib = self.shape.memory_mib_each if self.shape else None
        names = policy.metrics
        limit = rule.released_memory_below_percent / 100 * (memory_mib or 0)
        limit /= memory_factor(self.shape, names, profile_of_names(names))
        gpus = self._by_gpu(policy.metrics.memory_used)
        is_low = [without(measured(values), reaching(values, limit)) for values in gpus.values()]
        bins = -(-RELEASED_FOR // PERIOD)
        # As one large number: each shift moves all flags a bin later.
        shifted = int.from_bytes(all_of(is_low, self.span.bins))
        in_every_bin = shifted
        for _ in range(bins - 1):
            shifted >>= 8
            in_every_bin &= shifted
        return in_every_bin.to_bytes(self.span.bins)

    def _by_gpu(self, *metrics: str) -> dict[str, array[float]]:
        """Return the maxima of each GPU by its label, or of the aggregate by `all`; the highest of
        several metrics, and under all dimensions. A series of no GPU beside GPUs is left out."""
        series_by_gpu: dict[str, list[array[float]]] = {}
        for metric in metrics:
            for dimensions, values in self._maxima(metric).items():
                series_by_gpu.setdefault(self._label(dimensions), []).append(values)
        if self.source is MetricSource.PER_GPU and self._part_count != 1:
            series_by_gpu.pop("all", None)
        return {label: highest(series, self.span.bins) for label, series in series_by_gpu.items()}

    def _label(self, dimensions: Dimensions) -> str:
        """Return the index of the GPU that these dimensions are about; `all` for an aggregate, and
        on an instance with one GPU."""
        if self._part_count == 1:
            return "all"
        return gpu_label(dimensions, self.names.device_dimension if self.names else "")

    def _maxima(self, metric: str) -> dict[Dimensions, array[float]]:
        """Return the series of a metric's maxima by their dimensions."""
        maxima = {}
        for (name, dimensions, statistic), values in self.series.items():
            if name == metric and statistic == "Maximum":
                maxima[dimensions] = values
        return maxima

    def activity(self, policy: Policy) -> bytes:
        """Return 1 for every bin in which something reaches a limit of the policy
        (`verdict.rules.vetoes.activity`)."""
        busy = policy.idle.utilization_below_percent
        active_bins = [reaching(self.figures.utilization, busy)]
        for figure in replayed_figures():
            limit = limit_of(policy, figure)
            if limit is not None:
                active_bins.append(reaching(self.figures.by_name[figure], limit))
        return any_of(active_bins, self.span.bins)

    def _index(self, moment: UtcDatetime) -> int:
        return (moment - self.span.start) // PERIOD


class RecordedMetrics:
    """The port `MetricReader` over recordings."""

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self._series: dict[SeriesKey, tuple[array[float], Window]] = {}
        self._by_instance: dict[str, list[tuple[str, Dimensions]]] = {}
        self._namespaces: set[str] = set()
        for recording in recordings:
            names = recording.names or Metrics()
            self._namespaces.add(names.namespace)
            for key, values in recording.series.items():
                self._series[key] = (values, recording.span)
                self._index(key)

    def _index(self, key: SeriesKey) -> None:
        """Note a series by its instance, for listings."""
        metric, dimensions, _ = key
        owner = dict(dimensions).get("InstanceId")
        if owner is None:
            return
        series_of_owner = self._by_instance.setdefault(owner, [])
        if (metric, dimensions) not in series_of_owner:
            series_of_owner.append((metric, dimensions))

    def read(
        self,
        target: Target,  # noqa: ARG002
        queries: Sequence[MetricQuery],
        window: Window,
    ) -> MetricAnswer:
        """Return the recorded readings of these queries in a window.

        Raises:
            ValueError: the window's period is not that of the recording.
        """
        if window.period != PERIOD:
            raise ValueError(f"recordings hold readings of {PERIOD}, not of {window.period}")
        answers: dict[str, Series] = {}
        bins = window.bins
        starts: dict[UtcDatetime, int] = {}
        for query in queries:
            recorded = self._series.get((query.metric, query.dimensions, query.statistic))
            if recorded is None:
                continue
            values, span = recorded
            start = starts.get(span.start)
            if start is None:
                start = (window.start - span.start) // PERIOD
                starts[span.start] = start
            readings = _readings(values, start, bins)
            if readings is not None:
                answers[query.key] = readings
        return MetricAnswer(answers, {})

    def list_series(
        self,
        target: Target,  # noqa: ARG002
        wanted: SeriesFilter,
        instance_id: str | None = None,
    ) -> dict[str, list[Listed]]:
        """Return the recorded series by instance, of one metric or of all. Metrics that jobs and
        instances publish of themselves were not recorded: other namespaces hold nothing."""
        namespace, metric, _ = wanted
        if namespace is None or namespace not in self._namespaces:
            return {}
        listed: dict[str, list[Listed]] = {}
        owners = self._by_instance.keys() if instance_id is None else {instance_id}
        for owner in owners & self._by_instance.keys():
            for name, dimensions in self._by_instance[owner]:
                if metric in (None, name):
                    listed.setdefault(owner, []).append(Listed(namespace, name, dimensions))
        return listed


def _readings(values: array[float], start: int, bins: int) -> Series | None:
    """Return so many bins from an index on, which may lie outside of the record; `None` if nothing
    was published in them."""
    first = max(start, 0)
    recorded = values[first : max(first, start + bins)]
    if not recorded:
        return None if bins else ()
    readings: Series = tuple(recorded)
    if has_holes(recorded):
        # Only NaN differs from itself; a call for each value would be slower.
        readings = tuple([None if value != value else value for value in recorded])
        if readings.count(None) == len(readings):
            return None
    if len(readings) < bins:
        early = first - start
        late = bins - early - len(readings)
        readings = (None,) * early + readings + (None,) * late
    return readings


def has_holes(values: array[float]) -> bool:
    """Return whether any of them is NaN: then their sum is NaN, which is much faster to find."""
    return isnan(sum(values))


def highest(series: Sequence[array[float]], bins: int, factor: float = 1.0) -> array[float]:
    """Return the largest of all series in each bin, times the factor; NaN where none has a
    reading."""
    if not series:
        return holes(bins)
    first: Sequence[float | None] = series[0]
    peaks = reduce(merged, series[1:], first)
    return array("d", [nan if value is None else value * factor for value in peaks])


def replayed_figures() -> tuple[str, ...]:
    """Return the figures whose past can be read, in the order of the table."""
    return tuple(figure for figure in FIGURES if can_be_replayed(figure))


def _stretches(series: Iterable[array[float]], bins: int) -> list[tuple[int, int]]:
    """Return the stretches in which anything was published. Holes of 10 minutes or less are
    bridged: no stop is so short."""
    dead: Sequence[int] = range(bins)
    for values in series:
        if not has_holes(values):
            # It ran all the time.
            dead = ()
            break
        dead = [index for index in dead if isnan(values[index])]
    alive = bytearray(b"\x01") * bins
    for index in dead:
        alive[index] = 0
    stretches: list[tuple[int, int]] = []
    start = alive.find(1)
    while start >= 0:
        end = alive.find(0, start)
        if end < 0:
            end = bins
        if stretches and start - stretches[-1][1] <= CARRIED_HOLE_BINS:
            first, _ = stretches.pop()
            stretches.append((first, end))
        else:
            stretches.append((start, end))
        start = alive.find(1, end)
    return stretches


def _split(stretches: Sequence[tuple[int, int]], launched: int) -> Iterable[tuple[int, int]]:
    """Split the run that holds a launch that EC2 knows of, however short the stop was."""
    for start, end in stretches:
        if start < launched < end:
            yield start, launched
            yield launched, end
        else:
            yield start, end
