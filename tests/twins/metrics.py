"""CloudWatch in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from governor.core.errors import CloudError
from governor.core.instance import Target
from governor.evidence.model import Series, Window
from governor.evidence.ports import Listed, MetricAnswer, MetricQuery, SeriesFilter

Dimensions = tuple[tuple[str, str], ...]
_NAMESPACES_OF_GPUS = ("GPU/EC2", "GPU/Custom", "ContainerInsights", "CWAgent")
"""Series published without a namespace of their own are in the one of these that is listed."""


@dataclass
class MemoryMetrics:
    """Metrics by `(metric, dimensions)`: a function of the window that gives the series, or a fixed
    series.

    `broken` holds metrics, or ids of instances, whose reads fail with that reason.
    """

    published: dict[tuple[str, Dimensions], Series] = field(default_factory=dict)
    statistics: dict[tuple[str, Dimensions, str], Series] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    reads: list[MetricQuery] = field(default_factory=list)
    namespaces: dict[tuple[str, Dimensions], str] = field(default_factory=dict)
    """Namespaces of series other than the GPUs'."""
    bound: dict[str, Series] = field(default_factory=dict)
    """Utilization by the namespace that belongs to one role and instance."""
    period: timedelta | None = None
    """Period of the published, where a read of shorter ones must see it so; else each value is a
    period."""
    now: Callable[[], datetime] | None = None
    """Nothing is published in periods that begin later; without it a series may reach into the
    future."""
    lists: int = 0
    lists_of_work: int = 0
    list_failure: CloudError | None = None

    def publish(
        self,
        metric: str,
        dimensions: Mapping[str, str],
        values: Sequence[float | None],
        statistic: str = "",
        namespace: str = "",
    ) -> None:
        """A series, oldest first; it is aligned to the end of whatever window is read, or to
        now."""
        key = tuple(sorted(dimensions.items()))
        if namespace:
            self.namespaces[metric, key] = namespace
        if statistic:
            self.statistics[metric, key, statistic] = tuple(values)
        else:
            self.published[metric, key] = tuple(values)

    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        self.reads += queries
        series, problems = {}, {}
        for query in queries:
            why = self.broken.get(query.metric) or self.broken.get(
                dict(query.dimensions).get("InstanceId", "")
            )
            if why is not None:
                problems[query.key] = why
                continue
            key = tuple(sorted(query.dimensions))
            found = self.statistics.get((query.metric, key, query.statistic))
            found = found if found is not None else self.published.get((query.metric, key))
            found = self.bound.get(query.namespace, found)
            if found is not None:
                times = max(1, self.period // window.period) if self.period else 1
                ahead = self._ahead(window)
                padded = (None,) * window.bins + tuple(
                    value for value in found for _ in range(times)
                )
                series[query.key] = (*padded, *(None,) * ahead)[-window.bins :]
        return MetricAnswer(series, problems)

    def _ahead(self, window: Window) -> int:
        """Return how many of the window's periods begin after this moment."""
        if self.now is None:
            return 0
        begun = max(0, -((window.start - self.now()) // window.period))
        return max(0, window.bins - begun)

    def list_series(
        self, target: Target, wanted: SeriesFilter, instance_id: str | None = None
    ) -> dict[str, list[Listed]]:
        listed = self._listed(wanted)
        if self.list_failure is not None:
            raise self.list_failure
        found: dict[str, list[Listed]] = {}
        for one in listed:
            owner = dict(one.dimensions).get("InstanceId")
            if owner is not None and instance_id in (None, owner):
                found.setdefault(owner, []).append(one)
        return found

    def _listed(self, wanted: SeriesFilter) -> list[Listed]:
        """Return the series of all instances that the filter names."""
        namespace, metric, _ = wanted
        if namespace is None:
            self.lists += 1
            return self._listed_anywhere(metric or "")
        if metric is None:
            return self._listed_of_namespace(namespace)
        self.lists += namespace != "AWS/EC2"
        listed = []
        for key in self.published:
            if key[0] == metric and self.namespaces.get(key, namespace) == namespace:
                listed.append(Listed(namespace, *key))
        return listed

    def _listed_anywhere(self, metric: str) -> list[Listed]:
        """Return the series of a metric in bound namespaces, and those that were published into a
        namespace of their own."""
        listed = []
        for namespace in self.bound:
            _, _, owner = namespace.rpartition(":")
            listed.append(Listed(namespace, metric, (("InstanceId", owner),)))
        for (name, dimensions), namespace in self.namespaces.items():
            if name == metric:
                listed.append(Listed(namespace, name, dimensions))
        return listed

    def _listed_of_namespace(self, namespace: str) -> list[Listed]:
        """Return all series of a namespace."""
        is_of_gpus = namespace in _NAMESPACES_OF_GPUS
        self.lists += is_of_gpus
        self.lists_of_work += not is_of_gpus
        default = namespace if is_of_gpus else None
        listed = []
        for key in self.published:
            if self.namespaces.get(key, default) == namespace:
                listed.append(Listed(namespace, *key))
        return listed
