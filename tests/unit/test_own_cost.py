"""The own cost of GPU Governor: measured by the stack, priced by one table, beside the fleet."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli import governor, report
from cli import own_cost as measured
from cli.own_cost import UNITS, own_cost, usd_of
from cli.status import Stack
from governor.core.documents import plain
from governor.money.report_savings import ReportFilter
from governor.money.rules.report import report as report_of
from tests.builders import TARGET
from tests.unit.aws.fakes import client_error

START, END = datetime(2028, 2, 1, tzinfo=UTC), datetime(2028, 3, 1, tzinfo=UTC)
QUANTITIES = st.dictionaries(
    st.sampled_from(sorted(UNITS)), st.none() | st.decimals(0, 10**9, places=3), max_size=len(UNITS)
)


@given(QUANTITIES, st.decimals("0.01", 10**6, places=2))
def test_the_cost_is_the_sum_of_what_is_known(
    used: dict[str, Decimal | None], fleet: Decimal
) -> None:
    """Unknown parts are in no sum, and are never zero."""
    cost = own_cost(used)

    known = {name: quantity for name, quantity in used.items() if quantity is not None}
    assert cost.usd == sum((usd_of(name, quantity) for name, quantity in known.items()), Decimal(0))
    assert cost.is_whole is (len(known) == len(used))
    assert [line.usd is None for line in cost.lines].count(True) == len(used) - len(known)
    assert cost.percent_of(fleet) == 100 * cost.usd / fleet
    assert cost.percent_of(Decimal(0)) is None


SUMS: dict[str, list[float]] = {
    "Duration": [3_000_000, 1_000_000],
    "Invocations": [1_000_000, 1_000_000],
    "ConsumedReadCapacityUnits": [8_000_000],
    "ConsumedWriteCapacityUnits": [1_600_000],
    "ExecutionsStarted": [8_000],
    "MetricsRead": [250_000, 250_000],
}


class Metered:
    """A stack of one function, one table and one state machine, and what its metrics say."""

    resources = (
        ("AWS::Lambda::Function", "Sweep", "sweep"),
        ("AWS::DynamoDB::Table", "State", "state"),
        ("AWS::StepFunctions::StateMachine", "Machine", "machine"),
        *(("AWS::KMS::Key", name, name) for name in "ab"),
        ("AWS::SecretsManager::Secret", "Links", "links"),
        ("AWS::CloudWatch::Alarm", "Silence", "silence"),
    )

    def __init__(self, created: datetime = START) -> None:
        self.name, self.described, self.session = "gpu-governor", {"CreationTime": created}, self
        self.denied: set[str] = set()
        self.sums = SUMS

    def client(self, _: str) -> Any:
        """The client of a service: its paginators give one page."""
        answers: dict[str, Any] = {
            "list_functions": lambda **_: {
                "Functions": [
                    {"FunctionName": "sweep", "MemorySize": 512},
                    {"FunctionName": "of others", "MemorySize": 512},
                ]
            },
            "get_metric_data": self._data,
            "list_metrics": lambda **_: {
                "Metrics": [
                    {"Namespace": "gpu-governor", "MetricName": name, "Dimensions": []}
                    for name in ("MetricsRead", "Instances")
                ]
            },
            "get_execution_history": lambda **_: {
                "events": [
                    {"type": one}
                    for one in ("ExecutionStarted", "PassStateEntered", "TaskStateEntered")
                ]
            },
        }

        def page(name: str) -> Any:
            if name in self.denied:
                raise client_error("AccessDenied", name)
            return SimpleNamespace(paginate=lambda **asked: [answers[name](**asked)])

        last = {"executions": [{"executionArn": "a"}, {"executionArn": "b"}]}
        return SimpleNamespace(get_paginator=page, list_executions=lambda **_: last)

    def _data(self, **asked: Any) -> dict[str, Any]:
        names = [
            (one["Id"], one["MetricStat"]["Metric"]["MetricName"])
            for one in asked["MetricDataQueries"]
        ]
        return {
            "MetricDataResults": [
                {"Id": key, "Values": self.sums.get(name, [])} for key, name in names
            ]
        }


def read(stack: Any, fleet: int = 100_000) -> measured.Measured:
    found: Stack = stack
    return measured.read(found, START, END, Decimal(fleet))


def usd(found: measured.Measured) -> dict[str, Decimal | None]:
    """Return what each item cost."""
    names = {unit: name for name, unit in UNITS.items()}
    return {names[line.unit]: line.usd for line in found.cost.lines}


def test_a_month_is_priced_by_what_the_stack_measured() -> None:
    """A leap February, whole; the functions of others are theirs."""
    found = read(Metered())

    assert {
        "metrics": Decimal("5"),
        "transitions": Decimal("0.4"),
        "gb_seconds": Decimal("0.0266668"),
        "invocations": Decimal("0.4"),
        "writes": Decimal("1"),
        "reads": Decimal("1"),
        "keys": Decimal(2),
        "secrets": Decimal("0.4"),
        "alarms": Decimal("0.1"),
        "own_metrics": Decimal("0.6"),
    } == usd(found)
    assert "itself cost $10.93, 0.011% of the fleet's $100,000 (goal: under 0.1%)" in found.lines[0]
    assert max(map(len, found.lines)) <= 110
    assert len(found.lines) == 12
    document = json.loads(json.dumps(found.document, default=plain))
    assert (True, 10) == (document["is_whole"], len(document["lines"]))


def test_a_stack_that_came_in_mid_month_pays_its_keys_from_then_on() -> None:
    """And not for what had not begun."""
    found = usd(read(Metered(END - timedelta(days=29) / 4)))

    assert (Decimal("0.5"), Decimal("0.1")) == (found["keys"], found["secrets"])


def test_a_stack_that_came_after_the_month_has_cost_nothing_in_it() -> None:
    """It was said to have cost less than nothing."""
    stack = Metered(END + timedelta(days=40))
    stack.sums = {}
    found = read(stack)

    assert {Decimal(0), None} == {*usd(found).values()}
    assert "itself cost at least $0.00" in found.lines[0]


@pytest.mark.parametrize(
    ("missing", "items"),
    [
        ({"Duration"}, {"gb_seconds"}),
        ({"MetricsRead"}, {"metrics"}),
        ({"ExecutionsStarted"}, {"transitions"}),
    ],
)
def test_what_has_no_metric_is_not_known(missing: set[str], items: set[str]) -> None:
    """The release before counts no metrics that it reads."""
    stack = Metered()
    stack.sums = {name: values for name, values in SUMS.items() if name not in missing}
    found = read(stack)

    assert items == {name for name, amount in usd(found).items() if amount is None}
    assert "cost at least $" in found.lines[0]
    assert any("not known" in line for line in found.lines)


def test_what_may_not_be_read_is_said_and_the_rest_is_there() -> None:
    """With the call that was refused."""
    stack = Metered()
    stack.denied = {"list_functions"}
    found = read(stack)

    assert {"gb_seconds", "invocations"} == {
        name for name, amount in usd(found).items() if amount is None
    }
    assert any(line.startswith("Not read: ") and "list_functions" in line for line in found.lines)


def test_the_report_has_it_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    """With everything, as a table or JSON: a part of the fleet has no own cost."""
    assert 1 == governor.main(["report", "--own-cost", "--owner", "ada"])
    assert "goes with the table or the json of everything" in capsys.readouterr().err
    empty = report_of((), (), START, END, END, timedelta(days=30))
    alert = report.alert_of(empty, TARGET, ReportFilter(), END)

    own = read(Metered())
    table, document = (report.shown(empty, chosen, alert, own) for chosen in ("table", "json"))

    assert "\n".join(own.lines) in table
    assert "10.93" in table
    assert json.loads(document)["own_cost"]["fleet_usd"] == "100000"
    assert "own_cost" not in json.loads(report.shown(empty, "json", alert))
