"""Dashboards as CloudWatch takes them, of figures that the code publishes and alarms that exist.

Source of the rules: CloudWatch API Reference, Dashboard Body Structure and Syntax.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from local.engine.templates import expand_template
from tests.unit.template.machines import ROOT

DASHBOARDS = {"template.yaml": "Dashboard", "stacks/telemetry.yaml": "FleetDashboard"}
GIVEN = {
    "AWS::AccountId": "111122223333",
    "AWS::Partition": "aws",
    "AWS::Region": "eu-west-1",
    "AWS::StackName": "gpu-governor",
    "Base": "https://gpu.example.com",
    "OpenEpisodeLogs": "/aws/lambda/open",
}
PROPERTIES = {
    "text": {"markdown", "background"},
    "alarm": {"title", "alarms", "sortBy", "states"},
    "log": {"title", "region", "view", "query"},
    "metric": {
        *(
            "title",
            "region",
            "view",
            "stacked",
            "period",
            "stat",
            "metrics",
            "yAxis",
            "annotations",
            "legend",
        ),
        *(
            "liveData",
            "sparkline",
            "timezone",
            "setPeriodToTimeRange",
            "singleValueFullPrecision",
            "trend",
        ),
    },
}
RENDERING = {"color", "expression", "id", "label", "period", "region", "stat", "visible", "yAxis"}
VIEWS = {"timeSeries", "singleValue", "gauge", "bar", "pie", "table"}
QUERY = re.compile(
    r"SELECT (AVG|COUNT|MAX|MIN|SUM)\((?P<metric>\w+)\) FROM "
    r'(SCHEMA\()?"(?P<namespace>[\w/-]+)"(, "\w+"\))?'
    r'(?P<where> WHERE \w+ = \'[\w-]+\')?( GROUP BY "(?P<group>\w+)" ORDER BY \1\(\) (ASC|DESC))?'
)


def resources(path: str) -> dict[str, Any]:
    """Return what a template holds, its loops written out."""
    found: dict[str, Any] = expand_template(ROOT / path)["Resources"]
    return found


def body(path: str) -> dict[str, Any]:
    """The body with what CloudFormation puts in: alarms as `arn:<logical id>`, so unknown ones
    stand out."""
    given = resources(path)[DASHBOARDS[path]]["Properties"]["DashboardBody"]["Fn::Sub"]
    text = given if isinstance(given, str) else given[0]
    parts = {} if isinstance(given, str) else given[1]
    if "HeatAlarm" in parts:
        # An alarm that is there under a condition.
        text = text.replace("${HeatAlarm}", parts["HeatAlarm"]["Fn::If"][1]["Fn::Sub"])
    parameters = {
        name: str(one.get("Default", ""))
        for name, one in expand_template(ROOT / path).get("Parameters", {}).items()
    }

    def put_in(found: re.Match[str]) -> str:
        name = found[1]
        return (
            f"arn:{name.removesuffix('.Arn')}"
            if name.endswith(".Arn")
            else {**parameters, **GIVEN}[name]
        )

    document: dict[str, Any] = json.loads(re.sub(r"\$\{([\w:.]+)\}", put_in, text))
    return document


def metrics(path: str) -> Iterator[list[Any]]:
    """Each metric of each widget, with `.` written out as the value above it; how to draw it comes
    last."""
    for widget in body(path)["widgets"]:
        above: list[Any] = []
        for row in widget["properties"].get("metrics", ()):
            names = [
                above[n] if one == "." else one for n, one in enumerate(row) if isinstance(one, str)
            ]
            above = names or above
            yield [*names, next((one for one in row if isinstance(one, dict)), {})]


def published() -> set[tuple[str, str, str]]:
    """Function, metric and dimension of whatever the functions count; `service` where they name
    none."""
    found = set()
    for handler in (ROOT / "functions").glob("*/handler.py"):
        for node in ast.walk(ast.parse(handler.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "count"
            ):
                assert isinstance(node.args[0], ast.Constant)
                keys = [keyword.arg for keyword in node.keywords if keyword.arg] or ["service"]
                found |= {(handler.parent.name, str(node.args[0].value), key) for key in keys}
    return found


@pytest.mark.parametrize("path", DASHBOARDS)
def test_cloudwatch_takes_the_body(path: str) -> None:
    """Known types and properties, what each needs, 24 columns, nothing over anything else."""
    taken: set[tuple[int, int]] = set()
    ids: list[str] = []
    for widget in body(path)["widgets"]:
        kind, properties = widget["type"], widget["properties"]
        assert {"type", "x", "y", "width", "height", "properties"} == set(widget)
        assert set() == set(properties) - PROPERTIES[kind]
        columns = range(widget["x"], widget["x"] + widget["width"])
        cells = {
            (x, y) for x in columns for y in range(widget["y"], widget["y"] + widget["height"])
        }
        assert (True, set()) == (max(columns) < 24, cells & taken)
        taken |= cells
        match kind:
            case "text":
                assert properties["markdown"]
            case "alarm":
                assert 1 <= len(properties["alarms"]) <= 100
            case _:
                assert "eu-west-1" == properties["region"]
                assert properties["view"] in VIEWS
    for *names, rendering in metrics(path):
        assert set() == set(rendering) - RENDERING
        assert bool(names) != ("expression" in rendering)
        ids += [rendering["id"]] if "id" in rendering else []
    assert len(ids) == len(set(ids))
    assert [] == [one for one in ids if not re.fullmatch("[a-z][a-zA-Z0-9_]*", one)]


@pytest.mark.parametrize("path", DASHBOARDS)
def test_every_kind_of_widget_is_there(path: str) -> None:
    """Text that says where to go, numbers, the state of all alarms, and pictures."""
    widgets = body(path)["widgets"]

    assert {"text", "alarm", "metric"} == {widget["type"] for widget in widgets} - {"log"}
    assert {"singleValue", "timeSeries"} == {
        widget["properties"]["view"] for widget in widgets if widget["type"] == "metric"
    }


@pytest.mark.parametrize("path", DASHBOARDS)
def test_all_alarms_of_the_stack_are_shown_and_no_others(path: str) -> None:
    """A new alarm is not forgotten."""
    (widget,) = (widget for widget in body(path)["widgets"] if widget["type"] == "alarm")
    shown = widget["properties"]["alarms"]

    alarms = {
        name for name, one in resources(path).items() if one["Type"] == "AWS::CloudWatch::Alarm"
    }
    assert {f"arn:{name}" for name in alarms} == set(shown)
    assert len(shown) == len(set(shown))


def test_the_hubs_dashboard_shows_what_the_functions_count() -> None:
    """By the names and dimensions under which they publish."""
    known = published()
    shown = []
    for *names, rendering in metrics("template.yaml"):
        if names:
            namespace, metric, dimension, function = names
            assert (function, metric, dimension) in known
        else:
            query = QUERY.fullmatch(rendering["expression"])
            assert query, rendering["expression"]
            namespace, metric = query["namespace"], query["metric"]
            assert (metric, query["group"]) in {(name, key) for _, name, key in known}
        assert "gpu-governor" == namespace
        shown.append(metric)

    figures = {
        "Instances",
        "Outcomes",
        "SweepProblems",
        "SavedMonthToDate",
        "EstimatedCost",
        "FalseStops",
    }
    assert figures | {"HighestBudgetUsedPercent"} == set(shown)


def test_the_hubs_dashboard_names_idle_instances() -> None:
    """From the log of the function that opens their episodes: a name as a dimension would be
    billed."""
    (log,) = (widget for widget in body("template.yaml")["widgets"] if widget["type"] == "log")
    query = log["properties"]["query"]

    assert query.startswith("SOURCE '/aws/lambda/open' | ")
    fields = re.search(r"fields @timestamp, ([\w, ]+) \|", query)
    assert fields
    source = (ROOT / "functions" / "open_episode" / "handler.py").read_text(encoding="utf-8")
    assert all(f'"{name}": ' in source for name in fields[1].split(", "))
    assert '"instance": episode.instance.name' in source


def test_the_hubs_dashboard_leads_to_the_console() -> None:
    """By the address that people use."""
    (text,) = (widget for widget in body("template.yaml")["widgets"] if widget["type"] == "text")

    for link in (
        "[Open the console](https://gpu.example.com/)",
        "[the Fleet](https://gpu.example.com/fleet)",
    ):
        assert link in text["properties"]["markdown"]
    given = resources("template.yaml")["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"][1]
    api = {"Fn::GetAtt": ["Api", "ApiEndpoint"]}
    assert {"Base": {"Fn::If": ["HasBaseUrl", {"Ref": "ApprovalBaseUrl"}, api]}} == given
