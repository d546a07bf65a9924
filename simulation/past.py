"""Some weeks of an instance by the hour, each of its GPUs apart: what advice rests on."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from math import nan
from statistics import fmean

from evaluation.bins import holes
from governor.domain.alerts.alert import Owner, owner_of
from governor.domain.catalogue import shape_of
from governor.domain.episode.plan import Price
from governor.domain.evidence import Dimensions, Window, gpu_label, is_gpu
from governor.domain.instance import Instance, Shape, Target, managed_by
from governor.domain.money.cost import marginal
from governor.domain.policy.policy import Metrics, Policy
from governor.domain.units import UsdPerHour
from governor.ports import MetricQuery, SeriesFilter
from simulation.fetch import Fetch, query_of
from simulation.recording import highest

WEEK = timedelta(days=7)
TEN_MINUTES = timedelta(minutes=10)
"""So long a group's mean is low before it could do with fewer instances."""
HOURS_A_WEEK = 168


@dataclass(frozen=True)
class Past:
    """One instance hour by hour; NaN where nothing was published. By GPU: the index, or `all` for
    an aggregate of several, which shows the busiest alone. `policy` is the instance's own; `price`
    is what an hour adds to the bill."""

    instance: Instance
    shape: Shape | None
    owner: Owner
    policy: Policy
    price: Price
    price_of: Callable[[str], UsdPerHour | None]
    """The price of an instance of another type, obtained the same way; `None` where it is not
    known."""
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
        return [hour for hour in range(self.hours.bins) if any(one[hour] >= 0 for one in series)]

    @cached_property
    def measured(self) -> list[int]:
        """The hours in which every GPU was. An aggregate counts as all of them."""
        expected = self.shape.accelerator_count if self.shape else None
        hidden = not self.high or (
            self.is_by_gpu and expected is not None and len(self.high) < expected
        )
        return (
            []
            if hidden
            else [hour for hour in self.ran if all(one[hour] >= 0 for one in self.high.values())]
        )

    @cached_property
    def silent(self) -> set[int]:
        """The hours in which it ran, and some GPU was not measured: it may have worked."""
        return set(self.ran) - set(self.measured)

    @property
    def is_by_gpu(self) -> bool:
        return "all" not in self.high

    @property
    def weeks(self) -> int:
        """Whole weeks between the first and the last measured hour."""
        return (self.measured[-1] + 1 - self.measured[0]) // HOURS_A_WEEK if self.measured else 0

    @property
    def measured_percent(self) -> int:
        """Return the measured share of the hours in which it ran; rounded down."""
        return 100 * len(self.measured) // len(self.ran) if self.ran else 0

    @property
    def share_run(self) -> float:
        """The share of the hours since it first ran in which it ran."""
        return len(self.ran) / (self.hours.bins - self.ran[0]) if self.ran else 0.0

    @cached_property
    def worked(self) -> list[int]:
        """The measured hours in which a GPU reached the policy's limit."""
        limit = self.policy.advice.unused_below_percent
        return [
            hour for hour in self.measured if any(one[hour] >= limit for one in self.high.values())
        ]

    @cached_property
    def measured_tens(self) -> set[int]:
        """Those of ten minutes of the measured hours in which every GPU was."""
        per_hour = self.hours.period // TEN_MINUTES
        tens = (hour * per_hour + ten for hour in self.measured for ten in range(per_hour))
        return {
            ten for ten in tens if self.tens and all(one[ten] >= 0 for one in self.tens.values())
        }

    def mean_at(self, ten: int) -> float:
        """The mean of all GPUs in ten minutes in which they were measured."""
        return fmean(one[ten] for one in self.tens.values())

    def peaks(self, series: Mapping[str, Sequence[float]]) -> dict[str, float]:
        """The highest reading of each GPU that has one."""
        found = {
            gpu: max((one for one in values if one >= 0), default=nan)
            for gpu, values in series.items()
        }
        return {gpu: one for gpu, one in found.items() if one >= 0}


def pasts(
    fetch: Fetch,
    target: Target,
    hours: Window,
    policy_of: Callable[[Instance], Policy],
    agree: Callable[[int], None],
) -> list[Past]:
    """Read what is selected in one target. `agree` gets the number of metrics that are requested,
    before.

    Raises:
        CloudError: EC2 or CloudWatch refused.
        FetchError: a part of the readings could not be had. What could is kept.
    """
    found = fetch.instances.list_selected(target, fetch.wish.selector)
    names = fetch.wish.metrics
    by = SeriesFilter(names.namespace, names.utilization)
    series = fetch.metrics.list_series(target, by) if found else {}
    wanted = {
        one.instance_id: _queries(
            one, [listed.dimensions for listed in series.get(one.instance_id, ())], names
        )
        for one in found
    }
    queries = [query for one in wanted.values() for query in one]
    policies = {one.instance_id: policy_of(one) for one in found}
    members = [
        one.instance_id
        for one in found
        if managed_by(one, policies[one.instance_id].managed.tag_keys)
    ]
    means = [query for one in members for query in wanted[one] if query.statistic == "Average"]
    means = [query for query in means if query.metric == names.utilization]
    tens = Window(hours.start, hours.end, TEN_MINUTES)
    agree(len(fetch.unread(target, queries, hours)) + len(fetch.unread(target, means, tens)))
    read, read_tens = fetch.series(target, queries, hours), fetch.series(target, means, tens)
    return [
        _past(
            fetch, one, hours, policies[one.instance_id], wanted[one.instance_id], read, read_tens
        )
        for one in found
    ]


def _queries(instance: Instance, sets: Sequence[Dimensions], names: Metrics) -> list[MetricQuery]:
    """By GPU where it publishes so; else what there is."""
    chosen = [one for one in sets if is_gpu(one)] or sorted(sets, key=len)[:1]
    asked = (
        (names.utilization, "Maximum"),
        (names.utilization, "Average"),
        (names.memory_used, "Maximum"),
        (names.memory_utilization, "Average"),
    )
    queries = [
        query_of(names.namespace, metric, dimensions, statistic)
        for metric, statistic in asked
        for dimensions in sorted(chosen)
    ]
    ec2 = (("InstanceId", instance.instance_id),)
    return [*queries, query_of("AWS/EC2", "CPUUtilization", ec2, "Maximum")]


def _past(
    fetch: Fetch,
    instance: Instance,
    hours: Window,
    policy: Policy,
    queries: Sequence[MetricQuery],
    read: Mapping[MetricQuery, array[float]],
    read_tens: Mapping[MetricQuery, array[float]],
) -> Past:
    names = policy.metrics
    shape = shape_of(instance.instance_type)
    is_single = shape is not None and shape.accelerator_count == 1

    def by_gpu(
        metric: str, statistic: str, read: Mapping[MetricQuery, array[float]] = read
    ) -> dict[str, array[float]]:
        found: dict[str, list[array[float]]] = {}
        for query in queries:
            if (query.metric, query.statistic) == (metric, statistic) and query in read:
                # The aggregate of one GPU is that GPU.
                label = gpu_label(query.dimensions)
                found.setdefault("0" if is_single else label, []).append(read[query])
        return {gpu: highest(series, len(series[0])) for gpu, series in found.items()}

    return Past(
        instance=instance,
        shape=shape,
        owner=owner_of(instance, policy.ownership),
        policy=policy,
        price=marginal(instance, fetch.prices.price(instance, policy)),
        price_of=lambda name: (
            fetch.prices.price(replace(instance, instance_type=name), policy).usd_per_hour
        ),
        hours=hours,
        high=by_gpu(names.utilization, "Maximum"),
        mean=by_gpu(names.utilization, "Average"),
        memory=by_gpu(names.memory_used, "Maximum"),
        traffic=by_gpu(names.memory_utilization, "Average"),
        cpu=read[queries[-1]] if queries else holes(hours.bins),
        tens=by_gpu(names.utilization, "Average", read_tens),
    )
