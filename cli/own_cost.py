"""The use and cost of GPU Governor itself in a month, by the metrics and the resources of its
stack, times list prices in us-east-1, in Decimal USD. Reads only."""

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
from governor.domain.money.cost import month_end
from governor.domain.units import Usd, in_parts, money, printable, usd

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
    return UNITS[unit].usd * quantity / UNITS[unit].per


class Line(NamedTuple):
    """`quantity` and `usd` are `None` where the use is not known; that is in no sum."""

    unit: Unit
    quantity: Decimal | None
    usd: Usd | None


@dataclass(frozen=True, slots=True)
class OwnCost:
    lines: tuple[Line, ...]

    @property
    def usd(self) -> Usd:
        return sum((line.usd for line in self.lines if line.usd is not None), Decimal(0))

    @property
    def is_whole(self) -> bool:
        return all(line.usd is not None for line in self.lines)

    def percent_of(self, fleet: Usd) -> Decimal | None:
        """Return its share in what the fleet costs; `None` where that is nothing."""
        return 100 * self.usd / fleet if fleet else None


def own_cost(used: Mapping[str, Decimal | None]) -> OwnCost:
    """Return what was used of each of `UNITS`, the most expensive first."""
    lines = (
        Line(UNITS[name], quantity, None if quantity is None else usd_of(name, quantity))
        for name, quantity in used.items()
    )
    return OwnCost(tuple(sorted(lines, key=lambda line: -(line.usd or 0))))


def read(stack: Stack, start: datetime, end: datetime, fleet: Decimal) -> Measured:
    """Return what it has cost from `start` to `end` in one month, beside what the fleet did."""
    used: dict[str, Decimal | None] = dict.fromkeys((*_MEASURED, *_FIXED))
    problems = []
    begun = min(end, max(start, stack.described["CreationTime"]))
    months = Decimal((end - begun) // timedelta(seconds=1)) / (
        (month_end(start) - start) // timedelta(seconds=1)
    )
    parts: list[Callable[[], Mapping[str, Decimal | None]]] = [
        partial(_functions, stack, start, end),
        partial(_table, stack, start, end),
        partial(_machines, stack, start, end),
        partial(_own, stack, start, end, months),
        partial(_fixed, stack, months),
    ]
    for part in parts:
        try:
            used |= part()
        except (ClientError, BotoCoreError) as error:
            problems.append(aws.reason(error))
    return Measured(own_cost(used), problems, fleet)


def _functions(stack: Stack, start: datetime, end: datetime) -> dict[str, Decimal | None]:
    names = set(_ids(stack, "AWS::Lambda::Function"))
    pages = stack.session.client("lambda").get_paginator("list_functions").paginate()
    found = [one for page in pages for one in page["Functions"] if one["FunctionName"] in names]
    memory = {one["FunctionName"]: Decimal(one["MemorySize"]) / 1024 for one in found}
    asked = {
        (metric, name): ("AWS/Lambda", metric, (("FunctionName", name),))
        for name in memory
        for metric in ("Duration", "Invocations")
    }
    sums = _sums(stack, asked, start, end)
    milliseconds = [
        sums["Duration", name] * gib for name, gib in memory.items() if ("Duration", name) in sums
    ]
    calls = [usd for (metric, _), usd in sums.items() if metric == "Invocations"]
    return {"gb_seconds": _total(milliseconds, 1_000), "invocations": _total(calls)}


def _table(stack: Stack, start: datetime, end: datetime) -> dict[str, Decimal | None]:
    asked = {
        (name, table): ("AWS/DynamoDB", f"Consumed{kind}CapacityUnits", (("TableName", table),))
        for table in _ids(stack, "AWS::DynamoDB::Table")
        for name, kind in (("reads", "Read"), ("writes", "Write"))
    }
    sums = _sums(stack, asked, start, end)
    return {
        name: _total([usd for (one, _), usd in sums.items() if one == name])
        for name in ("reads", "writes")
    }


def _machines(stack: Stack, start: datetime, end: datetime) -> dict[str, Decimal | None]:
    asked = {
        one: ("AWS/States", "ExecutionsStarted", (("StateMachineArn", one),))
        for one in _ids(stack, _MACHINE)
    }
    started = _sums(stack, asked, start, end)
    return {
        "transitions": _total(
            [number * _states(stack, arn) for arn, number in started.items() if number]
        )
    }


def _states(stack: Stack, machine: str) -> Decimal:
    """The mean number of states that one of the last executions has entered."""
    client = stack.session.client("stepfunctions")
    last = client.list_executions(stateMachineArn=machine, maxResults=_SAMPLED)["executions"]
    pages = client.get_paginator("get_execution_history")
    entered = sum(
        event["type"].endswith("StateEntered")
        for one in last
        for page in pages.paginate(executionArn=one["executionArn"], includeExecutionData=False)
        for event in page["events"]
    )
    return Decimal(entered) / max(1, len(last))


def _own(
    stack: Stack, start: datetime, end: datetime, months: Decimal
) -> dict[str, Decimal | None]:
    pages = (
        stack.session.client("cloudwatch")
        .get_paginator("list_metrics")
        .paginate(Namespace=stack.name)
    )
    found: list[Metric] = [
        (
            one["Namespace"],
            one["MetricName"],
            tuple((d["Name"], d["Value"]) for d in one["Dimensions"]),
        )
        for page in pages
        for one in page["Metrics"]
    ]
    asked = {one: one for one in found if one[1] == "MetricsRead"}
    return {
        "own_metrics": len(found) * months,
        "metrics": _total([*_sums(stack, asked, start, end).values()]),
    }


def _fixed(stack: Stack, months: Decimal) -> dict[str, Decimal | None]:
    return {name: len(_ids(stack, kind)) * months for name, kind in _FIXED.items()}


def _ids(stack: Stack, kind: str) -> list[str]:
    return [physical for found, _, physical in stack.resources if found == kind]


def _total(found: Sequence[Decimal], per: int = 1) -> Decimal | None:
    """Their sum; `None` where there is not one of them: nothing was measured."""
    return sum(found, Decimal(0)) / per if found else None


def _sums(
    stack: Stack, asked: Mapping[Key, Metric], start: datetime, end: datetime
) -> dict[Key, Decimal]:
    """The sum of each metric in that time, of those that have any."""
    client = stack.session.client("cloudwatch")
    found: dict[Key, Decimal] = defaultdict(Decimal)
    for part in in_parts(list(asked), _QUERIES):
        queries: Any = [_query(f"q{number}", asked[key]) for number, key in enumerate(part)]
        pages = client.get_paginator("get_metric_data")
        for page in pages.paginate(MetricDataQueries=queries, StartTime=start, EndTime=end):
            for one in page["MetricDataResults"]:
                for value in one["Values"]:
                    found[part[int(one["Id"][1:])]] += Decimal(str(value))
    return dict(found)


def _query(name: str, metric: Metric) -> dict[str, Any]:
    namespace, what, dimensions = metric
    named = [{"Name": one, "Value": value} for one, value in dimensions]
    asked = {"Namespace": namespace, "MetricName": what, "Dimensions": named}
    period = int(_DAY.total_seconds())
    return {"Id": name, "MetricStat": {"Metric": asked, "Period": period, "Stat": "Sum"}}


class Measured(NamedTuple):
    """Its cost beside the list price of the `fleet`; `problems` say why some of it is not known."""

    cost: OwnCost
    problems: Sequence[str]
    fleet: Decimal

    @property
    def lines(self) -> list[str]:
        """It for people."""
        cost, share = self.cost, self.cost.percent_of(self.fleet)
        beside = "" if share is None else f", {money(share, 3)}% of the fleet's {usd(self.fleet)}"
        least = "" if cost.is_whole else "at least "
        return [
            f"GPU Governor itself cost {least}${money(cost.usd)}{beside} (goal: under 0.1%).",
            *map(_text, cost.lines),
            "Logs, traces, messages, storage and requests to KMS are in no figure. List "
            "prices in us-east-1.",
            *(f"Not read: {printable(one)}" for one in self.problems),
        ]

    @property
    def document(self) -> dict[str, object]:
        """It for machines."""
        names = {unit: name for name, unit in UNITS.items()}
        return {
            "usd": self.cost.usd,
            "is_whole": self.cost.is_whole,
            "fleet_usd": self.fleet,
            "percent_of_fleet": self.cost.percent_of(self.fleet),
            "lines": [
                {
                    "name": names[one.unit],
                    "quantity": one.quantity,
                    "usd": one.usd,
                    "source": one.unit.source,
                }
                for one in self.cost.lines
            ],
            "problems": list(self.problems),
        }


def _text(line: Line) -> str:
    if line.quantity is None:
        return f"  not known  {line.unit.what}"
    quantity = money(line.quantity, 0 if line.quantity > 100 else 2)
    return (
        f"{'$' + money(line.usd or Decimal(0)):>11}  {quantity} {line.unit.what} "
        f"({line.unit.source})"
    )
