"""Some weeks of an instance's utilization by the hour, each GPU apart: the evidence of `governor
advice`.

This module reads and counts; `simulation.patterns` and `simulation.capacity_advice` advise.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from statistics import fmean

from evaluation.bins import holes
from governor.alerts.model import Owner
from governor.core.catalog import shape_of
from governor.core.instance import Instance, Shape, Target
from governor.core.managers import managed_by
from governor.core.units import UsdPerHour
from governor.episode.model.plan import Price
from governor.evidence.model import Window
from governor.evidence.ports import MetricQuery, SeriesFilter
from governor.evidence.rules.profiles import expected_count, memory_factor, percent_factor
from governor.evidence.rules.series import Dimensions, gpu_label, is_gpu, whole_instance
from governor.money.rules.cost import marginal_price
from governor.policy.model.judging import Metrics
from governor.policy.model.policy import Policy
from governor.policy.model.profiles import profile_of_names
from governor.policy.rules.owners import owner_of
from simulation.fetch import Fetch, query_of
from simulation.recording import highest

TEN_MINUTES = timedelta(minutes=10)
"""A group's mean must be low for so long before it needs fewer instances."""
HOURS_A_WEEK = 168


@dataclass(frozen=True)
class Past:
    """One instance hour by hour; NaN where nothing was published. Series by GPU have its index as
    key, or `all` for an aggregate of several GPUs, which shows only the busiest. `policy` is the
    instance's own; `price` is what an hour adds to the bill."""

    instance: Instance
    shape: Shape | None
    owner: Owner
    policy: Policy
    price: Price
    price_of: Callable[[str], UsdPerHour | None]
    """Returns the price of another type, obtained the same way; `None` if it is not known."""
    hours: Window
    high: Mapping[str, Sequence[float]]
    """Highest utilization, in percent."""
    mean: Mapping[str, Sequence[float]]
    """Mean utilization, in percent."""
    memory: Mapping[str, Sequence[float]]
    """Most memory that was held, in MiB."""
    traffic: Mapping[str, Sequence[float]]
    """Mean share of time in which memory was read or written, in percent."""
    cpu: Sequence[float]
    """Highest CPU utilization, in percent; EC2 publishes it whenever the instance runs."""
    tens: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Mean utilization in each ten minutes, in percent; empty unless another service runs the
    instance."""

    @cached_property
    def ran(self) -> list[int]:
        """The hours in which anything was published."""
        series = (self.cpu, *self.high.values())
        return [hour for hour in range(self.hours.bins) if _any_reading(series, hour)]

    @cached_property
    def measured(self) -> list[int]:
        """The hours in which every GPU was measured; none if some GPU has no series at all. An
        aggregate counts as all GPUs."""
        if not self.high:
            return []
        expected = self.shape.accelerator_count if self.shape else None
        if self.is_by_gpu and expected is not None and len(self.high) < expected:
            return []
        series = tuple(self.high.values())
        return [hour for hour in self.ran if _all_readings(series, hour)]

    @cached_property
    def silent(self) -> set[int]:
        """The hours in which it ran, and some GPU was not measured: it may have worked."""
        return set(self.ran) - set(self.measured)

    @property
    def is_by_gpu(self) -> bool:
        return "all" not in self.high

    @property
    def weeks(self) -> int:
        """Return the whole weeks between the first and the last measured hour; 0 without any."""
        if not self.measured:
            return 0
        return (self.measured[-1] + 1 - self.measured[0]) // HOURS_A_WEEK

    @property
    def measured_percent(self) -> int:
        """Return the measured share of the hours in which it ran; rounded down."""
        if self.ran:
            return 100 * len(self.measured) // len(self.ran)
        return 0

    @cached_property
    def worked(self) -> list[int]:
        """The measured hours in which a GPU reached the policy's limit."""
        limit = self.policy.idle.utilization_below_percent
        series = tuple(self.high.values())
        return [hour for hour in self.measured if _any_at_least(series, hour, limit)]

    @cached_property
    def measured_tens(self) -> set[int]:
        """The ten minutes of the measured hours in which every GPU was measured."""
        if not self.tens:
            return set()
        series = tuple(self.tens.values())
        per_hour = self.hours.period // TEN_MINUTES
        measured_tens: set[int] = set()
        for hour in self.measured:
            tens = range(hour * per_hour, (hour + 1) * per_hour)
            measured_tens.update(ten for ten in tens if _all_readings(series, ten))
        return measured_tens

    def mean_at(self, ten: int) -> float:
        """Return the mean of all GPUs in ten minutes in which they were measured."""
        return fmean(values[ten] for values in self.tens.values())

    def peaks(self, series: Mapping[str, Sequence[float]]) -> dict[str, float]:
        """Return the highest reading of each GPU that has one."""
        peak_by_gpu = {}
        for gpu, values in series.items():
            readings = [value for value in values if value >= 0]
            if readings:
                peak_by_gpu[gpu] = max(readings)
        return peak_by_gpu


def _any_reading(series: Sequence[Sequence[float]], index: int) -> bool:
    return any(values[index] >= 0 for values in series)


def _any_at_least(series: Sequence[Sequence[float]], index: int, limit: float) -> bool:
    return any(values[index] >= limit for values in series)


def _all_readings(series: Sequence[Sequence[float]], index: int) -> bool:
    return all(values[index] >= 0 for values in series)


def pasts(
    fetch: Fetch,
    target: Target,
    hours: Window,
    policy_of: Callable[[Instance], Policy],
    agree: Callable[[int], None],
) -> list[Past]:
    """Read the selected instances of one target. `agree` gets the number of metrics that are
    requested, before they are.

    Raises:
        CloudError: EC2 or CloudWatch refused.
        FetchError: a part of the readings could not be read. The others are kept.
    """
    instances = fetch.instances.list_selected(target, fetch.wish.selector)
    names = fetch.wish.metrics
    by = SeriesFilter(names.namespace, names.utilization)
    listed = fetch.metrics.list_series(target, by) if instances else {}
    plans = []
    for instance in instances:
        sets = [series.dimensions for series in listed.get(instance.instance_id, ())]
        plans.append(_Plan(instance, policy_of(instance), _queries(instance, sets, names)))
    queries: list[MetricQuery] = []
    means: list[MetricQuery] = []
    for plan in plans:
        queries += plan.queries
        means += plan.mean_queries(names)
    tens = Window(hours.start, hours.end, TEN_MINUTES)
    agree(len(fetch.unread(target, queries, hours)) + len(fetch.unread(target, means, tens)))
    hourly = fetch.series(target, queries, hours)
    every_ten_minutes = fetch.series(target, means, tens)
    return [_past(fetch, plan, hours, hourly, every_ten_minutes) for plan in plans]


@dataclass(frozen=True, slots=True)
class _Plan:
    """Readings of one instance."""

    instance: Instance
    policy: Policy
    queries: Sequence[MetricQuery]

    def mean_queries(self, names: Metrics) -> list[MetricQuery]:
        """Return the queries that are read in ten minutes, too; none unless another service runs
        the instance."""
        if not managed_by(self.instance, self.policy.managed.tag_keys):
            return []
        mean_queries = []
        for query in self.queries:
            if query.statistic == "Average" and query.metric == names.utilization:
                mean_queries.append(query)
        return mean_queries


def _queries(instance: Instance, sets: Sequence[Dimensions], names: Metrics) -> list[MetricQuery]:
    """Return queries for each GPU if it publishes those, else for its shortest dimensions."""
    shortest = sorted(sets, key=len)[:1]
    chosen = sorted(filter(is_gpu, sets)) or shortest
    figures = (
        (names.utilization, "Maximum"),
        (names.utilization, "Average"),
        (names.memory_used, "Maximum"),
        (names.memory_utilization, "Average"),
    )
    queries = []
    for metric, statistic in figures:
        if not metric:
            continue  # The publisher has no such metric.
        for dimensions in chosen:
            queries.append(query_of(names.namespace, metric, dimensions, statistic))
    ec2 = whole_instance(instance.instance_id)
    return [*queries, query_of("AWS/EC2", "CPUUtilization", ec2, "Maximum")]


def _past(
    fetch: Fetch,
    plan: _Plan,
    hours: Window,
    hourly: Mapping[MetricQuery, array[float]],
    every_ten_minutes: Mapping[MetricQuery, array[float]],
) -> Past:
    instance = plan.instance
    policy = plan.policy
    names = policy.metrics
    shape = shape_of(instance.instance_type)
    profile = profile_of_names(names)
    is_single = expected_count(shape, profile) == 1
    factors = {
        names.memory_used: memory_factor(shape, names, profile),
        names.utilization: percent_factor(names, profile),
    }

    def by_gpu(
        metric: str, statistic: str, read: Mapping[MetricQuery, array[float]] = hourly
    ) -> dict[str, array[float]]:
        series_by_gpu: dict[str, list[array[float]]] = {}
        for query in plan.queries:
            if (query.metric, query.statistic) == (metric, statistic) and query in read:
                # The aggregate of one GPU is that GPU.
                gpu = "0" if is_single else gpu_label(query.dimensions)
                series_by_gpu.setdefault(gpu, []).append(read[query])
        factor = factors.get(metric, 1.0)
        highest_by_gpu: dict[str, array[float]] = {}
        for gpu, series in series_by_gpu.items():
            highest_by_gpu[gpu] = highest(series, len(series[0]), factor)
        return highest_by_gpu

    def price_of(name: str) -> UsdPerHour | None:
        of_other_type = replace(instance, instance_type=name)
        return fetch.prices.price(of_other_type, policy).usd_per_hour

    return Past(
        instance=instance,
        shape=shape,
        owner=owner_of(instance, policy.ownership),
        policy=policy,
        price=marginal_price(instance, fetch.prices.price(instance, policy)),
        price_of=price_of,
        hours=hours,
        high=by_gpu(names.utilization, "Maximum"),
        mean=by_gpu(names.utilization, "Average"),
        memory=by_gpu(names.memory_used, "Maximum"),
        traffic=by_gpu(names.memory_utilization, "Average"),
        cpu=hourly[plan.queries[-1]] if plan.queries else holes(hours.bins),
        tens=by_gpu(names.utilization, "Average", every_ten_minutes),
    )
