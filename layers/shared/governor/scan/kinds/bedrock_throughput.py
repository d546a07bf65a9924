"""Bedrock's provisioned throughputs: model units that are paid by the hour, invoked or not.

Bedrock publishes `Invocations` only when a model is invoked, and no other figure that would prove
that a throughput was measured. Silence is therefore weak evidence. Source: Bedrock user guide,
"Monitor bedrock-runtime inference using CloudWatch metrics".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import join
from typing import Any

from governor.core.units import UsdPerHour, UtcDatetime, as_utc, plural, printable, span
from governor.evidence.ports import MetricQuery
from governor.scan.kind import Kind, Place
from governor.scan.kinds.calls import (
    GET_METRIC_DATA,
    GRACE,
    calls_window,
    first_hour,
    problem_of,
    readings,
    report_problem,
)
from governor.scan.model import Finding, Judgment, Resource, Strength

_LIST = "bedrock:ListProvisionedModelThroughputs"
_TOPIC = "Bedrock provisioned throughputs"
_PAGE = 100
_METRICS = (
    "Invocations",
    "InvocationClientErrors",
    "InvocationServerErrors",
    "InvocationThrottles",
)
"""Calls of a model, with those that failed: they, too, say that somebody uses it."""


@dataclass(frozen=True, slots=True)
class Throughput(Resource):
    """A provisioned throughput that is in service."""

    committed_until: UtcDatetime | None = None
    """When its commitment ends; `None` without one. Until then it cannot be deleted."""


@dataclass(frozen=True, slots=True)
class ThroughputUse:
    """Calls of a provisioned throughput since the start of the window, or its creation."""

    since: UtcDatetime
    calls: float
    problem: str
    """The reason why calls could not be read; empty if they were."""


class BedrockThroughputs(Kind[Throughput, ThroughputUse]):
    """Provisioned throughputs in service, judged by the calls of their models."""

    name = "bedrock-throughput"
    words = _TOPIC
    service = "bedrock"
    operations = (_LIST, GET_METRIC_DATA)

    def list(self, place: Place) -> Sequence[Throughput]:
        """Return the provisioned throughputs; empty if there are none. Raises: CloudError."""

        def read(record: Any) -> Throughput:
            """Return the provisioned throughput in a record of Bedrock's answer."""
            return _throughput(place, record)

        throughputs: list[Throughput] = []
        asked: dict[str, Any] = {"statusEquals": "InService", "maxResults": _PAGE}
        for page in place.pages(_LIST, following="nextToken", **asked):
            records = page.get("provisionedModelSummaries") or ()
            throughputs += place.read_each(_TOPIC, _LIST, records, read)
        return throughputs

    def measure(self, place: Place, resources: Sequence[Throughput]) -> Mapping[str, ThroughputUse]:
        """Return the calls of each provisioned throughput by its ARN. Raises nothing: what cannot
        be read is a problem of its throughput, and reported."""
        window = calls_window(place.now)
        queries: list[MetricQuery] = []
        for resource in resources:
            queries += _queries(resource)
        answer = place.metrics.read(place.target, queries, window)
        uses: dict[str, ThroughputUse] = {}
        for resource in resources:
            created = resource.since or window.start
            first = first_hour(window, created)
            calls = 0.0
            problems: list[str] = []
            for query in _queries(resource):
                calls += sum(readings(answer, query, first))
                problems += problem_of(answer, query)
            problem = "; ".join(dict.fromkeys(problems))
            if problem:
                report_problem(place, _TOPIC, problem)
            uses[resource.resource_id] = ThroughputUse(max(created, window.start), calls, problem)
        return uses

    def price(self, place: Place, resource: Throughput) -> UsdPerHour | None:
        """Return `None`: the Price List names models in ways that do not lead from an ARN to one
        price."""
        return None

    def own_judgment(
        self, place: Place, resource: Throughput, measured: ThroughputUse | None
    ) -> Judgment:
        """Return the judgment of a throughput by the calls that were `measured`. Its evidence of
        idleness is weak at most."""
        return judge_throughput(resource, measured, place.now)

    def own_command(self, resource: Throughput, judgment: Judgment) -> str:
        """Return the command that shows the throughput; empty if it works, or is too young to be
        judged."""
        if judgment.finding in (Finding.BUSY, Finding.TOO_YOUNG):
            return ""
        operation = "get-provisioned-model-throughput"
        where = ("--region", resource.target.region)
        arn = ("--provisioned-model-id", resource.resource_id)
        return join(("aws", "bedrock", operation, *where, *arn))


def judge_throughput(
    throughput: Throughput, use: ThroughputUse | None, now: UtcDatetime
) -> Judgment:
    """Return the judgment of a provisioned throughput by its calls: one call makes it busy. Without
    calls it is likely idle, by weak evidence, unless it is too young or its metrics could not be
    read. `use` is `None` if they were not read at all."""
    if use is None:
        return Judgment(Finding.NOT_MEASURED, Strength.NONE, "its metrics were not read")
    age = now - use.since
    if use.calls > 0:
        evidence = f"{use.calls:,.0f} calls in {span(age)}"
        return Judgment(Finding.BUSY, Strength.STRONG, evidence)
    if age < GRACE:
        evidence = f"created {span(age)} ago, not called yet; judged after {span(GRACE)}"
        return Judgment(Finding.TOO_YOUNG, Strength.NONE, evidence)
    if use.problem:
        evidence = f"CloudWatch could not be read: {printable(use.problem)}"
        return Judgment(Finding.NOT_MEASURED, Strength.NONE, evidence)
    evidence = f"no call was published in {span(age)}; Bedrock publishes nothing without calls"
    if throughput.committed_until is not None and throughput.committed_until > now:
        evidence += f"; it cannot be deleted before {throughput.committed_until:%Y-%m-%d}"
    return Judgment(Finding.LIKELY_IDLE, Strength.WEAK, evidence, use.since)


def _throughput(place: Place, record: Mapping[str, Any]) -> Throughput:
    """Return a provisioned throughput. Raises: LookupError, TypeError or ValueError for a record in
    another form."""
    units = plural(record["modelUnits"], "model unit")
    model = record.get("foundationModelArn") or record["modelArn"]
    expires = record.get("commitmentExpirationTime")
    return Throughput(
        target=place.target,
        resource_id=record["provisionedModelArn"],
        what=printable(f"{units} of {model.rpartition('/')[2]}"),
        name=printable(record["provisionedModelName"]),
        since=as_utc(record["creationTime"]),
        committed_until=None if expires is None else as_utc(expires),
    )


def _queries(throughput: Throughput) -> Iterator[MetricQuery]:
    """Yield the queries about the calls of a provisioned throughput."""
    dimensions = (("ModelId", throughput.resource_id),)
    for metric in _METRICS:
        key = f"{metric} {throughput.resource_id}"
        yield MetricQuery(key, "AWS/Bedrock", metric, dimensions, "Sum")
