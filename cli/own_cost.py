"""The use and cost of GPU Governor itself in a month. Reads only.

Use comes from the metrics and the resources of its stack. It is multiplied by list prices in
us-east-1, in Decimal USD.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from cli import aws
from cli.status import Stack
from governor.core.units import Usd, in_parts, money, printable, usd
from governor.money.rules.cost import month_end

_DAY = timedelta(days=1)
_QUERIES = 500
"""Most queries of one GetMetricData."""
_SAMPLED = 20
"""Executions of a state machine whose states are counted."""
_FIXED = {
    "keys": "AWS::KMS::Key",
    "secrets": "AWS::SecretsManager::Secret",
    "alarms": "AWS::CloudWatch::Alarm",
}
_MEASURED = "metrics", "transitions", "gb_seconds", "invocations", "writes", "reads", "own_metrics"
_MACHINE = "AWS::StepFunctions::StateMachine"

Key = TypeVar("Key")
Metric = tuple[str, str, tuple[tuple[str, str], ...]]
"""Namespace, name and dimensions."""


class Unit(NamedTuple):
    """A price in USD for so many (`per`). `source` says what its use is measured by."""

    what: str
    usd: Usd
    per: int
    source: str


UNITS: Mapping[str, Unit] = {
    "metrics": Unit("CloudWatch metrics read", Decimal("0.01"), 1_000, "MetricsRead"),
    "listings": Unit("calls of ListMetrics", Decimal("0.01"), 1_000, "calls"),
    "transitions": Unit(
        "state transitions", Decimal("0.025"), 1_000, "ExecutionsStarted x states of the last"
    ),
    "gb_seconds": Unit("GB-seconds of Lambda", Decimal("0.0000133334"), 1, "Duration x memory"),
    "invocations": Unit("invocations of Lambda", Decimal("0.20"), 1_000_000, "Invocations"),
    "writes": Unit(
        "DynamoDB write units", Decimal("0.625"), 1_000_000, "ConsumedWriteCapacityUnits"
    ),
    "reads": Unit("DynamoDB read units", Decimal("0.125"), 1_000_000, "ConsumedReadCapacityUnits"),
    "keys": Unit("months of KMS keys", Decimal(1), 1, "resources of the stack"),
    "secrets": Unit("months of secrets", Decimal("0.40"), 1, "resources of the stack"),
    "alarms": Unit("months of CloudWatch alarms", Decimal("0.10"), 1, "resources of the stack"),
    "own_metrics": Unit("months of metrics of its own", Decimal("0.30"), 1, "ListMetrics, at most"),
}
"""Lambda is that on arm64. Source: the price pages of the services."""


def usd_of(unit: str, quantity: Decimal | int) -> Usd:
    """Return what so much of a unit costs."""
    return UNITS[unit].usd * quantity / UNITS[unit].per


class Line(NamedTuple):
    """The use of one unit.

    `quantity` and `usd` are `None` where the use is not known; no sum counts it.
    """

    unit: Unit
    quantity: Decimal | None
    usd: Usd | None


@dataclass(frozen=True, slots=True)
class OwnCost:
    """The use of all units, and what it costs together."""

    lines: tuple[Line, ...]

    @property
    def usd(self) -> Usd:
        """Return the sum of what is known."""
        known_costs = []
        for line in self.lines:
            if line.usd is not None:
                known_costs.append(line.usd)
        return sum(known_costs, Decimal(0))

    @property
    def is_whole(self) -> bool:
        """Return whether the use of every unit is known."""
        return all(line.usd is not None for line in self.lines)

    def percent_of(self, fleet: Usd) -> Decimal | None:
        """Return its share in what the fleet costs, or `None` if the fleet costs nothing."""
        if not fleet:
            return None
        return 100 * self.usd / fleet


def own_cost(used: Mapping[str, Decimal | None]) -> OwnCost:
    """Return what was used of each of `UNITS`, the most expensive first."""
    lines = []
    for name, quantity in used.items():
        cost = None if quantity is None else usd_of(name, quantity)
        lines.append(Line(UNITS[name], quantity, cost))
    lines.sort(key=lambda line: -(line.usd or 0))
    return OwnCost(tuple(lines))


def read(stack: Stack, start: datetime, end: datetime, fleet: Decimal) -> Measured:
    """Return what it has cost from `start` to `end` in one month, beside what the fleet did."""
    used: dict[str, Decimal | None] = dict.fromkeys((*_MEASURED, *_FIXED))
    problems = []
    months = _months(stack, start, end)
    parts: list[Callable[[], Mapping[str, Decimal | None]]] = [
        partial(_functions, stack, start, end),
        partial(_table, stack, start, end),
        partial(_machines, stack, start, end),
        partial(_own, stack, start, end, months),
        partial(_fixed, stack, months),
    ]
    for read_part in parts:
        try:
            used |= read_part()
        except (ClientError, BotoCoreError) as error:
            problems.append(aws.reason(error))
    return Measured(own_cost(used), problems, fleet)


def _months(stack: Stack, start: datetime, end: datetime) -> Decimal:
    """Return for which part of the month the stack has existed until `end`."""
    second = timedelta(seconds=1)
    created_at = stack.described["CreationTime"]
    existed_from = min(end, max(start, created_at))
    seconds = Decimal((end - existed_from) // second)
    return seconds / ((month_end(start) - start) // second)


def _functions(stack: Stack, start: datetime, end: datetime) -> dict[str, Decimal | None]:
    gib_by_function = _memory(stack)
    metrics: dict[tuple[str, str], Metric] = {}
    for name in gib_by_function:
        for metric in ("Duration", "Invocations"):
            metrics[metric, name] = ("AWS/Lambda", metric, (("FunctionName", name),))
    sums = _sums(stack, metrics, start, end)
    gb_milliseconds = []
    invocations = []
    for name, gib in gib_by_function.items():
        if ("Duration", name) in sums:
            gb_milliseconds.append(sums["Duration", name] * gib)
        if ("Invocations", name) in sums:
            invocations.append(sums["Invocations", name])
    return {"gb_seconds": _total(gb_milliseconds, 1_000), "invocations": _total(invocations)}


def _memory(stack: Stack) -> dict[str, Decimal]:
    """Return the memory in GiB of each function of the stack."""
    names = set(_ids(stack, "AWS::Lambda::Function"))
    pages = stack.session.client("lambda").get_paginator("list_functions").paginate()
    gib_by_function = {}
    for page in pages:
        for function in page["Functions"]:
            if function["FunctionName"] in names:
                gib_by_function[function["FunctionName"]] = Decimal(function["MemorySize"]) / 1024
    return gib_by_function


def _table(stack: Stack, start: datetime, end: datetime) -> dict[str, Decimal | None]:
    metrics: dict[tuple[str, str], Metric] = {}
    for table in _ids(stack, "AWS::DynamoDB::Table"):
        dimensions = (("TableName", table),)
        metrics["reads", table] = ("AWS/DynamoDB", "ConsumedReadCapacityUnits", dimensions)
        metrics["writes", table] = ("AWS/DynamoDB", "ConsumedWriteCapacityUnits", dimensions)
    reads = []
    writes = []
    for (kind, _), total in _sums(stack, metrics, start, end).items():
        if kind == "reads":
            reads.append(total)
        else:
            writes.append(total)
    return {"reads": _total(reads), "writes": _total(writes)}


def _machines(stack: Stack, start: datetime, end: datetime) -> dict[str, Decimal | None]:
    metrics: dict[str, Metric] = {}
    for arn in _ids(stack, _MACHINE):
        metrics[arn] = ("AWS/States", "ExecutionsStarted", (("StateMachineArn", arn),))
    transitions = []
    for arn, started in _sums(stack, metrics, start, end).items():
        if started:
            transitions.append(started * _states(stack, arn))
    return {"transitions": _total(transitions)}


def _states(stack: Stack, machine: str) -> Decimal:
    """Return the mean number of states that one of the last executions has entered."""
    client = stack.session.client("stepfunctions")
    answer = client.list_executions(stateMachineArn=machine, maxResults=_SAMPLED)
    executions = answer["executions"]
    paginator = client.get_paginator("get_execution_history")
    entered = 0
    for execution in executions:
        pages = paginator.paginate(
            executionArn=execution["executionArn"], includeExecutionData=False
        )
        for page in pages:
            entered += sum(event["type"].endswith("StateEntered") for event in page["events"])
    return Decimal(entered) / max(1, len(executions))


def _own(
    stack: Stack, start: datetime, end: datetime, months: Decimal
) -> dict[str, Decimal | None]:
    """Return the metrics that it publishes itself, and how many it has read."""
    paginator = stack.session.client("cloudwatch").get_paginator("list_metrics")
    metrics: list[Metric] = []
    for page in paginator.paginate(Namespace=stack.name):
        for listed in page["Metrics"]:
            dimensions = []
            for dimension in listed["Dimensions"]:
                dimensions.append((dimension["Name"], dimension["Value"]))
            metrics.append((listed["Namespace"], listed["MetricName"], tuple(dimensions)))
    read_metrics = {metric: metric for metric in metrics if metric[1] == "MetricsRead"}
    read_sums = _sums(stack, read_metrics, start, end)
    return {"own_metrics": len(metrics) * months, "metrics": _total([*read_sums.values()])}


def _fixed(stack: Stack, months: Decimal) -> dict[str, Decimal | None]:
    """Return the use of what is paid by the month, and not by use."""
    return {name: len(_ids(stack, kind)) * months for name, kind in _FIXED.items()}


def _ids(stack: Stack, kind: str) -> list[str]:
    """Return the physical ids of the stack's resources of a type."""
    return [physical_id for resource, _, physical_id in stack.resources if resource == kind]


def _total(amounts: Sequence[Decimal], per: int = 1) -> Decimal | None:
    """Return the sum, or `None` if there are no amounts: nothing was measured."""
    if not amounts:
        return None
    return sum(amounts, Decimal(0)) / per


def _sums(
    stack: Stack, metrics: Mapping[Key, Metric], start: datetime, end: datetime
) -> dict[Key, Decimal]:
    """Return the sum of each metric in that time, of those that have any values."""
    client = stack.session.client("cloudwatch")
    sums: dict[Key, Decimal] = defaultdict(Decimal)
    for part in in_parts(list(metrics), _QUERIES):
        queries: Any = [_query(f"q{number}", metrics[key]) for number, key in enumerate(part)]
        paginator = client.get_paginator("get_metric_data")
        for page in paginator.paginate(MetricDataQueries=queries, StartTime=start, EndTime=end):
            for series in page["MetricDataResults"]:
                key = part[int(series["Id"].removeprefix("q"))]
                for point in series["Values"]:
                    sums[key] += Decimal(str(point))
    return dict(sums)


def _query(query_id: str, metric: Metric) -> dict[str, Any]:
    """Return the query for the sums of each day."""
    namespace, metric_name, dimensions = metric
    described = {
        "Namespace": namespace,
        "MetricName": metric_name,
        "Dimensions": [{"Name": name, "Value": value} for name, value in dimensions],
    }
    period = int(_DAY.total_seconds())
    return {"Id": query_id, "MetricStat": {"Metric": described, "Period": period, "Stat": "Sum"}}


class Measured(NamedTuple):
    """Its cost beside the list price of the `fleet`; `problems` say why some of it is not known."""

    cost: OwnCost
    problems: Sequence[str]
    fleet: Decimal

    @property
    def lines(self) -> list[str]:
        """The lines for people."""
        cost = self.cost
        at_least = "" if cost.is_whole else "at least "
        heading = f"GPU Governor itself cost {at_least}${money(cost.usd)}"
        percent = cost.percent_of(self.fleet)
        if percent is not None:
            heading += f", {money(percent, 3)}% of the fleet's {usd(self.fleet)}"
        return [
            f"{heading} (goal: under 0.1%).",
            *[_text(line) for line in cost.lines],
            "Logs, traces, messages, storage and requests to KMS are not included. List "
            "prices in us-east-1.",
            *[f"Not read: {printable(problem)}" for problem in self.problems],
        ]

    @property
    def document(self) -> dict[str, object]:
        """The document for machines."""
        return {
            "usd": self.cost.usd,
            "is_whole": self.cost.is_whole,
            "fleet_usd": self.fleet,
            "percent_of_fleet": self.cost.percent_of(self.fleet),
            "lines": [_line_document(line) for line in self.cost.lines],
            "problems": list(self.problems),
        }


def _line_document(line: Line) -> dict[str, object]:
    name = next(name for name, unit in UNITS.items() if unit == line.unit)
    return {
        "name": name,
        "quantity": line.quantity,
        "usd": line.usd,
        "source": line.unit.source,
    }


def _text(line: Line) -> str:
    """Return the line for people."""
    if line.quantity is None:
        return f"  not known  {line.unit.what}"
    places = 0 if line.quantity > 100 else 2
    cost = f"${money(line.usd or Decimal(0))}"
    return f"{cost:>11}  {money(line.quantity, places)} {line.unit.what} ({line.unit.source})"
