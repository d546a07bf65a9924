"""Measures how much an endpoint of SageMaker is used: the calls of each variant and component, and
the utilization of its instances.

SageMaker publishes `Invocations` only for minutes with an invocation. The utilization of the
instances comes every minute, and so says whether the endpoint was measured at all. Source:
SageMaker developer guide, "Amazon SageMaker AI metrics in Amazon CloudWatch", and "Alarms and logs
for tracking metrics from asynchronous endpoints".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from governor.core.units import Percent, UtcDatetime
from governor.evidence.model import Window
from governor.evidence.ports import MetricAnswer, MetricQuery
from governor.scan.kind import Place
from governor.scan.kinds.calls import (
    calls_window,
    first_hour,
    problem_of,
    readings,
    report_problem,
)
from governor.scan.kinds.sagemaker.hardware import accelerators_of
from governor.scan.kinds.sagemaker_endpoint.list import TOPIC, Endpoint, Variant

CALLS_NAMESPACE = "AWS/SageMaker"
HOSTS_NAMESPACE = "/aws/sagemaker/Endpoints"
_CALLS = ("Invocations",)
_ASYNCHRONOUS_CALLS = ("InvocationsProcessed", "InvocationFailures")
"""An asynchronous endpoint does not publish `Invocations`."""
_BACKLOG = "ApproximateBacklogSize"
_Dimensions = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class EndpointUse:
    """The use of an endpoint since the start of the window, or since it was created."""

    since: UtcDatetime
    calls: Mapping[str, float] = field(default_factory=dict)
    """Calls by variant and by inference component; zero where nothing was published."""
    backlog: float = 0
    """The most requests that waited for an asynchronous endpoint at a time."""
    measured_percent: Percent = 0
    """The share of hours in which the instances of a variant published their utilization; of the
    variant with the smallest share."""
    gpu_percent: Percent | None = None
    """The mean utilization of one GPU in the busiest hour of the busiest variant. `None` if it is
    not published, as of accelerators that are no GPUs, or if the number of GPUs is not known."""
    problem: str = ""
    """The reason why a figure could not be read; empty if all were."""


class _VariantQueries(NamedTuple):
    """The queries about the instances of a variant."""

    cpu: MetricQuery
    gpu: MetricQuery


def measure_endpoints(place: Place, endpoints: Sequence[Endpoint]) -> dict[str, EndpointUse]:
    """Return the use of each endpoint by its name. Raises nothing: what cannot be read is a problem
    of its endpoint, and reported."""
    window = calls_window(place.now)
    queries: list[MetricQuery] = []
    for endpoint in endpoints:
        queries += _queries(endpoint)
    answer = place.metrics.read(place.target, queries, window)
    uses: dict[str, EndpointUse] = {}
    for endpoint in endpoints:
        use = _use(endpoint, answer, window)
        uses[endpoint.resource_id] = use
        if use.problem:
            report_problem(place, TOPIC, use.problem)
    return uses


def _use(endpoint: Endpoint, answer: MetricAnswer, window: Window) -> EndpointUse:
    """Return the use of one endpoint in the window, or since its creation if that is later, from
    the `answer` about all endpoints."""
    created = endpoint.since or window.start
    first = first_hour(window, created)
    problems: list[str] = []
    for query in _queries(endpoint):
        problems += problem_of(answer, query)
    backlog = readings(answer, _backlog_query(endpoint), first)
    return EndpointUse(
        since=max(created, window.start),
        calls=_calls(endpoint, answer, first),
        backlog=max(backlog, default=0),
        measured_percent=_measured_percent(endpoint, answer, window, first),
        gpu_percent=_gpu_percent(endpoint, answer, first),
        problem="; ".join(dict.fromkeys(problems)),
    )


def _calls(endpoint: Endpoint, answer: MetricAnswer, first: int) -> dict[str, float]:
    """Return the calls of each variant and component."""
    calls: dict[str, float] = {}
    for name, query in _call_queries(endpoint):
        calls[name] = calls.get(name, 0) + sum(readings(answer, query, first))
    return calls


def _measured_percent(
    endpoint: Endpoint, answer: MetricAnswer, window: Window, first: int
) -> Percent:
    """Return the smallest share of hours in which the instances of a variant were measured."""
    hours = window.bins - first
    shares: list[Percent] = []
    for variant in endpoint.variants:
        measured_hours = len(readings(answer, _host_queries(endpoint, variant).cpu, first))
        shares.append(100 * measured_hours / hours)
    return min(shares, default=0)


def _gpu_percent(endpoint: Endpoint, answer: MetricAnswer, first: int) -> Percent | None:
    """Return the mean utilization of one GPU in the busiest hour of the busiest variant; `None` if
    it is not known. The mean of a week would hide a few hours of work."""
    utilization: list[Percent] = []
    for variant in endpoint.variants:
        values = readings(answer, _host_queries(endpoint, variant).gpu, first)
        gpus = _gpus_of_an_instance(variant)
        if values and gpus:
            # SageMaker adds the GPUs of an instance up: eight busy ones are 800%.
            utilization.append(max(values) / gpus)
    return max(utilization, default=None)


def _gpus_of_an_instance(variant: Variant) -> int | None:
    """Return the GPUs of one instance of the variant, by the smallest of its types whose number is
    known; `None` if none is."""
    counts = [accelerators_of(ml_type) for ml_type in variant.count_by_type]
    known = [count for count in counts if count]
    return min(known) if known else None


def _queries(endpoint: Endpoint) -> Iterator[MetricQuery]:
    """Yield all queries about an endpoint: about the calls, about the requests that wait if it is
    asynchronous, and about the instances of each variant."""
    for _, query in _call_queries(endpoint):
        yield query
    if endpoint.is_asynchronous:
        yield _backlog_query(endpoint)
    for variant in endpoint.variants:
        yield from _host_queries(endpoint, variant)


def _call_queries(endpoint: Endpoint) -> Iterator[tuple[str, MetricQuery]]:
    """Yield the queries about calls, each with the name of the variant or component."""
    metrics = _ASYNCHRONOUS_CALLS if endpoint.is_asynchronous else _CALLS
    for variant in endpoint.variants:
        for metric in metrics:
            dimensions = _of_variant(endpoint, variant)
            yield variant.name, _query(CALLS_NAMESPACE, metric, dimensions, "Sum")
    for component in endpoint.component_names:
        dimensions = (("InferenceComponentName", component),)
        yield component, _query(CALLS_NAMESPACE, "Invocations", dimensions, "Sum")


def _backlog_query(endpoint: Endpoint) -> MetricQuery:
    """Return the query about requests that wait."""
    dimensions = (("EndpointName", endpoint.resource_id),)
    return _query(CALLS_NAMESPACE, _BACKLOG, dimensions, "Maximum")


def _host_queries(endpoint: Endpoint, variant: Variant) -> _VariantQueries:
    """Return the queries about the instances of a variant."""
    dimensions = _of_variant(endpoint, variant)
    return _VariantQueries(
        cpu=_query(HOSTS_NAMESPACE, "CPUUtilization", dimensions, "Average"),
        gpu=_query(HOSTS_NAMESPACE, "GPUUtilization", dimensions, "Average"),
    )


def _of_variant(endpoint: Endpoint, variant: Variant) -> _Dimensions:
    """Return the dimensions of a variant's metrics."""
    return (("EndpointName", endpoint.resource_id), ("VariantName", variant.name))


def _query(namespace: str, metric: str, dimensions: _Dimensions, statistic: str) -> MetricQuery:
    """Return a query whose key is unique: no name of SageMaker has a slash."""
    values = [value for _, value in dimensions]
    key = "/".join((metric, *values))
    return MetricQuery(key, namespace, metric, dimensions, statistic)
