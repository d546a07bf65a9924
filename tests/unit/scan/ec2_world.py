"""Twins for tests of running instances: EC2's list, CloudWatch by namespace, and prices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from governor.core.errors import CloudError
from governor.core.instance import Instance, Launch, Target
from governor.episode.model.plan import Price
from governor.evidence.model import Series, Window
from governor.evidence.ports import Listed, MetricAnswer, MetricQuery, SeriesFilter
from governor.policy.model.policy import Policy
from governor.scan.kind import Place
from governor.scan.kinds.ec2_instance.kind import Ec2Instances
from governor.scan.model import Row
from governor.scan.scan_place import PlaceReport, scan_place
from tests.unit.scan.kinds import NOW, TARGET, ApiTwin, place

LONG_AGO = datetime(2026, 11, 1, tzinfo=UTC)
OWN = "i-0123456789abcdef0"
QUIET = {
    "CPUUtilization": 2.0,
    "NetworkIn": 3_000.0,
    "NetworkOut": 3_000.0,
    "EBSReadBytes": 0.0,
    "EBSWriteBytes": 600_000.0,
    "EBSReadOps": 0.0,
    "EBSWriteOps": 300.0,
}
"""EC2's own figures of a host that does nothing, of five minutes each."""


def instance(instance_id: str = OWN, instance_type: str = "p5.48xlarge", **more: Any) -> Instance:
    """Return an instance that has run for weeks."""
    plain: dict[str, Any] = {"state": "running", "launch_time": LONG_AGO}
    return Instance(
        target=TARGET, instance_id=instance_id, instance_type=instance_type, **{**plain, **more}
    )


@dataclass
class Ec2Twin:
    """EC2's instances, and CloudTrail's launches by instance id."""

    instances: Sequence[Instance] = ()
    launched_by: Mapping[str, str] = field(default_factory=dict)
    odd: Mapping[str, str] = field(default_factory=dict)
    """Reasons by the ids of instances whose records cannot be read."""
    error: CloudError | None = None
    trail_error: CloudError | None = None
    asked: list[str] = field(default_factory=list)

    def list_accelerated(
        self, target: Target, odd: MutableMapping[str, str] | None = None
    ) -> Sequence[Instance]:
        """Return the instances. Raises: the test's error."""
        if self.error is not None:
            raise self.error
        if odd is not None:
            odd.update(self.odd)
        return self.instances

    def launch(self, target: Target, instance_id: str, before: datetime) -> Launch | None:
        """Return the launch. Raises: the test's error."""
        self.asked.append(instance_id)
        if self.trail_error is not None:
            raise self.trail_error
        principal = self.launched_by.get(instance_id)
        return None if principal is None else Launch(principal, LONG_AGO)


@dataclass
class CloudWatchTwin:
    """CloudWatch with series by namespace, metric and dimensions: a value for every period, or the
    values of the newest periods."""

    series: dict[tuple[str, str, tuple[tuple[str, str], ...]], float | Series] = field(
        default_factory=dict
    )
    refused: Mapping[str | None, CloudError] = field(default_factory=dict)
    """By the metric that is listed."""
    problem: str = ""
    lists: list[SeriesFilter] = field(default_factory=list)
    reads: Counter[str] = field(default_factory=Counter)

    def publish(
        self, namespace: str, metric: str, value: float | Series, **dimensions: str
    ) -> None:
        """Add a series."""
        self.series[namespace, metric, tuple(sorted(dimensions.items()))] = value

    def quiet(
        self, instance_id: str = OWN, changes: Mapping[str, float | Series | None] | None = None
    ) -> None:
        """Add EC2's own figures of a quiet host; `None` leaves one out."""
        for metric, value in {**QUIET, **(changes or {})}.items():
            if value is not None:
                self.publish("AWS/EC2", metric, value, InstanceId=instance_id)

    def list_series(
        self, target: Target, wanted: SeriesFilter, instance_id: str | None = None
    ) -> dict[str, list[Listed]]:
        """Return the series that the filter names, by instance. Raises: the test's error."""
        self.lists.append(wanted)
        if wanted.metric in self.refused:
            raise self.refused[wanted.metric]
        found: dict[str, list[Listed]] = {}
        for namespace, metric, dimensions in self.series:
            owner = dict(dimensions).get("InstanceId")
            is_wanted = wanted.namespace in (None, namespace) and wanted.metric in (None, metric)
            if owner and is_wanted and instance_id in (None, owner):
                found.setdefault(owner, []).append(Listed(namespace, metric, dimensions))
        return found

    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        """Return the series of the queries. A sample count is that of one sample a minute."""
        series: dict[str, Series] = {}
        for query in queries:
            self.reads[query.metric] += 1
            key = (query.namespace, query.metric, tuple(sorted(query.dimensions)))
            value = self.series.get(key)
            if isinstance(value, tuple):
                series[query.key] = ((None,) * window.bins + value)[-window.bins :]
            elif value is not None:
                series[query.key] = (value,) * window.bins
        if self.problem:
            return MetricAnswer({}, {query.key: self.problem for query in queries})
        return MetricAnswer(series, {})


@dataclass
class PricesTwin:
    """Prices by type; a type that is not named has none."""

    usd_by_type: Mapping[str, str] = field(default_factory=lambda: {"p5.48xlarge": "55"})

    def price(self, instance: Instance, policy: Policy) -> Price:
        """Return the price of the type."""
        usd = self.usd_by_type.get(instance.instance_type)
        return Price(None if usd is None else Decimal(usd), "the test's")


@dataclass
class World:
    """One place with running instances."""

    metrics: CloudWatchTwin = field(default_factory=CloudWatchTwin)
    ec2: Ec2Twin = field(default_factory=Ec2Twin)
    prices: PricesTwin = field(default_factory=PricesTwin)
    api: ApiTwin = field(default_factory=lambda: ApiTwin({}))

    def place(self, **changes: Any) -> Place:
        """Return the place."""
        return place(
            api=self.api,
            instances=self.ec2,
            metrics=self.metrics,
            prices=self.prices,
            **changes,
        )

    def report(self, *instances: Instance, **changes: Any) -> PlaceReport:
        """Return the report on these instances."""
        self.ec2.instances = instances
        return scan_place(self.place(**changes), [Ec2Instances()])

    def row(self, one: Instance, **changes: Any) -> Row:
        """Return the row of one instance, where nothing was refused."""
        report = self.report(one, **changes)
        assert () == report.unread
        (row,) = report.rows
        return row


def ago(**span: float) -> datetime:
    """Return the time that long before the scan."""
    return NOW - timedelta(**span)
