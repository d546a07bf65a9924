"""Twins for tests of a scan: a kind of resource that answers as a test says, and a place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from governor.core.errors import CloudError
from governor.core.instance import Instance, Lifecycle, Target
from governor.core.units import UsdPerHour
from governor.episode.model.plan import Price, StoragePrices
from governor.evidence.model import Series, Window
from governor.evidence.ports import MetricAnswer, MetricQuery
from governor.policy.model.policy import Policy
from governor.scan.kind import Kind, Place
from governor.scan.model import Finding, Judgment, Resource, Strength
from tests.unit.scan.shapes import conforms, takes

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
TARGET = Target("123456789012", "us-east-1")


def place(target: Target = TARGET, **changes: Any) -> Place:
    """Return a place whose means of reading are missing unless a test names them."""
    means: dict[str, Any] = {"api": None, "instances": None, "metrics": None, "prices": None}
    means["policy"] = Policy()
    return Place(target=target, now=NOW, **{**means, **changes})


def resource(resource_id: str = "r-1", **changes: Any) -> Resource:
    """Return a resource of no particular kind."""
    return Resource(**{"target": TARGET, "resource_id": resource_id, "what": "a GPU", **changes})


@dataclass
class KindTwin(Kind[Resource, Judgment]):
    """A kind whose resources, judgments and prices a test gives. `error` is raised by its list."""

    resources: Sequence[Resource] = ()
    judgments: Mapping[str, Judgment] = field(default_factory=dict)
    usd_per_hour: UsdPerHour | None = Decimal(1)
    error: Exception | None = None
    name: str = "twin"  # type: ignore[misc]
    words: str = "twins"  # type: ignore[misc]
    operations: tuple[str, ...] = ("ec2:DescribeInstances",)  # type: ignore[misc]
    is_billed: bool = False  # type: ignore[misc]

    def list(self, place: Place) -> Sequence[Resource]:
        """Return the resources. Raises: the error of the test."""
        if self.error is not None:
            raise self.error
        return self.resources

    def measure(self, place: Place, resources: Sequence[Resource]) -> Mapping[str, Judgment]:
        """Return the judgments as measurements."""
        return self.judgments

    def price(self, place: Place, resource: Resource) -> UsdPerHour | None:
        """Return the one price."""
        return self.usd_per_hour

    def own_judgment(self, place: Place, resource: Resource, measured: Judgment | None) -> Judgment:
        """Return the test's judgment, or that nothing was measured."""
        if measured is None:
            return Judgment(Finding.NOT_MEASURED, Strength.NONE, "nothing was measured")
        return measured

    def own_command(self, resource: Resource, judgment: Judgment) -> str:
        """Return a command that names the resource."""
        return f"look at {resource.resource_id}"


class ApiTwin:
    """AWS's API, that answers each operation as a test says.

    An answer is a document, an error to raise, a list of pages, or a function of the parameters
    that returns one of these. Documents and parameters have the shapes of botocore's service
    models.
    """

    def __init__(
        self, answers: Mapping[str, Any], absent: Sequence[str] = (), *, is_odd: bool = False
    ) -> None:
        """`absent` names services that no Region has. If `is_odd`, documents may have any shape."""
        self.answers = answers
        self.is_odd = is_odd
        self.absent = absent
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def count(self, operation: str) -> int:
        """Return how often an operation was called."""
        return [name for name, _ in self.calls].count(operation)

    def call(self, target: Target, operation: str, **parameters: Any) -> Any:
        """Return the answer to one call, of several pages the first. Raises: the test's error."""
        takes(operation, parameters)
        return next(self._pages(operation, parameters))

    def pages(
        self, target: Target, operation: str, *, following: str = "NextToken", **parameters: Any
    ) -> Iterator[Any]:
        """Yield the pages of an answer. Raises: the test's error."""
        takes(operation, parameters, following)
        yield from self._pages(operation, parameters)

    def call_each(
        self, target: Target, operation: str, parameters: Sequence[Mapping[str, Any]]
    ) -> list[Any]:
        """Return the answer or the error to each call."""
        answers: list[Any] = []
        for one_call in parameters:
            try:
                answers.append(self.call(target, operation, **one_call))
            except CloudError as error:
                answers.append(error)
        return answers

    def is_offered(self, target: Target, service: str) -> bool:
        """Return whether the test has not named the service as absent."""
        return service not in self.absent

    def _pages(self, operation: str, parameters: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the pages of an answer, and remember the call."""
        assert operation in self.answers, f"{operation} was not expected"
        self.calls.append((operation, dict(parameters)))
        answer = self.answers[operation]
        if callable(answer):
            answer = answer(**parameters)
        if isinstance(answer, Exception):
            raise answer
        for page in answer if isinstance(answer, list) else [answer]:
            yield page if self.is_odd else conforms(operation, page)


@dataclass
class SeriesTwin:
    """CloudWatch, that has one value in every period of the series that a test names.

    `values` are by metric and one of its dimension values, such as `("Invocations", "v1")`; a value
    may be a whole series. A series that is not named published nothing.
    """

    values: Mapping[tuple[str, str], float | Series] = field(default_factory=dict)
    problem: str = ""
    """The reason why no query can be read; empty if all can."""
    asked: list[MetricQuery] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)

    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        """Return the series of the queries that the test names."""
        self.asked += queries
        self.windows.append(window)
        series: dict[str, Series] = {}
        for query in queries:
            for _, dimension_value in query.dimensions:
                value = self.values.get((query.metric, dimension_value))
                if isinstance(value, tuple):
                    series[query.key] = value
                elif value is not None:
                    series[query.key] = (value,) * window.bins
        if not self.problem:
            return MetricAnswer(series, {})
        return MetricAnswer({}, {query.key: self.problem for query in queries})


@dataclass
class PricesTwin:
    """A price book with a price by type, twice as low for Spot. Types that are not named have no
    price."""

    usd_by_type: Mapping[str, Decimal] = field(default_factory=dict)
    storage: StoragePrices | None = None
    asked: list[Instance] = field(default_factory=list)

    def price(self, instance: Instance, policy: Policy) -> Price:
        """Return the price of the instance's type."""
        self.asked.append(instance)
        usd = self.usd_by_type.get(instance.instance_type)
        if usd is not None and instance.lifecycle is Lifecycle.SPOT:
            usd /= 2
        return Price(usd, "a test", storage=self.storage)


@dataclass
class InstancesTwin:
    """EC2, with these running instances of accelerated types."""

    instances: Sequence[Instance] = ()

    def list_accelerated(
        self, target: Target, odd: MutableMapping[str, str] | None = None
    ) -> Sequence[Instance]:
        """Return the instances."""
        return self.instances
