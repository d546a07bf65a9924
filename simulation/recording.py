"""One instance's past in bins of 5 minutes, and a metric reader that answers from it.

The reader speaks the product's own port, so that a replay gathers evidence by the product's own
code. Holes are NaN in here and `None` outside. This module must not know verdicts or where readings
came from.
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
    all_of,
    holes,
    measured,
    reaching,
    without,
)
from governor.domain.episode.plan import Price
from governor.domain.evidence import Dimensions, MetricSource, Series, Window, merged
from governor.domain.instance import Instance, Protection, Shape, SpotRequestType, Target
from governor.domain.policy.policy import Metrics, Policy
from governor.domain.sweep.verdict import limit_of
from governor.domain.units import UtcDatetime
from governor.ports import Listed, MetricAnswer, MetricQuery, SeriesFilter

PERIOD = timedelta(seconds=BIN_SECONDS)
"""CloudWatch keeps readings of this period for 63 days; the sweep runs as often."""

SeriesKey = tuple[str, Dimensions, str]
"""Metric, dimensions, statistic."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Signs of work, a value a bin: the busiest GPU in percent, power and memory in percent of what
    the GPU has, CPU in percent, network in bytes a second. NaN where nothing was published."""

    utilization: array[float]
    power: array[float]
    memory: array[float]
    cpu: array[float]
    network: array[float]


@dataclass(frozen=True, slots=True)
class Recording:
    """Readings of one instance over `span`, and EC2's present facts about it.

    `series` holds what the product would read; `figures` is the same, summed up for looking ahead.
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
    runs: tuple[tuple[int, int], ...] = field(init=False)
    """Stretches of bins `[start, end)` in which the instance ran."""
    _measured: dict[str, bytes] = field(init=False, compare=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        found = _stretches(self.series.values(), self.span.bins)
        launched = self._index(self.instance.launch_time)
        object.__setattr__(self, "runs", tuple(_split(found, launched)))

    def time(self, index: int) -> UtcDatetime:
        """Return when the bin with that index begins."""
        return self.span.start + index * PERIOD

    @property
    def is_silent(self) -> bool:
        """Return whether no GPU has a reading in all of it."""
        return not any(value >= 0 for value in self.figures.utilization)

    @property
    def unheard_bins(self) -> int:
        """How many bins it has been running, by what EC2 knows, while nothing at all was
        published."""
        launched = min(max(0, self._index(self.instance.launch_time)), self.span.bins)
        heard = sum(max(0, end - max(start, launched)) for start, end in self.runs)
        return self.span.bins - launched - heard

    def measured(self, metric: str) -> bytes:
        """1 for every bin in which every GPU was measured. One that is never seen may work all the
        time.

        The aggregate of several GPUs counts as all of them.
        """
        if metric not in self._measured:
            gpus = self._by_gpu(metric)
            count = self.shape.accelerator_count if self.shape else None
            hidden = self.source is MetricSource.PER_GPU and count and len(gpus) < count
            self._measured[metric] = all_of(
                [] if hidden else list(map(measured, gpus)), self.span.bins
            )
        return self._measured[metric]

    def steady(self, policy: Policy) -> bytes:
        """1 for every bin that takes nothing from a proof: all is measured that it needs, and
        rests."""
        names = policy.metrics
        seen = [self.measured(names.utilization)]
        wanted = {
            metric for figure in policy.vetoes.required for metric in _metrics_of(figure, names)
        }
        seen += [
            measured(values) for (metric, _, _), values in self.series.items() if metric in wanted
        ]
        count = self.shape.accelerator_count if self.shape else None
        if self.source is MetricSource.AGGREGATE and count != 1:
            whole = (count or inf) * PERIOD.total_seconds() / names.collection_interval_seconds
            counts = [
                values for (_, _, kind), values in self.series.items() if kind == "SampleCount"
            ]
            seen += [reaching(values, whole) for values in counts] or [bytes(self.span.bins)]
        return without(all_of(seen, self.span.bins), self.activity(policy))

    def released(self, policy: Policy) -> bytes:
        """1 for every bin with which every GPU's memory has been released for long enough."""
        rule = policy.approval
        whole = self.shape.memory_mib_each if self.shape else None
        limit = rule.released_memory_below_percent / 100 * (whole or 0)
        gpus = self._by_gpu(policy.metrics.memory_used)
        low = all_of([without(measured(one), reaching(one, limit)) for one in gpus], self.span.bins)
        bins = -(-timedelta(minutes=rule.released_for_minutes) // PERIOD)
        # Each shift moves all flags a bin later.
        number = every = int.from_bytes(low)
        for _ in range(bins - 1):
            number >>= 8
            every &= number
        return every.to_bytes(self.span.bins)

    def _by_gpu(self, metric: str) -> list[array[float]]:
        found: dict[str, list[array[float]]] = {}
        for dimensions in self.sets:
            values = self.series.get((metric, dimensions, "Maximum"))
            if values is not None:
                found.setdefault(dict(dimensions).get("index", "all"), []).append(values)
        return [highest(series, self.span.bins) for series in found.values()]

    def activity(self, policy: Policy) -> bytes:
        """1 for every bin in which something reaches a limit of the policy
        (`domain.verdict.activity`)."""
        seen, busy = self.figures, policy.idle.utilization_below_percent
        limits = (limit_of(policy, figure) for figure in ("power", "memory", "cpu", "network"))
        power, memory, cpu, network = (inf if limit is None else limit for limit in limits)
        return bytes(
            [
                u >= busy or p >= power or m >= memory or c >= cpu or n >= network
                for u, p, m, c, n in zip(
                    seen.utilization, seen.power, seen.memory, seen.cpu, seen.network, strict=True
                )
            ]
        )

    def _index(self, moment: UtcDatetime) -> int:
        return (moment - self.span.start) // PERIOD


class RecordedMetrics:
    """The port `MetricReader` over recordings."""

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self._series: dict[SeriesKey, tuple[array[float], Window]] = {}
        for recording in recordings:
            for key, values in recording.series.items():
                self._series[key] = (values, recording.span)

    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:  # noqa: ARG002
        """As the port says.

        Raises:
            ValueError: the window's period is not that of the recording.
        """
        if window.period != PERIOD:
            raise ValueError(f"recordings hold readings of {PERIOD}, not of {window.period}")
        answers: dict[str, Series] = {}
        bins = window.bins
        starts: dict[UtcDatetime, int] = {}
        for query in queries:
            found = self._series.get((query.metric, query.dimensions, query.statistic))
            if found is None:
                continue
            values, span = found
            start = starts.get(span.start)
            if start is None:
                start = starts[span.start] = (window.start - span.start) // PERIOD
            first = max(start, 0)
            known = values[first : max(first, start + bins)]
            seen: Series = tuple(known)
            if has_holes(known):
                seen = tuple([None if value != value else value for value in known])
                if seen.count(None) == len(seen):
                    continue
            if len(seen) < bins:
                if not seen:
                    continue
                early = first - start
                seen = (None,) * early + seen + (None,) * (bins - early - len(seen))
            answers[query.key] = seen
        return MetricAnswer(answers, {})

    def list_series(
        self,
        target: Target,  # noqa: ARG002
        wanted: SeriesFilter,
        instance_id: str | None = None,
    ) -> dict[str, list[Listed]]:
        """As the port says; recently active is whatever was recorded. What jobs and instances say
        of themselves was not."""
        found: dict[str, list[Listed]] = {}
        namespace, metric, _ = wanted
        for name, dimensions, _ in self._series:
            owner = dict(dimensions).get("InstanceId")
            if namespace and name == metric and owner is not None and instance_id in (None, owner):
                found.setdefault(owner, []).append(Listed(namespace, name, dimensions))
        return found


def has_holes(values: array[float]) -> bool:
    """Return whether any of them is NaN: then their sum is, which is found much faster."""
    total = sum(values)
    return total != total


def highest(series: Sequence[array[float]], bins: int, factor: float = 1.0) -> array[float]:
    """Per bin the largest of all series times the factor; NaN where none has a reading."""
    if not series:
        return holes(bins)
    first: Sequence[float | None] = series[0]
    peaks = reduce(merged, series[1:], first)
    return array("d", [nan if value is None else value * factor for value in peaks])


def _metrics_of(figure: str, names: Metrics) -> tuple[str, ...]:
    """The metrics that show a figure of the vetoes."""
    return {
        "power": (names.power_draw,),
        "memory": (names.memory_used,),
        "cpu": ("CPUUtilization",),
        "network": ("NetworkIn", "NetworkOut"),
    }[figure]


def _stretches(series: Iterable[array[float]], bins: int) -> list[tuple[int, int]]:
    """Return where anything was published. Holes of 10 minutes or less are bridged: no stop is so
    short."""
    dead: Sequence[int] = range(bins)
    for values in series:
        # Without a hole in one of them, it ran all the time.
        dead = [index for index in dead if isnan(values[index])] if has_holes(values) else ()
    alive = bytearray(b"\x01") * bins
    for index in dead:
        alive[index] = 0
    found: list[tuple[int, int]] = []
    start = alive.find(1)
    while start >= 0:
        end = alive.find(0, start)
        end = bins if end < 0 else end
        if found and start - found[-1][1] <= CARRIED_HOLE_BINS:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
        start = alive.find(1, end)
    return found


def _split(stretches: Sequence[tuple[int, int]], launched: int) -> Iterable[tuple[int, int]]:
    """A start that EC2 knows of ends the run before it, however short the stop was."""
    for start, end in stretches:
        if start < launched < end:
            yield start, launched
            yield launched, end
        else:
            yield start, end
